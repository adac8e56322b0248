"""The screen of the audit trail: newest first, with a filter and the whole of the event under the cursor.

Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual import events
from textual.widget import Widget

from console.render.evidence.event import trail_header, trail_line, trail_story
from console.render.line import Line, line, spread, trusted, untrusted
from console.render.value import coverage, many
from console.screens.frame import FramedScreen
from console.services.browse.filter_syntax import ExpressionError
from console.services.triage.trail import MOST_ROWS, AuditTrail, TrailRow, seen_in
from console.services.triage.trail_filter import FIELDS, parse_trail_filter
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList
from console.widgets.prompt_line import PromptLine
from console.widgets.text_pane import TextPane

_PAGE = 200  # acts ahead of the cursor
_KEPT = "Keep this head elsewhere: with it a later check also finds truncation and rewriting."
_EXAMPLE = "/ filter: operator:ann  kind:dismiss  reason:stale  id:…  since:8h"


class AuditScreen(FramedScreen):
    key_context = "audit"
    CSS_PATH = "../../styles/audit.tcss"

    def __init__(self, text: str = "") -> None:
        """`text`: a filter to begin with."""
        super().__init__()
        self._line = PromptLine(id="filter")
        self._line.complete = self._complete
        self._columns = Canvas(id="titles")
        self._list = ChoiceList(id="choices")
        self._list.on_move = self._moved
        self._story = TextPane(id="audit-story")
        self._text = text
        self._trail: AuditTrail | None = None
        self._verified: list[Line] = []
        self.in_story = False  # j and k scroll the story instead of moving the cursor
        self._lines: list[tuple[str, Line]] = []  # of the trail's rows, for a screen this wide
        self._width = 0

    def body(self) -> Iterable[Widget]:
        yield self._line
        yield self._columns
        yield self._list
        yield self._story

    def on_mount(self) -> None:
        super().on_mount()
        self._filter_by(self._text)

    @property
    def is_typing(self) -> bool:
        return self._line.is_asking

    def take_key(self, event: events.Key) -> None:
        if not self._line.is_asking:
            super().take_key(event)
            return
        self._hush()
        came = self._line.press(event)
        self._show_footer()
        if came == "given":
            self._filter_by(self._line.text.strip())
        elif came == "given-up":
            self._show_scope()
        elif self._line.offered:
            self.show_notice(line(untrusted("  ".join(self._line.offered), "accent")))

    def take_paste(self, text: str) -> None:
        if self._line.is_asking:
            self._line.paste(text)

    def _complete(self, before: str) -> tuple[int, list[str]]:
        """What the word at the cursor may become, by the acts that are at hand: nothing is read for it."""
        from console.services.browse.filter_completion import completions

        rows = self._trail.rows if self._trail is not None else []
        return completions(before, seen_in(rows), FIELDS)

    def do_filter(self) -> None:
        self._line.ask("filter", earlier=self._text)
        self._show_footer()

    def _filter_by(self, text: str) -> None:
        session = self.console.session
        if session is None:
            return
        try:
            query = parse_trail_filter(text, self.console.now())
        except ExpressionError as problem:
            self._line.ask("filter", text)
            self.warn(str(problem))
            return
        self._text, self._trail, self._lines = text, AuditTrail(session.store, query), []
        self._list.put([])
        self._list.move_to(0)
        self._read_on()

    def hints(self) -> tuple[str, ...]:
        if self._trail is None or not self._trail.rows:
            return ("filter", "back", "verify")
        return ("filter", "open", "back", "verify", "export", "pane", "down", "up")

    def _read_on(self, *, to_the_end: bool = False) -> None:
        self.start(lambda: self._read(to_the_end=to_the_end), group="audit", exclusive=True)

    async def _read(self, *, to_the_end: bool) -> None:
        """Read until a page is ahead of the cursor, or everything."""
        trail = self._trail
        while trail is not None and trail is self._trail and not trail.is_over and not trail.is_full:
            await trail.step()
            if trail is not self._trail:
                return
            self._show()
            if not to_the_end and len(trail.rows) - self._at >= _PAGE:
                break
        self._show()
        if to_the_end:
            self._list.move_to(1 << 30)

    @property
    def _at(self) -> int:
        """How many rows stand above the cursor."""
        chosen, trail = self._list.chosen, self._trail
        rows = trail.rows if trail is not None else []
        return next((n for n, row in enumerate(rows) if str(row.seq) == chosen), 0)

    def header_changed(self) -> None:
        super().header_changed()
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        trail, size = self._trail, max(20, self.size.width - 4)
        if trail is None:
            return
        self._columns.show(trail_header(size))
        if size != self._width:
            self._width, self._lines = size, []
        if len(self._lines) != len(trail.rows):
            layout, fresh = self.console.header_state.layout, trail.rows[len(self._lines) :]
            self._lines += [(str(row.seq), trail_line(row, size, layout=layout)) for row in fresh]
            self._list.put(self._lines)
        self._show_footer()  # it names the keys of rows only where there are some
        self._show_scope()
        if not trail.rows:
            self._story.put(self._blank(trail))

    def _blank(self, trail: AuditTrail) -> list[Line]:
        if not trail.is_over:
            return [line(trusted("reading …", "dim"))]
        text = "nothing matches: esc clears the filter" if self._text else "no act is recorded yet"
        return [*self._verified, line(trusted(text, "dim"))]

    def _show_scope(self) -> None:
        trail = self._trail
        if trail is None or self._line.is_asking or not self.is_mounted:
            return
        size = max(10, self.size.width - 4)
        left = (
            line(trusted("filter: ", "dim"), untrusted(self._text, "accent"))
            if self._text
            else line(trusted(_EXAMPLE, "dim"))
        )
        self._line.rest(spread(left, self._scope(trail), size))

    def _scope(self, trail: AuditTrail) -> Line:
        if trail.is_full:
            return line(trusted(f"the newest {MOST_ROWS:,}: narrow the filter", "warning"))
        if self._text and not trail.is_over:
            return coverage(len(trail.rows), trail.read, None, over=False)
        return line(trusted(f"{many(len(trail.rows), 'act')}{'' if trail.is_over else '+'}", "dim"))

    @property
    def _row(self) -> TrailRow | None:
        chosen, trail = self._list.chosen, self._trail
        return next((row for row in trail.rows if str(row.seq) == chosen), None) if trail is not None else None

    def _moved(self) -> None:
        row, size = self._row, max(20, self.size.width - 4)
        if row is not None:
            story = trail_story(row, size, layout=self.console.header_state.layout)
            self._story.put([*self._verified, *story])
        self._verified = []

    def _move(self, by: int) -> None:
        if self.in_story:
            self._story.scroll_lines(by)
            return
        self._list.move_by(by)
        trail = self._trail
        if trail is not None and not trail.is_over and len(trail.rows) - self._at < _PAGE // 4:
            self._read_on()

    def do_open(self) -> None:
        from console.screens.audit.event_entries import EventEntriesScreen

        row = self._row
        if row is None:
            return
        if row.count > 1:
            self.app.push_screen(EventEntriesScreen(row))
        elif row.first_id is not None:
            entry_id = row.first_id
            self.start(lambda: self._open_entry(entry_id), group="open", exclusive=True)
        else:
            self.warn("this act is about the store: it names no entry")

    async def _open_entry(self, entry_id: str) -> None:
        from console.screens.entry import EntryScreen

        shown = await self.console.shown(entry_id)
        if shown is None:
            self.warn(f"{entry_id} is not in the table that is attached")
        elif self.is_current:
            self.app.push_screen(EntryScreen(shown, 0, step=lambda _: None))

    def on_choice_list_opened(self) -> None:
        self.do_open()

    def do_back(self) -> None:
        """Leave the pane, then the filter, then the screen."""
        self.workers.cancel_group(self, "export")
        if self.in_story:
            self.do_pane()
        elif self._text:
            self._filter_by("")
        else:
            super().do_back()

    def do_pane(self) -> None:
        self.in_story = not self.in_story
        self._story.set_class(self.in_story, "-chosen")

    def do_down(self) -> None:
        self._move(1)

    def do_up(self) -> None:
        self._move(-1)

    def do_page_down(self) -> None:
        self._move(max(1, self._list.size.height - 1))

    def do_page_up(self) -> None:
        self._move(-max(1, self._list.size.height - 1))

    def do_top(self) -> None:
        self._list.move_to(0)

    def do_bottom(self) -> None:
        self._list.move_to(1 << 30)
        if self._trail is not None and not self._trail.is_over:
            self._read_on(to_the_end=True)

    def do_verify(self) -> None:
        self.show_notice(line(trusted("checking the whole chain …", "accent")))
        self.start(self._verify, group="verify", exclusive=True)

    async def _verify(self) -> None:
        session = self.console.session
        if session is None:
            return
        seen = await session.verify()
        if seen.problem is not None:
            self.show_notice(line(trusted("BROKEN  ", "danger"), untrusted(seen.problem, "danger", limit=200)))
            return
        self.show_notice(line(trusted(f"the chain holds: {seen.events:,} events", "good")))
        self._verified = [line(trusted(seen.head, "strong")), line(trusted(_KEPT, "dim")), ()]
        self._moved() if self._row is not None else self._show()

    def do_export(self) -> None:
        query = self._trail.query if self._trail is not None and self._text else None
        self.start(lambda: self.console.export_audit(query), group="export", exclusive=True)
