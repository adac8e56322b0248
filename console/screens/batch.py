"""The screen of a batch: progress, one row an order, and what can be done next. Closing it does not stop the batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from backends.records import Entry
from console.keymap import named
from console.render.batch import (
    ReportKeys,
    ReportRow,
    head_lines,
    marked_words,
    report_header,
    report_line,
    report_rows,
    story,
)
from console.render.entry import Shown
from console.render.line import line, trusted
from console.render.order_text import order_text
from console.render.value import money
from console.screens.action_screen import ActingScreen, Pick, Picks
from console.services.market.entry_value import value_of
from console.services.triage.triage import ClassifiedEntry
from console.text.untrusted import safe
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList
from console.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from console.services.replay.background_run import RunProgress
    from console.services.session import StoreSession

_ELSEWHERE = "this batch ran on another store: o goes back there"
_NOTHING_LEFT = "nothing of what was chosen is left to send"


class BatchScreen(ActingScreen):
    key_context = "batch"
    CSS_PATH = "../styles/batch.tcss"

    def __init__(self) -> None:
        super().__init__()
        self._head = TextPane(id="batch-head")
        self._columns = Canvas(id="titles")
        self._list = ChoiceList(id="choices")
        self._list.on_move = self._moved
        self._story = TextPane(id="batch-story")
        self._rows: dict[str, ReportRow] = {}
        self._painted: tuple[object, ...] = ()
        self._shown_run: RunProgress | None = None
        self._picks: Picks = {}
        self._doubted: dict[str, None] = {}  # of every run that was shown here
        self._stays_on_top = True  # until somebody moves the cursor
        self._said_stopping = False

    def body(self) -> Iterable[Widget]:
        yield self._head
        yield self._columns
        yield self._list
        yield self._story

    @property
    def run(self) -> RunProgress | None:
        return self.console.activity.run

    @property
    def _is_elsewhere(self) -> bool:
        """Whether another store is attached than the one that the batch ran on."""
        run = self.run
        return run is not None and bool(run.store) and run.store != self.console.header_state.store

    def hints(self) -> tuple[str, ...]:
        run = self.run
        if run is None or not run.over:
            return (*(() if run is not None and run.stopping else ("stop",)), "back", "open", "down")
        doubted = ("reconcile", "settle") if run.doubted else ()
        replayed = self._replayed
        marks = ("mark-unsent",) if replayed is not None and (replayed.unsent or replayed.held) else ()
        following = ("replay",) if replayed is not None and len(replayed.left) else ()
        return (*doubted, *marks, *following, "back", "open", "export", "down")

    @property
    def _replayed(self) -> RunProgress | None:
        """The replay that is drained: the last one, also after what was in doubt in it was reconciled."""
        return None if self._is_elsewhere else self.console.activity.replayed

    def header_changed(self) -> None:
        """Repaint here too: after the end of a batch no outcome arrives that would."""
        super().header_changed()
        run = self.run
        if run is None or not self.is_mounted:
            return
        if run.over and self._said_stopping:
            self._said_stopping = False
            self._hush()  # the report says that it stopped, and the footer is needed for keys
        if run is not self._shown_run:
            self._begin(run)
        self._doubted |= dict.fromkeys(run.doubted)
        self._paint(run)

    def _begin(self, run: RunProgress) -> None:
        """Another run is shown from now on."""
        self._shown_run, self._stays_on_top, self._painted = run, True, ()
        self._read_entries()

    def _paint(self, run: RunProgress) -> None:
        size = max(20, self.size.width - 4)
        session = self.console.session
        most = session.max_batch if session is not None else run.planned
        waiting = self.console.activity.waiting
        self._head.put(
            head_lines(run, size, waiting=waiting, keys=self._keys(), most=most, elsewhere=self._is_elsewhere),
            keep_place=True,
        )
        painted = (run, size, len(run.landed), run.over, tuple(run.entries.values()))
        if painted != self._painted:
            self._painted = painted
            self._paint_rows(run, size)

    def _paint_rows(self, run: RunProgress, size: int) -> None:
        self._columns.show(report_header(size, self._layout(run)))
        self._rows = {f"{row.entry_id}\0{row.ended.mode if row.ended else ''}": row for row in report_rows(run)}
        lines = [(key, report_line(row, size, over=run.over, kind=run.kind)) for key, row in self._rows.items()]
        stays = self._stays_on_top
        self._list.put(lines)
        if stays:
            self._list.move_to(0)
            self._stays_on_top = True

    def _layout(self, run: RunProgress) -> str:
        entry = next(iter(run.entries.values()), None)
        return entry.layout if entry is not None else self.console.header_state.layout

    def _keys(self) -> ReportKeys:
        mapped = self.console.setup.keys
        shown = {name: named(name, mapped).shown for name in ("reconcile", "settle", "mark-unsent", "replay")}
        return ReportKeys(shown["reconcile"], shown["settle"], shown["mark-unsent"], shown["replay"])

    @property
    def _row(self) -> ReportRow | None:
        """The row under the cursor."""
        return self._rows.get(self._list.chosen or "")

    def _moved(self) -> None:
        row, run = self._row, self.run
        if row is None or run is None:
            self._story.put([])
            return
        self._story.put(story(row, run, whole=self._whole(row), worth=self._worth(row), keys=self._keys()))

    def _whole(self, row: ReportRow) -> str:
        """The order with every term that it has."""
        session = self.console.session
        if session is None or row.entry is None or not session.has_modes or self._is_elsewhere:
            return ""
        action = session.read_action(row.entry).action
        return "" if action is None else order_text(action, value_of(row.entry, self.console.venue_types).currency)

    def _worth(self, row: ReportRow) -> str:
        from console.services.layout_fields import layout_of

        if row.entry is None or not layout_of(row.entry).has_worth:
            return ""
        held = value_of(row.entry, self.console.venue_types)
        return "" if held.notional is None else f"{money(held.notional)} {safe(held.currency or '', 12)}".rstrip()

    def _read_entries(self) -> None:
        session, run = self.console.session, self.run
        if session is not None and run is not None and not self._is_elsewhere:
            self.start(lambda: self._read(session, run), group="entries", exclusive=True)

    async def _read(self, session: StoreSession, run: RunProgress) -> None:
        """Read the batch's entries as they are stored now; a hub would be asked for each of them."""
        ids = tuple(dict.fromkeys((*run.scope.going, *run.scope.held, *(one.entry_id for one in run.landed))))
        if session.setting.store.is_hub:
            known = {one: entry for one in ids if (entry := self.console.queue.known(one)) is not None}
        else:
            known = await session.store.many(ids)
        run.entries |= known
        self.header_changed()

    def acted(self) -> None:
        self._read_entries()
        self.console.queue.changed()

    def store_changed(self) -> None:
        if self.run is not None and self.run.over:
            self._read_entries()

    def picks(self) -> Picks:
        return self._picks

    def known(self, entry_id: str) -> Entry | None:
        run = self.run
        return None if run is None else run.entries.get(entry_id)

    def current(self) -> Shown | None:
        row = self._row
        if row is None or row.entry is None or self._is_elsewhere:
            return None
        return self.console.shown_row(ClassifiedEntry(row.entry, None))

    def _may_act(self) -> bool:
        if self._is_elsewhere:
            self.warn(_ELSEWHERE)
        return not self._is_elsewhere

    def do_open(self) -> None:
        from console.screens.entry import EntryScreen

        shown = self.current()
        if not self._may_act():
            return
        if shown is None:
            self.warn("this entry cannot be read here: look for it in the queue")
        else:
            self.app.push_screen(EntryScreen(shown, 0, step=self._step))

    def _step(self, by: int) -> Shown | None:
        """The entry of the next or previous row, which the cursor goes to."""
        before = self._list.chosen
        self._list.move_by(by)
        return None if self._list.chosen == before else self.current()

    def on_choice_list_opened(self) -> None:
        self.do_open()

    def do_reconcile(self) -> None:
        """About everything in doubt here; where nothing is, about the row under the cursor."""
        run, row = self.run, self._row
        if run is None or not self._may_act():
            return
        ids = run.doubted or ((row.entry_id,) if row is not None else ())
        self._picks = self._picked(ids)
        super().do_reconcile()

    def _picked(self, ids: Sequence[str]) -> Picks:
        read = ((one, self.known(one)) for one in ids)
        return {one: Pick(entry.version, entry.state) for one, entry in read if entry is not None}

    def do_settle(self) -> None:
        if self._may_act():
            super().do_settle()

    def do_replay(self) -> None:
        """Plan the next batch of what was chosen: what was not sent, and what the batch had no room for."""
        replayed = self._replayed
        if not self._may_act():
            return
        if replayed is None or not replayed.over or not len(replayed.left):
            self.warn("it is still running: ! stops it" if replayed and not replayed.over else _NOTHING_LEFT)
            return
        self._picks = {one: Pick(version, "pending") for one, version in replayed.left.picks}
        super().do_replay()

    def origin(self) -> str:
        replayed = self.console.activity.replayed
        return "" if replayed is None else replayed.scope.origin

    def do_mark_unsent(self) -> None:
        if self._may_act():
            self.start(self._mark_unsent, group="mark", exclusive=True)

    async def _mark_unsent(self) -> None:
        """Mark in the queue what was not sent and still waits; where everything went, what the plan held back."""
        session, replayed = self.console.session, self._replayed
        if session is None or replayed is None:
            return
        wanted = replayed.unsent or replayed.held
        beneath = [one for one in replayed.scope.beneath if replayed.unsent]
        read = await self._pending(session, (*(one.entry_id for one in wanted), *beneath))
        if not read:
            self.warn("nothing of it is pending any more" if wanted else "everything was sent: nothing to mark")
            return
        self.console.queue.mark_only(read)
        count = len(read)
        told = marked_words(count, 0) if replayed.unsent else marked_words(0, count)
        self.show_notice(line(trusted(told, "accent")))

    async def _pending(self, session: StoreSession, ids: tuple[str, ...]) -> list[Entry]:
        if session.setting.store.is_hub:
            found = {one: entry for one in ids if (entry := self.console.queue.known(one)) is not None}
        else:
            found = await session.store.many(ids)
        return [entry for entry in found.values() if entry.state == "pending"]

    def do_stop(self) -> None:
        self._said_stopping = self.console.activity.has_batch
        super().do_stop()
        self.header_changed()

    def do_export(self) -> None:
        self.start(self.console.export_batch, group="export", exclusive=True)

    def do_back(self) -> None:
        """Close the report; the queue's cursor goes to what is in doubt."""
        if self._doubted and not self._is_elsewhere:
            self.console.queue.go_to(tuple(self._doubted))
        super().do_back()

    def do_down(self) -> None:
        self._move(1)

    def do_up(self) -> None:
        self._move(-1)

    def _move(self, by: int) -> None:
        self._stays_on_top = False
        self._list.move_by(by)

    def do_page_down(self) -> None:
        self._stays_on_top = False
        self._list.page(1)

    def do_page_up(self) -> None:
        self._stays_on_top = False
        self._list.page(-1)

    def do_top(self) -> None:
        self._list.move_to(0)
        self._stays_on_top = True

    def do_bottom(self) -> None:
        self._stays_on_top = False
        self._list.move_to(1 << 30)
