"""The verbs beside version 0.1 and beside bare imports, in turns of one run.

`python -m bench.verbs [--rows 200000] [--peer COMMIT]`: with --peer, a worktree of that commit is made for the run, and
its verbs run on the same file with the same interpreter. Without it, those figures are skipped by name.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import data
from bench.figure import Figure, finish, show
from bench.terminal import ROOT

BOUNDS = {"check": 0.25, "metrics": 0.25, "groups": 0.5, "report": 0.5}
WORDS: dict[str, tuple[str, ...]] = {"report": ("report", "--since", "24h")}
IMPORTS = "import argparse, aiosqlite, sqlalchemy.ext.asyncio"
JUDGED = 20_000
# Seconds for the group and the category of each error, in whichever version is on the path.
_JUDGE = f"""
import sqlite3, sys, time
try:
    from console.services.errors.category import classify
    from console.services.errors.fingerprint import fingerprint
except ImportError:
    from console.services.category import classify
    from console.services.fingerprint import fingerprint
wanted = "SELECT error, account_id, market_id FROM order_dlq LIMIT {JUDGED}"
rows = sqlite3.connect(sys.argv[1]).execute(wanted).fetchall()
own = classify.__code__.co_argcount > 1
began = time.process_time()
for error, *names in rows:
    fingerprint(error, tuple(filter(None, names)))
    classify(error, *([tuple(filter(None, names))] if own else []))
print(time.process_time() - began)
"""


def took(command: Sequence[str], environ: dict[str, str], folder: Path) -> float:
    """Seconds of CPU time, which a busy machine distorts less than the clock."""
    began = _children()
    subprocess.run(command, env={**os.environ, **environ}, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    return _children() - began


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "peer"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree), commit], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def start(path: Path, home: dict[str, str], rounds: int = 7) -> bool:
    ours, peer = [], []
    for _ in range(rounds):
        listing = [sys.executable, "-m", "console", "--db", str(path), "list", "--limit", "5"]
        ours.append(took(listing, {**home, "PYTHONPATH": str(ROOT)}, ROOT))
        peer.append(took([sys.executable, "-c", IMPORTS], home, ROOT))
    mine, theirs = (statistics.median(times) * 1000 for times in (ours, peer))
    return show(Figure("dlq list --limit 5", mine, theirs, 1.3, peer_name="bare imports")).good


def beside(tree: Path, path: Path, home: dict[str, str]) -> list[bool]:
    good = []
    for verb, bound in BOUNDS.items():
        words = WORDS.get(verb, (verb,))
        ours, peer = (
            took([sys.executable, "-m", "console", "--db", str(path), *words], {**home, "PYTHONPATH": str(root)}, root)
            for root in (ROOT, tree)
        )
        good.append(show(Figure(f"dlq {verb}, without an index", ours, peer, bound, "s", "0.1")).good)
    ours, peer = (_judged(root, path, home) for root in (ROOT, tree))
    good.append(show(Figure("group and category of an error", ours, peer, 1 / 8, "µs", "0.1")).good)
    return good


def _judged(root: Path, path: Path, home: dict[str, str]) -> float:
    environ = {**os.environ, **home, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", _JUDGE, str(path)], env=environ, cwd=root, capture_output=True, text=True, check=True
    )
    return float(done.stdout) / JUDGED * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--peer", help="the commit of version 0.1")
    args = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = {key: str(folder) for key in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        path = data.sqlite_copy(args.rows, folder / "store.db")
        results = [start(path, home)]
        if args.peer:
            with worktree(args.peer) as tree:
                results += beside(tree, path, home)
        else:
            print(f"skipped without --peer COMMIT: {', '.join(BOUNDS)}, group and category of an error")
    finish(results)


if __name__ == "__main__":
    main()
