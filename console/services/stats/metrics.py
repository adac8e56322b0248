"""Renders a store's figures as Prometheus text (format 0.0.4). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from backends.records import STATES, StoreInfo, readable
from console.services.layout_fields import LAYOUTS
from console.services.stats.alerts import OF_LEDGER, RULES, Alert
from console.services.stats.report import ShiftActivity
from console.services.stats.tally import RETRY_STEPS, Tally, VenueTally
from console.services.stats.trend import SIGNS, DepthTrend, DepthTrends
from console.text.untrusted import code_of, is_forbidden, is_harmless

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


@dataclass(frozen=True, slots=True)
class Numbers:
    """Everything one scrape renders."""

    info: StoreInfo
    tally: Tally
    activity: ShiftActivity
    alerts: tuple[Alert, ...]
    halted: bool
    reasons: tuple[str, ...]
    trends: DepthTrends | None = None  # None: unknown
    more: tuple[Family, ...] = ()  # figures that only this layout has


def render(numbers: Numbers) -> str:
    return "".join(_lines(families(numbers)))


def families(numbers: Numbers) -> Iterator[Family]:
    """Leaves out the samples of what is not known because the ledger cannot be read."""
    info, known = numbers.info, numbers.tally.is_readable
    families = [*_of_rows(numbers), *_of_ages(numbers), *_of_retries(numbers)]
    # Of layouts that others own, only the ledger knows which rows are dealt with.
    yield from families if known or LAYOUTS[info.layout].says_dismissed else map(_without_samples, families)
    ledger = [*_of_ledger(numbers), *_done(numbers), *_of_trends(numbers)]
    yield from ledger if known else map(_without_samples, ledger)
    yield _family("dlq_captured_total", "counter", "Entries ever captured.", [({}, numbers.tally.total)])
    yield _family("dlq_ledger_readable", "gauge", "0 while the console's ledger cannot be read.", [({}, float(known))])
    raised = {alert.rule for alert in numbers.alerts}
    firing = [({"rule": rule}, float(rule in raised)) for rule in RULES if known or rule not in OF_LEDGER]
    yield _family("dlq_alert", "gauge", "1 while a rule of dlq check is broken.", firing)
    named = {"store": info.label, "layout": info.layout, "table": info.table}
    yield _family("dlq_store_info", "gauge", "The store that is looked at.", [(named, 1.0)])
    yield from numbers.more


def _without_samples(family: Family) -> Family:
    return replace(family, samples=())


def _by_venue(numbers: Numbers, value: Callable[[VenueTally], float | None]) -> list[tuple[Labels, float]]:
    """A sample for each venue that has the figure."""
    pairs = [({_label(numbers): name}, value(venue)) for name, venue in numbers.tally.venues.items()]
    return [(labels, float(figure)) for labels, figure in pairs if figure is not None]


def _label(numbers: Numbers) -> str:
    return LAYOUTS[numbers.info.layout].words.origin


def _of_rows(numbers: Numbers) -> Iterator[Family]:
    tally, label = numbers.tally, _label(numbers)
    depths = _by_venue(numbers, lambda venue: venue.depth)
    yield _family("dlq_depth", "gauge", f"Open entries (pending, in flight, in doubt) by {label}.", depths)
    yield _family("horizon_dlq_depth", "gauge", "Entries not dismissed by venue: the engine's own name.", depths)
    yield _family("dlq_open", "gauge", "Open entries.", [({}, tally.open)])
    categories = {**dict.fromkeys(CATEGORIES, 0), **tally.categories}
    counts = [({"category": name}, float(count)) for name, count in categories.items()]
    yield _family("dlq_open_by_category", "gauge", "Open entries by kind of failure.", counts)
    shares = [({"category": name}, count / tally.open if tally.open else 0.0) for name, count in categories.items()]
    yield _family("dlq_category_share", "gauge", "Share of a kind of failure among open entries.", shares)
    split = [
        ({label: name, "category": category}, float(venue.categories.get(category, 0)))
        for name, venue in tally.venues.items()
        for category in dict.fromkeys((*CATEGORIES, *venue.categories))
    ]
    text = f"Open entries by {label} and kind of failure."
    yield _family("dlq_depth_by_category", "gauge", text, split)
    yield _family("dlq_groups", "gauge", "Groups of like failures among open entries.", [({}, len(tally.group_sizes))])
    share = tally.group_sizes[0] / tally.open if tally.group_sizes and tally.open else 0.0
    yield _family("dlq_top_group_share", "gauge", "Share of the largest group among open entries.", [({}, share)])


def _of_ages(numbers: Numbers) -> Iterator[Family]:
    now, label = numbers.tally.at, _label(numbers)
    oldest = _by_venue(numbers, lambda venue: max(0.0, _seconds(venue.oldest, now)) if venue.oldest else None)
    yield _family("dlq_oldest_age_seconds", "gauge", f"Age of the oldest open entry by {label}.", oldest)
    average = _by_venue(numbers, lambda venue: None if venue.average_age is None else venue.average_age.total_seconds())
    yield _family("dlq_average_age_seconds", "gauge", f"Average age of the open entries by {label}.", average)
    over = _by_venue(numbers, lambda venue: venue.over_age)
    text = f"Open entries that wait as long as the config's limit, or longer, by {label}."
    yield _family("dlq_over_age_limit", "gauge", text, over)


def _of_retries(numbers: Numbers) -> Iterator[Family]:
    """The distribution is a gauge for each step, not a histogram: entries leave, and a histogram may only grow."""
    tally, label = numbers.tally, _label(numbers)
    yield _family("dlq_retries", "gauge", "Retries of open entries, summed.", [({}, tally.retries)])
    average = _by_venue(numbers, lambda venue: venue.retries / venue.depth if venue.depth else None)
    yield _family("dlq_retries_average", "gauge", f"Retries of an open entry on average by {label}.", average)
    split = [
        ({label: name, "retries": step}, float(count))
        for name, venue in tally.venues.items()
        for step, count in zip(RETRY_STEPS, venue.by_retries, strict=True)
    ]
    yield _family("dlq_depth_by_retries", "gauge", f"Open entries by {label} and number of retries.", split)


def _of_ledger(numbers: Numbers) -> Iterator[Family]:
    tally, label = numbers.tally, _label(numbers)
    yield _family("dlq_entries", "gauge", "Entries by state.", [({"state": s}, tally.states.get(s, 0)) for s in STATES])
    doubts = _by_venue(numbers, lambda venue: venue.in_doubt)
    yield _family("dlq_in_doubt", "gauge", f"Entries that the {label} may hold.", doubts)
    poisoned = _by_venue(numbers, lambda venue: venue.poisoned)
    text = f"Open entries that failed again and again in the same way by {label}."
    yield _family("dlq_poisoned", "gauge", text, poisoned)
    yield _family("dlq_halted", "gauge", "1 while the kill switch is set.", [({}, float(numbers.halted))])


def _of_trends(numbers: Numbers) -> Iterator[Family]:
    trends, label = numbers.trends, _label(numbers)
    figures: tuple[tuple[str, str, Callable[[DepthTrend], float]], ...] = (
        ("average", "on average in the last ten minutes", lambda trend: trend.average),
        ("recent", "now, beside their average", lambda trend: float(trend.recent)),
        (
            "direction",
            "rise (1), fall (-1) or stay (0), by a fifth of the average",
            lambda trend: SIGNS[trend.direction],
        ),
    )
    for name, text, figure in figures:
        overall: list[tuple[Labels, float]] = [({}, figure(trends.overall))] if trends else []
        yield _family(f"dlq_open_{name}", "gauge", f"Open entries {text}.", overall)
        split = [({label: venue}, figure(trend)) for venue, trend in trends.venues.items()] if trends else []
        yield _family(f"dlq_depth_{name}", "gauge", f"Open entries of each {label} {text}.", split)


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


def _seconds(since: datetime, now: datetime) -> float:
    return (now - since).total_seconds()


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
    """Escapes a label value. A venue's name may hold anything: line ends, quotes, what a terminal acts on."""
    text = readable(value)
    if not is_harmless(text):
        text = "".join(code_of(one) if is_forbidden(one) and one != "\n" else one for one in text)
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
