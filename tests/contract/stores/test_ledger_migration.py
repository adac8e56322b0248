"""Ledgers that earlier versions made: looked at as they are, migrated by the first act, and nothing is lost.

Each file in tests/data/ledgers is a dump of a store that the named commit's own code filled, one for every shape that a
ledger of version 1 had, and one of version 2, which that version made of such a store.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backends.first_page import read_first_page
from backends.ledger.audit_chain import Head
from backends.ledger.migrations import migration_statements
from backends.ledger.names import VERSION
from backends.ledger.roles import hand_over_sql
from backends.ledger.schema import create_statements
from backends.ledger.shape import LedgerShape
from backends.records import Attempt, Filter
from backends.sql.store import SQLStore
from backends.store import ActRefused, Claim, ClaimRefused, Intent, Result
from backends.target import parse_target
from tests.support.store import (
    ACTOR,
    BASE,
    EVERYTHING,
    OTHER,
    PostgresRig,
    Rig,
    SQLiteRig,
    entry_of,
    events_of,
    ids,
    only,
    pick,
    recount,
    verdict,
    walk,
    why,
)

LEDGERS = Path(__file__).parents[2] / "data" / "ledgers"
VERSIONS = ("v1_9c3d3c4", "v1_a0edd41", "v1_d81cbeb", "v1_6485dbd", "v1_b144b71", "v2_40ddbf8")
STATES = {0: "replayed", 1: "in_doubt", 2: "in_flight", 3: "pending", 4: "pending", 5: "replayed", 6: "pending"}
COUNTS = {"pending": 7, "in_flight": 1, "in_doubt": 1, "replayed": 2, "dismissed": 33}


def id_of(number: int) -> str:
    return f"dlq_{number:016x}"


async def load(rig: Rig, version: str) -> None:
    text = (LEDGERS / f"{version}.{rig.dialect}.sql").read_text()
    if isinstance(rig, SQLiteRig):
        connection = rig.connect()
        connection.executescript(text)
        connection.close()
    elif isinstance(rig, PostgresRig):
        async with rig.connect() as server:
            await server.execute(text)


async def version_of(rig: Rig) -> str:
    rows = await rig.sql(f"SELECT value FROM {rig.ledger('meta')} WHERE key = 'schema_version'")
    return str(rows[0][0])


async def kinds_of(store: SQLStore, number: int) -> list[str]:
    return [json.loads(event.body)["kind"] for event in await store.events(id_of(number))]


async def check_what_it_knew(store: SQLStore) -> None:
    """Everything that the earlier version wrote, whether or not the ledger was migrated since."""
    assert {n: (await entry_of(store, n)).state for n in STATES} == STATES
    assert {entry.id: entry.state for entry in await walk(store) if entry.state == "in_doubt"} == {id_of(1): "in_doubt"}
    assert await ids(store, only("in_flight", "in_doubt")) == [id_of(1), id_of(2)]
    assert await ids(store, only("replayed")) == [id_of(0), id_of(5)]
    halt = await store.halted()
    assert halt is not None
    assert (halt.operator, halt.note) == ("bob", "venue is odd")
    assert [note.text for note in await store.notes(id_of(7))] == ["seen"]
    (doubted,) = await store.attempts(id_of(1))
    assert (doubted.mode, doubted.outcome, doubted.error, doubted.payload) == (
        "live",
        "unknown",
        "timeout",
        b'{"qty":1}',
    )
    assert (doubted.account, doubted.key_digest) == (None, None)
    assert [one.entry_id for one in await store.open_attempts()] == [id_of(1), id_of(2), id_of(4)]
    assert set(await store.attempts_of((id_of(0), id_of(3), id_of(9)))) == {id_of(0), id_of(3)}
    assert await kinds_of(store, 1) == ["intent", "outcome"]
    assert await kinds_of(store, 8) == ["dismiss", "restore"]
    assert await kinds_of(store, 41) == ["dismiss"]
    assert (await store.approval("approved"), await store.approval("waiting")) == (None, None)
    assert {entry.id for entry in await store.replayed_since(BASE)} == {id_of(0), id_of(5)}


@pytest.mark.parametrize("version", VERSIONS)
async def test_looking_at_an_older_ledger_works_and_changes_nothing(store_rig: Rig, version: str) -> None:
    await load(store_rig, version)
    before = await store_rig.schema()
    store = await store_rig.open(read_only=True)
    (finding,) = [one for one in store.info.findings if one.code.startswith("ledger")]
    assert (finding.code, finding.sql) == ("ledger-older", "")
    await check_what_it_knew(store)
    assert (await store.counts(EVERYTHING)).by_state == COUNTS
    assert recount(await walk(store)) == COUNTS
    assert await store.approvals() == ()
    problem, head = await verdict(store)
    assert problem is None
    assert await store.event_hash(head.count) == head.hash
    assert await store.event_hash(head.count + 1) is None
    assert await store_rig.schema() == before
    assert await version_of(store_rig) == version[1]
    if not store_rig.on_postgres:
        first = read_first_page(parse_target(store_rig.target), limit=100)
        assert first is not None
        assert [entry.id for entry in first.held] == [id_of(2), id_of(1)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_first_act_migrates_and_keeps_everything(store_rig: Rig, version: str) -> None:
    await load(store_rig, version)
    store, looking = await store_rig.open(), await store_rig.open(read_only=True)
    _, kept = await verdict(store)
    store_id = await store.store_id()
    await looking.attempts(id_of(1))
    result = await store.dismiss(await pick(store, 3), ACTOR, why("dismiss"))
    assert result.done == (id_of(3),)
    assert await version_of(store_rig) == VERSION == "4"
    assert await store.store_id() == store_id
    assert await verdict(store, kept) == (None, Head(kept.count + 2, (store.head or (0, b""))[1]))
    migrated = [json.loads(event.body) for event in await events_of(store)][kept.count]
    assert (migrated["kind"], migrated["from"], migrated["to"], migrated["entries"]) == (
        "ledger-migrated",
        version[1],
        VERSION,
        [],
    )
    states_now = STATES | {3: "dismissed"}
    assert {n: (await entry_of(store, n)).state for n in states_now} == states_now
    await store.restore(await pick(store, 3), ACTOR, why("restore"))
    await check_what_it_knew(store)
    await check_what_it_knew(looking)
    again = await store_rig.open()
    assert not [one for one in again.info.findings if one.code.startswith("ledger")]
    await check_what_it_knew(again)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_migrated_ledger_takes_every_act(store_rig: Rig, version: str) -> None:
    await load(store_rig, version)
    store = await store_rig.open()
    entry = await entry_of(store, 7)
    halted = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert isinstance(halted, ClaimRefused)
    assert halted.code == "halt", "the halt of the earlier version is in force"
    await store.resume(ACTOR, why("resume"))
    claim = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert isinstance(claim, Claim)
    intent = Intent("live", "alpaca", "cid-7", b"{}", "hash", account="PA1", key_digest="d1")
    attempt = await store.intend(claim, intent, ACTOR, why("replay"))
    assert isinstance(attempt, Attempt)
    assert await store.conclude(claim, Result("accepted", "v-7"), ACTOR, why("replay"))
    (read,) = await store.attempts(id_of(7))
    assert (read.account, read.key_digest, read.outcome) == ("PA1", "d1", "accepted")
    (doubted,) = await store.attempts(id_of(1))
    assert await store.settle(doubted, Result("accepted", "v-1"), ACTOR, why("settle"))
    assert not await store.approve("waiting", OTHER, why("approve")), "what an earlier version asked for has lapsed"
    await store.ask("waiting", "again", ACTOR, why("ask"))
    assert await store.approve("waiting", OTHER, why("approve"))
    assert [one.plan_hash for one in await store.approvals()] == ["waiting"]
    await store.dismiss(await pick(store, 8, 42), ACTOR, why("dismiss"))
    assert (await verdict(store))[0] is None
    with pytest.raises(Exception, match=r"append-only|WORM"):
        await store_rig.sql(f"UPDATE {store_rig.ledger('attempt')} SET key_digest = 'x'")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_migrated_ledger_looks_like_a_new_one(store_rig: Rig, version: str, tmp_path: Path) -> None:
    await load(store_rig, version)
    store = await store_rig.open()
    await store.record("view", (), ACTOR, why())
    if store_rig.on_postgres:
        columns = await _postgres_columns(store_rig)
        constraints = await _postgres_constraints(store_rig)
        await store.aclose()
        await store_rig.sql("DROP SCHEMA dlq_console CASCADE")
        for statement in create_statements("postgresql"):
            await store_rig.sql(statement)
        assert columns == await _postgres_columns(store_rig)
        assert constraints == await _postgres_constraints(store_rig)
        return
    fresh = SQLiteRig(str(tmp_path / "fresh.db"))
    for statement in create_statements("sqlite"):
        await fresh.sql(statement)
    made = {(kind, name): _plain(sql) for kind, name, sql in await store_rig.schema() if name.startswith("console_")}
    assert made == {
        (kind, name): _plain(sql) for kind, name, sql in await fresh.schema() if name.startswith("console_")
    }


def _plain(sql: str) -> str:
    return "".join(sql.split()).replace('"', "").replace("IFNOTEXISTS", "")


async def _postgres_columns(rig: Rig) -> set[tuple[object, ...]]:
    return set(
        await rig.sql(
            "SELECT table_name::text, column_name::text, data_type::text, is_nullable::text, column_default::text "
            "FROM information_schema.columns WHERE table_schema = 'dlq_console'"
        )
    )


async def _postgres_constraints(rig: Rig) -> list[tuple[object, ...]]:
    rules = (
        "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'dlq_console'::regnamespace AND contype IN ('p', 'u') ORDER BY 1, 2"
    )
    triggers = (
        "SELECT tgname::text, pg_get_triggerdef(t.oid) || t.tgenabled::text FROM pg_trigger t JOIN pg_class c "
        "ON c.oid = tgrelid WHERE c.relnamespace = 'dlq_console'::regnamespace ORDER BY 1, 2"
    )
    return [*await rig.sql(rules), *await rig.sql(triggers)]


async def test_two_consoles_that_migrate_at_once(store_rig: Rig) -> None:
    await load(store_rig, VERSIONS[0])
    stores = [await store_rig.open() for _ in range(4)]
    await asyncio.gather(*(store.note(id_of(9), ACTOR, why(note=f"{n}")) for n, store in enumerate(stores)))
    assert len(await stores[0].notes(id_of(9))) == 4
    told = [json.loads(event.body)["kind"] for event in await events_of(stores[0])]
    assert told.count("ledger-migrated") == 1
    assert (await verdict(stores[0]))[0] is None


KILLED = """
import asyncio, os, signal, sys
from backends import open_store
from backends.records import ActContext, Actor
from backends.sql import writer
from datetime import UTC, datetime

