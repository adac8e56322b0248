"""The ledger is made by the first act, never by looking; roles without rights on it are told what to ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from backends.records import STATES, Filter, Selection
from backends.sql.store import SQLStore
from backends.store import ActRefused, Claim, Result
from tests.support.store import (
    ACTOR,
    EVERYTHING,
    INTENT,
    PostgresRig,
    Rig,
    attempt_on,
    entry_of,
    events_of,
    ids,
    pick,
    verdict,
    why,
)

FIRST = "dlq_0000000000000000"


async def look_at_everything(store: SQLStore) -> None:
    await store.page(Filter(), limit=5)
    await store.page(Filter(terms=("x",)), limit=5, newest_first=True)
    await store.get(FIRST)
    await store.many((FIRST,))
    for states in (Filter(), EVERYTHING, Filter(states=frozenset(STATES), venue="alpaca")):
        await store.counts(states)
    for read in (store.attempts, store.events, store.notes):
        await read(FIRST)
    await store.open_attempts()
    await store.halted()
    await store.store_id()
    await store.clock()
    assert [block async for block in store.audit()] == []
    changes = store.changes()
    async with asyncio.timeout(30):
        await anext(changes)
    await changes.aclose()  # type: ignore[attr-defined]  # it is an async generator


@pytest.mark.parametrize("read_only", [True, False])
async def test_looking_leaves_the_schema_untouched(store_rig: Rig, read_only: bool) -> None:
    await store_rig.make(3)
    before = await store_rig.schema()
    store = await store_rig.open(read_only=read_only)
    await look_at_everything(store)
    await store.aclose()
    assert await store_rig.schema() == before


async def test_the_first_act_makes_the_ledger(store_rig: Rig) -> None:
    await store_rig.make(2)
    before = await store_rig.schema()
    store = await store_rig.open()
    assert store.ledger == "absent"
    await store.note(FIRST, ACTOR, why(note="n"))
    after = await store_rig.schema()
    assert set(before) < set(after)
    made = {row[1] for row in after} - {row[1] for row in before}
    if store_rig.on_postgres:
        assert {row[0] for row in after if row not in before} == {"dlq_console"}
    else:
        assert all(name.startswith(("console_", "sqlite_")) for name in made)


async def test_two_consoles_make_it_at_once(store_rig: Rig) -> None:
    await store_rig.make(4)
    stores = [await store_rig.open() for _ in range(4)]
    await asyncio.gather(*(store.note(FIRST, ACTOR, why(note=f"{n}")) for n, store in enumerate(stores)))
    assert len(await stores[0].notes(FIRST)) == 4
    assert (await verdict(stores[0]))[0] is None
    assert len({await store.store_id() for store in stores}) == 1


async def test_an_act_that_fails_first_leaves_no_ledger(store_rig: Rig) -> None:
    await store_rig.make(1)
    await store_rig.sql("CREATE TABLE q AS SELECT * FROM order_dlq UNION ALL SELECT * FROM order_dlq")
    before = await store_rig.schema()
    store = await store_rig.open(table="q")
    with pytest.raises(ActRefused):
        await store.dismiss(await pick(store, 0), ACTOR, why())
    assert await store_rig.schema() == before
    await store.note(FIRST, ACTOR, why(note="now it is made"))
    assert len(await events_of(store)) == 1


async def test_read_only_acts_are_refused(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open(read_only=True)
    entry = await entry_of(store)
    acts: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: store.dismiss(Selection.of([entry]), ACTOR, why()),
        lambda: store.note(FIRST, ACTOR, why(note="n")),
        lambda: store.halt(ACTOR, why(note="n")),
        lambda: store.resume(ACTOR, why(note="n")),
        lambda: store.record("view", (), ACTOR, why()),
        lambda: store.claim(entry.id, entry.version, ACTOR, 30),
        lambda: store.release(Claim(entry.id, 1, entry.version)),
        lambda: store.intend(Claim(entry.id, 1, entry.version), INTENT, ACTOR, why()),
        lambda: store.conclude(Claim(entry.id, 1, entry.version), Result("accepted"), ACTOR, why()),
    )
    for act in acts:
        with pytest.raises(ActRefused, match="is attached read-only"):
            await act()


async def test_a_newer_ledger_is_looked_at_but_not_acted_on(store_rig: Rig) -> None:
    await store_rig.make(2)
    store = await store_rig.open()
    await attempt_on(store, 0, Result("unknown"))
    await store.aclose()
    await store_rig.sql(f"UPDATE {store_rig.ledger('meta')} SET value = '99' WHERE key = 'schema_version'")
    newer = await store_rig.open()
    assert "ledger-newer" in {finding.code for finding in newer.info.findings}
    assert (await entry_of(newer)).state == "in_doubt"
    with pytest.raises(ActRefused, match="made by a newer version of dlq-console"):
        await newer.dismiss(await pick(newer, 1), ACTOR, why())
    assert (await entry_of(newer, 1)).state == "pending"
    if not store_rig.on_postgres:
        return
    await store_rig.sql("UPDATE dlq_console.attempt SET state = 'something new'")
    assert (await entry_of(newer)).state == "in_doubt", "an unknown state is not called safe"


async def test_a_role_without_create_is_told_the_sql_and_it_works(postgres_store: PostgresRig) -> None:
    await postgres_store.make(5)
    operator = await postgres_store.role("Odd \"op's", "SELECT ON order_dlq", "UPDATE (dismissed) ON order_dlq")
    store = await postgres_store.open(target=operator)
    assert len(await ids(store)) == 5
    with pytest.raises(ActRefused, match="this role may not make it; an owner would run:\nCREATE SCHEMA") as refused:
        await store.dismiss(await pick(store, 0), ACTOR, why())
    assert len(await ids(store, Filter())) == 5, "looking still works"
    sql = str(refused.value).partition("an owner would run:\n")[2]
    async with postgres_store.connect() as owner:
        await owner.execute(sql)
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done == (FIRST,)
    await attempt_on(store, 1, Result("unknown"))
    await attempt_on(store, 2, Result("accepted", "v"))
    await store.note(FIRST, ACTOR, why(note="n"))
    await store.halt(ACTOR, why(note="n"))
    await store.resume(ACTOR, why(note="n"))
    await store.ask("plan", "two orders", ACTOR, why())
    assert (await verdict(store))[0] is None
    async with postgres_store.connect(operator) as connection:
        for table in ("audit", "audit_entry", "note", "attempt"):
            with pytest.raises(Exception, match="permission denied"):
                await connection.execute(f"DELETE FROM dlq_console.{table}")


async def test_a_role_that_cannot_read_the_ledger_looks_and_is_told(postgres_store: PostgresRig) -> None:
    await postgres_store.make(2)
    owner = await postgres_store.open()
    await attempt_on(owner, 0, Result("unknown"))
    auditor = await postgres_store.role("auditor", "SELECT ON order_dlq")
    store = await postgres_store.open(target=auditor)
    (finding,) = [one for one in store.info.findings if one.code == "ledger-unreadable"]
    assert "in doubt, replayed or halted is unknown" in finding.text
    assert len(await ids(store)) == 2
    assert await store.attempts(FIRST) == ()
    assert await store.halted() is None
    assert (await store.counts(EVERYTHING)).by_state == {"pending": 2, "dismissed": 0}
    with pytest.raises(ActRefused, match="this role may not use the console's ledger; an owner would run:"):
        await store.dismiss(await pick(store, 1), ACTOR, why())
    async with postgres_store.connect() as connection:
        await connection.execute(finding.sql)
    assert (await entry_of(store)).state == "in_doubt", "from now on it is seen"
    again = await postgres_store.open(target=auditor)
    assert "ledger-unreadable" not in {one.code for one in again.info.findings}
    assert (await again.dismiss(await pick(again, 1), ACTOR, why())).done == ("dlq_0000000000000001",)


async def test_a_role_that_may_read_but_not_update_is_told(postgres_store: PostgresRig) -> None:
    await postgres_store.make(2)
    await (await postgres_store.open()).note(FIRST, ACTOR, why(note="makes the ledger"))
    reader = await postgres_store.role(
        "reader", "SELECT ON order_dlq", "USAGE ON SCHEMA dlq_console", "SELECT ON ALL TABLES IN SCHEMA dlq_console"
    )
    store = await postgres_store.open(target=reader)
    assert len(await store.notes(FIRST)) == 1
    with pytest.raises(ActRefused, match="this role may not do that; an owner would run:") as refused:
        await store.dismiss(await pick(store, 0), ACTOR, why())
    async with postgres_store.connect() as owner:
        await owner.execute(str(refused.value).partition("an owner would run:\n")[2])
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done == (FIRST,)
