"""A group of like failures as one line: how many, what, since when, and when they came. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from console.duration import age
from console.render.line import Cell, Line, fit, own
from console.render.status import sparkline
from console.safetext import safe

if TYPE_CHECKING:
    from console.services.group import Group

_WIDE = 100


def group_header(size: int) -> Line:
    trend = f"{'LAST 24H':<26}" if size >= _WIDE else ""
    return (own(fit(f"   COUNT  {fit('ERROR', _room(size))}  CATEGORY     LAST  FIRST  {trend}", size), "dim"),)


def group_line(group: Group, now: datetime, size: int) -> Line:
    first, last = (age(at, now) if at else "?" for at in (group.first_seen, group.last_seen))
    bars = sparkline(group.trend) if size >= _WIDE and any(group.trend) else ""
    return (
        own(f"{group.count:>8,}  ", "strong"),
        Cell(fit(safe(group.title, 300), _room(size))),
        own(f"  {group.category:<11}{last:>6}{first:>7}  ", "dim"),
        own(bars, "accent"),
    )


def _room(size: int) -> int:
    return max(10, size - 38 - (26 if size >= _WIDE else 0))