stop, target = int(sys.argv[1]), sys.argv[2]
every = writer.migration_statements

def cut(shape):
    for number, statement in enumerate(every(shape)):
        if number == stop:
            os.kill(os.getpid(), signal.SIGKILL)
        yield statement
    os.kill(os.getpid(), signal.SIGKILL)

writer.migration_statements = cut

async def main():
    store = await open_store(target)
    await store.note("dlq_0000000000000009", Actor("a", "b", "c", "d"), ActContext(datetime.now(UTC), "o", note="n"))

asyncio.run(main())
"""


@pytest.mark.parametrize("part", [0.2, 0.5, 1.0])
async def test_a_console_killed_in_the_middle_leaves_the_old_ledger(store_rig: Rig, part: float) -> None:
    await load(store_rig, VERSIONS[0])
    before = await store_rig.schema()
    stop = int(part * len(migration_statements(LedgerShape(store_rig.dialect, frozenset({("attempt", "id")})))))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    dead = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", KILLED, str(stop), store_rig.target], env=environment
    )
    assert dead.returncode == -signal.SIGKILL
    store = await store_rig.open()
    assert await store_rig.schema() == before
    assert await version_of(store_rig) == "1"
    await check_what_it_knew(store)
    await store.note(id_of(9), ACTOR, why(note="n"))
    assert await version_of(store_rig) == VERSION
    await check_what_it_knew(store)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_role_that_may_not_migrate_is_told_the_sql_and_it_works(
    postgres_store: PostgresRig, version: str
) -> None:
    await load(postgres_store, version)
    rights = ("SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA dlq_console", "USAGE ON SCHEMA dlq_console")
    sequences = "USAGE ON ALL SEQUENCES IN SCHEMA dlq_console"
    on_store = ("SELECT ON order_dlq", "UPDATE (dismissed, retry_count) ON order_dlq")
    operator = await postgres_store.role("operator", *rights, sequences, *on_store)
    second = await postgres_store.role("second", *rights, sequences, *on_store)
    store = await postgres_store.open(target=operator)
    (finding,) = [one for one in store.info.findings if one.code == "ledger-older"]
    assert "ALTER TABLE dlq_console.attempt" in finding.sql
    await check_what_it_knew(store)
    _, kept = await verdict(store)
    with pytest.raises(ActRefused, match="this role may not migrate it; an owner would run:") as refused:
        await store.dismiss(await pick(store, 3), ACTOR, why())
    sql = str(refused.value).partition("an owner would run:\n")[2]
    assert sql == finding.sql
    await check_what_it_knew(store)
    async with postgres_store.connect() as owner:
        await owner.execute(sql)
    for target, number in ((operator, 42), (second, 43)):
        acting = await postgres_store.open(target=target)
        assert not [one for one in acting.info.findings if one.code.startswith("ledger")]
        assert (await acting.dismiss(await pick(acting, number), ACTOR, why())).done == (id_of(number),)
        await check_what_it_knew(acting)
    told = [json.loads(event.body) for event in await events_of(store)]
    assert [one["kind"] for one in told[kept.count :]] == ["ledger-migrated", "dismiss", "dismiss"]
    assert (await verdict(store, kept))[0] is None
    assert (await store.page(Filter(), limit=3)).entries


async def test_an_older_ledger_that_a_backup_brings_back_is_migrated_again(postgres_store: PostgresRig) -> None:
    await load(postgres_store, VERSIONS[-1])
    store = await postgres_store.open()
    await store.note(id_of(9), ACTOR, why(note="n"))
    assert (await store.attempts(id_of(1)))[0].outcome == "unknown"
    head = store.head
    assert head is not None
    async with postgres_store.connect() as server:
        await server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        await server.execute("DROP SCHEMA dlq_console, public CASCADE; CREATE SCHEMA public")
    await load(postgres_store, VERSIONS[-1])
    assert await store.event_hash(head[0]) is None, "by this it is noticed"
    await check_what_it_knew(store)
    await store.note(id_of(9), ACTOR, why(note="again"))
    assert await version_of(postgres_store) == VERSION
    assert (await verdict(store))[0] is None


async def test_new_functions_belong_to_the_ledgers_owner(postgres_store: PostgresRig) -> None:
    """An administrator migrates a ledger of version 3 that was handed over; its functions call each other."""
    await postgres_store.make(10)
    await (await postgres_store.open()).note(id_of(9), ACTOR, why(note="n"))
    owner = f"owner_{postgres_store.target.rpartition('/')[2]}"
    async with postgres_store.connect() as server:
        await server.execute(hand_over_sql(owner))
        await server.execute("DROP TRIGGER attempt_role ON dlq_console.attempt")
        await server.execute("DROP FUNCTION dlq_console.attempt_role(), dlq_console.resume_agreed(timestamptz)")
        await server.execute("UPDATE dlq_console.meta SET value = '3' WHERE key = 'schema_version'")
    store = await postgres_store.open()
    await store.halt(ACTOR, why(note="odd"))
    assert await version_of(postgres_store) == VERSION
    owners = await postgres_store.sql(
        "SELECT DISTINCT pg_get_userbyid(proowner)::text FROM pg_proc "
        "WHERE pronamespace = 'dlq_console'::regnamespace AND proname <> 'worm'"
    )
    assert owners == [(owner,)]
    await store.resume(ACTOR, why(note="well again"))
    assert await store.halted() is None
