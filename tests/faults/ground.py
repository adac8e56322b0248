"""The ground of a fault cell: one store, one venue, and what is done there before, while and after a console dies."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eth_account import Account

from tests.faults import checker
from tests.faults.cell import HOUSE, RESTORED, SECONDS, Cell, Scene, order
from tests.faults.child import GRACE, Killer, Where, begun, forked, looking_again, placing, reconciling, replaying
from tests.faults.stores import StoreCopy, forget_breakers, insert, postgres_store
from tests.support.exchange import Exchange
from tests.support.orders import add_sqlite, sqlite_store
from tests.support.session import ident
from tests.support.venue.rigs_practice import KALSHI_SECRETS
from tests.support.venue.rigs_sdk import CCXT_SECRETS, HYPERLIQUID_SECRETS
from venues import venue_profile
from venues.practice import serve

SECRETS = {
    "alpaca": {"api_key": "practice", "secret_key": "practice"},
    "kalshi": KALSHI_SECRETS,
    "ccxt:binance": CCXT_SECRETS,
    "hyperliquid": HYPERLIQUID_SECRETS,
}
_OTHER_KEY = "0x" + "5b1e" * 16
OTHER_SECRETS = {  # of other accounts at the same venues
    "alpaca": {"api_key": "another", "secret_key": "another"},
    "kalshi": {**KALSHI_SECRETS, "api_key_id": "another-5b1e7c12-4a7e-4b1f-9f3c-2f6f7f1f0a12"},
    "ccxt:binance": {name: f"ANOTHER{value}" for name, value in CCXT_SECRETS.items()},
    "hyperliquid": {"private_key": _OTHER_KEY, "account_address": Account.from_key(_OTHER_KEY).address},
}
_ENDS = (0, 1, 3, 4)
_HIDDEN_LOOKS = 2  # of the three that absence takes


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
    by_kind: Counter[str] = field(default_factory=Counter)
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
        self.by_kind += other.by_kind
        self.violations += other.violations

    def document(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("cells", "struck", "requests", "orders", "violations")}
        counted = {name: dict(getattr(self, name)) for name in ("by_engine", "by_kill", "by_kind")}
        return {**plain, **counted, "points": sorted(self.points), "scenes": sorted(self.scenes)}


class Ground:
    """One store and one venue, on which cells are run one after another."""

    def __init__(self, engine: str, folder: Path, exchange: Exchange, dsn: str, secrets: dict[str, Any]) -> None:
        self.engine = engine
        self.folder = folder
        self.exchange = exchange
        self.target = postgres_store(dsn) if engine == "postgres" else sqlite_store(folder / "orders.db")
        kinds = {name: name for name in secrets}
        self.where = Where(self.target, exchange.url, folder / "venue.jsonl", secrets, kinds=kinds)
        self.log = folder / "children.log"
        self.figures = Figures()
        self._number = 0
        self._before: list[str] = []  # client ids of the engine's own orders
        self._points: dict[Scene, list[str]] = {}
        self._block: list[tuple[Cell, int]] = []
        self._copy: StoreCopy | None = None
        self._restored_after = 0

    def points(self, scene: Scene) -> list[str]:
        """Those a replay passes under this fault, found by passing them once."""
        scene = scene.plain
        if scene not in self._points:
            self._points[scene] = self._passed(scene)
        return self._points[scene]

    def _passed(self, scene: Scene) -> list[str]:
        (number,) = self._entries([scene])
        told = self.folder / "points.json"

        def record() -> int:
            killer = Killer(None)
            code = replaying(self.where, (ident(number),), killer, sql=True)()
            told.write_text(json.dumps(killer.passed))
            return code

        self._scene(scene, number)
        forked(record, log=self.log)
        return list(json.loads(told.read_text()))

    def block(self, cells: Sequence[Cell]) -> None:
        """Run these cells, each on an entry of its own. All of them are restored from a backup, or none."""
        numbers = self._entries([cell.scene for cell in cells])
        self._block = list(zip(cells, numbers, strict=True))
        kinds = {cell.scene.kind for cell in cells}
        here = "restored-here" in kinds
        self.where = replace(self.where, memory=self.folder / "memory" if here else None)
        self._copy = StoreCopy(self.target, self.folder) if kinds & set(RESTORED) else None
        for cell, number in self._block:
            self._run(cell, number)
        self.exchange.clear()
        self._check("any")
        if self._copy is not None:
            self._restore(self._copy)

    def _run(self, cell: Cell, number: int) -> None:
        self._scene(cell.scene, number)
        forget_breakers(self.target)
        killer = Killer(cell.point, signal.Signals(cell.kill))
        sql = cell.point.startswith(("sql-", "commit-"))
        figures, ids = self.figures, (ident(number),)
        try:
            code = forked(replaying(self.where, ids, killer, sql=sql), log=self.log)
            if cell.scene.kind == "late":
                self._hide([number], cell.scene)
                forked(looking_again(self.where, ids), log=self.log)
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
        figures.by_kind[cell.scene.kind or "died"] += 1

    def _restore(self, copy: StoreCopy) -> None:
        """The store is what it was before the block; then everything is replayed as if nothing had been sent."""
        time.sleep(2 * SECONDS)  # what was on its way to the venue is there
        self._restored_after = max((line["n"] for line in self.requests()), default=0)
        self.fill([ident(number) for _, number in self._block if number % 2])
        copy.bring_back()
        forked(replaying(self._patient, self._left(), Killer(None)), log=self.log)
        self._check("any")

    @property
    def patience(self) -> float:
        """Seconds after which every lease is over and absence counts, where it has to."""
        bound = max(venue_profile(name).arrival_bound or 0.0 for name in self.where.secrets)
        window = max(self.where.window, bound)
        if all(cell.scene.kind == "twice" for cell, _ in self._block):
            window = 0.0  # nothing is ever absent there
        return GRACE + 3 * self.where.timeout + window

    def settle(self) -> None:
        """After lease and window: reconcile, twice; then all that is left, without faults. The checker in between."""
        if any(cell.scene.kind == "swapped" for cell, _ in self._block):
            self._swap()
        for scene in {cell.scene for cell, _ in self._block if cell.scene.kind == "late"}:
            self._hide([number for cell, number in self._block if cell.scene == scene], scene)
        for _ in range(2):
            forked(reconciling(self._patient), log=self.log)
        self.exchange.clear()
        self._check("settled")
        forked(replaying(self._patient, self._left(), Killer(None)), log=self.log)
        forked(reconciling(self._patient), log=self.log)
        self._check("final")
        store, ledger = checker.read_store(self.target), checker.read_ledger(self.where.ledger)
        self.figures.requests = len(self.requests())
        self.figures.orders = len({line["order_id"] for line in ledger if line["type"] == "order"})
        if self.engine == "sqlite":
            with closing(sqlite3.connect(self.target)) as connection:
                if (told := connection.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                    self.figures.violations.append(f"{self.target}: {told}")
        assert len(store.entries) == self._number

    def _swap(self) -> None:
        """Another key under the same account's name: it is asked, and what is open is replayed, and nothing happens."""
        other = replace(self._patient, secrets={name: OTHER_SECRETS[name] for name in self.where.secrets})
        before, sent = checker.read_store(self.target), len(self.requests())
        for _ in range(2):
            forked(reconciling(other), log=self.log)
        opened = tuple(row["entry_id"] for row in before.attempts if row["state"] in checker.OPEN)
        forked(replaying(other, opened, Killer(None)), log=self.log)
        found = checker.kept_by_another(before, checker.read_store(self.target))
        if (more := len(self.requests()) - sent) > 0:
            found.append(f"{more} requests went out with another key")
        self.figures.violations += [f"{self.engine} swapped (by {self._last}): {problem}" for problem in found]

    def _hide(self, numbers: Sequence[int], scene: Scene) -> None:
        """The next look-ups of these orders do not show them, though the venue has them."""
        for number in numbers if scene.venue == HOUSE else ():
            self.exchange.fault("http_404", symbol=f"T{number}", on="lookup", times=_HIDDEN_LOOKS)

    @property
    def _patient(self) -> Where:
        return replace(self.where, timeout=10.0)  # where no fault is meant, and a busy machine is none

    @property
    def _last(self) -> str:
        return str(self._block[-1][0]) if self._block else ""

    def fill(self, ids: Collection[str]) -> None:
        """The orders of these entries are filled: some venues take a second one under the same id from then on."""
        entries = [row for row in checker.read_store(self.target).entries if row["dlq_id"] in ids]
        wanted = {checker.tag(row["market_id"], row["quantity"]) for row in entries}
        for line in self.exchange.orders:
            if checker.tag(line["symbol"], line["quantity"]) in wanted and line["state"] == "open":
                self.exchange.mark(line["order_id"], "filled")

    def requests(self) -> list[checker.Row]:
        return [line for line in checker.read_ledger(self.where.ledger) if line["type"] == "request"]

    def _left(self) -> tuple[str, ...]:
        return tuple(row["dlq_id"] for row in checker.read_store(self.target).entries if not row["dismissed"])

    def _check(self, phase: checker.Phase) -> None:
        store, ledger = checker.read_store(self.target), checker.read_ledger(self.where.ledger)
        found = checker.check(
            store,
            ledger,
            expected=self._number,
            phase=phase,
            engine_sent=self._before,
            restored_after=self._restored_after,
        )
        self.figures.violations += [f"{self.engine} {phase} (by {self._last}): {problem}" for problem in found]

    def _entries(self, scenes: Sequence[Scene]) -> list[int]:
        """A new entry for each, and what the engine had placed of it."""
        numbers = list(range(self._number + 1, self._number + 1 + len(scenes)))
        self._number += len(scenes)
        rows = [order(number, scene.venue, own=scene.own) for number, scene in zip(numbers, scenes, strict=True)]
        if self.engine == "postgres":
            asyncio.run(insert(self.target, rows))
        else:
            with closing(sqlite3.connect(self.target, timeout=10)) as connection, connection:
                add_sqlite(connection, rows)
        twice = [row for row, scene in zip(rows, scenes, strict=True) if scene.before == "twice"]
        if twice:
            self.exchange.clear()
            ids = tuple(row["dlq_id"] for row in twice)
            for _ in range(2):
                code = forked(placing(self.where, ids), log=self.log)
                assert code == 0, self.log.read_text()
                self._before += [row["client_order_id"] for row in twice]
                self.fill(ids)
        return numbers

    def _scene(self, scene: Scene, number: int) -> None:
        self.exchange.clear()
        if scene.before in ("placed", "hidden"):
            name = f"cid-{number}"
            self._before.append(name)
            self.exchange.place(symbol=f"T{number}", qty=str(number), side="buy", limit_price="1", client_order_id=name)
        if scene.fault:
            self.exchange.fault(scene.fault, on=scene.on, seconds=SECONDS)


