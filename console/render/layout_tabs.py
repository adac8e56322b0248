"""The tabs that messages and calls show in their own way, in one table by layout and title. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from backends.layouts.columns import spelling
from backends.layouts.integration import RETENTION_DAYS
from backends.records import Ancestor, Entry, readable
from console.render import value
from console.render.line import HANG, Line, body, columns, line, trusted, untrusted
from console.render.row import state_cell
from console.services import layout_fields as of
from console.services.layout_fields import INTEGRATION, ORDERS, OUTBOX
from console.services.triage.lineage import told
from console.services.triage.triage import ClassifiedEntry
from console.text.durations import long_age, span
from console.text.untrusted import safe

_REASONS = {
    "max_deliveries": "delivered too often; the handler was not called again",
    "retry_terminal": "the retry strategy gave up",
    "rejected": "the handler rejected it",
}
_FLOWING = frozenset(map(spelling, ("payload", "headers", "originalRequest", "last_exception", "error")))


class TabInput(NamedTuple):
    row: ClassifiedEntry
    now: datetime

    @property
    def entry(self) -> Entry:
        return self.row.entry


def _message_error(given: TabInput) -> list[Line]:
    back = (told(given.row.came_back),) if given.row.came_back else ()
    return _error(given, (*_message_facts(given.entry), *back))


def _call_error(given: TabInput) -> list[Line]:
    return _error(given, _call_facts(given.entry, given.now))


def _error(given: TabInput, facts: tuple[str, ...]) -> list[Line]:
    """What went wrong and what that means here; then every short column."""
    entry, at = given.entry, of.occurred_at(given.entry)
    since = f"{value.moment(at)} · {long_age(at, given.now)} ago" if at else "no time"
    known = " · ".join((*facts, since))
    lines = [*body(of.error_text(entry) or "(no error text)"), line(trusted(known, "dim")), *_findings(entry)]
    if bad := given.row.poison:
        lines.append(line(trusted("☠ poison: ", "warning"), HANG, untrusted(f"{bad.text}: {bad.title}", limit=300)))
    pairs = [(safe(name, 40), _stored(entry.get(name))) for name in entry.names if spelling(name) not in _FLOWING]
    return [*lines, (), *columns(pairs, indent=0)]


def _message_facts(entry: Entry) -> tuple[str, ...]:
    reason = of.text(entry, "failure_reason")
    known = _REASONS.get(reason)
    meaning = f"{safe(reason, 60)}: {known}" if known else safe(reason, 60)
    took = of.time_to_failure(entry)
    count = safe(of.text(entry, "deliveries_count") or "?", 12)
    return meaning, f"{count} deliveries{'' if took is None else f' in {span(took)}'}"


def _call_facts(entry: Entry, now: datetime) -> tuple[str, ...]:
    days, tenant = of.days_left(entry, now), safe(of.text(entry, "tenantId"), 60)
    left = f"{days} of {RETENTION_DAYS} days left" if days else "its retention is over"
    whose = (f"tenant {tenant}",) if tenant else ()
    return (f"{safe(of.text(entry, 'attempts') or '?', 12)} attempts", *whose, *((left,) if days is not None else ()))


def _findings(entry: Entry) -> list[Line]:
    """Credentials that should not be in the store; their values were masked when they were read."""
    return [
        line(
            trusted("✗ stored-credentials: ", "danger"),
            untrusted(name, "danger", limit=120),
            trusted(", masked here", "danger"),
        )
        for name in of.stored_credentials(entry)
    ]


def _payload(given: TabInput) -> list[Line]:
    entry = given.entry
    raw = of.value(entry, "payload")
    shown = of.payload(raw)
    size = len(raw) if isinstance(raw, bytes | bytearray | memoryview) else len(readable(raw or ""))
    more = " or more: the rest is being read" if entry.clipped else ""
    head = line(trusted(f"{shown.kind} · {size:,} bytes{more}", "dim"), trusted("  "), state_cell(entry.state))
    return [head, *body(shown.text)] if shown.kind != "empty" else [line(trusted("the message is empty", "dim"))]


def _headers(given: TabInput) -> list[Line]:
    entry = given.entry
    key = of.correlation_id(entry)
    lines = [
        line(
            trusted("correlation id  ", "dim"), untrusted(key or "none: a consumer cannot tell a repetition", limit=200)
        )
    ]
    shown = of.payload(of.value(entry, "headers"))
    return [*lines, *_findings(entry), *(body(shown.text) if shown.text else [line(trusted("no headers", "dim"))])]


def _request(given: TabInput) -> list[Line]:
    entry = given.entry
    what = value.order(entry)
    where = safe(of.origin(entry), 80)
    lines = [line(trusted(what, "strong"), trusted(f"  to {where}  ", "dim"), state_cell(entry.state))]
    return [*lines, *_findings(entry), *body(of.payload(of.value(entry, "originalRequest")).text)]


def ancestor_lines(ancestors: Sequence[Ancestor]) -> list[Line]:
    """What a message was before it came back, oldest first."""
    if not ancestors:
        return []
    lines = [line(trusted(f"{told(len(ancestors))}; before that it was", "dim"))]
    for one in ancestors:
        failed = value.moment(one.failed_at) if one.failed_at else "at an unknown time"
        gone = "  its row is gone" if one.gone else ""
        why = one.error or one.reason or "for an unknown reason"
        reason = f"  {safe(one.reason, 60)}" if one.reason else ""
        lines.append(line(trusted(f"· {safe(one.entry_id, 80)}  failed {failed}{reason}{gone}")))
        lines.append(line(trusted("   "), HANG, untrusted(why, "dim", limit=1000)))
        if one.replayed_at:
            lines.append(
                line(trusted(f"   replayed {value.moment(one.replayed_at)}  by {safe(one.operator or '?', 40)}"))
            )
    return [*lines, ()]


def _stored(stored: object) -> Line:
    if stored is None:
        return line(trusted("–", "dim"))
    return line(trusted(value.moment(stored) if isinstance(stored, datetime) else safe(readable(stored), 300)))


# The tabs that a layout writes in its own way; the rest are the same for all.
OWN_TABS: Mapping[str, Mapping[str, Callable[[TabInput], list[Line]]]] = {
    ORDERS: {},
    OUTBOX: {"Error": _message_error, "Payload": _payload, "Headers": _headers},
    INTEGRATION: {"Error": _call_error, "Request": _request},
}
