"""A rig around one order store, on SQLite or Postgres: make it, fill it, open it, and run raw SQL behind its back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import asyncpg

from backends import open_store
from backends.layouts import orders
from backends.ledger.audit_chain import Head, Verifier
from backends.records import STATES, ActContext, Actor, AuditEvent, Entry, Filter, Finding, Selection, State
from backends.sql.store import SQLStore
from backends.store import Claim, Intent, Result, Store
from tests.support.owner_session import in_session, rows_of

BASE = datetime(2026, 4, 18, 14, 32, 15, tzinfo=UTC)
ACTOR = Actor("ann", "ops", "desk1", "dlq 0.1")
OTHER = Actor("bob", "ops2", "desk2", "dlq 0.1")
EVERYTHING = Filter(states=frozenset(STATES))
INTENT = Intent("paper", "alpaca", "cid-1", b'{"qty":1}', "hash-1")


def why(operation: str = "op-1", *, reason: str | None = "test", note: str | None = None) -> ActContext:
    return ActContext(BASE, operation, reason, note)


def order_row(number: int, **changes: object) -> dict[str, object]:
    """An ordinary row; times and flags as Python's own types."""
    row: dict[str, object] = {
        "dlq_id": f"dlq_{number:016x}",
        "captured_at": BASE + timedelta(seconds=number),
        "venue_name": "alpaca",
        "account_id": "main",
        "market_id": "AAPL",
        "side": "buy",
        "quantity": 1.5,
        "order_type": "limit",
        "price": 180.25,
        "client_order_id": f"c-{number}",
        "error": "RuntimeError: HTTP 429 after 3 attempts",
        "retry_count": 0,
        "dismissed": False,
        "action_json": "",
    }
    return row | changes


@dataclass
class Rig:
    """One database. Subclasses know how to reach it from behind."""

    target: str
    stores: list[SQLStore] = field(default_factory=list)
    dialect = ""

    async def sql(self, statement: str, *args: object) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def ddl(self, table: str) -> Sequence[str]:
        raise NotImplementedError

    async def insert(self, row: Mapping[str, object], table: str = "order_dlq") -> None:
        raise NotImplementedError

    async def make(self, rows: int | Iterable[Mapping[str, object]] = 0, table: str = "order_dlq") -> None:
        """The layout as `dlq init` makes it, with this many ordinary rows (or these)."""
        for statement in self.ddl(table):
            await self.sql(statement)
        made = map(order_row, range(rows)) if isinstance(rows, int) else rows
        await self.fill(list(made), table)

    async def fill(self, rows: Sequence[Mapping[str, object]], table: str = "order_dlq") -> None:
        for row in rows:
            await self.insert(row, table)

    async def open(self, *, read_only: bool = False, table: str | None = None, target: str | None = None) -> SQLStore:
        store = cast(SQLStore, await open_store(target or self.target, read_only=read_only, table=table))
        self.stores.append(store)
        return store

    async def schema(self) -> list[tuple[Any, ...]]:
        """Everything the catalog knows of: to see that looking changes nothing."""
        raise NotImplementedError

    async def aclose(self) -> None:
        for store in self.stores:
            await store.aclose()

    @property
    def on_postgres(self) -> bool:
        return self.dialect == "postgresql"

    def ledger(self, name: str) -> str:
        return f"dlq_console.{name}" if self.on_postgres else f"console_{name}"

    def time(self, moment: datetime) -> object:
        return moment if self.on_postgres else moment.isoformat()

    def flag(self, value: bool) -> str:
        return str(value).lower() if self.on_postgres else str(int(value))


class SQLiteRig(Rig):
    dialect = "sqlite"

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.target, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        return connection

    async def sql(self, statement: str, *args: object) -> list[tuple[Any, ...]]:
        connection = self.connect()
        try:
            return list(connection.execute(statement, args).fetchall())
        finally:
            connection.close()

    def ddl(self, table: str) -> Sequence[str]:
        return orders.sqlite_ddl(table)

    async def insert(self, row: Mapping[str, object], table: str = "order_dlq") -> None:
        await self.fill([row], table)

    async def fill(self, rows: Sequence[Mapping[str, object]], table: str = "order_dlq") -> None:
        connection = self.connect()
        try:
            connection.execute("BEGIN")
            for row in rows:
                values = [value.isoformat() if isinstance(value, datetime) else value for value in row.values()]
                marks = ", ".join("?" * len(values))
                connection.execute(f'INSERT INTO "{table}" ({", ".join(row)}) VALUES ({marks})', values)
            connection.execute("COMMIT")
        finally:
            connection.close()

    async def schema(self) -> list[tuple[Any, ...]]:
        return await self.sql("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2")


