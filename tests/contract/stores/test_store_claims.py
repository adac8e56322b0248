"""Claims, intents and outcomes: one sender at a time, one venue order per entry, late words fenced off."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

from backends.records import Attempt
from backends.sql.store import SQLStore
from backends.store import Claim, ClaimRefused, Result
from tests.support.store import (
    ACTOR,
    INTENT,
    OTHER,
    Rig,
    attempt_on,
    entry_of,
    events_of,
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


async def test_only_one_holds_a_claim(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    entry = await entry_of(store)
    claims = await asyncio.gather(*(one.claim(entry.id, entry.version, ACTOR, 30) for one in (store, other) * 5))
    assert sum(isinstance(claim, Claim) for claim in claims) == 1
    taken = [claim for claim in claims if isinstance(claim, ClaimRefused)]
    assert {(one.code, one.why) for one in taken} == {("claimed", "claimed by ann (ops@desk1)")}


async def test_a_lapsed_lease_is_taken_over_and_the_old_owner_fenced_off(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    entry = await entry_of(store)
    old = await claimed(store, lease=0)
    new = await other.claim(entry.id, entry.version, OTHER, 30)
    assert isinstance(new, Claim)
    assert new.token > old.token
    refused = await store.intend(old, INTENT, ACTOR, why())
    assert isinstance(refused, ClaimRefused)
    assert refused.code == "claimed"
    assert await store.attempts(entry.id) == ()
    assert isinstance(await other.intend(new, INTENT, OTHER, why()), Attempt)


async def test_an_own_lapsed_lease_sends_nothing(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    refused = await store.intend(await claimed(store, lease=-1), INTENT, ACTOR, why())
    assert isinstance(refused, ClaimRefused)
    assert refused.why == "the claim ran out before anything was sent"
    assert (await entry_of(store)).state == "pending"


async def test_release_frees_the_entry(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    claim = await claimed(store)
    await store.release(claim)
    assert isinstance(await store.intend(claim, INTENT, ACTOR, why()), ClaimRefused)
    assert (await claimed(store)).token > claim.token


async def test_what_cannot_be_claimed_says_why(store_rig: Rig) -> None:
    await store_rig.make(5)
    store = await store_rig.open()
    seen = [await entry_of(store, n) for n in range(5)]
    await attempt_on(store, 0, Result("unknown"))
    await attempt_on(store, 1, Result("accepted", "v"))
    await store_rig.sql(f"UPDATE order_dlq SET dismissed = {store_rig.flag(True)} WHERE dlq_id LIKE '%2'")
    await store_rig.sql("UPDATE order_dlq SET retry_count = 9 WHERE dlq_id LIKE '%3'")
    answers = [await store.claim(entry.id, entry.version, ACTOR, 30) for entry in seen[:4]]
    answers.append(await store.claim("dlq_gone", (0, 0), ACTOR, 30))
    assert [answer.code for answer in answers if isinstance(answer, ClaimRefused)] == [
        "in-doubt",
        "settled",
        "settled",
        "changed",
        "gone",
    ]
    await store.halt(ACTOR, why(note="stop"))
    halted = await store.claim(seen[4].id, seen[4].version, ACTOR, 30)
    assert isinstance(halted, ClaimRefused)
    assert halted.code == "halt"


async def test_halt_is_checked_again_with_the_intent(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    claim = await claimed(store)
    await other.halt(OTHER, why(note="stop"))
    refused = await store.intend(claim, INTENT, ACTOR, why())
    assert isinstance(refused, ClaimRefused)
    assert refused.code == "halt"
    await other.resume(OTHER, why(note="go"))
    assert isinstance(await store.intend(claim, INTENT, ACTOR, why()), Attempt)


async def test_an_entry_that_changed_after_the_claim_is_not_sent(store_rig: Rig) -> None:
    await store_rig.make(2)
    store = await store_rig.open()
    first, second = await claimed(store, 0), await claimed(store, 1)
    await store_rig.sql("UPDATE order_dlq SET retry_count = retry_count + 1 WHERE dlq_id LIKE '%0'")
    await store_rig.sql(f"UPDATE order_dlq SET dismissed = {store_rig.flag(True)} WHERE dlq_id LIKE '%1'")
    codes = []
    for claim in (first, second):
        refused = await store.intend(claim, INTENT, ACTOR, why())
        assert isinstance(refused, ClaimRefused)
        codes.append(refused.code)
    assert codes == ["changed", "settled"]


async def test_an_intent_is_committed_with_everything_that_will_be_sent(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    attempt = await store.intend(await claimed(store), INTENT, ACTOR, why("replay-1"))
    assert isinstance(attempt, Attempt)
    assert (await entry_of(other)).state == "in_flight"
    (seen,) = await other.attempts(FIRST)
    assert seen == attempt
    assert (seen.attempt_no, seen.mode, seen.venue, seen.client_order_id) == (1, "paper", "alpaca", "cid-1")
    assert (seen.payload, seen.payload_hash, seen.outcome, seen.operator, seen.os_user) == (
        INTENT.payload,
        "hash-1",
        None,
        "ann",
        "ops",
    )
    clock = (await store.clock()).timestamp()
    assert clock < seen.lease_until <= clock + 30
    assert await other.open_attempts() == (attempt,)
    (event,) = await other.events(FIRST)
    body = json.loads(event.body)
    assert body["kind"] == "intent"
    assert (body["attempt_no"], body["client_order_id"], body["payload_hash"]) == (1, "cid-1", "hash-1")
