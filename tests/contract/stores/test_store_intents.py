"""What an engine was about to send when it ended: found beside its queue, read as in doubt, settled once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from backends.criterion import Criterion, Pattern
from backends.filter_match import fits
from backends.ledger.examination import examine
from backends.records import Entry, Filter
from backends.store import ActRefused, BadTarget, NotADLQ, Result, Store
from console.services.browse.engine_intent import counts_of, engine_send
from tests.support.intent import add_intents, ddl, intent_row, make_intents, resolution, run_sql
from tests.support.store import ACTOR, EVERYTHING, OTHER, PostgresRig, Rig, events_of, ids, only, why

FOUND = Result("accepted", "ord_7", evidence="found: filled")
ABSENT = Result("not_sent", error="the venue does not show it", evidence="the venue does not show it")
REFUSED = Result("rejected", "ord_8", "found: rejected", "found: rejected")


def ident(number: int) -> str:
    return f"dlq_{number:016x}"


async def opened(rig: Rig, *rows: dict[str, Any], entries: int = 2, **given: Any) -> Any:
    await rig.make(entries)
    make_intents(rig.target, *rows)
    return await rig.open(**given)


async def entry_of(store: Store, number: int) -> Entry:
    found = await store.get(ident(number))
    assert found is not None
    return found


async def intent_of(store: Store, number: int) -> Entry:
    found = await entry_of(store, number)
    assert found.origin == "intent"
    return found


async def settle(store: Any, number: int, result: Result, actor: Any = ACTOR) -> bool:
    send = engine_send(await intent_of(store, number), "paper")
    return bool(await store.settle(send, result, actor, why("settle")))


async def test_an_intent_table_is_no_queue_and_belongs_to_the_one_it_is_named_after(store_rig: Rig) -> None:
    store = await opened(store_rig, intent_row(21))
    assert store.info.table == "order_dlq"
    assert [one.text for one in store.info.findings if one.code == "intents"]
    with pytest.raises(BadTarget, match=r"order_dlq_intent holds an engine's open intents.*--table order_dlq\)"):
        await store_rig.open(table="order_dlq_intent")


async def test_a_lone_intent_table_is_no_queue(store_rig: Rig) -> None:
    make_intents(store_rig.target, intent_row(1))
    with pytest.raises(NotADLQ):
        await store_rig.open()


async def test_another_queues_intents_are_not_shown(store_rig: Rig) -> None:
    await store_rig.make(1)
    await store_rig.make(0, "other_dlq")
    make_intents(store_rig.target, intent_row(21), table="other_dlq")
    assert await (await store_rig.open(table="order_dlq")).intents(EVERYTHING) == ()
    assert len(await (await store_rig.open(table="other_dlq")).intents(EVERYTHING)) == 1


async def test_only_what_a_dead_owner_left_open_is_in_doubt(store_rig: Rig) -> None:
    done = intent_row(24, resolved_at=intent_row(1)["captured_at"], venue_order_id="ord_1")
    rows = (intent_row(22), intent_row(21, captured=-400), intent_row(23, lease=600), done, intent_row(0))
    store = await opened(store_rig, *rows)
    shown = await store.intents(EVERYTHING)
    assert [(one.id, one.state, one.origin) for one in shown] == [
        (ident(21), "in_doubt", "intent"), (ident(22), "in_doubt", "intent"),
    ]  # fmt: skip
    assert [one.id for one in await store.intents(only("in_doubt"), owned=True)] == [ident(21), ident(22), ident(23)]
    assert (await store.get(ident(0))).origin == "entry"  # its engine made an entry of it
    assert await store.get(ident(23)) is None
    assert await store.get(ident(24)) is None
    assert await ids(store) == [ident(0), ident(1)]
    counted = (await counts_of(store, EVERYTHING)).by_state
    assert (counted["pending"], counted["in_doubt"]) == (2, 2)


FILTERS = [
    Filter(venue="fake"),
    Filter(venue="alpaca"),
    Filter(states=frozenset({"pending"})),
    Filter(states=frozenset({"in_doubt"}), market="MSFT"),
    Filter(side="sell", account="main"),
    Filter(terms=("msft",)),
    Filter(terms=("engine ended",)),
    Filter(without=("msft",)),
    Filter(criteria=(Criterion("id", (Pattern.literal(ident(21)),)),)),
    Filter(criteria=(Criterion("cid", (Pattern.literal("cid-22"),)),)),
    Filter(criteria=(Criterion("verb", (Pattern.literal("cancel"),)),)),
    Filter(criteria=(Criterion("action.strategy", (Pattern.literal("mean"),)),)),
]


async def test_filters_mean_the_same_as_in_memory(store_rig: Rig) -> None:
    action = json.dumps({"action": "cancel", "strategy": "mean", "note": "x" * 9000})
    rows = (intent_row(21), intent_row(22, market_id="MSFT", side="sell", action_json=action))
    store = await opened(store_rig, *rows)
    everything = [await intent_of(store, number) for number in (21, 22)]
    assert [len(await store.intents(where)) for where in FILTERS].count(0) < len(FILTERS) // 2
    for where in FILTERS:
        assert [one.id for one in await store.intents(where)] == [one.id for one in everything if fits(one, where)]


async def test_columns_that_an_intent_need_not_have_are_read_as_empty(store_rig: Rig) -> None:
    await store_rig.make(1)
    run_sql(store_rig.target, ddl(on_postgres=store_rig.on_postgres, without=("error", "retry_count", "dismissed")))
    row = {k: v for k, v in intent_row(21).items() if k not in ("error", "retry_count", "dismissed")}
    add_intents(store_rig.target, row)
    store = await store_rig.open()
    one = await intent_of(store, 21)
    assert (one.text("error"), one.get("retry_count")) == ("engine ended before it knew the outcome", 0)
    assert not one.get("dismissed")
    assert await settle(store, 21, ABSENT)
    assert (await entry_of(store, 21)).origin == "entry"


@pytest.mark.parametrize("gone", ["venue_name", "captured_at"])
async def test_drift_is_a_finding_and_what_it_hides_is_unknown(store_rig: Rig, gone: str) -> None:
    await store_rig.make(1)
    run_sql(store_rig.target, ddl(on_postgres=store_rig.on_postgres, without=(gone,)))
    store = await store_rig.open()
    assert not store.info.ledger_is_readable
    assert store.info.unreadable is not None
    assert f"without the column {gone}" in store.info.unreadable.text
    assert await store.intents(EVERYTHING) == ()


async def test_found_is_resolved_with_its_order_and_shown_as_replayed(store_rig: Rig) -> None:
    store = await opened(store_rig, intent_row(21))
    assert await settle(store, 21, FOUND)
    assert resolution(store_rig.target, 21) == (True, "ord_7")
    assert [(one.id, one.state) for one in await store.intents(EVERYTHING)] == [(ident(21), "replayed")]
    assert await store.intents(Filter()) == ()
    (attempt,) = await store.attempts(ident(21))
    assert (attempt.outcome, attempt.venue_order_id, attempt.mode) == ("accepted", "ord_7", "paper")
    assert (await examine(store)).differences == ()
    assert await ids(store) == [ident(0), ident(1)]


@pytest.mark.parametrize(("result", "outcome"), [(ABSENT, "not_sent"), (REFUSED, "rejected")])
async def test_what_does_not_stand_at_the_venue_becomes_an_entry(store_rig: Rig, result: Result, outcome: str) -> None:
    row = intent_row(21, action_json='{"tif": "gtc"}', error="whatever")
    store = await opened(store_rig, row)
    assert await settle(store, 21, result)
    entry = await store.get(ident(21))
    assert (entry.origin, entry.state, entry.get("retry_count")) == ("entry", "pending", 0)
    assert entry.text("error") == "engine ended before it knew the outcome"
    assert (entry.text("action_json"), entry.text("client_order_id")) == ('{"tif": "gtc"}', "cid-21")
    assert [one.outcome for one in await store.attempts(ident(21))] == [outcome]
    assert await store.intents(EVERYTHING) == ()
    seen = await examine(store)
    assert (seen.problem, seen.differences) == (None, ())
    assert json.loads((await events_of(store))[-1].body)["after"] == {"resolved": True, "inserted": True}


async def test_an_engine_that_comes_back_wins(store_rig: Rig) -> None:
    store = await opened(store_rig, intent_row(21), intent_row(22), intent_row(23))
    sends = [engine_send(await intent_of(store, number), "paper") for number in (21, 22, 23)]
    later = "now() + interval '30 seconds'" if store_rig.on_postgres else "'2999-01-01T00:00:00+00:00'"
    dead = "now() - interval '5 seconds'" if store_rig.on_postgres else "'2026-01-01T00:00:00+00:00'"
    for number, change in (
        (21, f"lease_until = {later}"),
        (22, f"resolved_at = {dead}"),
        (23, f"lease_until = {dead}"),
    ):
        run_sql(store_rig.target, f"UPDATE order_dlq_intent SET {change} WHERE dlq_id = '{ident(number)}'")
    for send in sends:
        for result in (FOUND, ABSENT):
            assert not await store.settle(send, result, ACTOR, why("settle"))
    assert await ids(store) == [ident(0), ident(1)]
    assert await events_of(store) == []


async def test_two_consoles_settle_it_once(store_rig: Rig) -> None:
    first = await opened(store_rig, *(intent_row(number) for number in range(21, 29)))
    second = await store_rig.open()
    for number in range(21, 29):
        send = engine_send(await intent_of(first, number), "paper")
        ended = await asyncio.gather(
            first.settle(send, ABSENT, ACTOR, why("a")), second.settle(send, ABSENT, OTHER, why("b"))
        )
        assert sorted(ended) == [False, True]
    assert len(await ids(first)) == 10
    assert len(await events_of(first)) == 8
    assert (await examine(first)).differences == ()


async def test_a_role_that_may_not_read_the_intents_says_so(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    make_intents(postgres_store.target, intent_row(21))
    target = await postgres_store.role("blind", "SELECT ON order_dlq")
    store = await postgres_store.open(target=target)
    finding = store.info.unreadable
    assert finding is not None
    assert "order_dlq_intent" in finding.text
    assert 'GRANT SELECT ON "public"."order_dlq_intent" TO' in finding.sql
    assert await store.intents(EVERYTHING) == ()


async def test_row_security_that_may_hide_intents_is_unknown_too(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    make_intents(postgres_store.target, intent_row(21))
    await postgres_store.sql("ALTER TABLE order_dlq_intent ENABLE ROW LEVEL SECURITY")
    target = await postgres_store.role("hidden", "SELECT ON order_dlq", "SELECT ON order_dlq_intent")
    assert "row security" in (await postgres_store.open(target=target)).info.unreadable.text  # type: ignore[union-attr]


async def test_a_role_is_told_what_it_lacks_to_settle(postgres_store: PostgresRig) -> None:
    store = await opened(postgres_store, intent_row(21))
    assert await settle(store, 21, FOUND)  # makes the ledger
    add_intents(postgres_store.target, intent_row(22))
    granted = dict(store.info.role_sql)["operator"]
    for name in ("dlq_operator", "dlq_approver", "dlq_auditor"):
        await postgres_store.sql(f"DROP ROLE IF EXISTS {name}")
    target = await postgres_store.role("reader", "SELECT ON order_dlq", "SELECT ON order_dlq_intent")
    role = target.split("//")[1].split("@")[0]
    lacking = next(one for one in (await postgres_store.open(target=target)).info.findings if "intents" in one.code)
    assert lacking.code == "intents-unwritable"
    assert "INSERT ON" in lacking.sql
    for line in granted.split(";\n")[1:]:
        await postgres_store.sql(line.rstrip(";").replace("TO dlq_operator", f'TO "{role}"'))
    acting = await postgres_store.open(target=target)
    assert [one.code for one in acting.info.findings if "intents" in one.code] == ["intents"]
    assert await settle(acting, 22, ABSENT)
    assert (await entry_of(acting, 22)).state == "pending"


async def test_a_role_that_may_not_insert_settles_nothing(postgres_store: PostgresRig) -> None:
    store = await opened(postgres_store, intent_row(21), intent_row(22))
    assert await settle(store, 22, FOUND)
    target = await postgres_store.role(
        "poor", "SELECT ON order_dlq", "SELECT, UPDATE ON order_dlq_intent", "USAGE ON SCHEMA dlq_console",
        "SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA dlq_console", "USAGE ON ALL SEQUENCES IN SCHEMA dlq_console",
        "EXECUTE ON ALL FUNCTIONS IN SCHEMA dlq_console",
    )  # fmt: skip
    poor = await postgres_store.open(target=target)
    with pytest.raises(ActRefused):
        await settle(poor, 21, ABSENT)
    assert resolution(postgres_store.target, 21) == (False, None)


async def test_a_lease_that_ends_is_a_change_though_nobody_writes(
    store_rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.sql.watch.LEASE_POLL_SECONDS", 0.1)
    store = await opened(store_rig, intent_row(21, lease=2))
    changes = store.changes()
    try:
        async with asyncio.timeout(60):
            while not await store.intents(Filter()):
                assert (await anext(changes)).kind == "changed"
    finally:
        await changes.aclose()


@asynccontextmanager
async def watched(store: Any) -> AsyncIterator[Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]]]:
    """Follows the store's changes, as an open console does; what it gives waits until something holds."""
    changes = store.changes()

    async def until(holds: Callable[[], Awaitable[bool]]) -> None:
        while not await holds():
            assert (await anext(changes)).kind == "changed"

    try:
        async with asyncio.timeout(60):
            await anext(changes)
            yield until
    finally:
        await changes.aclose()


