"""Mutation tests of the send path: one small wrong change at a time, in a copy of the tree, and the tests for it.

`python -m tests.faults.mutants [--only NAME] [--workers 2]` prints what became of each and, at the end, its figures as
JSON; exit 1 when one survives that is not listed as equivalent, or when the tests fail without any change.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from tests.faults.mutants_answers import ANSWERS
from tests.faults.mutants_data import Mutation
from tests.faults.mutants_evidence import EVIDENCE
from tests.faults.mutants_judging import JUDGING
from tests.faults.mutants_ledger import LEDGER
from tests.faults.mutants_outbox import OUTBOX
from tests.faults.mutants_planning import PLANNING
from tests.faults.mutants_sending import SENDING
from tests.faults.mutants_settling import SETTLING
from tests.faults.mutants_worth import WORTH

ROOT = Path(__file__).parents[2]
MUTATIONS: tuple[Mutation, ...] = (
    *SENDING,
    *PLANNING,
    *JUDGING,
    *EVIDENCE,
    *SETTLING,
    *LEDGER,
    *OUTBOX,
    *WORTH,
    *ANSWERS,
)
_COPIED = ("console", "backends", "venues", "sink", "tests", "pyproject.toml")
_LONGEST = 240.0  # seconds; a change that makes its tests hang is seen as well
_WITHOUT = (
    "cacheprovider",
    "textual-snapshot",
    "syrupy",
    "anyio",
    "xdist.looponfail",
)  # plugins that take time to load
_OPTIONS = ("-x", "-q", "-n", "0", "-k", "not postgres", *(f"-pno:{name}" for name in _WITHOUT))
Word = Literal["killed", "survived", "equivalent"]


@dataclass(frozen=True, slots=True)
class Ended:
    name: str
    word: Word
    seconds: float
    detail: str = ""


def mutated(root: Path, mutation: Mutation) -> str:
    """The file's text with the change. Raises ValueError unless the old text is there exactly once."""
    text = (root / mutation.path).read_text()
    count = text.count(mutation.old)
    if count != 1:
        raise ValueError(f"{mutation.name}: its old text is {count} times in {mutation.path}")
    return text.replace(mutation.old, mutation.new)


class Tree:
    """A copy of the tree in which one change at a time is made and taken back."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self._second = int(time.time())
        ignored = shutil.ignore_patterns("__pycache__", "__snapshots__", "__text__", "*.egg-info")
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=ignored)
            elif source.exists():
                shutil.copy(source, folder / name)

    def run(self, tests: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
        """The tests' end; None when they hang."""
        words = [sys.executable, "-m", "pytest", *_OPTIONS, *tests]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(self.root), str(self.root / "sink")))}
        try:
            return subprocess.run(
                words, cwd=self.root, env=environ, capture_output=True, text=True, timeout=_LONGEST, check=False
            )
        except subprocess.TimeoutExpired:
            return None

    def check(self) -> None:
        """Raises RuntimeError when tests here would import the code of another tree."""
        words = [sys.executable, "-c", "import console, backends, venues; print(console.__file__, backends.__file__)"]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(self.root), str(self.root / "sink")))}
        told = subprocess.run(words, cwd=self.root, env=environ, capture_output=True, text=True, check=True).stdout
        if any(not place.startswith(str(self.root)) for place in told.split()):
            raise RuntimeError(f"the copy is not what is imported: {told}")

    def _write(self, path: Path, text: str) -> None:
        """At a time of its own: Python takes compiled code for fresh by size and second."""
        path.write_text(text)
        self._second += 1
        os.utime(path, (self._second, self._second))

    def tried(self, mutation: Mutation) -> Ended:
        began, path = time.monotonic(), self.root / mutation.path
        right = path.read_text()
        self._write(path, mutated(self.root, mutation))
        try:
            done = self.run(mutation.tests)
        finally:
            self._write(path, right)
        took = time.monotonic() - began
        if done is None:
            return Ended(mutation.name, "killed", took, "its tests hang")
        if done.returncode == 0:
            return Ended(mutation.name, "equivalent" if mutation.equivalent else "survived", took, mutation.equivalent)
        if done.returncode != 1 and "error" not in done.stdout:
            raise RuntimeError(f"{mutation.name}: pytest ended with {done.returncode}: {done.stdout}{done.stderr}")
        return Ended(mutation.name, "killed", took, _first_failure(done.stdout))


def _first_failure(out: str) -> str:
    return next((line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))), "")[:160]


def baseline(trees: Sequence[Tree], mutations: Sequence[Mutation]) -> list[str]:
    """The tests that fail although nothing was changed: they would kill everything and prove nothing."""
    wanted = sorted({test for mutation in mutations for test in mutation.tests})
    shares = [wanted[n :: len(trees)] for n in range(len(trees))]
    with ThreadPoolExecutor(len(trees)) as pool:
        ends = list(pool.map(lambda pair: pair[0].run(pair[1]) if pair[1] else None, zip(trees, shares, strict=True)))
    return [_first_failure(done.stdout) or done.stdout[-2000:] for done in ends if done is not None and done.returncode]


def run_all(mutations: Sequence[Mutation], workers: int, folder: Path) -> list[Ended]:
    free: SimpleQueue[Tree] = SimpleQueue()
    trees = [Tree(folder / str(number)) for number in range(workers)]
    trees[0].check()
    if broken := baseline(trees, mutations):
        raise RuntimeError("these fail without any change: " + "; ".join(broken))
    for tree in trees:
        free.put(tree)

    def one(mutation: Mutation) -> Ended:
        tree = free.get()
        try:
            ended = tree.tried(mutation)
        finally:
            free.put(tree)
        print(f"{ended.word:10} {ended.seconds:5.1f} s  {ended.name}  {ended.detail}", file=sys.stderr, flush=True)
        return ended

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, mutations))


def figures(ended: Iterable[Ended], seconds: float) -> dict[str, object]:
    listed = list(ended)
    counts = {word: sum(1 for one in listed if one.word == word) for word in ("killed", "survived", "equivalent")}
    left = [one.name for one in listed if one.word == "survived"]
    return {"mutants": len(listed), **counts, "survivors": left, "seconds": round(seconds)}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutants")
    parser.add_argument("--only", help="those whose name contains this")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(words)
    chosen = [one for one in MUTATIONS if options.only is None or options.only in one.name]
    began = time.monotonic()
    for one in chosen:
        mutated(ROOT, one)
    with tempfile.TemporaryDirectory(prefix="dlq-mutants-") as folder:
        ended = run_all(chosen, options.workers, Path(folder).resolve())
    told = figures(ended, time.monotonic() - began)
    print(json.dumps(told))
    return 1 if told["survived"] or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
