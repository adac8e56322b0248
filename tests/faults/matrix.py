"""The fault matrix: each cell is one console that dies at one point under one fault; then the checker, reconcile, the rest.

`python -m tests.faults.matrix [--cells N] [--workers 2]` runs it and prints its figures; exit 1 on any violation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from backends.layouts import orders
from tests.exchange import Exchange, in_process
from tests.faults import checker
from tests.faults.cell import HOUSE, SECONDS, Cell, Scene, cells, order, other_scenes, sampled, scenes
from tests.faults.child import GRACE, Killer, Where, forked, reconciling, replaying
from tests.orders import add_sqlite, sqlite_store
from tests.postgres import Postgres
from tests.stagehand import ident
from venues import venue_profile

ROOT = Path(__file__).parents[2]
BLOCK = 120  # cells between two reconciliations
_ENDS = (0, 1, 3, 4)


@dataclass
class Figures:
    cells: int = 0
    struck: int = 0
    requests: int = 0
    orders: int = 0
    points: set[str] = field(default_factory=set)
    scenes: set[str] = field(default_factory=set)
    by_engine: Counter[str] = field(default_factory=Counter)
    by_kill: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        self.cells += other.cells
        self.struck += other.struck
        self.requests += other.requests
        self.orders += other.orders
        self.points |= other.points
        self.scenes |= other.scenes
        self.by_engine += other.by_engine
        self.by_kill += other.by_kill
        self.violations += other.violations

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "points": sorted(self.points), "scenes": sorted(self.scenes)}


class Ground:
    """One store and one venue, on which cells are run one after another."""

    def __init__(self, engine: str, folder: Path, exchange: Exchange, dsn: str, secrets: dict[str, Any]) -> None:
        self.engine = engine
        self.folder = folder
        self.exchange = exchange
        self.target = _postgres(dsn) if engine == "postgres" else sqlite_store(folder / "orders.db")
        kinds = {name: name for name in secrets}
        self.where = Where(self.target, exchange.url, folder / "venue.jsonl", secrets, kinds=kinds)
        self.log = folder / "children.log"
        self.figures = Figures()
        self._number = 0
        self._before: set[str] = set()

    def points(self, scene: Scene) -> list[str]:
        """Those a replay passes under this fault, found by passing them."""
        number = self._entry(scene)
        told = self.folder / "points.json"

        def record() -> int:
            killer = Killer(None)
            code = replaying(self.where, (ident(number),), killer, sql=True)()
            told.write_text(json.dumps(killer.passed))
            return code

        self._scene(scene, number)
        forked(record, log=self.log)
        return list(json.loads(told.read_text()))

    def run(self, cell: Cell) -> None:
        number = self._entry(cell.scene)
        self._scene(cell.scene, number)
        killer = Killer(cell.point, signal.Signals(cell.kill))
        sql = cell.point.startswith(("sql-", "commit-"))
        figures = self.figures
        try:
            code = forked(replaying(self.where, (ident(number),), killer, sql=sql), log=self.log)
        except TimeoutError as hung:
            figures.violations.append(f"{cell}: {hung}")
            return
        if code not in (-signal.SIGKILL, *_ENDS):
            figures.violations.append(f"{cell}: ended with {code}; see {self.log}")
        figures.cells += 1
        figures.struck += code == -signal.SIGKILL or cell.kill != signal.SIGKILL
        figures.points.add(cell.point)
        figures.scenes.add(str(cell.scene))
        figures.by_engine[cell.engine] += 1
        figures.by_kill[signal.Signals(cell.kill).name] += 1

    def settle(self, last: str) -> None:
        """The checker at once; after lease and window reconcile, twice; then everything that is left, without faults."""
        self.exchange.clear()
        self._check("any", last)
        bound = max(venue_profile(name).arrival_bound or 0.0 for name in self.where.secrets)
        time.sleep(GRACE + 3 * self.where.timeout + max(self.where.window, bound))
        for _ in range(2):
            forked(reconciling(self.where), log=self.log)
        self._check("settled", last)
        forked(replaying(self.where, self._left(), Killer(None)), log=self.log)
        forked(reconciling(self.where), log=self.log)
        self._check("final", last)
        store, ledger = checker.read_store(self.target), checker.read_ledger(self.where.ledger)
        self.figures.requests = sum(1 for line in ledger if line["type"] == "request")
        self.figures.orders = len({line["order_id"] for line in ledger if line["type"] == "order"})
        if self.engine == "sqlite":
            with closing(sqlite3.connect(self.target)) as connection:
                if (told := connection.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                    self.figures.violations.append(f"{self.target}: {told}")
        assert len(store.entries) == self._number

    def _left(self) -> tuple[str, ...]:
        return tuple(row["dlq_id"] for row in checker.read_store(self.target).entries if not row["dismissed"])

    def _check(self, phase: checker.Phase, last: str) -> None:
        store, ledger = checker.read_store(self.target), checker.read_ledger(self.where.ledger)
        engine_sent = [line for line in ledger if line["type"] == "request" and line["client_order_id"] in self._before]
        first = {line["client_order_id"]: line["n"] for line in reversed(engine_sent)}
        ours = [line for line in ledger if line.get("n") not in first.values()]
        found = checker.check(store, ours, expected=self._number, phase=phase)
        self.figures.violations += [f"{self.engine} {phase} (by {last}): {problem}" for problem in found]

    def _entry(self, scene: Scene) -> int:
        self._number += 1
        row = order(self._number, scene.venue)
        if self.engine == "postgres":
            asyncio.run(_insert(self.target, row))
        else:
            with closing(sqlite3.connect(self.target, timeout=10)) as connection, connection:
                add_sqlite(connection, [row])
        return self._number

    def _scene(self, scene: Scene, number: int) -> None:
        self.exchange.clear()
        if scene.before:
            name = f"cid-{number}"
            self._before.add(name)
            self.exchange.place(symbol=f"T{number}", qty=str(number), side="buy", limit_price="1", client_order_id=name)
        if scene.fault:
            self.exchange.fault(scene.fault, on=scene.on, seconds=SECONDS)


async def _insert(dsn: str, row: dict[str, Any]) -> None:
    connection = await asyncpg.connect(dsn)
    marks = ", ".join(f"${n}" for n in range(1, len(row) + 1))
    await connection.execute(f"INSERT INTO order_dlq ({', '.join(row)}) VALUES ({marks})", *row.values())
    await connection.close()


def _postgres(template: str) -> str:
    """An empty order store in a database of its own."""
    name = f"f_{uuid.uuid4().hex[:12]}"

    async def make() -> None:
        admin = await asyncpg.connect(template.replace("{db}", "postgres"))
        await admin.execute(f'CREATE DATABASE "{name}"')
        await admin.close()
        connection = await asyncpg.connect(template.replace("{db}", name))
        for statement in orders.postgres_ddl("order_dlq"):
            await connection.execute(statement)
        await connection.close()

    asyncio.run(make())
    return template.replace("{db}", name)


def secrets(venue: str) -> dict[str, str]:
    match venue:
        case "kalshi":
            from tests.contract.venues.practice_rig import KALSHI_SECRETS

            return dict(KALSHI_SECRETS)
        case "ccxt:binance":
            from tests.contract.venues.extra_rig import CCXT_SECRETS

            return dict(CCXT_SECRETS)
        case "hyperliquid":
            from tests.contract.venues.extra_rig import HYPERLIQUID_SECRETS

            return dict(HYPERLIQUID_SECRETS)
        case _:
            return {"api_key": "practice", "secret_key": "practice"}


@contextmanager
def grounds(folder: Path, engines: Sequence[str], venue: str, dsn: str) -> Iterator[list[Ground]]:
    """One ground per engine, with a venue each: a fault that is set for one must not strike the other."""
    with tempfile.TemporaryDirectory(dir=folder) as base, _exchanges(Path(base), engines) as running:
        yield [
            Ground(engine, Path(base) / engine, exchange, dsn, {venue: secrets(venue)})
            for engine, exchange in zip(engines, running, strict=True)
        ]


@contextmanager
def _exchanges(base: Path, engines: Sequence[str]) -> Iterator[list[Exchange]]:
    folders = [base / engine for engine in engines]
    for folder in folders:
        folder.mkdir()
    if len(folders) == 1:
        with in_process(folders[0] / "venue.jsonl") as one:
            yield [one]
        return
    with in_process(folders[0] / "venue.jsonl") as first, in_process(folders[1] / "venue.jsonl") as second:
        yield [first, second]


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
    import importlib

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
