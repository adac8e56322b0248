"""The shift report: arrivals, who did what (from the audit chain), what is in doubt; as Markdown or JSON.

Reads the store contract; knows neither SQL nor screens.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from backends.index import IndexedEntry, file_entry
from backends.records import STATES, Attempt, AuditEvent, Filter, Halt, parse_time
from backends.store import Store
from console.clock import Clock
from console.services.browse.engine_intent import engine_send, intents_of
from console.services.index.keeper import labelled
from console.services.replay.outcome import spoken
from console.services.stats.alerts import Alert, alerts
from console.services.stats.groups import Group, Grouping
from console.services.stats.tally import RETRY_STEPS, Tally, VenueTally, counted
from console.services.stats.trend import DepthTrend, DepthTrends, Moves, depth_trends
from console.services.triage.lineage import returned_among
from console.services.triage.trail_filter import WORDS
from console.services.triage.triage import Query, Triage
from console.settings.config import Config
from console.text.durations import long_age
from console.text.untrusted import safe

_UNKNOWN = "unknown"
_BLIND = "Unknown: this role cannot read the console's ledger. `dlq doctor` prints the grant."


class ReportSettings(Protocol):
    """What a report is made by; a session's settings are."""

    @property
    def config(self) -> Config: ...

    @property
    def clock(self) -> Clock: ...


@dataclass(slots=True)
class OperatorTally:
    """What one operator did. `os_user` is the identity; `operator` is a label anybody may choose."""

    operator: str
    os_user: str
    replays: Counter[tuple[str, str]] = field(default_factory=Counter)  # (mode, outcome)
    dismissals: Counter[str] = field(default_factory=Counter)  # reason
    restored: int = 0
    reconciled: int = 0
    refused: int = 0
    notes: int = 0


@dataclass(frozen=True, slots=True)
class ActivityMoment:
    """A halt, a resume or an approval, which the report lists one by one."""

    at: str
    kind: str
    operator: str
    note: str


class ShiftActivity:
    """Counts the audit events of one source since a moment. Feed it the whole chain, in order."""

    def __init__(self, source: str, since: datetime | None = None) -> None:
        self._source = source
        self._since = since
        self._modes: dict[tuple[str, int], str] = {}  # mode of each attempt, by entry id and attempt number
        self.seq = 0
        self.people: dict[tuple[str, str], OperatorTally] = {}
        self.moments: list[ActivityMoment] = []
        self.reconciles: Counter[tuple[str, str]] = Counter()
        self.refusals: Counter[str] = Counter()
        self.moves = Moves()

    @property
    def replays(self) -> Counter[tuple[str, str]]:
        return sum((person.replays for person in self.people.values()), Counter[tuple[str, str]]())

    @property
    def dismissals(self) -> Counter[str]:
        return sum((person.dismissals for person in self.people.values()), Counter[str]())

    @property
    def restored(self) -> int:
        return sum(person.restored for person in self.people.values())

    def feed(self, events: Iterable[AuditEvent]) -> None:
        for event in events:
            self.seq = event.seq
            try:
                body = json.loads(event.body)
            except ValueError:
                continue  # `dlq audit verify` reports a damaged body
            if isinstance(body, dict) and body.get("source") in (self._source, None):
                self.moves.take(body)
                self._take(body)

    def _take(self, body: Mapping[str, Any]) -> None:
        kind, entries = str(body.get("kind", "")), body.get("entries") or []
        if kind == "intent":
            self._modes[str(entries[0]), int(body.get("attempt_no", 0))] = str(body.get("mode", _UNKNOWN))
            return
        mode = self._mode(kind, body)
        if self._since is not None and (parse_time(body.get("at")) or self._since) < self._since:
            return
        person = self._person(body.get("who") or {})
        match kind:
            case "outcome":
                person.replays[mode, str(body.get("outcome"))] += 1
            case "reconcile":
                person.reconciled += 1
                self.reconciles[mode, str(body.get("outcome"))] += 1
            case "dismiss":
                person.dismissals[str(body.get("reason") or _UNKNOWN)] += len(entries)
            case "restore":
                person.restored += len(entries)
            case "note":
                person.notes += 1
            case "halt" | "resume" | "approve" | "ask-approval":
                note = str(body.get("note") or body.get("summary") or body.get("plan") or "")
                self.moments.append(ActivityMoment(str(body.get("at")), kind, person.operator, note))
            case _ if kind.startswith("refused"):
                person.refused += 1
                self.refusals[kind.removeprefix("refused-")] += 1
            case _:
                return

    def _mode(self, kind: str, body: Mapping[str, Any]) -> str:
        """The attempt's mode. An attempt in doubt has two outcomes, so its mode is kept until the second."""
        if kind not in ("outcome", "reconcile"):
            return _UNKNOWN
        entries = body.get("entries") or [""]
        key = (str(entries[0]), int(body.get("attempt_no", 0)))
        if body.get("outcome") == "unknown":
            return self._modes.get(key, _UNKNOWN)
        return self._modes.pop(key, _UNKNOWN)

    def _person(self, who: Mapping[str, Any]) -> OperatorTally:
        key = (str(who.get("operator", "?")), str(who.get("os_user", "?")))
        if key not in self.people:
            self.people[key] = OperatorTally(*key)
        return self.people[key]


