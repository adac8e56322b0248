"""What was done on a store, by whom, counted from its audit chain. Pure: events in, counts out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from backends.records import AuditEvent, parse_time

_UNKNOWN = "unknown"


@dataclass(slots=True)
class Person:
    """One operator's share. The label may be anything; the OS user is the identity."""

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
    """A halt, a resume, an approval: few enough to be told one by one."""

    at: str
    kind: str
    operator: str
    note: str


class ShiftActivity:
    """Fed the chain in order, from its beginning; counts the events of one source since a moment."""

    def __init__(self, source: str, since: datetime | None = None) -> None:
        self._source = source
        self._since = since
        self._modes: dict[tuple[str, int], str] = {}  # of attempts, by entry and number
        self.seq = 0
        self.people: dict[tuple[str, str], Person] = {}
        self.moments: list[ActivityMoment] = []
        self.reconciles: Counter[tuple[str, str]] = Counter()
        self.refusals: Counter[str] = Counter()

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
                continue  # `dlq audit verify` speaks of that
            if isinstance(body, dict) and body.get("source") in (self._source, None):
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
        """An attempt in doubt has an outcome twice: when it was sent and when it was settled."""
        if kind not in ("outcome", "reconcile"):
            return _UNKNOWN
        entries = body.get("entries") or [""]
        key = (str(entries[0]), int(body.get("attempt_no", 0)))
        if body.get("outcome") == "unknown":
            return self._modes.get(key, _UNKNOWN)
        return self._modes.pop(key, _UNKNOWN)

    def _person(self, who: Mapping[str, Any]) -> Person:
        key = (str(who.get("operator", "?")), str(who.get("os_user", "?")))
        if key not in self.people:
            self.people[key] = Person(*key)
        return self.people[key]
