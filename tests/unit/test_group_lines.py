"""The lines of a group: which columns and words each layout has, and how many of it are poisoned."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from backends.index import Cross
from backends.index.rows import purse_of
from console.render.group import GroupLook, Story, group_header, group_line, split_lines, story_lines
from console.render.line import Line, plain, width
from console.services.layout_fields import LAYOUTS
from console.services.market.entry_value import by_currency
from console.services.stats.group_sort import sorted_groups
from console.services.stats.groups import Group

NOW = datetime(2026, 4, 18, 15, 0, tzinfo=UTC)
GROUP = Group(
    fingerprint="486a1cf5750e",
    title="HTTP 503 after # attempts",
    category="transient",
    count=12,
    states={"pending": 12},
    first_seen=NOW,
    last_seen=NOW,
    retries=72,
    worth={" alpaca": Decimal("4223.15")},
    unpriced=0,
    venues={"here": 12},
    accounts={},
    markets={},
    trend=(1,) * 24,
)
SIZES = (76, 116, 196)


def texts(group: Group, layout: str, size: int) -> tuple[str, str, str]:
    fields = LAYOUTS[layout]
    story = story_lines(Story(group, (Cross("here", "whose", "what", 12),), ()), NOW, size, fields)
    return (
        plain(group_header(size, fields)),
        plain(group_line(group, NOW, size, fields)),
        "\n".join(map(plain, story)),
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("layout", "has", "lacks"),
    [
        ("orders", ("VENUE", "ACCOUNT", "MARKET", "notional 4,223.15 USD", "what"), ("QUEUE", "PROVIDER")),
        ("outbox", ("QUEUE", "72 tries"), ("VENUE", "ACCOUNT", "MARKET", "otional", "NOTIONAL", "whose", "what")),
        ("integration", ("PROVIDER", "TENANT", "whose"), ("VENUE", "ACCOUNT", "MARKET", "otional", "NOTIONAL", "what")),
    ],
)
def test_a_layout_has_its_own_columns(layout: str, has: tuple[str, ...], lacks: tuple[str, ...], size: int) -> None:
    shown = "\n".join(texts(GROUP, layout, size))
    assert [word for word in has if word not in shown] == []
    assert [word for word in lacks if word in shown] == []
    assert ("NOTIONAL" in shown) == (layout == "orders" and size >= 100)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", ["orders", "outbox", "integration"])
def test_poisoned_entries_are_told_in_words_and_move_no_column(layout: str, size: int) -> None:
    _, healthy, told = texts(GROUP, layout, size)
    assert "poison" not in healthy + told
    _, row, story = texts(replace(GROUP, poisoned=3), layout, size)
    assert "3 poisoned" in row
    assert "3 poisoned" in story
    assert row.index("here") == healthy.index("here")


def test_amounts_of_two_currencies_are_never_added() -> None:
    held = {
        purse_of("ccxt:binance", "BTC/USDT"): Decimal(231_602),
        purse_of("ccxt:kraken", "ETH/USDT:USDT"): Decimal(398),
        purse_of("ccxt:binance", "BTC/EUR"): Decimal(21_280),
        purse_of("tws", "AAPL:STK:SMART:USD"): Decimal(500),
        purse_of("mystery", "X"): Decimal(7),
    }
    group, look = replace(GROUP, worth=held), GroupLook(types={"tws": "ibkr"})
    assert "232k USDT+" in plain(group_line(group, NOW, 116, LAYOUTS["orders"], how=look))
    story = story_lines(Story(group, (), (), look.types), NOW, 196, LAYOUTS["orders"])
    named = "notional 232,000.00 USDT, 21,280.00 EUR, 500.00 USD, 7.00 of no known currency"
    assert named in "\n".join(map(plain, story))
    dear = replace(GROUP, fingerprint="dear", worth={"/EUR ccxt:binance": Decimal(300_000)})
    many = replace(GROUP, fingerprint="many", worth=held | {"/JPY ccxt:binance": Decimal(250_000)})
    largest = lambda one: max(by_currency(one.worth, look.types).values())  # noqa: E731
    assert [one.fingerprint for one in sorted_groups((many, dear), "value", largest)] == ["dear", "many"]


@pytest.mark.parametrize("layout", ["orders", "outbox", "integration"])
def test_a_row_fits_its_screen(layout: str) -> None:
    for size in range(76, 200):
        row: Line = group_line(replace(GROUP, title="x" * 300, poisoned=12), NOW, size, LAYOUTS[layout])
        assert width(row) <= size
        assert width(group_header(size, LAYOUTS[layout])) <= size


def test_the_name_of_a_venue_is_whole_where_there_is_room() -> None:
    group = replace(GROUP, venues={"Acme Payments": 11, "Initech": 1})
    _, row, _ = texts(group, "integration", 196)
    assert "Acme Payments +1" in row


def test_a_long_market_takes_what_other_names_do_not_need() -> None:
    split = (Cross("kalshi", "events", "KXFED-26APR-T4.25", 2), Cross("kalshi", "main", "x", 1))
    told = [plain(one) for one in split_lines(split, 76, LAYOUTS["orders"])]
    assert "KXFED-26APR-T4.25" in told[1]
    assert max(map(len, told)) <= 76
    assert told[0].rindex("COUNT") + len("COUNT") == told[1].index("2  █") + 1
