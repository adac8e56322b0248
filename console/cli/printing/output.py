"""Formats entries, histories and audit events for stdout: plain lines, and JSON Lines with values as stored.

Covers every layout. Prints nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from typing import NamedTuple

from backends.layouts.columns import spelling
from backends.records import Ancestor, Attempt, AuditEvent, Entry, malformed, number, parse_time, readable
from console import clock
from console.render.entry_json import entry_json, event_pairs, whole_json
from console.render.order_row import sender_text, told_terms
from console.services import layout_fields as layout
from console.services.layout_fields import DOCUMENTS, INTEGRATION, ORDERS, OUTBOX
from console.services.market.entry_value import VenueTypes, currency_of
from console.services.triage.lineage import told
from console.services.triage.triage import UNKNOWN, ClassifiedEntry, History
from console.text.untrusted import safe, safe_block

_AS_NAMED: VenueTypes = {}  # every venue is of the type that its name says


def _order_line(row: ClassifiedEntry, types: VenueTypes) -> str:
    entry = row.entry
    retries = entry.text("retry_count") or "0"
    return (
        f"{safe(entry.id, 200)}  {moment(entry.get('captured_at'))}  {safe(entry.text('venue_name'), 200)}  "
        f"{order_text(row, types)}  [{row.state}, retries={safe(retries, 40)}]"
    )


def plain_entry(row: ClassifiedEntry, types: VenueTypes = _AS_NAMED) -> str:
    poison = f"\n  poison: {safe(row.poison.text)}" if row.poison else ""
    back = f"\n  {told(row.came_back)}" if row.came_back else ""
    return f"{_format(row).line(row, types)}\n  error: {safe(layout.error_text(row.entry))}{back}{poison}"


def order_text(row: ClassifiedEntry, types: VenueTypes = _AS_NAMED) -> str:
    """`buy 100 AAPL @ 180.0`; without a price `@ market`; `@ 169.5 stop 170.0`; `buy 500 USD AAPL @ market`."""
    entry = row.entry
    price, told = entry.get("price"), told_terms(entry)
    size = quantity_text(entry.get("quantity"))
    if told.notional is not None and size == "0":
        size = f"{quantity_text(told.notional)} {safe(currency_of(entry, types) or 'of', 40)}"
    stop = "" if told.stop is None else f" stop {safe(format(told.stop, 'f'), 60)}"
    return (
        f"{safe(entry.text('side'), 40)} {size} {safe(entry.text('market_id'), 200)} "
        f"@ {'market' if price is None else safe(stored_number(price), 60)}{stop}"
    )


def quantity_text(value: object) -> str:
    """The shortest decimal, without `.0`."""
    exact = number(value)
    if exact is None:
        return safe(readable(value), 60)
    text = format(exact, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def stored_number(value: object) -> str:
    return repr(value) if isinstance(value, float) else readable(value)


def moment(value: object) -> str:
    """UTC to the second with Z. A value that is not a time is shown as stored."""
    at = parse_time(value)
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else safe(readable(value), 60)


def json_row(row: ClassifiedEntry, types: VenueTypes = _AS_NAMED) -> str:
    return entry_json(row, types, clock.now)


def history_json(history: History, types: VenueTypes = _AS_NAMED) -> str:
    return whole_json(history, types, clock.now)


def history_lines(history: History, types: VenueTypes = _AS_NAMED) -> Iterable[str]:
    row = history.entry
    yield plain_entry(row, types)
    yield f"  category: {row.category}   group: {row.fingerprint} {safe(row.title, 100)}"
    yield from _format(row).details(history)
    yield from _ancestor_lines(history.ancestors)
    if row.state == UNKNOWN:
        yield "attempts, notes and audit events: unknown, as this role cannot read the console's ledger"
        return
    if history.unrecorded:
        yield f"retries: {history.unrecorded} earlier, not recorded"
    for attempt in history.attempts:
        yield _attempt_line(attempt, layout.layout_of(row.entry))
    for note in history.notes:
        yield f"note: {moment(note.at)} {safe(note.operator)}: {safe(note.text)}"
    for event in history.events:
        yield event_line(event)


def _attempt_line(attempt: Attempt, fields: layout.LayoutFields) -> str:
    rehearsal = " rehearsal" if attempt.rehearsal else ""
    account = f" account {safe(attempt.account)}" if attempt.account else ""
    way = f"{attempt.mode}{rehearsal}" if fields.has_modes else "to"
    return (
        f"attempt {attempt.attempt_no}: {moment(attempt.started_at)} {way} "
        f"{safe(attempt.venue)}{account} {attempt.outcome or 'in flight'} "
        f"{fields.result} {safe(attempt.venue_order_id or '-')} {fields.replay_key} {safe(attempt.client_order_id)} "
        f"by {safe(attempt.operator)}" + (f": {safe(attempt.error)}" if attempt.error else "")
    )


def _ancestor_lines(ancestors: Sequence[Ancestor]) -> Iterable[str]:
    if ancestors:
        yield f"{told(len(ancestors))}; before that it was"
    for one in ancestors:
        failed = moment(one.failed_at) if one.failed_at else "at an unknown time"
        why = " ".join(safe(text) for text in (one.reason, one.error) if text) or "for an unknown reason"
        gone = " (its row is gone)" if one.gone else ""
        sent = f"; replayed {moment(one.replayed_at)} by {safe(one.operator or '?')}" if one.replayed_at else ""
        yield f"ancestor {safe(one.entry_id, 200)}: failed {failed} {why}{gone}{sent}"


def _order_details(history: History) -> Iterable[str]:
    row = history.entry
    if not any(not one.rehearsal for one in history.attempts) and row.state == "pending":
        yield f"  could it have reached the venue: {row.reach}"
    yield from _advice_lines(history)
    for name in ("account_id", "order_type", "client_order_id", "action_json"):
        if text := row.entry.text(name):
            yield f"  {name}: {safe(text)}"
    if row.entry.origin == "intent":
        yield f"  {sender_text(row.entry)}"
    for wrong in malformed(row.entry):
        yield f"  malformed: {safe(wrong)}"


def _advice_lines(history: History) -> Iterable[str]:
    """What stands of it and what to do next, as the console says it, with commands for its keys."""
    from console.services.triage.advice import DEFAULT_KEYS, EntryPast, advise  # a list gives none, and starts faster

    row = history.entry
    words = {name: f"dlq {name}" for name in DEFAULT_KEYS}
    if row.state == "pending":  # nothing is settled by asking
        words["reconcile"] = "dlq ask"
    made = advise(row, EntryPast(history.attempts, history.events, clock.now()), words)
    yield f"  stands: {' · '.join((made.verdict, *(safe(fact, 200) for fact in made.facts)))}"
    step = _DOUBLED.sub(r"dlq \1", made.step)
    yield f"  next: {safe(step, 300)}"


_DOUBLED = re.compile(r"\b(\w+) \(dlq \1\)")  # `settle (dlq settle)`


def event_line(event: AuditEvent) -> str:
    pairs = event_pairs(event)
    who = pairs.get("who")
    operator = who.get("operator", "?") if isinstance(who, dict) else "?"
    reason, note = pairs.get("reason"), pairs.get("note")
    why = "".join(f" {safe(str(part), 200)}" for part in (reason, note) if part)
    kind = safe(str(pairs.get("kind")), 40)
    return f"audit {event.seq}: {moment(pairs.get('at'))} {kind} by {safe(str(operator), 80)}{why}"


def _head(entry: Entry) -> str:
    at = layout.occurred_at(entry)
    return f"{safe(entry.id, 200)}  {moment(at) if at else '-'}  {safe(layout.origin(entry), 200)}"


def _message_line(row: ClassifiedEntry, _: VenueTypes) -> str:
    entry = row.entry
    took = layout.time_to_failure(entry)
    after = "" if took is None else f" in {took.total_seconds():.0f}s"
    what = f"{safe(layout.text(entry, 'failure_reason'), 60)} after {_count(entry, 'deliveries_count')} deliveries"
    return f"{_head(entry)}  {what}{after}  [{row.state}]"


def _call_line(row: ClassifiedEntry, _: VenueTypes) -> str:
    entry = row.entry
    left = layout.days_left(entry, clock.now())
    tries = f"attempts={_count(entry, 'attempts')}" + ("" if left is None else f", {left} days left")
    return f"{_head(entry)}  {safe(layout.request_line(entry), 200) or 'request'}  [{row.state}, {tries}]"


def _count(entry: Entry, name: str) -> str:
    return safe(layout.text(entry, name), 40) or "?"


def _layout_details(history: History) -> Iterable[str]:
    """The lines `show` adds: every column, with documents and payloads made readable."""
    entry = history.entry.entry
    if key := layout.correlation_id(entry):
        yield f"  correlation id: {safe(key, 200)}"
    for name in layout.stored_credentials(entry):
        yield f"  finding: stored-credentials: {safe(name, 200)} holds what looks like a credential, masked here"
    for name, held in zip(entry.names, entry.values, strict=True):
        if held is None or spelling(name) in ("id", "error", "lastexception"):
            continue
        if isinstance(held, bytes) or spelling(name) in DOCUMENTS:
            shown = layout.payload(held)
            yield f"  {safe(name, 60)} ({shown.kind}):"
            yield from (f"    {line}" for line in safe_block(shown.text).splitlines())
        else:
            yield f"  {safe(name, 60)}: {safe(layout.text(entry, name))}"


class _Format(NamedTuple):
    """How entries of one layout are printed."""

    line: Callable[[ClassifiedEntry, VenueTypes], str]
    details: Callable[[History], Iterable[str]]


_FORMATS = {
    ORDERS: _Format(_order_line, _order_details),
    OUTBOX: _Format(_message_line, _layout_details),
    INTEGRATION: _Format(_call_line, _layout_details),
}


def _format(row: ClassifiedEntry) -> _Format:
    return _FORMATS[row.entry.layout]
