"""alpaca-py's own order requests, one of every shape, and the entries that an engine would store for them."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any, Literal

with warnings.catch_warnings():
    # alpaca-py imports a part of websockets that is on its way out; nothing here uses it.
    warnings.simplefilter("ignore", DeprecationWarning)
    from alpaca.trading.client import TradingClient
    from alpaca.trading.requests import (
        LimitOrderRequest,
        MarketOrderRequest,
        OptionLegRequest,
        ReplaceOrderRequest,
        StopLimitOrderRequest,
        StopLossRequest,
        StopOrderRequest,
        TakeProfitRequest,
        TrailingStopOrderRequest,
    )

__all__ = ["CALL", "ORDER_ID", "PUT", "SHAPES", "Shape", "TradingClient"]

ORDER_ID = "61e69015-8549-4bfd-b9c3-01e75843f47d"
CALL, PUT = "AAPL261218C00200000", "AAPL261218P00180000"


@dataclass(frozen=True, slots=True)
class Shape:
    """One request; `refused` is a word of the reason where ours refuses it."""

    name: str
    request: Any  # None: a cancel
    verb: Literal["new", "replace", "cancel"] = "new"
    order_type: str = ""
    refused: str | None = None

    def columns(self, *, labels: bool) -> dict[str, object]:
        """The store's columns; `labels`: a multi-leg order's market and side hold what the store needs to list it."""
        row = self.request
        market, side = ("AAPL", "buy") if labels or self.verb != "new" else ("", "")
        stated = getattr(row, "side", None)
        return {
            "market_id": getattr(row, "symbol", None) or market,
            "side": stated.value if stated is not None else side,
            "quantity": float(getattr(row, "qty", None) or 0),
            "order_type": self.order_type or row.type.value,
            "price": getattr(row, "limit_price", None),
            "client_order_id": getattr(row, "client_order_id", None) or "c-1",
        }

    def document(self, *, nulls: bool) -> str:
        """The action as JSON: `nulls` as pydantic dumps it, else only the fields that are set."""
        extra = {} if self.verb == "new" else {"action": self.verb, "venue_order_id": ORDER_ID}
        if self.request is None:
            return json.dumps(extra)
        fields = self.request.model_dump(mode="json") if nulls else self.request.to_request_fields()
        return json.dumps(fields | extra)


PROFIT, LOSS = TakeProfitRequest(limit_price=200.5), StopLossRequest(stop_price=170.25)
LOSS_LIMIT = StopLossRequest(stop_price=170.25, limit_price=169.9)
SPREAD = [
    OptionLegRequest(symbol=CALL, ratio_qty=1, side="buy", position_intent="buy_to_open"),
    OptionLegRequest(symbol=PUT, ratio_qty=2, side="sell"),
]
CONDOR = [
    OptionLegRequest(symbol=f"AAPL261218C00{strike}000", ratio_qty=1, position_intent=intent)
    for strike, intent in ((200, "buy_to_open"), (210, "sell_to_open"), (220, "sell_to_open"), (230, "buy_to_open"))
]
_PLAIN = {"symbol": "AAPL", "qty": 10, "side": "buy", "time_in_force": "day", "client_order_id": "c-1"}


def _new(name: str, made: Any, refused: str | None = None, **fields: object) -> Shape:
    wanted = {key: value for key, value in (_PLAIN | fields).items() if value is not None}
    return Shape(name, made(**wanted), refused=refused)


def _several(name: str, made: Any, legs: list[Any], **fields: object) -> Shape:
    refused = "above zero" if float(str(fields.get("limit_price", 1))) <= 0 else None
    none = {"symbol": None, "side": None}
    return _new(name, made, refused=refused, order_class="mleg", legs=legs, **(none | {"qty": 2}), **fields)


def _changed(name: str, kind: str, refused: str | None = None, **fields: object) -> Shape:
    request = ReplaceOrderRequest(client_order_id="c-1", **fields)
    return Shape(name, request, "replace", order_type=kind, refused=refused)


SHAPES: tuple[Shape, ...] = (
    _new("market", MarketOrderRequest),
    _new("market sell gtc", MarketOrderRequest, side="sell", time_in_force="gtc"),
    _new("market fraction", MarketOrderRequest, qty=0.123456789),
    _new("market on close", MarketOrderRequest, time_in_force="cls"),
    _new("market by money", MarketOrderRequest, qty=None, notional=500.25),
    _new("market by money, crypto", MarketOrderRequest, symbol="ETH/USD", qty=None, notional=10, time_in_force="ioc"),
    _new("market by money, too fine", MarketOrderRequest, "decimals", qty=None, notional=500.125),
    _new("market said to be simple", MarketOrderRequest, order_class="simple", extended_hours=False),
    _new("limit", LimitOrderRequest, limit_price=180.25),
    _new("limit fok", LimitOrderRequest, limit_price=180.25, time_in_force="fok"),
    _new("limit on open", LimitOrderRequest, limit_price=180.25, time_in_force="opg"),
    _new("limit below a dollar", LimitOrderRequest, symbol="SNDL", limit_price=0.1234),
    _new("limit of a fraction", LimitOrderRequest, limit_price=180.25, qty=1.5),
    _new("limit after hours", LimitOrderRequest, limit_price=180.25, extended_hours=True),
    _new("limit by money", LimitOrderRequest, limit_price=180.25, qty=None, notional=99.5),
    _new("limit too fine", LimitOrderRequest, "decimals", limit_price=180.251),
    _new("limit crypto", LimitOrderRequest, symbol="BTC/USD", qty=0.01, limit_price=17000.129, time_in_force="gtc"),
    _new("limit crypto day", LimitOrderRequest, "time in force", symbol="BTC/USD", limit_price=17000.0),
    _new("stop", StopOrderRequest, side="sell", stop_price=170.5),
    _new("stop gtc, to close", StopOrderRequest, side="sell", stop_price=170.5, position_intent="sell_to_close"),
    _new("stop too fine", StopOrderRequest, "decimals", side="sell", stop_price=170.505),
    _new("stop limit", StopLimitOrderRequest, stop_price=181, limit_price=181.5),
    _new(
        "stop limit crypto",
        StopLimitOrderRequest,
        symbol="BTC/USD",
        stop_price=9.125,
        limit_price=9.25,
        time_in_force="gtc",
    ),
    _new("trail by money", TrailingStopOrderRequest, side="sell", trail_price=2.5, time_in_force="gtc"),
    _new("trail by percent", TrailingStopOrderRequest, side="sell", trail_percent=1.125),
    _new("market bracket", MarketOrderRequest, order_class="bracket", take_profit=PROFIT, stop_loss=LOSS),
    _new(
        "limit bracket",
        LimitOrderRequest,
        limit_price=180.25,
        order_class="bracket",
        take_profit=PROFIT,
        stop_loss=LOSS_LIMIT,
    ),
    _new("stop bracket", StopOrderRequest, stop_price=181, order_class="bracket", take_profit=PROFIT, stop_loss=LOSS),
    _new("oto with profit", LimitOrderRequest, limit_price=180.25, order_class="oto", take_profit=PROFIT),
    _new("oto with loss", MarketOrderRequest, order_class="oto", stop_loss=LOSS_LIMIT),
    _new("oco", LimitOrderRequest, side="sell", order_class="oco", take_profit=PROFIT, stop_loss=LOSS),
    _new(
        "oco with its price",
        LimitOrderRequest,
        side="sell",
        limit_price=200.5,
        order_class="oco",
        take_profit=PROFIT,
        stop_loss=LOSS_LIMIT,
    ),
    _new(
        "oco with another price",
        LimitOrderRequest,
        "differ",
        side="sell",
        limit_price=199.0,
        order_class="oco",
        take_profit=PROFIT,
        stop_loss=LOSS,
    ),
    _new("exits without a class", MarketOrderRequest, "order_class", take_profit=PROFIT, stop_loss=LOSS),
    _new("option to open", LimitOrderRequest, symbol=CALL, qty=1, limit_price=3.05, position_intent="buy_to_open"),
    _new("option to close", MarketOrderRequest, symbol=CALL, qty=3, side="sell", position_intent="sell_to_close"),
    _new("half an option", MarketOrderRequest, "whole", symbol=CALL, qty=0.5),
    _new(
        "intent of the other side", MarketOrderRequest, "contradict", symbol=CALL, qty=1, position_intent="sell_to_open"
    ),
    _several("spread at market", MarketOrderRequest, SPREAD),
    _several("spread at a debit", LimitOrderRequest, SPREAD, limit_price=1.25),
    _several("spread at a credit", LimitOrderRequest, SPREAD, limit_price=-1.25),
    _several("condor", LimitOrderRequest, CONDOR, limit_price=0.85),
    _changed("replace limit", "limit", qty=5, limit_price=181.5),
    _changed("replace limit and tif", "limit", qty=5, limit_price=181.5, time_in_force="gtc"),
    _changed("replace market", "market", qty=7),
    _changed("replace stop", "stop", qty=5, stop_price=169.75),
    _changed("replace stop limit", "stop_limit", qty=5, stop_price=181, limit_price=181.25),
    _changed("replace trail", "trailing_stop", qty=5, trail=1.5),
    _changed("replace too fine", "limit", "decimals", qty=5, limit_price=181.505),
    _changed("replace the price alone", "limit", "quantity", limit_price=181.5),
    _changed("replace the trail alone", "trailing_stop", "quantity", trail=2),
    Shape("cancel", None, "cancel", order_type="limit"),
)
