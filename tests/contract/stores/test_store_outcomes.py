"""Outcomes: what each does to its entry, who may settle it, and that a late word changes nothing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, Literal

import pytest

from backends.layouts import orders
from backends.sql.store import SQLStore
from backends.store import Claim, Intent, Result
from tests.support.store import (
    ACTOR,
    INTENT,
    OTHER,
    Rig,
    attempt_on,
    entry_of,
    events_of,
    order_row,
    verdict,
    why,
)

FIRST = "dlq_0000000000000000"
Outcome = Literal["accepted", "rejected", "unknown", "not_sent"]


async def claimed(store: SQLStore, number: int = 0, lease: float = 30) -> Claim:
    entry = await entry_of(store, number)
    claim = await store.claim(entry.id, entry.version, ACTOR, lease)
    assert isinstance(claim, Claim), claim
    return claim


async def kinds(store: SQLStore) -> list[str]:
    return [json.loads(event.body)["kind"] for event in await events_of(store)]


async def columns(rig: Rig, number: int = 0) -> tuple[Any, ...]:
    rows = await rig.sql(f"SELECT retry_count, dismissed FROM order_dlq WHERE dlq_id = 'dlq_{number:016x}'")
    return rows[0][0], bool(rows[0][1])


@pytest.mark.parametrize(
    ("outcome", "state", "retries", "dismissed"),
    [
        ("accepted", "replayed", 2, True),
        ("rejected", "pending", 3, False),
        ("unknown", "in_doubt", 3, False),
        ("not_sent", "pending", 2, False),
    ],
)
async def test_each_outcome(store_rig: Rig, outcome: Outcome, state: str, retries: int, dismissed: bool) -> None:
    await store_rig.make([order_row(0, retry_count=2), order_row(1)])
    store = await store_rig.open()
    order_id = "v-1" if outcome == "accepted" else None
    await attempt_on(store, 0, Result(outcome, order_id, error="what it said", evidence="HTTP 418"))
    assert (await entry_of(store)).state == state
    assert await columns(store_rig) == (retries, dismissed)
    assert await columns(store_rig, 1) == (0, False)
    (attempt,) = await store.attempts(FIRST)
    assert (attempt.outcome, attempt.venue_order_id, attempt.error) == (outcome, order_id, "what it said")
    assert attempt.finished_at == "2026-04-18T14:32:15+00:00"
    assert (await store.open_attempts() != ()) == (outcome == "unknown")
    last = json.loads((await store.events(FIRST))[-1].body)
    assert (last["kind"], last["outcome"], last["evidence"]) == ("outcome", outcome, "HTTP 418")
    expected: dict[str, object] = {"accepted": {"dismissed": True}, "not_sent": {}}
    assert last["after"] == expected.get(outcome, {"retry_count": 3})


@pytest.mark.parametrize("outcome", ["accepted", "rejected", "unknown", "not_sent"])
async def test_a_rehearsal_changes_nothing_of_the_entry(store_rig: Rig, outcome: Outcome) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await attempt_on(store, 0, Result(outcome, "v"), replace(INTENT, rehearsal=True))
    assert (await entry_of(store)).state == "pending"
    assert await columns(store_rig) == (0, False)
    (attempt,) = await store.attempts(FIRST)
    assert attempt.rehearsal is True
    assert attempt.outcome == outcome
    assert await kinds(store) == ["intent", "outcome"]
    await attempt_on(store, 0, Result("accepted", "v-2"))
    assert (await entry_of(store)).state == "replayed"
    assert [one.attempt_no for one in await store.attempts(FIRST)] == [1, 2]


async def test_a_rehearsal_in_flight_holds_nothing_but_its_claim(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await attempt_on(store, 0, None, replace(INTENT, rehearsal=True))
    assert (await entry_of(store)).state == "pending"
    assert len(await store.open_attempts()) == 1


@pytest.mark.parametrize(
    ("outcome", "state", "dismissed", "told"),
    [
        ("accepted", "replayed", True, "accepted"),
        ("rejected", "pending", False, "rejected"),
        ("unknown", "in_doubt", False, "unknown"),
        ("not_sent", "pending", False, "not_sent"),
    ],
)
async def test_settling_what_was_in_doubt(
    store_rig: Rig, outcome: Outcome, state: str, dismissed: bool, told: str
) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await attempt_on(store, 0, Result("unknown"))
    (doubted,) = await store.open_attempts()
    assert await store.settle(doubted, Result(outcome, evidence="looked up"), OTHER, why("reconcile"))
    assert (await entry_of(store)).state == state
    assert await columns(store_rig) == (1, dismissed), "the doubt was counted once, its resolution is not"
    (attempt,) = await store.attempts(FIRST)
    assert attempt.outcome == told
    assert (await kinds(store))[-1] == "reconcile"
    again = await store.settle(doubted, Result("accepted", "v-9"), OTHER, why("reconcile"))
    assert again is (outcome == "unknown")


async def test_settling_an_attempt_whose_owner_is_gone(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    claim = await attempt_on(store)
    (open_one,) = await other.open_attempts()
    assert await other.settle(open_one, Result("accepted", "v-1", evidence="found"), OTHER, why("reconcile"))
    assert (await entry_of(store)).state == "replayed"
    assert await columns(store_rig) == (0, True)
    assert await store.conclude(claim, Result("rejected", error="late"), ACTOR, why()) is False
    assert (await entry_of(store)).state == "replayed", "a late word changes nothing"
    assert await columns(store_rig) == (0, True)
    late = json.loads((await store.events(FIRST))[-1].body)
    assert (late["kind"], late["outcome"]) == ("late-outcome", "rejected")
    (attempt,) = await store.attempts(FIRST)
    assert (attempt.outcome, attempt.venue_order_id) == ("accepted", "v-1")


async def test_two_who_settle_at_once(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    await attempt_on(store, 0, Result("unknown"))
    (doubted,) = await store.open_attempts()
    said = await asyncio.gather(
        store.settle(doubted, Result("accepted", "v-1"), ACTOR, why()),
        other.settle(doubted, Result("not_sent"), OTHER, why()),
    )
    assert sorted(said) == [False, True]
    assert (await kinds(store)).count("reconcile") == 1


async def test_the_outcome_of_an_expired_lease_still_counts(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    claim = await attempt_on(store)
    await store_rig.sql(f"UPDATE {store_rig.ledger('claim')} SET expires_at = 0")
    assert await store.conclude(claim, Result("accepted", "v-1"), ACTOR, why()) is True
    assert (await entry_of(store)).state == "replayed"


async def test_at_most_one_venue_order_per_entry_is_an_index(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await attempt_on(store, 0, Result("accepted", "v-1"))
    table = store_rig.ledger("attempt")
    if not store_rig.on_postgres:
        await store_rig.sql("DROP TRIGGER console_attempt_ins")
    names = (
        "source, entry_id, attempt_no, mode, rehearsal, venue, client_order_id, payload, payload_hash, started_at, "
        "operator, os_user, token, state, holds"
    )
    copied = names.replace("attempt_no", "attempt_no + 1")
    with pytest.raises(Exception, match=r"(?i)unique"):
        await store_rig.sql(f"INSERT INTO {table} ({names}) SELECT {copied} FROM {table}")
    assert len(await store.attempts(FIRST)) == 1


async def test_attempts_are_numbered_and_remembered(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    for number, outcome in enumerate(("not_sent", "rejected", "unknown"), start=1):
        result = Result(outcome)  # type: ignore[arg-type]  # each is an outcome
        await attempt_on(store, 0, result, Intent("live", "kalshi", f"cid-{number}", b"x", f"h{number}"))
    attempts = await store.attempts(FIRST)
    assert [(one.attempt_no, one.outcome, one.client_order_id) for one in attempts] == [
        (1, "not_sent", "cid-1"),
        (2, "rejected", "cid-2"),
        (3, "unknown", "cid-3"),
    ]
    assert await columns(store_rig) == (2, False)
    assert (await verdict(store))[0] is None


async def test_hostile_text_from_a_venue_is_kept(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await attempt_on(store, 0, Result("rejected", "v\0\udcff", error="bad \0 \ud800 text", evidence="\0\udcff"))
    (attempt,) = await store.attempts(FIRST)
    assert attempt.error == "bad \\x00 \\ud800 text"
    assert attempt.venue_order_id == "v\\x00\\xff"
    assert (await verdict(store))[0] is None


async def test_the_stores_clock_and_name(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    before = await store.store_id()
    assert len(before) == 32
    assert await other.store_id() == before
    await store.note(FIRST, ACTOR, why(note="first act"))
    assert await other.store_id() == before
    await store_rig.insert(order_row(5))
    assert await (await store_rig.open()).store_id() == before
    first, second = await store.clock(), await store.clock()
    assert first.utcoffset() is not None
    assert second >= first


async def test_nothing_read_or_done_changes_a_value(store_rig: Rig) -> None:
    await store_rig.make([order_row(0, quantity=0.30000000000000004, action_json='{"a": 1, "a": 2}', error="x" * 9000)])
    names = ", ".join(orders.IDENTITY)
    before = await store_rig.sql(f"SELECT {names} FROM order_dlq")
    store = await store_rig.open()
    await attempt_on(store, 0, Result("rejected"))
    await attempt_on(store, 0, Result("unknown"))
    await store.settle((await store.open_attempts())[0], Result("accepted", "v"), ACTOR, why())
    assert await store_rig.sql(f"SELECT {names} FROM order_dlq") == before
    assert (await verdict(store))[0] is None
