"""Paper and live: an entry's state from its attempts in each mode, what reopens it, and what may be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from backends.first_page import read_first_page
from backends.records import OPEN_STATES, STATES, Filter, Selection, State
from backends.sql.store import SQLStore
from backends.store import Claim, ClaimRefused, Intent, Result
from backends.target import parse_target
from tests.support.store import (
    ACTOR,
    EVERYTHING,
    INTENT,
    Rig,
    attempt_on,
    entry_of,
    events_of,
    ids,
    pick,
    recount,
    verdict,
    walk,
    why,
)

PAPER, LIVE = INTENT, replace(INTENT, mode="live")
REHEARSAL = replace(INTENT, rehearsal=True)
FIRST = "dlq_0000000000000000"
ACCEPTED = Result("accepted", "v-1")


async def sent(store: SQLStore, intent: Intent, result: Result | None = None, number: int = 0) -> Claim:
    return await attempt_on(store, number, result, intent)


async def refusal(store: SQLStore, mode: str, *, rehearsal: bool = False, number: int = 0) -> tuple[str, str] | None:
    """What a claim in this mode answers; None if it is given."""
    entry = await entry_of(store, number)
    answer = await store.claim(entry.id, entry.version, ACTOR, 30, mode=mode, rehearsal=rehearsal)
    if isinstance(answer, ClaimRefused):
        return answer.code, answer.why
    await store.release(answer)
    return None


async def reopened(store: SQLStore, number: int = 0) -> None:
    result = await store.restore(await pick(store, number), ACTOR, why("restore"))
    assert len(result.done) == 1, result


async def agree(store: SQLStore, expected: Sequence[State]) -> None:
    """Every way of reading gives these states, in insertion order."""
    entries = await walk(store)
    assert [entry.state for entry in entries] == list(expected)
    found = await store.many(tuple(entry.id for entry in entries))
    assert [found[entry.id].state for entry in entries] == list(expected)
    assert [one.state for one in reversed(await walk(store, newest_first=True))] == list(expected)
    tally = {state: count for state, count in (await store.counts(EVERYTHING)).by_state.items() if count}
    assert tally == recount(entries)
    filtered = Filter(states=frozenset(STATES), venue="alpaca")
    assert dict((await store.counts(filtered)).by_state) == recount(entries)
    mixed: tuple[frozenset[State], ...] = (OPEN_STATES, frozenset({"pending", "replayed"}))
    for chosen in (*(frozenset({state}) for state in STATES), *mixed, frozenset[State]({"in_doubt", "dismissed"})):
        where = Filter(states=chosen)
        assert await ids(store, where) == [entry.id for entry in entries if entry.state in chosen], chosen
        counted = (await store.counts(where)).by_state
        assert sum(counted.values()) == sum(entry.state in chosen for entry in entries), chosen


async def test_a_paper_replay_is_reopened_and_sent_live(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await sent(store, PAPER, ACCEPTED)
    await agree(store, ["replayed"])
    hint = ("settled", "replayed in paper: dlq restore reopens it for live")
    assert await refusal(store, "live") == hint
    assert await refusal(store, "paper") == ("settled", "already replayed in paper")
    await reopened(store)
    await agree(store, ["pending"])
    assert b'"kind":"restore"' in (await events_of(store))[-1].body
    assert await refusal(store, "paper") == ("settled", "already replayed in paper")
    await sent(store, LIVE, ACCEPTED)
    await agree(store, ["replayed"])
    assert await refusal(store, "live") == ("settled", "already replayed live")
    refused = await store.restore(await pick(store, 0), ACTOR, why("restore"))
    assert (refused.done, refused.changed) == ((), ((FIRST, "replayed"),))
    assert (await verdict(store))[0] is None


async def test_restore_names_what_it_could_not_reopen(store_rig: Rig) -> None:
    await store_rig.make(5)
    store = await store_rig.open()
    await sent(store, PAPER, ACCEPTED, 0)
    await sent(store, LIVE, ACCEPTED, 1)
    await sent(store, PAPER, Result("unknown"), 2)
    await store.dismiss(await pick(store, 3), ACTOR, why())
    result = await store.restore(await pick(store, 0, 1, 2, 3, 4), ACTOR, why("restore"))
    assert sorted(result.done) == [f"dlq_{n:016x}" for n in (0, 3)]
    assert dict(result.changed) == {
        "dlq_0000000000000001": "replayed",
        "dlq_0000000000000002": "in doubt",
        "dlq_0000000000000004": "pending, retries=0",
    }
    await agree(store, ["pending", "replayed", "in_doubt", "pending", "pending"])


async def test_many_are_reopened_at_once(store_rig: Rig) -> None:
    await store_rig.make(130)
    store = await store_rig.open()
    await sent(store, PAPER, ACCEPTED, 0)
    rest = [await entry_of(store, n) for n in range(1, 130)]
    await store.dismiss(Selection.of(rest), ACTOR, why())
    result = await store.restore(Selection.of(await walk(store, limit=200)), ACTOR, why())
    assert len(result.done) == 130
    assert dict((await store.counts(Filter(states=frozenset({"pending"})))).by_state) == {"pending": 130}


async def test_a_reopened_entry_can_be_dismissed_and_reopened(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await sent(store, PAPER, ACCEPTED)
    await reopened(store)
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done == (FIRST,)
    await agree(store, ["replayed"])
    await reopened(store)
    await agree(store, ["pending"])


async def test_the_state_of_every_pair_of_attempts(store_rig: Rig) -> None:
    """In paper first, then reopened and live; the row as the console left it, and as somebody else may leave it."""
    lives: tuple[Result | str | None, ...] = ("none", None, Result("unknown"), Result("rejected"), ACCEPTED)
    pairs = list(product((False, True), lives))
    await store_rig.make(2 * len(pairs))
    store = await store_rig.open()
    expected: list[State] = []
    for number, (paper, live) in enumerate((*pairs, *pairs)):
        if paper:
            await sent(store, PAPER, ACCEPTED, number)
            await reopened(store, number)
        if not isinstance(live, str):
            await sent(store, LIVE, live, number)
        flipped = number >= len(pairs)
        now = {None: "in_flight", "unknown": "in_doubt", "accepted": "replayed"}
        outcome = live.outcome if isinstance(live, Result) else live
        free: State = "pending" if not flipped else "replayed" if paper else "dismissed"
        expected.append(now.get(outcome, free))  # type: ignore[arg-type]
        if flipped:
            flag = store_rig.flag(outcome != "accepted")
            await store_rig.sql(f"UPDATE order_dlq SET dismissed = {flag} WHERE dlq_id = 'dlq_{number:016x}'")
    await agree(store, expected)
    await agree(await store_rig.open(), expected)
    if not store_rig.on_postgres:
        first = read_first_page(parse_target(store_rig.target), limit=100)
        assert first is not None
        shown = {entry.id: entry.state for entry in (*first.held, *first.entries)}
        wanted = {f"dlq_{n:016x}": state for n, state in enumerate(expected) if state in OPEN_STATES}
        assert shown == wanted


@pytest.mark.parametrize("mode", ["paper", "live"])
@pytest.mark.parametrize("result", [None, Result("unknown")])
async def test_what_is_under_way_or_in_doubt_blocks_both_modes(
    store_rig: Rig, mode: str, result: Result | None
) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await sent(store, replace(INTENT, mode=mode), result)
    for asked, rehearsal in (("paper", False), ("live", False), ("paper", True)):
        assert await refusal(store, asked, rehearsal=rehearsal) == ("in-doubt", "in doubt: reconcile first")


@pytest.mark.parametrize("result", [None, Result("unknown")])
async def test_a_rehearsal_in_doubt_blocks_only_rehearsals(store_rig: Rig, result: Result | None) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    claim = await sent(store, REHEARSAL, result)
    await store.release(claim)
    await agree(store, ["pending"])
    assert await refusal(store, "paper", rehearsal=True) == ("in-doubt", "its rehearsal is in doubt: reconcile first")
    assert await refusal(store, "live") is None
    (attempt,) = await store.open_attempts()
    assert await store.settle(attempt, Result("accepted", "v"), ACTOR, why("settle"))
    await agree(store, ["pending"])
    assert await refusal(store, "paper", rehearsal=True) is None
    await sent(store, REHEARSAL, ACCEPTED)
    await sent(store, LIVE, ACCEPTED)
    await agree(store, ["replayed"])
    assert await refusal(store, "paper", rehearsal=True) == ("settled", "already replayed live")


async def test_the_intent_is_judged_by_its_own_mode(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await sent(store, PAPER, ACCEPTED)
    await reopened(store)
    entry = await entry_of(store)
    claim = await store.claim(entry.id, entry.version, ACTOR, 30, mode="live")
    assert isinstance(claim, Claim)
    refused = await store.intend(claim, PAPER, ACTOR, why("replay"))
    assert isinstance(refused, ClaimRefused)
    assert (refused.code, refused.why) == ("settled", "already replayed in paper")
    assert not isinstance(await store.intend(claim, LIVE, ACTOR, why("replay")), ClaimRefused)


async def test_the_ledger_itself_takes_one_order_of_an_entry_and_mode(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await sent(store, PAPER, ACCEPTED)
    attempt = store_rig.ledger("attempt")
    names = "source, entry_id, rehearsal, venue, client_order_id, payload, payload_hash, started_at, operator, os_user"
    names += ", token"
    copied = f"INSERT INTO {attempt} ({names}, attempt_no, mode, state, holds) SELECT {names}, "
    with pytest.raises(Exception, match=r"append-only|duplicate key|UNIQUE"):
        await store_rig.sql(f"{copied} 2, 'paper', 'submitting', 1 FROM {attempt}")
    await store_rig.sql(f"{copied} 2, 'live', 'submitting', 1 FROM {attempt}")
    assert (await entry_of(store)).state == "in_flight"


async def test_account_and_key_are_kept_with_the_attempt(store_rig: Rig) -> None:
    await store_rig.make(2)
    store = await store_rig.open()
    await sent(store, replace(LIVE, account="PA3", key_digest="abc"), Result("unknown"))
    await sent(store, LIVE, None, 1)
    (known,), (unknown,) = await store.attempts(FIRST), await store.attempts("dlq_0000000000000001")
    assert (known.account, known.key_digest) == ("PA3", "abc")
    assert (unknown.account, unknown.key_digest) == (None, "")
    intent = (await store.events(FIRST))[0].body
    assert b'"account":"PA3"' in intent
    assert b'"key_digest":"abc"' in intent
    for column in ("account", "key_digest"):
        with pytest.raises(Exception, match="append-only"):
            await store_rig.sql(f"UPDATE {store_rig.ledger('attempt')} SET {column} = 'other'")
