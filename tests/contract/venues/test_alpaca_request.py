"""Alpaca's requests on the wire, to the byte, against what docs.alpaca.markets shows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from tests.support.http_server import Loopback, reply
from tests.support.venue.alpaca import BRACKET, COIN, LIMIT, MARKET, ORDER, client_of, prepared_of
from tests.support.venue.rigs_practice import ALPACA_SECRETS
from venues import (
    BadCredentials,
    Credentials,
    OrderAction,
    Prepared,
    Refused,
    Terms,
    VenueClient,
    connect,
)
from venues.alpaca.client import AlpacaClient
from venues.alpaca.request import prepare
from venues.http import Reply


def keeps_the_contract(client: AlpacaClient) -> VenueClient:
    """Checked by the type checker."""
    return client


# (action, method, path, body) as Alpaca's reference has them: createOrder, patchOrderByOrderId, deleteOrderByOrderID
WIRE: list[tuple[OrderAction, str, str, bytes]] = [
    (
        LIMIT,
        "POST",
        "/v2/orders",
        b'{"symbol":"AAPL","qty":"100","side":"buy","type":"limit","time_in_force":"gtc",'
        b'"limit_price":"180.25","client_order_id":"coid-1"}',
    ),
    (
        MARKET,
        "POST",
        "/v2/orders",
        b'{"symbol":"SPY","qty":"0.5","side":"sell","type":"market","time_in_force":"day","client_order_id":"coid-1"}',
    ),
    (
        COIN,
        "POST",
        "/v2/orders",
        b'{"symbol":"BTC/USD","qty":"0.001234567","side":"buy","type":"limit","time_in_force":"gtc",'
        b'"limit_price":"17000.129","client_order_id":"coid-1"}',
    ),
    (
        replace(LIMIT, verb="replace", venue_order_id="ord/1 x"),
        "PATCH",
        "/v2/orders/ord%2F1%20x",
        b'{"qty":"100","time_in_force":"gtc","limit_price":"180.25","client_order_id":"coid-1"}',
    ),
    (
        replace(LIMIT, verb="replace", venue_order_id="ord-1", time_in_force=None),
        "PATCH",
        "/v2/orders/ord-1",
        b'{"qty":"100","limit_price":"180.25","client_order_id":"coid-1"}',
    ),
    (replace(LIMIT, verb="cancel", venue_order_id="ord-1"), "DELETE", "/v2/orders/ord-1", b""),
    (
        replace(LIMIT, terms=BRACKET),
        "POST",
        "/v2/orders",
        b'{"symbol":"AAPL","qty":"100","side":"buy","type":"limit","time_in_force":"gtc","limit_price":"180.25",'
        b'"client_order_id":"coid-1","order_class":"bracket","take_profit":{"limit_price":"200.5"},'
        b'"stop_loss":{"stop_price":"170.25","limit_price":"169.9"}}',
    ),
    (
        replace(MARKET, quantity=Decimal(0), terms=Terms(notional=Decimal("500.25"), extended_hours=True)),
        "POST",
        "/v2/orders",
        b'{"symbol":"SPY","side":"sell","type":"market","time_in_force":"day","client_order_id":"coid-1",'
        b'"notional":"500.25","extended_hours":true}',
    ),
]


@pytest.mark.parametrize(("action", "method", "path", "body"), WIRE)
async def test_what_goes_out(action: OrderAction, method: str, path: str, body: bytes) -> None:
    prepared = prepared_of(action)
    assert (prepared.method, prepared.path, prepared.body) == (method, path, body)
    async with Loopback(lambda _: reply(200, ORDER)) as server:
        client = client_of(server.url)
        await {"new": client.submit, "replace": client.replace, "cancel": client.cancel}[action.verb](prepared)
        await client.aclose()
    (request,) = server.requests
    assert (request.method, request.target, request.body) == (method, path, body)
    assert request.headers["apca-api-key-id"] == ALPACA_SECRETS["api_key"]
    assert request.headers["apca-api-secret-key"] == ALPACA_SECRETS["secret_key"]
    assert request.headers.get("content-type") == ("application/json" if body else None)


async def test_what_is_asked() -> None:
    async with Loopback(lambda _: reply(200, ORDER)) as server:
        client = client_of(server.url)
        prepared = prepare(LIMIT, "a&b=c/d")
        assert isinstance(prepared, Prepared)
        await client.lookup(prepared)
        await client.lookup(prepared_of(replace(LIMIT, verb="cancel", venue_order_id="ord-1")))
        await client.probe()
        await client.aclose()
    assert [(request.method, request.path, request.params) for request in server.requests] == [
        ("GET", "/v2/orders:by_client_order_id", {"client_order_id": "a&b=c/d", "nested": "true"}),
        ("GET", "/v2/orders/ord-1", {}),
        ("GET", "/v2/clock", {}),
        ("GET", "/v2/account", {}),
    ]
    assert all(request.headers["apca-api-secret-key"] for request in server.requests)


@pytest.mark.parametrize(
    ("quantity", "price"),
    [("100.0", "180.0"), ("1E+2", "1.8E+2"), ("0.000000001", "0.9999"), ("12345678901234567890", "999999.99")],
)
def test_numbers_arrive_equal_to_the_digit(quantity: str, price: str) -> None:
    action = replace(LIMIT, quantity=Decimal(quantity), price=Decimal(price))
    body = Reply(200, {}, prepared_of(action).body).json()
    assert body is not None
    assert (Decimal(str(body["qty"])), Decimal(str(body["limit_price"]))) == (Decimal(quantity), Decimal(price))
    assert "E" not in str(body["qty"])


@pytest.mark.parametrize(
    "action",
    [
        replace(LIMIT, price=Decimal("180.251")),
        replace(LIMIT, price=Decimal("1.001")),
        replace(LIMIT, price=Decimal("0.99999")),
        replace(LIMIT, price=None),
        replace(LIMIT, price_unit="cents"),
        replace(LIMIT, quantity=Decimal("0.0000000001")),
        replace(LIMIT, side="yes"),
        replace(LIMIT, side="buy_no"),
        replace(LIMIT, order_type="stop"),
        replace(LIMIT, time_in_force="gtd"),
        replace(COIN, time_in_force="day"),
        replace(COIN, price=Decimal("1.0000000001")),
        replace(LIMIT, verb="replace"),
        replace(LIMIT, verb="cancel"),
    ],
)
def test_what_is_refused_rather_than_changed(action: OrderAction) -> None:
    refused = prepare(action, "coid-1")
    assert isinstance(refused, Refused)
    assert refused.why


@pytest.mark.parametrize("client_order_id", ["", "a b", "x" * 129, "é", "a\n"])
def test_a_client_order_id_it_would_not_take(client_order_id: str) -> None:
    assert isinstance(prepare(LIMIT, client_order_id), Refused)


def test_the_default_time_in_force_is_shown() -> None:
    assert prepared_of(MARKET).notes == ("time in force: day (the venue's default)",)
    assert prepared_of(COIN).notes == ("time in force: gtc (the venue's default)",)
    assert prepared_of(LIMIT).notes == ()


def test_a_term_that_would_not_be_sent_is_named() -> None:
    client = client_of("http://127.0.0.1:1")
    refused = client.prepare(replace(LIMIT, terms=Terms(post_only=True, extended_hours=True)), "coid-1")
    assert isinstance(refused, Refused)
    assert refused.unsent == ("post_only",)


@pytest.mark.parametrize("field", ["api_key", "secret_key"])
def test_a_missing_key_is_named(field: str) -> None:
    secrets = {name: value for name, value in ALPACA_SECRETS.items() if name != field}
    with pytest.raises(BadCredentials, match=field):
        connect("alpaca", "paper", Credentials(secrets))


async def test_the_wrong_verb_is_a_bug_and_sends_nothing() -> None:
    async with Loopback(lambda _: reply(200, ORDER)) as server:
        client = client_of(server.url)
        with pytest.raises(ValueError, match="prepared to new"):
            await client.cancel(prepared_of(LIMIT))
    assert server.connections == 0
