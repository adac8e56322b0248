"""The entries that one event of the audit trail names, each of which opens. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget

from backends.records import Entry
from console.render.entry import Shown
from console.render.evidence.event import act_word, event_entry_line
from console.render.line import line, trusted
from console.render.value import many, moment
from console.screens.frame import FramedScreen
from console.services.triage.trail import TrailRow, entry_ids, event_body
from console.services.triage.triage import ClassifiedEntry
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList

_MOST = 5_000  # entries that are read and listed
_AT_ONCE = 500


class EventEntriesScreen(FramedScreen):
    key_context = "event"
    FOOTER = ("open", "back", "down", "up")

    def __init__(self, row: TrailRow) -> None:
        super().__init__()
        self._event = row
        self._head = Canvas(id="head")
        self._list = ChoiceList(id="choices")
        self._ids: list[str] = []
        self._entries: dict[str, Entry] = {}

    def body(self) -> Iterable[Widget]:
        yield self._head
        yield self._list

    def on_mount(self) -> None:
        super().on_mount()
        self.start(self._read, group="event", exclusive=True)

    async def _read(self) -> None:
        """Read the whole event, of which the trail keeps only the beginning, then its entries."""
        session = self.console.session
        if session is None:
            return
        events = await session.store.latest(self._event.seq + 1, 1)
        if not events or events[0].seq != self._event.seq:
            self.warn("this event is no longer there")
            return
        self._ids = list(dict.fromkeys(entry_ids(event_body(events[0]))))[:_MOST]
        self._show()
        for start in range(0, len(self._ids), _AT_ONCE):
            if session.setting.store.is_hub:
                break  # a request to the hub for each of them
            self._entries |= await session.store.many(tuple(self._ids[start : start + _AT_ONCE]))
            self._show()

    def header_changed(self) -> None:
        super().header_changed()
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        size, body = max(20, self.size.width - 4), self._event.body
        what = f"{act_word(body)} of {many(self._event.count, 'entry')}"
        cut = f"   the first {_MOST:,} are listed" if self._event.count > _MOST else ""
        self._head.show(line(trusted(what, "strong"), trusted(f"   {moment(body.get('at'))}{cut}", "dim")))
        self._list.put([(one, event_entry_line(one, self._entries.get(one), size)) for one in self._ids])

    def _shown(self) -> Shown | None:
        entry = self._entries.get(self._list.chosen or "")
        return None if entry is None else self.console.shown_row(ClassifiedEntry(entry, None))

    def do_open(self) -> None:
        from console.screens.entry import EntryScreen

        shown = self._shown()
        if shown is None:
            self.warn("this entry is not in the table that is attached")
        else:
            self.app.push_screen(EntryScreen(shown, 0, step=self._step))

    def _step(self, by: int) -> Shown | None:
        before = self._list.chosen
        self._list.move_by(by)
        return None if self._list.chosen == before else self._shown()

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
