"""What a ccxt exchange is sent: ccxt's own request of the same call, or none; and read back from the wire."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any
from urllib.parse import parse_qsl

import pytest
from dlq_sink.terms import TERMS

from tests.support.ccxt_offline import action, secrets_of
from tests.support.venue.ccxt_calls import call_of, compared
from tests.support.venue.term_samples import only
from tests.support.venue.wire_ccxt import as_read, read_order, wire_client
from venues import Prepared, Refused
from venues.ccxt import words
from venues.ccxt.client import CcxtClient
from venues.terms import ExitTerms, Terms, read_terms

COID = "ab" * 16
# Of the calls that ccxt says the exchange supports: (equal to ccxt's request, refused by us). The refused are dropped
# or handed on unread by ccxt itself, or need another request, or cannot be found by their client order id.
COUNTS = {
    "binance": (35, 2),
    "binanceusdm": (19, 1),
    "bybit": (35, 3),
    "okx": (42, 1),
    "kraken": (14, 0),
    "krakenfutures": (15, 2),
    "bitget": (31, 2),
    "gate": (32, 1),
    "kucoin": (34, 2),
    "mexc": (20, 5),
    "bingx": (35, 1),
    "coinbase": (25, 6),
    "htx": (19, 16),
    "bitfinex": (27, 14),
    "deribit": (21, 6),
    "phemex": (10, 14),
    "cryptocom": (28, 5),
    "hyperliquid": (17, 0),
}


@pytest.mark.parametrize("exchange_id", COUNTS)
def test_a_request_is_ccxt_s_own_or_none(exchange_id: str) -> None:
    seen = compared(exchange_id)
    assert seen.different == []
    found = (seen.counts["equal, supported"], seen.counts["refused, supported"])
    assert found == COUNTS[exchange_id], seen.wrongly_refused


def test_most_of_what_ccxt_supports_is_sent() -> None:
    equal, refused = (sum(column) for column in zip(*COUNTS.values(), strict=True))
    assert len(COUNTS) >= 15
    assert equal / (equal + refused) >= 0.7


def sent(client: CcxtClient, **changes: object) -> Prepared:
    symbol = next(iter(client._exchange.markets))
    made = client.prepare(action(**{"market_id": symbol, **changes}), COID)
    assert isinstance(made, Prepared), made
    return made


def refused(client: CcxtClient, **changes: object) -> Refused:
    symbol = next(iter(client._exchange.markets))
    made = client.prepare(action(**{"market_id": symbol, **changes}), COID)
    assert isinstance(made, Refused), made
    return made


def with_number(name: str, number: object) -> Terms:
    return read_terms({name: Decimal(str(number))})


def form(made: Prepared) -> dict[str, Any]:
    body = made.body.decode()
    held = json.loads(body) if body[:1] in "[{" else dict(parse_qsl(body))
    return dict(held[0] if isinstance(held, list) else held)


SELL: dict[str, object] = {"side": "sell", "order_type": "market", "price": None}
STOP = {**SELL, "order_type": "stop", "terms": Terms(stop_price=Decimal(49000))}


@pytest.mark.parametrize(("order_type", "named"), [("market", "stop-loss"), ("stop", "stop-loss")])
def test_a_stop_loss_at_kraken_is_no_market_order(order_type: str, named: str) -> None:
    terms = Terms(stop_loss_price=Decimal(49000)) if order_type == "market" else Terms(stop_price=Decimal(49000))
    said = form(sent(wire_client("kraken"), **{**SELL, "order_type": order_type, "terms": terms}))
    assert (said["ordertype"], said["price"], said["type"], said["volume"]) == (named, "49000", "sell", "0.5")


def test_a_trailing_stop_at_bybit_sets_the_position_and_is_refused() -> None:
    terms = Terms(trail_price=Decimal(500))
    client = wire_client("bybit", spot=False)
    assert "does not carry the client order id" in refused(client, **SELL, terms=terms).why
    assert refused(client, **SELL, terms=Terms(trail_percent=Decimal(5))).unsent == ("trail_percent",)


@pytest.mark.parametrize("given", [{"terms": Terms(margin_mode="isolated")}, {"params": {"tdMode": "isolated"}}])
def test_an_isolated_margin_at_okx_is_isolated(given: dict[str, object]) -> None:
    assert form(sent(wire_client("okx", spot=False), **given))["tdMode"] == "isolated"


@pytest.mark.parametrize(("side", "direction"), [("buy", 1), ("sell", 2)])
def test_a_stop_at_bybit_says_from_which_side_the_price_comes(side: str, direction: int) -> None:
    said = form(sent(wire_client("bybit", spot=False), **{**STOP, "side": side}))
    assert (said["orderType"], said["triggerPrice"], said["triggerDirection"]) == ("Market", "49000", direction)


@pytest.mark.parametrize(("side", "direction"), [("buy", "UP"), ("sell", "DOWN")])
def test_a_stop_at_coinbase_has_the_direction_of_a_stop(side: str, direction: str) -> None:
    changes = {"side": side, "order_type": "stop_limit", "terms": Terms(stop_price=Decimal(49000))}
    (said,) = form(sent(wire_client("coinbase"), **changes))["order_configuration"].values()
    assert (said["stop_price"], said["stop_direction"]) == ("49000", f"STOP_DIRECTION_STOP_{direction}")


@pytest.mark.parametrize("exchange_id", ["coinbase", "phemex", "bitstamp", "mexc", "luno"])
def test_an_order_that_would_trade_at_once_instead_of_waiting_is_refused(exchange_id: str) -> None:
    client = wire_client(exchange_id, spot=exchange_id != "phemex")
    for name in sorted(words.WAITS_FOR - {"stop_price"}):
        symbol = next(iter(client._exchange.markets))
        made = client.prepare(action(market_id=symbol, **SELL, terms=with_number(name, 49000)), COID)
        assert isinstance(made, Refused), made
        assert name in made.unsent or "ccxt cannot make a request" in made.why


def test_a_stop_whose_direction_is_not_known_is_refused() -> None:
    assert refused(wire_client("htx", spot=False), **STOP).unsent == ("stop_price",)


def test_an_order_that_waits_at_okx_is_named_as_it_is_looked_up() -> None:
    made = sent(wire_client("okx", spot=False), **STOP)
    assert (made.path, form(made)["algoClOrdId"]) == ("/api/v5/trade/order-algo", COID)
    assert made.request["apart"] == "/api/v5/trade/order-algo"


def test_the_numbers_that_kraken_takes_once_do_not_run_ahead_of_the_clock() -> None:
    client = wire_client("kraken")
    for _ in range(3):
        made = sent(client, **STOP)
        assert int(form(made)["nonce"]) <= time.time() * 1000 + 100
    assert isinstance(client._exchange.milliseconds(), int)


def test_a_leverage_that_ccxt_fills_in_is_shown() -> None:
    assert sent(wire_client("kucoin", spot=False), quantity=Decimal(2)).sent["leverage"] == 1


CASES: tuple[dict[str, object], ...] = (
    {},
    {"time_in_force": "ioc"},
    {"time_in_force": "fok", "side": "sell"},
    {"time_in_force": "po"},
    {"order_type": "market", "price": None},
    {"terms": Terms(post_only=True)},
    {"terms": Terms(reduce_only=True)},
    {"terms": Terms(reduce_only=True, post_only=True)},
    STOP,
    {**STOP, "order_type": "stop_limit", "price": Decimal("48000.5")},
    {**STOP, "side": "buy"},
    {**SELL, "terms": Terms(stop_loss_price=Decimal("49000.5"))},
    {**SELL, "terms": Terms(take_profit_price=Decimal("61000.5"))},
    {**SELL, "order_type": "trailing_stop", "terms": Terms(trail_percent=Decimal("1.5"))},
    {**SELL, "order_type": "trailing_stop", "terms": Terms(trail_price=Decimal(500))},
    {"order_type": "market", "price": None, "quantity": Decimal(0), "terms": Terms(notional=Decimal(500))},
    {"terms": Terms(take_profit=ExitTerms(stop_price=Decimal(61000)))},
    {"terms": Terms(stop_loss=ExitTerms(stop_price=Decimal(45000), limit_price=Decimal(44000)))},
    {"terms": Terms(margin_mode="isolated")},
    {"terms": Terms(leverage=Decimal(5))},
)
SENT = {"binance": 27, "bybit": 29, "okx": 35}


@pytest.mark.parametrize("exchange_id", SENT)
def test_the_wire_says_every_term_and_nothing_else(exchange_id: str) -> None:
    """Read back by the exchange's documentation; what the client refuses, it names."""
    clients = {spot: wire_client(exchange_id, spot=spot) for spot in (True, False)}
    many = 0
    for spot, changes in product(clients, CASES):
        symbol = next(iter(clients[spot]._exchange.markets))
        meant = action(**{"market_id": symbol, **changes})
        made = clients[spot].prepare(meant, COID)
        if isinstance(made, Refused):
            assert set(made.unsent) & set(meant.terms.names) or "ccxt" in made.why, (spot, changes, made)
            continue
        many += 1
        expected, read = as_read(meant), read_order(made)
        names = {"market_id", "side", "quantity", "order_type", "price", "time_in_force"}
        wanted = {name: getattr(expected, name) or None for name in names} | {
            name: getattr(expected.terms, name) for name in TERMS
        }
        if read.get("reduce_only"):  # by ccxt itself, for a stop-loss
            assert made.sent["reduce_only"] is True
            wanted["reduce_only"] = True
        assert {name: read.get(name) for name in wanted} == wanted, (spot, changes)
        assert read["client_order_id"] == COID
        assert {name: made.sent.get(name) for name in meant.terms.names} == meant.terms.document()
    assert many == SENT[exchange_id]


