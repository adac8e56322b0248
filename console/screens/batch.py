"""The screen of a batch: progress, outcomes and the report. Closing it does not stop the batch."""

from __future__ import annotations

from console.render.batch import bar, ended_line, report, waiting_line
from console.render.line import line, trusted, untrusted
from console.screens.frame import ReadingScreen


class BatchScreen(ReadingScreen):
    key_context = "batch"

    def __init__(self) -> None:
        super().__init__()
        self._said_stopping = False

    def hints(self) -> tuple[str, ...]:
        run = self.console.activity.run
        return ("stop", "back", "down") if run is not None and not run.over else ("back", "export", "down")

    def header_changed(self) -> None:
        """Repaint here too: after the end of a batch no outcome arrives that would."""
        super().header_changed()
        run = self.console.activity.run
        if run is None or not self.is_mounted:
            return
        if run.over and self._said_stopping:
            self._said_stopping = False
            self._hush()  # the report says that it stopped, and the footer is needed for keys
        room = max(20, self.size.width - 4)
        self.head.show(bar(run, room))
        lines = report(run, room) if run.over else [ended_line(ended, room) for ended in reversed(run.landed)]
        if waiting := self.console.activity.waiting:
            lines = [waiting_line(waiting), (), *lines]
        if run.store and run.store != self.console.header_state.store:
            lines = [line(trusted("on another store: ", "warning"), untrusted(run.store, "strong", limit=60)), *lines]
        self.text.put(lines or [line(trusted("nothing has landed yet", "dim"))], keep_place=True)

    def do_stop(self) -> None:
        self._said_stopping = self.console.activity.has_batch
        self.show_notice(line(trusted(self.console.activity.stop(), "warning")))
        self.header_changed()

    def do_export(self) -> None:
        self.start(self.console.export_batch, group="export", exclusive=True)
