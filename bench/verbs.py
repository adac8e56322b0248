"""The verbs beside version 0.1 and beside bare imports, in turns of one run.

`python -m bench.verbs [--rows 200000] [--short] [--peer COMMIT]`: takes the files of that commit from this repository's
history for the run; its verbs run on the same stores with the same interpreter. Where the history lacks it, as in a
shallow clone, those figures are not measured. Times are of the processor, which a busy machine distorts less than the
clock.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import data
from bench.figure import Figure, finish, limit, options, show
from bench.terminal import ROOT
from tests.support.postgres import Postgres

VERSION_0_1 = "195838f4c83e62a66f43f392118b143e384e11e3"
ROWS, SHORT = 200_000, 40_000
ON_SQLITE = ("check", "metrics", "groups", "report")
ON_POSTGRES = ("check", "metrics")
WORDS: dict[str, tuple[str, ...]] = {"report": ("report", "--since", "24h"), "list": ("list", "--limit", "5")}
IMPORTS = "import argparse, aiosqlite, sqlalchemy.ext.asyncio"
JUDGED, TURNS = 50_000, 3
# Seconds for the group and the category of each error, in whichever version is on the path, and a sum over the groups.
_JUDGE = f"""
import hashlib, sqlite3, sys, time
try:
    from console.services.errors.category import classify
    from console.services.errors.fingerprint import fingerprint
except ImportError:
    from console.services.category import classify
    from console.services.fingerprint import fingerprint
wanted = "SELECT error, account_id, market_id FROM order_dlq LIMIT {JUDGED}"
rows = [(row[0], tuple(filter(None, row[1:]))) for row in sqlite3.connect(sys.argv[1]).execute(wanted)]
own = classify.__code__.co_argcount > 1
began = time.process_time()
for error, names in rows:
    fingerprint(error, names)
    classify(error, *([names] if own else []))
took = time.process_time() - began
groups = hashlib.sha256(" ".join(fingerprint(*row).id for row in rows).encode()).hexdigest()
print(took / len(rows) * 1e6, groups)
"""


@dataclass(frozen=True)
class Cost:
    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Bench:
    """The stores, and a home of their own for the processes that are measured: caches, and their bytecode."""

    home: Path
    path: Path

    @property
    def environ(self) -> dict[str, str]:
        names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PYTHONPYCACHEPREFIX")
        # An installed command has its bytecode, even where the environment forbids Python to write any.
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, **{name: str(self.home) for name in names}}

    def took(self, command: Sequence[str], root: Path = ROOT) -> Cost:
        environ = {**self.environ, "PYTHONPATH": str(root)}
        child = subprocess.Popen(command, env=environ, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert child.stderr is not None
        told = child.stderr.read().decode(errors="replace")
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1):  # `check` ends with 1 where it raises an alert
            raise SystemExit(f"{' '.join(command)} ended with {child.returncode}: {told}")
        return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)

    def verb(self, name: str, target: str, root: Path = ROOT) -> Cost:
        return self.took([sys.executable, "-m", "console", "--db", target, *WORDS.get(name, (name,))], root)

    def judged(self, root: Path) -> tuple[float, str]:
        """(microseconds for each error, a sum over their groups)."""
        environ = {**self.environ, "PYTHONPATH": str(root)}
        command = [sys.executable, "-c", _JUDGE, str(self.path)]
        told = subprocess.run(command, env=environ, cwd=root, capture_output=True, text=True, check=True).stdout
        each, groups = told.split()
        return float(each), groups


def peer_files(commit: str, folder: Path) -> Path | None:
    """The files of that commit; None where this repository's history lacks it, or there is no git."""
    if shutil.which("git") is None:
        return None
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def start(bench: Bench, rounds: int = 9) -> bool:
    bare = [sys.executable, "-c", IMPORTS]
    times = [
        [cost.seconds * 1000 for cost in (bench.verb("list", str(bench.path)), bench.took(bare))]
        for _ in range(rounds + 1)
    ]
    ours, peer = (statistics.median(column) for column in zip(*times[1:], strict=True))  # the first writes bytecode
    return show(Figure("verbs.list", ours, peer, "ms")).good


def beside(bench: Bench, tree: Path, target: str, verbs: Sequence[str], engine: str) -> list[bool]:
    good = []
    most = 0.0
    for verb in verbs:
        peer, ours = bench.verb(verb, target, tree), bench.verb(verb, target)
        most = max(most, ours.megabytes)
        good.append(show(Figure(f"verbs.{verb}", ours.seconds, peer.seconds, "s", engine)).good)
    return [*good, limit("verbs.memory", most, engine)]


def judgement(bench: Bench, tree: Path) -> list[bool]:
    turns = [(bench.judged(ROOT), bench.judged(tree)) for _ in range(TURNS)]
    ours, peer = (min(each for each, _ in column) for column in zip(*turns, strict=True))
    good = show(Figure("verbs.judge", ours, peer, "µs")).good
    other = sum(mine != theirs for (_, mine), (_, theirs) in turns)
    return [good, limit("verbs.judge-other", other)]


def with_index(bench: Bench) -> list[bool]:
    bench.verb("index", str(bench.path))
    good = []
    for verb in ON_SQLITE:
        turns = [[bench.verb(one, str(bench.path)).seconds for one in (verb, "list")] for _ in range(3)]
        mine, bare = (min(column) for column in zip(*turns, strict=True))
        good.append(limit("verbs.indexed", mine - bare, f"dlq {verb}"))
    return good


def on_postgres(bench: Bench, tree: Path, rows: int) -> list[bool]:
    server = Postgres().start()
    try:
        dsn = server.dsn("postgres")
        asyncio.run(data.fill_postgres(dsn, rows))
        return beside(bench, tree, dsn, ON_POSTGRES, "Postgres")
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", default=VERSION_0_1, metavar="COMMIT", help="version 0.1, unless another is given")
    args = options(parser, ROWS, SHORT)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(folder / "home", data.sqlite_copy(args.rows, folder / "store.db"))
        bench.home.mkdir()
        results = [start(bench)]
        tree = peer_files(args.peer, folder / "peer")
        if tree is None:
            print(f"skipped, as this repository's history lacks {args.peer}: every figure beside version 0.1")
        else:
            results += judgement(bench, tree)
            results += beside(bench, tree, str(bench.path), ON_SQLITE, "SQLite")
            results += on_postgres(bench, tree, args.rows)
        results += with_index(bench)
    finish("verbs", results)


if __name__ == "__main__":
    main()
