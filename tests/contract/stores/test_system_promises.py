"""What faststream-outbox promises of its dead-letter table, through the console: its own broker writes the rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from faststream.exceptions import RejectMessage
from faststream_outbox import ConstantRetry, OutboxBroker, make_dlq_table, make_outbox_table
from faststream_outbox.annotations import OutboxMessage
from sqlalchemy import MetaData

from backends.records import Filter
from console.services.errors.fingerprint import CUT
from console.services.layout_fields import error_text
from tests.support.outbox import OutboxRig, entry, until_dead
from tests.support.store import ids

_LONGEST = 8192  # characters of an exception that the package keeps


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


@dataclass
class Handler:
    """Does to a message what its body says."""

    handled: list[bytes] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, body: bytes) -> None:
        self.handled.append(body)
        self.news.set()
        match body:
            case b"reject":
                raise RejectMessage
            case b"fail":
                raise ValueError("x" * 2 * _LONGEST)


@asynccontextmanager
async def _broker(rig: OutboxRig, handler: Handler) -> AsyncIterator[Any]:
    """Gives up after one try, and hands nothing out more than twice."""
    metadata = MetaData()
    outbox, dlq = make_outbox_table(metadata), make_dlq_table(metadata)
    async with rig.engine() as engine:
        running = OutboxBroker(engine, outbox_table=outbox, dlq_table=dlq, logger=None)
        subscribe: Any = running.subscriber(
            ["orders"],
            retry_strategy=ConstantRetry(delay_seconds=0.1, max_attempts=1),
            max_deliveries=2,
            min_fetch_interval=0.1,
            max_fetch_interval=0.1,
        )

        @subscribe  # type: ignore[untyped-decorator]  # the package is not typed for us
        async def take(message: OutboxMessage) -> None:
            await handler.handle(bytes(message.body))

        await running.start()
        try:
            yield running
        finally:
            await running.stop()


async def test_each_reason_is_the_packages_own_and_what_was_acked_is_not_there(rig: OutboxRig) -> None:
    handler = Handler()
    await rig.sql(
        "INSERT INTO outbox (queue, payload, deliveries_count) VALUES "
        "('orders', 'fine', 0), ('orders', 'reject', 0), ('orders', 'fail', 0), ('orders', 'too often', 2)"
    )
    async with _broker(rig, handler):
        store = await rig.store()
        found = {one.get("payload"): one for one in await until_dead(store, 3)}
    assert {body: one.text("failure_reason") for body, one in found.items()} == {
        b"reject": "rejected",
        b"fail": "retry_terminal",
        b"too often": "max_deliveries",
    }
    assert b"too often" not in handler.handled
    assert b"fine" in handler.handled
    assert await rig.outbox_rows() == []
    assert found[b"too often"].get("last_exception") is None
    assert error_text(found[b"too often"]) == "max_deliveries"
    whole = await entry(store, found[b"fail"].id)
    assert len(whole.text("last_exception")) == _LONGEST
    assert whole.text("last_exception").endswith(CUT)


async def test_a_move_that_fails_leaves_the_message_in_the_outbox_under_its_lease(rig: OutboxRig) -> None:
    """One statement deletes and inserts. The console lists nothing, and the leased row is the trace."""
    await rig.sql("ALTER TABLE outbox_dlq ADD CHECK (queue <> 'orders')")
    handler = Handler()
    await rig.sql("INSERT INTO outbox (queue, payload) VALUES ('orders', 'reject')")
    async with _broker(rig, handler), asyncio.timeout(30):
        await handler.news.wait()
    store = await rig.store()
    assert await ids(store, Filter()) == []
    (left,) = await rig.outbox_rows()
    assert (left["payload"], left["acquired_token"] is not None) == (b"reject", True)


async def test_whoever_lost_the_lease_moves_nothing(rig: OutboxRig) -> None:
    """Another worker took the message over while the first one still held it."""
    handler = Handler()
    await rig.sql("INSERT INTO outbox (queue, payload) VALUES ('orders', 'reject')")

    async def taken_over(body: bytes) -> None:
        await rig.sql("UPDATE outbox SET acquired_token = gen_random_uuid()")
        await Handler.handle(handler, body)

    handler.handle = taken_over  # type: ignore[method-assign]  # loses its lease while it works
    async with _broker(rig, handler), asyncio.timeout(30):
        await handler.news.wait()
    assert await ids(await rig.store(), Filter()) == []
    assert [row["payload"] for row in await rig.outbox_rows()] == [b"reject"]
