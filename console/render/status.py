"""The frame's words: store, PAPER or LIVE, READ-ONLY, operator, counts, trend, keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from backends.records import Counts, Halt
from console.duration import long_age
from console.keys import Key
from console.render import value
from console.render.line import Cell, Line, clip, joined, line, own, said, spread, width
from console.safetext import safe

if TYPE_CHECKING:
    from console.services.alerts import Alert

_BARS = "▁▂▃▄▅▆▇█"


class Trend(NamedTuple):
    """Arrivals in equal spans of time up to now; `hours` is what they cover, which may be less than a day."""

    tally: tuple[int, ...]
    hours: int


class Standing(NamedTuple):
    """What the frame says wherever the operator is."""

    store: str
    label: str
    operator: str
    mode: str = "paper"
    read_only: bool = False
    counts: Counts | None = None
    halt: Halt | None = None
    trend: Trend | None = None
    lost: str | None = None  # the store does not answer: its own words
    running: str | None = None  # a batch: how far it is
    attaching: bool = False
    attached: bool = False
    indexing: int | None = None  # percent of it, while it is being built
    alerts: tuple[Alert, ...] = ()
    layout: str = "orders"
    cut: str | None = None  # what of the store is not shown, and why


def title(standing: Standing, size: int) -> Line:
    """On the frame's upper edge: nothing of it may be cut but the store's address."""
    mode = own(f" {standing.mode.upper()} ", "strong")
    words = [mode] if not standing.read_only else [own(" READ-ONLY ", "strong"), mode]
    if standing.layout != "orders" and not standing.read_only:
        words.append(own(" replays are real "))
    tail = own(f" operator {safe(standing.operator, 24)} ")
    is_address = "/" in standing.store and standing.label.endswith(f" {standing.store}")
    name = "" if is_address else safe(standing.store, 40)  # an address is said once
    room = size - width((*words, tail)) - len(name) - 8
    between = " · " if name else ""
    label = f"{between}{value_label(standing.label, room)}" if room > 8 and standing.label != standing.store else ""
    return (*words, own(f"· {name}{label} ·"), tail)


def value_label(label: str, room: int) -> str:
    """The end of an address says more than its beginning."""
    text = safe(label, 300)
    return text if len(text) <= room else f"…{text[-(room - 1) :]}"


def status(standing: Standing, now: datetime, size: int) -> Line:
    alarms: list[Line] = []
    if standing.lost is not None:
        alarms.append(line(own("STORE LOST", "danger"), own(" "), said(standing.lost, "danger", limit=200)))
    if standing.halt is not None:
        alarms.append(_halt(standing.halt))
    if standing.cut is not None:
        alarms.append(line(said(standing.cut, "warning", limit=120)))
    if standing.running is not None:
        alarms.append(line(said(standing.running, "accent", limit=60)))
    counts, trend = _counts(standing, now), _sparkline(standing.trend)
    if not alarms:
        return _calm(standing, counts, trend, size)
    # The counts are always said in full: the alarm's own words give way, and the trend before them.
    left = joined([clip(joined(alarms), max(12, size - width(counts) - 4)), counts])
    return spread(left, trend if width(left) + width(trend) < size else (), size)


def _calm(standing: Standing, counts: Line, trend: Line, size: int) -> Line:
    """Nothing is wrong with the store itself: what should be looked at follows the counts, then the trend."""
    # In quarters, so that a screen nobody touches stays still; the health screen has the percent.
    quarter = None if standing.indexing is None else standing.indexing // 25 * 25
    index = line(own(f"index > {quarter:d} %" if quarter else "indexing", "dim")) if quarter is not None else ()
    raised = alert_words(standing.alerts, size)
    tails = [tail for tail in (joined([index, trend]), index) if tail]
    tail = next((tail for tail in tails if width(joined([counts, raised])) + width(tail) + 3 <= size), ())
    room = size - width(counts) - (width(tail) + 3 if tail else 0) - 3
    return spread(joined([counts, alert_words(standing.alerts, room)]), tail, size)


def alert_words(alerts: Sequence[Alert], room: int) -> Line:
    """One of them, and how many more. What is in doubt is in the counts already, so it gives way to others."""
    if not alerts or room < 12:
        return ()
    first = next((alert for alert in alerts if alert.rule != "in-doubt"), alerts[0])
    more = line(own(f" +{len(alerts) - 1}", "warning")) if len(alerts) > 1 else ()
    text = line(own("alert: ", "warning"), said(first.brief or first.text, "warning", limit=60))
    return (*clip(text, room - width(more)), *more)


def _halt(halt: Halt) -> Line:
    who, note = safe(halt.operator, 20), safe(halt.note, 60)
    return line(own("HALT", "danger"), own(f" by {who}: {note}", "danger"))


def _counts(standing: Standing, now: datetime) -> Line:
    counts = standing.counts
    if counts is None:
        waiting = "attaching …" if standing.attaching else "counting …" if standing.attached else "no store is attached"
        return line(own(waiting, "dim"))
    pending, doubt = counts.by_state.get("pending", 0), counts.by_state.get("in_doubt", 0)
    flight = counts.by_state.get("in_flight", 0)
    parts = [
        line(own("pending ", "dim"), own(value.count(pending), "strong")),
        line(own("in doubt ", "dim"), own(value.count(doubt), "danger" if doubt else "strong")),
    ]
    if flight:
        parts.append(line(own("in flight ", "dim"), own(value.count(flight), "warning")))
    if counts.oldest_pending is not None:
        parts.append(line(own("oldest ", "dim"), own(long_age(counts.oldest_pending, now))))
    return joined(parts)


def _sparkline(trend: Trend | None) -> Line:
    if trend is None or not any(trend.tally):
        return ()
    return line(own(sparkline(trend.tally), "accent"), own(f" {trend.hours}h", "dim"))


def sparkline(tally: Sequence[int]) -> str:
    most = max((*tally, 1))
    return "".join(_BARS[(len(_BARS) - 1) * count // most] if count else " " for count in tally)


def make_trend(moments: Iterable[datetime], now: datetime, *, whole: bool, bars: int = 24) -> Trend:
    """`whole`: these are all of the last day; else they reach as far back as the oldest of them."""
    ages = sorted((now - moment).total_seconds() / 3600 for moment in moments)
    reach = 24 if whole or not ages else max(1, min(24, int(ages[-1])))
    tally = [0] * bars
    for age in ages:
        if 0 <= age < reach:
            tally[bars - 1 - int(age * bars / reach)] += 1
    return Trend(tuple(tally), reach)


def footer(keys: Sequence[Key], size: int, *, lead: Line = ()) -> Line:
    """What can be pressed next, as much of it as there is room for; help before all else."""
    parts = [lead] if lead else []
    used = width(lead) + (3 if lead else 0)
    last = keys[-1:]
    tail = sum(len(key.shown) + len(key.label) + 3 for key in last)
    for key in keys[:-1]:
        need = len(key.shown) + len(key.label) + 3
        if used + need + tail > size:
            continue
        used += need
        parts.append(_hint(key))
    parts += [_hint(key) for key in last if used + tail - 2 <= size]
    head, rest = (parts[:1], parts[1:]) if lead else ([], parts)
    return clip(joined([*head, joined(rest, "  ")]), size)


def _hint(key: Key) -> Line:
    return (Cell(key.shown, "key"), Cell(f" {key.label}", "dim"))
