"""Untrusted text is inert: by the way it is written down, at the last exit, and for every character there is."""

from __future__ import annotations

import ast
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from textual._compositor import CompositorUpdate
from textual.app import App, ComposeResult
from textual.strip import Strip
from textual.widgets import Static

from console.render.entry import Shown, tab_lines
from console.render.line import plain
from console.render.row import row_line
from console.services.triage.triage import classified
from console.terminal import output_guard as guard
from console.text.untrusted import is_forbidden, safe, safe_block
from tests.support.app import NOW, order
from tests.unit.test_window import spot

ROOT = Path(__file__).parent.parent.parent
PAINTERS = [ROOT / "console" / "app.py", *(ROOT / "console" / "screens").rglob("*.py")]
PAINTERS += [*(ROOT / "console" / "widgets").rglob("*.py"), *(ROOT / "console" / "render").rglob("*.py")]
MAKERS = {"trusted", "Cell"}
# These return text that is safe, or numbers.
SAFE_CALLS = {
    "safe", "safe_block", "len", "count", "many", "money", "quantity", "price", "moment", "name", "order",
    "spelled", "age", "long_age", "sparkline", "value_label", "_tally", "_moment", "_way_out", "_pace", "_success",
    "_market", "_kind", "stop", "place", "order_text", "market_text", "amounts",
}  # fmt: skip
# Looked at by a person: each is one of our own words, a number, or was made safe where it was set.
REVIEWED = {
    "console/app.py": {"text"},
    "render/batch.py": {
        "'  '.join(titles)", "' · '.join(ids)", "_NO_OUTCOME", "filled", "hint", "reasons", "room", "text", "there",
        "told", "what", "where", "word", "_short(row)", "place_of(row.entry)",
    },
    "render/entry.py": {
        "' · '.join(facts)", "hint", "label", "name", "order", "since", "text", "told.verdict", "what", "where",
        "whose", "worth",
    },
    "evidence/event.py": {
        "'  '.join(titles)", "_identity(body)", "done", "_operator(body, whole=False)",
        "_times(row)", "day", "ids[0]", "kind", "more", "numbers", "order", "rest", "row.hash.hex()[:16]", "said",
        "seq", "shown", "shown[11:19]", "time", "value", "words", "_operator(body, whole=is_wide)", "_subject(body)",
        "at[5:16]", "at[:19]", "place_of(entry)", "state.text", "subject", "who", "word",
    },
    "render/layout_tabs.py": {
        "failed", "gone", "known", "more", "reason", "shown.kind", "told(len(ancestors))", "what", "where",
    },
    "render/group.py": {
        "_new(group, anything_seen=how.anything_seen)", "_poisoned(group)", "_when(group.first_seen, now)",
        "_when(group.last_seen, now)", "bar(part.count, most, _BAR)", "facts", "first", "head", "kind", "last",
        "maybe", "poisoned", "short(Decimal(group.may_have_arrived))", "where", "wide", "text",
        "_origins(group, has.origin)", "group_title(group.title)",
    },
    "render/health.py": {
        "' · '.join(map(_of_venue, alerts))", "_ARROWS[trend.direction]", "_COLUMNS", "_GAP", "_axis(size)",
        "_trend(view)", "average", "doubts", "first.text[1:]", "frame.column", "halt", "heads", "labels.get(at, '')",
        "last", "poisoned", "row", "short_count(venue.depth)", "short_count(venue.over_age)", "tail", "text", "told",
        "waits", "width(one)", "group_title(group.title)",
    },
    "render/line.py": {
        "_BETWEEN", "between", "cells[-1].text", "head", "indent", "part", "room", "text", "width(left)",
        "width(part)", "cell.text", "name",
    },
    "render/plan.py": {
        "_FAILURE", "_REAL", "_ROUTES", "_collapses(plan, entries)", "_head(step, one.by)", "_resend_pace(plan)",
        "_resend_success(plan)", "at_market", "count", "how", "kind", "more", "place",
        "place_text(*one)", "place_text(*places[0], alone=len(places) == 1)", "renewed_text(shown, renewal)", "sends",
        "text", "why", "words", "sent.client_id", "sent.order", "sent.place", "sent.worth",
    },
    "render/row.py": {
        "_margin(layout)", "gap", "made.gap", "one.sign", "state.sign", "text[at:]",
        "text[at:start + low]", "text[start + low:end + low]", "told.word", "column.title", "text",
    },
    "evidence/settlement.py": {"_PERSON", "_which(attempt)", "ago", "mode", "place", "text", "claim"},
    "render/value.py": {"of"},
    "evidence/venue_answer.py": {
        "''.join((f'   {part}' for part in told))", "_MEANS[answer.answer]", "order", "same", "then", "word",
    },
    "render/status.py": {
        "header_state.mode.upper()", "key", "key.label", "key.shown", "label", "name", "note", "trend.hours",
        "waiting", "who", "words",
    },
    "screens/export.py": {"unit"},
    "screens/frame.py": {"below", "cell.text"},
    "gates/approve.py": {"self._asked.word"},
    "gates/dismiss.py": {"_DIGITS[at]", "asked", "more", "so_far", "str(self._count)", "told", "word"},
    "people/approvals.py": {"text", "title"},
    "gates/replay.py": {
        "' '.join(sorted(self._overridable()))", "self._expected", "self._words.asked", "self._words.no_plan",
        "self._words.send", "shown",
    },
    "gates/prompts.py": {"self._ask"},
    "gates/settle.py": {"_WORD", "asked", "self._draft.claimed"},
    "evidence/actions.py": {
        "MOST", "_NOBODY", "_UNWRITTEN", "_mode_word(screen, session)", "absent", "key", "one", "word",
    },
    "screens/groups.py": {"order", "title", "told"},
    "screens/external_tools.py": {"way"},
    "screens/health.py": {"view.at"},
    "queue/listing.py": {"_BLANKS[blank]", "polled", "worth"},
    "queue/screen.py": {
        "hint", "known", "known[1]", "reach", "row", "sort.words", "text", "words",
    },
    "screens/replay_actions.py": {"screen_key(screen, 'halt')", "text", "told"},
    "screens/triage_actions.py": {"hint", "left", "stop", "who", "word"},
    "widgets/prompt_line.py": {"lead", "tab", "verb"},
    "gates/dismissal.py": {"' · '.join(parts)", "told", "what", "worth"},
    "gates/plan_row.py": {"market", "mode.upper()", "place", "worth_text(step)"},
    "gates/waiting.py": {
        "claim", "gross", "host", "left_text(plan, now)", "mode", "part", "place", "places_text(plan)", "size", "state",
    },
    "render/help.py": {
        "_GAP", "_READING", "key.tooltip", "one.meaning", "one.sign", "one.word", "room", "text", "title",
        "width(part)", "name",
    },
    "render/markdown.py": {
        "(' ' * _GAP).join(cells).rstrip()", "_plain(row)", "_plain(row.lstrip('# '))", "_plain(row[2:])", "text",
    },
    "render/store_choice.py": {"_GAP", "doubt", "told", "word", "kinds[name]"},
    "audit/event_entries.py": {"cut", "what"},
    "audit/screen.py": {"_EXAMPLE", "_KEPT", "seen.head", "text"},
    "screens/batch.py": {"told"},
    "screens/shift_report.py": {"told"},
}  # fmt: skip


