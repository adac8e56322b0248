"""A bulk dismiss with its evidence beside one raw UPDATE, when nobody else writes, and where its time goes.

`python -m bench.bulk [--rows 200000] [--count 100000]`. On SQLite the parts overlap: rows change while evidence is
composed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiosqlite

from backends.sql.writer import StoreWriter, Transaction
from bench.data import sqlite_copy
from bench.figure import Figure, finish, show
from bench.stores import dismiss_all, fresh_postgres, raw_postgres, raw_sqlite
from tests.support.postgres import Postgres

BOUND = 1.5
TURNS = 2


class Parts:
    """Seconds and calls of each step of the writer, added up by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()

    def timing(self, name: Callable[..., str], work: Callable[..., Any]) -> Callable[..., Any]:
        async def timed(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return await work(*args, **named)
            finally:
                self.seconds[name(*args)] += time.perf_counter() - began
                self.calls[name(*args)] += 1

        return timed

    def tell(self, whole: float) -> None:
        for name, seconds in sorted(self.seconds.items(), key=lambda one: -one[1])[:8]:
            print(f"       {name:<40} {seconds:6.2f} s of {whole:.2f} s in {self.calls[name]} calls", flush=True)


def _statement(_: object, sql: object, *__: object) -> str:
    words = str(getattr(sql, "text", sql)).split()
    return " ".join(words[: 3 if words[:1] == ["INSERT"] else 1])


@contextmanager
def watched() -> Iterator[Parts]:
    """Takes the time of the writer's own steps, for as long as it lasts."""
    parts = Parts()
    wrapped: list[tuple[Any, str, Callable[..., str]]] = [
        (Transaction, "rows", _statement),
        (Transaction, "execute", _statement),
        (Transaction, "compose", lambda *_: "compose evidence (JSON, hash, marks)"),
        (aiosqlite.Connection, "commit", lambda *_: "COMMIT, synced"),
        (StoreWriter, "_take_lock", lambda *_: "begin, take the chain's lock"),
    ]
    before = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in wrapped]
    for owner, attribute, name in wrapped:
        setattr(owner, attribute, parts.timing(name, getattr(owner, attribute)))
    try:
        yield parts
    finally:
        for owner, attribute, work in before:
            setattr(owner, attribute, work)


def beside(name: str, ours: Callable[[], float], peer: Callable[[], float]) -> bool:
    """The smallest of some turns each, in turn; then once more with its parts."""
    turns = [(ours(), peer()) for _ in range(TURNS)]
    mine, raw = min(one for one, _ in turns), min(one for _, one in turns)
    good = show(Figure(name, mine, raw, BOUND, "s", "raw UPDATE")).good
    with watched() as parts:
        whole = ours()
    parts.tell(whole)
    return good


def sqlite(folder: Path, rows: int, count: int) -> bool:
    def fresh() -> Path:
        return sqlite_copy(rows, folder / "store.db")

    return beside(
        f"SQLite: dismiss {count:,} with evidence",
        lambda: asyncio.run(dismiss_all(str(fresh()), count)),
        lambda: raw_sqlite(fresh(), count),
    )


def postgres(rows: int, count: int) -> bool:
    server = Postgres(durable=True).start()

    def fresh() -> str:
        return asyncio.run(fresh_postgres(server, "bulk", rows))

    try:
        return beside(
            f"Postgres: dismiss {count:,} with evidence",
            lambda: asyncio.run(dismiss_all(fresh(), count)),
            lambda: asyncio.run(raw_postgres(fresh(), count)),
        )
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--count", type=int, default=100_000)
    args = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        results = [sqlite(Path(folder), args.rows, args.count)]
    finish([*results, postgres(args.rows, args.count)])


if __name__ == "__main__":
    main()
