"""One entry in full, tab by tab: error, order, history, audit, notes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from backends.records import Attempt, Entry, malformed, readable
from console.duration import long_age
from console.render import event, value
from console.render.line import Cell, Line, Tone, block, columns, line, own, said
from console.render.row import state_cell
from console.safetext import safe, safe_block
from console.services import layout
from console.services.advice import difference, next_step
from console.services.triage import History, Row

TABS = ("Error", "Order", "History", "Audit", "Notes")
_LONGEST = 20_000  # characters of one text in a pane; the pager has it whole
_OUTCOMES: Mapping[str, Tone] = {"accepted": "good", "rejected": "warning", "unknown": "danger", "not_sent": "plain"}
_FLOWING = ("error", "action_json", "payload", "headers", "originalRequest", "last_exception")


class Shown(NamedTuple):
    """What is known of the entry under the cursor; the history comes a moment later than the row."""

    row: Row
    history: History | None = None
    findings: tuple[str, ...] = ()  # why its action cannot be sent as it stands
    notes: tuple[str, ...] = ()
    read_only: bool = False


def tabs(shown: Shown | None, chosen: int) -> Line:
    cells: list[Cell] = []
    for number, title in enumerate(TABS):
        tone: Tone = "accent" if number == chosen else "dim"
        cells += [own(f" {title}{_tally(shown, title)} ", tone), own(" ")]
    return tuple(cells[:-1])


def _tally(shown: Shown | None, title: str) -> str:
    history = shown.history if shown else None
    if history is None:
        return ""
    held = {"History": history.attempts, "Audit": history.events, "Notes": history.notes}.get(title, ())
    return f" ({len(held)})" if held else ""


def tab_lines(shown: Shown, chosen: int, now: datetime) -> list[Line]:
    match TABS[chosen]:
        case "Error":
            return _error(shown, now)
        case "Order":
            return _order(shown)
        case "History":
            return _history(shown)
        case "Audit":
            return _audit(shown)
        case _:
            return _notes(shown)


def _error(shown: Shown, now: datetime) -> list[Line]:
    row = shown.row
    open_attempt = row.entry.state in ("in_doubt", "in_flight")
    reach = "may have reached the venue" if row.reach == "maybe" or open_attempt else "cannot have reached the venue"
    attempts = shown.history.attempts if shown.history else ()
    captured = layout.occurred_at(row.entry)
    since = f" · {long_age(captured, now)} ago" if captured else ""
    lines = _body(layout.error_text(row.entry) or "(no error text)")
    lines.append(line(own(f"{row.category} · {reach} · {_moment(row.entry)}{since}", "dim")))
    if not shown.read_only:
        step = next_step(row, attempts)
        lines.append(line(own("→ next: ", "accent"), said(step, limit=300)))
    return lines


def _moment(entry: Entry) -> str:
    at = layout.occurred_at(entry)
    return value.moment(at) if at else value.moment(entry.get("captured_at"))


def _body(text: str) -> list[Line]:
    lines = block(safe_block(text, _LONGEST))
    if len(text) > _LONGEST:
        rest = len(text) - _LONGEST
        lines.append(line(own(f"… {rest:,} more characters: p shows them all in a pager", "dim")))
    return lines


def _order(shown: Shown) -> list[Line]:
    entry = shown.row.entry
    lines: list[Line] = [line(own(value.order(entry), "strong"), "  ", state_cell(entry.state))]
    lines += [line(own("✗ ", "danger"), said(text, "danger", limit=300)) for text in shown.findings]
    lines += [line(own("· ", "dim"), said(text, "dim", limit=300)) for text in shown.notes]
    if entry.layout == layout.ORDERS:
        lines += [line(own("✗ ", "warning"), said(text, "warning", limit=300)) for text in malformed(entry)]
    pairs = [(safe(name, 40), _stored(name, entry.get(name))) for name in entry.names if name not in _FLOWING]
    lines += columns(pairs, indent=0)
    for name in _FLOWING[2:]:
        if name in entry.names:
            lines += [line(own(name, "dim")), *_body(layout.payload(entry.get(name)).text)]
    if "action_json" in entry.names:
        lines += [line(own("action_json", "dim")), *_pretty(entry.text("action_json"))]
    return lines


def _stored(name: str, stored: object) -> Line:
    if stored is None:
        return line(own("–", "dim"))
    if name in ("market_id", "account_id", "side") and isinstance(stored, str):
        return line(own(value.name(stored)))
    return line(own(value.price(stored) if isinstance(stored, float) else safe(readable(stored), 300)))


def _pretty(text: str) -> list[Line]:
    if not text:
        return [line(own("  empty: the action is rebuilt from the columns", "dim"))]
    try:
        # Numbers keep their own digits: they are read as text and written back as they stood.
        stored = json.loads(text, parse_float=_Digits, parse_int=_Digits, object_pairs_hook=_pairs)
        text = "\n".join(_dumped(stored, 1))
    except (ValueError, RecursionError):
        return [line(own("  not valid JSON:", "warning")), *_body(text)]
    return _body(text)


class _Digits(str):
    """A number as it was written."""

    __slots__ = ()


class _Pairs(list[tuple[str, object]]):
    """An object with its keys as they stood, twice where they were there twice."""


def _pairs(pairs: list[tuple[str, object]]) -> _Pairs:
    return _Pairs(pairs)


def _dumped(stored: object, depth: int) -> list[str]:
    space = "  " * depth
    if isinstance(stored, _Pairs):
        inner = [_attached(f"{json.dumps(key, ensure_ascii=False)}: ", item, depth) for key, item in stored]
        return [text for lines in inner for text in lines] if inner else [f"{space}(empty)"]
    if isinstance(stored, list):
        inner = [_attached("- ", item, depth) for item in stored]
        return [text for lines in inner for text in lines] if inner else [f"{space}[]"]
    return [f"{space}{_scalar(stored)}"]


def _attached(head: str, item: object, depth: int) -> list[str]:
    space = "  " * depth
    if isinstance(item, list) and item:
        return [f"{space}{head}".rstrip(), *_dumped(item, depth + 1)]
    return [f"{space}{head}{_scalar(item)}"]


def _scalar(item: object) -> str:
    if isinstance(item, _Digits):
        return str(item)
    return "{}" if isinstance(item, _Pairs) else json.dumps(item, ensure_ascii=False)


def _history(shown: Shown) -> list[Line]:
    history = shown.history
    if history is None:
        return [line(own("reading …", "dim"))]
    lines: list[Line] = []
    if history.unrecorded:
        lines.append(line(own(f"{value.many(history.unrecorded, 'earlier retry')}, not recorded here", "dim")))
    before: Attempt | None = None
    for attempt in history.attempts:
        lines += _attempt(attempt, before)
        before = attempt
    return lines or [line(own("never sent from here", "dim"))]


def _attempt(attempt: Attempt, before: Attempt | None) -> list[Line]:
    outcome = attempt.outcome or "in flight"
    tone = _OUTCOMES.get(outcome, "warning")
    shown = "in doubt" if outcome == "unknown" else outcome.replace("_", " ")
    kind = f"{safe(attempt.mode.upper(), 20)}{' rehearsal' if attempt.rehearsal else ''}"
    order = f" → order {safe(attempt.venue_order_id, 80)}" if attempt.venue_order_id else ""
    head = line(
        own(f"{attempt.attempt_no:d}. {value.moment(attempt.started_at)}  "),
        said(shown, tone, limit=40),
        own(f"{order}  {kind} at {safe(attempt.venue, 40)}  by {safe(attempt.operator, 40)}"),
    )
    lines = [head, line(own(f"   id {safe(attempt.client_order_id, 80)}", "dim"))]
    if attempt.error:
        lines.append(line(own(f"   {safe(attempt.error, 1000)}", "dim")))
    if before is not None and (changed := difference(before, attempt)):
        lines.append(line(own(f"   against {before.attempt_no:d}.: ", "dim"), said(changed, "dim", limit=200)))
    return lines


def _audit(shown: Shown) -> list[Line]:
    if shown.history is None:
        return [line(own("reading …", "dim"))]
    lines = [event.event_line(one) for one in shown.history.events]
    return lines or [line(own("nothing was done to it from here", "dim"))]


def _notes(shown: Shown) -> list[Line]:
    if shown.history is None:
        return [line(own("reading …", "dim"))]
    lines: list[Line] = []
    for note in shown.history.notes:
        lines.append(line(own(f"{value.moment(note.at)}  {safe(note.operator, 40)}", "dim")))
        lines += block(safe_block(note.text, _LONGEST))
    hint = "no notes" if shown.read_only else "no notes: N writes one"
    return lines or [line(own(hint, "dim"))]


def whole_text(shown: Shown, now: datetime) -> str:
    """Everything of an entry as plain text, for a pager."""
    parts = []
    for number, title in enumerate(TABS):
        body = "\n".join("".join(cell.text for cell in cells) for cells in tab_lines(shown, number, now))
        parts.append(f"== {title} ==\n{body}")
    text = layout.error_text(shown.row.entry)
    if len(text) > _LONGEST:
        parts[0] = f"== Error ==\n{safe_block(text, len(text))}"
    return "\n\n".join(parts) + "\n"
