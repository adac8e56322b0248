"""What the engines' package costs, and whether a console at its worst disturbs an engine: `python -m bench.sink`.

The import, the witness of one order against one synced commit of the bare driver, and an engine's writes alone and
beside a console that dismisses in bulk, builds its index and verifies the audit chain. What is compared is taken in
turns at the same pace, commit by commit or in rounds, and read from all rounds together: a round has some hundred
writes, and the p99 of so few is one of its two longest, whatever the rest did. Of the slowest writes it is printed how
much of their time the engine and the server only waited for a processor: that is the machine's to give, not a lock's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
from dlq_sink import DeadLetteredOrder, PostgresDLQ, SQLiteDLQ, intent, new_dlq_id
from dlq_sink.order_table import COLUMNS
from dlq_sink.rows import values

from bench.figure import Figure, finish, limit, options, show
from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[1]
ROWS, SHORT = 40_000, 20_000
SHIFT = 2000
SECONDS = 4.0  # alone, in each round
PACE = 0.02  # seconds between two writes of the engine
ORDER = {"symbol": "AAPL", "side": "buy", "qty": 10, "type": "limit", "limit_price": 180.5, "client_order_id": "c-1"}
Sink = SQLiteDLQ | PostgresDLQ


@dataclass(frozen=True)
class Size:
    rows: int
    rounds: int  # and until there are enough writes, alone and beside
    enough: int


WHOLE = Size(ROWS, 9, 1000)  # of a thousand writes ten are slower than the p99
BRIEF = Size(SHORT, 4, 300)


def entry(number: int = 0, shift: str = "now") -> DeadLetteredOrder:
    error = f"RuntimeError: HTTP {random.choice((403, 422, 429, 503))} after {number % 7} attempts in shift {shift}"
    return DeadLetteredOrder(
        new_dlq_id(), datetime.now(UTC), "alpaca", "main", "AAPL", "buy", 10.0, "limit", 180.5, f"c-{number}", error,
        action_json='{"symbol": "AAPL", "side": "buy", "qty": 10, "type": "limit", "limit_price": 180.5}',
    )  # fmt: skip


def earlier(number: int) -> DeadLetteredOrder:
    """One that is there before the engine starts; the console dismisses a shift at a time."""
    return entry(number, f"s{number // SHIFT:03}")


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def turns(ours: Callable[[], object], peer: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Medians in milliseconds, turn by turn so that noise hits both."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 else (1, 0):
            times[which].append(timed((ours, peer)[which]))
    return statistics.median(times[0]), statistics.median(times[1])


def importing() -> bool:
    def run(name: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", f"import {name}"], check=True, cwd=ROOT)

    ours, peer = turns(run("dlq_sink"), run("sqlite3"), 31)
    return show(Figure("sink.import", ours, peer, "ms")).good


def witnessed(sink: Sink) -> None:
    with intent(sink, dict(ORDER), venue="alpaca") as i:
        i.ok("ord_1")


@contextmanager
def bare_sqlite(path: Path) -> Iterator[Callable[[], object]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as link:
        link.execute("PRAGMA journal_mode = WAL")
        link.execute("PRAGMA synchronous = FULL")
        link.execute(f"CREATE TABLE IF NOT EXISTS bare ({', '.join(COLUMNS)})")
        places = ", ".join("?" for _ in COLUMNS)

        def write() -> None:
            link.execute("BEGIN IMMEDIATE")
            link.execute(f"INSERT INTO bare VALUES ({places})", values(entry()))
            link.execute("COMMIT")

        yield write


@contextmanager
def bare_postgres(dsn: str) -> Iterator[Callable[[], object]]:
    loop = asyncio.new_event_loop()
    link = loop.run_until_complete(asyncpg.connect(dsn))
    loop.run_until_complete(
        link.execute(f"CREATE TABLE IF NOT EXISTS bare ({', '.join(f'{n} text' for n in COLUMNS)})")
    )
    sql = f"INSERT INTO bare VALUES ({', '.join(f'${n}' for n in range(1, len(COLUMNS) + 1))})"

    def write() -> None:
        given = [None if value is None else str(value) for value in values(entry())]
        loop.run_until_complete(link.execute(sql, *given))

    yield write
    loop.run_until_complete(link.close())
    loop.close()


def share(times: list[float], part: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


def together(rounds: list[list[float]]) -> list[float]:
    return [one for times in rounds for one in times]


def threads_of(target: str) -> list[Path]:
    """Where Linux counts how long each thread of this process, and of the server's, waited for a processor."""
    processes = [os.getpid(), *(asyncio.run(sessions_of(target)) if "://" in target else ())]
    return [path for one in processes for path in Path(f"/proc/{one}/task").glob("*/schedstat")]


