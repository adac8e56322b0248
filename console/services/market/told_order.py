"""An order of a plan that waits for a second person, read back from its row. Others may have written that row. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple, get_args

from dlq_sink.terms import TERMS
from dlq_sink.values import number

from console.services.market.worth import CROSSES, EXIT, RESTS, Worth
from venues import OrderAction, Quote
from venues.orders import Verb
from venues.terms import NO_TERMS, TermFault, read_terms

_FIELDS = (
    "action", "market_id", "side", "quantity", "order_type", "price", "time_in_force", "client_order_id",
    "venue_order_id", "params",
)  # fmt: skip
_MOST_DIGITS = 60
_LONGEST_TEXT = 500
_MOST_PARTS = 100
Row = Mapping[str, object]


class ToldOrder(NamedTuple):
    action: OrderAction
    worth: Worth
    rest: Mapping[str, object]  # what else goes on the wire


def told_order(row: Row) -> ToldOrder | None:
    """The order as it goes on the wire, beside its market when it was asked for; None where it cannot be read."""
    order = row.get("order")
    if not isinstance(order, Mapping) or not _is_plain(order):
        return None
    verb, params = order.get("action"), order.get("params", {})
    size, terms = _number(order.get("quantity")), {name: held for name, held in order.items() if name in TERMS}
    if verb not in get_args(Verb) or not isinstance(params, Mapping):
        return None
    if verb != "cancel" and (
        not isinstance(order.get("order_type"), str) or (size is None and "notional" not in terms)
    ):
        return None  # a change of some terms: no price must not read as "market"
    price = _number(order.get("price"))
    if price is None and order.get("price") is not None:
        return None
    try:
        read = read_terms(terms) if terms else NO_TERMS
    except TermFault:
        return None
    words = {name: _text(order.get(name)) for name in ("market_id", "side", "order_type", "time_in_force")}
    action = OrderAction(
        verb,  # type: ignore[arg-type]  # one of them, as was just seen
        words["market_id"],
        words["side"],
        size or Decimal(0),
        words["order_type"],
        price,
        order_key="",
        time_in_force=words["time_in_force"] or None,
        terms=read,
        params=params,
    )
    return ToldOrder(action, _worth(row), {name: held for name, held in order.items() if not _is_told(name, held, row)})


def _is_told(name: str, held: object, row: Row) -> bool:
    """Whether the action says it; the client order id is told where it is the row's own."""
    if name == "client_order_id":
        return held == row.get(name)
    return name in _FIELDS or name in TERMS


def _worth(row: Row) -> Worth:
    notes, position = row.get("notes"), row.get("position")
    notes = notes if isinstance(notes, list) else []
    before, after = (
        _number(position.get(one)) if isinstance(position, Mapping) else None for one in ("before", "after")
    )
    return Worth(
        amount=_number(row.get("notional")),
        currency=_text(row.get("currency")) or None,
        quote=_quote(row.get("quote")),
        drift=_number(row.get("drift")),
        # Of how far it is through the market the row keeps only on which side it stands.
        through=Decimal(-1) if RESTS in notes else Decimal(0) if CROSSES in notes else None,
        before=before,
        after=after,
        reduces=EXIT in notes,
    )


def _quote(held: object) -> Quote | None:
    if not isinstance(held, Mapping):
        return None
    at: datetime | None = None  # shown nowhere
    return Quote(_number(held.get("bid")), _number(held.get("ask")), at)


def _text(held: object) -> str:
    return held if isinstance(held, str) else ""


def _number(held: object) -> Decimal | None:
    found = number(held)
    return found if found is not None and _is_short(found) else None


def _is_short(found: Decimal) -> bool:
    """Written out it fits a line; an exponent may stand for a million digits."""
    return abs(found.adjusted()) <= _MOST_DIGITS and len(found.as_tuple().digits) <= _MOST_DIGITS


def _is_plain(held: object, depth: int = 3) -> bool:
    match held:
        case Mapping() | list():
            inner = list(held.values() if isinstance(held, Mapping) else held)
            return depth > 0 and len(inner) <= _MOST_PARTS and all(_is_plain(one, depth - 1) for one in inner)
        case str():
            return len(held) <= _LONGEST_TEXT and ((found := number(held)) is None or _is_short(found))
        case None | bool():
            return True
        case _:
            return _number(held) is not None
