"""The fault matrix: in each cell one console dies at one point under one fault; then the checker, and reconcile.

`python -m tests.faults.matrix [--cells N] [--workers 2]` runs it and prints its figures; exit 1 on any violation.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.faults.cell import HOUSE, Cell, Scene, cells, other_scenes, sampled, scenes
from tests.faults.ground import Figures, Ground, grounds
from tests.support.postgres import Postgres
from venues import venue_profile

ROOT = Path(__file__).parents[2]
BLOCK = 120  # cells between two reconciliations


def run_share(options: argparse.Namespace) -> Figures:
    """This worker's share of the cells."""
    mine, of = map(int, options.share.split("/"))
    total = Figures()
    folder = Path(options.folder)
    for venue, every in _by_venue(options):
        engines = options.engines.split(",") if venue == HOUSE else ["sqlite"]
        _load(venue)
        with grounds(folder, engines, venue, options.dsn) as made:
            for ground in made:
                _warm(ground)
                found = [cell for scene in every for cell in cells(scene, ground.engine, ground.points(scene))]
                wanted = sampled(found, options.cells and max(1, options.cells // len(engines)), options.seed)
                _run(ground, [cell for n, cell in enumerate(wanted) if n % of == mine])
                total.add(ground.figures)
    return total


def _by_venue(options: argparse.Namespace) -> list[tuple[str, list[Scene]]]:
    house = scenes()
    if options.cells:  # a sample needs no more scenes than it has cells for
        house = sampled_scenes(house, options.cells // 8, options.seed)
    others: dict[str, list[Scene]] = {}
    for scene in [] if options.cells else other_scenes():
        others.setdefault(scene.venue, []).append(scene)
    return [(HOUSE, house), *others.items()]


def sampled_scenes(every: Sequence[Scene], count: int, seed: int) -> list[Scene]:
    start = seed % len(every)
    turned = [*every[start:], *every[:start]]
    return turned[:: max(1, len(turned) // max(1, count))][: max(1, count)]


def _warm(ground: Ground) -> None:
    """The first act makes the ledger; its many statements are points of a scene of their own only once."""
    ground.points(Scene(venue=next(iter(ground.where.secrets))))


def _load(venue: str) -> None:
    """What every child would import: once, here."""
    for name in ("aiosqlite", "asyncpg", "backends.sql.store", "venues.http", "certifi"):
        importlib.import_module(name)
    venue_profile(venue)
    if venue == "ccxt:binance":
        importlib.import_module("ccxt.async_support")
    if venue == "hyperliquid":
        importlib.import_module("hyperliquid.utils.signing")


def _run(ground: Ground, mine: Sequence[Cell]) -> None:
    for start in range(0, len(mine), BLOCK):
        for cell in mine[start : start + BLOCK]:
            ground.run(cell)
        ground.settle(str(mine[min(start + BLOCK, len(mine)) - 1]))


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
        counters = {name: Counter(told[name]) for name in ("by_engine", "by_kill")}
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
