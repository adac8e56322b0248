"""Lines of a store's health: plots of depth and arrivals, venues, groups, alerts. Pure.

Prints the number beside every plot, so that nobody has to read a colour or a height.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from console.render.group import bars
from console.render.line import Cell, Line, Tone, clip, fit, line, spread, trusted, untrusted, width
from console.render.status import sparkline
from console.render.value import count, group_title
from console.services.browse.filter_words import with_field
from console.text.durations import long_age, span
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.stats.alerts import Alert
    from console.services.stats.groups import Group
    from console.services.stats.health import HealthView
    from console.services.stats.tally import VenueTally
    from console.services.stats.trend import Direction

_OF_VENUES = ("poison", "depth", "oldest")
_WITH_BREAKER = 66  # columns of the venues from which a breaker has a column of its own
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LABEL = 8  # cells before a plot
WIDE = 110
_GAP = 3
_ARROWS: Mapping[Direction, str] = {"rising": "↑", "falling": "↓", "steady": " "}
_COLUMNS = f"{'':12}{'OPEN':>7}  {'DOUBT':>6}{'POISON':>7}{'OLDEST':>7}{'AVERAGE':>8}{'LATE':>7}"


class Frame(NamedTuple):
    """The size of the screen."""

    width: int
    height: int

    @property
    def is_wide(self) -> bool:
        return self.width >= WIDE

    @property
    def column(self) -> int:
        return (self.width - _GAP) // 2 if self.is_wide else self.width

    @property
    def plot(self) -> int:
        """Cells across a plot."""
        return self.column - _LABEL


class HealthRow(NamedTuple):
    """A line of the screen; `opens`: the filter that lists what it counts."""

    line: Line
    opens: str | None = None


def health_rows(
    view: HealthView, breakers: Mapping[str, str], frame: Frame, *, origin: str = "venue"
) -> tuple[list[HealthRow], list[HealthRow]]:
    """The two columns; one below the other where there is no room for both. `origin`: what failures are counted by."""
    size = frame.column
    tall = max(4, min(10, frame.height - 16))
    groups = 12 if frame.is_wide else 8
    blank = HealthRow(())
    first = [*_alerts(view, size, origin), blank, *_origins(view, breakers, size, origin)]
    plots = [*(HealthRow(one) for one in _depth(view, size, tall)), blank, *_arrivals(view, size)]
    top = _groups(view.tally.groups[:groups], view.at, size)
    if frame.is_wide:
        return plots, [*first, blank, *top]
    return [*first, blank, *plots, blank, *top], []


def health_lines(
    columns: tuple[list[HealthRow], list[HealthRow]], frame: Frame, chosen: HealthRow | None = None
) -> list[Line]:
    """Every line fits the width: none is wrapped. The chosen row has a sign before it."""
    left, right = ([clip(_pointed(row, chosen), frame.column) for row in column] for column in columns)
    return beside(left, right, frame) if right else left


def _pointed(row: HealthRow, chosen: HealthRow | None) -> Line:
    if row.opens is None or row is not chosen:
        return row.line
    first, *rest = row.line
    return (trusted("▸", "accent"), trusted(first.text[1:], "accent"), *rest)


def beside(left: Sequence[Line], right: Sequence[Line], frame: Frame) -> list[Line]:
    """Two columns of lines side by side."""
    made = []
    for at in range(max(len(left), len(right))):
        one = clip(left[at], frame.column) if at < len(left) else ()
        other = right[at] if at < len(right) else ()
        made.append((*one, Cell(" " * (frame.column - width(one) + _GAP)), *other))
    return made


def _title(text: str, tail: str, size: int) -> Line:
    return spread(line(trusted(text, "strong")), line(trusted(tail, "dim")), size)


def _depth(view: HealthView, size: int, tall: int) -> list[Line]:
    seen = [level for level in view.depth if level is not None]
    if not seen:
        return [
            _title("DEPTH", f"now {count(view.tally.open)} open", size),
            line(trusted("  nothing was seen yet", "dim")),
        ]
    peak = max(seen)
    told = f"now {count(view.tally.open)} open · peak {count(peak)} · last 8h"
    rows = plot(resampled(view.depth, size - _LABEL), peak, tall)
    labels = {0: short_count(peak), tall - 1: "0"}
    lines = [_title("DEPTH", told, size)]
    lines += [(trusted(f"{labels.get(at, ''):>6} ▏", "dim"), trusted(row, "accent")) for at, row in enumerate(rows)]
    return [*lines, line(trusted(_axis(size), "dim")), line(trusted(_trend(view), "dim"))]


def resampled(levels: Sequence[int | None], room: int) -> list[int | None]:
    """One level for each column: the screen may have been resized since they were read."""
    return [levels[at * len(levels) // room] for at in range(room)]


def _trend(view: HealthView) -> str:
    trend = view.trends.overall
    minutes = len(trend.levels) - 1
    if not minutes:
        return "trend: unknown until the index was kept for a minute"
    return f"trend: {trend.direction}, {count(trend.recent)} now, {trend.average:,.1f} on average in {minutes}m"


def _axis(size: int) -> str:
    room = size - _LABEL
    marks = ("8h ago", "6h", "4h", "2h", "now")
    cells = [" "] * room
    for at, mark in enumerate(marks):
        start = min(room - len(mark), max(0, at * room // 4 - (len(mark) // 2 if 0 < at < 4 else 0)))
        cells[start : start + len(mark)] = mark
    return " " * _LABEL + "".join(cells)


def plot(levels: Sequence[int | None], peak: int, tall: int) -> list[str]:
    """Rows of a bar chart, top first. Times without a sample are dotted; a level above zero is always visible."""
    rows = []
    for row in range(tall - 1, -1, -1):
        cells = []
        for level in levels:
            eighths = 0 if not level or not peak else max(1, round(level * tall * 8 / peak))
            is_gap = level is None and row == 0
            cells.append("·" if is_gap else _EIGHTHS[max(0, min(8, eighths - row * 8))])
        rows.append("".join(cells))
    return rows


def _arrivals(view: HealthView, size: int) -> list[HealthRow]:
    hours, minutes = 24, bars(view.minutes, 60 if size >= 90 else 20)
    most = max((max(counts) for counts in view.arrivals.values()), default=0)
    whole = sum(sum(counts) for counts in view.arrivals.values())
    rows = [HealthRow(_title("ARRIVALS", f"{count(whole)} in 24h, by the hour", size))]
    step = 2 if size - 13 - 18 >= 2 * hours else 1
    for name, counts in view.arrivals.items():
        row = "".join(cell * step for cell in scaled(counts, most))
        told = f"{count(sum(counts)):>9} {_now(counts[-1])}"
        cells = (Cell(fit(f" {safe(name, 40)}", 13)), trusted(row, "accent"), trusted(told, "dim"))
        rows.append(HealthRow(cells, f"{with_field('', 'category', name)} since:24h state:all"))
    if not view.arrivals:
        rows.append(HealthRow(line(trusted("  none", "dim"))))
    told = f"{count(sum(view.minutes)):>9} in 60m"
    cells = (trusted(fit(" by minute", 13), "dim"), trusted(sparkline(minutes), "accent"), trusted(told, "dim"))
    return [*rows, HealthRow(cells, "since:60m state:all")]


def _now(arrived: int) -> str:
    return f"+{count(arrived)} now" if arrived else ""


def scaled(counts: Sequence[int], most: int) -> str:
    """A sparkline with a scale that several rows share."""
    return "".join(_EIGHTHS[max(1, 8 * value // most)] if value and most else " " for value in counts)


def _alerts(view: HealthView, size: int, origin: str) -> list[HealthRow]:
    """What is wrong, the gravest first: what concerns one venue stands in one row."""
    raised = folded(view.alerts)
    rows = [HealthRow(_title("ALERTS", f"{count(len(view.alerts))} raised" if view.alerts else "none", size))]
    if view.halt is not None:
        halt = f"HALT by {safe(view.halt.operator, 24)}: {safe(view.halt.note, 200)}"
        rows.append(HealthRow(line(trusted("! ", "danger"), trusted(halt, "danger"))))
    elif not view.tally.is_readable:
        rows.append(HealthRow(line(trusted("! halt unknown, in doubt unknown, poisoned unknown", "danger"))))
    for name, alerts in raised:
        tone: Tone = "danger" if any(alert.severe for alert in alerts) else "warning"
        opens = _opens(name, alerts, origin, view)
        rows.append(HealthRow(line(trusted(" ! " if opens else "! ", tone), *_told(name, alerts, size, tone)), opens))
    return rows


def folded(alerts: Sequence[Alert]) -> list[tuple[str | None, tuple[Alert, ...]]]:
    """Alerts with the venue they are about, one row a venue; the gravest first."""
    rows: list[tuple[str | None, tuple[Alert, ...]]] = [(None, (one,)) for one in alerts if one.rule not in _OF_VENUES]
    by_venue: dict[str, tuple[Alert, ...]] = {}
    for one in alerts:
        if one.rule in _OF_VENUES:
            by_venue[one.subject or ""] = (*by_venue.get(one.subject or "", ()), one)
    return sorted([*rows, *by_venue.items()], key=_gravity)


def _gravity(row: tuple[str | None, tuple[Alert, ...]]) -> tuple[int, int, float]:
    """Severe ones, poison, the rest, a common cause; several rules before one, then by how far over the limit."""
    alerts, rules = row[1], {alert.rule for alert in row[1]}
    over = max(alert.value / alert.limit if alert.limit else 0.0 for alert in alerts)
    rank = 0 if any(alert.severe for alert in alerts) else 1 if "poison" in rules else 3 if "dominance" in rules else 2
    return (rank, -len(alerts), -over)


def _told(name: str | None, alerts: Sequence[Alert], size: int, tone: Tone) -> Line:
    if name is None:
        text = alerts[0].text if len(alerts[0].text) + 3 <= size else alerts[0].brief or alerts[0].text
        return line(untrusted(text, tone, limit=300))
    return line(untrusted(f"{name or '–'}  ", "strong", limit=40), trusted(" · ".join(map(_of_venue, alerts)), tone))


def _of_venue(alert: Alert) -> str:
    match alert.rule:
        case "poison":
            return f"{count(int(alert.value))} poisoned"
        case "depth":
            return f"{count(int(alert.value))} open (limit {count(int(alert.limit))})"
        case _:
            limit = span(timedelta(seconds=alert.limit))
            return f"oldest {span(timedelta(seconds=alert.value))} (limit {limit})"


def _opens(name: str | None, alerts: Sequence[Alert], origin: str, view: HealthView) -> str | None:
    """The filter that lists what the alert is about."""
    rules = {alert.rule for alert in alerts}
    if name is None:
        subject = alerts[0].subject or ""
        known = {"in-doubt": "state:in_doubt", "arrivals": "since:10m"}
        return with_field("", "category", subject) if "dominance" in rules else known.get(alerts[0].rule)
    here = with_field("", origin, name)
    if rules == {"poison"}:
        return f"{here} mark:poison"
    return f"{here} age>={span(view.age_limit)}" if rules == {"oldest"} else here


def _origins(view: HealthView, breakers: Mapping[str, str], size: int, origin: str) -> list[HealthRow]:
    told = f"late: {span(view.age_limit)} or older"
    rows = [HealthRow(_title(f"{origin.upper()}S", told, size))]
    if not view.tally.venues:
        return [*rows, HealthRow(line(trusted("  there are no entries", "dim")))]
    heads = f"{'BREAKER':>9}" if breakers and size >= _WITH_BREAKER else ""
    rows.append(HealthRow(line(trusted(f"{_COLUMNS}{heads}", "dim"))))
    for name, venue in sorted(view.tally.venues.items(), key=lambda pair: (-pair[1].depth, pair[0])):
        state = breakers.get(name, "")
        tone: Tone = "danger" if state == "open" else "dim"
        cells = _venue(name, venue, view)
        if state and heads:
            cells = (*cells, untrusted(f"{fit(state, 9, right=True)}", tone, limit=12))
        rows.append(HealthRow(cells, with_field("", origin, name)))
        if state and not heads:
            rows.append(HealthRow(line(trusted("   breaker ", "dim"), untrusted(state, tone, limit=12))))
    return rows


def _venue(name: str, venue: VenueTally, view: HealthView) -> Line:
    now, trend = view.at, view.trends.venues.get(name)
    doubts, poisoned = (count(n) if view.tally.is_readable else "?" for n in (venue.in_doubt, venue.poisoned))
    waits = long_age(venue.oldest, now) if venue.oldest else "–"
    average = "–" if venue.average_age is None else long_age(now - venue.average_age, now)
    return (
        Cell(fit(f" {safe(name, 60) or '–'}", 12)),
        trusted(f"{short_count(venue.depth):>7}", "strong"),
        trusted(f" {_ARROWS[trend.direction] if trend else ' '}", "accent"),
        trusted(f"{doubts:>6}", "danger" if venue.in_doubt else "dim"),
        trusted(f"{poisoned:>7}", "danger" if venue.poisoned else "dim"),
        trusted(f"{waits:>7}{average:>8}", "dim"),
        trusted(f"{short_count(venue.over_age):>7}", "warning" if venue.over_age else "dim"),
    )


def _groups(groups: Sequence[Group], now: datetime, size: int) -> list[HealthRow]:
    rows = [HealthRow(_title("TOP GROUPS", "open · last", size))]
    counts = [count(group.count) for group in groups]
    lasts = [long_age(group.last_seen, now) if group.last_seen else "?" for group in groups]
    sizes = [max(map(len, texts), default=0) for texts in (counts, lasts)]  # the title has what they leave
    for group, told, last in zip(groups, counts, lasts, strict=True):
        cells = (
            trusted(f"  {told:>{sizes[0]}}  ", "strong"),
            Cell(fit(group_title(group.title), size - sum(sizes) - 7)),
            trusted(f"  {last:>{sizes[1]}} ", "dim"),
        )
        rows.append(HealthRow(cells, f"group:{group.fingerprint}"))
    return rows if groups else [*rows, HealthRow(line(trusted("  none", "dim")))]


def short_count(value: int) -> str:
    return count(value) if value < 100_000 else f"{value // 1000:,}k"
