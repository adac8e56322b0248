"""The exchange's own paths, its patience with malformed requests, and the order in which faults strike."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.practice_wire import (
    ALPACA,
    ALPACA_KEYS,
    DIALECTS,
    HYPERLIQUID,
    KALSHI,
    KALSHI_KEYS,
    Ask,
    Dialect,
    alpaca_order,
    connect,
    hear,
    order_ids,
)
from venues.practice import BEHAVIOURS, DEMO_SYMBOLS, Fault, FaultError, PracticeExchange
from venues.practice.faults import FaultTable, demo_fault
from venues.practice.server import Server
from venues.practice.wire import WireRequest

EXAMPLES = int(os.environ.get("DLQ_EXAMPLES", "60"))


@pytest.fixture
async def exchange() -> AsyncIterator[PracticeExchange]:
    async with PracticeExchange() as running:
        yield running


async def control(exchange: PracticeExchange, method: str, path: str, body: object = None) -> tuple[int, Any]:
    heard = await hear(exchange.url, Ask(method, f"/practice{path}", {}, "" if body is None else json.dumps(body)))
    return heard.status, heard.json()


async def test_faults_are_set_shown_used_up_and_taken_away(exchange: PracticeExchange) -> None:
    once = {"symbol": "AAPL", "on": "order", "fault": "http_500", "times": 2, "seconds": None}
    ever = {"symbol": "*", "on": "lookup", "fault": "http_429", "times": None, "seconds": 9}
    assert (await control(exchange, "POST", "/faults", [once, ever]))[0] == 200
    assert (await hear(exchange.url, ALPACA.place())).status == 500
    _, left = await control(exchange, "GET", "/faults")
    assert [(row["fault"], row["times"], row["seconds"]) for row in left] == [
        ("http_500", 1, 0.0),
        ("http_429", None, 9.0),
    ]
    assert await control(exchange, "DELETE", "/faults") == (200, [])
    assert (await hear(exchange.url, ALPACA.place())).status == 200
    assert (await hear(exchange.url, ALPACA.find())).status == 200


@pytest.mark.parametrize(
    "wrong",
    [
        "nonsense",
        {"symbol": "AAPL", "fault": "no_such_fault"},
        {"symbol": "AAPL", "fault": "http_500", "on": "sunday"},
        {"symbol": "AAPL", "fault": "http_500", "on": ["order"]},
        {"symbol": "AAPL", "fault": "closed", "on": "order"},
        {"symbol": "AAPL", "fault": "late_booking", "on": "lookup"},
        {"symbol": "AAPL", "fault": "http_500", "times": 0},
        {"symbol": "AAPL", "fault": "http_500", "times": True},
        {"symbol": "AAPL", "fault": "delay", "seconds": "long"},
        {"symbol": "AAPL", "fault": "delay", "seconds": float("nan")},
        {"symbol": "AAPL", "fault": "delay", "second": 5},
    ],
)
async def test_a_fault_that_cannot_be_is_refused(exchange: PracticeExchange, wrong: object) -> None:
    good = {"symbol": "MSFT", "fault": "http_500"}
    status, answer = await control(exchange, "POST", "/faults", [good, wrong])
    assert status == 400
    assert answer["error"]
    assert await control(exchange, "GET", "/faults") == (200, [])


async def test_ledger_orders_and_counts_are_shown(exchange: PracticeExchange) -> None:
    placed = (await hear(exchange.url, ALPACA.place())).json()
    await hear(exchange.url, ALPACA.find())
    await hear(exchange.url, ALPACA.find())
    await hear(exchange.url, ALPACA.probe())
    await hear(exchange.url, Ask("GET", "/nowhere", {}))
    _, ledger = await control(exchange, "GET", "/ledger")
    assert [line["type"] for line in ledger] == ["request", "order"]
    _, orders = await control(exchange, "GET", "/orders")
    assert [order["order_id"] for order in orders] == [placed["id"]]
    assert await control(exchange, "GET", "/requests") == (
        200,
        {
            "total": 5,
            "kinds": {"new": 1, "lookup": 2, "probe": 1, "unknown": 1},
            "paths": {
                "POST /v2/orders": 1,
                "GET /v2/orders:by_client_order_id": 2,
                "GET /v2/clock": 1,
                "GET /nowhere": 1,
            },
            "followed_redirects": 0,
        },
    )


async def test_an_order_can_be_marked(exchange: PracticeExchange) -> None:
    placed = (await hear(exchange.url, ALPACA.place())).json()
    path = f"/orders/{placed['id']}"
    status, order = await control(exchange, "POST", path, {"state": "partly_filled", "filled": "4"})
    assert (status, order["state"], order["filled"]) == (200, "partly_filled", "4")
    shown = (await hear(exchange.url, ALPACA.find())).json()
    assert (shown["status"], shown["filled_qty"]) == ("partially_filled", "4")
    assert (await control(exchange, "POST", path, {"state": "lost"}))[0] == 400
    assert (await control(exchange, "POST", "/orders/nobody", {"state": "filled"}))[0] == 404


async def test_it_describes_itself(exchange: PracticeExchange) -> None:
    _, page = await control(exchange, "GET", "")
    assert page == {"url": exchange.url, "faults": list(BEHAVIOURS), "symbols": dict(DEMO_SYMBOLS)}
    assert (await control(exchange, "GET", "/nothing"))[0] == 404


def test_rules_strike_in_the_order_they_were_given() -> None:
    table = FaultTable()
    table.add(Fault("AAPL", "http_500", times=1))
    table.add(Fault("*", "http_503", on="new", times=2))
    struck = [table.take("new", symbol) for symbol in ("MSFT", "AAPL", "AAPL", "AAPL")]
    assert [fault and fault.name for fault in struck] == ["http_503", "http_500", "http_503", None]


@pytest.mark.parametrize(
    ("on", "struck"),
    [
        ("order", {"new", "replace", "cancel"}),
        ("new", {"new"}),
        ("replace", {"replace"}),
        ("cancel", {"cancel"}),
        ("lookup", {"lookup"}),
        ("probe", {"probe"}),
    ],
)
def test_a_rule_strikes_its_kind_only(on: Any, struck: set[str]) -> None:
    kinds: tuple[Any, ...] = ("new", "replace", "cancel", "lookup", "probe", "other")
    assert {kind for kind in kinds if Fault("*", "http_500", on=on).strikes(kind, None)} == struck


def test_demo_symbols_name_real_faults_that_can_strike_an_order() -> None:
    for symbol, name in DEMO_SYMBOLS.items():
        for written in (symbol, f"KX-26-{symbol}", f"{symbol}USDT", f"{symbol}/USDT", symbol.lower()):
            fault = demo_fault(written)
            assert fault is not None
            assert fault.name == name
    assert demo_fault("AAPL") is None


def test_unknown_names_say_what_there_is() -> None:
    with pytest.raises(FaultError, match="accept_then_drop"):
        Fault("AAPL", "nope")


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_many_requests_on_one_connection(exchange: PracticeExchange, dialect: Dialect) -> None:
    reader, writer = await connect(exchange.url)
    for name in dialect.client_ids:
        writer.write(dialect.place(name).encode(close=False))
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert "Connection: keep-alive" in head
        await reader.readexactly(int(head.partition("Content-Length: ")[2].partition("\r\n")[0]))
    writer.close()
    await writer.wait_closed()
    assert len(exchange.orders) == 2


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nnocolon\r\n\r\n", 400),
        (b"POST /v2/orders HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v2/orders HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", 413),
        (b"POST /v2/orders HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    ],
)
async def test_what_is_no_request_is_answered_and_hung_up(exchange: PracticeExchange, data: bytes, status: int) -> None:
    assert (await hear(exchange.url, data)).status == status
    assert (await hear(exchange.url, ALPACA.probe())).status == 200


async def test_half_a_request_books_nothing(exchange: PracticeExchange) -> None:
    whole = alpaca_order("dlq-1", "AAPL").encode()
    for cut in (10, len(whole) // 2, len(whole) - 1):
        _, writer = await connect(exchange.url)
        writer.write(whole[:cut])
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    assert (await hear(exchange.url, ALPACA.probe())).status == 200
    assert exchange.received == ()


async def test_many_at_once_with_one_client_id_book_one(exchange: PracticeExchange) -> None:
    answers = await asyncio.gather(*(hear(exchange.url, ALPACA.place()) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [200] + [422] * 19
    assert len(exchange.orders) == 1


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["1", "1e999", "0.5600", "AAPL", "buy", "bid", "limit", "day", "good_till_canceled", "order"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    *("symbol", "qty", "side", "type", "time_in_force", "limit_price", "client_order_id"),
    *("ticker", "count", "price", "self_trade_prevention_type", "expiration_time", "reduce_by"),
    *("action", "nonce", "signature", "orders", "a", "b", "p", "s", "r", "t", "c", "oid"),
    *("quantity", "timeInForce", "newClientOrderId", "updated_client_order_id"),
]
PATHS = (
    "/v2/orders",
    "/v2/orders/x",
    "/trade-api/v2/portfolio/events/orders",
    "/trade-api/v2/portfolio/events/orders/x/amend",
    "/trade-api/v2/portfolio/orders",
    "/api/v3/order",
    "/api/v3/order/cancelReplace",
    "/exchange",
    "/info",
    "/practice/faults",
    "/practice/orders/x",
    "//",
    "/",
)


@settings(max_examples=EXAMPLES)
@given(
    method=st.sampled_from(["POST", "GET", "DELETE", "PATCH"]),
    path=st.sampled_from(PATHS),
    body=st.dictionaries(st.sampled_from(FIELDS), JSON) | JSON,
    query=st.dictionaries(st.sampled_from([*FIELDS, "limit", "cursor", "min_ts", "orderId"]), st.text(max_size=5)),
)
def test_no_request_breaks_it(method: str, path: str, body: object, query: dict[str, str]) -> None:
    exchange = PracticeExchange()
    headers = {name.lower(): value for name, value in {**ALPACA_KEYS, **KALSHI_KEYS}.items()}
    text = "&".join(f"{name}={value}" for name, value in query.items())
    plan = exchange.handle(WireRequest(method, path, text, headers, json.dumps(body).encode()))
    assert plan.reply.status < 500
    assert isinstance(plan.reply.body, bytes)


@settings(max_examples=EXAMPLES)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.sampled_from((ALPACA, KALSHI, HYPERLIQUID)))
def test_no_order_breaks_it(wrong: dict[str, object], dialect: Dialect) -> None:
    """A good order with some fields spoilt: booked and told so, or refused, never an accident."""
    exchange = PracticeExchange()
    ask = dialect.place()
    good = json.loads(ask.body)
    target = good["action"]["orders"][0] if "action" in good else good
    target |= wrong
    headers = {name.lower(): value for name, value in ask.headers.items()}
    plan = exchange.handle(WireRequest(ask.method, ask.target, "", headers, json.dumps(good).encode()))
    assert plan.reply.status < 500
    assert order_ids(json.loads(plan.reply.body)) == [order.order_id for order in exchange.orders]


async def test_a_connection_of_the_last_moment_ends_with_the_exchange() -> None:
    """A talk that is cancelled before its first step runs no line of its own."""
    server = Server(lambda _: pytest.fail("nothing was asked"), lambda: datetime.now(UTC))
    await server.start(0)
    near, far = socket.socketpair()
    with far:
        reader, writer = await asyncio.open_connection(sock=near)
        server._connected(reader, writer)
        await server.stop()
        assert writer.is_closing()
        await writer.wait_closed()
