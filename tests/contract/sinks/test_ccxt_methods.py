"""What a witness and an entry say of the ccxt methods that change or cancel an order, or place several."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import ccxt
import pytest
from dlq_sink import DeadLetteredOrder, InMemoryDLQ, dead_letters

from venues import parse_action

ORDER = {"symbol": "BTC/USDT", "type": "limit", "side": "buy", "amount": 2, "price": 50000}


class Asked(ccxt.binance):  # type: ignore[misc]  # ccxt has no types of its own
    """Keeps what it was asked for, and reaches nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.params: list[Any] = []

    def create_order(self, *given: Any, params: Any = None) -> Any:
        raise AssertionError("not asked for")

    def edit_order(
        self,
        id: str,  # noqa: A002 - ccxt's own names, here and below
        symbol: str,
        type: str,  # noqa: A002
        side: str,
        amount: Any = None,
        price: Any = None,
        params: Any = None,
    ) -> Any:
        self.params.append(params)
        raise ccxt.NetworkError("lost")

    def cancel_order(self, id: str, symbol: Any = None, params: Any = None) -> Any:  # noqa: A002
        self.params.append(params)
        raise ccxt.NetworkError("lost")

    def create_orders(self, orders: Any, params: Any = None) -> Any:
        self.params.append(params)
        raise ccxt.NetworkError("lost")

    def cancel_all_orders(self, symbol: Any = None, params: Any = None) -> Any:
        self.params.append(params)
        raise ccxt.NetworkError("lost")


def witnessed(name: str, *given: Any) -> tuple[DeadLetteredOrder, Any]:
    """The entry of a call that failed, and the params that reached ccxt."""
    exchange, sink = Asked(), InMemoryDLQ()
    assert dead_letters(sink, venue="ccxt:binance", witness=True)(getattr(exchange, name))(*given) is None
    (entry,) = sink.list()
    (params,) = exchange.params
    return entry, params


@pytest.mark.parametrize(
    ("name", "given", "verb"),
    [
        ("edit_order", ("77", "BTC/USDT", "limit", "buy", 2, 50000), "replace"),
        ("editOrder", ("77", "BTC/USDT", "limit", "buy", 2, 50000), "replace"),
        ("edit_limit_order", ("77", "BTC/USDT", "buy", 2, 50000), "replace"),
        ("edit_limit_sell_order", ("77", "BTC/USDT", 2, 50000), "replace"),
        ("cancel_order", ("77", "BTC/USDT"), "cancel"),
    ],
)
def test_a_change_or_a_cancel_names_its_order_and_is_given_no_other_id(
    name: str, given: tuple[Any, ...], verb: str
) -> None:
    entry, params = witnessed(name, *given)
    assert "clientOrderId" not in (params or {})  # most exchanges would take it for the order that is meant
    read = parse_action(asdict(entry), entry.action_json)
    assert read.action is not None, read.findings
    assert (read.action.verb, read.action.venue_order_id, read.action.client_order_id) == (verb, "77", None)
    assert read.action.extra == {}
    if verb == "replace":
        assert (read.action.order_type, read.action.side) == ("limit", "sell" if "sell" in name else "buy")


@pytest.mark.parametrize(
    ("name", "given", "verb"),
    [
        ("edit_order_with_client_order_id", ("c-9", "BTC/USDT", "limit", "buy", 2, 50000), "replace"),
        ("cancel_order_with_client_order_id", ("c-9", "BTC/USDT"), "cancel"),
    ],
)
def test_what_names_its_order_by_the_client_s_id_is_no_new_order(name: str, given: tuple[Any, ...], verb: str) -> None:
    entry, params = witnessed(name, *given)
    assert params == {"clientOrderId": "c-9"}
    read = parse_action(asdict(entry), entry.action_json)
    assert read.action is not None, read.findings
    assert (read.action.verb, read.action.client_order_id) == (verb, "c-9")


def test_a_cancel_whose_params_would_not_be_sent_is_left_to_a_person() -> None:
    entry, _ = witnessed("cancel_order", "77", "BTC/USDT", {"trigger": True})
    assert parse_action(asdict(entry), entry.action_json).action is None


@pytest.mark.parametrize(
    ("name", "given"),
    [("create_orders", ([ORDER, ORDER],)), ("create_orders", ([ORDER],)), ("cancel_all_orders", ("BTC/USDT",))],
)
def test_a_call_that_is_not_one_order_is_given_no_id_and_cannot_be_sent_as_one(
    name: str, given: tuple[Any, ...]
) -> None:
    entry, params = witnessed(name, *given)
    assert (params or {}, entry.client_order_id) == ({}, None)
    assert parse_action(asdict(entry), entry.action_json).action is None


def test_the_parts_of_an_exit_are_those_that_ccxt_sends() -> None:
    sink, exchange = InMemoryDLQ(), ccxt.binance()
    place = dead_letters(sink, venue="ccxt:binance")(exchange.create_order_with_take_profit_and_stop_loss)
    params = {"takeProfitType": "limit", "takeProfitLimitPrice": 61500, "stopLossPriceType": "mark", "hedged": True}
    expected = exchange.set_take_profit_and_stop_loss_params(*ORDER.values(), 61000, 45000, dict(params))
    exchange.has["createOrderWithTakeProfitAndStopLoss"] = False
    assert place(*ORDER.values(), 61000, 45000, params) is None
    (entry,) = sink.list()
    assert exchange.parse_json(entry.action_json)["params"] == expected


def test_an_id_that_the_call_cannot_carry_is_not_recorded() -> None:
    """A look-up by it would prove an order absent that stands at the venue, and a replay would place it twice."""
    sink = InMemoryDLQ()

    @dead_letters(sink, venue="alpaca", witness=True)
    def send(symbol: str, side: str, qty: int, kind: str) -> None:
        raise ConnectionError(f"{symbol} {side} {qty} {kind}")

    send("AAPL", "buy", 1, "market")
    (entry,) = sink.list()
    assert entry.client_order_id is None
    assert "client" not in entry.action_json
