"""The screen of a store's health: depth, arrivals, venues, groups and alerts. Changes nothing."""

from __future__ import annotations

from console.render.health import Frame, health_lines
from console.render.line import Line, line, trusted
from console.screens.frame import ReadingScreen
from console.services.layout_fields import LAYOUTS
from console.services.stats.health import HealthView

_RENEW_SECONDS = 2.0


class HealthScreen(ReadingScreen):
    key_context = "health"
    FOOTER = ("back", "groups", "down", "up", "refresh")

    def __init__(self) -> None:
        super().__init__()
        self._view: HealthView | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self.head.show(line(trusted("Health", "strong"), trusted("   reading …", "dim")))
        self.do_refresh()
        if self.console.setup.watch:
            self.set_interval(_RENEW_SECONDS, self.do_refresh)

    def header_changed(self) -> None:
        super().header_changed()
        self._paint()

    def do_refresh(self) -> None:
        self.start(self._read, group="health", exclusive=True)

    def do_groups(self) -> None:
        self.dismiss()
        self.console.queue.do_groups()

    async def _read(self) -> None:
        session = self.console.session
        if session is None:
            return
        index_status = await session.index_status()
        health = index_status.health
        self._view = None if health is None else await health.view(points=self._room().plot)
        self._paint()

    def _room(self) -> Frame:
        return Frame(max(40, self.size.width - 4), self.size.height)

    def _paint(self) -> None:
        if not self.is_mounted:
            return
        view = self._view
        if view is None:
            self.head.show(line(trusted("Health", "strong")))
            self.text.put(self._without(), keep_place=True)
            return
        self.head.show(
            line(trusted("Health", "strong"), trusted(f"   {view.at:%Y-%m-%d %H:%M:%SZ}, from the index", "dim"))
        )
        origin = LAYOUTS[self.console.header_state.layout].words.origin
        lines = health_lines(view, self.console.activity.breakers(), self._room(), origin=origin)
        self.text.put(lines, keep_place=True)

    def _without(self) -> list[Line]:
        """What to show while there is no index."""
        percent = self.console.header_state.indexing
        if percent is not None:
            return [line(trusted(f"The index that this is drawn from is being built: {percent:d} %.", "accent"))]
        return [
            line(
                trusted("There is no index of this store that is up to date, so there is nothing to draw.", "warning")
            ),
            line(
                trusted(
                    "The console builds one by itself where it may act; `dlq index` builds one for a read-only console."
                )
            ),
        ]