@pytest.mark.parametrize("name", sorted(TERMS.keys() - words.UNIFIED.keys()))
def test_a_term_without_a_name_of_ccxt_s_is_refused(name: str) -> None:
    assert refused(wire_client(), terms=only(name)).unsent == (name,)


@pytest.mark.parametrize(
    ("params", "unsent"),
    [
        ({"side": "SELL"}, "params.side"),
        ({"symbol": "ETHUSDT"}, "params.symbol"),
        ({"recvWindow": 60000}, "params.recvWindow"),
        ({"quoteOrderQty": 10}, "params.quoteOrderQty"),
        ({"test": True}, "params.test"),
        ({"maxRetriesOnFailure": 3}, "params.maxRetriesOnFailure"),
        ({"createMarketBuyOrderRequiresPrice": False}, "params.createMarketBuyOrderRequiresPrice"),
        ({"icebergQty": Decimal("0.12345678901234567890")}, "params.icebergQty"),
    ],
)
def test_a_parameter_that_would_change_the_order_is_refused(params: dict[str, object], unsent: str) -> None:
    assert refused(wire_client(), params=params).unsent == (unsent,)


def test_a_parameter_that_ccxt_drops_is_refused_and_others_are_sent_as_given() -> None:
    dropped = wire_client("hyperliquid").prepare(action(params={"whatever": 1}), f"0x{COID}")
    assert isinstance(dropped, Refused)
    assert dropped.unsent == ("params.whatever",)
    made = sent(wire_client(spot=False), params={"positionSide": "LONG", "priceProtect": True, "goodTillDate": 17})
    assert form(made).items() >= {"positionSide": "LONG", "priceProtect": "true", "goodTillDate": "17"}.items()
    assert made.sent["params"] == {"positionSide": "LONG", "priceProtect": True}