async def sessions_of(dsn: str) -> list[int]:
    link = await asyncpg.connect(dsn)
    rows = await link.fetch("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
    await link.close()
    return [row[0] for row in rows]


def waited(threads: list[Path]) -> float:
    """In milliseconds, until now."""
    total = 0
    for path in threads:
        with suppress(OSError):
            total += int(path.read_text().split()[1])
    return total / 1e6


def waiting_share(writes: list[tuple[float, float]]) -> str:
    """Of the slowest hundredth."""
    slow = sorted(writes)[-max(1, len(writes) // 100) :]
    spent, waiting = (sum(one[which] for one in slow) for which in (0, 1))
    return f"{min(1.0, waiting / spent):.0%}"  # engine and server may wait at the same time


class Engine:
    """Writes an entry and witnesses an order in turn, some fifty times a second."""

    def __init__(self, sink: Sink, bare: Callable[[], object], threads: list[Path]) -> None:
        self._sink = sink
        self._bare = bare
        self._threads = threads
        self.failures: list[str] = []
        self.waits: list[tuple[float, float]] = []  # of each write beside a console: its time, and the waiting in it
        self.alone: list[list[float]] = []  # by round
        self.beside: list[list[float]] = []
        self.commits: list[float] = []

    def run_alone(self) -> None:
        until = time.monotonic() + SECONDS
        self.alone.append(self._writing(lambda: time.monotonic() > until, self.commits, []))

    def run_until(self, over: threading.Event) -> None:
        self.beside.append(self._writing(over.is_set, [], self.waits))

    @property
    def fewest(self) -> int:
        return min(len(together(self.alone)), len(together(self.beside)))

    def _writing(
        self, is_over: Callable[[], bool], commits: list[float], waits: list[tuple[float, float]]
    ) -> list[float]:
        """Takes bare commits in between, alone and beside, so that all are measured at the same pace."""
        times: list[float] = []
        while not is_over():
            for work in (lambda: self._sink.write(entry(len(times))), lambda: witnessed(self._sink)):
                time.sleep(PACE)
                before = waited(self._threads)
                try:
                    times.append(timed(work))
                except Exception as problem:  # noqa: BLE001 - every failure counts, whatever it is
                    self.failures.append(f"{type(problem).__name__}: {problem}")
                else:
                    waits.append((times[-1], waited(self._threads) - before))
            time.sleep(PACE)
            commits.append(timed(self._bare))
        return times

    def noise(self, part: float) -> float:
        """The same figure of every other round alone against the rest: what the machine itself does to it."""
        halves = sorted(share(together(self.alone[start::2]), part) for start in (0, 1))
        return halves[1] / halves[0]


# Runs each line of words as a command, and tells how it ended.
_SHELL = """
import json, subprocess, sys
for line in sys.stdin:
    ran = subprocess.run(json.loads(line), capture_output=True, text=True, check=False)
    print(json.dumps([ran.returncode, (ran.stderr or ran.stdout).strip()[:200]]), flush=True)
"""


class WorstConsole:
    """The console's heaviest verbs, one after the other, in a session of their own: the engine starts none of them.

    A process that is started stops the one that starts it for as long as it takes to be loaded.
    """

    def __init__(self, target: str, folder: Path) -> None:
        self._at = ("--db", target, "--table", "order_dlq")
        environ = os.environ | {name: str(folder / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        words = [sys.executable, "-c", _SHELL]
        self._shell = subprocess.Popen(words, cwd=ROOT, env=environ, start_new_session=True, **pipes)
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []

    def close(self) -> None:
        self._shell.communicate()

    def work(self, shift: int, over: threading.Event) -> None:
        some = ("--filter", f"error:s{shift:03}", "--expect", str(SHIFT), "--reason", "duplicate", "--yes")
        try:
            for words in (("dismiss", *some), ("index",), ("audit", "verify"), ("groups", "--json")):
                self._dlq(*words)
        finally:
            over.set()

    def _dlq(self, *words: str) -> None:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        print(json.dumps([sys.executable, "-m", "console", *words, *self._at]), file=self._shell.stdin, flush=True)
        code, told = json.loads(self._shell.stdout.readline())
        if code == 0:
            self.done[words[0]] += 1
        else:
            self.problems.append(f"{words[0]}: exit {code}: {told}")


def side_by_side(engine: Engine, console: WorstConsole, size: Size) -> None:
    for turn in range(size.rows // SHIFT):
        if turn >= size.rounds and engine.fewest >= size.enough:
            return
        engine.run_alone()
        over = threading.Event()
        acting = threading.Thread(target=console.work, args=(turn, over))
        acting.start()
        engine.run_until(over)
        acting.join()


def disturbed(kind: str, sink: Sink, target: str, bare: Callable[[], object], size: Size) -> list[bool]:
    engine = Engine(sink, bare, threads_of(target))
    with tempfile.TemporaryDirectory() as folder, closing(WorstConsole(target, Path(folder))) as console:
        side_by_side(engine, console, size)
    alone, beside = together(engine.alone), together(engine.beside)
    counted = f"{len(alone)} writes alone, {len(beside)} beside a console, load average {os.getloadavg()[0]:.1f}"
    print(f"     {kind}: {counted}; longest alone {max(alone):.1f} ms; {engine.failures[:1]}", flush=True)
    print(f"     the console did {dict(console.done)} {console.problems[:2]}", flush=True)
    dismissed = sum(one.dismissed for one in sink.list(include_dismissed=True))
    results = [
        limit("sink.failures", len(engine.failures), kind),
        limit("sink.console-failures", len(console.problems), f"{kind}, verbs that failed"),
        limit(
            "sink.console-failures",
            console.done["dismiss"] * SHIFT - dismissed,
            f"{kind}, entries it said it dismissed",
        ),
        limit(
            "sink.console-failures", 3 - len({"dismiss", "index", "audit"} & set(console.done)), f"{kind}, not reached"
        ),
    ]
    part, name = (0.9, "p90") if kind == "sqlite" else (0.99, "p99")
    print(f"     {kind}: {name} alone, one half of the rounds ÷ the other: {engine.noise(part):.2f}", flush=True)
    print(
        f"     {kind}: of the slowest writes beside a console {waiting_share(engine.waits)} was waiting for a processor"
    )
    ours, peer = share(beside, part), share(alone, part)
    results.append(show(Figure(f"sink.{name}", ours, peer, "ms")).good)
    if kind == "sqlite":
        commit = statistics.median(engine.commits)
        results.append(show(Figure("sink.longest", max(beside), commit, "ms")).good)
    return results


def measured(kind: str, sink: Sink, target: str, bare: Callable[[], object], size: Size) -> list[bool]:
    ours, commit = turns(lambda: witnessed(sink), bare, 600)
    results = [show(Figure("sink.witness", ours, commit, "ms", kind)).good]
    return results + disturbed(kind, sink, target, bare, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="import|sqlite|postgres")
    args = options(parser, ROWS, SHORT)
    size = replace(BRIEF if args.short else WHOLE, rows=args.rows)
    wanted = args.parts or ["import", "sqlite", "postgres"]
    results = [importing()] if "import" in wanted else []
    if "sqlite" in wanted:
        results += on_sqlite(size)
    if "postgres" in wanted:
        results += on_postgres(size)
    finish("sink", results)


def on_sqlite(size: Size) -> list[bool]:
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        path = Path(folder) / "orders.db"
        with SQLiteDLQ(path) as sink, bare_sqlite(Path(folder) / "bare.db") as bare:
            for number in range(0, size.rows, 500):
                with sink._transaction() as link:
                    for one in range(number, number + 500):
                        sink._insert_row(link, values(earlier(one)))
            return measured("sqlite", sink, str(path), bare, size)


def on_postgres(size: Size) -> list[bool]:
    server = Postgres(durable=True).start()
    try:
        dsn = server.dsn("postgres")
        with PostgresDLQ(dsn) as store, bare_postgres(dsn) as bare:
            asyncio.run(filled(dsn, size.rows))
            return measured("postgres", store, dsn, bare, size)
    finally:
        server.stop()


async def filled(dsn: str, count: int) -> None:
    link = await asyncpg.connect(dsn)
    rows: list[tuple[Any, ...]] = []
    for number in range(count):
        one = earlier(number)
        rows.append(tuple(getattr(one, name) for name in COLUMNS))
    await link.copy_records_to_table("order_dlq", records=rows, columns=list(COLUMNS))
    await link.close()


if __name__ == "__main__":
    main()
