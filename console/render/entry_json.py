"""An entry as one JSON object, as scripts and the clipboard get it: values as stored, without credentials. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from backends.layouts.columns import spelling
from backends.layouts.mask import masked_event
from backends.records import Ancestor, Attempt, AuditEvent, Entry, malformed, readable
from console.services import layout_fields as layout
from console.services.json_lines import json_line, json_value
from console.services.layout_fields import DOCUMENTS, INTEGRATION, ORDERS, OUTBOX
from console.services.market.entry_value import VenueTypes, value_of
from console.services.triage.triage import UNKNOWN, ClassifiedEntry, History

Now = Callable[[], datetime]  # asked only where something hangs on it


def entry_json(row: ClassifiedEntry, types: VenueTypes, now: Now) -> str:
    """A row of `dlq list --json`."""
    return _order_json(row, types) if row.entry.layout == ORDERS else _layout_json(row, now)


def whole_json(history: History, types: VenueTypes, now: Now) -> str:
    """The object of `dlq show --json`: the entry, its attempts, events and notes."""
    rest: dict[str, object] = {
        "attempts": [attempt_pairs(attempt) for attempt in history.attempts],
        "audit": [event_pairs(event) for event in history.events],
        "notes": [{"at": note.at, "operator": note.operator, "text": note.text} for note in history.notes],
        "retries_not_recorded": history.unrecorded,
    }
    if history.entry.state == UNKNOWN:
        rest = dict.fromkeys(rest)
    if layout.layout_of(history.entry.entry).comes_back:
        rest |= {"came_back": len(history.ancestors), "ancestors": list(map(_ancestor_pairs, history.ancestors))}
    # Inserted as text, so that its numbers keep their stored digits.
    return f'{{"entry": {entry_json(history.entry, types, now)}, {json.dumps(rest, default=str)[1:]}'


def attempt_pairs(attempt: Attempt) -> dict[str, object]:
    return {
        "attempt_no": attempt.attempt_no,
        "mode": attempt.mode,
        "venue": attempt.venue,
        "account": attempt.account,
        "client_order_id": attempt.client_order_id,
        "outcome": attempt.outcome,
        "venue_order_id": attempt.venue_order_id,
        "error": attempt.error,
        "started_at": attempt.started_at,
        "finished_at": attempt.finished_at,
        "operator": attempt.operator,
        "os_user": attempt.os_user,
        "payload_hash": attempt.payload_hash,
        "rehearsal": attempt.rehearsal,
    }


def event_pairs(event: AuditEvent) -> dict[str, object]:
    try:
        body = json.loads(event.body)
    except ValueError:
        body = {"malformed": readable(event.body)}
    told = masked_event(body if isinstance(body, dict) else {"body": body})
    return {**told, "seq": event.seq, "hash": event.hash.hex()}


def _ancestor_pairs(one: Ancestor) -> dict[str, object]:
    return {
        "dlq_id": one.entry_id,
        "failed_at": one.failed_at,
        "reason": one.reason,
        "exception": one.error,
        "replayed_at": one.replayed_at,
        "operator": one.operator,
        "gone": one.gone,
    }


def _order_json(row: ClassifiedEntry, types: VenueTypes) -> str:
    pairs: dict[str, object] = dict(zip(row.entry.names, layout.shown_values(row.entry), strict=True))
    notional, currency = value_of(row.entry, types)
    pairs |= {"state": row.state, "category": row.category, "fingerprint": row.fingerprint}
    pairs |= {"notional": notional, "currency": currency, "origin": row.entry.origin, "marks": list(row.marks)}
    if row.entry.origin == "intent":
        pairs["owner"], pairs["host"] = row.entry.sender
    if wrong := malformed(row.entry):
        pairs["malformed"] = list(wrong)
    return json_line(pairs)


def _layout_json(row: ClassifiedEntry, now: Now) -> str:
    """The id, the layout, the stored columns by name, and the derived fields."""
    entry = row.entry
    parts = [("dlq_id", json.dumps(entry.id)), ("layout", json.dumps(entry.layout))]
    parts += [(name, _spelled(name, held)) for name, held in zip(entry.names, entry.values, strict=True)]
    ours: dict[str, object] = {"state": row.state, "category": row.category, "fingerprint": row.fingerprint}
    ours |= {**dict(_DERIVED[entry.layout](entry, now)), "marks": list(row.marks)}
    if layout.layout_of(entry).comes_back:
        ours["came_back"] = row.came_back
    if hidden := layout.stored_credentials(entry):
        ours["findings"] = [f"stored-credentials: {name}" for name in hidden]
    parts += [(name, json.dumps(held)) for name, held in ours.items()]
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in parts) + "}"


def _spelled(name: str, held: object) -> str:
    if isinstance(held, bytes):
        return json.dumps(layout.bytes_text(held))
    if isinstance(held, str) and spelling(name) in DOCUMENTS and _is_json(held):
        return held.replace("\n", " ").replace("\r", " ")  # in valid JSON a raw line end stands only between values
    return json_value(name, held)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _message_fields(entry: Entry, _: Now) -> Iterable[tuple[str, object]]:
    took = layout.time_to_failure(entry)
    yield "correlation_id", layout.correlation_id(entry) or None
    yield "seconds_to_failure", None if took is None else took.total_seconds()


def _call_fields(entry: Entry, now: Now) -> Iterable[tuple[str, object]]:
    yield "days_left", layout.days_left(entry, now())


_DERIVED: Mapping[str, Callable[[Entry, Now], Iterable[tuple[str, object]]]] = {
    OUTBOX: _message_fields,
    INTEGRATION: _call_fields,
}