_TOP = 10
_BLOCK = 500  # entries that are asked about at once


@dataclass(frozen=True, slots=True)
class Report:
    store: str
    since: datetime
    until: datetime
    arrived: int
    returned: int  # messages that were replayed and failed again
    by_category: Mapping[str, int]
    by_venue: Mapping[str, int]
    groups: tuple[Group, ...]
    activity: ShiftActivity
    in_doubt: tuple[Attempt, ...]
    in_flight: tuple[Attempt, ...]
    tally: Tally
    alerts: tuple[Alert, ...]
    halt: Halt | None
    trends: DepthTrends | None  # None: unknown


async def gathered(triage: Triage, since: datetime, setting: ReportSettings, known: Tally | None) -> Report:
    """The report by these settings; `known`: the figures of now, where the index has them."""
    figures = known or await counted(triage.store, setting.clock(), setting.config, groups="none")
    return await gather(triage, since, figures, alerts(figures, setting.config.alerts))


async def gather(triage: Triage, since: datetime, tally: Tally, raised: tuple[Alert, ...]) -> Report:
    store: Store = triage.store
    grouping = Grouping()
    categories: Counter[str] = Counter()
    venues: Counter[str] = Counter()
    everything = Query(Filter(states=frozenset(STATES), since=since))
    returned = 0
    async for marks in _filed(triage, everything):
        back = await returned_among(store, [mark.id for mark in marks])
        returned += len(back)
        for mark in marks:
            if mark.id not in back:
                grouping.add(mark)
                categories[mark.label.category] += 1
                venues[mark.venue] += 1
    activity = ShiftActivity(store.info.table, since)
    async for block in store.audit():
        activity.feed(block)
    attempts = await store.open_attempts()
    return Report(
        store=store.info.label,
        since=since,
        until=tally.at,
        arrived=grouping.count,
        returned=returned,
        by_category=dict(categories.most_common()),
        by_venue=dict(venues.most_common()),
        groups=grouping.groups()[:_TOP],
        activity=activity,
        in_doubt=(*(one for one in attempts if one.outcome is not None), *await _sends(store)),
        in_flight=tuple(one for one in attempts if one.outcome is None),
        tally=tally,
        alerts=raised,
        halt=await store.halted(),
        trends=await depth_trends(store, tally, activity.moves),
    )


async def _sends(store: Store) -> list[Attempt]:
    """What engines ended before they knew; their mode is not on record."""
    return [engine_send(one, "unknown") for one in await intents_of(store, Filter(states=frozenset({"in_doubt"})))]


async def _filed(triage: Triage, query: Query) -> AsyncIterator[list[IndexedEntry]]:
    """The matches in blocks, without their texts: messages may be large."""
    block: list[IndexedEntry] = []
    async for row in triage.stream(query, whole=True):
        block.append(file_entry(row.entry, labelled(row, triage.worth)))
        if len(block) == _BLOCK:
            yield block
            block = []
    if block:
        yield block


def as_json(report: Report) -> dict[str, object]:
    """What only the ledger tells is null where it cannot be read; the halt then is "unknown", as null says there is
    none."""
    known = report.tally.is_readable
    return {
        "store": report.store,
        "since": report.since.isoformat(),
        "until": report.until.isoformat(),
        "arrived": {
            "count": report.arrived,
            "by_category": dict(report.by_category),
            "by_venue": dict(report.by_venue),
            "groups": [_group(group) for group in report.groups],
        },
        "returned": report.returned,
        "ledger_readable": known,
        "done": _done(report.activity) if known else None,
        "in_doubt": [_attempt(attempt) for attempt in report.in_doubt] if known else None,
        "in_flight": [_attempt(attempt) for attempt in report.in_flight] if known else None,
        "open": _open(report),
        "alerts": [{"rule": alert.rule, "text": alert.text} for alert in report.alerts],
        "halt": _halt(report.halt) if known else _UNKNOWN,
    }


