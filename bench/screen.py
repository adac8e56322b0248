"""The console in a real terminal beside an empty Textual app and VisiData: start, keys, memory, idling. One run.

`python -m bench.screen [--rows 1000000] [--short] [start keys busy indexing memory idle]`; a million take longer.
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from backends.layouts import orders
from bench import data, shapes
from bench.figure import Figure, finish, limit, options, show
from bench.terminal import ROOT, Timed
from tests.support.command import Console
from tests.support.exchange import in_process
from tests.support.orders import row
from tests.support.postgres import Postgres

DOWN, PAGE_DOWN = b"\x1b[B", b"\x1b[6~"
ID = re.compile(rb"dlq_[0-9a-z]{16}")
FIRST_ROW = shapes.ORDER
ATTACHED = rb"pending [0-9,]+"  # the rows come first, from the file itself; what is counted, from the attached store
ROWS, SHORT = 100_000, 40_000
SMALL = shapes.ROWS
LOADED = 100_000  # VisiData reads all before its keys are quick
ENTRIES = 50  # the cap of a batch
_EMPTY = (
    "from textual.app import App\n"
    "from textual.widgets import Static\n"
    "class Empty(App):\n"
    "    def compose(self):\n"
    "        yield Static('READY-HERE')\n"
    "Empty().run()\n"
)


class Bench:
    def __init__(self, folder: Path, rows: int, server: Postgres, *, short: bool) -> None:
        self.rounds, self.keys, self.busy_keys, self.idle_seconds = (5, 20, 50, 15) if short else (9, 60, 150, 30)
        self.folder = folder
        self.shapes = shapes.sqlite_shapes(folder) | shapes.postgres_shapes(server)
        self.rows = rows
        self.large = data.sqlite_copy(rows, folder / "large.db")
        self.small = data.sqlite_copy(SMALL, folder / "small.db")
        self.loaded = data.sqlite_copy(min(rows, LOADED), folder / "loaded.db")
        homes = {name: str(folder / name) for name in ("home", "cache", "config", "state")}
        for home in homes.values():
            Path(home).mkdir()
        self.environ = {
            "HOME": homes["home"], "XDG_CACHE_HOME": homes["cache"], "XDG_CONFIG_HOME": homes["config"],
            "XDG_STATE_HOME": homes["state"], "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    def console(self, path: Path | str) -> Timed:
        return Timed([sys.executable, "-m", "console", "--db", str(path)], self.environ)

    def empty(self) -> Timed:
        return Timed([sys.executable, "-c", _EMPTY], self.environ)

    def visidata(self, path: Path) -> Timed:
        return Timed([str(Path(sys.executable).parent / "vd"), str(path), f"+:{orders.DEFAULT_TABLE}::"], self.environ)


def start(bench: Bench) -> list[bool]:
    """From exec to the first row, in turns."""
    programs: dict[str, tuple[Callable[[], Timed], bytes]] = {
        "large": (lambda: bench.console(bench.large), FIRST_ROW),
        "small": (lambda: bench.console(bench.small), FIRST_ROW),
        "empty": (bench.empty, b"READY-HERE"),
        "visidata": (lambda: bench.visidata(bench.large), rb"dlq_[0-9a-z]{8}"),
    }
    for name, shape in bench.shapes.items():
        programs[name] = (partial(bench.console, shape.target), shape.first_row)
    took: dict[str, list[float]] = {name: [] for name in (*programs, "keys")}
    for _ in range(bench.rounds):
        for name, (program, wanted) in programs.items():
            with program() as timed:
                took[name].append(timed.until(wanted) * 1000)
        with bench.console(bench.large) as timed:
            timed.press(b"?")
            took["keys"].append(timed.until(b"command palette|type a command") * 1000)
    median = {name: statistics.median(times) for name, times in took.items()}
    size = f"{bench.rows:,} rows"
    print(f"     exec → a key typed at once has been answered{'':>16} {median['keys']:10.3f} ms", flush=True)
    of_shapes = [Figure("screen.first-row-shapes", median[one], median["empty"], "ms", one) for one in bench.shapes]
    return [
        show(Figure("screen.first-row", median["large"], median["empty"], "ms", size)).good,
        *[show(figure).good for figure in of_shapes],
        show(Figure("screen.first-row-peer", median["large"], median["visidata"], "ms", size)).good,
        show(Figure("screen.first-row-growth", median["large"], median["small"], "ms", size)).good,
    ]


def keys(bench: Bench) -> list[bool]:
    """From a key to the last byte it caused; VisiData goes on with its status line for some 400 ms after each."""
    with bench.console(bench.large) as ours, bench.visidata(bench.loaded) as peer:
        ours.until(ATTACHED)
        peer.until(rb"dlq_[0-9a-z]{8}")
        ours.settle(1.0)
        peer.settle(3.0)
        good = []
        for name, key in (("Down", DOWN), ("PgDn", PAGE_DOWN)):
            taken = [(ours.paint(key), peer.paint(key)) for _ in range(bench.keys)]
            frames, lasts = ([statistics.median(one[who][at] for one in taken) for who in (0, 1)] for at in (0, 1))
            print(f"     {name} → its first frame, p50: {frames[0]:.1f} ms, VisiData {frames[1]:.1f}", flush=True)
            good.append(show(Figure("screen.keys", lasts[0], lasts[1], "ms", name)).good)
    return good


def worst(times: Sequence[float]) -> float:
    """The 99th percentile."""
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.99))]


def press_on(timed: Timed, key_of_bound: str, presses: int) -> list[bool]:
    """Keys while something else goes on: until the entry under the cursor is another on the screen."""
    good, seen = [], b""
    for name, key in (("Down", DOWN), ("PgDn", PAGE_DOWN)):
        times = []
        for _ in range(presses):
            took, seen = timed.shown(key, ID, seen)
            times.append(took)
            timed.settle(0.02, 0.1)
        slowest = " ".join(f"{took:.0f}" for took in sorted(times)[-5:])
        print(f"     {name} → paint: p50 {statistics.median(times):.1f} ms, slowest {slowest}", flush=True)
        good.append(limit(key_of_bound, worst(times), f"{name}, {presses} times"))
    return good


@contextmanager
def writing(path: Path, start: int) -> Iterator[subprocess.Popen[str]]:
    """An engine that writes 50 entries a second."""
    words = [sys.executable, "-m", "bench.writer", str(path), "50", "3600", str(start)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        yield writer
        writer.communicate("stop\n")


def add_fresh(path: Path) -> None:
    """Entries that a batch may send."""
    fresh = (datetime.now(UTC) - timedelta(seconds=30)).isoformat()
    marks = ", ".join("?" * len(orders.COLUMNS))
    into = f"INSERT INTO {orders.DEFAULT_TABLE} ({', '.join(orders.COLUMNS)}) VALUES ({marks})"
    with closing(sqlite3.connect(path)) as connection, connection:
        for number in range(ENTRIES):
            made = row(number, captured_at=fresh, quantity=float(number + 1), price=10.0, account_id="batch")
            connection.execute(into, [made[name] for name in orders.COLUMNS])


def busy(bench: Bench) -> list[bool]:
    """A batch at one order a second on the same console, an engine writing into the same store."""
    path = data.sqlite_copy(bench.rows, bench.folder / "busy.db")
    add_fresh(path)
    with in_process(bench.folder / "ledger.jsonl") as exchange:
        pool = Console(
            bench.folder,
            str(path),
            exchange.url,
            settings={"rate_per_minute": 120, "default_account": "batch"},
            limits={"stale_after": "1h"},
        )
        words = [sys.executable, "-m", "console", *pool.words()]
        with writing(path, bench.rows + 10_000), Timed(words, bench.environ | pool.environ) as timed:
            timed.until(ATTACHED)
            timed.settle(0.3, 3)
            for typed, answer in (
                (b"/account:batch\r", b"account:batch"),
                (b"a", b"50 entries marked"),
                (b"R", b"to send"),
            ):
                timed.press(typed)
                timed.until(answer)
            timed.settle(0.5, 2)
            timed.press(b"50\r")
            timed.until(b"accepted")
            timed.press(b"\x1b")
            timed.settle(0.2, 1)
            timed.press(b"\x1b\x1b")
            timed.settle(0.2, 1)
            good = press_on(timed, "screen.busy", bench.busy_keys)
        sent = len(exchange.posts)
    print(f"     orders sent meanwhile{'':>38} {sent:10}", flush=True)
    return [*good, limit("screen.busy-idle", int(sent <= 1))]


def indexing(bench: Bench) -> list[bool]:
    """The index of everything is built in the background meanwhile."""
    path = data.sqlite_copy(bench.rows, bench.folder / "indexed.db")
    environ = bench.environ | {"XDG_CACHE_HOME": str(bench.folder / "fresh"), "PATH": os.environ["PATH"]}
    words = [sys.executable, "-m", "console", "index", "--db", str(path)]
    with bench.console(path) as timed:
        timed.until(ATTACHED)
        timed.settle(0.5, 3)
        build = subprocess.Popen(words, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            good = press_on(timed, "screen.indexing", bench.busy_keys)
            during = build.poll() is None
        finally:
            build.terminate()
            build.wait()
    print(
        f"     the build {'went on all the while' if during else 'ENDED EARLIER: a larger store, please'}", flush=True
    )
    return good


def memory(bench: Bench) -> list[bool]:
    resident = {}
    programs: dict[str, tuple[Callable[[], Timed], bytes]] = {
        "large": (lambda: bench.console(bench.large), FIRST_ROW),
        "small": (lambda: bench.console(bench.small), FIRST_ROW),
        "empty": (bench.empty, b"READY-HERE"),
    }
    for name, (program, wanted) in programs.items():
        with program() as timed:
            timed.until(wanted)
            timed.settle(1.5, 10)
            for _ in range(20):
                timed.paint(PAGE_DOWN, 0.05)
            resident[name] = timed.resident
    size = f"{bench.rows:,} rows"
    return [
        show(Figure("screen.memory-growth", resident["large"], resident["small"], "MB", size)).good,
        show(Figure("screen.memory", resident["large"], resident["empty"], "MB", size)).good,
    ]


def idle(bench: Bench) -> list[bool]:
    """With nothing left to do: an index that is being built ends some time, and the screen says so."""
    words = [sys.executable, "-m", "console", "index", "--db", str(bench.large)]
    subprocess.run(words, env=bench.environ, check=True, capture_output=True)
    with bench.console(bench.large) as timed:
        timed.until(ATTACHED)
        timed.settle(3.0, 20)
        before, written = timed.busy, 0
        end = datetime.now(UTC) + timedelta(seconds=bench.idle_seconds)
        while (left := (end - datetime.now(UTC)).total_seconds()) > 0:
            written += len(timed.read(left))
        spent = (timed.busy - before) / bench.idle_seconds
    return [
        limit("screen.idle", spent, f"{bench.idle_seconds} s"),
        limit("screen.idle-bytes", written, f"{bench.idle_seconds} s"),
    ]


SECTIONS = {"start": start, "keys": keys, "busy": busy, "indexing": indexing, "memory": memory, "idle": idle}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*", metavar="|".join(SECTIONS))
    args = options(parser, ROWS, SHORT)
    with tempfile.TemporaryDirectory(dir=data.CACHE if data.CACHE.exists() else None) as folder:
        server = Postgres().start()
        try:
            bench = Bench(Path(folder), args.rows, server, short=args.short)
            results = [good for name in args.sections or SECTIONS for good in SECTIONS[name](bench)]
        finally:
            server.stop()
        finish("screen", results)


if __name__ == "__main__":
    main()
