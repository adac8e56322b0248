"""An older ledger beside layouts that need more of it, and counts where much is settled."""

from __future__ import annotations

from backends.records import Filter, Selection
from backends.sql.other.select import Select
from backends.sql.other.store import IntegrationStore, OutboxStore
from tests.support.integration import IntegrationRig
from tests.support.integration import entry_id as call_id
from tests.support.outbox import OutboxRig
from tests.support.store import (
    ACTOR,
    EVERYTHING,
    INTENT,
    PostgresRig,
    attempt_on,
    entry_of,
    recount,
    table_findings,
    walk,
    why,
)

OLD = "DROP TABLE dlq_console.settled"


async def test_an_older_ledger_is_completed_by_the_next_act(postgres_db: str) -> None:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    made = await rig.dead(1, 2)
    first = await rig.store()
    await first.note(made[0], ACTOR, why())
    await rig.aclose()
    await rig.sql(OLD)
    store = await rig.store()
    assert [finding.code for finding in table_findings(store)] == []
    assert [entry.state for entry in await walk(store)] == ["pending", "pending"]
    assert (await store.counts(EVERYTHING)).by_state == {"pending": 2, "dismissed": 0}
    entry = await store.get(made[0])
    assert entry is not None
    done = await store.dismiss(Selection.of([entry]), ACTOR, why())
    assert done.done == (made[0],)
    assert recount(await walk(store)) == {"dismissed": 1, "pending": 1}
    await rig.aclose()


async def test_orders_do_not_need_what_an_older_ledger_lacks(postgres_db: str) -> None:
    rig = PostgresRig(postgres_db)
    await rig.make(2)
    store = await rig.open()
    await attempt_on(store, 0)
    await rig.sql(OLD)
    again = await rig.open()
    assert [finding.code for finding in table_findings(again)] == ["ledger-older"]
    assert (await entry_of(again, 0)).state == "in_flight"
    await again.note("dlq_0000000000000001", ACTOR, why())
    assert (await rig.open()).info.findings == store.info.findings
    await rig.aclose()


async def _settle_some(store: OutboxStore | IntegrationStore, wanted: list[str]) -> None:
    found = await store.many(tuple(wanted))
    done = await store.dismiss(Selection.of(list(found.values())), ACTOR, why())
    assert len(done.done) == len(wanted)


async def test_counts_of_messages_agree_with_what_is_listed(postgres_db: str) -> None:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    made = await rig.dead(*range(1, 31))
    store = await rig.store()
    await _settle_some(store, made[:11])
    found = await store.get(made[20])
    assert found is not None
    await store.requeue(made[20], found.version, ACTOR, why("replay"))
    # Its owner prunes, and fills anew under an old number: neither may be counted as settled.
    await rig.sql("DELETE FROM outbox_dlq WHERE id <= 2")
    await rig.sql("UPDATE outbox_dlq SET failed_at = failed_at + interval '1 day' WHERE id = 3")
    assert (await store.counts(EVERYTHING)).by_state == recount(await walk(store))
    by_queue = Filter(states=EVERYTHING.states, venue="orders")
    assert (await store.counts(by_queue)).by_state == recount(await walk(store, by_queue))
    by_reason = Filter(failure="retry_terminal")
    assert (await store.counts(by_reason)).open == len(await walk(store, by_reason)) == 19
    assert await walk(store, Filter(failure="rejected")) == []
    await rig.aclose()


async def test_counts_of_calls_agree_with_what_is_listed(postgres_db: str) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    made = await rig.failed(*range(1, 21))
    store = await rig.store()
    await _settle_some(store, made[:6])
    for number in (10, 11):
        entry = await store.get(call_id(number))
        assert entry is not None
        claim = await store.claim(entry.id, entry.version, ACTOR, 30)
        await store.intend(claim, INTENT, ACTOR, why("replay"))  # type: ignore[arg-type]  # it was free
    await rig.sql(f'UPDATE {rig.table} SET "deletedAt" = now() WHERE "id" = $1', made[1])
    await rig.sql(f'UPDATE {rig.table} SET "deletedAt" = now() WHERE "id" = $1', made[12])
    await rig.sql(f'DELETE FROM {rig.table} WHERE "id" = $1', made[0])
    listed = recount(await walk(store))
    assert listed == {"dismissed": 6, "in_flight": 2, "pending": 11}
    assert {state: n for state, n in (await store.counts(EVERYTHING)).by_state.items() if n} == listed
    of_one = Filter(states=EVERYTHING.states, venue="prov-1", account="tenant-1")
    assert (await store.counts(of_one)).by_state == listed
    await rig.aclose()


async def _plan(rig: PostgresRig, store: OutboxStore | IntegrationStore, where: Filter) -> str:
    page = Select(store._table, with_ledger=True).page(where, None, descending=True, most=201)
    rows = await rig.sql(f"EXPLAIN {page.text}", *page.values({}))
    return "\n".join(str(line) for (line,) in rows)


_SETTLED = """
INSERT INTO dlq_console.settled (source, entry_id, born, state, at, operation)
SELECT '{table}', CAST("id" AS text), CAST("{moment}" AS text), 'dismissed', '2026-04-01T00:00:00+00:00', 'x'
FROM {table} WHERE {some}
"""


async def test_a_page_of_many_messages_follows_an_index_whatever_is_settled(postgres_db: str) -> None:
    """The ledger's statistics say that all it holds is settled; the planner must not take that for the table's."""
    rig = OutboxRig(postgres_db)
    await rig.tables()
    await rig.dead(1)
    store = await rig.store()
    await store.note("1", ACTOR, why())
    columns = "original_id, queue, payload, deliveries_count, created_at, failed_at, failure_reason"
    copied = columns.replace("failed_at", "failed_at + n * interval '1 s'")
    await rig.sql(
        f"INSERT INTO outbox_dlq ({columns}) SELECT {copied} FROM outbox_dlq, generate_series(1, 20000) AS numbers (n)"
    )
    await rig.sql(_SETTLED.format(table="outbox_dlq", moment="failed_at", some="id % 10 = 0"))
    await rig.sql("ANALYZE")
    for where in (Filter(), EVERYTHING, Filter(states=frozenset({"pending"}))):
        plan = await _plan(rig, store, where)
        assert "outbox_dlq_pkey" in plan, plan
        assert "Sort" not in plan, plan
        assert "Seq Scan on" not in plan.replace("Seq Scan on attempt", ""), plan  # an empty one
    await rig.aclose()


async def test_a_page_of_many_calls_follows_an_index_whatever_is_settled(postgres_db: str) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    made = await rig.failed(1)
    store = await rig.store()
    await store.note(made[0], ACTOR, why())
    await rig.sql(
        f'INSERT INTO {rig.table} ("id", "providerId", "originalRequest", "error", "attempts", "createdAt") SELECT '
        f'gen_random_uuid(), "providerId", "originalRequest", "error", "attempts", "createdAt" + n * interval \'1 s\' '
        f"FROM {rig.table}, generate_series(1, 20000) AS numbers (n)"
    )
    await rig.sql(f'CREATE INDEX by_time ON {rig.table} ("createdAt")')
    some = "get_byte(uuid_send(id), 0) < 26"
    await rig.sql(_SETTLED.format(table=rig.table, moment="createdAt", some=some))
    await rig.sql("ANALYZE")
    for where in (Filter(), EVERYTHING, Filter(states=frozenset({"pending"}))):
        plan = await _plan(rig, store, where)
        assert "by_time" in plan, plan
        assert "Seq Scan on" not in plan.replace("Seq Scan on attempt", ""), plan  # an empty one
    await rig.aclose()
