"""The config's options for a ccxt exchange: they reach it, and none of them can undo what keeps an order safe."""

from __future__ import annotations

import json

import pytest

from tests.support.ccxt_offline import action, offline, secrets_of
from venues import Credentials, Mode, Prepared, Refused, Route, VenueError, connect, venue_profile
from venues.ccxt.client import CcxtClient

REFUSED = [
    "maxRetriesOnFailure",
    "maxRetriesOnFailureDelay",
    "max_retries_on_failure",
    "webApiRetries",
    "broker",
    "brokerId",
    "BROKERID",
    "keyBrokerId",
    "partner",
    "ref",
    "refSet",
    "referralCode",
    "affiliate",
    "builder",
    "builderFee",
    "approvedBuilderFee",
    "builderCode",
    "integratorAccountIndex",
    "feeRate",
    "feeInt",
    "sandbox",
    "sandboxMode",
    "testnet",
    "enableDemoTrading",
    "hostname",
    "host",
    "urls",
    "endpoint",
    "httpProxy",
    "httpsProxy",
    "socksProxy",
    "proxyUrl",
    "aiohttp_proxy",
    "recvWindow",
    "timeWindow",
    "apiKey",
    "secret",
    "privateKey",
    "password",
    "authToken",
    "sessionToken",
    "hasAlreadyAuthenticatedSuccessfully",
    "chainId",
    "verifyingContractAddress",
    "libraryPath",
    "clientOrderId",
    "id",
    "defaultTimeInForce",
    "timeInForce",
    "postOnly",
    "reduceOnly",
]


def route(**options: object) -> Route:
    return Route(timeout=10.0, options=options)


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_that_safety_hangs_on_is_refused_by_name(name: str) -> None:
    credentials = Credentials(secrets_of("binance"))
    for given in ({name: 1}, {"createOrder": {name: 1}}, {"some": [{"deep": {name: 1}}]}):
        with pytest.raises(VenueError, match=name) as caught:
            connect("ccxt:binance", "live", credentials, route(**given))
        assert "option" in str(caught.value)


def test_a_wallet_that_belongs_to_the_credentials_is_no_option() -> None:
    with pytest.raises(VenueError, match="walletAddress"):
        connect("ccxt:hyperliquid", "live", Credentials(secrets_of("hyperliquid")), route(walletAddress="0x0"))


def test_a_refusal_shows_no_value() -> None:
    with pytest.raises(VenueError) as caught:
        connect("ccxt:binance", "live", Credentials(secrets_of("binance")), route(secret="CANARYSECRET"))
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("mode", ["live", "paper"])
async def test_options_reach_the_exchange_beside_its_own(mode: Mode) -> None:
    given = route(defaultType="swap", createOrder={"marginMode": "cross"}, warnOnFetchOpenOrdersWithoutSymbol=False)
    made = connect("ccxt:bybit", mode, Credentials(secrets_of("bybit")), given)
    plain = connect("ccxt:bybit", mode, Credentials(secrets_of("bybit")), route())
    assert isinstance(made, CcxtClient)
    assert isinstance(plain, CcxtClient)
    own, changed = (await plain.build()).options, (await made.build()).options
    assert changed["defaultType"] == "swap"
    assert changed["createOrder"]["marginMode"] == "cross"
    assert changed["createOrder"] == {**own["createOrder"], "marginMode": "cross"}
    rest = {"defaultType", "createOrder", "warnOnFetchOpenOrdersWithoutSymbol"}
    assert {key: value for key, value in changed.items() if key not in rest} == {
        key: value for key, value in own.items() if key not in rest
    }


async def test_what_the_client_sets_itself_comes_after_the_options() -> None:
    made = connect("ccxt:binance", "live", Credentials(secrets_of("binance")), route(fetchMargins=True))
    assert isinstance(made, CcxtClient)
    exchange = await made.build()
    assert exchange.options["fetchMargins"] is False
    assert exchange.options["builderFee"] is False
    assert not exchange.options.get("maxRetriesOnFailure")


@pytest.mark.parametrize(
    ("exchange_id", "options", "said"),
    [
        ("bitvavo", {"operatorId": 543462}, '"operatorId":543462'),
        ("cex", {"createOrder": {"accountId": "sub1"}}, '"accountId":"sub1"'),
        ("pacifica", {"walletAddress": "11111111111111111111111111111111"}, '"account":"1111'),
    ],
)
async def test_an_exchange_that_needs_an_option_takes_orders_with_it(
    exchange_id: str, options: dict[str, object], said: str
) -> None:
    without = await offline(exchange_id, "live", spot=exchange_id != "pacifica")
    given = await offline(exchange_id, "live", spot=exchange_id != "pacifica", options=options)
    order = action(market_id=next(iter(given._exchange.markets)))
    name = venue_profile(f"ccxt:{exchange_id}").make_id("ab" * 16)
    assert isinstance(without.prepare(order, name), Refused)
    ready = given.prepare(order, name)
    assert isinstance(ready, Prepared), ready
    assert said in json.dumps(json.loads(ready.body), separators=(",", ":"))


async def test_derive_finds_its_subaccount_in_the_options() -> None:
    given = await offline("derive", "live", spot=False, options={"subaccount_id": 30769})
    refused = given.prepare(action(market_id="BTC/USDT:USDT"), "ab" * 16)
    assert not isinstance(refused, Refused) or "subaccount_id" not in refused.why
