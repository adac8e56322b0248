"""The screen of groups of like failures, which are opened, noted, dismissed or replayed as a whole.

Reads and freezes the members of a group before its gate opens: an act never takes later arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from textual.timer import Timer
from textual.widget import Widget

from backends.records import Entry
from console.render.entry import Shown
from console.render.group import Story, group_header, group_line, story_lines
from console.render.line import Line, line, trusted, untrusted
from console.render.value import many
from console.screens.action_screen import ActingScreen, Pick, Picks
from console.services.browse.filter_syntax import parse_expression, with_field
from console.services.layout_fields import LAYOUTS, LayoutFields
from console.services.stats.groups import Group, Groups, GroupView
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList
from console.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from console.services.index.status import IndexStatus
    from console.services.session import StoreSession

_RENEW_SECONDS = 1.0
_REST_SECONDS = 0.06
_TELL = 1000
_SPLIT_SECONDS = 0.3


class GroupsScreen(ActingScreen):
    key_context = "groups"
    FOOTER = ("open", "dismiss", "replay", "note", "back", "pane", "undo")
    CSS_PATH = "../styles/groups.tcss"

    def __init__(self, text: str) -> None:
        """`text`: the queue's filter, which also limits the groups."""
        super().__init__()
        self._filter = text
        self._head = Canvas(id="head")
        self._heads = Canvas(id="titles")
        self._list = ChoiceList(id="choices")
        self._list.on_move = self._moved
        self._story = TextPane(id="group-story")
        self._view: GroupView | None = None
        self._stamp: object = None
        self._frozen: dict[str, Entry] = {}
        self._about: Group | None = None  # the group of the frozen members
        self._rest: Timer | None = None
        self.in_story = False  # j and k scroll the story instead of moving the cursor

    def body(self) -> Iterable[Widget]:
        yield self._head
        yield self._heads
        yield self._list
        yield self._story

    def on_mount(self) -> None:
        super().on_mount()
        self._head.show(line(trusted("reading …", "dim")))
        self._renew()
        if self.console.setup.watch:
            self.set_interval(_RENEW_SECONDS, self._renew_if_changed)

    def _renew(self) -> None:
        self.start(self._read, group="groups", exclusive=True)

    def _renew_if_changed(self) -> None:
        if self.console.session is not None and self._view is not None and not self._filter:
            self.start(self._read_if_changed, group="groups", exclusive=True)

    async def _read_if_changed(self) -> None:
        if (await self._index_status()).stamp != self._stamp:
            await self._read()

    async def _read(self) -> None:
        index_status = await self._index_status()
        self._stamp = index_status.stamp
        if not self._filter:
            self._put(await index_status.groups.view())
            return
        async for view in index_status.groups.growing(parse_expression(self._filter, self.console.now())):
            self._put(view)

    async def _index_status(self) -> IndexStatus:
        session = self.console.session
        assert session is not None  # the queue opens this screen only after attaching
        return await session.index_status()

    @property
    def _layout(self) -> LayoutFields:
        return LAYOUTS[self.console.header_state.layout]

    async def _groups(self) -> Groups:
        return (await self._index_status()).groups

    def _put(self, view: GroupView) -> None:
        self._view = view
        now, size = self.console.now(), max(20, self.size.width - 4)
        seen = any(group.new is not None for group in view.groups)
        self._head.show(self._scope(view))
        layout = self._layout
        self._heads.show(group_header(size, layout))
        lines = [group_line(group, now, size, layout, anything_seen=seen) for group in view.groups]
        self._list.put(list(zip((group.fingerprint for group in view.groups), lines, strict=True)))
        self._show_footer()

    def _scope(self, view: GroupView) -> Line:
        """How much of the store the groups cover."""
        known = trusted(f"{many(len(view.groups), 'group')}", "strong")
        which = (trusted(" in ", "dim"), untrusted(self._filter, "accent", limit=60)) if self._filter else ()
        if view.complete:
            return (known, *which, trusted(f" · {many(view.count, 'entry')}, all counted", "dim"))
        told = f" · {view.covered:,} entries counted so far"
        if view.source == "index":
            told = f" · {view.covered:,} of {view.total:,} entries indexed so far"
        elif not self._filter:
            told = f" · of the newest {view.covered:,} of {view.total:,} entries: there is no index yet"
        return (known, *which, trusted(told, "warning"))

    @property
    def group(self) -> Group | None:
        """The group under the cursor."""
        chosen = self._list.chosen
        groups = self._view.groups if self._view is not None else ()
        return next((group for group in groups if group.fingerprint == chosen), None)

    def _moved(self) -> None:
        group = self.group
        self._tell_story(None if group is None else Story(group))
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(_REST_SECONDS, self._rested) if group is not None else None

    def _rested(self) -> None:
        self.start(self._read_story, group="story", exclusive=True)

    async def _read_story(self) -> None:
        group = self.group
        if group is None:
            return
        groups = await self._groups()
        notes = await groups.notes(group.fingerprint)
        self._tell_story(Story(group, None, notes))
        split = await groups.split(group.fingerprint, budget=_SPLIT_SECONDS)
        if self.group is not None and self.group.fingerprint == group.fingerprint:
            self._tell_story(Story(group, split, notes))

    def _tell_story(self, story: Story | None) -> None:
        size = max(20, self.size.width - 4)
        lines = (
            []
            if story is None
            else story_lines(story, self.console.now(), size, self._layout, is_known=self.console.header_state.is_known)
        )
        self._story.put(lines, keep_place=story is not None and story.split is not None)

    def do_open(self) -> None:
        chosen = self._list.chosen
        if chosen is not None:
            text = with_field(self._filter, "group", chosen)
            self._leave()
            self.console.queue.filter_by(text)

    def on_choice_list_opened(self) -> None:
        self.do_open()

    def do_back(self) -> None:
        if self.in_story:
            self.do_pane()
        elif any(worker.group == "ask" for worker in self.workers if worker.node is self):
            self.workers.cancel_group(self, "ask")
        else:
            self._leave()

    def _leave(self) -> None:
        """Close the screen and record the shown groups as seen."""
        view = self._view
        session = self.console.session
        if view is not None and view.source == "index" and session is not None:
            seen = tuple(group.fingerprint for group in view.groups)
            self.console.queue.start(lambda: _look(session, seen), group="looked", exclusive=True)
        self.dismiss()

    def do_health(self) -> None:
        from console.screens.health import HealthScreen

        self.app.push_screen(HealthScreen())

    def picks(self) -> Picks:
        return {entry.id: Pick(entry.version, entry.state) for entry in self._frozen.values()}

    def known(self, entry_id: str) -> Entry | None:
        return self._frozen.get(entry_id)

    def current(self) -> Shown | None:
        return None

    def about(self) -> list[Line]:
        if self._about is None:
            return []
        return [line(trusted(" group  ", "dim"), untrusted(self._about.title, "strong", limit=60)), ()]

    def acted(self) -> None:
        self._frozen = {}
        self._renew()
        self.console.queue.changed()

    def do_dismiss(self) -> None:
        self._freeze(super().do_dismiss)

    def do_replay(self) -> None:
        self._freeze(super().do_replay)

    def _freeze(self, act: Callable[[], None]) -> None:
        group = self.group
        if group is None or self.attached_session() is None:
            return
        self.show_notice(line(trusted(f"reading the members: {many(group.count, 'entry')} …", "accent")))
        self.start(lambda: self._read_members(group, act), group="ask", exclusive=True)

    async def _read_members(self, group: Group, act: Callable[[], None]) -> None:
        def tell(count: int) -> None:
            if count >= _TELL:
                self.show_notice(line(trusted(f"reading the members: {count:,} so far; esc gives up", "accent")))

        query = parse_expression(self._filter, self.console.now())
        members = await (await self._groups()).members(group.fingerprint, query, tell=tell)
        if not self.is_current:
            return  # a gate must not open over the screen that the operator has gone to
        self._frozen, self._about = {entry.id: entry for entry in members.entries}, group
        self._hush()
        if not members.entries:
            self.warn("nothing of this group is open any more")
            self._renew()
            return
        if not members.complete:
            self.warn(f"only the first {len(members.entries):,} of it are taken: repeat it for the rest")
        act()

    def do_note(self) -> None:
        """Write a note on the group, which outlives its entries."""
        from console.screens.gates.prompts import WordGate, a_note

        group = self.group
        if group is None or self.attached_session() is None:
            return
        lines = [
            line(untrusted(f" {group.title}", limit=300)),
            line(trusted(" It stays with the group when it comes again.", "dim")),
        ]
        gate = WordGate(line(trusted("Note on a group")), lines, ask="note", judge=a_note)

        def answered(answer: str | None) -> None:
            if answer is not None:
                self.start(lambda: self._write(group, answer), group="act", exclusive=False)

        self.app.push_screen(gate, answered)

    async def _write(self, group: Group, text: str) -> None:
        await (await self._groups()).note(group.fingerprint, text)
        self.show_notice(line(trusted("noted", "good")))
        self._rested()

    def do_pane(self) -> None:
        self.in_story = not self.in_story
        self._story.set_class(self.in_story, "-chosen")

    def do_down(self) -> None:
        self._story.scroll_lines(1) if self.in_story else self._list.move_by(1)

    def do_up(self) -> None:
        self._story.scroll_lines(-1) if self.in_story else self._list.move_by(-1)

    def do_page_down(self) -> None:
        self._story.scroll_lines(self._story.size.height - 1) if self.in_story else self._list.page(1)

    def do_page_up(self) -> None:
        self._story.scroll_lines(1 - self._story.size.height) if self.in_story else self._list.page(-1)

    def do_top(self) -> None:
        self._story.scroll_to_line(0) if self.in_story else self._list.move_to(0)

    def do_bottom(self) -> None:
        self._story.scroll_to_line(1 << 30) if self.in_story else self._list.move_to(1 << 30)


async def _look(session: StoreSession, seen: tuple[str, ...]) -> None:
    await (await session.index_status()).groups.looked(seen)
