"""The local index beside version 0.1 on the same file: its build, its groups, its memory, and a night to catch up with.

`python -m bench.index [--rows 1000000] [--short]`. The peer are the files of version 0.1 with
the same interpreter; without that commit in the clone its figures are skipped by name. The clock is what a person waits
for; processor time stands beside it, as a busy machine distorts it less.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from backends import open_store
from backends.records import Actor, Filter, Selection
from bench import data
from bench.figure import Figure, finish, limit, options, show
from bench.terminal import ROOT
from bench.verbs import peer_files
from console import clock
from console.services.triage.triage import Triage

PEER = "195838f"  # version 0.1
ROWS, SHORT = 1_000_000, 40_000
NIGHT, ACTS = 50_000, 10_000
ACTOR = Actor("bench", "bench", "here", "bench")


@dataclass(frozen=True)
class Build:
    seconds: float
    cpu: float
    first: float  # seconds until some groups could be shown
    groups: float  # seconds until all groups were complete
    peak: float  # MB


def build(tree: Path, store: Path, cache: Path) -> Build:
    """`dlq index` of this tree, watched from outside."""
    used = _children()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "console", "index", "--db", str(store)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree}:{tree / 'sink'}", "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    first = groups = peak = 0.0
    while process.poll() is None:
        time.sleep(0.05)
        peak = max(peak, _peak(process.pid))
        filed, built = _progress(cache)
        if filed and not first:
            first = time.perf_counter() - began
        if built and not groups:
            groups = time.perf_counter() - began
    took, cpu = time.perf_counter() - began, _children() - used
    assert process.returncode == 0, process.returncode
    return Build(took, cpu, first or took, groups or took, peak)


def _progress(cache: Path) -> tuple[bool, bool]:
    """(whether some entries are filed, whether all are), in either version's file."""
    for path in cache.rglob("*.db"):
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0.05)) as connection:
                keys = {row[0] for row in connection.execute("SELECT key FROM meta")}
        except sqlite3.Error:
            continue
        return "high" in keys, "built" in keys
    return False, False


def _peak(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def beside(tree: Path, store: Path, folder: Path, rows: int) -> list[bool]:
    """Old and new in turn."""
    peer, ours = build(tree, store, folder / "peer"), build(ROOT, store, folder / "ours")
    good = [
        show(Figure("index.build", ours.seconds, peer.seconds, "s", f"{rows:,} rows")).good,
        show(Figure("index.build-cpu", ours.cpu, peer.cpu, "s", f"{rows:,} rows")).good,
        show(Figure("index.groups", ours.groups, peer.seconds, "s", f"{rows:,} rows")).good,
    ]
    print(f"     groups {ours.groups:.1f} s ÷ 0.1's groups {peer.groups:.1f} s = {ours.groups / peer.groups:.2f}")
    good.append(show(Figure("index.first", ours.first, peer.seconds, "s", f"{rows:,} rows")).good)
    print(f"     first groups after {ours.first:.1f} s; 0.1's process took {peer.peak:.0f} MB")
    good.append(limit("index.memory", ours.peak, "the build"))
    return good


async def away(store: Path, rows: int) -> None:
    """What a night leaves: new rows by the engine, and acts by other consoles."""
    with closing(sqlite3.connect(store)) as connection:
        connection.executemany(data.INSERT, map(data.for_sqlite, data.rows(NIGHT, start=rows)))
        connection.commit()
    attached = await open_store(str(store))
    triage = Triage(attached, ACTOR, clock.now)
    page = await attached.page(Filter(), limit=ACTS)
    done = await triage.dismiss(Selection.of(list(page.entries)), reason="test")
    assert len(done.done) == ACTS
    await attached.aclose()


def night(store: Path, folder: Path, rows: int) -> list[bool]:
    asyncio.run(away(store, rows))
    caught = build(ROOT, store, folder / "ours")
    return [
        limit("index.night", caught.cpu),
        limit("index.night-clock", caught.seconds),  # the start of the process included
        limit("index.memory", caught.peak, "catching up"),
    ]


def main() -> None:
    rows = options(argparse.ArgumentParser(description=__doc__), ROWS, SHORT).rows
    results: list[bool] = []
    data.CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data.CACHE) as name:
        folder = Path(name)
        store = data.sqlite_copy(rows, folder / "store.db")
        if tree := peer_files(PEER, folder / "peer"):
            results += beside(tree, store, folder, rows)
        else:
            print(f"skipped, as this clone has no commit {PEER}: the build beside version 0.1")
            build(ROOT, store, folder / "ours")
        results += night(store, folder, rows)
    finish("index", results)


if __name__ == "__main__":
    main()
