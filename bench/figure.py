"""A figure beside its peer, measured in the same run: printed as a ratio with its bound."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    name: str
    ours: float
    peer: float
    bound: float
    unit: str = "ms"
    peer_name: str = "peer"

    @property
    def ratio(self) -> float:
        return self.ours / self.peer if self.peer else float("inf")

    @property
    def good(self) -> bool:
        return self.ratio <= self.bound


def show(figure: Figure) -> Figure:
    verdict = "ok  " if figure.good else "OVER"
    print(
        f"{verdict} {figure.name:<58} {figure.ours:10.3f} {figure.unit:<3} ÷ {figure.peer_name} {figure.peer:10.3f} "
        f"= {figure.ratio:6.2f} (≤ {figure.bound:g})",
        flush=True,
    )
    return figure


def limit(name: str, value: float, bound: float, unit: str = "ms") -> bool:
    good = value <= bound
    print(f"{'ok  ' if good else 'OVER'} {name:<58} {value:10.3f} {unit:<3} (≤ {bound:g} {unit})", flush=True)
    return good


async def alternately(
    ours: Callable[[], Awaitable[object]], peer: Callable[[], Awaitable[object]], rounds: int = 200
) -> tuple[float, float]:
    """Median milliseconds of each, taken turn by turn so that noise hits both."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 20):
        for which, work in enumerate((ours, peer) if turn % 2 else (peer, ours)):
            began = time.perf_counter()
            await work()
            took = (time.perf_counter() - began) * 1000
            if turn >= 20:
                times[which if turn % 2 else 1 - which].append(took)
    return statistics.median(times[0]), statistics.median(times[1])


def finish(results: list[bool]) -> None:
    print(f"\n{sum(results)} of {len(results)} within their bounds")
    sys.exit(0 if all(results) else 1)
