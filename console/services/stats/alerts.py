"""The alert rules over a store's tally. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from console.services.stats.tally import Tally
from console.settings.config import Alerts
from console.text.durations import long_age

RISE = 0.2  # a rise or fall counts from this share of the earlier half
_ENOUGH = 10  # fewer entries than this show no trend
Rule = Literal["in-doubt", "depth", "oldest", "dominance", "arrival-rate"]
RULES: tuple[Rule, ...] = ("in-doubt", "depth", "oldest", "dominance", "arrival-rate")


@dataclass(frozen=True, slots=True)
class Alert:
    rule: Rule
    text: str
    venue: str = ""
    severe: bool = False
    brief: str = ""  # the short form for the status line


def alerts(tally: Tally, limits: Alerts) -> tuple[Alert, ...]:
    """The alerts that are raised, most urgent first."""
    return (
        *_in_doubt(tally),
        *_depth(tally, limits.depth),
        *_oldest(tally, limits.oldest),
        *_dominance(tally, limits.dominance),
        *_arrivals(tally.arrivals),
    )


def _in_doubt(tally: Tally) -> list[Alert]:
    count = tally.states.get("in_doubt", 0)
    if not count:
        return []
    are = "entry is" if count == 1 else "entries are"
    text = f"{count} {are} in doubt: the venue may hold the order, reconcile"
    return [Alert("in-doubt", text, severe=True, brief=f"reconcile {count} in doubt")]


def _depth(tally: Tally, limit: int) -> list[Alert]:
    return [
        Alert(
            "depth",
            f"{venue.depth} open at {name or '(no venue)'}, the limit is {limit}",
            name,
            brief=f"{venue.depth:,} open at {name or '(no venue)'}",
        )
        for name, venue in tally.venues.items()
        if venue.depth >= limit
    ]


def _oldest(tally: Tally, limit: timedelta) -> list[Alert]:
    found = []
    for name, venue in tally.venues.items():
        if venue.oldest is not None and tally.at - venue.oldest >= limit:
            waits, where = long_age(venue.oldest, tally.at), name or "(no venue)"
            brief = f"{where} waits {waits}"
            found.append(Alert("oldest", f"the oldest at {where} waits for {waits}", name, brief=brief))
    return found


def _dominance(tally: Tally, limit: float) -> list[Alert]:
    if tally.open <= _ENOUGH or not tally.groups:
        return []
    top = tally.groups[0]
    share = top.count / tally.open
    if share <= limit:
        return []
    text = f"{share:.0%} of {tally.open} open have one error: {top.fingerprint} {top.title}"
    return [Alert("dominance", text, brief=f"one error is {share:.0%}")]


def _arrivals(counts: Sequence[int]) -> list[Alert]:
    half = len(counts) // 2
    earlier, later = sum(counts[:half]), sum(counts[half:])
    if change(counts) != "rising":
        return []
    text = f"arrivals rise: {later} in the last {half} minutes, {earlier} in the {half} before them"
    return [Alert("arrival-rate", text, brief=f"arrivals rise: {later} in {half}m")]


def change(counts: Sequence[int]) -> Literal["rising", "falling", "steady"]:
    """Compares the later half with the earlier one. Fewer than `_ENOUGH` entries are steady."""
    half = len(counts) // 2
    earlier, later = sum(counts[:half]), sum(counts[half:])
    if max(earlier, later) < _ENOUGH:
        return "steady"
    if later >= earlier * (1 + RISE):
        return "rising"
    return "falling" if later <= earlier * (1 - RISE) else "steady"