@pytest.mark.parametrize(("exchange_id", "name"), [("binance", "newClientOrderId"), ("bybit", "orderLinkId")])
def test_an_order_goes_out_under_the_id_that_is_looked_up(exchange_id: str, name: str) -> None:
    client = wire_client(exchange_id)
    assert "another client order id" in refused(client, params={name: "other"}).why
    assert read_order(sent(client, params={name: COID}))["client_order_id"] == COID
    mine = call_of(
        {
            "symbol": "BTC/USDT",
            "type": "limit",
            "side": "buy",
            "amount": 1,
            "price": 5,
            "params": {"clientOrderId": "x"},
        }
    )
    made = client.prepare(mine, COID)
    assert isinstance(made, Prepared)
    assert read_order(made)["client_order_id"] == COID


@pytest.mark.parametrize("number", ["49000.001", "49000.123456789012345678"])
@pytest.mark.parametrize("name", ["stop_price", "stop_loss_price"])
def test_digits_of_a_trigger_that_do_not_fit_are_refused(name: str, number: str) -> None:
    why = refused(wire_client(), **{**STOP, "terms": with_number(name, number)}).why
    assert "digits" in why


def test_a_price_that_a_market_order_does_not_say_is_refused() -> None:
    """ccxt would spend price × quantity at some exchanges, and make a limit order of a stop at others."""
    assert refused(wire_client(), order_type="market").unsent == ("price",)
    assert refused(wire_client("okx"), **{**STOP, "price": Decimal(48000)}).unsent == ("price",)


def test_an_order_waits_for_one_price_and_no_time_in_force_is_lost() -> None:
    both = Terms(stop_loss_price=Decimal(49000), take_profit_price=Decimal(61000))
    client = wire_client("okx", spot=False)
    assert set(refused(client, **{**SELL, "terms": both}).unsent) == {"stop_loss_price", "take_profit_price"}
    loss = Terms(stop_loss_price=Decimal(49000))
    assert "time in force ioc" in refused(client, **{**SELL, "terms": loss, "time_in_force": "ioc"}).why


