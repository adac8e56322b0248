"""Lines of a store's health: plots of depth and arrivals, venues, groups, alerts. Pure.

Prints the number beside every plot, so that nobody has to read a colour or a height.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from console.render.group import bar, bars
from console.render.line import Cell, Line, Tone, clip, fit, line, spread, trusted, untrusted, width, wrap
from console.render.status import sparkline
from console.render.value import count
from console.text.durations import long_age
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.stats.groups import Group
    from console.services.stats.health import HealthView
    from console.services.stats.tally import VenueTally

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LABEL = 8  # cells before a plot
WIDE = 110
_GAP = 3
_BAR = 14


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


def health_lines(view: HealthView, breakers: Mapping[str, str], frame: Frame) -> list[Line]:
    size, now = frame.column, view.at
    tall = max(4, min(10, frame.height - (16 if frame.is_wide else 20)))
    left = [*_depth(view, size, tall), (), *_arrivals(view, size)]
    groups = 12 if frame.is_wide else 5
    right = [
        *_alerts(view, size),
        (),
        *_venues(view, breakers, size),
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
    return [*lines, line(trusted(_axis(size), "dim"))]


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
    for alert in view.alerts:
        tone: Tone = "danger" if alert.severe else "warning"
        lines += wrap(line(trusted("! ", tone), untrusted(alert.text, tone, limit=300)), size)
    return lines


def _venues(view: HealthView, breakers: Mapping[str, str], size: int) -> list[Line]:
    most = max((venue.depth for venue in view.tally.venues.values()), default=1)
    lines = [_title("VENUES", "open · in doubt · oldest · breaker", size)]
    for name, venue in sorted(view.tally.venues.items(), key=lambda pair: -pair[1].depth):
        lines.append(_venue(name, venue, breakers.get(name, "–"), view.at, most))
    return lines if len(lines) > 1 else [*lines, line(trusted("  nothing is open", "dim"))]


def _venue(name: str, venue: VenueTally, breaker: str, now: datetime, most: int) -> Line:
    waits = long_age(venue.oldest, now) if venue.oldest else "?"
    return (
        Cell(fit(safe(name, 60) or "–", 14)),
        trusted(f"{count(venue.depth):>9} ", "strong"),
        trusted(fit(bar(venue.depth, most, _BAR), _BAR), "accent"),
        trusted(f"{count(venue.in_doubt):>5}", "danger" if venue.in_doubt else "dim"),
        trusted(f"{waits:>8}  ", "dim"),
        untrusted(breaker, "danger" if breaker == "open" else "dim", limit=12),
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
