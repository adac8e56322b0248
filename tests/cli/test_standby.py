"""A read replica can be looked at; acts are refused there with the reason, and changes are still noticed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from backends import open_store
from backends.sql.store import SQLStore
from tests.support.command import Console
from tests.support.postgres import Postgres
from tests.support.standby import Standby
from tests.support.store import ACTOR, PostgresRig, order_row, pick, why
from tests.support.watch import listening

_FIRST = "dlq_0000000000000000"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Postgres, Standby]]:
    primary = Postgres().start()
    standby = Standby(primary)
    try:
        if not standby.is_possible:
            pytest.skip("this Postgres has no pg_basebackup")
        asyncio.run(_filled(primary))
        standby.start()
        yield primary, standby
    finally:
        standby.stop()
        primary.stop()


async def _filled(primary: Postgres) -> None:
    rig = PostgresRig(primary.dsn("postgres"))
    await rig.make(3)
    store = await rig.open()
    await store.note(_FIRST, ACTOR, why(note="the ledger is there"))
    await store.dismiss(await pick(store, 2), ACTOR, why())
    await rig.aclose()


def test_looking_works_and_acts_are_refused_with_the_reason(servers: tuple[Postgres, Standby], tmp_path: Path) -> None:
    dlq = Console(tmp_path, servers[1].dsn("postgres"), "http://127.0.0.1:9")
    assert dlq.inline("list").out.count("dlq_") == 2
    for words in (("show", _FIRST), ("groups",), ("metrics",), ("audit", "verify"), ("export", "--format", "csv")):
        assert dlq.inline(*words).code == 0, words
    assert dlq.inline("check").code == 1, "its orders are old"
    report = json.loads(dlq.inline("doctor", "--json").out)
    assert (report["read_only"], report["read_only_enforced_by"]) == (True, "database")
    assert "standby" in {finding["code"] for finding in report["findings"]}
    acts = (
        ("dismiss", _FIRST, "--reason", "other", "--note", "x", "--yes"),
        ("restore", "dlq_0000000000000002", "--yes"),
        ("replay", _FIRST, "--paper", "--yes"),
        ("reconcile", "--paper"),
        ("halt",),
    )
    for act in acts:
        ran = dlq.inline(*act)
        assert (ran.code, "standby" in ran.err) == (4, True), (act, ran.err)


async def test_a_change_on_the_primary_is_noticed(servers: tuple[Postgres, Standby]) -> None:
    primary, standby = servers
    store = await open_store(standby.dsn("postgres"))
    assert isinstance(store, SQLStore)
    async with listening(store) as ear:
        await PostgresRig(primary.dsn("postgres")).insert(order_row(7))
        while await store.get("dlq_0000000000000007") is None:
            assert (await ear.next()).kind == "changed"
    await store.aclose()


async def test_no_transaction_stays_open(servers: tuple[Postgres, Standby]) -> None:
    """It would hold back the replay of changes, or be cancelled by it."""
    store = await open_store(servers[1].dsn("postgres"))
    await store.get(_FIRST)
    watching = await asyncpg.connect(servers[1].dsn("postgres"))
    idle = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    assert await watching.fetchval(idle) == 0
    await watching.close()
    await store.aclose()
