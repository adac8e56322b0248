"""The ground of a fault cell: one store, one venue, and what is done there before, while and after a console dies."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncpg

from backends.layouts import orders
from tests.faults import checker
from tests.faults.cell import SECONDS, Cell, Scene, order
from tests.faults.child import GRACE, Killer, Where, forked, reconciling, replaying
from tests.support.exchange import Exchange, in_process
from tests.support.orders import add_sqlite, sqlite_store
from tests.support.session import ident
from tests.support.venue.rigs_practice import KALSHI_SECRETS
from tests.support.venue.rigs_sdk import CCXT_SECRETS, HYPERLIQUID_SECRETS
from venues import venue_profile

SECRETS = {
    "alpaca": {"api_key": "practice", "secret_key": "practice"},
    "kalshi": KALSHI_SECRETS,
    "ccxt:binance": CCXT_SECRETS,
    "hyperliquid": HYPERLIQUID_SECRETS,
}
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
        plain = {name: getattr(self, name) for name in ("cells", "struck", "requests", "orders", "violations")}
        counted = {"by_engine": dict(self.by_engine), "by_kill": dict(self.by_kill)}
        return {**plain, **counted, "points": sorted(self.points), "scenes": sorted(self.scenes)}


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
        """The checker at once; after lease and window reconcile, twice; then all that is left, without faults."""
        self.exchange.clear()
        self._check("any", last)
        bound = max(venue_profile(name).arrival_bound or 0.0 for name in self.where.secrets)
        time.sleep(GRACE + 3 * self.where.timeout + max(self.where.window, bound))
        patient = replace(self.where, timeout=10.0)  # from here on no fault is meant, and a busy machine is none
        for _ in range(2):
            forked(reconciling(patient), log=self.log)
        self._check("settled", last)
        forked(replaying(patient, self._left(), Killer(None)), log=self.log)
        forked(reconciling(patient), log=self.log)
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
        found = checker.check(store, ledger, expected=self._number, phase=phase, engine_sent=self._before)
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


@contextmanager
def grounds(folder: Path, engines: Sequence[str], venue: str, dsn: str) -> Iterator[list[Ground]]:
    """One ground per engine, with an exchange each: a fault that is set for one must not strike the other."""
    with tempfile.TemporaryDirectory(dir=folder) as base, ExitStack() as stack:
        made = []
        for engine in engines:
            its = Path(base) / engine
            its.mkdir()
            exchange = stack.enter_context(in_process(its / "venue.jsonl"))
            made.append(Ground(engine, its, exchange, dsn, {venue: SECRETS[venue]}))
        yield made
