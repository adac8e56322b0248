"""Reads an order request as Alpaca does: what it asks for, or the refusal in Alpaca's words.

Must not know the book or other paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from venues.practice.alpaca.asset import listed, problem
from venues.practice.wire import WireReply, decimal, plain, text

TIFS = frozenset(("day", "gtc", "opg", "cls", "ioc", "fok"))
TYPES = ("market", "limit", "stop", "stop_limit", "trailing_stop")
CLASSES = ("simple", "bracket", "oco", "oto", "mleg")
INTENTS = ("buy_to_open", "buy_to_close", "sell_to_open", "sell_to_close")
LEGS = range(2, 5)
LONGEST_ID = 128
Body = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedOrder:
    """An order as a request asks for it, its numbers read."""

    symbol: str
    side: str
    kind: str
    tif: str
    order_class: str
    client_order_id: str | None
    numbers: Mapping[str, Decimal]  # by Alpaca's names: qty, notional, limit_price, …
    profit: Mapping[str, Decimal]
    loss: Mapping[str, Decimal]
    legs: tuple[Body, ...] = ()
    words: Mapping[str, object] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        return self.order_class == "mleg"


NUMBERS = ("qty", "notional", "limit_price", "stop_price", "trail_price", "trail_percent")


def read(body: Body) -> WantedOrder | WireReply:
    legs = body.get("legs")
    intent = text(body.get("position_intent"))
    wanted = WantedOrder(
        symbol=text(body.get("symbol")) or "",
        side=text(body.get("side")) or (intent or "").partition("_")[0],
        kind=text(body.get("type")) or "",
        tif=text(body.get("time_in_force")) or "",
        order_class=text(body.get("order_class")) or "simple",
        client_order_id=text(body.get("client_order_id")),
        numbers=_numbers(body, NUMBERS),
        profit=_numbers(body.get("take_profit"), ("limit_price",)),
        loss=_numbers(body.get("stop_loss"), ("stop_price", "limit_price")),
        legs=tuple(leg for leg in legs if isinstance(leg, dict)) if isinstance(legs, list) else (),
        words={"extended_hours": body.get("extended_hours") is True, "position_intent": intent},
    )
    return next(_wrongs(wanted), wanted)


def _numbers(body: object, names: tuple[str, ...]) -> dict[str, Decimal]:
    held = body if isinstance(body, dict) else {}
    return {name: number for name in names if (number := decimal(held.get(name))) is not None}


def _wrongs(wanted: WantedOrder) -> Iterator[WireReply]:
    yield from _wrong_words(wanted)
    yield from _wrong_size(wanted)
    yield from _wrong_type(wanted)
    yield from wrong_prices(wanted.symbol, wanted.numbers, wanted.profit, wanted.loss)
    yield from _wrong_class(wanted)
    if wanted.client_order_id is not None and len(wanted.client_order_id) > LONGEST_ID:
        yield _refusal("client_order_id must be no more than 128 characters")
    if not wanted.several and not listed(wanted.symbol):
        yield problem(422, f'asset "{wanted.symbol}" not found', code=42210000)


def _wrong_words(wanted: WantedOrder) -> Iterator[WireReply]:
    known = (
        ("side", wanted.several or wanted.side in ("buy", "sell")),
        ("type", wanted.kind in TYPES),
        ("time_in_force", wanted.tif in TIFS),
        ("order_class", wanted.order_class in CLASSES),
        ("position_intent", wanted.words["position_intent"] in (None, *INTENTS)),
    )
    return (_refusal(f"invalid {name}") for name, good in known if not good)


def _wrong_size(wanted: WantedOrder) -> Iterator[WireReply]:
    quantity, money = wanted.numbers.get("qty"), wanted.numbers.get("notional")
    if quantity is None and money is None:
        yield _refusal("qty or notional is required")
    elif quantity is not None and money is not None:
        yield _refusal("only one of qty or notional is accepted")
    elif quantity is not None and quantity <= 0:
        yield _refusal("qty must be > 0")
    elif money is not None and (money <= 0 or money != round(money, 2)):
        yield _refusal("notional must be > 0 and is limited to 2 decimal places")


def _wrong_type(wanted: WantedOrder) -> Iterator[WireReply]:
    numbers = wanted.numbers
    in_exit = wanted.order_class == "oco" and bool(wanted.profit)
    if wanted.kind in ("limit", "stop_limit") and "limit_price" not in numbers and not in_exit:
        yield _refusal("limit orders require a limit price")
    if wanted.kind in ("stop", "stop_limit") and "stop_price" not in numbers:
        yield _refusal("stop orders require a stop price")
    if wanted.kind == "trailing_stop" and ("trail_price" in numbers) == ("trail_percent" in numbers):
        yield _refusal("trailing stop orders require one of trail_price or trail_percent")
    if wanted.kind in ("market", "stop", "trailing_stop") and "limit_price" in numbers:
        yield _refusal(f"{wanted.kind} orders require no limit price")


def wrong_prices(symbol: str, *prices: Mapping[str, Decimal]) -> Iterator[WireReply]:
    rule = "sub-penny increment does not fulfill minimum pricing criteria"
    for name, price in (pair for some in prices for pair in some.items() if pair[0].endswith("_price")):
        places = 9 if "/" in symbol else 2 if price >= 1 else 4
        if price <= 0:
            yield _refusal(f"{name} must be > 0")
        elif price != round(price, places):
            yield problem(422, f"invalid {name} {plain(price)}. {rule}", code=42210000)


def _wrong_class(wanted: WantedOrder) -> Iterator[WireReply]:
    kind, profit, loss = wanted.order_class, wanted.profit, wanted.loss
    if kind in ("bracket", "oco") and not profit:
        yield _refusal(f"{kind} orders require take_profit.limit_price")
    if kind in ("bracket", "oco") and "stop_price" not in loss:
        yield _refusal(f"{kind} orders require stop_loss.stop_price")
    if kind == "oto" and bool(profit) == bool(loss):
        yield _refusal("oto orders require either take_profit or stop_loss")
    if kind == "simple" and (profit or loss or wanted.legs):
        yield _refusal("simple orders have no legs")
    if kind == "mleg" and (len(wanted.legs) not in LEGS or not all(map(_good_leg, wanted.legs))):
        yield _refusal("mleg orders require 2 to 4 legs with symbol, ratio_qty and side or position_intent")


def _good_leg(leg: Body) -> bool:
    ratio = decimal(leg.get("ratio_qty"))
    return listed(text(leg.get("symbol")) or "") and leg_side(leg) in ("buy", "sell") and (ratio or 0) > 0


def leg_side(leg: Body) -> str:
    return text(leg.get("side")) or (text(leg.get("position_intent")) or "").partition("_")[0]


def _refusal(message: str) -> WireReply:
    return problem(422, message, code=40010001)