def _done(done: ShiftActivity) -> dict[str, object]:
    return {
        "replays": _outcomes(done.replays),
        "reconciles": _outcomes(done.reconciles),
        "dismissed": dict(done.dismissals),
        "restored": done.restored,
        "refused": dict(done.refusals),
        "moments": [{"at": m.at, "kind": m.kind, "operator": m.operator, "note": m.note} for m in done.moments],
        "by_operator": [_person(done, key) for key in sorted(done.people)],
    }


def _open(report: Report) -> dict[str, object]:
    tally, trends = report.tally, report.trends
    known = tally.is_readable
    return {
        "by_state": dict(tally.states) if known else None,
        "by_venue": {name: venue.depth for name, venue in tally.venues.items()},
        "oldest": tally.oldest.isoformat() if tally.oldest else None,
        "poisoned": tally.poisoned if known else None,
        "trend": _trend(trends.overall if trends else None),
        "venues": {
            name: _venue(venue, trends.venues.get(name) if trends else None, known=known)
            for name, venue in tally.venues.items()
        },
    }


def _venue(venue: VenueTally, trend: DepthTrend | None, *, known: bool) -> dict[str, object]:
    return {
        "depth": venue.depth,
        "in_doubt": venue.in_doubt if known else None,
        "oldest": venue.oldest.isoformat() if venue.oldest else None,
        "average_age_seconds": venue.average_age.total_seconds() if venue.average_age is not None else None,
        "over_age_limit": venue.over_age,
        "by_category": dict(venue.categories),
        "average_retries": venue.retries / venue.depth if venue.depth else None,
        "by_retries": dict(zip(RETRY_STEPS, venue.by_retries, strict=True)),
        "poisoned": venue.poisoned if known else None,
        "trend": _trend(trend),
    }


def _trend(trend: DepthTrend | None) -> dict[str, object] | None:
    if trend is None:
        return None
    return {"average": trend.average, "recent": trend.recent, "direction": trend.direction}


def _halt(halt: Halt | None) -> dict[str, object] | None:
    return None if halt is None else {"since": halt.since, "operator": halt.operator, "note": halt.note}


def _group(group: Group) -> dict[str, object]:
    return {
        "fingerprint": group.fingerprint,
        "title": group.title,
        "category": group.category,
        "count": group.count,
        "venues": list(group.venues),
    }


def _outcomes(counts: Mapping[tuple[str, str], int]) -> list[dict[str, object]]:
    return [{"mode": mode, "outcome": outcome, "count": n} for (mode, outcome), n in sorted(counts.items())]


def _person(activity: ShiftActivity, key: tuple[str, str]) -> dict[str, object]:
    person = activity.people[key]
    return {
        "operator": person.operator,
        "os_user": person.os_user,
        "replays": _outcomes(person.replays),
        "dismissed": sum(person.dismissals.values()),
        "restored": person.restored,
        "reconciled": person.reconciled,
        "refused": person.refused,
        "notes": person.notes,
    }


def _attempt(attempt: Attempt) -> dict[str, object]:
    return {
        "dlq_id": attempt.entry_id,
        "venue": attempt.venue,
        "mode": attempt.mode,
        "client_order_id": attempt.client_order_id,
        "outcome": attempt.outcome,
        "since": attempt.started_at,
        "operator": attempt.operator,
    }


def as_markdown(report: Report) -> str:
    """Text from the store is escaped, so that it cannot become markup."""
    return "\n".join((*_head(report), *_came(report), *_did(report), *_doubt(report), *_stands(report))) + "\n"


def _head(report: Report) -> Iterable[str]:
    yield f"# Shift report: {_cell(report.store)}"
    yield f"\n{_time(report.since)} to {_time(report.until)}"
    for alert in report.alerts:
        yield f"\n> **alert**: {_cell(alert.text)}"
    if report.halt is not None:
        halt = report.halt
        yield f"\n> **halt** since {_time(parse_time(halt.since))} by {_cell(halt.operator)}: {_cell(halt.note)}"


