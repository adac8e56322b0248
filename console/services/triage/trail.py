"""The audit trail, newest first: read a stretch at a time, a replay beside its outcome. Knows no SQL and no screen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from backends.layouts.mask import masked_event
from backends.records import AuditEvent, parse_time, readable
from backends.store import Store
from console.services.triage.trail_filter import KINDS, TrailQuery

Body = Mapping[str, object]
_FIRST = 100  # events of the first read, before their size is known
_MOST_EVENTS = 1000
_BLOCK_BYTES = 4_000_000
_HELD = 2000  # outcomes that wait for their replay to be met
_NAMED = 20  # entries of an event that are kept with its row
_LONGEST = 2000  # characters of a text that are kept with its row
_OLDER = 1000  # events in a row from before `since`: clocks differ, but not by so much
MOST_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class TrailRow:
    """One act: an event, or a replay and its outcome."""

    seq: int
    body: Body
    count: int  # entries that it names
    hash: bytes = b""
    outcome: Body | None = None
    outcome_seq: int | None = None

    @property
    def first_id(self) -> str | None:
        return next(iter(entry_ids(self.body)), None)


def event_body(event: AuditEvent) -> dict[str, object]:
    return masked_event(_stored(event))


def _stored(event: AuditEvent) -> dict[str, object]:
    try:
        body = json.loads(event.body)
    except (ValueError, RecursionError):
        body = None
    return body if isinstance(body, dict) else {"kind": "malformed", "note": readable(event.body)}


def entry_ids(body: Body) -> list[str]:
    listed = body.get("entries")
    rows = listed if isinstance(listed, list) else []
    return [str(row[0] if isinstance(row, list) and row else row) for row in rows]


@dataclass(slots=True)
class AuditTrail:
    """Reads on from where the last step ended; holds what matches, up to `MOST_ROWS`."""

    store: Store
    query: TrailQuery
    rows: list[TrailRow] = field(default_factory=list)
    read: int = 0  # events that were looked at
    is_over: bool = False
    _before: int | None = None
    _size: int = 0  # mean size of the last events
    _older: int = 0
    _ends: dict[tuple[str, object], tuple[AuditEvent, dict[str, object]]] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= MOST_ROWS

    async def step(self) -> list[TrailRow]:
        """Read one stretch; what of it matches, newest first."""
        if self.is_over or self.is_full:
            return []
        query, kept = self.query, []
        for row in self._paired(await self._stretch()):
            if query.may_match(row.body, row.outcome):  # masking costs more than reading
                masked = _masked(row)
                kept += [_compact(masked)] if query.matches(masked.body, masked.outcome) else []
        self.rows += kept
        return kept

    async def _stretch(self) -> tuple[AuditEvent, ...]:
        if self.query.entry_id is not None:
            events = await self.store.events(self.query.entry_id)
            self.is_over, self.read = True, len(events)
            return tuple(reversed(events))
        limit = _FIRST if not self._size else max(1, min(_MOST_EVENTS, _BLOCK_BYTES // (self._size + 100)))
        events = await self.store.latest(self._before, limit)
        if events:
            self._before = events[-1].seq
            self._size = sum(len(one.body or b"") for one in events) // len(events)
        self.read += len(events)
        self.is_over = len(events) < limit
        return events

    def _paired(self, events: tuple[AuditEvent, ...]) -> Iterator[TrailRow]:
        for event in events:
            body = _stored(event)
            self._note_age(body)
            match body.get("kind"):
                case "outcome":
                    self._ends[_attempt(body)] = event, body
                    if len(self._ends) > _HELD:
                        yield _row(*self._ends.pop(next(iter(self._ends))))
                case "intent":
                    ended = self._ends.pop(_attempt(body), None)
                    yield _row(event, body, *(ended or (None, None)))
                case _:
                    yield _row(event, body)
        if self.is_over:
            yield from (_row(*ended) for ended in self._ends.values())
            self._ends.clear()

    def _note_age(self, body: Body) -> None:
        """Stop once everything is from before the time that is asked for."""
        at = parse_time(body.get("at"))
        if self.query.since is None or at is None:
            return
        self._older = self._older + 1 if at < self.query.since else 0
        self.is_over = self.is_over or self._older >= _OLDER


def seen_in(rows: Iterable[TrailRow]) -> dict[str, list[str]]:
    """What a filter of the trail may ask for, by field: its kinds, and the values of these rows."""
    found: dict[str, dict[str, None]] = {"kind": dict.fromkeys(KINDS)}
    for row in rows:
        for body in (row.body, *([row.outcome] if row.outcome else [])):
            who = body.get("who")
            told = {"operator": who.get("operator") if isinstance(who, dict) else None, **body}
            for name in ("operator", "reason", "outcome", "mode", "venue"):
                value = told.get(name)
                if isinstance(value, str) and value.isprintable():
                    word = "in_doubt" if (name, value) == ("outcome", "unknown") else value
                    found.setdefault(name, {})[word] = None
    return {name: sorted(values) if name != "kind" else [*values] for name, values in found.items()}


def _attempt(body: Body) -> tuple[str, object]:
    number = body.get("attempt_no")
    return "\0".join(entry_ids(body)), number if isinstance(number, int) else None


def _row(event: AuditEvent, body: Body, ended: AuditEvent | None = None, outcome: Body | None = None) -> TrailRow:
    return TrailRow(event.seq, body, len(entry_ids(body)), event.hash, outcome, ended.seq if ended else None)


def _masked(row: TrailRow) -> TrailRow:
    outcome = None if row.outcome is None else masked_event(dict(row.outcome))
    return replace(row, body=masked_event(dict(row.body)), outcome=outcome)


def _compact(row: TrailRow) -> TrailRow:
    """With the first entries and the beginning of long texts: a list holds thousands of events."""
    outcome = None if row.outcome is None else _cut(row.outcome)
    return TrailRow(row.seq, _cut(row.body), row.count, row.hash, outcome, row.outcome_seq)


def _cut(body: Body) -> Body:
    kept: dict[str, object] = {}
    for name, value in body.items():
        if name == "entries" and isinstance(value, list):
            kept[name] = value[:_NAMED]
        elif isinstance(value, str):
            kept[name] = value[:_LONGEST]
        elif name == "who" or not isinstance(value, list | dict):
            kept[name] = value
    return kept
