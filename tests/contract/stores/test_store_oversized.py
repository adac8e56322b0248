"""A value or an answer that would take too much memory ends a read of Postgres with 5, whoever reads and however."""

from __future__ import annotations

import pytest
from dlq_sink.libpq import wire

from backends.sql.store import SQLStore
from backends.store import StoreError
from tests.support.bounded import ended
from tests.support.store import ACTOR, EVERYTHING, PostgresRig, ids, order_row, pick, why

FIRST = "dlq_0000000000000000"


async def stored(rig: PostgresRig, error: str, *, rows: int = 1) -> SQLStore:
    """A store whose errors are this SQL expression."""
    await rig.make([order_row(n) for n in range(rows)])
    await rig.sql("ALTER TABLE order_dlq DISABLE TRIGGER ALL")
    await rig.sql(f"UPDATE order_dlq SET error = {error}")
    return await rig.open()


async def test_a_value_over_the_limit_ends_with_five_in_little_memory(postgres_store: PostgresRig) -> None:
    """Its memory and time are measured from outside."""
    store = await stored(postgres_store, "repeat('x', 130000000)")
    await store.aclose()
    code, out, said = ended("show", FIRST, "--db", postgres_store.target)
    assert (code, out) == (5, ""), said
    assert "is oversized" in said


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same limits for small values."""
    monkeypatch.setattr(wire, "LONGEST_MESSAGE", 300_000)
    monkeypatch.setattr(wire, "LONGEST_ANSWER", 450_000)
    monkeypatch.setattr(wire, "_WIDEST_MESSAGE", 80_000)


@pytest.mark.usefixtures("small")
async def test_every_read_of_a_long_value_is_bounded_and_the_store_stays_usable(postgres_store: PostgresRig) -> None:
    store = await stored(
        postgres_store, "CASE dlq_id WHEN 'dlq_0000000000000000' THEN repeat('x', 400000) ELSE 'x' END", rows=3
    )
    for read in (store.get(FIRST), store.many((FIRST, "dlq_0000000000000001"))):
        with pytest.raises(StoreError, match="is oversized"):
            await read
    assert len(await ids(store)) == 3, "a page cuts it"
    assert (await store.counts(EVERYTHING)).by_state["pending"] == 3
    assert (await store.dismiss(await pick(store, 1), ACTOR, why())).done == ("dlq_0000000000000001",)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("error", "is_read"),
    [
        ("repeat('x', 290000)", True),
        ("repeat('x', 301000)", False),
        ("repeat('x', 70000) || chr(128512)", True),
        ("repeat('x', 90000) || chr(128512)", False),  # four bytes for each letter, once it is read
        ("chr(128512) || repeat('x', 90000)", False),
        ("repeat('x', 90000) || chr(233) || chr(8364)", True),
    ],
)
async def test_how_long_a_value_may_be(postgres_store: PostgresRig, error: str, is_read: bool) -> None:
    store = await stored(postgres_store, error)
    if not is_read:
        with pytest.raises(StoreError, match="is oversized"):
            await store.get(FIRST)
        return
    found = await store.get(FIRST)
    assert found is not None
    assert (found.get("error"),) == (await postgres_store.sql("SELECT error FROM order_dlq"))[0]


@pytest.mark.usefixtures("small")
async def test_many_values_together_are_bounded_too(postgres_store: PostgresRig) -> None:
    store = await stored(postgres_store, "repeat('x', 100000)", rows=5)
    every = tuple(await ids(store))
    assert len(await store.many(every[:4])) == 4
    assert len(await store.many(every[:4])) == 4, "each answer is counted from its beginning"
    with pytest.raises(StoreError, match="is oversized"):
        await store.many(every)


class Inner:
    """Keeps what reaches the driver."""

    def __init__(self) -> None:
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data


class Line:
    aborted = False

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 99_999, 1_000_000])
def test_an_answer_comes_through_unchanged_however_it_is_cut(size: int) -> None:
    def said(kind: bytes, length: int) -> bytes:
        return kind + (length + 4).to_bytes(4, "big") + b"y" * length

    parts = (said(b"1", 0), said(b"D", 200), said(b"D", 90_000), said(b"N", 1), said(b"C", 5), said(b"D", 85_000))
    answer, inner, line = b"".join(parts), Inner(), Line()
    guard = wire.AnswerGuard(inner, line)
    for at in range(0, len(answer), size):
        guard.data_received(answer[at : at + size])
    assert inner.received == answer
    whole = answer + said(b"Z", 1)
    for at in range(len(answer), len(whole), size):
        guard.data_received(whole[at : at + size])
    assert (inner.received, line.aborted) == (whole, False)
    for broken in (said(b"D", 300_001), b"D\0\0\0\3"):
        inner, line = Inner(), Line()
        guard = wire.AnswerGuard(inner, line)
        for at in range(0, len(broken), size):
            guard.data_received(broken[at : at + size])
        assert line.aborted
        assert inner.received.startswith(b"E"), "an error, and none of it"
        assert len(inner.received) < 100


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [7, 1000, 99_999])
def test_ordinary_rows_without_end_are_an_oversized_answer(size: int) -> None:
    row = b"D" + (1004).to_bytes(4, "big") + b"y" * 1000
    inner, line = Inner(), Line()
    guard = wire.AnswerGuard(inner, line)
    endless, sent = row * 600, 0  # 603,000 bytes; 450,000 are the most
    while not line.aborted and sent < len(endless):
        guard.data_received(endless[sent : sent + size])
        sent += size
    assert line.aborted
    assert sent <= 450_000 + len(row) + size
    told = inner.received[: -len(wire._OVERSIZED)]
    assert inner.received.endswith(wire._OVERSIZED)
    assert told == endless[: len(told)]
    assert len(told) % len(row) == 0, "whole rows, then the error"
