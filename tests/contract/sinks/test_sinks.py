"""One suite for every sink: what an engine may rely on, whichever it opens."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from dlq_sink import SinkClosed

from backends import DLQSink, DuplicateEntry, StoreError
from tests.support.sink import START, Kind, entry, opened


def test_every_sink_is_a_dlq_sink(sink: DLQSink) -> None:
    assert isinstance(sink, DLQSink)


def test_a_written_entry_is_read_back_as_it_was(sink: DLQSink) -> None:
    order = entry(retry_count=3)
    sink.write(order)
    assert sink.get(order.dlq_id) == order
    assert sink.list() == [order]
    assert sink.depth() == 1


def test_none_stays_none_and_empty_stays_empty(sink: DLQSink) -> None:
    order = entry(account_id=None, price=None, client_order_id=None, error="", action_json="")
    sink.write(order)
    assert sink.get(order.dlq_id) == order
    empty = entry(account_id="", client_order_id="")
    sink.write(empty)
    assert sink.get(empty.dlq_id) == empty


def test_an_unknown_id_is_none_false_and_key_error(sink: DLQSink) -> None:
    sink.write(entry())
    assert sink.get("dlq_0000000000000000") is None
    assert sink.mark_dismissed("dlq_0000000000000000") is False
    with pytest.raises(KeyError):
        sink.bump_retry("dlq_0000000000000000")
    assert sink.depth() == 1


def test_the_list_is_in_insertion_order_or_by_capture_on_postgres(sink: DLQSink, kind: Kind) -> None:
    """Captured out of order, three at an instant: no column of the layout says in which order rows were written."""
    written = [entry(n, dlq_id=f"dlq_{99 - place:016x}") for place, n in enumerate((5, 3, 3, 9, 0, 3, 7, 0))]
    for order in written:
        sink.write(order)
    by_capture = sorted(written, key=lambda one: (one.captured_at, one.dlq_id))
    assert by_capture != written
    assert sink.list() == (by_capture if kind == "postgres" else written)
    sink.bump_retry(written[1].dlq_id)
    assert [one.dlq_id for one in sink.list()] == [
        one.dlq_id for one in (by_capture if kind == "postgres" else written)
    ]


def test_dismissed_entries_are_kept_but_not_counted(sink: DLQSink) -> None:
    orders = [entry(n) for n in range(3)]
    for order in orders:
        sink.write(order)
    assert sink.mark_dismissed(orders[1].dlq_id) is True
    assert sink.mark_dismissed(orders[1].dlq_id) is True
    assert [order.dlq_id for order in sink.list()] == [orders[0].dlq_id, orders[2].dlq_id]
    everything = sink.list(include_dismissed=True)
    assert [order.dlq_id for order in everything] == [order.dlq_id for order in orders]
    assert [order.dismissed for order in everything] == [False, True, False]
    assert sink.depth() == 2


def test_an_entry_may_be_written_as_dismissed(sink: DLQSink) -> None:
    order = entry(dismissed=True)
    sink.write(order)
    assert sink.depth() == 0
    assert sink.list(include_dismissed=True) == [order]


def test_bump_retry_counts_and_changes_nothing_else(sink: DLQSink) -> None:
    order, other = entry(0), entry(1)
    sink.write(order)
    sink.write(other)
    assert [sink.bump_retry(order.dlq_id) for _ in range(3)] == [1, 2, 3]
    assert sink.get(order.dlq_id) == entry(0, dlq_id=order.dlq_id, retry_count=3)
    assert sink.get(other.dlq_id) == other


def test_a_second_write_of_an_id_is_refused_and_overwrites_nothing(sink: DLQSink) -> None:
    order = entry()
    sink.write(order)
    sink.bump_retry(order.dlq_id)
    sink.mark_dismissed(order.dlq_id)
    before = sink.get(order.dlq_id)
    for again in (order, entry(9, dlq_id=order.dlq_id, quantity=999.0)):
        with pytest.raises(DuplicateEntry, match=order.dlq_id):
            sink.write(again)
    assert sink.get(order.dlq_id) == before
    assert len(sink.list(include_dismissed=True)) == 1


def test_close_may_be_repeated_and_use_after_it_is_refused(sink: DLQSink) -> None:
    sink.close()
    sink.close()
    for use in (
        lambda: sink.write(entry()),
        sink.list,
        sink.depth,
        lambda: sink.get("dlq_1"),
        lambda: sink.mark_dismissed("dlq_1"),
        lambda: sink.bump_retry("dlq_1"),
    ):
        with pytest.raises(SinkClosed, match="closed"):
            use()


def test_it_closes_itself_as_a_context_manager(sink: DLQSink) -> None:
    manager: Any = sink
    with manager as inside:
        inside.write(entry())
        assert inside.depth() == 1
    with pytest.raises(SinkClosed):
        sink.depth()


def test_what_was_written_is_there_for_the_next(place: tuple[Kind, str]) -> None:
    order = entry()
    first = opened(*place)
    first.write(order)
    first.close()
    second = opened(*place)
    assert second.list() == [order]
    second.close()


def test_eight_threads_write_at_once(sink: DLQSink) -> None:
    batches = [[entry(200 * t + n) for n in range(200)] for t in range(8)]
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def write(batch: list[Any]) -> None:
        start.wait(30)
        try:
            for order in batch:
                sink.write(order)
        except StoreError as problem:
            failures.append(problem)

    threads = [threading.Thread(target=write, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert sink.depth() == 1600
    place_of = {order.dlq_id: n for n, order in enumerate(sink.list())}
    for batch in batches:
        places = [place_of[order.dlq_id] for order in batch]
        assert places == sorted(places)
        assert all(sink.get(order.dlq_id) == order for order in batch[::50])


def test_racing_writers_of_one_id_have_one_winner(sink: DLQSink) -> None:
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def write(n: int) -> None:
        start.wait(30)
        try:
            sink.write(entry(n, dlq_id="dlq_00000000000000aa"))
        except DuplicateEntry:
            outcomes.append("duplicate")
        else:
            outcomes.append(f"written {n}")

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes.count("duplicate") == 7
    (kept,) = sink.list()
    assert f"written {int((kept.captured_at - START).total_seconds())}" in outcomes


def test_concurrent_bumps_are_all_counted(sink: DLQSink) -> None:
    order = entry()
    sink.write(order)
    seen: list[int] = []
    threads = [
        threading.Thread(target=lambda: seen.extend(sink.bump_retry(order.dlq_id) for _ in range(25))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(seen) == list(range(1, 101))


async def test_it_works_inside_a_running_loop(sink: DLQSink) -> None:
    orders = [entry(n) for n in range(40)]
    async with asyncio.timeout(60):
        for order in orders[:20]:
            sink.write(order)
        await asyncio.gather(*(asyncio.to_thread(sink.write, order) for order in orders[20:]))
        sink.mark_dismissed(orders[0].dlq_id)
        assert sink.bump_retry(orders[1].dlq_id) == 1
        assert sink.depth() == len(sink.list()) == 39


async def test_it_works_from_a_loop_in_another_thread_than_its_own(sink: DLQSink) -> None:
    """Opened outside the loop, used and closed inside it: no loop of the engine is needed or blocked for good."""
    order = entry()
    async with asyncio.timeout(60):
        await asyncio.to_thread(lambda: asyncio.run(_write_in_loop(sink, order)))
        sink.close()
    with pytest.raises(SinkClosed):
        sink.depth()


async def _write_in_loop(sink: DLQSink, order: Any) -> None:
    sink.write(order)
    assert sink.get(order.dlq_id) == order
