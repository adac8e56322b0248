"""The screen of a store's health: depth, arrivals, venues, groups and alerts. Changes nothing."""

from __future__ import annotations

from console.render.health import Frame, HealthRow, health_lines, health_rows
from console.render.line import Line, line, trusted
from console.screens.frame import ReadingScreen
from console.services.layout_fields import LAYOUTS
from console.services.stats.health import HealthView

_RENEW_SECONDS = 2.0


class HealthScreen(ReadingScreen):
    key_context = "health"

    def __init__(self) -> None:
        super().__init__()
        self._view: HealthView | None = None
        self._columns: tuple[list[HealthRow], list[HealthRow]] = ([], [])
        self._cursor = 0  # among the rows that open something

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
        held = self._chosen
        self._columns = health_rows(view, self.console.activity.breakers(), self._room(), origin=origin)
        opens = [row.opens for row in self._openable]
        if held is not None and held.opens in opens:
            self._cursor = opens.index(held.opens)
        self._draw()
        self._show_footer()  # it names the cursor's keys only where there are rows

    def hints(self) -> tuple[str, ...]:
        if self._view is None:
            return ("report", "groups", "back", "refresh")
        return ("open", "report", "groups", "back", "down", "up", "refresh")

    def _draw(self) -> None:
        self.text.put(health_lines(self._columns, self._room(), self._chosen), keep_place=True)

    @property
    def _openable(self) -> list[HealthRow]:
        """The rows that open something, the alerts first."""
        left, right = self._columns
        return [row for row in (*right, *left) if row.opens is not None]

    @property
    def _chosen(self) -> HealthRow | None:
        rows = self._openable
        return rows[min(self._cursor, len(rows) - 1)] if rows else None

    def _move_to(self, at: int) -> None:
        """Move the cursor, and bring its row into sight; beyond the ends the text scrolls on."""
        rows = self._openable
        wanted = max(0, min(at, len(rows) - 1))
        if wanted == self._cursor or not rows:
            self.text.scroll_lines(at - wanted)
            return
        self._cursor = wanted
        self._draw()
        column = next(column for column in self._columns if any(row is rows[wanted] for row in column))
        self.text.reveal(next(n for n, row in enumerate(column) if row is rows[wanted]))

    def do_down(self) -> None:
        self._move_to(self._cursor + 1)

    def do_up(self) -> None:
        self._move_to(self._cursor - 1)

    def do_top(self) -> None:
        self._move_to(0)
        self.text.scroll_to_line(0)

    def do_bottom(self) -> None:
        self._move_to(len(self._openable) - 1)
        self.text.scroll_to_line(1 << 30)

    def do_open(self) -> None:
        """List the entries that the row counts."""
        if self._chosen is not None and self._chosen.opens is not None:
            self.console.list_in_queue(self._chosen.opens)

    def do_report(self) -> None:
        from console.screens.shift_report import ShiftReportScreen

        self.app.push_screen(ShiftReportScreen())

    def _without(self) -> list[Line]:
        """What to show while there is no index."""
        percent = self.console.header_state.indexing
        if percent is not None:
            return [line(trusted(f"The index that this is drawn from is being built: {percent:d} %.", "accent"))]
        return [
            line(trusted("This store has no up-to-date index, so there is nothing to draw.", "warning")),
            line(trusted("A console that may act builds one by itself; dlq index builds one for a read-only console.")),
        ]
