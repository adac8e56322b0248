"""Lines of one entry, tab by tab: error, order, history, audit, notes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from backends.records import Attempt, Entry, malformed, readable
from console.render import value
from console.render.evidence import event
from console.render.layout_tabs import OWN_TABS, TabInput, ancestor_lines
from console.render.line import (
    HANG,
    Cell,
    Line,
    Tone,
    beside,
    block,
    clip,
    columns,
    line,
    plain,
    spread,
    trusted,
    untrusted,
    width,
)  # fmt: skip
from console.render.line import LONGEST as _LONGEST
from console.render.line import body as _body
from console.render.order_row import sender_text
from console.render.order_text import order_text
from console.render.row import NOTHING, Sought, marked, state_cell
from console.services import layout_fields as layout
from console.services.errors.summary import summarise
from console.services.market.entry_value import VenueTypes, currency_of, value_of
from console.services.replay.outcome import spoken
from console.services.triage.advice import DEFAULT_KEYS, Advice, EntryPast, KeyNames, Weight, advise, difference
from console.services.triage.triage import ClassifiedEntry, History
from console.text.durations import long_age
from console.text.untrusted import safe, safe_block

if TYPE_CHECKING:
    from venues import OrderAction

_WEIGHTS: Mapping[Weight, Tone] = {
    "plain": "strong", "good": "good", "dim": "strong", "warning": "warning", "danger": "danger",
}  # fmt: skip
_AS_NAMED: VenueTypes = MappingProxyType({})
_TOLD_ELSEWHERE = ("dlq_id", "captured_at", "venue_name", "account_id", "error", "retry_count", "dismissed")
_WHOLE = 100_000  # wider than any text, so that nothing is cut
_FLOWING = ("error", "action_json")


class Alike(NamedTuple):
    """How many open entries failed in the same way, and since when."""

    entries: int
    since: datetime | None


class Shown(NamedTuple):
    """What is known of an entry; its history is read after its row."""

    row: ClassifiedEntry
    history: History | None = None
    findings: tuple[str, ...] = ()  # why its action cannot be sent unchanged
    notes: tuple[str, ...] = ()
    read_only: bool = False
    action: OrderAction | None = None  # what its action means, where that was read
    keys: KeyNames = DEFAULT_KEYS
    alike: Alike | None = None
    types: VenueTypes = _AS_NAMED  # of venues, where the config says another
    sought: Sought = NOTHING  # what the filter of its list looks for

    @property
    def known(self) -> ClassifiedEntry:
        return self.history.entry if self.history else self.row


def titles(shown: Shown | None, kind: str = layout.ORDERS) -> tuple[str, ...]:
    """The tabs of the entry's layout, or of the store's where there is no entry."""
    return layout.LAYOUTS[shown.row.entry.layout if shown else kind].tabs


def tabs(shown: Shown | None, chosen: int, kind: str = layout.ORDERS, *, whole: bool = False) -> Line:
    """The line of tabs, the chosen one in brackets for those who see no colours. `whole`: the first is a page."""
    cells: list[Cell] = []
    for number, title in enumerate(titles(shown, kind)):
        here = number == chosen
        name = "Entry" if whole and number == 0 else title
        label = f"{name}{_tally(shown, title)}"
        cells += [trusted(f"[{label}]" if here else f" {label} ", "accent" if here else "dim"), trusted(" ")]
    return tuple(cells[:-1])


def _tally(shown: Shown | None, title: str) -> str:
    history = shown.history if shown else None
    if history is None:
        return ""
    tries = (*history.ancestors, *history.attempts)
    held = {"History": tries, "Audit": history.events, "Notes": (*history.notes, *history.group_notes)}.get(title, ())
    of_group = ", of the group" if title == "Notes" and history.group_notes and not history.notes else ""
    return f" ({len(held)}{of_group})" if held else ""


def tab_lines(shown: Shown, chosen: int, now: datetime, *, size: int) -> list[Line]:
    entry, title = shown.row.entry, titles(shown)[chosen]
    if (write := OWN_TABS[entry.layout].get(title)) is not None:
        return write(TabInput(shown.known, now))
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


def verdict(shown: Shown, now: datetime) -> Line:
    """What stands of the entry, before any evidence: `NEVER SENT · transient · 212 like it since 14:02 (f)`."""
    told = _advice(shown, now)
    facts = [safe(part, 200) for part in told.facts]
    if shown.alike is not None and shown.alike.entries > 1:
        since = f" since {clock_time(shown.alike.since, now)}" if shown.alike.since else ""
        like = f"{shown.alike.entries - 1:,} like it{since} ({shown.keys.get('groups', 'f')})"
        facts.insert(1 if facts else 0, like)
    rest = (trusted(" · ", "dim"), trusted(" · ".join(facts), "dim")) if facts else ()
    return line(trusted(told.verdict, _WEIGHTS[told.weight]), *rest)


def next_words(shown: Shown, now: datetime) -> Line:
    """`→ C asks the venue`; empty where nothing may be done from here."""
    if shown.read_only:
        return ()
    return line(trusted("→ ", "accent"), HANG, untrusted(_advice(shown, now).step, limit=300))


def heading(shown: Shown, now: datetime, size: int) -> tuple[Line, list[Line]]:
    """(the verdict, with the next step at its end where both fit; the lines that did not fit)."""
    told, step = verdict(shown, now), next_words(shown, now)
    if width(told) + width(step) + 3 <= size:
        return spread(told, step, size) if step else told, []
    over = [step] if step else []
    if width(told) > size:
        over = [*over, line(trusted("· ", "dim"), HANG, *told[2:])]
    return clip(told, size), over


def _advice(shown: Shown, now: datetime) -> Advice:
    history = shown.history
    told = EntryPast(history.attempts, history.events, now) if history else EntryPast()
    made = advise(shown.known, told, shown.keys)
    if shown.findings and shown.known.state == "pending":
        key = shown.keys.get("dismiss", "D")
        return made._replace(step=f"cannot be sent as stored (see Order): dismiss ({key}) or correct its source")
    return made


def clock_time(at: datetime, now: datetime) -> str:
    """`14:02` today, `04-18 14:02` on another day, in UTC."""
    here = at.astimezone(UTC)
    return here.strftime("%H:%M" if here.date() == now.astimezone(UTC).date() else "%m-%d %H:%M")


def _error(shown: Shown, now: datetime) -> list[Line]:
    """What the error says, then the whole of it, then when it was captured and what else is known."""
    row = shown.row
    text = layout.error_text(row.entry) or "(no error text)"
    said = summarise(text).line
    lines = [line(untrusted(said, "strong", limit=400))] if said and said not in text.split("\n", 1)[0] else []
    lines = [marked(cells, shown.sought.error) for cells in (*lines, *_body(text))]
    captured = layout.occurred_at(row.entry)
    since = f" · {long_age(captured, now)} ago" if captured else ""
    lines.append(line(trusted(f"{_moment(row.entry)}{since}", "dim")))
    if bad := shown.known.poison:
        lines.append(line(trusted("☠ poison: ", "warning"), HANG, untrusted(f"{bad.text}: {bad.title}", limit=300)))
    return lines


def page_lines(shown: Shown, now: datetime, size: int, *, columns_: int) -> list[Line]:
    """The entry on one page: error, order and timeline in two or three columns."""
    entry = shown.row.entry
    error = (
        [_head("Error"), *_error(shown, now)] if entry.layout == layout.ORDERS else tab_lines(shown, 0, now, size=size)
    )
    second = titles(shown)[1]
    is_order = entry.layout == layout.ORDERS
    terms = _order(shown, without=_TOLD_ELSEWHERE) if is_order else tab_lines(shown, 1, now, size=size)
    order = [_head(_order_title(shown, second)), *terms]
    story = [_head("Timeline"), *_timeline(shown)]
    if columns_ == 2:
        return beside([[*error, (), *order], story], size)
    return beside([error, order, story], size)


def _head(text: str) -> Line:
    return line(trusted(text, "accent"))


def _order_title(shown: Shown, second: str) -> str:
    if shown.row.entry.layout != layout.ORDERS:
        return second
    return "Order as it would be sent" if shown.action is not None else "Order as it is stored"


def _timeline(shown: Shown) -> list[Line]:
    if shown.history is None:
        return [line(trusted("reading …", "dim"))]
    lines: list[Line] = ancestor_lines(shown.history.ancestors)
    if shown.history.unrecorded:
        lines.append(_unrecorded(shown.history.unrecorded))
    captured = layout.occurred_at(shown.row.entry)
    of = shown.row.entry.layout
    return [*lines, *event.timeline(captured, shown.history.attempts, shown.history.events, layout=of)]


def _unrecorded(count: int) -> Line:
    return line(trusted(f"{value.many(count, 'earlier retry')}, not recorded here", "dim"))


def summary(shown: Shown, room: int) -> Line:
    """The entry in one line, for a screen that does not show its row: order, value, venue, account, state."""
    entry = shown.row.entry
    state = state_cell(entry.state)
    held = value_of(entry, shown.types) if entry.layout == layout.ORDERS else None
    worth = f" · {value.amounts({held.currency or '': held.notional})}" if held and held.notional is not None else ""
    where = " ".join(safe(name, 40) for name in (entry.text("venue_name"), entry.text("account_id")) if name)
    tail = (trusted(worth), trusted(f" · {where}" if where else "", "dim"), trusted(" · ", "dim"), state)
    left = max(20, room - width(tail))  # the order is cut before value, venue and state
    return (*clip(line(trusted(value.order(entry, left), "strong")), left), *tail)


def _moment(entry: Entry) -> str:
    at = layout.occurred_at(entry)
    return value.moment(at) if at else value.moment(entry.get("captured_at"))


def _order(shown: Shown, without: tuple[str, ...] = ()) -> list[Line]:
    entry = shown.row.entry
    what = order_text(shown.action, currency_of(entry, shown.types)) if shown.action is not None else value.order(entry)
    lines: list[Line] = [line(trusted(what, "strong"), "  ", state_cell(shown.row.state))]
    lines += [line(trusted("✗ ", "danger"), untrusted(text, "danger", limit=300)) for text in shown.findings]
    lines += [line(trusted("· ", "dim"), untrusted(text, "dim", limit=300)) for text in shown.notes]
    if entry.origin == "intent":
        lines.append(line(trusted("· ", "dim"), untrusted(sender_text(entry), limit=300)))
    lines += [line(trusted("✗ ", "warning"), untrusted(text, "warning", limit=300)) for text in malformed(entry)]
    pairs = [
        (safe(name, 40), _sought(name, _stored(name, entry.get(name)), shown))
        for name in entry.names
        if name not in (*_FLOWING, *without)
    ]
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


def _sought(name: str, told: Line, shown: Shown) -> Line:
    return marked(told, shown.sought.market) if name == "market_id" else told


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
        lines.append(_unrecorded(history.unrecorded))
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
    history = shown.history
    for note, whose in (
        *((one, "") for one in history.notes),
        *((one, "  of the group") for one in history.group_notes),
    ):
        lines.append(line(trusted(f"{value.moment(note.at)}  {safe(note.operator, 40)}{whose}", "dim")))
        lines += block(safe_block(note.text, _LONGEST))
    hint = "no notes" if shown.read_only else f"no notes: {shown.keys['note']} writes one"
    return lines or [line(trusted(hint, "dim"))]


def whole_text(shown: Shown, now: datetime) -> str:
    """The verdict and all tabs of an entry as plain text, for a pager."""
    parts = ["\n".join(plain(cells) for cells in (verdict(shown, now), next_words(shown, now)) if cells)]
    for number, title in enumerate(titles(shown)):
        lines = tab_lines(shown, number, now, size=_WHOLE)
        if number == 0 and len(text := layout.error_text(shown.row.entry)) > _LONGEST:
            lines = block(safe_block(text, len(text)))
        body = "\n".join(plain(cells) for cells in lines)
        parts.append(f"== {title} ==\n{body}")
    return "\n\n".join(parts) + "\n"
