"""Lines of one entry, tab by tab: error, order, history, audit, notes. Pure."""

from __future__ import annotations

import json
from datetime import datetime
from typing import NamedTuple

from backends.records import Attempt, Entry, malformed, parse_time, readable
from console.render import event, value
from console.render.layout_tabs import OWN_TABS, TabInput, ancestor_lines
from console.render.line import HANG, Cell, Line, block, clip, columns, line, trusted, untrusted, width
from console.render.line import LONGEST as _LONGEST
from console.render.line import body as _body
from console.render.row import state_cell
from console.services import layout_fields as layout
from console.services.replay.outcome import spoken
from console.services.triage.advice import difference, next_step
from console.services.triage.triage import UNKNOWN, ClassifiedEntry, History
from console.text.durations import long_age
from console.text.untrusted import safe, safe_block

_WHOLE = 100_000  # wider than any text, so that nothing is cut
_FLOWING = ("error", "action_json")


class Shown(NamedTuple):
    """What is known of an entry; its history is read after its row."""

    row: ClassifiedEntry
    history: History | None = None
    findings: tuple[str, ...] = ()  # why its action cannot be sent unchanged
    notes: tuple[str, ...] = ()
    read_only: bool = False


def titles(shown: Shown | None, kind: str = layout.ORDERS) -> tuple[str, ...]:
    """The tabs of the entry's layout, or of the store's where there is no entry."""
    return layout.LAYOUTS[shown.row.entry.layout if shown else kind].tabs


def tabs(shown: Shown | None, chosen: int, kind: str = layout.ORDERS) -> Line:
    """The line of tabs, the chosen one in brackets for those who see no colours."""
    cells: list[Cell] = []
    for number, title in enumerate(titles(shown, kind)):
        here = number == chosen
        label = f"{title}{_tally(shown, title)}"
        cells += [trusted(f"[{label}]" if here else f" {label} ", "accent" if here else "dim"), trusted(" ")]
    return tuple(cells[:-1])


def _tally(shown: Shown | None, title: str) -> str:
    history = shown.history if shown else None
    if history is None:
        return ""
    tries = (*history.ancestors, *history.attempts)
    held = {"History": tries, "Audit": history.events, "Notes": history.notes}.get(title, ())
    return f" ({len(held)})" if held else ""


def tab_lines(shown: Shown, chosen: int, now: datetime, *, size: int) -> list[Line]:
    entry, title = shown.row.entry, titles(shown)[chosen]
    if (write := OWN_TABS[entry.layout].get(title)) is not None:
        row = shown.history.entry if shown.history else shown.row
        return write(TabInput(row, None if shown.read_only else _next(shown), now))
    match title:
        case "Error":
            return _error(shown, now)
        case "Order":
            return _order(shown)
        case "History":
            return _history(shown)
        case "Audit":
            return _audit(shown, size)
        case _:
            return _notes(shown)


def _error(shown: Shown, now: datetime) -> list[Line]:
    row = shown.row
    open_attempt = row.entry.state in ("in_doubt", "in_flight")
    reach = "may have reached the venue" if row.reach == "maybe" or open_attempt else "no order stands at the venue"
    reach = "sent again and accepted" if row.entry.state == "replayed" else reach
    reach = "whether it was sent again is unknown: the ledger cannot be read" if row.state == UNKNOWN else reach
    captured = layout.occurred_at(row.entry)
    since = f" · {long_age(captured, now)} ago" if captured else ""
    lines = _body(layout.error_text(row.entry) or "(no error text)")
    lines.append(line(trusted(f"{row.category} · {reach} · {_moment(row.entry)}{since}", "dim")))
    if shown.history and (bad := shown.history.entry.poison):
        lines.append(line(trusted("! poison: ", "warning"), HANG, untrusted(f"{bad.text}: {bad.title}", limit=300)))
    if shown.history and shown.history.attempts:
        lines.append(_last_try(shown.history.attempts[-1], now))
    if not shown.read_only:
        lines.append(line(trusted("→ next: ", "accent"), HANG, untrusted(_next(shown), limit=300)))
    return lines


def _last_try(attempt: Attempt, now: datetime) -> Line:
    """The last attempt: the stored error is the engine's and says nothing of replays."""
    at = parse_time(attempt.started_at)
    since = f"{long_age(at, now)} ago" if at else ""
    return line(
        trusted(f"try {attempt.attempt_no:d}: ", "dim"),
        HANG,
        untrusted(spoken(attempt.outcome), value.OUTCOMES.get(attempt.outcome or "", "warning"), limit=40),
        trusted(f" {since}, {safe(attempt.mode.upper(), 20)}{' rehearsal' if attempt.rehearsal else ''}", "dim"),
        untrusted(f": {attempt.error}" if attempt.error else "", "dim", limit=300),
    )


def summary(entry: Entry, room: int) -> Line:
    """The entry in one line, for a screen that does not show its row."""
    state = state_cell(entry.state)
    where = "  ".join(safe(name, 40) for name in (entry.text("venue_name"), entry.text("account_id")) if name)
    tail = (trusted("  "), state, trusted(f"  {where}" if where else "", "dim"))
    left = max(20, room - width(tail))  # the order is cut before state and venue
    return (*clip(line(trusted(value.order(entry, left), "strong")), left), *tail)


_WAYS_OUT = {
    "in_doubt": "C asks the venue (reconcile), S settles it by what you saw",
    "in_flight": "wait: it is being sent; if its owner is gone, C asks the venue (reconcile), S settles it",
}


