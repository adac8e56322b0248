"""Where a ccxt client may send and what it may send unasked: its mode's address only, and nothing that changes."""

from __future__ import annotations

import ccxt.async_support as ccxt
import pytest

from tests.support.ccxt_offline import action, offline
from tests.support.http_server import Loopback, Received, reply
from tests.support.venue.ccxt import (
    ORDER,
    client,
    connected,
    prepared,
    sends,
)
from tests.support.venue.rigs_sdk import CCXT_SECRETS
from venues import (
    Accepted,
    BadEndpoint,
    Credentials,
    Mode,
    Prepared,
    Refused,
    Route,
    WrongMode,
    connect,
)
from venues.ccxt.client import CcxtClient
from venues.ccxt.transport import Reading, at


async def test_a_proxy_in_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Loopback(lambda _: reply(200, {})) as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        async with client(reply(200, ORDER)) as (made, _):
            assert isinstance(await made.submit(prepared(made)), Accepted)
        assert proxy.connections == 0


ACCOUNT: dict[str, dict[str, object]] = {
    "bybit": {
        "/v5/user/query-api": {"retCode": 0, "result": {"unified": 0, "uta": 1}},
        "/v5/account/info": {"retCode": 0, "result": {"unifiedMarginStatus": 5}},
    },
    "gate": {"/api/v4/account/detail": {"user_id": 1, "key": {"mode": 1}}},
    "kucoin": {"/api/ua/v1/account/mode": {"code": "200000", "data": {"selfAccountMode": "CLASSIC"}}},
    "bitget": {"/api/v3/account/settings": {"code": "00000", "data": {"accountMode": "classic"}}},
}


@pytest.mark.parametrize(
    ("exchange_id", "mode"),
    [("bybit", "live"), ("gate", "live"), ("kucoin", "live"), ("bitget", "paper"), ("bybit", "paper")],
)
async def test_an_exchange_that_asks_about_the_account_first_does_so_on_opening(exchange_id: str, mode: Mode) -> None:
    def told(request: Received) -> bytes:
        return reply(200, ACCOUNT[exchange_id].get(request.path, {"code": "400", "retCode": 1}))

    away = await offline(exchange_id, mode)
    async with Loopback(told) as server:
        made = connected(server.url, f"ccxt:{exchange_id}", mode)
        exchange = await made.build()
        exchange.set_markets(list(away._exchange.markets.values()))
        await made._rehearse()
        assert {request.method for request in server.requests} == {"GET"}
        assert {request.path for request in server.requests} == set(ACCOUNT[exchange_id])
        asked = len(server.requests)
        ready = made.prepare(action(), "ab" * 14)
        assert isinstance(ready, Prepared), ready
        assert len(server.requests) == asked
        await made.submit(ready)
        (sent,) = server.requests[asked:]
        assert (sent.method, sent.target, sent.body) == (ready.method, ready.path, ready.body)
        if exchange_id == "bitget":
            assert sent.headers["paptrading"] == "1"
        await made.aclose()


async def test_bitget_without_its_header_is_refused_in_paper() -> None:
    made = await offline("bitget", "paper")
    made._exchange.options |= {"uta": False, "sandboxMode": False}
    refused = made.prepare(action(), "ab" * 14)
    assert isinstance(refused, Refused)
    assert "PAPTRADING" in refused.why


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/exchange", '{"action":{"type":"approveBuilderFee"}}'),
        ("POST", "/api/v3/order", "symbol=BTCUSDT"),
        ("PUT", "/api/v3/order", "symbol=BTCUSDT"),
        ("DELETE", "/api/v3/order?orderId=5", None),
        ("POST", "/sapi/v1/asset/transfer", "amount=1"),
        ("GET", "/api/v3/order?orderId=None", None),
    ],
)
async def test_reading_never_sends_what_could_change_something(method: str, path: str, body: str | None) -> None:
    async with client(reply(200, {})) as (made, server):
        made._line._public = False  # type: ignore[union-attr]  # opened, so there is one
        with at(Reading()), pytest.raises(ccxt.NotSupported):
            await made._exchange.fetch(server.url + path, method, {}, body)
        assert sends(server) == []


async def test_a_request_to_another_address_than_the_configured_one_is_not_made() -> None:
    async with client(reply(200, {})) as (made, _), Loopback(lambda _: reply(200, {})) as other:
        with at(Reading()), pytest.raises(ccxt.NotSupported, match="configured endpoint"):
            await made._exchange.fetch(other.url + "/api/v3/time")
        assert other.connections == 0


def test_the_endpoint_is_loopback_or_allowed() -> None:
    credentials = Credentials(CCXT_SECRETS)
    with pytest.raises(BadEndpoint):
        connect("ccxt:binance", "paper", credentials, Route(endpoint="https://api.binance.com"))


@pytest.mark.parametrize(("mode", "host"), [("paper", "api.binance.com"), ("live", "testnet.binance.vision")])
async def test_the_other_mode_s_address_is_refused_even_when_allowed(mode: Mode, host: str) -> None:
    route = Route(endpoint=f"https://{host}", allow_custom_endpoint=True)
    made = connect("ccxt:binance", mode, Credentials(CCXT_SECRETS), route)
    with pytest.raises(WrongMode):
        await made.open()


async def test_the_host_shown_is_the_one_that_is_used() -> None:
    for mode, host in (("paper", "testnet.binance.vision"), ("live", "api.binance.com")):
        made = connect("ccxt:binance", mode, Credentials(CCXT_SECRETS))  # type: ignore[arg-type]  # one of the two
        assert isinstance(made, CcxtClient)
        assert made.host == f"binance ({mode})"
        await made.build()
        assert made.host == host
