"""A filter means the same rows in SQLite, in Postgres, in another layout, behind a hub's API and in memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from backends.criterion import fold
from backends.records import Entry, Filter
from backends.store import Store
from console.services.browse.filter_match import fits
from console.services.resend.hub_source import entry_of
from tests.support.integration import IntegrationRig, failed_row
from tests.support.outbox import OutboxRig, dead_row
from tests.support.store import BASE, EVERYTHING, PostgresRig, Rig, order_row, sqlite_rig
from venues.integration.hub import Failed

SECOND = timedelta(seconds=1)
# (venue, account, error) of each row; a row's number is also its second.
ROWS = (
    ("alpaca", "main", "HTTP 503 from upstream"),
    ("kalshi", None, "HTTP 429: 100% of x_y"),
    ("alpaca", "", "Überweisung [fehlt] *?"),
    ("Alpaca", "spare", "back\\slash and 'quotes'"),
    ("kalshi", "main", ""),
)
# What each filter means, as the numbers of the rows.
MEANING = [
    (Filter(), "01234"),
    (Filter(venue="alpaca"), "023"),
    (Filter(venue="ALPACA"), "023"),
    (Filter(venue=""), ""),
    (Filter(account="main"), "04"),
    (Filter(account=""), "12"),
    (Filter(account="nobody"), ""),
    (Filter(failure="rejected"), ""),
    (Filter(venue="kalshi", account="main"), "4"),
    (Filter(since=BASE + 2 * SECOND), "234"),
    (Filter(until=BASE + 2 * SECOND), "01"),
    (Filter(since=BASE + SECOND, until=BASE + 4 * SECOND), "123"),
    (Filter(since=(BASE + 3 * SECOND).astimezone(timezone(-timedelta(hours=7)))), "34"),
    (Filter(terms=("http",)), "01"),
    (Filter(terms=("HTTP", "503")), "0"),
    (Filter(terms=("100%",)), "1"),
    (Filter(terms=("x_y",)), "1"),
    (Filter(terms=("xzy",)), ""),
    (Filter(terms=("über",)), "2"),
    (Filter(terms=("[FEHLT] *?",)), "2"),
    (Filter(terms=("k\\s",)), "3"),
    (Filter(terms=("'quotes'",)), "3"),
    (Filter(terms=("",)), "01234"),
    (Filter(without=("http",)), "234"),
    (Filter(without=("http", "ÜBER")), "34"),
    (Filter(without=("",)), ""),
    (Filter(terms=("a\0b",)), ""),
    (Filter(without=("a\0b",)), "01234"),
    (Filter(venue="alpaca", terms=("503",), since=BASE, until=BASE + SECOND), "0"),
    (Filter(states=frozenset({"dismissed"})), ""),
]


def numbers(entries: tuple[Entry, ...] | list[Entry]) -> str:
    """The rows' numbers: each id ends with one."""
    return "".join(entry.id[-1] for entry in entries)


async def check(store: Store) -> None:
    every = (await store.page(EVERYTHING, limit=99)).entries
    for where, expected in MEANING:
        found = (await store.page(where, limit=99)).entries
        assert numbers(found) == expected, where
        assert sum((await store.counts(where)).by_state.values()) == len(expected), where
        assert numbers([entry for entry in every if fits(entry, where)]) == expected, f"in memory: {where}"


async def test_the_order_layout(store_rig: Rig) -> None:
    rows = [
        order_row(n, venue_name=venue, account_id=account, error=error)
        for n, (venue, account, error) in enumerate(ROWS)
    ]
    await store_rig.make(rows)
    await check(await store_rig.open())