def _came(report: Report) -> Iterable[str]:
    yield f"\n## What came in: {report.arrived}\n"
    if report.returned:
        yield f"Another {report.returned} came back: replayed before, and failed again.\n"
    if not report.arrived:
        yield "Nothing."
        return
    yield (
        "By kind: "
        + _listed(report.by_category)
        + f". By {report.tally.words.origin}: "
        + _listed(report.by_venue)
        + ".\n"
    )
    rows = [(g.fingerprint, g.title, g.category, g.count, ", ".join(g.venues)) for g in report.groups]
    yield from _table(("group", "error", "kind", "entries", f"{report.tally.words.origin}s"), rows)


def _did(report: Report) -> Iterable[str]:
    done = report.activity
    yield "\n## What was done\n"
    if not report.tally.is_readable:
        yield _BLIND
        return
    if not done.people:
        yield "Nothing."
        return
    rows = [
        (
            person.operator if person.operator == person.os_user else f"{person.operator} ({person.os_user})",
            ", ".join(f"{n} {mode} {spoken(outcome)}" for (mode, outcome), n in sorted(person.replays.items())) or "-",
            ", ".join(f"{n} {reason}" for reason, n in person.dismissals.most_common()) or "-",
            person.restored,
            person.reconciled,
            person.refused,
        )
        for _, person in sorted(done.people.items())
    ]
    yield from _table(("who", "replayed", "dismissed", "restored", "reconciled", "refused"), rows)
    for moment in done.moments:
        at, kind = _time(parse_time(moment.at)), _cell(WORDS.get(moment.kind, moment.kind))
        yield f"\n- {at} **{kind}** by {_cell(moment.operator)}: {_cell(moment.note)}"


def _doubt(report: Report) -> Iterable[str]:
    if not report.tally.is_readable:
        yield f"\n## What is in doubt: {_UNKNOWN}\n"
        yield _BLIND
        return
    yield f"\n## What is in doubt: {len(report.in_doubt)}\n"
    if report.in_doubt:
        yield from _attempts(report.in_doubt, report.tally.words.origin)
    else:
        yield "Nothing."
    if report.in_flight:
        yield f"\nIn flight, with no answer yet: {len(report.in_flight)}\n"
        yield from _attempts(report.in_flight, report.tally.words.origin)


def _attempts(attempts: Iterable[Attempt], origin: str) -> Iterable[str]:
    rows = [
        (one.entry_id, one.venue, one.mode, one.client_order_id, _time(parse_time(one.started_at)), one.operator)
        for one in attempts
    ]
    return _table(("entry", origin, "mode", "client order id", "sent", "by"), rows)


def _stands(report: Report) -> Iterable[str]:
    tally = report.tally
    yield f"\n## How it stands: {tally.open} open\n"
    if tally.oldest is not None:
        yield f"The oldest has waited {long_age(tally.oldest, tally.at)}.\n"
    if report.trends is not None:
        yield f"Trend of the last ten minutes: {_trend_words(report.trends.overall)}.\n"
    if tally.venues:
        heads = (
            tally.words.origin,
            "open",
            "trend",
            "in doubt",
            "poisoned",
            "oldest",
            "average age",
            "over the age limit",
        )
        yield from _table(heads, [_venue_row(report, name) for name in tally.venues])


def _venue_row(report: Report, name: str) -> tuple[object, ...]:
    tally, venue = report.tally, report.tally.venues[name]
    trend = report.trends.venues.get(name) if report.trends else None
    return (
        name or f"(no {tally.words.origin})",
        venue.depth,
        _UNKNOWN if trend is None else _trend_words(trend),
        venue.in_doubt if tally.is_readable else _UNKNOWN,
        venue.poisoned if tally.is_readable else _UNKNOWN,
        long_age(venue.oldest, tally.at) if venue.oldest else "-",
        "-" if venue.average_age is None else long_age(tally.at - venue.average_age, tally.at),
        venue.over_age,
    )


def _trend_words(trend: DepthTrend) -> str:
    return f"{trend.direction}, {trend.recent} now, {trend.average:.1f} on average"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterable[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(_cell(str(value)) for value in row) + " |"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {_cell(name) or '(none)'}" for name, count in counts.items())


def _cell(text: str) -> str:
    shown = safe(text, 200)
    return "".join(f"\\{mark}" if mark in "\\`*_{}[]<>#|~" else mark for mark in shown)


def _time(at: datetime | None) -> str:
    return "?" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
