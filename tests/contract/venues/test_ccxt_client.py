"""The ccxt client on the wire: one request, the stored one, signed, with its digits; and nothing twice."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
from decimal import Decimal
from urllib.parse import parse_qsl

import pytest

from tests.support.ccxt_offline import action
from tests.support.http_server import Received, reply
from tests.support.venue.ccxt import (
    COID,
    ORDER,
    client,
    connected,
    prepared,
    sends,
)
from tests.support.venue.rigs_sdk import CCXT_SECRETS
from venues import (
    Absent,
    Accepted,
    Credentials,
    Found,
    MissingExtra,
    NotSent,
    OrderAction,
    Prepared,
    Refused,
    connect,
    differences,
    venue_profile,
)
from venues.ccxt.client import CcxtClient
from venues.ccxt.transport import Lost, Sending, at
from venues.practice import PracticeExchange


async def test_opening_reads_the_markets_and_signs_nothing() -> None:
    async with client() as (_, server):
        asked = [(request.method, request.target) for request in server.requests]
        assert asked == [("GET", f"/{path}/exchangeInfo") for path in ("api/v3", "fapi/v1", "dapi/v1")]
        assert not any("x-mbx-apikey" in request.headers for request in server.requests)


async def test_the_request_is_as_documented_and_goes_out_as_it_was_stored() -> None:
    async with client(reply(200, ORDER)) as (made, server):
        ready = prepared(made)
        assert (ready.method, ready.path) == ("POST", "/api/v3/order")
        assert await made.submit(ready) == Accepted("28", "open")
        (request,) = sends(server)
        assert (request.method, request.target, request.body) == ("POST", "/api/v3/order", ready.body)
        assert request.headers["x-mbx-apikey"] == CCXT_SECRETS["apiKey"]
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        fields = dict(parse_qsl(ready.body.decode()))
        assert fields.pop("timestamp").isdecimal()
        assert len(fields.pop("signature")) == 64
        assert fields == {
            "symbol": "BTCUSDT",
            "side": "BUY",
            "type": "LIMIT",
            "quantity": "0.5",
            "price": "50000",
            "timeInForce": "GTC",
            "newClientOrderId": COID,
            "newOrderRespType": "FULL",
            "recvWindow": "10000",
        }
        assert venue_profile("ccxt:binance").arrival_bound == 10.0


@pytest.mark.parametrize("changes", [{}, {"verb": "replace", "venue_order_id": "28"}])
async def test_the_signature_is_the_account_s(changes: dict[str, object]) -> None:
    async with client() as (made, _):
        signed, _, signature = prepared(made, **changes).body.decode().rpartition("&signature=")
        assert signature == hmac.new(CCXT_SECRETS["secret"].encode(), signed.encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("quantity", "price", "wire"),
    [
        ("0.5000", "50000.10", ("0.5", "50000.1")),
        ("1E+1", "5E+4", ("10", "50000")),
        ("0.00001", "0.01", ("0.00001", "0.01")),
        ("0.001234567", "50000", None),
        ("0.5", "50000.129", None),
        ("0.123456789012345678", "50000", None),
        ("0.000001", "50000", None),
        ("0", "50000", None),
        ("0.5", "0", None),
    ],
)
async def test_digits_go_out_as_they_are_or_not_at_all(quantity: str, price: str, wire: tuple[str, str] | None) -> None:
    async with client() as (made, _):
        ready = made.prepare(action(quantity=Decimal(quantity), price=Decimal(price)), COID)
        if wire is None:
            assert isinstance(ready, Refused)
        else:
            assert isinstance(ready, Prepared)
            fields = dict(parse_qsl(ready.body.decode()))
            assert (fields["quantity"], fields["price"]) == wire


async def test_a_refusal_tells_both_numbers() -> None:
    async with client() as (made, _):
        assert made.prepare(action(price=Decimal("50000.129")), COID) == Refused(
            "price 50000.129: binance would get 50000.13"
        )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"market_id": "DOGE/USDT"}, "no market DOGE/USDT"),
        ({"side": "yes"}, "buy and sell"),
        ({"order_type": "peg", "price": None}, "market, limit, stop"),
        ({"order_type": "stop", "price": None}, "needs what it waits for"),
        ({"time_in_force": "day"}, "time in force day"),
        ({"order_type": "market", "price": None, "time_in_force": "fok"}, "time in force fok"),
        ({"price": None}, "needs a price"),
        ({"verb": "cancel"}, "venue_order_id"),
        ({"verb": "replace"}, "venue_order_id"),
    ],
)
async def test_what_cannot_be_sent_as_it_is_is_refused(changes: dict[str, object], why: str) -> None:
    async with client() as (made, server):
        refused = made.prepare(action(**changes), COID)
        assert isinstance(refused, Refused)
        assert why in refused.why
        assert isinstance(made.prepare(action(), "an id with spaces"), Refused)
        assert sends(server) == []


async def test_the_exchange_s_own_name_of_a_market_will_do() -> None:
    async with client(reply(200, ORDER)) as (made, _):
        ready = prepared(made, market_id="BTCUSDT")
        assert b"symbol=BTCUSDT" in ready.body
        assert isinstance(await made.submit(ready), Accepted)


async def test_a_second_request_inside_one_send_is_never_made() -> None:
    async with client(reply(200, ORDER)) as (made, server):
        prepared(made)
        (held,) = made._held.values()
        with at(Sending(held.wire)):
            await made._exchange.create_order(*held.call.arguments, held.call.params)
            with pytest.raises(Lost):
                await made._exchange.create_order(*held.call.arguments, held.call.params)
        assert len(sends(server)) == 1


async def test_an_exchange_set_to_retry_sends_nothing() -> None:
    async with client(reply(200, ORDER)) as (made, server):
        ready = prepared(made)
        made._exchange.options["maxRetriesOnFailure"] = 3
        assert isinstance(await made.submit(ready), NotSent)
        assert sends(server) == []


async def test_what_was_signed_too_long_ago_or_elsewhere_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with client(reply(200, ORDER)) as (made, server):
        ready = prepared(made)
        other = connected(server.url)
        await other.open()
        assert isinstance(await other.submit(ready), NotSent)
        await other.aclose()
        (held,) = made._held.values()
        monkeypatch.setattr("venues.ccxt.client.time.monotonic", lambda: held.since + 10.001)
        outcome = await made.submit(ready)
        assert isinstance(outcome, NotSent)
        assert "prepare it again" in outcome.why
        assert sends(server) == []


async def test_the_practice_exchange_is_traded_end_to_end() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        made = connected(exchange.url)
        await made.open()
        ready = prepared(made, market_id="ETH/USDT", quantity=Decimal("0.25"), price=Decimal("1900.5"))
        assert await made.lookup(ready) == Absent()
        placed = await made.submit(ready)
        assert isinstance(placed, Accepted)
        (line,) = exchange.received
        assert (line["path"], line["body"]) == ("/api/v3/order", ready.body.decode())
        found = await made.lookup(ready)
        assert isinstance(found, Found)
        assert differences(ready.action, found.order) == ()
        seen = await made.probe()
        assert (seen.ready, seen.account_usable, seen.really_paper) == (True, True, None)
        assert seen.server_time is not None
        await made.aclose()


def test_a_missing_extra_says_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccxt", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dlq-console\[ccxt\]'"):
        connect("ccxt:binance", "live", Credentials(CCXT_SECRETS))


async def test_two_orders_at_once_do_not_mix() -> None:
    def echoed(request: Received) -> bytes:
        fields = dict(parse_qsl(request.body.decode()))
        return reply(200, {**ORDER, "clientOrderId": fields["newClientOrderId"], "orderId": int(fields["price"])})

    def one(made: CcxtClient, number: int) -> Prepared:
        ready = made.prepare(action(price=Decimal(number)), f"order-{number}")
        assert isinstance(ready, Prepared)
        return ready

    async with client(echoed) as (made, server):
        numbers = range(100, 110)
        outcomes = await asyncio.gather(*(made.submit(one(made, number)) for number in numbers))
        assert outcomes == [Accepted(str(number), "open") for number in numbers]
        assert len(sends(server)) == 10


def test_the_stored_request_is_json_able() -> None:
    ready: list[Prepared] = []

    async def prepare() -> None:
        async with client() as (made, _):
            ready.append(prepared(made))

    asyncio.run(prepare())
    assert json.loads(json.dumps(dict(ready[0].request)))["own_id"] is True
    assert isinstance(ready[0].action, OrderAction)
