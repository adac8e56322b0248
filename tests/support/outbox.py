"""A rig around faststream-outbox's own tables on Postgres: made by the package, filled by its broker or by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from faststream_outbox import NoRetry, OutboxBroker, make_dlq_table, make_outbox_table
from faststream_outbox.annotations import OutboxMessage
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from backends import open_store
from backends.records import Entry, Filter
from backends.sql.other.store import OutboxStore
from backends.store import Change, ClaimRefused, Requeued
from tests.support.owner_session import rows_of
from tests.support.store import ACTOR, PostgresRig, why

BASE = datetime(2026, 4, 18, 14, 32, 15, tzinfo=UTC)


def dead_row(number: int, **changes: object) -> dict[str, object]:
    """A message that failed for good; the package's columns but its id."""
    row: dict[str, object] = {
        "original_id": 1000 + number,
        "queue": "orders",
        "payload": f'{{"n": {number}}}'.encode(),
        "headers": f'{{"content-type": "application/json", "correlation_id": "c-{number}"}}',
        "deliveries_count": 3,
        "created_at": BASE,
        "failed_at": BASE + timedelta(seconds=number),
        "failure_reason": "retry_terminal",
        "last_exception": f"ValueError('order {number} is bad')",
        "timer_id": None,
    }
    return row | changes


@dataclass
class OutboxRig(PostgresRig):
    outboxes: list[OutboxStore] = field(default_factory=list)

    async def tables(
        self, outbox: str | None = "outbox", dlq: str | None = "outbox_dlq", schema: str | None = None
    ) -> None:
        """As the package makes them."""
        metadata = MetaData(schema=schema)
        if schema is not None:
            await self.sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        if outbox is not None:
            make_outbox_table(metadata, outbox)
        if dlq is not None:
            make_dlq_table(metadata, dlq)
        async with self.engine() as engine, engine.begin() as connection:
            await connection.run_sync(metadata.create_all)

    async def partitioned(self) -> None:
        """A dead-letter table as the package advises for pruning: its key is (id, failed_at)."""
        await self.sql(
            "CREATE TABLE outbox_dlq (id bigserial, original_id bigint NOT NULL, queue varchar(255) NOT NULL, "
            "payload bytea NOT NULL, headers jsonb, deliveries_count bigint NOT NULL, created_at timestamptz NOT NULL, "
            "failed_at timestamptz NOT NULL DEFAULT now(), failure_reason varchar(64) NOT NULL, "
            "last_exception varchar, timer_id varchar(255), PRIMARY KEY (id, failed_at)) PARTITION BY RANGE (failed_at)"
        )
        await self.sql("CREATE TABLE p1 PARTITION OF outbox_dlq FOR VALUES FROM (MINVALUE) TO ('2026-04-18 14:32:18Z')")
        await self.sql("CREATE TABLE p2 PARTITION OF outbox_dlq FOR VALUES FROM ('2026-04-18 14:32:18Z') TO (MAXVALUE)")

    async def dead(self, *rows: Mapping[str, object] | int, table: str = "outbox_dlq") -> list[str]:
        """→ their ids."""
        made = []
        async with self.connect() as connection:
            for one in rows:
                row = dead_row(one) if isinstance(one, int) else one
                marks = ", ".join(f"${n}" for n in range(1, len(row) + 1))
                insert = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks}) RETURNING id"
                made.append(str(await connection.fetchval(insert, *row.values())))
        return made

    async def fail_again(self, error: str = "ValueError('still bad')", table: str = "outbox_dlq") -> list[str]:
        """Every row of the outbox fails for good, moved as the package's brokers move it. → ids of the dead letters"""
        sql = (
            f"WITH gone AS (DELETE FROM outbox RETURNING *) INSERT INTO {table} (original_id, queue, payload, headers, "
            "deliveries_count, created_at, failure_reason, last_exception, timer_id) SELECT id, queue, payload, "
            "headers, 1, created_at, 'retry_terminal', $1, timer_id FROM gone RETURNING id"
        )
        async with self.connect() as connection:
            return [str(row[0]) for row in await connection.fetch(sql, error)]

    async def store(
        self, *, target: str | None = None, read_only: bool = False, table: str | None = None, **options: object
    ) -> OutboxStore:
        opened = await open_store(target or self.target, read_only=read_only, table=table, options=options)
        store = cast("OutboxStore", opened)
        self.outboxes.append(store)
        return store

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[AsyncEngine]:
        engine = create_async_engine(self.target.replace("postgresql://", "postgresql+asyncpg://"))
        try:
            yield engine
        finally:
            await engine.dispose()

    async def outbox_rows(self, table: str = "outbox") -> list[dict[str, Any]]:
        async with self.connect() as connection:
            return [dict(row) for row in await connection.fetch(f"SELECT * FROM {table} ORDER BY id")]

    async def aclose(self) -> None:
        for store in self.outboxes:
            await store.aclose()


@dataclass
class Consumer:
    """A running broker: what it was handed, and whether it fails for good."""

    failing: bool = False
    handled: list[tuple[bytes, dict[str, Any]]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, body: bytes, headers: dict[str, Any]) -> None:
        self.handled.append((body, headers))
        self._news.set()
        if self.failing:
            raise ValueError("no such instrument")

    async def until(self, count: int, seconds: float = 30) -> None:
        """Until it was handed at least this many."""
        async with asyncio.timeout(seconds):
            while len(self.handled) < count:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def broker(
    rig: OutboxRig, consumer: Consumer, *queues: str, max_deliveries: int | None = None, interval: float = 0.2
) -> AsyncIterator[Any]:
    """The package's own broker on the rig's tables; every failure is final. It looks every `interval` by itself."""
    metadata = MetaData()
    outbox, dlq = make_outbox_table(metadata), make_dlq_table(metadata)
    async with rig.engine() as engine:
        running = OutboxBroker(engine, outbox_table=outbox, dlq_table=dlq, logger=None)
        subscribe: Any = running.subscriber(
            list(queues or ("orders",)),
            retry_strategy=NoRetry(),
            max_deliveries=max_deliveries,
            min_fetch_interval=interval,
            max_fetch_interval=interval,
            lease_ttl_seconds=max(60.0, 3 * interval),
        )

        @subscribe  # type: ignore[untyped-decorator]  # the package is not typed for us
        async def take(message: OutboxMessage) -> None:
            await consumer.handle(bytes(message.body), dict(message.headers))

        await running.start()
        try:
            yield running
        finally:
            await running.stop()


async def entry(store: OutboxStore, entry_id: str) -> Entry:
    found = await store.get(entry_id)
    assert found is not None
    return found


async def requeue(store: OutboxStore, entry_id: str) -> Requeued | ClaimRefused:
    found = await entry(store, entry_id)
    return await store.requeue(entry_id, found.version, ACTOR, why("replay"))


async def settled_rows(target: str) -> list[tuple[Any, ...]]:
    if await rows_of(target, "SELECT to_regclass('dlq_console.settled')") == [(None,)]:
        return []
    return await rows_of(target, "SELECT entry_id, state FROM dlq_console.settled ORDER BY 1")


async def until_dead(store: OutboxStore, count: int, seconds: float = 30) -> tuple[Entry, ...]:
    """Until at least this many are in the queue: looked for whenever the store says that something changed."""
    watching = cast("AsyncGenerator[Change, None]", store.changes())
    async with asyncio.timeout(seconds), aclosing(watching) as changes:
        async for _ in changes:
            found = (await store.page(Filter(), limit=1000)).entries
            if len(found) >= count:
                return found
    raise AssertionError("a watch never ends by itself")
