"""What the exchange does in time and to others than new orders: late booking, hidden orders, clocks, cancels."""

from __future__ import annotations

from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime

import pytest

from tests.support.practice_wire import (
    ALPACA,
    BINANCE,
    DIALECTS,
    Ask,
    Dialect,
    Heard,
    SteppedClock,
    hear,
    order_ids,
    until,
    values,
)
from venues.practice import PracticeExchange

pytestmark = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def exchange(clock: SteppedClock) -> AsyncIterator[PracticeExchange]:
    async with PracticeExchange(clock=clock) as running:
        yield running


async def test_late_visibility_hides_a_booked_order_until_its_time(
    exchange: PracticeExchange, dialect: Dialect, clock: SteppedClock
) -> None:
    exchange.fault(dialect.symbol, "late_visibility", times=1, seconds=60)
    placed = order_ids((await hear(exchange.url, dialect.place())).json())
    clock.step(59)
    assert not set(placed) & set(order_ids((await hear(exchange.url, dialect.find())).json()))
    clock.step(1)
    assert set(placed) <= set(order_ids((await hear(exchange.url, dialect.find())).json()))


async def test_a_hidden_order_still_makes_its_client_id_a_duplicate(
    exchange: PracticeExchange, dialect: Dialect
) -> None:
    exchange.fault(dialect.symbol, "late_visibility", times=1, seconds=60)
    await hear(exchange.url, dialect.place())
    again = await hear(exchange.url, dialect.place())
    assert order_ids(again.json()) == []
    assert len(exchange.orders) == 1


async def test_late_booking_books_when_its_time_has_come(
    exchange: PracticeExchange, dialect: Dialect, clock: SteppedClock
) -> None:
    exchange.fault(dialect.symbol, "late_booking", times=1, seconds=5)
    assert await hear(exchange.url, dialect.place()) == Heard(b"", "closed")
    clock.step(4)
    assert not [line for line in exchange.ledger if line["type"] == "order"]
    clock.step(1)
    assert order_ids((await hear(exchange.url, dialect.find())).json())
    assert [order.client_order_id for order in exchange.orders] == [dialect.client_ids[0]]


async def test_late_booking_needs_no_request_to_happen(dialect: Dialect) -> None:
    async with PracticeExchange() as exchange:
        exchange.fault(dialect.symbol, "late_booking", seconds=0.02)
        await hear(exchange.url, dialect.place())
        await until(lambda: [line for line in exchange.ledger if line["type"] == "order"])


@pytest.mark.parametrize("seconds", [3600, -3600])
async def test_wrong_date(exchange: PracticeExchange, dialect: Dialect, clock: SteppedClock, seconds: int) -> None:
    exchange.fault("*", "wrong_date", on="probe", seconds=seconds, times=1)
    for expected in (seconds, 0):
        heard = await hear(exchange.url, dialect.probe())
        skew = parsedate_to_datetime(heard.headers["date"]) - clock.now
        assert skew.total_seconds() == expected


async def test_closed_market(exchange: PracticeExchange, dialect: Dialect) -> None:
    said: dict[str, tuple[Ask, str, object, object]] = {
        "alpaca": (dialect.probe(), "is_open", True, False),
        "kalshi": (dialect.probe(), "trading_active", True, False),
        "binance": (Ask("GET", "/sapi/v1/system/status", {}), "status", 0, 1),
        "hyperliquid": (dialect.probe(), "specialStatuses", None, {"trading": "halted"}),
    }
    ask, key, opened, closed = said[dialect.name]
    assert (await hear(exchange.url, ask)).json()[key] == opened
    exchange.fault("*", "closed", on="probe")
    assert (await hear(exchange.url, ask)).json()[key] == closed


async def test_lookup_shows_another_quantity(exchange: PracticeExchange, dialect: Dialect) -> None:
    keys = ("qty", "initial_count_fp", "origQty", "origSz")
    await hear(exchange.url, dialect.place())
    exchange.fault(dialect.symbol, "lookup_different", on="lookup", times=1)
    (wrong,) = values((await hear(exchange.url, dialect.find())).json(), *keys)
    (right,) = values((await hear(exchange.url, dialect.find())).json(), *keys)
    assert float(str(wrong)) == 2 * float(str(right))


async def test_a_followed_redirect_is_counted(exchange: PracticeExchange, dialect: Dialect) -> None:
    exchange.fault("*", "redirect_307", times=1)
    heard = await hear(exchange.url, dialect.place())
    assert exchange.decoyed == 0
    await hear(heard.headers["location"], dialect.place())
    assert exchange.decoyed == 1
    assert exchange.orders == ()


async def test_faults_on_a_cancel(exchange: PracticeExchange, dialect: Dialect) -> None:
    placed = (await hear(exchange.url, dialect.place())).json()
    cancel = dialect.cancel(dialect.client_ids[0], dialect.symbol, order_ids(placed)[0])
    exchange.fault("*", "http_500", on="cancel", times=1)
    assert (await hear(exchange.url, cancel)).status == 500
    assert [order.state for order in exchange.orders] == ["open"]
    exchange.fault("*", "accept_then_drop", on="cancel", times=1)
    cancel = dialect.cancel(dialect.client_ids[0], dialect.symbol, order_ids(placed)[0])
    assert (await hear(exchange.url, cancel)) == Heard(b"", "closed")
    assert [order.state for order in exchange.orders] == ["cancelled"]
    assert [(line["kind"], line["booked"]) for line in exchange.received] == [
        ("new", True),
        ("cancel", False),
        ("cancel", True),
    ]


async def test_rate_limit_says_when_to_come_back(
    exchange: PracticeExchange, dialect: Dialect, clock: SteppedClock
) -> None:
    exchange.fault("*", "http_429", seconds=7)
    headers = (await hear(exchange.url, dialect.place())).headers
    if dialect is ALPACA:
        assert int(headers["x-ratelimit-reset"]) - int(clock.now.timestamp()) == 7
    if dialect is BINANCE:
        assert headers["retry-after"] == "7"
