"""What an engine asked for is what its entry says: by every name of a term, and nothing that it did not say."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from dlq_sink import SinkClosed
from dlq_sink.capture.request import dead_letter

from backends import DeadLetteredOrder, InMemoryDLQ
from backends.layouts.mask import MASKED
from console.services import replay_order, submit_or_dead_letter
from venues import OrderAction, parse_action
from venues.terms import ExitTerms, Leg, Terms

with warnings.catch_warnings():
    # alpaca-py imports a part of websockets that is on its way out; nothing here uses it.
    warnings.simplefilter("ignore", DeprecationWarning)
    from alpaca.trading import requests
    from alpaca.trading.enums import OrderClass, OrderSide, PositionIntent, TimeInForce

SECRET = "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"
DAY: dict[str, Any] = {"symbol": "AAPL", "side": OrderSide.BUY, "time_in_force": TimeInForce.DAY}


class Venue:
    name = "alpaca"


def read(entry: DeadLetteredOrder) -> OrderAction:
    parsed = parse_action(asdict(entry), entry.action_json)
    assert parsed.findings == ()
    assert parsed.action is not None
    assert parsed.action.extra == {}
    return parsed.action


def captured(action: Any) -> OrderAction:
    return read(dead_letter(Venue(), action, "e"))


def found(action: Any) -> list[str]:
    entry = dead_letter(Venue(), action, "e")
    return [one.text for one in parse_action(asdict(entry), entry.action_json).findings]


def order(order_type: str, price: str | None = None, quantity: str = "2", **terms: Any) -> OrderAction:
    return OrderAction(
        "new", "AAPL", "buy", Decimal(quantity), order_type, Decimal(price) if price else None, "cid-1", None, "cid-1",
        "day", terms=Terms(**terms),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "meant"),
    [
        (requests.MarketOrderRequest(**DAY, qty=2, client_order_id="cid-1"), order("market")),
        (
            requests.MarketOrderRequest(**DAY, notional=500, client_order_id="cid-1"),
            order("market", quantity="0", notional=Decimal(500)),
        ),
        (requests.LimitOrderRequest(**DAY, qty=2, limit_price=169.5, client_order_id="cid-1"), order("limit", "169.5")),
        (
            requests.LimitOrderRequest(
                **DAY, qty=2, limit_price=169.5, client_order_id="cid-1", extended_hours=True,
                position_intent=PositionIntent.BUY_TO_OPEN,
            ),
            order("limit", "169.5", extended_hours=True, position_intent="buy_to_open"),
        ),
        (
            requests.StopOrderRequest(**DAY, qty=2, stop_price=170, client_order_id="cid-1"),
            order("stop", stop_price=Decimal(170)),
        ),
        (
            requests.StopLimitOrderRequest(**DAY, qty=2, stop_price=170, limit_price=169.5, client_order_id="cid-1"),
            order("stop_limit", "169.5", stop_price=Decimal(170)),
        ),
        (
            requests.TrailingStopOrderRequest(**DAY, qty=2, trail_percent=1.5, client_order_id="cid-1"),
            order("trailing_stop", trail_percent=Decimal("1.5")),
        ),
        (
            requests.MarketOrderRequest(
                **DAY, qty=2, client_order_id="cid-1", order_class=OrderClass.BRACKET,
                take_profit=requests.TakeProfitRequest(limit_price=200),
                stop_loss=requests.StopLossRequest(stop_price=150, limit_price=149.5),
            ),
            order(
                "market", order_class="bracket", take_profit=ExitTerms(limit_price=Decimal(200)),
                stop_loss=ExitTerms(Decimal(150), Decimal("149.5")),
            ),
        ),
    ],
)  # fmt: skip
def test_a_request_of_alpaca_py_is_the_order_that_was_asked_for(request_: Any, meant: OrderAction) -> None:
    assert captured(request_) == meant


def test_legs_have_neither_a_market_nor_a_side_of_their_own() -> None:
    legs = [
        requests.OptionLegRequest(symbol=symbol, ratio_qty=1, side=side)
        for symbol, side in (("AAPL260619C00200000", OrderSide.BUY), ("AAPL260619C00210000", OrderSide.SELL))
    ]
    entry = dead_letter(
        Venue(),
        requests.LimitOrderRequest(
            qty=1, limit_price=1.25, order_class=OrderClass.MLEG, time_in_force=TimeInForce.DAY, legs=legs
        ),
        "e",
    )
    action = read(entry)
    assert (entry.market_id, entry.side) == ("", "")
    assert action.terms.legs == tuple(Leg(one.symbol, Decimal(1), one.side.value) for one in legs)


CCXT: dict[str, Any] = {"symbol": "BTC/USDT", "type": "limit", "side": "buy", "amount": 0.1, "price": 60000}


@pytest.mark.parametrize(
    ("call", "terms"),
    [
        (CCXT, Terms()),
        (CCXT | {"params": {"clientOrderId": "cid-7"}}, Terms()),
        (CCXT | {"params": {"clientOrderId": "cid-7", "triggerPrice": "59000", "reduceOnly": True}},
         Terms(stop_price=Decimal(59000), reduce_only=True)),
        (CCXT | {"clientOrderId": None, "params": {"clientOrderId": "cid-7", "postOnly": True}}, Terms(post_only=True)),
        ({"Symbol": "BTC/USDT", "TYPE": "LIMIT", "side": "BUY", "Amount": "0.1", "limitPrice": Decimal("60000")},
         Terms()),
    ],
)  # fmt: skip
def test_a_ccxt_call_is_the_order_that_was_asked_for(call: dict[str, Any], terms: Terms) -> None:
    action = captured(call)
    assert (action.market_id, action.order_type, action.side) == ("BTC/USDT", "limit", "buy")
    assert (action.quantity, action.price, action.terms) == (Decimal("0.1"), Decimal(60000), terms)
    assert action.client_order_id == call.get("params", {}).get("clientOrderId")


class Kind(Enum):
    STOP_LIMIT = "stop_limit"


class Way(Enum):
    SELL = OrderSide.SELL


@dataclass
class Exit:
    stopPrice: Decimal = Decimal(150)  # noqa: N815 - an engine's own name


@dataclass
class Engine:
    symbol: str = "AAPL"
    orderType: Kind = Kind.STOP_LIMIT  # noqa: N815 - an engine's own name
    side: Way = Way.SELL
    qty: Decimal = Decimal("1.5")
    limitPrice: Decimal = Decimal("169.50")  # noqa: N815
    stopPrice: Decimal = Decimal(170)  # noqa: N815
    clientOrderId: str = "cid-1"  # noqa: N815
    expire_at: datetime = datetime(2026, 5, 1, tzinfo=UTC)
    stop_loss: Exit = field(default_factory=Exit)
    tags: Mapping[Any, Any] = field(default_factory=lambda: {Kind.STOP_LIMIT: (Kind.STOP_LIMIT,)})


def test_an_engine_s_own_names_and_enums_are_understood() -> None:
    entry = dead_letter(Venue(), Engine(), "e")
    assert (entry.market_id, entry.side, entry.quantity, entry.order_type) == ("AAPL", "sell", 1.5, "stop_limit")
    assert (entry.price, entry.client_order_id) == (169.5, "cid-1")
    action = read(entry)
    assert action.terms.stop_loss == ExitTerms(Decimal(150))
    assert json.loads(entry.action_json)["tags"] == {"stop_limit": ["stop_limit"]}


def test_an_action_that_comes_back_from_a_replay_keeps_its_terms() -> None:
    action = order("stop_limit", "169.5", stop_price=Decimal(170), reduce_only=True)
    assert captured(action) == action


@pytest.mark.parametrize("price", [None, 180.25])
def test_a_type_that_nobody_said_is_not_guessed(price: float | None) -> None:
    action = {"market_id": "AAPL", "side": "buy", "quantity": 3, "price": price}
    assert dead_letter(Venue(), action, "e").order_type == ""
    assert found(action) == ["order_type: neither in the JSON nor in the column"]
    sink = InMemoryDLQ()
    sink.write(entry := dead_letter(Venue(), action, "e"))
    ok, detail = replay_order(sink, entry.dlq_id, Venue())  # type: ignore[arg-type]  # it is never asked to submit
    assert (ok, detail.split()[0]) == (False, "unparsable:")
    assert "order_type: neither in the JSON nor in the column" in detail


def test_two_names_that_disagree_are_kept_and_found() -> None:
    (told,) = found(CCXT | {"qty": 3})
    assert (told.startswith("quantity: amount"), told.endswith("do not agree")) == (True, True)


def test_a_model_that_cannot_dump_itself_is_kept_by_its_attributes() -> None:
    class Model:
        def __init__(self) -> None:
            self.symbol, self.type, self.side, self.qty = "AAPL", "market", "buy", 1

        def model_dump(self, **_: object) -> object:
            raise ValueError("no")

    assert captured(Model()).market_id == "AAPL"


class Promises:
    name = "alpaca"

    def __init__(self) -> None:
        self.ran = False

    async def submit(self, _: Any) -> str:
        self.ran = True
        return "ord_1"


def test_an_async_submit_is_awaited() -> None:
    sink, venue = InMemoryDLQ(), Promises()
    assert asyncio.run(submit_or_dead_letter(venue, CCXT, sink)) == "ord_1"
    assert (venue.ran, sink.depth()) == (True, 0)


def test_an_async_submit_that_nobody_awaits_is_no_order_id_and_loses_no_order() -> None:
    sink, venue = InMemoryDLQ(), Promises()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not isinstance(submit_or_dead_letter(venue, CCXT, sink), str)
        gc.collect()
    (entry,) = sink.list()
    assert "submit is async, and nobody awaited it; nothing was sent" in entry.error
    assert not venue.ran


def test_a_promise_that_is_under_way_and_that_nobody_awaits_is_an_unknown_outcome() -> None:
    class Tasks(Promises):
        def submit(self, action: Any) -> Any:
            return asyncio.ensure_future(super().submit(action))

    async def main() -> InMemoryDLQ:
        sink = InMemoryDLQ()
        assert not isinstance(submit_or_dead_letter(Tasks(), CCXT, sink), str)
        await asyncio.sleep(0)
        assert await submit_or_dead_letter(Tasks(), CCXT, sink) == "ord_1"
        return sink

    (entry,) = asyncio.run(main()).list()
    assert "unknown outcome: submit returned the promise of an answer" in entry.error


class Begins(Promises):
    """Its promise is a coroutine that its own, plain submit returns."""

    def submit(self, action: Any) -> Any:
        return super().submit(action)


@pytest.mark.parametrize("venue", [Promises(), Begins()], ids=["async", "promise"])
@pytest.mark.parametrize("witness", [False, True])
def test_a_task_that_is_cancelled_before_its_first_step_leaves_an_entry(venue: Promises, witness: bool) -> None:
    async def main() -> InMemoryDLQ:
        sink = InMemoryDLQ()
        task = asyncio.ensure_future(submit_or_dead_letter(venue, CCXT, sink, witness=witness))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return sink

    sink = asyncio.run(main())
    (entry,) = sink.list()
    assert (entry.error, venue.ran) == ("CancelledError: cancelled before the send; nothing was sent", False)
    assert not witness or sink.intents().rows.rows == {}  # type: ignore[attr-defined]


class Fails:
    name = "alpaca"

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def submit(self, _: Any) -> Any:
        raise self.problem


class FailsLater(Fails):
    async def submit(self, _: Any) -> Any:
        raise self.problem


def ran(venue: Fails) -> None:
    """A submit by way of a sink that cannot keep anything."""
    sink = InMemoryDLQ()
    sink.close()
    found = submit_or_dead_letter(venue, CCXT, sink)
    if isinstance(venue, FailsLater):
        asyncio.run(asyncio.wait_for(found, 60))


@pytest.mark.parametrize("kind", [Fails, FailsLater])
def test_an_order_that_cannot_be_kept_says_why_it_failed(kind: type[Fails]) -> None:
    with pytest.raises(SinkClosed) as raised:
        ran(kind(ConnectionError("refused")))
    assert repr(raised.value.__cause__) == "ConnectionError('refused')"


@pytest.mark.parametrize(
    ("kind", "stop"),
    [
        (Fails, KeyboardInterrupt),
        (Fails, SystemExit),
        (Fails, asyncio.CancelledError),
        (FailsLater, asyncio.CancelledError),
    ],
)
def test_what_stops_an_engine_goes_on_its_way_even_if_nothing_can_be_kept(
    kind: type[Fails], stop: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    problem = stop()
    with pytest.raises(stop):
        ran(kind(problem))
    (note,) = problem.__notes__
    assert note.startswith("the order is neither placed nor kept: SinkClosed: ")
    assert "an order that was interrupted could not be kept" in caplog.text


def test_an_error_is_masked_before_it_is_cut() -> None:
    entry = dead_letter(Venue(), CCXT, "x" * 960 + f" X-MBX-APIKEY: {SECRET} 401")
    assert entry.error.endswith(f" X-MBX-APIKEY: {MASKED} 401")
    assert SECRET[:8] not in dead_letter(Venue(), CCXT, "x" * 970 + f" X-MBX-APIKEY: {SECRET}").error
