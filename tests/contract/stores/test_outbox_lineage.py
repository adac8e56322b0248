"""A message that was replayed and failed again is followed to the dead letters it was before."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from backends.sql.other.lineage import referred
from backends.sql.other.store import OutboxStore
from backends.store import Failures
from tests.support.outbox import Consumer, OutboxRig, broker, dead_row, entry, requeue, until_dead
from tests.support.store import ACTOR, only, why


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


async def _round(rig: OutboxRig, store: OutboxStore, entry_id: str, error: str = "ValueError('still bad')") -> str:
    """Replay it; it fails again. → its new id"""
    await requeue(store, entry_id)
    (made,) = await rig.fail_again(error)
    return made


async def _ancestors(store: OutboxStore, entry_id: str) -> list[str]:
    return [one.entry_id for one in (await store.lineage((entry_id,))).get(entry_id, ())]


async def test_a_real_broker_fails_a_message_three_times_and_it_has_three_ancestors(rig: OutboxRig) -> None:
    store = await rig.store()
    async with broker(rig, Consumer(failing=True)) as running, rig.engine() as engine:
        async with engine.begin() as connection:
            await running.publish(b"{}", queue="orders", session=connection)
        for count in range(1, 5):
            newest = await _newest_dead(store, count)
            if count < 4:
                await requeue(store, newest)
    assert await _ancestors(store, "4") == ["1", "2", "3"]
    assert await store.came_back() == {"4": 3}
    (first, *_) = (await store.lineage(("4",)))["4"]
    assert (first.reason, first.operator, first.gone) == ("retry_terminal", ACTOR.operator, False)
    assert "no such instrument" in (first.error or "")


async def _newest_dead(store: OutboxStore, number: int) -> str:
    """One is open at a time: the others were replayed."""
    (newest,) = await until_dead(store, 1)
    assert newest.id == str(number)
    return newest.id


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("header", [False, True])
async def test_it_is_followed_by_header_or_ledger_also_where_the_rows_are_deleted(
    rig: OutboxRig, deletes: bool, header: bool
) -> None:
    store = await rig.store(delete_after_replay=deletes, replay_header=header)
    (first,) = await rig.dead(1)
    second = await _round(rig, store, first, "KeyError('a')")
    third = await _round(rig, store, second, "KeyError('b')")
    (other,) = await rig.dead(7)
    line = (await store.lineage((third, other)))[third]
    assert [(one.entry_id, one.error, one.gone) for one in line] == [
        (first, "ValueError('order 1 is bad')", deletes),
        (second, "KeyError('a')", deletes),
    ]
    assert line[0].failed_at == "2026-04-18T14:32:16+00:00"
    assert [one.operator for one in line] == [ACTOR.operator] * 2
    assert all(one.replayed_at == why().at.isoformat() for one in line)
    assert await store.came_back() == {third: 2}


async def test_the_header_alone_is_enough(rig: OutboxRig) -> None:
    """The ledger was lost, or another console's ledger knows of the replay."""
    store = await rig.store()
    (first,) = await rig.dead(1)
    second = await _round(rig, store, first)
    await rig.sql("DROP SCHEMA dlq_console CASCADE")
    blind = await rig.store()
    (one,) = (await blind.lineage((second,)))[second]
    assert (one.entry_id, one.reason, one.operator, one.gone) == (first, "retry_terminal", None, False)
    await rig.sql("DELETE FROM outbox_dlq WHERE id = 1")
    (one,) = (await blind.lineage((second,)))[second]
    assert (one.entry_id, one.reason, one.gone) == (first, None, True)


_ODD: dict[str, tuple[str, list[str]]] = {
    "1": ('{"x-dlq-replay-of": "outbox_dlq:1"}', []),  # itself
    "2": ('{"x-dlq-replay-of": "outbox_dlq:3"}', ["3"]),
    "3": ('{"x-dlq-replay-of": "outbox_dlq:2"}', ["2"]),
    "4": ('{"x-dlq-replay-of": "outbox_dlq:99"}', ["99"]),
    "5": ('{"x-dlq-replay-of": "outbox_dlq:no number"}', ["no number"]),
    "6": ('{"x-dlq-replay-of": "outbox_dlq:"}', []),
    "7": ('{"x-dlq-replay-of": "elsewhere:2"}', []),
    "8": ('{"x-dlq-replay-of": ["outbox_dlq:2"]}', []),
    "9": ('{"x-dlq-replay-of": null}', []),
    "10": ('["x-dlq-replay-of"]', []),
    "11": ('"x-dlq-replay-of"', []),
    "12": ("null", []),
}