@pytest.fixture
async def integration(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


def call_row(number: int) -> dict[str, object]:
    venue, account, error = ROWS[number]
    return failed_row(
        number,
        providerId=venue,
        providerName=None,
        tenantId=account,
        error=error,
        originalRequest=json.dumps({"method": "GET"}),
    )


async def test_the_integration_layout(integration: IntegrationRig) -> None:
    await integration.failed(*(call_row(n) for n in range(len(ROWS))))
    await check(await integration.store())


def test_entries_of_a_hub() -> None:
    entries = []
    for n in range(len(ROWS)):
        row = call_row(n) | {"createdAt": (BASE + n * SECOND).isoformat(), "id": str(call_row(n)["id"])}
        entries.append(entry_of(Failed(str(row["id"]), row)))
    for where, expected in MEANING:
        assert numbers([entry for entry in entries if fits(entry, where)]) == expected, where


@pytest.mark.parametrize("where", [Filter(market="AAPL"), Filter(side="buy")])
async def test_a_field_that_a_layout_has_no_column_for_matches_nothing(
    integration: IntegrationRig, tmp_path: Path, where: Filter
) -> None:
    await integration.failed(call_row(0))
    calls = await integration.store()
    assert (await calls.page(where, limit=9)).entries == ()
    assert not fits((await calls.page(Filter(), limit=9)).entries[0], where)
    rig = sqlite_rig(tmp_path)
    await rig.make(1)
    assert numbers((await (await rig.open()).page(where, limit=9)).entries) == "0"
    await rig.aclose()


SPELLED = {
    "2026-04-18T14:32:16Z": True,
    "2026-04-18 16:32:16+02:00": True,
    "2026-04-18T14:32:16": True,
    "2026-04-18T14:32:14Z": False,
    "never": False,
    "": False,
    "2026-13-01T00:00:00Z": False,
    "infinity": False,
    None: False,
}


@pytest.fixture
async def outbox(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


async def test_times_kept_as_text(store_rig: Rig) -> None:
    await store_rig.make(0)
    await store_rig.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    if isinstance(store_rig, PostgresRig):
        await store_rig.sql("ALTER TABLE q ALTER captured_at TYPE text")
    await store_rig.fill([order_row(n, captured_at=text) for n, text in enumerate(SPELLED)], "q")
    await spans(await store_rig.open(table="q"), "captured_at")


async def test_times_kept_as_text_in_an_outbox(outbox: OutboxRig) -> None:
    await outbox.sql("ALTER TABLE outbox_dlq ALTER failed_at DROP DEFAULT, ALTER failed_at TYPE text")
    await outbox.sql("ALTER TABLE outbox_dlq ALTER failed_at DROP NOT NULL")
    await outbox.dead(*(dead_row(n, failed_at=text) for n, text in enumerate(SPELLED)))
    await spans(await outbox.store(), "failed_at")


async def spans(store: Store, moment: str) -> None:
    every = (await store.page(EVERYTHING, limit=99)).entries
    assert len(every) == len(SPELLED)
    where = Filter(since=BASE)
    expected = {text for text, inside in SPELLED.items() if inside}
    assert {entry.get(moment) for entry in (await store.page(where, limit=99)).entries} == expected
    assert {entry.get(moment) for entry in every if fits(entry, where)} == expected


async def test_an_infinite_time_lies_in_no_span(outbox: OutboxRig) -> None:
    await outbox.dead(1, 2, 3)
    await outbox.sql("UPDATE outbox_dlq SET failed_at = 'infinity' WHERE id = 2")
    await outbox.sql("UPDATE outbox_dlq SET failed_at = '-infinity' WHERE id = 3")
    await outbox.make(0)
    await outbox.fill([order_row(1)])
    for n, end in ((2, "infinity"), (3, "-infinity")):
        await outbox.sql(
            "INSERT INTO order_dlq SELECT $1, $2::text::timestamptz, venue_name, account_id, market_id, side, "
            "quantity, order_type, price, client_order_id, error, retry_count, dismissed, action_json "
            "FROM order_dlq LIMIT 1",
            f"dlq_{n}",
            end,
        )
    epoch = datetime(1970, 1, 1, tzinfo=BASE.tzinfo)
    for store in (await outbox.store(table="outbox_dlq"), await outbox.store(table="order_dlq")):
        every = (await store.page(EVERYTHING, limit=9)).entries
        assert len(every) == 3
        for where in (Filter(since=epoch), Filter(until=BASE + timedelta(days=1))):
            assert numbers((await store.page(where, limit=9)).entries) == "1"
            assert numbers([entry for entry in every if fits(entry, where)]) == "1"


def test_what_folds_to_ascii_letters_takes_as_many_bytes_at_least() -> None:
    """A Postgres of UTF-8 tells by its length alone that a text is none of those that fold to what is asked for."""
    folded = {letter: fold(letter) for letter in map(chr, range(0x110000)) if fold(letter).isascii()}
    assert {"\u212a", "\u017f", "\ufb03"} <= folded.keys()
    for letter, text in folded.items():
        assert 1 <= len(text) <= len(letter.encode()) <= 4 * len(text)
