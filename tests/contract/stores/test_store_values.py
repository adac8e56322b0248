"""Values are exact: shown as stored or named as malformed, never changed, never a crash."""

from __future__ import annotations

import math
import os
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.layouts import orders
from backends.records import CLIP, Entry, Filter, Selection, malformed, number, parse_time, readable
from backends.sql.store import SQLStore
from tests.support.store import (
    ACTOR,
    BASE,
    EVERYTHING,
    PostgresRig,
    Rig,
    SQLiteRig,
    choose,
    entry_of,
    order_row,
    pick,
    walk,
    why,
)

TEXTS = ("venue_name", "account_id", "market_id", "side", "order_type", "client_order_id", "error", "action_json")
EXAMPLES = int(os.environ.get("DLQ_EXAMPLES", "15"))


async def both(store: SQLStore, number_: int = 0) -> tuple[Entry, Entry]:
    """The entry as a page shows it, and whole."""
    whole = await entry_of(store, number_)
    paged = {entry.id: entry for entry in (await store.page(EVERYTHING, limit=50)).entries}
    return paged[whole.id], whole


@pytest.mark.parametrize("value", [0.30000000000000004, 1e-12, 0.1, 1e300, 5e-324, 12345678901234567.0, 100.0])
async def test_floats_are_exact(store_rig: Rig, value: float) -> None:
    await store_rig.make([order_row(0, quantity=value, price=value)])
    for entry in await both(await store_rig.open()):
        assert entry.get("quantity") == value
        assert repr(entry.get("price")) == repr(value)
        assert number(entry.get("price")) == Decimal(repr(value))
        assert malformed(entry) == ()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
async def test_what_is_no_number_is_named(store_rig: Rig, value: float) -> None:
    if math.isnan(value) and not store_rig.on_postgres:
        pytest.skip("SQLite stores NaN as NULL")
    await store_rig.make([order_row(0, quantity=value, price=value)])
    for entry in await both(await store_rig.open()):
        assert repr(entry.get("quantity")) == repr(value)
        assert set(malformed(entry)) == {"quantity: not a finite number", "price: not a finite number"}


async def test_no_price_is_none(store_rig: Rig) -> None:
    await store_rig.make([order_row(0, price=None)])
    for entry in await both(await store_rig.open()):
        assert entry.get("price") is None
        assert malformed(entry) == ()


ACTIONS = ['{"a": 1, "a": 2}', '{"x": NaN}', "not json", "[1, 2]", '{"q": 0.1000, "n": 1E+400}', "", " ", "{\n\t}"]


@pytest.mark.parametrize("text", ACTIONS)
async def test_actions_are_kept_to_the_letter(store_rig: Rig, text: str) -> None:
    await store_rig.make([order_row(0, action_json=text)])
    for entry in await both(await store_rig.open()):
        assert entry.get("action_json") == text


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=200))
async def test_any_text_comes_back_as_it_is(store_rig: Rig, text: str) -> None:
    if not store_rig.stores:
        await store_rig.make(0)
        await store_rig.open()
    store = store_rig.stores[0]
    row = order_row(0, dlq_id=f"x{len(await walk(store, limit=500))}", **dict.fromkeys(TEXTS, text))
    await store_rig.insert(row)
    entry = await store.get(str(row["dlq_id"]))
    assert entry is not None
    assert {entry.get(name) for name in TEXTS} == {text}
    assert malformed(entry) == ()


@pytest.mark.parametrize("column", TEXTS)
async def test_invalid_utf8_in_any_text_column(sqlite_store: SQLiteRig, column: str) -> None:
    await sqlite_store.make(3)
    value = "CAST(x'61ff80c3' AS TEXT)"
    listed = ", ".join(value if name == column else "'bad'" if name == "dlq_id" else name for name in orders.COLUMNS)
    await sqlite_store.sql(f"INSERT INTO order_dlq SELECT {listed} FROM order_dlq LIMIT 1")
    store = await sqlite_store.open()
    entries = await walk(store, limit=2)
    assert [entry.id for entry in entries][-1] == "bad"
    assert len(entries) == 4
    whole = await store.get("bad")
    assert whole is not None
    for entry in (entries[-1], whole):
        assert entry.text(column) == "a\\xff\\x80\\xc3"
        assert malformed(entry) == (f"{column}: invalid UTF-8",)
    assert malformed(entries[0]) == ()
    assert [entry.id for entry in (await store.page(Filter(terms=("429",)), limit=9)).entries][:3] == [
        e.id for e in entries[:3]
    ]
    assert (await store.counts(EVERYTHING)).by_state == {"pending": 4, "dismissed": 0}
    assert (await store.dismiss(await choose(store, "bad"), ACTOR, why())).done == ("bad",)
    ((stored,),) = await sqlite_store.sql(f"SELECT CAST({column} AS BLOB) FROM order_dlq WHERE dlq_id = 'bad'")
    assert stored == b"a\xff\x80\xc3"