async def test_an_odd_header_neither_loops_nor_fails(rig: OutboxRig) -> None:
    await rig.dead(*(dead_row(1, id=int(one), headers=header) for one, (header, _) in _ODD.items()))
    store = await rig.store()
    found = {one: [each.entry_id for each in line] for one, line in (await store.lineage(tuple(_ODD))).items()}
    assert found == {one: expected for one, (_, expected) in _ODD.items() if expected}
    assert await store.came_back() == {one: len(line) for one, line in found.items()}


async def test_headers_handed_on_to_another_message_make_it_no_return(rig: OutboxRig) -> None:
    handed_on = {"headers": '{"x-dlq-replay-of": "outbox_dlq:1"}'}
    others = dead_row(1, queue="invoices", **handed_on), dead_row(1, payload=b"another message", **handed_on)
    await rig.dead(dead_row(1), *others)
    assert await (await rig.store()).came_back() == {}


async def test_an_outbox_made_anew_gives_its_row_ids_again_to_other_messages(rig: OutboxRig) -> None:
    store = await rig.store(replay_header=False)
    (first,) = await rig.dead(1)
    assert await _round(rig, store, first) == "2"
    await rig.dead(dead_row(5, original_id=1))
    assert await store.came_back() == {"2": 1}


async def test_a_header_of_the_type_json_that_holds_a_nul_is_no_trace(rig: OutboxRig) -> None:
    await rig.sql("ALTER TABLE outbox_dlq ALTER COLUMN headers TYPE json")
    await rig.dead(
        dead_row(1, headers='{"x-dlq-replay-of": "outbox_dlq:7", "odd": "\\u0000"}'),
        dead_row(2, headers='{"x-dlq-replay-of": "outbox_dlq:7"}'),
    )
    assert await (await rig.store()).came_back() == {"2": 1}


async def test_a_message_that_came_back_to_a_repeated_id_keeps_its_ancestor(rig: OutboxRig) -> None:
    await rig.sql("DROP TABLE outbox_dlq")
    await rig.partitioned()
    store = await rig.store()
    (first,) = await rig.dead(1)
    assert await _round(rig, store, first) == "2"
    await rig.dead(dead_row(8, id=1), dead_row(9, id=2))
    (newest,) = [one for one in await store.came_back() if one.startswith("2@")]
    assert (await store.lineage((newest,)))[newest][0].entry_id == "1@2026-04-18T14:32:16Z"


async def test_a_long_chain_ends(rig: OutboxRig) -> None:
    rows = [dead_row(n, payload=b"x", headers=f'{{"x-dlq-replay-of": "outbox_dlq:{n - 1}"}}') for n in range(1, 131)]
    await rig.dead(*rows)
    assert len(await _ancestors(await rig.store(), "130")) == 100


async def test_errors_of_ancestors_count_until_a_person_clears_them(rig: OutboxRig) -> None:
    store = await rig.store()
    (first,) = await rig.dead(dead_row(1, last_exception=None))
    second = await _round(rig, store, first, "KeyError('a')")
    third = await _round(rig, store, second, "KeyError('b')")
    assert await store.failing(1) == {third: Failures(("retry_terminal", "KeyError('a')"))}
    assert await store.failing(3) == {}
    assert await store.failing(0, (first, third)) == {
        first: Failures(()),
        third: Failures(("retry_terminal", "KeyError('a')")),
    }
    await store.clear((third,), ACTOR, why(note="mended"))
    assert await store.failing(0, (third,)) == {third: Failures((), is_cleared=True)}
    fourth = await _round(rig, store, third, "KeyError('c')")
    assert await store.failing(0, (fourth,)) == {fourth: Failures(())}
    fifth = await _round(rig, store, fourth)
    assert await store.failing(1) == {fifth: Failures(("KeyError('c')",))}
    assert (await entry(store, first)).state == "replayed"
    assert len((await store.page(only("replayed"), limit=9)).entries) == 4


@pytest.mark.parametrize(
    ("header", "found"),
    [("t:1", "1"), ("t:1@2026-04-18T14:32:16Z", "1@2026-04-18T14:32:16Z"), ("u:1", None), ("t:", None), (None, None)],
)
def test_the_header_names_an_entry_of_this_table(header: str | None, found: str | None) -> None:
    assert referred(header, "t") == found
