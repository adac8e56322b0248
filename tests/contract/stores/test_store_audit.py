"""The audit chain: six ways to tamper with it, each found; and that the ledger's own triggers resist."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest

from backends.ledger import audit_chain as chain
from backends.ledger.audit_chain import Head
from backends.records import AuditEvent
from backends.sql.store import SQLStore
from backends.store import Result
from console.services.triage.trail import AuditTrail
from console.services.triage.trail_filter import parse_trail_filter
from tests.support.store import ACTOR, BASE, EVERYTHING, Rig, attempt_on, events_of, ids, pick, verdict, why


async def filled(rig: Rig) -> SQLStore:
    """Ten entries and a chain of eight events."""
    await rig.make(10)
    store = await rig.open()
    for n in range(6):
        await store.dismiss(await pick(store, n), ACTOR, why(f"op-{n}"))
    await attempt_on(store, 7, Result("unknown"))
    return store


async def test_the_trail_is_read_backwards_with_each_replay_beside_its_outcome(store_rig: Rig) -> None:
    store = await filled(store_rig)
    newest = await store.latest(None, 3)
    assert [event.seq for event in newest] == [8, 7, 6]
    assert [event.seq for event in await store.latest(newest[-1].seq, 100)] == [5, 4, 3, 2, 1]
    assert newest[0] == (await events_of(store))[-1], "the same bytes as the chain"
    trail = AuditTrail(store, parse_trail_filter("kind:replay outcome:in_doubt", BASE))
    (row,) = await trail.step()
    assert (row.seq, row.outcome_seq, row.count, trail.is_over) == (7, 8, 1, True)
    by_id = AuditTrail(store, parse_trail_filter(f"id:dlq_{3:016x}", BASE))
    assert [one.seq for one in await by_id.step()] == [4]
    assert by_id.read == 1, "the store finds an entry's events by itself"
    everything = AuditTrail(store, parse_trail_filter("", BASE))
    assert [one.seq for one in await everything.step()] == [7, 6, 5, 4, 3, 2, 1]


async def disarm(rig: Rig) -> None:
    """What an attacker with the owner's rights does first."""
    audit = rig.ledger("audit")
    if rig.on_postgres:
        await rig.sql(f"ALTER TABLE {audit} DISABLE TRIGGER ALL")
    else:
        for kind in ("upd", "del", "ins"):
            await rig.sql(f"DROP TRIGGER console_audit_{kind}")


def mark(rig: Rig, position: int = 1) -> str:
    return f"${position}" if rig.on_postgres else "?"


async def edit(rig: Rig) -> None:
    audit = rig.ledger("audit")
    ((body,),) = await rig.sql(f"SELECT body FROM {audit} WHERE seq = 4")
    forged = bytes(body).replace(b'"ann"', b'"eve"')
    assert forged != bytes(body)
    await rig.sql(f"UPDATE {audit} SET body = {mark(rig)} WHERE seq = 4", forged)


async def delete(rig: Rig) -> None:
    audit = rig.ledger("audit")
    await rig.sql(f"DELETE FROM {audit} WHERE seq = 3")
    for seq in range(4, 9):  # closing the ranks so that no number is missing
        await rig.sql(f"UPDATE {audit} SET seq = {seq - 1} WHERE seq = {seq}")


async def gap(rig: Rig) -> None:
    await rig.sql(f"DELETE FROM {rig.ledger('audit')} WHERE seq = 3")


async def reorder(rig: Rig) -> None:
    audit = rig.ledger("audit")
    for old, new in ((3, 103), (5, 3), (103, 5)):
        await rig.sql(f"UPDATE {audit} SET seq = {new} WHERE seq = {old}")


async def truncate(rig: Rig) -> None:
    await rig.sql(f"DELETE FROM {rig.ledger('audit')} WHERE seq > 6")


async def rewrite(rig: Rig) -> None:
    """The whole chain anew, consistent in itself."""
    audit, previous = rig.ledger("audit"), chain.GENESIS
    for seq, stored in await rig.sql(f"SELECT seq, body FROM {audit} ORDER BY seq"):
        body = bytes(stored).replace(b'"ann"', b'"eve"')
        previous = chain.link(previous, body)
        await rig.sql(f"UPDATE {audit} SET body = {mark(rig)}, hash = {mark(rig, 2)} WHERE seq = {seq}", body, previous)


