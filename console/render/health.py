"""Lines of a store's health: plots of depth and arrivals, venues, groups, alerts. Pure.

Prints the number beside every plot, so that nobody has to read a colour or a height.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from console.render.group import bars
from console.render.line import Cell, Line, Tone, clip, fit, line, spread, trusted, untrusted, width, wrap
from console.render.status import sparkline
from console.render.value import count
from console.text.durations import long_age, span
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.stats.groups import Group
    from console.services.stats.health import HealthView
    from console.services.stats.tally import VenueTally
    from console.services.stats.trend import Direction

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LABEL = 8  # cells before a plot
WIDE = 110
_GAP = 3
_ARROWS: Mapping[Direction, str] = {"rising": "↑", "falling": "↓", "steady": " "}
_COLUMNS = f"{'':11}{'OPEN':>8}  {'DOUBT':>6}{'POISON':>7}{'OLDEST':>7}{'AVERAGE':>8}{'LATE':>7}"


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


def health_lines(view: HealthView, breakers: Mapping[str, str], frame: Frame, *, origin: str = "venue") -> list[Line]:
    """`origin`: what the store's failures are counted by."""
    size, now = frame.column, view.at
    tall = max(4, min(10, frame.height - (16 if frame.is_wide else 20)))
    left = [*_depth(view, size, tall), (), *_arrivals(view, size)]
    groups = 12 if frame.is_wide else 5
    right = [
        *_alerts(view, size),
        (),
        *_origins(view, breakers, size, origin),
        (),
        *_groups(view.tally.groups[:groups], now, size),
    ]
    return beside(left, right, frame) if frame.is_wide else [*left, (), *right]


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
    rows = plot(view.depth, peak, tall)
    labels = {0: short_count(peak), tall - 1: "0"}
    lines = [_title("DEPTH", told, size)]
    lines += [(trusted(f"{labels.get(at, ''):>6} ▏", "dim"), trusted(row, "accent")) for at, row in enumerate(rows)]
    return [*lines, line(trusted(_axis(size), "dim")), line(trusted(_trend(view), "dim"))]


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


def _arrivals(view: HealthView, size: int) -> list[Line]:
    hours, minutes = 24, bars(view.minutes, 60 if size >= 90 else 20)
    most = max((max(counts) for counts in view.arrivals.values()), default=0)
    whole = sum(sum(counts) for counts in view.arrivals.values())
    lines = [_title("ARRIVALS", f"{count(whole)} in 24h, by the hour", size)]
    step = 2 if size - 12 - 18 >= 2 * hours else 1
    for name, counts in view.arrivals.items():
        row = "".join(cell * step for cell in scaled(counts, most))
        told = f"{count(sum(counts)):>9} {_now(counts[-1])}"
        lines.append((Cell(fit(safe(name, 40), 12)), trusted(row, "accent"), trusted(told, "dim")))
    if not view.arrivals:
        lines.append(line(trusted("  none", "dim")))
    told = f"{count(sum(view.minutes)):>9} {'in 60m'}"
    return [*lines, (trusted(fit("by minute", 12), "dim"), trusted(sparkline(minutes), "accent"), trusted(told, "dim"))]


def _now(arrived: int) -> str:
    return f"+{count(arrived)} now" if arrived else ""


def scaled(counts: Sequence[int], most: int) -> str:
    """A sparkline with a scale that several rows share."""
    return "".join(_EIGHTHS[max(1, 8 * value // most)] if value and most else " " for value in counts)


def _alerts(view: HealthView, size: int) -> list[Line]:
    lines = [_title("ALERTS", f"{count(len(view.alerts))} raised" if view.alerts else "none", size)]
    if view.halt is not None:
        halt = f"HALT by {safe(view.halt.operator, 24)}: {safe(view.halt.note, 200)}"
        lines += wrap(line(trusted("! ", "danger"), trusted(halt, "danger")), size)
    elif not view.tally.is_readable:
        lines.append(line(trusted("! halt unknown, in doubt unknown, poisoned unknown", "danger")))
    for alert in view.alerts:
        tone: Tone = "danger" if alert.severe else "warning"
        lines += wrap(line(trusted("! ", tone), untrusted(alert.text, tone, limit=300)), size)
    return lines


def _origins(view: HealthView, breakers: Mapping[str, str], size: int, origin: str) -> list[Line]:
    told = f"↑ rising ↓ falling · late: {span(view.age_limit)} or older"
    lines = [_title(f"{origin.upper()}S", told, size)]
    if not view.tally.venues:
        return [*lines, line(trusted("  there are no entries", "dim"))]
    lines.append(line(trusted(_COLUMNS, "dim")))
    for name, venue in sorted(view.tally.venues.items(), key=lambda pair: -pair[1].depth):
        lines.append(_venue(name, venue, view))
        if name in breakers:
            tone: Tone = "danger" if breakers[name] == "open" else "dim"
            lines.append(line(trusted("  breaker ", "dim"), untrusted(breakers[name], tone, limit=12)))
    return lines


def _venue(name: str, venue: VenueTally, view: HealthView) -> Line:
    now, trend = view.at, view.trends.venues.get(name)
    doubts, poisoned = (count(n) if view.tally.is_readable else "?" for n in (venue.in_doubt, venue.poisoned))
    waits = long_age(venue.oldest, now) if venue.oldest else "–"
    average = "–" if venue.average_age is None else long_age(now - venue.average_age, now)
    return (
        Cell(fit(safe(name, 60) or "–", 11)),
        trusted(f"{short_count(venue.depth):>8}", "strong"),
        trusted(f" {_ARROWS[trend.direction] if trend else ' '}", "accent"),
        trusted(f"{doubts:>6}", "danger" if venue.in_doubt else "dim"),
        trusted(f"{poisoned:>7}", "danger" if venue.poisoned else "dim"),
        trusted(f"{waits:>7}{average:>8}", "dim"),
        trusted(f"{short_count(venue.over_age):>7}", "warning" if venue.over_age else "dim"),
    )


def _groups(groups: Sequence[Group], now: datetime, size: int) -> list[Line]:
    lines = [_title("TOP GROUPS", "open · last", size)]
    for group in groups:
        last = long_age(group.last_seen, now) if group.last_seen else "?"
        lines.append(
            (
                trusted(f"{count(group.count):>9}  ", "strong"),
                Cell(fit(safe(group.title, 200), size - 20)),
                trusted(f"{last:>8}", "dim"),
            )
        )
    return lines if groups else [*lines, line(trusted("  none", "dim"))]


def short_count(value: int) -> str:
    return count(value) if value < 100_000 else f"{value // 1000:,}k"
