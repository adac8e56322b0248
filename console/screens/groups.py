"""Like failures together: fingerprint, how many, since when; opening one filters the queue by it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from textual.widget import Widget

from backends.index import file_entry
from console.render.group import group_header, group_line
from console.render.line import line, own
from console.screens.framed import FramedScreen
from console.services.expression import with_field
from console.services.group import Grouping
from console.services.index import labelled
from console.services.lineup import View
from console.services.triage import look
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList

_MOST = 200_000  # entries looked at


class GroupsScreen(FramedScreen):
    place = "groups"
    FOOTER = ("open", "back", "down", "up")

    def __init__(self, view: View, text: str) -> None:
        super().__init__()
        self._view = view
        self._filter = text
        self._head = Canvas(id="head")
        self._list = ChoiceList(id="choices")
        self._titles = Canvas(id="titles")
        self._grouping = Grouping()

    def body(self) -> Iterable[Widget]:
        yield self._head
        yield self._titles
        yield self._list

    def on_mount(self) -> None:
        super().on_mount()
        self._head.show(line(own("reading …", "dim")))
        self.start(self._read, group="groups", exclusive=True)

    async def _read(self) -> None:
        place = self.console.place
        if place is None:
            return
        async for entries in place.lineup.chosen(self._view):
            for entry in entries:
                mark = file_entry(entry, labelled(look(entry)))
                self._grouping.add(mark)
                self._grouping.arrival(mark)
            self._show(done=False)
            await asyncio.sleep(0)  # keys come first
            if self._grouping.count >= _MOST:
                break
        self._show(done=True)

    def _show(self, *, done: bool) -> None:
        now, size = self.console.now(), max(20, self.size.width - 4)
        groups = self._grouping.groups(now)
        more = "" if done else ", reading …"
        covered = f" in {self._grouping.count:,} entries{more}"
        self._head.show(line(own(f"{len(groups):,} groups", "strong"), own(covered, "dim")))
        self._titles.show(group_header(size))
        self._list.put([(group.fingerprint, group_line(group, now, size)) for group in groups])

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
