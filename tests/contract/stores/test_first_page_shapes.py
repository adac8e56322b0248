"""The first page read with the bare driver equals the store's own, whatever the table is made of."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from backends import open_store
from backends.first_page import FirstPage, read_first_page
from backends.ledger.schema import create_statements
from backends.records import Filter, Selection, State
from backends.target import parse_target
from tests.support.integration import IntegrationRig
from tests.support.order_shapes import Shape, postgres_shape, sqlite_shape
from tests.support.outbox import OutboxRig, dead_row
from tests.support.store import ACTOR, why

HELD: frozenset[State] = frozenset({"in_doubt", "in_flight"})
PENDING: frozenset[State] = frozenset({"pending"})
_LIMIT = 8


async def assert_equal(target: str, table: str | None, said: object) -> FirstPage:
    store = await open_store(target, table=table)
    try:
        await store.counts(Filter())  # by now the store has looked for a ledger
        pending = await store.page(Filter(states=PENDING), limit=_LIMIT, newest_first=True)
        held = await store.page(Filter(states=HELD), limit=100, newest_first=True)
    finally:
        await store.aclose()
    page = await asyncio.to_thread(read_first_page, parse_target(target), limit=_LIMIT, table=table)
    assert page is not None, said
    assert page.entries == pending.entries, said
    assert (page.held, page.more) == (held.entries, pending.more), said
    assert (page.label, page.layout) == (store.info.label, store.info.layout)
    return page


@pytest.mark.parametrize("tens", range(15))
async def test_of_any_sqlite_table(tmp_path: Path, tens: int) -> None:
    for seed in range(tens * 10, tens * 10 + 10):
        shape = sqlite_shape(seed)
        path = tmp_path / f"{seed}.db"
        with closing(sqlite3.connect(path)) as connection:
            _make(connection, shape, ledger=seed % 2 == 1)
        await assert_equal(str(path), None, (seed, shape.statements))


def _make(connection: sqlite3.Connection, shape: Shape, *, ledger: bool) -> None:
    for statement in (*shape.statements, *(create_statements("sqlite") if ledger else ())):
        connection.execute(statement)
    connection.executemany(shape.insert, shape.rows)
    if ledger:
        connection.executemany(shape.insert_attempt("sqlite"), shape.attempts)
    connection.commit()


async def test_of_any_postgres_table(postgres_db: str) -> None:
    connection = await asyncpg.connect(postgres_db)
    try:
        for seed in range(50):
            shape = postgres_shape(seed)
            if seed == 15:
                for statement in create_statements("postgresql"):
                    await connection.execute(statement)
            for statement in shape.statements:
                await connection.execute(statement)
            if shape.rows:
                await connection.executemany(shape.insert, shape.rows)
            if shape.kind == "materialized":
                await connection.execute(f"REFRESH {shape.statements[-1].partition(' AS ')[0].removeprefix('CREATE ')}")
            if seed >= 15 and shape.attempts:
                await connection.executemany(shape.insert_attempt("postgresql"), shape.attempts)
            await assert_equal(postgres_db, shape.table, (seed, shape.statements))
    finally:
        await connection.close()


@pytest.mark.parametrize("partitioned", [False, True])
async def test_of_an_outbox(postgres_db: str, partitioned: bool) -> None:
    rig = OutboxRig(postgres_db)
    await rig.tables(dlq=None if partitioned else "outbox_dlq")
    if partitioned:
        await rig.partitioned()
    rows = [dead_row(n, **({"id": n // 2} if partitioned else {})) for n in range(11)]
    ids = await rig.dead(*rows, dead_row(11, last_exception="password=hunter2 " + "x" * 5000))
    await assert_equal(postgres_db, None, "without a ledger")
    store = await rig.store()
    done = await store.page(Filter(states=PENDING), limit=2, newest_first=True)
    await store.dismiss(Selection.of(done.entries), ACTOR, why())
    await rig.aclose()
    page = await assert_equal(postgres_db, None, "with one")
    assert len(page.entries) + len(done.entries) <= len(ids)
    assert not {one.id for one in done.entries} & {one.id for one in page.entries}


@pytest.mark.parametrize("soft_delete", [False, True])
async def test_of_failed_calls(postgres_db: str, soft_delete: bool) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables(soft_delete=soft_delete)
    await rig.failed(*range(1, 12))
    await assert_equal(postgres_db, None, "without a ledger")
    store = await rig.store()
    first = await store.page(Filter(states=PENDING), limit=1, newest_first=True)
    await store.dismiss(Selection.of(first.entries), ACTOR, why())
    await rig.aclose()
    await assert_equal(postgres_db, None, "with one")
