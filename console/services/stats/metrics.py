"""Renders a store's figures as Prometheus text (format 0.0.4). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from backends.records import STATES, StoreInfo, readable
from console.services.layout_fields import INTEGRATION, OUTBOX
from console.services.stats.alerts import RULES, Alert
from console.services.stats.report import ShiftActivity
from console.services.stats.tally import Tally

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CATEGORIES = ("transient", "schema", "business", "integration")
OUTCOMES = ("accepted", "rejected", "unknown", "not_sent")
MODES = ("paper", "live")
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    kind: Literal["gauge", "counter"]
    text: str
    samples: tuple[tuple[Labels, float], ...]


_LABELS = {OUTBOX: "queue", INTEGRATION: "provider"}  # what stands in the place of a venue


@dataclass(frozen=True, slots=True)
class Numbers:
    """Everything one scrape renders."""

    info: StoreInfo
    tally: Tally
    activity: ShiftActivity
    alerts: tuple[Alert, ...]
    halted: bool
    reasons: tuple[str, ...]


def render(numbers: Numbers) -> str:
    return "".join(_lines(families(numbers)))


def families(numbers: Numbers) -> Iterator[Family]:
    tally, label = numbers.tally, _LABELS.get(numbers.info.layout, "venue")
    depths = [({label: name}, float(venue.depth)) for name, venue in tally.venues.items()]
    yield _family("dlq_depth", "gauge", f"Open entries (pending, in flight, in doubt) by {label}.", depths)
    yield _family("horizon_dlq_depth", "gauge", "Entries not dismissed by venue: the engine's own name.", depths)
    yield _family("dlq_open", "gauge", "Open entries.", [({}, tally.open)])
    yield _family("dlq_entries", "gauge", "Entries by state.", [({"state": s}, tally.states.get(s, 0)) for s in STATES])
    yield _family("dlq_in_doubt", "gauge", f"Entries that the {label} may hold.", _in_doubt(tally, label))
    yield _family("dlq_oldest_age_seconds", "gauge", f"Age of the oldest open entry by {label}.", _ages(tally, label))
    yield _family("dlq_open_by_category", "gauge", "Open entries by kind of failure.", _categories(tally))
    yield _family("dlq_groups", "gauge", "Groups of like failures among open entries.", [({}, len(tally.groups))])
    share = tally.groups[0].count / tally.open if tally.groups and tally.open else 0.0
    yield _family("dlq_top_group_share", "gauge", "Share of the largest group among open entries.", [({}, share)])
    yield _family("dlq_retries", "gauge", "Retries of open entries, summed.", [({}, tally.retries)])
    yield _family("dlq_captured_total", "counter", "Entries ever captured.", [({}, tally.total)])
    yield from _done(numbers)
    yield _family("dlq_halted", "gauge", "1 while the kill switch is set.", [({}, float(numbers.halted))])
    raised = {alert.rule for alert in numbers.alerts}
    firing = [({"rule": rule}, float(rule in raised)) for rule in RULES]
    yield _family("dlq_alert", "gauge", "1 while a rule of dlq check is broken.", firing)
    info = numbers.info
    named = {"store": info.label, "layout": info.layout, "table": info.table}
    yield _family("dlq_store_info", "gauge", "The store that is looked at.", [(named, 1.0)])


def _done(numbers: Numbers) -> Iterator[Family]:
    activity = numbers.activity
    known = {(mode, outcome): 0 for mode in MODES for outcome in OUTCOMES}
    for name, text, counts in (
        ("dlq_replays_total", "Replays by outcome and mode.", activity.replays),
        ("dlq_reconciles_total", "Attempts in doubt that were settled by evidence.", activity.reconciles),
    ):
        pairs = {**known, **counts}.items()
        yield _family(name, "counter", text, [({"mode": m, "outcome": o}, float(n)) for (m, o), n in pairs])
    reasons = {**dict.fromkeys(numbers.reasons, 0), **activity.dismissals}
    dismissed = [({"reason": reason}, float(count)) for reason, count in reasons.items()]
    yield _family("dlq_dismissals_total", "counter", "Dismissed by consoles, by reason.", dismissed)
    yield _family("dlq_restores_total", "counter", "Dismissals taken back.", [({}, float(activity.restored))])


def _in_doubt(tally: Tally, label: str) -> list[tuple[Labels, float]]:
    return [({label: name}, float(venue.in_doubt)) for name, venue in tally.venues.items()]


def _ages(tally: Tally, label: str) -> list[tuple[Labels, float]]:
    return [
        ({label: name}, max(0.0, _seconds(venue.oldest, tally.at)))
        for name, venue in tally.venues.items()
        if venue.oldest is not None
    ]


def _seconds(since: datetime, now: datetime) -> float:
    return (now - since).total_seconds()


def _categories(tally: Tally) -> list[tuple[Labels, float]]:
    known = {**dict.fromkeys(CATEGORIES, 0), **tally.categories}
    return [({"category": name}, float(count)) for name, count in known.items()]


def _family(name: str, kind: Literal["gauge", "counter"], text: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    return Family(name, kind, text, tuple(samples))


def _lines(found: Iterable[Family]) -> Iterator[str]:
    for family in found:
        yield f"# HELP {family.name} {family.text}\n# TYPE {family.name} {family.kind}\n"
        for labels, value in family.samples:
            yield f"{family.name}{_labels(labels)} {_number(value)}\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in labels.items()) + "}"


def escape(value: str) -> str:
    """Escapes a label value. A venue's name may hold anything, including line ends and quotes."""
    return readable(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\\\r")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