Tamper = Callable[[Rig], Awaitable[None]]


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (edit, "event 4 was altered, moved or inserted"),
        (delete, "event 3 was altered, moved or inserted"),
        (gap, "event 3 is missing (the next one there is 4)"),
        (reorder, "event 3 was altered, moved or inserted"),
    ],
)
async def test_tampering_is_found(store_rig: Rig, tamper: Tamper, says: str) -> None:
    store = await filled(store_rig)
    assert (await verdict(store))[0] is None
    await disarm(store_rig)
    await tamper(store_rig)
    assert (await verdict(store))[0] == says


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (truncate, "only 6 of the 8 events known elsewhere are there: truncated"),
        (rewrite, "event 8 differs from the head kept elsewhere: rewritten"),
    ],
)
async def test_truncation_and_rewriting_are_found_by_a_head_kept_elsewhere(
    store_rig: Rig, tamper: Tamper, says: str
) -> None:
    store = await filled(store_rig)
    problem, head = await verdict(store)
    assert problem is None
    assert head.count == 8
    kept = Head.parse(str(head))
    assert (await verdict(store, kept))[0] is None
    await store.note("dlq_0000000000000000", ACTOR, why(note="the chain may grow on"))
    assert (await verdict(store, kept))[0] is None
    await disarm(store_rig)
    await tamper(store_rig)
    assert (await verdict(store))[0] is None, "without the head it looks whole"
    assert (await verdict(store, kept))[0] == says


@pytest.mark.parametrize("forged", ["3:00", "x:" + "0" * 64, ":", "", "5", "1:" + "g" * 64])
def test_a_head_that_is_none_is_refused(forged: str) -> None:
    with pytest.raises(ValueError, match=r"COUNT:HASH|non-hexadecimal"):
        Head.parse(forged)


async def test_the_chain_is_over_the_stored_bytes(store_rig: Rig) -> None:
    store = await filled(store_rig)
    previous = chain.GENESIS
    for number, event in enumerate(await events_of(store), start=1):
        assert event.seq == number
        assert event.hash == chain.link(previous, event.body)
        assert json.loads(event.body)["seq"] == number
        # On Postgres the database adds its own keys at the end, where nothing that was told can stand for them.
        assert store_rig.on_postgres or chain.canonical(json.loads(event.body)) == event.body
        previous = event.hash


async def test_the_ledgers_evidence_cannot_be_changed(store_rig: Rig) -> None:
    store = await filled(store_rig)
    await store.note("dlq_0000000000000000", ACTOR, why(note="n"))
    before = await events_of(store)
    table = store_rig.ledger
    attempts = (
        "entry_id attempt_no mode rehearsal venue client_order_id payload payload_hash started_at operator os_user"
    )
    statements = [
        *(
            f"UPDATE {table(name)} SET {column} = {column}"
            for name, column in (("audit", "body"), ("audit_entry", "seq"), ("note", "text"))
        ),
        *(f"UPDATE {table('attempt')} SET {column} = {column}" for column in attempts.split()),
        *(f"DELETE FROM {table(name)}" for name in ("audit", "audit_entry", "note", "attempt")),
    ]
    if store_rig.on_postgres:
        statements += [f"TRUNCATE {table(name)}" for name in ("audit", "audit_entry", "note", "attempt")]
        statements += [f"SET session_replication_role = replica; DELETE FROM {table('audit')}"]
    else:
        statements += [
            "INSERT OR REPLACE INTO console_audit SELECT * FROM console_audit WHERE seq = 2",
            "INSERT INTO console_audit SELECT seq + 100, body, hash FROM console_audit WHERE seq = 2",
            "INSERT OR REPLACE INTO console_note SELECT * FROM console_note",
            "INSERT OR REPLACE INTO console_attempt SELECT * FROM console_attempt",
        ]
    for statement in statements:
        with pytest.raises(Exception, match="append-only"):
            await run(store_rig, statement)
    assert await events_of(store) == before


async def run(rig: Rig, statement: str) -> None:
    if ";" not in statement:
        await rig.sql(statement)
        return
    async with rig.connect() as connection:  # type: ignore[attr-defined]  # several statements at once: Postgres alone
        await connection.execute(statement)


async def test_events_survive_in_blocks_of_any_size(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    for n in range(30):
        await store.record("view", (), ACTOR, why(f"op-{n}", note="x" * (300_000 if n in (3, 17) else 10)))
    blocks = [block async for block in store.audit()]
    events = [event for block in blocks for event in block]
    assert [event.seq for event in events] == list(range(1, 31))
    assert isinstance(events[0], AuditEvent)
    tail = [event async for block in store.audit(after=25) for event in block]
    assert [event.seq for event in tail] == [26, 27, 28, 29, 30]
    assert await ids(store, EVERYTHING) == ["dlq_0000000000000000"]
