"""Like failures together: fingerprint, how many, since when; opening one filters the queue by it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from textual.widget import Widget

from backends.records import parse_time
from console.duration import age
from console.render.line import Cell, Line, fit, line, own, said
from console.screens.framed import FramedScreen
from console.services.expression import with_field
from console.services.lineup import View
from console.services.triage import Row, look
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList

_MOST = 200_000  # entries looked at


@dataclass(slots=True)
class Group:
    fingerprint: str
    title: str
    category: str
    count: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def add(self, row: Row) -> None:
        self.count += 1
        at = parse_time(row.entry.get("captured_at"))
        if at is not None:
            self.first = at if self.first is None else min(self.first, at)
            self.last = at if self.last is None else max(self.last, at)


class GroupsScreen(FramedScreen):
    place = "groups"
    FOOTER = ("open", "back", "down", "up")

    def __init__(self, view: View, text: str) -> None:
        super().__init__()
        self._view = view
        self._filter = text
        self._head = Canvas(id="head")
        self._list = ChoiceList(id="choices")
        self._groups: dict[str, Group] = {}

    def body(self) -> Iterable[Widget]:
        yield self._head
        yield self._list

    def on_mount(self) -> None:
        super().on_mount()
        self._head.show(line(own("reading …", "dim")))
        self.start(self._read, group="groups", exclusive=True)

    async def _read(self) -> None:
        place, looked = self.console.place, 0
        if place is None:
            return
        async for entries in place.lineup.chosen(self._view):
            for entry in entries:
                row = look(entry)
                known = self._groups.setdefault(row.fingerprint, Group(row.fingerprint, row.title, row.category))
                known.add(row)
            looked += len(entries)
            self._show(looked, done=False)
            await asyncio.sleep(0)  # keys come first
            if looked >= _MOST:
                break
        self._show(looked, done=True)

    def _show(self, looked: int, *, done: bool) -> None:
        groups = sorted(self._groups.values(), key=lambda group: (-group.count, group.fingerprint))
        more = "" if done else ", reading …"
        self._head.show(line(own(f"{len(groups):,} groups", "strong"), own(f" in {looked:,} entries{more}", "dim")))
        now, size = self.console.now(), self._list.size.width
        self._list.put([(group.fingerprint, _line(group, now, size)) for group in groups])

    def do_open(self) -> None:
        chosen = self._list.chosen
        if chosen is not None:
            text = with_field(self._filter, "group", chosen)
            self.dismiss()
            self.console.queue.filter_by(text)

    def on_choice_list_opened(self) -> None:
        self.do_open()

    def do_down(self) -> None:
        self._list.move_by(1)

    def do_up(self) -> None:
        self._list.move_by(-1)

    def do_page_down(self) -> None:
        self._list.page(1)

    def do_page_up(self) -> None:
        self._list.page(-1)

    def do_top(self) -> None:
        self._list.move_to(0)

    def do_bottom(self) -> None:
        self._list.move_to(1 << 30)


def _line(group: Group, now: datetime, size: int) -> Line:
    first, last = (age(at, now) if at else "?" for at in (group.first, group.last))
    title = Cell(fit(said(group.title).text, max(10, size - 46)))
    return (
        own(f"{group.count:>8,}  ", "strong"),
        title,
        own(f"  {group.category:<12}{last:>5} – {first:<5}  ", "dim"),
        own(group.fingerprint[:8], "dim"),
    )
