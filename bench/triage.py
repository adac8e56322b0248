"""Figures for triage at scale: build, upkeep, groups, search; an engine writes all the while. Ratios of one run.

`python -m bench.triage [--rows 1000000] [--short] [--engine sqlite|postgres] [--keep DIR] [build upkeep groups search]`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from backends import open_store
from backends.index import Reader
from backends.records import Filter
from backends.store import Store
from bench import data
from bench.figure import Figure, finish, limit, options, show
from console import clock
from console.services.browse.search import Search
from console.services.index.keeper import cache_of
from console.services.stats.groups import Groups
from console.services.triage.triage import Query, Triage
from tests.support.postgres import Postgres
from tests.support.store import ACTOR

ROOT = Path(__file__).parent.parent
SECTIONS = ("build", "upkeep", "groups", "search")
ROWS, SHORT = 1_000_000, 40_000
RATE = 50  # rows a second, as an engine in trouble writes them
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Bench:
    engine: str
    target: str
    folder: Path
    count: int
    watched: float = 60  # seconds of upkeep
    told: dict[str, Any] = field(default_factory=dict)
    good: list[bool] = field(default_factory=list)

    def limit(self, key: str, value: float, of: str = "") -> None:
        of = ", ".join(filter(None, (self.engine, of)))
        self.told[f"{key}, {of}"] = value
        self.good.append(limit(key, value, of))

    def tell(self, name: str, value: object, *, unit: str = "") -> None:
        self.told[name] = value
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        print(f"     {self.engine} {name:<50} {shown} {unit}", flush=True)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_CACHE_HOME": str(self.folder), "DLQ_DB": self.target, "DLQ_CONFIG": ""}

    def index_process(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "console", "index", *words],
            cwd=ROOT,
            env={name: value for name, value in self.environment.items() if value},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)  # as the console does
        return process

    def writer(self) -> subprocess.Popen[str]:
        # Later than any row of an earlier writer, as an engine's would be.
        start = self.count + int(time.time() % 10**5 * RATE)
        words = [sys.executable, "-m", "bench.writer", self.target, str(RATE), "3600", str(start)]
        return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)

    async def reader(self, store: Store) -> Reader:
        return Reader(await cache_of(store, self.folder / "dlq-console"))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def build(bench: Bench) -> None:
    """The whole index in a process of its own, with an engine that writes and must never fail."""
    writer = bench.writer()
    store = await open_store(bench.target, read_only=True)
    reader = await bench.reader(store)
    began = time.perf_counter()
    builder = bench.index_process("--follow")
    first = groups = 0.0
    cpu = 0.0
    while True:
        await asyncio.sleep(0.05)
        progress = await reader.progress()
        cpu = cpu_seconds(builder.pid)
        if progress is None:
            continue
        first = first or time.perf_counter() - began
        groups = groups or (time.perf_counter() - began if progress.built else 0.0)
        if progress.complete:
            break
    bench.tell("build: first groups after", first, unit="s ")
    bench.tell("build: groups complete after", groups, unit="s ")
    bench.tell("build: search complete after", time.perf_counter() - began, unit="s ")
    bench.tell("build: CPU of the keeper", cpu, unit="s ")
    path = (await cache_of(store, bench.folder / "dlq-console")).path
    bench.tell("build: size of the index", path.stat().st_size / 1e6, unit="MB ")
    builder.terminate()
    builder.wait()
    _writer_told(bench, "build", writer)
    await reader.aclose()
    await store.aclose()


def _writer_told(bench: Bench, section: str, writer: subprocess.Popen[str]) -> None:
    out, _ = writer.communicate("stop\n")
    told = json.loads(out)
    bench.tell(f"{section}: engine's writes", told["writes"])
    bench.limit("triage.engine-failures", told["failures"], section)
    bench.tell(f"{section}: engine's write p99", told["p99_ms"], unit="ms ")
    bench.tell(f"{section}: engine's write max", told["max_ms"], unit="ms ")


async def upkeep(bench: Bench) -> None:
    """What following 50 rows a second costs, checks and patrol included."""
    store = await open_store(bench.target, read_only=True)
    reader = await bench.reader(store)
    keeper = bench.index_process("--follow")
    await asyncio.sleep(15)  # whatever it has to catch up with
    writer = bench.writer()
    await asyncio.sleep(5)
    cpu, began = cpu_seconds(keeper.pid), time.perf_counter()
    await asyncio.sleep(bench.watched)
    share = (cpu_seconds(keeper.pid) - cpu) / (time.perf_counter() - began)
    lags = []
    for _ in range(20):
        newest = await store.page(Filter(), limit=1, newest_first=True)
        seen = time.perf_counter()
        while newest.entries[0].id not in await reader.known([newest.entries[0].id]):
            await asyncio.sleep(0.02)
        lags.append(time.perf_counter() - seen)
    bench.limit("triage.upkeep", share * 100)
    bench.tell("upkeep: a new row is in the index after (median)", statistics.median(lags), unit="s ")
    _writer_told(bench, "upkeep", writer)
    keeper.terminate()
    keeper.wait()
    await reader.aclose()
    await store.aclose()


async def groups(bench: Bench) -> None:
    store = await open_store(bench.target, read_only=True)
    triage = Triage(store, ACTOR, clock.now)
    first, later = [], []
    for _ in range(7):
        reader = await bench.reader(store)
        view = Groups(triage, reader, clock.now)
        first.append(await _took(view.view))
        later.append(await _took(view.view))
        seen = await view.view()
        assert seen.source == "index"
        await reader.aclose()
    bench.limit("triage.groups", statistics.median(first) * 1000)
    bench.tell("groups: first view, worst of 7", max(first) * 1000, unit="ms ")
    bench.tell("groups: again, median", statistics.median(later) * 1000, unit="ms ")
    bench.tell("groups: how many", len(seen.groups))
    on_the_fly = await _took(lambda: Groups(triage, None, clock.now).counted(Query(Filter())))
    share = Figure("triage.groups-share", statistics.median(first), on_the_fly, "s", bench.engine, bench.count)
    bench.good.append(show(share).good)
    bench.told["groups: counted from the entries"] = on_the_fly
    newest = await Groups(triage, None, clock.now).view()
    bench.tell("groups: without an index, covered in 100 ms", newest.covered)
    await store.aclose()


async def _took(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def _terms() -> dict[str, list[str]]:
    """Each class as it is typed, letter by letter, and whole."""
    return {
        "rare": [data.RARE[:n] for n in range(5, len(data.RARE) + 1)],
        "common": [data.COMMON[:n] for n in range(3, len(data.COMMON) + 1)],
        "everywhere": [data.EVERYWHERE[:n] for n in range(3, len(data.EVERYWHERE) + 1)],
        "absent": ["quok", "quokk", "quokka", "zzzzzz", "order id taken"],
        "two characters": [data.TWO_COMMON, "12", "zb", "q7", ": ", data.TWO_ABSENT, "éé"],
        "one character": ["e", "7", "@", "~"],
    }


async def search(bench: Bench) -> None:
    store = await open_store(bench.target, read_only=True)
    reader = await bench.reader(store)
    indexed, scanning = Search(store, reader), Search(store, None)
    await indexed.find(Filter(terms=("warm",)))
    for name, terms in _terms().items():
        timed = [(await indexed.find(Filter(terms=(term,)))) for _ in range(5) for term in terms]
        times = sorted(one.seconds * 1000 for one in timed)
        complete = sum(one.complete for one in timed) / len(timed)
        bench.limit("triage.search", times[int(0.95 * (len(times) - 1))], name)
        bench.tell(f"search {name}: p50 / p95 / max", _ms(times))
        bench.tell(f"search {name}: answered whole", complete * 100, unit="% ")
        scanned = [(await scanning.find(Filter(terms=(term,)))) for term in terms]
        bench.tell(f"search {name}: without an index p95", _ms(sorted(one.seconds * 1000 for one in scanned)))
        if name != "one character":
            like = [await _took(partial(_like, store, term)) for term in (terms[-1], terms[0])]
            bench.tell(f"search {name}: LIKE ({terms[-1]!r}, {terms[0]!r})", [round(one * 1000, 1) for one in like])
    await reader.aclose()
    await store.aclose()


async def _like(store: Store, term: str) -> None:
    await store.page(Filter(terms=(term,)), limit=50, newest_first=True)


def _ms(times: Sequence[float]) -> str:
    at = [times[int(share * (len(times) - 1))] for share in (0.5, 0.95, 1.0)]
    return " / ".join(f"{one:.1f}" for one in at) + " ms"


async def _run(bench: Bench, sections: Sequence[str]) -> None:
    print(f"{bench.engine}, {bench.count} entries", flush=True)
    known = {"build": build, "upkeep": upkeep, "groups": groups, "search": search}
    for name in sections:
        await known[name](bench)
    (data.CACHE / f"triage-{bench.engine}-{bench.count}.json").write_text(json.dumps(bench.told, indent=1))


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", default=SECTIONS)
    parser.add_argument("--engine", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there, and leave it for the next run")
    args = options(parser, ROWS, SHORT)
    data.CACHE.mkdir(exist_ok=True)
    folder = args.keep or Path(tempfile.mkdtemp(prefix="triage-", dir=data.CACHE))
    folder.mkdir(exist_ok=True)
    try:
        finish("triage", [good for engine in _engines(args.engine) for good in _measure(engine, folder, args)])
    finally:
        if args.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _engines(asked: str) -> tuple[str, ...]:
    return ("sqlite", "postgres") if asked == "both" else (asked,)


def _measure(engine: str, folder: Path, args: argparse.Namespace) -> list[bool]:
    if engine == "sqlite":
        target = folder / "orders.db"
        if not target.exists():
            data.sqlite_copy(args.rows, target)
        bench = Bench("sqlite", str(target), folder / "sqlite", args.rows, 15 if args.short else 60)
        asyncio.run(_run(bench, args.sections))
        return bench.good
    server = Postgres().start()
    try:
        dsn = asyncio.run(data.postgres_database(server.dsn("{db}"), args.rows))
        bench = Bench("postgres", dsn, folder / "postgres", args.rows, 15 if args.short else 60)
        asyncio.run(_run(bench, args.sections))
        return bench.good
    finally:
        server.stop()


if __name__ == "__main__":
    _main()
