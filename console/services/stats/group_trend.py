"""The window of the groups' trends: the shortest that holds most of what arrived, in 24 steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from backends.index.delta import HOUR
from backends.index.rows import MINUTE, micros

STEPS = 24
BUCKET = 5 * MINUTE  # the finest step there is
MOST = 0.8  # the share of the arrivals that a window must hold


class TrendWindow(NamedTuple):
    word: str
    step: int  # microseconds


WINDOWS = tuple(
    TrendWindow(word, step) for word, step in (("2h", BUCKET), ("24h", HOUR), ("7d", 7 * HOUR), ("30d", 30 * HOUR))
)  # 24 steps each
DAY = WINDOWS[1]
LONGEST = WINDOWS[-1]


def fitting(arrivals: Mapping[int, int], size: int, now: datetime) -> TrendWindow:
    """`arrivals`: by times of `size` microseconds since the epoch. A day where nothing arrived for long."""
    whole = _held(arrivals, size, LONGEST, now)
    if not whole:
        return DAY
    usable = (window for window in WINDOWS if window.step >= size)
    return next((window for window in usable if _held(arrivals, size, window, now) >= MOST * whole), LONGEST)


def _held(arrivals: Mapping[int, int], size: int, window: TrendWindow, now: datetime) -> int:
    first = begins(window, now)
    return sum(count for at, count in arrivals.items() if at * size >= first)


def begins(window: TrendWindow, now: datetime) -> int:
    """When its first step begins, in microseconds since the epoch."""
    return (micros(now) // window.step - STEPS + 1) * window.step


def steps(arrivals: Mapping[int, int], size: int, window: TrendWindow, now: datetime) -> tuple[int, ...]:
    """The arrivals in the window's steps, oldest first."""
    first, found = begins(window, now), [0] * STEPS
    for at, count in arrivals.items():
        step = (at * size - first) // window.step
        if 0 <= step < STEPS:
            found[step] += count
    return tuple(found)