async def test_an_intent_table_that_is_made_while_a_console_is_open_is_noticed(
    store_rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.sql.watch.LEASE_POLL_SECONDS", 0.1)
    await store_rig.make(2)
    store = await store_rig.open()

    async def shows() -> bool:
        return bool(await store.intents(EVERYTHING))

    async with watched(store) as until:
        assert not await shows()
        make_intents(store_rig.target, intent_row(21), intent_row(22, lease=600))
        await until(shows)
    assert [one.id for one in await store.intents(EVERYTHING)] == [ident(21)]
    assert [one.code for one in store.info.findings].count("intents") == 1
    assert await settle(store, 21, ABSENT)
    assert (await entry_of(store, 21)).origin == "entry"


async def test_intents_that_this_role_may_read_only_later_are_noticed(
    postgres_store: PostgresRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.sql.watch.LEASE_POLL_SECONDS", 0.1)
    await postgres_store.make(1)
    target = await postgres_store.role("late", "SELECT ON order_dlq")
    role = target.split("//")[1].split("@")[0]
    store = await postgres_store.open(target=target)

    async def is_blind() -> bool:
        return not store.info.ledger_is_readable

    async def shows() -> bool:
        return bool(await store.intents(EVERYTHING))

    async with watched(store) as until:
        make_intents(postgres_store.target, intent_row(21))
        await until(is_blind)
        run_sql(postgres_store.target, f'GRANT SELECT ON order_dlq_intent TO "{role}"')
        await until(shows)
    assert store.info.ledger_is_readable