def test_a_loan_paid_back_is_no_order_that_only_reduces() -> None:
    assert refused(wire_client(), terms=Terms(margin_mode="cross", reduce_only=True)).unsent == ("reduce_only",)


def test_an_order_by_money_counts_no_quantity() -> None:
    terms = Terms(notional=Decimal(500))
    market = {"order_type": "market", "price": None, "quantity": Decimal(0), "terms": terms}
    assert form(sent(wire_client(), **market))["quoteOrderQty"] == "500"
    assert form(sent(wire_client("kraken"), **market)).items() >= {"volume": "500", "oflags": "viqc"}.items()
    assert "quantity" in refused(wire_client(), **{**market, "quantity": Decimal(1)}).why
    assert refused(wire_client("luno"), **market).unsent == ("notional",)
    waits = {**market, "terms": Terms(notional=Decimal(500), take_profit_price=Decimal(61000), margin_mode="cross")}
    assert refused(wire_client(), **waits).unsent == ("notional",)  # ccxt would sell 500 BTC


def test_one_number_in_the_request_is_not_two_of_the_order_s() -> None:
    trail = {"side": "sell", "price": Decimal("0.5"), "terms": Terms(trail_percent=Decimal(2))}
    assert refused(wire_client(spot=False), **trail).unsent == ("price",)


@pytest.mark.parametrize("exchange_id", ["binance", "bybit", "okx"])
def test_a_cancel_says_only_which_order(exchange_id: str) -> None:
    terms = Terms(stop_price=Decimal(1), reduce_only=True)
    client = wire_client(exchange_id)
    changes: dict[str, object] = {"verb": "cancel", "venue_order_id": "4711", "terms": terms, "params": {"a": 1}}
    made = sent(client, **changes, side="", order_type="", quantity=Decimal(0), price=None)
    read = read_order(made)
    assert (read["verb"], read["venue_order_id"]) == ("cancel", "4711")
    assert not {"stop_price", "reduce_only", "quantity"} & read.keys()
    assert made.sent == {"action": "cancel", "market_id": "BTC/USDT", "venue_order_id": "4711"}


@pytest.mark.parametrize(
    ("exchange_id", "spot"), [("binance", True), ("binance", False), ("bybit", False), ("okx", True)]
)
def test_a_replace_says_the_new_order_s_terms(exchange_id: str, spot: bool) -> None:
    client = wire_client(exchange_id, spot=spot)
    changes: dict[str, object] = {"verb": "replace", "venue_order_id": "4711", "price": Decimal("50000.5")}
    read = read_order(sent(client, **changes))
    assert (read["verb"], read["venue_order_id"], read["quantity"], read["price"]) == (
        "replace",
        "4711",
        Decimal("0.5"),
        Decimal("50000.5"),
    )
    posts = client.prepare(action(market_id=str(read["market_id"]), **changes, terms=Terms(post_only=True)), COID)
    if isinstance(posts, Prepared):
        assert read_order(posts)["post_only"] is True
    else:
        assert posts.unsent == ("post_only",)


@pytest.mark.parametrize("exchange_id", ["binance", "bybit", "kraken", "okx", "coinbase", "gate", "hyperliquid"])
def test_a_refusal_shows_neither_key_nor_signature(exchange_id: str) -> None:
    client = wire_client(exchange_id)
    secrets = [value for name, value in secrets_of(exchange_id).items() if name != "walletAddress"]
    for terms in (Terms(leverage=Decimal(5)), Terms(trail_price=Decimal(5)), Terms(margin_mode="isolated")):
        for kind in ("limit", "trailing_stop"):
            made = client.prepare(action(order_type=kind, terms=terms), COID)
            why = made.why if isinstance(made, Refused) else ""
            assert not any(secret in why for secret in secrets)
            assert not any(word in why.lower() for word in ("signature", "authorization", "api-key", "apikey"))


def test_what_reads_alike_is_one_order() -> None:
    """The reader's own check: two names of one order are one on the wire."""
    client = wire_client()
    one = read_order(sent(client, **STOP))
    other = read_order(sent(client, **{**SELL, "terms": Terms(stop_loss_price=Decimal(49000))}))
    assert one == other
    assert replace(as_read(action(**STOP)), order_key="k") == as_read(
        action(**{**SELL, "terms": Terms(stop_loss_price=Decimal(49000))})
    )
