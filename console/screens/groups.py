"""The screen of groups of like failures, which are opened, noted, dismissed or replayed as a whole.

Reads and freezes the members of a group before its gate opens: an act never takes later arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

from textual import events
from textual.timer import Timer
from textual.widget import Widget

from backends.records import Entry
from console.render.entry import Shown
from console.render.group import GroupLook, Story, group_header, group_line, story_lines
from console.render.line import Line, line, plain, trusted, untrusted, word_at
from console.render.value import many
from console.screens.action_screen import ActingScreen, Pick, Picks
from console.services.browse.filter_syntax import ExpressionError, parse_expression, with_field
from console.services.layout_fields import LAYOUTS, LayoutFields
from console.services.market.entry_value import by_currency
from console.services.stats.group_sort import COLUMNS as GROUP_COLUMNS
from console.services.stats.group_sort import WORDS as GROUP_SORTS
from console.services.stats.group_sort import GroupSort, next_group_sort, sorted_groups
from console.services.stats.groups import Group, Groups, GroupView
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList
from console.widgets.prompt_line import PromptLine
from console.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from console.services.index.status import IndexStatus
    from console.services.session import StoreSession

_RENEW_SECONDS = 1.0
_REST_SECONDS = 0.06
_TELL = 1000
_SPLIT_SECONDS = 0.3
_TITLES = 5  # of the groups that a gate is about
_MOST_NOTED = 100


class GroupsScreen(ActingScreen):
    key_context = "groups"
    FOOTER = ("open", "mark", "dismiss", "replay", "note", "filter", "sort", "back", "pane", "undo")
    CSS_PATH = "../styles/groups.tcss"

    def __init__(self, text: str) -> None:
        """`text`: the queue's filter, which also limits the groups."""
        super().__init__()
        self._filter = self._opened_with = text
        self._head = PromptLine(id="head")
        self._sort: GroupSort = "count"
        self._marks: dict[str, None] = {}  # fingerprints
        self._heads = Canvas(id="titles")
        self._heads.on_column = self._click_title
        self._list = ChoiceList(id="choices")
        self._list.on_move = self._moved
        self._story = TextPane(id="group-story")
        self._view: GroupView | None = None
        self._stamp: object = None
        self._frozen: dict[str, Entry] = {}
        self._about: tuple[Group, ...] = ()  # the groups of the frozen members
        self._rest: Timer | None = None
        self.in_story = False  # j and k scroll the story instead of moving the cursor

    def body(self) -> Iterable[Widget]:
        yield self._head
        yield self._heads
        yield self._list
        yield self._story

    def on_mount(self) -> None:
        super().on_mount()
        self._head.complete = self.console.queue.loader.complete
        self._head.remember = self.console.setup.remember_filter
        self._head.recall(self.console.setup.filters)
        self._head.rest(line(trusted("reading …", "dim")))
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
        if not self._head.is_asking:
            self._head.rest(self._scope(view))
        layout, types = self._layout, self.console.venue_types
        groups = self._in_order(view)
        self._marks = {one.fingerprint: None for one in view.groups if one.fingerprint in self._marks}
        self._heads.show(group_header(size, layout, view.window))
        lines = [
            group_line(one, now, size, layout, how=GroupLook(seen, one.fingerprint in self._marks, types))
            for one in groups
        ]
        self._list.put(list(zip((one.fingerprint for one in groups), lines, strict=True)))
        self._show_footer()

    def _in_order(self, view: GroupView) -> tuple[Group, ...]:
        def dearest(group: Group) -> Decimal:
            return max(by_currency(group.worth, self.console.venue_types).values(), default=Decimal(0))

        return sorted_groups(view.groups, self._sort, dearest)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._put_again)
        self.call_after_refresh(self._moved)

    def _put_again(self) -> None:
        if self._view is not None:
            self._put(self._view)

    def _scope(self, view: GroupView) -> Line:
        """How much of the store the groups cover."""
        order = f" · {GROUP_SORTS[self._sort]}" if self._sort != "count" else ""
        known = trusted(f"{many(len(view.groups), 'group')}{order}", "strong")
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

    @property
    def _acted_on(self) -> tuple[Group, ...]:
        """The marked groups, else the one under the cursor."""
        if self._marks and self._view is not None:
            return tuple(one for one in self._in_order(self._view) if one.fingerprint in self._marks)
        return () if self.group is None else (self.group,)

    def lead(self) -> Line:
        if not self._marks:
            return ()
        entries = sum(group.count for group in self._acted_on)
        return line(trusted(f"{many(len(self._marks), 'group')} marked · {many(entries, 'entry')}", "accent"))

    def do_mark(self) -> None:
        chosen = self._list.chosen
        if chosen is None or self.in_story:
            return
        if chosen in self._marks:
            del self._marks[chosen]
        else:
            self._marks[chosen] = None
        self._put_again()
        self._list.move_by(1)

    def do_mark_all(self) -> None:
        self._marks = {} if self._view is None else {group.fingerprint: None for group in self._view.groups}
        self._put_again()

    def do_unmark(self) -> None:
        self._marks = {}
        self._put_again()

    def do_sort(self) -> None:
        self._sort = next_group_sort(self._sort, has_worth=self._layout.has_worth)
        self._put_again()
        self._list.move_to(0)

    def _click_title(self, x: int) -> None:
        """A click on a column's title sorts by it."""
        by = GROUP_COLUMNS.get(word_at(plain(self._heads.lines[0]), x))
        if by is not None:
            self._sort = by
            self._put_again()
            self._list.move_to(0)

    def do_filter(self) -> None:
        self._head.ask("filter", earlier=self._filter)
        self._show_footer()

    @property
    def is_typing(self) -> bool:
        return self._head.is_asking

    def take_paste(self, text: str) -> None:
        if self._head.is_asking:
            self._head.paste(text)

    def take_key(self, event: events.Key) -> None:
        if not self._head.is_asking:
            super().take_key(event)
            return
        self._hush()
        came = self._head.press(event)
        if came == "given":
            self._filter_by(self._head.text.strip())
        elif came == "given-up":
            self._put_again()
        elif self._head.offered:
            self.show_notice(line(untrusted("  ".join(self._head.offered), "accent")))
        self._show_footer()

    def _filter_by(self, text: str) -> None:
        try:
            parse_expression(text, self.console.now())
        except ExpressionError as problem:
            self._head.ask("filter", text)
            self.warn(str(problem))
            return
        self._filter, self._marks = text, {}
        self._head.rest(line(trusted("reading …", "dim")))
        self._renew()

    def _moved(self) -> None:
        group = self.group
        self._tell_story(None if group is None else Story(group, types=self.console.venue_types))
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
        self._tell_story(Story(group, None, notes, self.console.venue_types))
        asked = parse_expression(self._filter, self.console.now()) if self._filter else None
        split = await groups.split(group.fingerprint, asked, budget=_SPLIT_SECONDS)
        if self.group is not None and self.group.fingerprint == group.fingerprint:
            self._tell_story(Story(group, split, notes, self.console.venue_types))

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
        elif self._filter != self._opened_with:
            self._filter_by(self._opened_with)
        elif self._marks:
            self.do_unmark()
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
        if not self._about:
            return []
        first, more = self._about[0], len(self._about) - 1
        others = trusted(f"  and {many(more, 'other group')}" if more else "")
        return [
            line(
                trusted(" group  ", "dim"),
                untrusted(first.title, "strong", limit=max(50, self.size.width - 40)),
                others,
            ),
            (),
        ]

    def acted(self) -> None:
        self._frozen, self._marks = {}, {}
        self._renew()
        self.console.queue.changed()

    def do_dismiss(self) -> None:
        self._freeze(super().do_dismiss)

    def do_replay(self) -> None:
        self._freeze(super().do_replay)

    def _freeze(self, act: Callable[[], None]) -> None:
        chosen = self._acted_on
        if not chosen or self.attached_session() is None:
            return
        entries = sum(group.count for group in chosen)
        self.show_notice(line(trusted(f"reading the members: {many(entries, 'entry')} …", "accent")))
        self.start(lambda: self._read_members(chosen, act), group="ask", exclusive=True)

    async def _read_members(self, chosen: tuple[Group, ...], act: Callable[[], None]) -> None:
        found: dict[str, Entry] = {}

        def tell(count: int) -> None:
            if len(found) + count >= _TELL:
                so_far = len(found) + count
                self.show_notice(line(trusted(f"reading the members: {so_far:,} so far; esc gives up", "accent")))

        query, complete = parse_expression(self._filter, self.console.now()), True
        groups = await self._groups()
        for group in chosen:
            members = await groups.members(group.fingerprint, query, tell=tell)
            found |= {entry.id: entry for entry in members.entries}
            complete = complete and members.complete
        if not self.is_current:
            return  # a gate must not open over the screen that the operator has gone to
        self._frozen, self._about = found, chosen
        self._hush()
        if not found:
            of_what = "this group" if len(chosen) == 1 else "these groups"
            self.warn(f"nothing of {of_what} is open any more")
            self._renew()
            return
        if not complete:
            self.warn(f"only the first {len(found):,} are taken: repeat it for the rest")
        act()

    def do_note(self) -> None:
        """Write a note on the group, or on each of the marked ones; it outlives their entries."""
        from console.screens.gates.prompts import WordGate, a_note

        chosen = self._acted_on
        if not chosen or self.attached_session() is None:
            return
        if len(chosen) > _MOST_NOTED:
            self.warn(f"a note goes on {_MOST_NOTED} groups at most")
            return
        title = "Note on a group" if len(chosen) == 1 else f"Note on {many(len(chosen), 'group')}"
        lines = [line(untrusted(f" {group.title}", limit=300)) for group in chosen[:_TITLES]]
        if len(chosen) > _TITLES:
            lines.append(line(trusted(f" … and {len(chosen) - _TITLES:,} more", "dim")))
        lines.append(line(trusted(" It stays with the group when it comes again.", "dim")))
        gate = WordGate(line(trusted(title)), lines, ask="note", judge=a_note)

        def answered(answer: str | None) -> None:
            if answer is not None:
                self.start(lambda: self._write(chosen, answer), group="act", exclusive=False)

        self.app.push_screen(gate, answered)

    async def _write(self, chosen: tuple[Group, ...], text: str) -> None:
        groups = await self._groups()
        for group in chosen:
            await groups.note(group.fingerprint, text)
        self.show_notice(line(trusted("noted", "good")))
        self._renew()
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