class PostgresRig(Rig):
    dialect = "postgresql"

    async def sql(self, statement: str, *args: object) -> list[tuple[Any, ...]]:
        return await rows_of(self.target, statement, *args)

    @asynccontextmanager
    async def connect(self, target: str | None = None) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(target or self.target)
        try:
            yield connection
        finally:
            await connection.close()

    def ddl(self, table: str) -> Sequence[str]:
        return orders.postgres_ddl(table)

    async def make(self, rows: int | Iterable[Mapping[str, object]] = 0, table: str = "order_dlq") -> None:
        made = list(map(order_row, range(rows)) if isinstance(rows, int) else rows)

        async def work(connection: Any) -> None:
            await connection.execute(";\n".join(self.ddl(table)))
            await self._fill(connection, made, table)

        await in_session(self.target, work)

    async def insert(self, row: Mapping[str, object], table: str = "order_dlq") -> None:
        await self.fill([row], table)

    async def fill(self, rows: Sequence[Mapping[str, object]], table: str = "order_dlq") -> None:
        await in_session(self.target, lambda connection: self._fill(connection, rows, table))

    async def _fill(self, connection: Any, rows: Sequence[Mapping[str, object]], table: str) -> None:
        async with connection.transaction():
            for row in rows:
                marks = ", ".join(f"${n}" for n in range(1, len(row) + 1))
                await connection.execute(f'INSERT INTO "{table}" ({", ".join(row)}) VALUES ({marks})', *row.values())

    async def schema(self) -> list[tuple[Any, ...]]:
        return await self.sql(
            "SELECT n.nspname::text, c.relname::text, c.relkind::text FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' "
            "UNION ALL SELECT nspname::text, '', '' FROM pg_namespace "
            "WHERE nspname !~ '^pg_(temp|toast)_' ORDER BY 1, 2, 3"
        )

    async def role(self, name: str, *grants: str) -> str:
        """A login role with these rights (`GRANT … TO role`), gone with the server. → its target."""
        unique = f"{name}_{self.target.rpartition('/')[2]}"
        given = [f"GRANT {grant} TO {orders.quoted(unique)}" for grant in grants]
        made = ";\n".join([f"CREATE ROLE {orders.quoted(unique)} LOGIN", *given])
        await in_session(self.target, lambda connection: connection.execute(made))
        return self.target.replace("postgres@", f"{quote(unique, safe='')}@", 1)


def sqlite_rig(folder: Path) -> SQLiteRig:
    return SQLiteRig(str(folder / "store.db"))


def table_findings(store: Store) -> tuple[Finding, ...]:
    """What attaching found of the table itself: the tests log in as a superuser, which is a finding of its own."""
    return tuple(finding for finding in store.info.findings if finding.code != "superuser")


async def ids(store: Store, where: Filter = EVERYTHING, limit: int = 1000) -> list[str]:
    return [entry.id for entry in (await store.page(where, limit=limit)).entries]


async def entry_of(store: Store, number: int = 0) -> Entry:
    found = await store.get(f"dlq_{number:016x}")
    assert found is not None
    return found


async def pick(store: Store, *numbers: int) -> Selection:
    return Selection.of([await entry_of(store, number) for number in numbers])


async def attempt_on(store: Store, number: int = 0, result: Result | None = None, intent: Intent = INTENT) -> Claim:
    """Claim and intend; with a result, also conclude."""
    entry = await entry_of(store, number)
    claim = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert isinstance(claim, Claim), claim
    intended = await store.intend(claim, intent, ACTOR, why("replay"))
    assert intended.entry_id == entry.id
    assert hasattr(intended, "attempt_no"), intended
    if result is not None:
        assert await store.conclude(claim, result, ACTOR, why("replay"))
    return claim


async def walk(store: Store, where: Filter = EVERYTHING, *, limit: int = 3, newest_first: bool = False) -> list[Entry]:
    """Every page forwards, each checked against the way back."""
    entries: list[Entry] = []
    place = None
    while True:
        page = await store.page(where, limit=limit, after=place, newest_first=newest_first)
        entries += page.entries
        if not page.more:
            return entries
        place = page.entries[-1].row_key


async def walk_back(
    store: Store, where: Filter, last: Entry, *, limit: int = 3, newest_first: bool = False
) -> list[Entry]:
    entries = [last]
    while True:
        page = await store.page(where, limit=limit, before=entries[0].row_key, newest_first=newest_first)
        entries = [*page.entries, *entries]
        if not page.more:
            return entries


async def events_of(store: Store) -> list[AuditEvent]:
    return [event async for block in store.audit() for event in block]


async def verdict(store: Store, head: Head | None = None) -> tuple[str | None, Head]:
    verifier = Verifier(head)
    async for block in store.audit():
        if not verifier.feed(block):
            break
    return verifier.finish(), verifier.head


def only(*states: State) -> Filter:
    return Filter(states=frozenset(states))


def recount(entries: Iterable[Entry]) -> dict[str, int]:
    tally: dict[str, int] = {}
    for entry in entries:
        tally[entry.state] = tally.get(entry.state, 0) + 1
    return tally


async def choose(store: Store, *wanted: str) -> Selection:
    """These entries, as they are now."""
    return Selection.of(list((await store.many(wanted)).values()))


async def set_event_times(target: str, when: Callable[[str], datetime]) -> None:
    """On Postgres the database tells the time of an act; give each event the time that its operation stands for."""
    if not target.startswith("postgresql"):
        return
    connection = await asyncpg.connect(target)
    try:
        await connection.execute("ALTER TABLE dlq_console.audit DISABLE TRIGGER ALL")
        for seq, body in await connection.fetch("SELECT seq, body FROM dlq_console.audit"):
            event = json.loads(body)
            told = json.dumps(event | {"at": when(event["operation"]).isoformat()}).encode()
            await connection.execute("UPDATE dlq_console.audit SET body = $2 WHERE seq = $1", seq, told)
    finally:
        await connection.close()
