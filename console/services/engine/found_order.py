"""Reads the order that an engine's own `find` returned, as far as it tells. Pure.

Takes a mapping or an object, with the names that common SDKs use. What it does not tell is not compared; a name or a
word that is told and differs is a difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

from dlq_sink.capture.answer import ORDER_IDS, told

from backends.records import number, parse_time
from console.services.evidence.lookup_verdict import LookupVerdict, judge
from venues import Found, LookupFailed, OrderAction, Status, VenueOrder

_CLIENT_IDS: Final = ("client_order_id", "clientOrderId", "client_oid", "clOrdId", "orderLinkId")
_STATUSES: Final = ("status", "order_status", "orderStatus", "state")
_MARKETS: Final = ("market_id", "symbol", "market", "ticker", "instrument", "instrument_id")
_SIDES: Final = ("side",)
_QUANTITIES: Final = (
    "quantity", "qty", "amount", "size", "order_qty", "orderQty", "orig_qty", "origQty", "total_quantity",
    "totalQuantity",
)  # fmt: skip
_TYPES: Final = ("order_type", "orderType", "type")
_PRICES: Final = ("limit_price", "limitPrice", "lmtPrice", "price")
_FILLS: Final = (
    "filled_quantity", "filled_qty", "filledQty", "filled_size", "executed_qty", "executedQty", "cum_qty", "filled",
)  # fmt: skip
_TIMES: Final = ("created_at", "createdAt", "submitted_at")

_OPEN: Final = (
    "open new accepted acceptedforbidding pending pendingnew pendingsubmit presubmitted submitted working live resting "
    "active placed received acknowledged held pendingcancel pendingreplace"
)
_WORDS: Final[Mapping[Status, str]] = {
    "open": _OPEN,
    "partly_filled": "partlyfilled partiallyfilled partialfilled partialfill partial",
    "filled": "filled executed complete completed matched",
    "cancelled": "cancelled canceled",
    "expired": "expired",
    "replaced": "replaced",
    "rejected": "rejected refused denied",
}
_STATUS: Final[dict[str, Status]] = {word: status for status, words in _WORDS.items() for word in words.split()}
_SIDE: Final = {"b": "buy", "bid": "buy", "bot": "buy", "long": "buy", "s": "sell", "ask": "sell", "sld": "sell"}
_TYPE: Final = {"lmt": "limit", "mkt": "market"}
_KNOWN_TYPES: Final = frozenset({"market", "limit", "stop", "stop_limit", "trailing_stop"})


def judge_found(
    action: OrderAction, client_order_id: str, found: object, *, not_before: datetime | None
) -> LookupVerdict:
    """What the order that the venue shows under this id says about the action."""
    order = _read(action, found)
    if order is None:
        failed = LookupFailed(f"find returned {type(found).__name__}, which says nothing about an order")
        return judge(action, failed)
    if order.client_order_id not in (None, client_order_id):
        text = f"conflict: client order id: {client_order_id} here, {order.client_order_id} at the venue"
        return LookupVerdict("conflict", text, order)
    verdict = judge(action, Found(order), not_before=not_before)
    if verdict.kind == "ours" and not order.raw_status:
        return LookupVerdict("ours", "found: its status is not given", order)
    return verdict


def _read(action: OrderAction, found: object) -> VenueOrder | None:
    """The order in the action's words; None for what is no single order."""
    if isinstance(found, bool) or _is_a_collection(found):
        return None
    if isinstance(found, str | int):
        found = {"id": found}  # as `submit` returns it
    order_id = _text(found, ORDER_IDS)
    raw = _word(found, _STATUSES)
    if not order_id and not raw:
        return None
    return VenueOrder(
        venue_order_id=order_id,
        client_order_id=_text(found, _CLIENT_IDS) or None,
        status=_STATUS.get(re.sub(r"[^a-z]", "", raw), "unclear") if raw else "open",
        raw_status=raw,
        market_id=_market(action, found),
        side=_side(found),
        quantity=_decimal(found, _QUANTITIES),
        order_type=_type(found),
        price=_decimal(found, _PRICES),
        filled=_decimal(found, _FILLS),
        created_at=next((at for name in _TIMES if (at := parse_time(told(found, name)))), None),
    )


def _is_a_collection(found: object) -> bool:
    named = isinstance(found, tuple) and hasattr(found, "_fields")
    return isinstance(found, list | tuple | set | frozenset) and not named


def _text(found: object, names: tuple[str, ...]) -> str:
    values = (told(found, name) for name in names)
    # Some SDKs have UUID objects for ids.
    return next((text for value in values if value is not None and (text := str(value).strip())), "")


def _word(found: object, names: tuple[str, ...]) -> str:
    """In lower case; of an enum that was turned into text only its member."""
    return _text(found, names).lower().rpartition(".")[2]


def _decimal(found: object, names: tuple[str, ...]) -> Decimal | None:
    return next((amount for name in names if (amount := number(told(found, name))) is not None), None)


def _market(action: OrderAction, found: object) -> str | None:
    """The action's own name where only its spelling differs, as BTC/USD and BTCUSD."""
    said = next((value for name in _MARKETS if isinstance(value := told(found, name), str) and value.strip()), None)
    return action.market_id if said is not None and _bare(said) == _bare(action.market_id) else said


def _bare(market: str) -> str:
    return re.sub(r"[\W_]", "", market).upper()


def _side(found: object) -> str | None:
    said = _word(found, _SIDES)
    return _SIDE.get(said, said) or None


def _type(found: object) -> str | None:
    """None also for words that are no order type of ours: `type` may mean anything."""
    said = _word(found, _TYPES).replace(" ", "_").replace("-", "_")
    kind = _TYPE.get(said, said)
    return kind if kind in _KNOWN_TYPES else None
