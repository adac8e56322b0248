"""Every fault, byte by byte, in every wire format: what is booked, what comes back, how the connection ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.practice_wire import (
    DIALECTS,
    HYPERLIQUID,
    KALSHI,
    Dialect,
    Heard,
    SteppedClock,
    client_ids,
    connect,
    hear,
    order_ids,
    until,
)
from venues.practice import BEHAVIOURS, DEMO_SYMBOLS, PracticeExchange

FOREVER = 600.0
Check = Callable[[Dialect, Heard], None]

pytestmark = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def exchange(clock: SteppedClock) -> AsyncIterator[PracticeExchange]:
    async with PracticeExchange(clock=clock) as running:
        yield running


def silent(_: Dialect, heard: Heard) -> None:
    assert heard == Heard(b"", "closed")


def own_error(status: int) -> Check:
    def check(dialect: Dialect, heard: Heard) -> None:
        assert heard.status == status
        assert len(heard.body) == int(heard.headers["content-length"])
        match dialect.name:
            case "alpaca":
                assert heard.json().keys() >= {"code", "message"}
            case "kalshi":
                assert heard.json()["error"].keys() >= {"code", "message"}
            case "binance":
                assert heard.json()["code"] < 0
                assert heard.json()["msg"]
            case _:
                assert heard.headers["content-type"].startswith("text/plain")
                assert heard.body

    return check


def foreign_page(status: int) -> Check:
    def check(_: Dialect, heard: Heard) -> None:
        assert heard.status == status
        assert heard.headers["content-type"] == "text/html"
        assert heard.body.startswith(b"<html>")

    return check


def garbage(_: Dialect, heard: Heard) -> None:
    assert heard.status == 200
    with pytest.raises(json.JSONDecodeError):
        heard.json()


def empty(_: Dialect, heard: Heard) -> None:
    assert heard.status == 200
    assert heard.body == b""
    assert heard.headers["content-length"] == "0"


def no_id(_: Dialect, heard: Heard) -> None:
    assert heard.status in (200, 201)
    assert order_ids(heard.json()) == []


def wrong_id(dialect: Dialect, heard: Heard) -> None:
    echoed = client_ids(heard.json())
    assert echoed
    assert dialect.client_ids[0] not in echoed
    assert order_ids(heard.json())


def reset(_: Dialect, heard: Heard) -> None:
    assert heard.end == "reset"
    assert 0 < len(heard.body) < int(heard.headers["content-length"])


def cut(_: Dialect, heard: Heard) -> None:
    assert heard.end == "closed"
    assert len(heard.body) == int(heard.headers["content-length"]) > 0
    with pytest.raises(json.JSONDecodeError):
        heard.json()


def refused(dialect: Dialect, heard: Heard) -> None:
    expected = {
        "alpaca": (403, "insufficient buying power"),
        "kalshi": (400, "insufficient_balance"),
        "binance": (400, "insufficient balance"),
        "hyperliquid": (200, "Insufficient margin"),
    }
    status, words = expected[dialect.name]
    assert heard.status == status
    assert words in heard.body.decode()
    assert order_ids(heard.json()) == []


def accepted(dialect: Dialect, heard: Heard) -> None:
    assert heard.status == (201 if dialect is KALSHI else 200)
    assert len(order_ids(heard.json())) == 1
    assert dialect.client_ids[0] in client_ids(heard.json())


def redirected(_: Dialect, heard: Heard) -> None:
    assert heard.status == 307
    assert heard.headers["location"].startswith("http://127.0.0.1:")


EXPECTED: dict[str, tuple[bool, Check]] = {
    "accept_then_drop": (True, silent),
    "drop_before_accept": (False, silent),
    **{f"http_{status}": (False, own_error(status)) for status in (400, 401, 403, 404, 408, 409, 410, 422, 429)},
    "http_500": (False, own_error(500)),
    "http_503": (False, foreign_page(503)),
    "http_504": (False, foreign_page(504)),
    "html_403": (False, foreign_page(403)),
    "booked_500": (True, own_error(500)),
    "booked_503": (True, foreign_page(503)),
    "booked_504": (True, foreign_page(504)),
    "garbage_200": (True, garbage),
    "empty_200": (True, empty),
    "no_id_200": (True, no_id),
    "wrong_id_200": (True, wrong_id),
    "reset_mid_body": (True, reset),
    "truncated_json": (True, cut),
    "late_visibility": (True, accepted),
    "late_booking": (False, silent),
    "redirect_307": (False, redirected),
    "reject": (False, refused),
    "wrong_date": (True, accepted),
}
PATIENT = {"delay", "slow_headers"}  # they outlast a test; each has its own below
ELSEWHERE = {"closed", "lookup_different"}  # cannot happen to an order


def test_every_fault_is_covered(dialect: Dialect) -> None:
    assert set(EXPECTED) | PATIENT | ELSEWHERE == set(BEHAVIOURS)


@pytest.mark.parametrize("fault", EXPECTED)
async def test_fault_on_an_order(exchange: PracticeExchange, dialect: Dialect, fault: str) -> None:
    booked, check = EXPECTED[fault]
    exchange.fault(dialect.symbol, fault, times=1)
    check(dialect, await hear(exchange.url, dialect.place()))
    assert [order.client_order_id for order in exchange.orders] == [dialect.client_ids[0]] * booked
    (line,) = exchange.received
    assert (line["booked"], line["fault"]) == (booked, fault)
    accepted_next = await hear(exchange.url, dialect.place(dialect.client_ids[1]))
    assert order_ids(accepted_next.json())
    assert len(exchange.orders) == booked + 1


@pytest.mark.parametrize("fault", ["delay", "slow_headers"])
async def test_patient_faults_book_at_once_and_keep_the_client_waiting(
    exchange: PracticeExchange, dialect: Dialect, fault: str
) -> None:
    exchange.fault(dialect.symbol, fault, seconds=FOREVER)
    reader, writer = await connect(exchange.url)
    writer.write(dialect.place().encode())
    await until(lambda: exchange.orders)
    if fault == "slow_headers":
        async with asyncio.timeout(30):
            assert await reader.readexactly(1) == b"H"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()
    await asyncio.sleep(0)


@pytest.mark.parametrize("fault", ["delay", "slow_headers"])
async def test_patient_faults_end_in_the_venues_own_answer(
    exchange: PracticeExchange, dialect: Dialect, fault: str
) -> None:
    exchange.fault(dialect.symbol, fault, seconds=0.05)
    accepted(dialect, await hear(exchange.url, dialect.place()))


@pytest.mark.parametrize("fault", ["http_429", "http_500", "http_503", "garbage_200", "empty_200", "accept_then_drop"])
async def test_failing_lookup_does_not_touch_the_order(
    exchange: PracticeExchange, dialect: Dialect, fault: str
) -> None:
    await hear(exchange.url, dialect.place())
    exchange.fault("*", fault, on="lookup", times=1)
    heard = await hear(exchange.url, dialect.find())
    EXPECTED[fault][1](dialect, heard)
    assert order_ids((await hear(exchange.url, dialect.find())).json())


@pytest.mark.parametrize("word", ["REJECT", "BUSY", "DROP", "LOST", "NOID", "EMPTY"])
async def test_demo_symbols_misbehave_without_setting_up(
    exchange: PracticeExchange, dialect: Dialect, word: str
) -> None:
    symbol = {"kalshi": f"KXDEMO-{word}", "binance": f"{word}USDT"}.get(dialect.name, word)
    heard = await hear(exchange.url, dialect.place(symbol=symbol))
    booked, check = EXPECTED[DEMO_SYMBOLS[word]]
    check(dialect, heard)
    assert len(exchange.orders) == booked


async def test_missing_credentials_are_refused_as_the_venue_does(exchange: PracticeExchange, dialect: Dialect) -> None:
    ask = dialect.place()
    bare = {name: value for name, value in ask.headers.items() if name == "Content-Type"}
    body = ask.body.replace('"signature"', '"sig"') if dialect is HYPERLIQUID else ask.body
    heard = await hear(exchange.url, type(ask)(ask.method, ask.target, bare, body))
    own_error(422 if dialect is HYPERLIQUID else 401)(dialect, heard)
    assert exchange.orders == ()
    assert [line["booked"] for line in exchange.received] == [False]
