"""The fault matrix: in each cell one console dies at one point under one fault; then the checker, and reconcile.

`python -m tests.faults.matrix [--cells N] [--workers 2]` runs it and prints its figures; exit 1 on any violation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from tests.faults.cell import (
    HOUSE,
    KINDS,
    RESTORED,
    Cell,
    Scene,
    cells,
    kind_scenes,
    other_scenes,
    sampled,
    scenes,
)
from tests.faults.ground import Figures, Ground, grounds, load
from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[2]
BLOCK = 120  # cells between two reconciliations


def run_share(options: argparse.Namespace) -> Figures:
    """This worker's share of the cells."""
    mine, of = map(int, options.share.split("/"))
    total = Figures()
    folder = Path(options.folder)
    for venue, every in _by_venue(options).items():
        load(venue)
        with grounds(folder, options.engines.split(","), venue, options.dsn) as made:
            shares = []
            for ground in made:
                _warm(ground)
                wanted = _wanted(ground, every, options)
                shares.append([cell for n, cell in enumerate(wanted) if n % of == mine])
            _run(made, shares)
            for ground in made:
                total.add(ground.figures)
    return total


def _by_venue(options: argparse.Namespace) -> dict[str, list[Scene]]:
    every = [*scenes(), *other_scenes(), *kind_scenes()]
    if options.cells:  # a sample needs no more scenes than it has cells for
        kinds = [[scene for scene in kind_scenes() if scene.kind == kind] for kind in KINDS if kind]
        every = sampled_scenes(scenes(), options.cells // 12, options.seed)
        every += [one for its in kinds for one in sampled_scenes(_at_home(its), 1, options.seed)]
    found: dict[str, list[Scene]] = {}
    for scene in every:
        found.setdefault(scene.venue, []).append(scene)
    return found


def _at_home(every: Sequence[Scene]) -> Sequence[Scene]:
    """At the house's venue, where they can be: a second venue takes a sample twice as long."""
    return [scene for scene in every if scene.venue == HOUSE] or every


def _wanted(ground: Ground, every: Sequence[Scene], options: argparse.Namespace) -> list[Cell]:
    found: dict[str, list[Cell]] = {}
    for scene in every:
        found.setdefault(scene.kind, []).extend(cells(scene, ground.engine, ground.points(scene)))
    if not options.cells:
        return [cell for its in found.values() for cell in its]
    share = options.cells // len(options.engines.split(","))
    few = max(1, share // 15)  # of each kind; the others simply die
    counts = {kind: few if kind else share - few * (len(KINDS) - 1) for kind in found}
    return [cell for kind, its in found.items() for cell in sampled(its, counts[kind], options.seed)]


def sampled_scenes(every: Sequence[Scene], count: int, seed: int) -> list[Scene]:
    start = seed % len(every)
    turned = [*every[start:], *every[:start]]
    return turned[:: max(1, len(turned) // max(1, count))][: max(1, count)]


def _warm(ground: Ground) -> None:
    """The first act makes the ledger; its many statements are points of a scene of their own only once."""
    ground.points(Scene(venue=next(iter(ground.where.secrets))))


def _run(grounds: Sequence[Ground], shares: Sequence[Sequence[Cell]]) -> None:
    """Block by block, all grounds together: one wait for leases and windows does for all of them."""
    for blocks in zip_longest(*(_blocks(mine) for mine in shares), fillvalue=()):
        working = [(ground, block) for ground, block in zip(grounds, blocks, strict=True) if block]
        for ground, block in working:
            ground.block(block)
        time.sleep(max(ground.patience for ground, _ in working))
        for ground, _ in working:
            ground.settle()


def _blocks(mine: Sequence[Cell]) -> list[Sequence[Cell]]:
    """A restore brings back the whole store: its cells are in blocks of their own, and so are those of `twice`."""
    groups: dict[str, list[Cell]] = {}
    for cell in mine:
        kind = cell.scene.kind
        groups.setdefault(kind if kind in (*RESTORED, "twice") else "", []).append(cell)
    return [its[start : start + BLOCK] for its in groups.values() for start in range(0, len(its), BLOCK)]


def run_all(options: argparse.Namespace) -> Figures:
    shares = [f"{n}/{options.workers}" for n in range(options.workers)]
    words = [sys.executable, "-m", "tests.faults.matrix", "--engines", options.engines, "--seed", str(options.seed)]
    words += [
        "--folder",
        options.folder,
        "--dsn",
        options.dsn,
        *(["--cells", str(options.cells)] if options.cells else []),
    ]
    running = [
        subprocess.Popen([*words, "--share", share], stdout=subprocess.PIPE, text=True, cwd=ROOT) for share in shares
    ]
    total = Figures()
    for process in running:
        out, _ = process.communicate()
        if process.returncode not in (0, 1):
            raise RuntimeError(f"a worker ended with {process.returncode}")
        told = json.loads(out.splitlines()[-1])
        counters = {name: Counter(told[name]) for name in ("by_engine", "by_kill", "by_kind")}
        sets = {name: set(told[name]) for name in ("points", "scenes")}
        total.add(Figures(**{**told, **counters, **sets}))
    return total


def parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.matrix")
    parser.add_argument("--cells", type=int, help="a sample of this many")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engines", default="sqlite,postgres")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--dsn", default="", help="a Postgres to use, {db} for its database; absent: one is started")
    parser.add_argument("--share", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = parsed(words)
    began = time.monotonic()
    if options.share:
        figures = run_share(options)
        print(json.dumps(figures.document()))
        return 1 if figures.violations else 0
    server = Postgres().start() if "postgres" in options.engines and not options.dsn else None
    try:
        options.dsn = options.dsn or (server.dsn("{db}") if server else "")
        figures = run_all(options)
    finally:
        if server is not None:
            server.stop()
    print("\n".join(figures.violations), file=sys.stderr)
    shown = {**figures.document(), "points": len(figures.points), "scenes": len(figures.scenes)}
    print(json.dumps({**shown, "violations": len(figures.violations), "seconds": round(time.monotonic() - began)}))
    return 1 if figures.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
