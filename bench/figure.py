"""A figure beside its peer, measured in the same run and held to its bound of `bench/bound.py`: printed, and recorded
for the table of `python -m bench`. The options that every bench has.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.bound import BOUNDS, SMALLEST, Bound

RECORD = "DLQ_BENCH_RECORD"  # names the file of one run


@dataclass(frozen=True)
class Figure:
    key: str
    ours: float
    peer: float = 1.0
    unit: str = ""
    of: str = ""  # which of several figures with the same bound
    rows: int = 0  # of the store, where the bound says something of large ones only

    @property
    def bound(self) -> Bound:
        return BOUNDS[self.key]

    @property
    def title(self) -> str:
        return f"{self.bound.figure}, {self.of}" if self.of else self.bound.figure

    @property
    def ratio(self) -> float:
        return self.ours / self.peer if self.peer else float("inf")

    @property
    def judged(self) -> bool:
        return self.rows >= SMALLEST.get(self.key, 0)

    @property
    def good(self) -> bool:
        return not self.judged or self.ratio <= self.bound.most

    @property
    def verdict(self) -> str:
        return ("met" if self.good else "MISSED") if self.judged else "too small"

    @property
    def measured(self) -> str:
        return f"{self.ratio:.3g} ×" if self.bound.peer else f"{self.ours:.3g} {self.bound.unit}".strip()


def show(figure: Figure) -> Figure:
    beside = f" = {figure.ours:.3f} ÷ {figure.peer:.3f} {figure.unit}".rstrip() if figure.bound.peer else ""
    print(
        f"{figure.verdict:<9} {figure.title:<74} {figure.measured:>10}  (≤ {figure.bound.spelled}){beside}", flush=True
    )
    _record({"figure": asdict(figure)})
    return figure


def limit(key: str, value: float, of: str = "") -> bool:
    return show(Figure(key, value, of=of)).good


def finish(bench: str, results: list[bool]) -> None:
    _record({"ended": bench})
    print(f"\n{sum(results)} of {len(results)} within their bounds")
    sys.exit(0 if all(results) else 1)


def options(parser: argparse.ArgumentParser, rows: int, short: int) -> argparse.Namespace:
    """Adds --rows and --short, parses, and says what runs: `rows` unless a short run or a number is asked for."""
    parser.add_argument("--rows", type=int, help=f"of the store; {rows:,} unless given")
    parser.add_argument("--short", action="store_true", help=f"fewer turns, and {short:,} rows unless given")
    args = parser.parse_args()
    args.rows = args.rows or (short if args.short else rows)
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} load {os.getloadavg()[0]:.1f}, {args.rows:,} rows", flush=True)
    return args


def _record(line: dict[str, object]) -> None:
    if path := os.environ.get(RECORD):
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")


def recorded(lines: Iterable[str]) -> tuple[list[Figure], set[str]]:
    """The figures of a run, and the benches that came to their end."""
    told = [json.loads(line) for line in lines]
    figures = [Figure(**one["figure"]) for one in told if "figure" in one]
    return figures, {one["ended"] for one in told if "ended" in one}


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
