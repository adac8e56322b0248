"""Lines of the frame: store, mode, operator, counts, trend, alerts, keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from console.keymap import Key
from console.render import value
from console.render.line import Cell, Line, clip, joined, line, spread, trusted, untrusted, width, wrap
from console.services.layout_fields import LAYOUTS
from console.text.durations import long_age
from console.text.untrusted import safe

if TYPE_CHECKING:
    from backends.records import Counts, Halt
    from console.services.stats.alerts import Alert

_BARS = "▁▂▃▄▅▆▇█"


class Trend(NamedTuple):
    """Arrivals in equal steps up to now; `hours`: the time they cover, at most a day."""

    tally: tuple[int, ...]
    hours: int


class HeaderState(NamedTuple):
    """What the frame shows on every screen."""

    store: str
    label: str
    operator: str
    mode: str = "paper"
    read_only: bool = False
    counts: Counts | None = None
    halt: Halt | None = None
    trend: Trend | None = None
    lost: str | None = None  # why the store does not answer
    running: str | None = None  # progress of the running batch
    waiting: str = ""  # what the running batch waits for
    attaching: bool = False
    attached: bool = False
    indexing: int | None = None  # percent, while the index is being built
    alerts: tuple[Alert, ...] = ()
    layout: str = "orders"
    cut: str | None = None  # what of the store is not shown, and why
    is_known: bool = True  # False: the ledger cannot be read, and states and halt are unknown
    asked: int = 0  # plans that wait for this person
    read_at: datetime | None = None  # when the store was last read


def title(header_state: HeaderState, size: int) -> Line:
    """The frame's upper edge; only the store's address may be cut."""
    mode = trusted(f" {header_state.mode.upper()} ", "strong")
    words = [mode] if not header_state.read_only else [trusted(" READ-ONLY ", "strong"), mode]
    if not (LAYOUTS[header_state.layout].has_modes or header_state.read_only):
        words.append(trusted(" replays are real "))
    tail = trusted(f" operator {safe(header_state.operator, 24)} ")
    is_address = "/" in header_state.store and header_state.label.endswith(f" {header_state.store}")
    name = "" if is_address else safe(header_state.store, 40)  # do not show the address twice
    room = size - width((*words, tail)) - len(name) - 8
    between = " · " if name else ""
    label = (
        f"{between}{value_label(header_state.label, room)}"
        if room > 8 and header_state.label != header_state.store
        else ""
    )
    return (*words, trusted(f"· {name}{label} ·"), tail)


def value_label(label: str, room: int) -> str:
    """The label, cut at its beginning: the end of an address says more."""
    text = safe(label, 300)
    return text if len(text) <= room else f"…{text[-(room - 1) :]}"


def status(header_state: HeaderState, now: datetime, size: int) -> Line:
    """The status in one line; what does not fit beside the counts is cut."""
    *above, last = status_lines(header_state, now, size)
    return last if not above else clip(joined([*above, last]), size)


def status_lines(header_state: HeaderState, now: datetime, size: int) -> list[Line]:
    """Counts, trend and alerts; before them what is wrong, on lines of its own where it has no room beside them."""
    alarms = _alarms(header_state, now)
    counts, trend = _counts(header_state, now), _sparkline(header_state.trend)
    if header_state.running is not None:
        room = size - width(joined([*alarms, counts])) - 4
        alarms.append(_running(header_state.running, header_state.waiting, room))
    if not alarms:
        return [_calm(header_state, counts, trend, size)]
    told = joined(alarms)
    if width(told) + width(counts) + 4 > size:
        wrapped = [*wrap(told, size)]
        cut = [clip((*wrapped[_MOST_ALARMS - 1], trusted(" …", "danger")), size)] if len(wrapped) > _MOST_ALARMS else []
        return [*wrapped[: _MOST_ALARMS - len(cut)], *cut, spread(counts, trend, size)]
    left = joined([told, counts])
    return [spread(left, trend if width(left) + width(trend) < size else (), size)]


_MOST_ALARMS = 3  # lines


def _alarms(header_state: HeaderState, now: datetime) -> list[Line]:
    alarms: list[Line] = []
    if header_state.lost is not None:
        age = data_age(header_state, now)
        words = f"STORE LOST, as of {age} ago: " if age else "STORE LOST: "
        alarms.append(line(trusted(words, "danger"), untrusted(header_state.lost, "danger", limit=200)))
    if header_state.halt is not None:
        alarms.append(_halt(header_state.halt))
    if header_state.cut is not None:
        alarms.append(line(untrusted(header_state.cut, "warning", limit=120)))
    return alarms


def data_age(header_state: HeaderState, now: datetime) -> str:
    """How old is what is shown of a store that does not answer; empty where it answers, or was never read."""
    if header_state.lost is None or header_state.read_at is None:
        return ""
    return long_age(header_state.read_at, now)


def _calm(header_state: HeaderState, counts: Line, trend: Line, size: int) -> Line:
    """The status without alarms: counts, alerts, then the trend."""
    # In quarters, so that an idle screen is seldom repainted; the health screen shows the percent.
    quarter = None if header_state.indexing is None else header_state.indexing // 25 * 25
    index = line(trusted(f"index > {quarter:d} %" if quarter else "indexing", "dim")) if quarter is not None else ()
    raised = alert_words(header_state.alerts, size)
    tails = [tail for tail in (joined([index, trend]), index) if tail]
    tail = next((tail for tail in tails if width(joined([counts, raised])) + width(tail) + 3 <= size), ())
    room = size - width(counts) - (width(tail) + 3 if tail else 0) - 4
    return spread(joined([counts, alert_words(header_state.alerts, room)]), tail, size)


_SHORTEST_ALERT = 24  # a cut one says less than how many there are


def alert_words(alerts: Sequence[Alert], room: int) -> Line:
    """One alert and the number of others; where room is short, only how many.

    Prefers alerts other than in-doubt, which the counts show already.
    """
    if not alerts or room < 9:
        return ()
    first = next((alert for alert in alerts if alert.rule != "in-doubt"), alerts[0])
    more = line(trusted(f" +{len(alerts) - 1}", "warning")) if len(alerts) > 1 else ()
    text = line(trusted("alert: ", "warning"), untrusted(first.brief or first.text, "warning", limit=60))
    if width(text) + width(more) > room and room < _SHORTEST_ALERT:
        return line(trusted(value.many(len(alerts), "alert"), "warning"))
    return (*clip(text, room - width(more)), *more)


def _running(progress: str, waiting: str, room: int) -> Line:
    """How far the batch is and what it waits for; where room is short, only that it waits."""
    told = line(untrusted(progress, "accent", limit=60))
    if not waiting:
        return told
    whole = (*told, untrusted(f": {waiting}", "warning", limit=160))
    return whole if width(whole) <= room else (*told, trusted(" waits", "warning"))


def _halt(halt: Halt) -> Line:
    who, note = safe(halt.operator, 20), safe(halt.note, 60)
    return line(trusted("HALT", "danger"), trusted(f" by {who}{f': {note}' if note else ''}", "danger"))


def _counts(header_state: HeaderState, now: datetime) -> Line:
    counts = header_state.counts
    if counts is None:
        waiting = (
            "attaching …"
            if header_state.attaching
            else "counting …"
            if header_state.attached
            else "no store is attached"
        )
        return line(trusted(waiting, "dim"))
    if not header_state.is_known:
        seen = line(trusted("open ", "dim"), trusted(value.count(counts.open), "strong"))
        return joined([seen, line(trusted("in doubt unknown", "warning")), line(trusted("halt unknown", "warning"))])
    pending, doubt = counts.by_state.get("pending", 0), counts.by_state.get("in_doubt", 0)
    flight = counts.by_state.get("in_flight", 0)
    parts = [
        line(trusted("pending ", "dim"), trusted(value.count(pending), "strong")),
        line(trusted("in doubt ", "dim"), trusted(value.count(doubt), "danger" if doubt else "strong")),
    ]
    if flight:
        parts.append(line(trusted("in flight ", "dim"), trusted(value.count(flight), "warning")))
    if counts.oldest_pending is not None:
        parts.append(line(trusted("oldest ", "dim"), trusted(long_age(counts.oldest_pending, now))))
    return joined(parts)


def _sparkline(trend: Trend | None) -> Line:
    if trend is None or not any(trend.tally):
        return ()
    return line(trusted(sparkline(trend.tally), "accent"), trusted(f" {trend.hours}h", "dim"))


def sparkline(tally: Sequence[int]) -> str:
    most = max((*tally, 1))
    return "".join(_BARS[(len(_BARS) - 1) * count // most] if count else " " for count in tally)


def make_trend(moments: Iterable[datetime], now: datetime, *, whole: bool, bars: int = 24) -> Trend:
    """`whole`: these are all arrivals of the last day; else the trend reaches back to the oldest of them."""
    ages = sorted((now - moment).total_seconds() / 3600 for moment in moments)
    reach = 24 if whole or not ages else max(1, min(24, int(ages[-1])))
    tally = [0] * bars
    for age in ages:
        if 0 <= age < reach:
            tally[bars - 1 - int(age * bars / reach)] += 1
    return Trend(tuple(tally), reach)


def waits_segment(count: int, key: str) -> Line:
    """`P 1 waits for you`; nothing where nothing waits."""
    if not count:
        return ()
    words = "1 waits for you" if count == 1 else f"{count} wait for you"
    return line(trusted(key, "key"), trusted(f" {words}", "warning"))


def footer(keys: Sequence[Key], size: int, *, lead: Line = ()) -> Line:
    """The keys that fit; the last one, help, always stays."""
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
