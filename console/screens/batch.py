"""A running batch: how far it is, how each entry ended, and the report afterwards. Leaving it stops nothing."""

from __future__ import annotations

from console.render.batch import bar, ended_line, summary
from console.render.line import line, own
from console.screens.reading import ReadingScreen


class BatchScreen(ReadingScreen):
    place = "batch"

    def hints(self) -> tuple[str, ...]:
        run = self.console.activity.run
        return ("stop", "back", "down") if run is not None and not run.over else ("back", "export", "down")

    def on_mount(self) -> None:
        super().on_mount()
        self.landed()

    def landed(self) -> None:
        """More of it is known."""
        run = self.console.activity.run
        if run is None or not self.is_mounted:
            return
        self.head.show(bar(run, max(20, self.size.width - 4)))
        lines = [ended_line(ended) for ended in reversed(run.landed)]
        if run.over:
            lines = [*summary(run), (), *lines]
        self.text.put(lines or [line(own("nothing has landed yet", "dim"))], keep_place=True)
        self._show_footer()

    def do_stop(self) -> None:
        self.tell(line(own(self.console.activity.stop(), "warning")))
        self.landed()

    def do_export(self) -> None:
        self.start(self.console.export_batch, group="export", exclusive=True)