def _next(shown: Shown) -> str:
    entry = shown.row.entry
    if entry.state in _WAYS_OUT and layout.layout_of(entry).has_modes:
        return _WAYS_OUT[entry.state]
    row = shown.history.entry if shown.history else shown.row
    return next_step(row, shown.history.attempts if shown.history else ())


def _moment(entry: Entry) -> str:
    at = layout.occurred_at(entry)
    return value.moment(at) if at else value.moment(entry.get("captured_at"))


def _order(shown: Shown) -> list[Line]:
    entry = shown.row.entry
    lines: list[Line] = [line(trusted(value.order(entry), "strong"), "  ", state_cell(shown.row.state))]
    lines += [line(trusted("✗ ", "danger"), untrusted(text, "danger", limit=300)) for text in shown.findings]
    lines += [line(trusted("· ", "dim"), untrusted(text, "dim", limit=300)) for text in shown.notes]
    lines += [line(trusted("✗ ", "warning"), untrusted(text, "warning", limit=300)) for text in malformed(entry)]
    pairs = [(safe(name, 40), _stored(name, entry.get(name))) for name in entry.names if name not in _FLOWING]
    lines += columns(pairs, indent=0)
    if "action_json" in entry.names:
        lines += [line(trusted("action_json", "dim")), *_pretty(entry.text("action_json"))]
    return lines


def _stored(name: str, stored: object) -> Line:
    if stored is None:
        return line(trusted("–", "dim"))
    if name in ("market_id", "account_id", "side") and isinstance(stored, str):
        return line(trusted(value.name(stored)))
    return line(trusted(value.price(stored) if isinstance(stored, float) else safe(readable(stored), 300)))


def _pretty(text: str) -> list[Line]:
    if not text:
        return [line(trusted("  empty: the action is rebuilt from the columns", "dim"))]
    try:
        # Read numbers as text so that they keep their digits.
        stored = json.loads(text, parse_float=_Digits, parse_int=_Digits, object_pairs_hook=_pairs)
        text = "\n".join(_dumped(stored, 1))
    except (ValueError, RecursionError):
        return [line(trusted("  not valid JSON:", "warning")), *_body(text)]
    return _body(text)


class _Digits(str):
    """A number as the JSON spells it."""

    __slots__ = ()


class _Pairs(list[tuple[str, object]]):
    """A JSON object with its keys in order, including duplicates."""


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
        return [line(trusted("reading …", "dim"))]
    lines: list[Line] = ancestor_lines(history.ancestors)
    if history.unrecorded:
        lines.append(line(trusted(f"{value.many(history.unrecorded, 'earlier retry')}, not recorded here", "dim")))
    before: Attempt | None = None
    for attempt in history.attempts:
        lines += _attempt(attempt, before, layout.layout_of(shown.row.entry))
        before = attempt
    return lines or [line(trusted("never sent from here", "dim"))]


def _attempt(attempt: Attempt, before: Attempt | None, fields: layout.LayoutFields) -> list[Line]:
    tone, shown = value.OUTCOMES.get(attempt.outcome or "", "warning"), spoken(attempt.outcome)
    kind = f"{safe(attempt.mode.upper(), 20)}{' rehearsal' if attempt.rehearsal else ''}"
    order = f" → {fields.result} {safe(attempt.venue_order_id, 80)}" if attempt.venue_order_id else ""
    venue = value.place(attempt.venue, None, attempt.account, whose=fields.words.whose)
    where = f"{kind} at {venue}" if fields.has_modes else f"to {venue}"
    head = line(
        trusted(f"{attempt.attempt_no:d}. {value.moment(attempt.started_at)}  "),
        untrusted(shown, tone, limit=40),
        trusted(f"{order}  {where}  by {safe(attempt.operator, 40)}"),
    )
    name = fields.replay_key
    lines = [head, line(trusted(f"   {name} {safe(attempt.client_order_id or '–', 80)}", "dim"))]
    if attempt.error:
        lines.append(line(trusted("   "), HANG, untrusted(attempt.error, "dim", limit=1000)))
    if before is not None and (changed := difference(before, attempt, keeps_id=fields.has_modes)):
        lines.append(line(trusted(f"   against {before.attempt_no:d}.: ", "dim"), untrusted(changed, "dim", limit=200)))
    return lines


def _audit(shown: Shown, size: int) -> list[Line]:
    if shown.history is None:
        return [line(trusted("reading …", "dim"))]
    entry = shown.row.entry
    lines = event.event_lines(shown.history.events, size, about=entry.id, layout=entry.layout)
    return lines or [line(trusted("nothing was done to it from here", "dim"))]


def _notes(shown: Shown) -> list[Line]:
    if shown.history is None:
        return [line(trusted("reading …", "dim"))]
    lines: list[Line] = []
    for note in shown.history.notes:
        lines.append(line(trusted(f"{value.moment(note.at)}  {safe(note.operator, 40)}", "dim")))
        lines += block(safe_block(note.text, _LONGEST))
    hint = "no notes" if shown.read_only else "no notes: N writes one"
    return lines or [line(trusted(hint, "dim"))]


def whole_text(shown: Shown, now: datetime) -> str:
    """All tabs of an entry as plain text, for a pager."""
    parts = []
    for number, title in enumerate(titles(shown)):
        body = "\n".join("".join(cell.text for cell in cells) for cells in tab_lines(shown, number, now, size=_WHOLE))
        parts.append(f"== {title} ==\n{body}")
    text = layout.error_text(shown.row.entry)
    if len(text) > _LONGEST:
        parts[0] = f"== Error ==\n{safe_block(text, len(text))}"
    return "\n\n".join(parts) + "\n"
