"""Filters answered by the store itself, each and combined; counts equal a recount by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from backends.criterion import Criterion, Pattern
from backends.records import OPEN_STATES, STATES, Entry, Filter, State, parse_time
from backends.sql.store import SQLStore
from backends.store import Result
from console.services.browse.filter_match import fits
from tests.support.store import (
    ACTOR,
    BASE,
    EVERYTHING,
    PostgresRig,
    Rig,
    SQLiteRig,
    attempt_on,
    ids,
    order_row,
    pick,
    recount,
    walk,
    why,
)


async def last(store: SQLStore, where: Filter) -> str:
    return "".join(entry_id[-1] for entry_id in await ids(store, where))


async def test_each_field(store_rig: Rig) -> None:
    await store_rig.make(
        [
            order_row(0, venue_name="kalshi"),
            order_row(1, account_id=None),
            order_row(2, market_id="BTC/USDT"),
            order_row(3, side="sell"),
            order_row(4, venue_name="kalshi", side="sell"),
        ]
    )
    store = await store_rig.open()
    assert await last(store, Filter(venue="kalshi")) == "04"
    assert await last(store, Filter(account="main")) == "0234"
    assert await last(store, Filter(market="BTC/USDT")) == "2"
    assert await last(store, Filter(side="sell")) == "34"
    assert await last(store, Filter(venue="kalshi", side="sell")) == "4"
    assert await last(store, Filter(venue="KALSHI")) == "04"
    assert await last(store, Filter(venue="")) == ""
    assert await last(store, Filter(venue="kalshi", side="sell", market="nothing")) == ""


async def test_a_filter_on_a_column_that_is_not_there_matches_nothing(store_rig: Rig) -> None:
    await store_rig.make(2)
    await store_rig.sql(
        "CREATE VIEW q AS SELECT dlq_id, captured_at, venue_name, market_id, side, quantity, error, dismissed, "
        "action_json FROM order_dlq"
    )
    store = await store_rig.open(table="q")
    assert len(await ids(store, Filter())) == 2
    assert await ids(store, Filter(account="main")) == []
    assert (await store.counts(Filter(account="main"))).open == 0


async def test_since_and_until(store_rig: Rig) -> None:
    await store_rig.make(6)
    store = await store_rig.open()
    second = timedelta(seconds=1)
    assert await last(store, Filter(since=BASE + 2 * second)) == "2345"
    assert await last(store, Filter(until=BASE + 2 * second)) == "01"
    assert await last(store, Filter(since=BASE + second, until=BASE + 4 * second)) == "123"
    elsewhere = (BASE + 2 * second).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert await last(store, Filter(since=elsewhere)) == "2345"


MIXED = {
    "2026-04-18T14:00:00Z": 0,
    "2026-04-18T14:00:00.500Z": 0.5,
    "2026-04-18 14:00:01+00:00": 1,
    "2026-04-18T19:30:02+05:30": 2,
    "2026-04-18T10:00:03-04:00": 3,
    "2026-04-18T14:00:04": 4,
    "2026-04-18 14:00:05.123456": 5.123456,
    "2026-04-18T14:00Z": 0,
    "2026-04-18T14:00:06+0000": 6,
    "2026-04-18T16:00:07+02": 7,
}
RARE = {"20260418T140008Z": 8, "2026-04-18T14:00:09,5Z": 9.5, " 2026-04-18T14:00:10Z ": 10}  # Python reads them, too


@pytest.mark.parametrize("spelling", [*MIXED, *RARE])
async def test_since_understands_mixed_spellings_on_sqlite(sqlite_store: SQLiteRig, spelling: str) -> None:
    await sqlite_store.make([order_row(0, captured_at=spelling), order_row(1, captured_at="no time at all")])
    store = await sqlite_store.open()
    moment = datetime.fromisoformat("2026-04-18T14:00:00+00:00") + timedelta(seconds=(MIXED | RARE)[spelling])
    later = moment + timedelta(milliseconds=1)
    assert await last(store, Filter(since=moment - timedelta(milliseconds=1))) == "0"
    assert await last(store, Filter(since=later)) == ""
    assert await last(store, Filter(until=later)) == "0"
    assert await last(store, Filter(until=moment - timedelta(milliseconds=1))) == ""
    assert len(await ids(store, Filter())) == 2


async def test_since_understands_text_on_postgres(postgres_store: PostgresRig) -> None:
    await postgres_store.make(0)
    await postgres_store.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    await postgres_store.sql("ALTER TABLE q ALTER captured_at TYPE text")
    odd = (
        "never",
        "",
        "2026-02-30T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "2026-04-18T14:00:99Z",
        None,
    )
    spellings = [*MIXED, *odd]
    await postgres_store.fill([order_row(n, captured_at=time) for n, time in enumerate(spellings)], "q")
    store = await postgres_store.open(table="q")
    start = datetime.fromisoformat("2026-04-18T14:00:00+00:00")
    found = await store.page(Filter(since=start, until=start + timedelta(minutes=1)), limit=99)
    assert {entry.get("captured_at") for entry in found.entries} == set(MIXED)
    early = await store.page(Filter(until=start), limit=99)
    assert early.entries == (), "a day that does not exist is no time"
    assert (await store.counts(Filter(since=start))).open == len(MIXED)
    assert len(await walk(store, limit=2)) == len(spellings)


async def test_search(store_rig: Rig) -> None:
    await store_rig.make(
        [
            order_row(0, error="100% of x_y lost"),
            order_row(1, error="100 of xzy lost"),
            order_row(2, error="back\\slash"),
            order_row(3, error="HTTP 503", market_id="needle"),
            order_row(4, error="HTTP 503", client_order_id="needle-7"),
            order_row(5, error="HTTP 503", action_json='{"x": "Needle"}'),
            order_row(6, error="bang! and more", dlq_id="dlq_needle6"),
        ]
    )
    store = await store_rig.open()
    assert await last(store, Filter(terms=("100%",))) == "0"
    assert await last(store, Filter(terms=("x_y",))) == "0"
    assert await last(store, Filter(terms=("k\\s",))) == "2"
    assert await last(store, Filter(terms=("\\",))) == "2"
    assert await last(store, Filter(terms=("g! a",))) == "6"
    assert await last(store, Filter(terms=("%",))) == "0"
    assert await last(store, Filter(terms=("NEEDLE",))) == "3"
    assert await last(store, Filter(terms=("needle", "503"))) == "3"
    assert await last(store, Filter(terms=("503",), without=("needle-",))) == "345"
    assert await last(store, Filter(without=("needle", "100"))) == "2456"
    assert await last(store, Filter(terms=("'; DROP TABLE order_dlq; --",))) == ""
    assert await last(store, Filter(terms=("",))) == "0123456"


async def test_search_ignores_the_case_of_any_alphabet_and_finds_what_the_console_finds(store_rig: Rig) -> None:
    errors = [
        "Überweisung [ÜBER] fehlt",
        "überall*? und (mehr)",
        "ΣΊΣΥΦΟΣ",
        "ЗАЯВКА отклонена",
        "Straße 5",
        "100% ünd_x",
    ]
    await store_rig.make([order_row(n, error=error) for n, error in enumerate(errors)])
    store = await store_rig.open()
    every = (await store.page(Filter(), limit=99)).entries
    terms = (
        "über",
        "ÜBER",
        "[über]",
        "L*? UND (ME",
        "σίσυφος",
        "заявка",
        "ОТКЛОНЕНА",
        "straße",
        "% ÜND_X",
        "ünd.x",
        "ß",
        "ü*",
    )
    for term in terms:
        for where in (Filter(terms=(term,)), Filter(without=(term,))):
            found = await store.page(where, limit=99)
            assert [entry.id for entry in found.entries] == [entry.id for entry in every if fits(entry, where)], where
    assert await last(store, Filter(terms=("ÜBER",))) == "01"
    assert await last(store, Filter(terms=("σίσυφος",))) == "2"


async def test_search_sees_null_as_empty(store_rig: Rig) -> None:
    await store_rig.make([order_row(0, client_order_id=None), order_row(1)])
    store = await store_rig.open()
    assert await last(store, Filter(without=("c-1",))) == "0"
    assert await last(store, Filter(terms=("c-1",))) == "1"


async def test_counts_equal_a_recount(store_rig: Rig) -> None:
    """Random stores in random states under random filters: what is counted is what is there."""
    dice = random.Random(20260418)
    venues, sides, words = ["alpaca", "kalshi", "ccxt:binance"], ["buy", "sell"], ["timeout", "429", "insufficient"]
    rows = [
        order_row(
            n,
            venue_name=dice.choice(venues),
            side=dice.choice(sides),
            error=" ".join(dice.sample(words, 2)),
            dismissed=dice.random() < 0.3,
            captured_at=BASE + timedelta(seconds=dice.randrange(50)),
        )
        for n in range(60)
    ]
    await store_rig.make(rows)
    store = await store_rig.open()
    await check_counts(store, dice, venues, words)
    free = [n for n, row in enumerate(rows) if not row["dismissed"]]
    for n, outcome in zip(
        dice.sample(free, 8), ["unknown", "accepted", "rejected", "not_sent", None] * 2, strict=False
    ):
        await attempt_on(store, n, Result(outcome) if outcome else None)  # type: ignore[arg-type]  # each is an outcome
    await store.dismiss(await pick(store, *dice.sample(free, 5)), ACTOR, why())
    await store_rig.sql(f"UPDATE order_dlq SET dismissed = {store_rig.flag(True)} WHERE dlq_id = 'dlq_{free[0]:016x}'")
    await check_counts(store, dice, venues, words)


async def check_counts(store: SQLStore, dice: random.Random, venues: list[str], words: list[str]) -> None:
    everything = await walk(store, EVERYTHING, limit=17)
    assert len(everything) == 60
    for _ in range(25):
        where = Filter(
            states=dice.choice([OPEN_STATES, frozenset(STATES), frozenset(dice.sample(STATES, dice.randrange(1, 5)))]),
            venue=dice.choice([None, *venues]),
            side=dice.choice([None, "buy"]),
            since=dice.choice([None, BASE + timedelta(seconds=20)]),
            until=dice.choice([None, BASE + timedelta(seconds=40)]),
            terms=dice.choice([(), (words[0],)]),
            without=dice.choice([(), (words[1],)]),
        )
        where = dice.choice([where, replace(Filter(), states=where.states)])
        expected = [entry for entry in everything if matches(entry, where)]
        counts = await store.counts(where)
        assert {state: n for state, n in counts.by_state.items() if n} == recount(expected), where
        assert counts.open == sum(1 for entry in expected if entry.state in OPEN_STATES)
        assert await walk(store, where, limit=7) == expected, where
        pending = [parse_time(entry.get("captured_at")) for entry in expected if entry.state == "pending"]
        assert counts.oldest_pending == min((at for at in pending if at is not None), default=None)


def matches(entry: Entry, where: Filter) -> bool:
    """The filter as plain Python says it."""
    captured = parse_time(entry.get("captured_at"))
    searched = " ".join(entry.text(name) for name in ("error", "dlq_id", "client_order_id", "market_id", "action_json"))
    state: State = entry.state
    return (
        state in where.states
        and where.venue in (None, entry.get("venue_name"))
        and where.side in (None, entry.get("side"))
        and (where.since is None or (captured is not None and captured >= where.since))
        and (where.until is None or (captured is not None and captured < where.until))
        and all(term in searched for term in where.terms)
        and not any(term in searched for term in where.without)
    )


async def test_counts_of_odd_flags_agree_with_the_states_shown(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(0)
    await sqlite_store.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    for n, odd in enumerate([0, 1, 2, -1, None, "yes", "0", "", b"\x00", 0.0, 0.5]):
        await sqlite_store.insert(order_row(n, dismissed=odd), "q")
    store = await sqlite_store.open(table="q")
    shown = await walk(store, EVERYTHING, limit=4)
    assert len(shown) == 11
    assert [entry.state for entry in shown[:5]] == ["pending", "dismissed", "dismissed", "dismissed", "pending"]
    assert dict((await store.counts(EVERYTHING)).by_state) == recount(shown)
    for state in ("pending", "dismissed"):
        where = Filter(states=frozenset({state}))
        assert recount(await walk(store, where)) == {state: recount(shown)[state]}
    done = await store.dismiss(await pick(store, *range(11)), ACTOR, why())
    assert len(done.done) == recount(shown)["pending"]
    assert len(done.changed) == recount(shown)["dismissed"]
    assert {now for _, now in done.changed} == {"dismissed"}


async def test_an_index_answers_a_filter_in_any_case(store_rig: Rig) -> None:
    await store_rig.make([order_row(n, venue_name=("Kalshi", "alpaca", "KALSHI")[n % 3]) for n in range(9)])
    await store_rig.sql("CREATE INDEX by_venue ON order_dlq (venue_name)")
    store = await store_rig.open()
    assert await last(store, Filter(venue="kalshi")) == "023568"
    assert await last(store, Filter(venue="ALPACA")) == "147"
    assert await last(store, Filter(venue="nowhere")) == ""
    assert (await store.counts(Filter(venue="kalshi"))).open == 6
    await store_rig.fill([order_row(9, venue_name="kalshI"), order_row(10, venue_name="Nowhere")])
    assert await last(store, Filter(venue="kalshi")) == "0235689"
    assert await last(store, Filter(venue="nowhere")) == "a"
    asked = {query.text.partition("WHERE")[2] for query in store._queries.values()}
    assert any('"venue_name" = ' in text.replace("= ? COLLATE", "") for text in asked), "not as it is stored"


async def test_a_column_of_many_values_is_filtered_without_its_index(store_rig: Rig) -> None:
    rows = [order_row(n, market_id=f"M-{n}", venue_name=f"v{n % 12}") for n in range(260)]
    await store_rig.make(rows)
    await store_rig.sql("CREATE INDEX by_market ON order_dlq (market_id)")
    await store_rig.sql("CREATE INDEX by_venue ON order_dlq (venue_name)")
    store = await store_rig.open()
    assert await ids(store, Filter(market="m-7")) == [rows[7]["dlq_id"]]
    assert await ids(store, Filter(market="m-7", venue="V7")) == [rows[7]["dlq_id"]]
    every = replace(Filter(), criteria=(Criterion("venue", (Pattern(("v", "")),)),))
    assert len(await ids(store, every)) == 260


async def test_values_that_are_no_text_are_filtered_without_an_index(store_rig: Rig) -> None:
    if not isinstance(store_rig, SQLiteRig):
        return
    await store_rig.make([order_row(n) for n in range(3)])
    await store_rig.sql("CREATE INDEX by_venue ON order_dlq (venue_name)")
    await store_rig.sql("DROP TRIGGER order_dlq_worm_upd")
    await store_rig.sql("UPDATE order_dlq SET venue_name = x'4b414c534849' WHERE rowid = 2")
    await store_rig.sql("UPDATE order_dlq SET venue_name = CAST(x'4bff' AS TEXT) WHERE rowid = 3")
    store = await store_rig.open()
    assert await last(store, Filter(venue="kalshi")) == "1"
    assert await last(store, Filter(venue="k\\xff")) == "2"


async def test_what_an_index_answers_is_judged_by_the_whole_filter_too(postgres_store: PostgresRig) -> None:
    """A collation may call more equal than a filter does, and an act by the filter would take those entries as well."""
    await postgres_store.make([order_row(n, venue_name=name) for n, name in enumerate(("alpaca", "\u00e1lpaca"))])
    await postgres_store.sql("CREATE INDEX by_venue ON order_dlq (venue_name)")
    store = await postgres_store.open()
    assert await last(store, Filter(venue="alpaca")) == "0"
    [asked] = [query.text for query in store._queries.values() if "WITH RECURSIVE" in query.text]
    condition = asked.rpartition("WHERE")[2]
    assert '"venue_name" = ' in condition, "by the index"
    assert 'COLLATE "C" = ' in condition, "and by its letters"