async def test_an_invalid_captured_at(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(0)
    await sqlite_store.sql(
        "INSERT INTO order_dlq (dlq_id, captured_at, venue_name, market_id, side, quantity, order_type, error) "
        "VALUES ('bad', CAST(x'ff' AS TEXT), 'v', 'm', 'buy', 1, 'market', 'e')"
    )
    store = await sqlite_store.open()
    (entry,) = await walk(store)
    assert malformed(entry) == ("captured_at: invalid UTF-8",)
    assert (await store.counts(EVERYTHING)).oldest_pending is None
    assert len(await store.store_id()) == 32
    await store.note("bad", ACTOR, why(note="acting works"))


@pytest.mark.parametrize("without_rowid", [False, True])
async def test_ids_that_are_not_text(sqlite_store: SQLiteRig, without_rowid: bool) -> None:
    """Seen, opened, told apart from text that looks like them, and never acted on by mistake."""
    await sqlite_store.make(1)
    columns = ", ".join("dlq_id PRIMARY KEY" if name == "dlq_id" else name for name in orders.COLUMNS)
    await sqlite_store.sql(f"CREATE TABLE q ({columns}){' WITHOUT ROWID' if without_rowid else ''}")
    rest = ", ".join(orders.COLUMNS[1:])
    odd = [
        "'abc'",
        "x'616263'",
        "CAST(x'61ff' AS TEXT)",
        "7",
        "1.5",
        "'7'",
        "'a' || char(0) || 'b'",
        "'a'",
        "''",
        "x''",
    ]
    for literal in odd:
        await sqlite_store.sql(f"INSERT INTO q SELECT {literal}, {rest} FROM order_dlq")
    store = await sqlite_store.open(table="q")
    entries = {entry.id: entry for limit in (1, 3, 50) for entry in await walk(store, limit=limit)}
    assert set(entries) == {"abc", "x'616263'", "a\\xff", "7", "1.5", "a\0b", "a", "", "x''"}, "7 and '7' read alike"
    for entry_id in ("abc", "x'616263'", "a\\xff", "a\0b", "a", "", "x''"):
        found = await store.get(entry_id)
        assert found is not None, entry_id
        assert found.id == entry_id
        assert found.values == entries[entry_id].values
    assert "dlq_id: binary" in malformed(entries["x'616263'"])
    assert "dlq_id: invalid UTF-8" in malformed(entries["a\\xff"])
    assert "dlq_id: holds a NUL" in malformed(entries["a\0b"])
    strange = ("x'616263'", "a\\xff", "a\0b")
    picks = [entries[entry_id] for entry_id in strange]
    result = await store.dismiss(Selection.of(picks), ACTOR, why())
    assert result.done == ()
    assert {entry_id for entry_id, _ in result.changed} == set(strange)
    assert await sqlite_store.sql("SELECT count(*) FROM q WHERE dismissed") == [(0,)]


async def test_embedded_nul_on_sqlite(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make([order_row(0, error="before\0after", action_json="\0" * 10)])
    store = await sqlite_store.open()
    for entry in await both(store):
        assert entry.get("error") == "before\0after"
        assert malformed(entry) == ("error: holds a NUL", "action_json: holds a NUL")
    assert len((await store.page(Filter(terms=("e\0a",)), limit=5)).entries) == 1
    assert (await store.page(Filter(terms=("e\0b",)), limit=5)).entries == ()


async def test_numbers_and_blobs_in_text_columns_and_text_in_numeric_ones(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(0)
    await sqlite_store.sql(f"CREATE TABLE q ({', '.join(orders.COLUMNS)})")
    row = order_row(
        0, error=42, side=b"\x00\xff", market_id=1.5, quantity="many", price=b"12", retry_count=-1, dismissed="no"
    )
    await sqlite_store.insert(row, "q")
    store = await sqlite_store.open(table="q")
    for entry in await both(store):
        for name in ("error", "side", "market_id", "quantity", "price"):
            assert entry.get(name) == row[name]
        assert set(malformed(entry)) == {
            "error: not text",
            "side: binary",
            "market_id: not text",
            "quantity: not a finite number",
            "price: binary",
            "retry_count: not a count",
            "dismissed: neither yes nor no",
        }
        assert entry.text("error") == "42"
        assert entry.text("side") == "\0\\xff"


async def test_text_in_declared_numeric_columns(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make([order_row(0, quantity="many", price="x" * 9000), order_row(1, quantity="1.10")])
    store = await sqlite_store.open()
    paged, whole = await both(store)
    assert whole.get("quantity") == "many"
    assert len(str(whole.get("price"))) == 9000
    assert len(str(paged.get("price"))) == CLIP
    assert "quantity: not a finite number" in malformed(paged)
    assert (await entry_of(store, 1)).get("quantity") == 1.1, "SQLite made it a number when it was written"


@pytest.mark.parametrize(
    ("time", "says"),
    [
        ("2026-04-18T14:32:15", "no time zone"),
        ("2026-04-18 14:32:15.5", "no time zone"),
        ("2026-04-18", "no time zone"),
        ("yesterday", "not a time"),
        ("", "not a time"),
        ("2026-04-18T14:32:15Z", ""),
        ("2026-04-18 14:32:15+05:30", ""),
        ("20260418T143215Z", ""),
    ],
)
async def test_times_are_shown_as_stored_and_named(sqlite_store: SQLiteRig, time: str, says: str) -> None:
    await sqlite_store.make([order_row(0, captured_at=time)])
    for entry in await both(await sqlite_store.open()):
        assert entry.get("captured_at") == time
        assert malformed(entry) == ((f"captured_at: {says}",) if says else ())
        assert (parse_time(time) is None) is bool(says)


async def test_naive_times_on_postgres_are_named(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    await postgres_store.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    await postgres_store.sql("ALTER TABLE q ALTER captured_at TYPE timestamp USING captured_at AT TIME ZONE 'UTC'")
    store = await postgres_store.open(table="q")
    (entry,) = await walk(store)
    assert malformed(entry) == ("captured_at: no time zone",)
    assert readable(entry.get("captured_at")) == "2026-04-18T14:32:15"
    assert len((await store.page(Filter(since=BASE), limit=5)).entries) == 1, "counted as UTC"
    page = await store.page(EVERYTHING, limit=1, after=entry.row_key)
    assert page.entries == ()


async def test_long_values_are_cut_in_pages_and_whole_by_id(store_rig: Rig) -> None:
    long = "ü" * 500_000  # 1 MB
    await store_rig.make([order_row(n, error=f"{n}{long}", action_json=long) for n in range(3)] + [order_row(3)])
    store = await store_rig.open()
    entries = (await store.page(EVERYTHING, limit=50)).entries
    assert [entry.clipped for entry in entries] == [True, True, True, False]
    assert entries[1].get("error") == f"1{long}"[:CLIP]
    whole = await entry_of(store, 1)
    assert whole.get("error") == f"1{long}"
    assert whole.clipped is False
    assert (await store.page(Filter(terms=(long[:60],)), limit=5)).more is False
    assert (await store.dismiss(await pick(store, 0, 1), ACTOR, why())).done


async def test_a_page_of_huge_rows_is_small(store_rig: Rig) -> None:
    await store_rig.make(0)
    copies = "n, captured_at, venue_name, account_id, market_id, side, quantity, order_type, price, client_order_id"
    big = "repeat('x', 1048576)" if store_rig.on_postgres else "replace(hex(zeroblob(524288)), '0', 'x')"
    numbers = (
        "generate_series(1, 200) s(n)"
        if store_rig.on_postgres
        else "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 200) SELECT n FROM s)"
    )
    await store_rig.insert(order_row(0))
    names = copies.replace("n, captured_at", "'id' || n, captured_at")
    await store_rig.sql(
        f"INSERT INTO order_dlq SELECT {names}, {big}, 0, dismissed, '' "
        f"FROM order_dlq, {numbers} WHERE dlq_id LIKE 'dlq%'"
    )
    store = await store_rig.open()
    page = await store.page(EVERYTHING, limit=200)
    assert sum(entry.clipped for entry in page.entries) >= 199
    size = sum(len(readable(value)) for entry in page.entries for value in entry.values)
    assert size < 200 * (CLIP + 1000)
    whole = await store.get("id7")
    assert whole is not None
    assert len(str(whole.get("error"))) == 1_048_576