def _title(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _texts(path: Path) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS and node.args:
            yield f"{path.name}:{node.lineno}", node.args[0]


def _unproven(text: ast.expr) -> Iterator[str]:
    match text:
        case ast.Constant():
            return
        case ast.JoinedStr(values=values):
            for part in values:
                if isinstance(part, ast.FormattedValue) and not _is_number(part):
                    yield from _unproven(part.value)
        case ast.IfExp(body=body, orelse=other):
            yield from _unproven(body)
            yield from _unproven(other)
        case ast.BinOp(left=left, right=right):
            yield from _unproven(left)
            yield from _unproven(right)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _unproven(value)
        case ast.Call(func=ast.Name(id="fit" | "middle"), args=[given, *_]):
            yield from _unproven(given)  # cut or padded, and otherwise as it was
        case ast.Call(func=ast.Name(id=called)) | ast.Call(func=ast.Attribute(attr=called)) if called in SAFE_CALLS:
            return
        case _:
            yield ast.unparse(text)


def _is_number(part: ast.FormattedValue) -> bool:
    """With a format that only numbers take."""
    spec = ast.unparse(part.format_spec)[2:-1] if part.format_spec is not None else ""
    return spec.endswith((",", "d", "f", "%"))


@pytest.mark.parametrize("path", sorted(PAINTERS), ids=_title)
def test_no_text_reaches_a_widget_without_being_made_safe(path: Path) -> None:
    found = {source: where for where, text in _texts(path) for source in _unproven(text)}
    reviewed = REVIEWED.get(_title(path), set())
    missing = {source: where for source, where in found.items() if source not in reviewed}
    assert not missing, "make it safe(), show it with untrusted(), or look at it and add it to REVIEWED"
    assert reviewed <= set(found), "gone: another text of that name must be looked at again"


def test_the_makers_of_text_are_still_called_so() -> None:
    """A renamed maker would leave the check above with nothing to look at."""
    assert sum(1 for path in PAINTERS for _ in _texts(path)) > 300
    titles = [_title(path) for path in PAINTERS if path.name != "__init__.py"]
    assert set(REVIEWED) <= set(titles)
    assert len(titles) == len(set(titles)), "two modules would share what was looked at in one of them"


@pytest.mark.parametrize("path", sorted(PAINTERS), ids=_title)
def test_nothing_that_reads_markup_or_runs_actions_is_used(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "textual.widgets":
            pytest.fail(f"{path.name} uses a widget that parses markup: {[name.name for name in node.names]}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in ("notify", "run_action", "from_markup", "simulate_key"), path.name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert not node.name.startswith(("action_", "key_")), f"{path.name}: data could name {node.name}"
        if isinstance(node, ast.Assign) and any(_is_title(target) for target in node.targets):
            made = node.value
            assert isinstance(made, ast.Call), path.name
            assert ast.unparse(made.func) in ("_content", "Content"), path.name


def _is_title(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and target.attr in (
        "border_title",
        "border_subtitle",
        "title",
        "sub_title",
    )


def test_every_code_point_is_harmless_once_it_is_safe() -> None:
    for start in range(0, sys.maxunicode + 1, 4096):
        block = "".join(map(chr, range(start, min(start + 4096, sys.maxunicode + 1))))
        assert not [one for one in safe(block, len(block)) if is_forbidden(one)]


@given(st.text(max_size=200))
def test_safe_text_is_one_line_without_anything_that_acts(text: str) -> None:
    assert not [one for one in safe(text) if is_forbidden(one)]
    assert not [one for one in safe_block(text) if is_forbidden(one) and one != "\n"]


@given(st.text(max_size=300), st.text(max_size=60))
def test_a_hostile_row_paints_only_harmless_characters(error: str, market: str) -> None:
    hostile = order(1, error=error, market_id=market, side=market[:9], account_id=market, action_json=error)
    names = [name for name in type(hostile).__slots__ if name != "__weakref__"]
    entry = spot(1).entry
    entry = type(entry)(
        "orders", market, "pending", (0,), (1,), tuple(names), tuple(getattr(hostile, name) for name in names)
    )
    row = classified(entry)
    painted = plain(row_line(row, NOW, 120, marked=True, fresh=True))
    for tab in range(5):
        painted += "".join(plain(cells) for cells in tab_lines(Shown(row), tab, NOW, size=80))
    assert not [one for one in painted if is_forbidden(one)]


HOSTILE = (
    "\x1b]52;c;aGk=\x07",
    "\x1b[2J\x1b[H",
    "\u202eevil",
    "a\x00b",
    "\x9b31m",
    "zero\u200bwidth",
    "\ud800",
    "[@click=app.quit]x[/]",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_last_exit_lets_nothing_out(text: str) -> None:
    guard.install()
    strip = Strip([Segment(text)])
    out = strip.render(Console(file=io.StringIO(), color_system=None))
    assert not [one for one in out if is_forbidden(one)]


async def test_a_widget_s_painting_still_comes_through_the_guard() -> None:
    """The canary: a new Textual that paints by another way fails here."""
    guard.install()
    assert guard.is_installed()
    seen: list[str] = []

    class Canary(App[None]):
        def compose(self) -> ComposeResult:
            yield Static("tweet \u202e\x1b[2J", markup=False)

    app = Canary()
    async with app.run_test(size=(40, 5)) as pilot:
        await pilot.pause()
        update = app.screen._compositor.render_update(full=True)
        assert isinstance(update, CompositorUpdate)
        seen.append(update.render_segments(app.console))
    painted = "".join(seen)
    assert "tweet" in painted
    assert "\u202e" not in painted
    assert "\x1b[2J" not in painted


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x2FFF), max_size=60))
def test_the_guard_leaves_harmless_text_as_it_is(text: str) -> None:
    guard.install()
    shown = safe(text)
    out = Strip([Segment(shown)]).render(Console(file=io.StringIO(), color_system=None))
    assert out == shown