def load(venue: str) -> None:
    """What every child would import: once, here."""
    for name in (
        "aiosqlite",
        "anyio._backends._asyncio",
        "asyncpg",
        "backends.sql.store",
        "certifi",
        "httpcore",
        "sqlalchemy.dialects.postgresql.asyncpg",
        "sqlalchemy.dialects.sqlite.aiosqlite",
        "venues.http",
    ):
        importlib.import_module(name)
    venue_profile(venue)
    if venue == "ccxt:binance":
        importlib.import_module("ccxt.async_support")
    if venue == "hyperliquid":
        importlib.import_module("hyperliquid.utils.signing")


@contextmanager
def forked_exchange(ledger: Path) -> Iterator[Exchange]:
    """As `in_process`, for a process without threads: its start costs a fork and no interpreter."""
    heard, told = os.pipe()

    def serving() -> int:
        serve(ledger=ledger, announce=lambda url: print(url, file=os.fdopen(told, "w"), flush=True), fsync=False)
        return 0

    pid = begun(serving, log=ledger.with_suffix(".log"))
    os.close(told)
    try:
        with os.fdopen(heard) as pipe:
            url = pipe.readline().strip()
        yield Exchange(url).no_quotes()
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


@contextmanager
def grounds(folder: Path, engines: Sequence[str], venue: str, dsn: str) -> Iterator[list[Ground]]:
    """One ground per engine, with an exchange each: a fault that is set for one must not strike the other."""
    with tempfile.TemporaryDirectory(dir=folder) as base, ExitStack() as stack:
        made = []
        for engine in engines:
            its = Path(base) / engine
            its.mkdir()
            exchange = stack.enter_context(forked_exchange(its / "venue.jsonl"))
            made.append(Ground(engine, its, exchange, dsn, {venue: SECRETS[venue]}))
        yield made
