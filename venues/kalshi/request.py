"""Builds Kalshi's order requests, v2 event orders: new, amend and cancel. Pure but for the clock.

Prices and counts are strings with exactly the action's digits; refuses what Kalshi does not take. Must not sign, send
or read answers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from decimal import Decimal
from urllib.parse import quote, urlencode

from venues.json_fields import compact, shown
from venues.kalshi.book import BookPosition, own_words, place_of, ticker_of, yes_price
from venues.orders import (
    OrderAction,
    Prepared,
    Refused,
    default_tif_note,
    places,
    plain,
    sent_order,
)
from venues.terms import SentTerms, for_types

SENDS = SentTerms(
    new=for_types(
        ("expire_at", "post_only", "reduce_only", "order_group_id", "cancel_on_pause", "subaccount"), ("limit",)
    ),
    replace=for_types(("expire_at", "subaccount"), ("limit",)),
    own=frozenset({"outcome", "outcome_side", "book_side", "self_trade_prevention_type"}),
)
ROOT = "/trade-api/v2"
EVENT_ORDERS = f"{ROOT}/portfolio/events/orders"
SUBACCOUNTS = range(64)  # 0 is the primary one
ID_PATTERN = r"[0-9A-Za-z_:+=/-]{1,64}"
DEFAULT_TIF = "gtc"
# An order with an expiry is good till cancelled on the wire, so that gtc and gtd are one word there.
_WIRE_TIF = {
    "gtc": "good_till_canceled",
    "gtd": "good_till_canceled",
    "ioc": "immediate_or_cancel",
    "fok": "fill_or_kill",
}
TIFS = frozenset(_WIRE_TIF)
_OWN_TIFS = {"good_till_canceled": "gtc", "immediate_or_cancel": "ioc", "fill_or_kill": "fok"}
_SELF_TRADE = ("taker_at_cross", "maker")
_FLAGS = {"post_only": "post_only", "reduce_only": "reduce_only", "cancel_on_pause": "cancel_order_on_pause"}


def prepare(action: OrderAction, client_order_id: str) -> Prepared | Refused:
    subaccount = subaccount_of(action)
    if isinstance(subaccount, Refused):
        return subaccount
    if action.verb == "cancel":
        return _cancel(action, client_order_id, _asked(subaccount))
    if not re.fullmatch(ID_PATTERN, client_order_id):
        return Refused("kalshi takes client order ids of 1 to 64 letters, digits and _ - : + = /")
    place = place_of(action)
    if isinstance(place, Refused):
        return place
    if action.verb == "new":
        return _new(action, client_order_id, place=place, subaccount=subaccount)
    return _amend(action, client_order_id, place=place, asked=_asked(subaccount))


def subaccount_of(action: OrderAction) -> int | Refused | None:
    """Return the number of the subaccount that the action names; None if it names none, which is the primary one."""
    stated = action.terms.subaccount
    if stated is None:
        return None
    if not re.fullmatch("0|[1-9][0-9]?", stated) or int(stated) not in SUBACCOUNTS:
        return Refused(f"kalshi: subaccount is a whole number from 0 to {SUBACCOUNTS[-1]}, not {shown(stated)}")
    return int(stated)


def _asked(subaccount: int | None) -> dict[str, str]:
    return {} if subaccount is None else {"subaccount": str(subaccount)}


def _figures(action: OrderAction, place: BookPosition) -> tuple[Decimal, dict[str, object]] | Refused:
    """Return the price on the YES book, and market, side, size and price in Kalshi's names."""
    if action.order_type != "limit":
        return Refused(
            "kalshi has no market orders: dismiss this one, or send a limit order with time in force ioc "
            "at the worst price you accept"
        )
    price = yes_price(action, place)
    if isinstance(price, Refused):
        return price
    if action.quantity <= 0 or places(action.quantity) > 2:
        return Refused(f"kalshi: a count is above zero with at most 2 decimals, not {plain(action.quantity)}")
    named: dict[str, object] = {
        "ticker": place.ticker,
        "side": place.side,
        "count": plain(action.quantity),
        "price": f"{price:.4f}",
    }
    return price, named


def _tif(action: OrderAction, default: str | None) -> str | Refused | None:
    """Return the time in force in neutral words, where an expiry makes it gtd."""
    stated = action.time_in_force or default
    tif = None if stated is None else _OWN_TIFS.get(stated, stated)
    until = action.terms.expire_at
    if tif not in (None, *TIFS):
        return Refused(f"kalshi takes gtc, gtd, ioc and fok, not {tif}")
    if until is None:
        return Refused("kalshi: gtd needs expire_at, in whole seconds, in the action") if tif == "gtd" else tif
    if tif in ("ioc", "fok"):
        return Refused(f"kalshi takes expire_at with gtd, not with {tif}")
    if until.microsecond:
        return Refused("kalshi: expire_at is in whole seconds")
    if until.timestamp() <= time.time():  # Kalshi takes such an order as ioc
        return Refused("kalshi: expire_at is past")
    return "gtd"


def _combination(action: OrderAction, tif: str) -> Refused | None:
    """Refuse what Kalshi rejects in any case."""
    if action.terms.reduce_only and tif != "ioc":
        return Refused(f"kalshi takes reduce_only with time in force ioc only, not with {tif}")
    if action.terms.post_only and tif in ("ioc", "fok"):
        return Refused(f"kalshi: a post_only order must be able to rest, and {tif} does not")
    return None


def _self_trade(action: OrderAction) -> str | Refused:
    stated = set(own_words(action, "self_trade_prevention_type")) or {_SELF_TRADE[0]}
    if len(stated) > 1 or not stated <= set(_SELF_TRADE):
        return Refused(f"kalshi: self_trade_prevention_type is {' or '.join(_SELF_TRADE)}")
    return stated.pop()


def _new(
    action: OrderAction, client_order_id: str, *, place: BookPosition, subaccount: int | None
) -> Prepared | Refused:
    figures, tif, self_trade = _figures(action, place), _tif(action, DEFAULT_TIF) or DEFAULT_TIF, _self_trade(action)
    if isinstance(figures, Refused):
        return figures
    if isinstance(tif, Refused):
        return tif
    if isinstance(self_trade, Refused):
        return self_trade
    if wrong := _combination(action, tif):
        return wrong
    price, order = figures
    terms = action.terms
    body: dict[str, object] = {"ticker": place.ticker, "client_order_id": client_order_id, **order}
    body |= {"time_in_force": _WIRE_TIF[tif]}
    body |= {} if terms.expire_at is None else {"expiration_time": int(terms.expire_at.timestamp())}
    body |= {"self_trade_prevention_type": self_trade}
    body |= {wire: True for name, wire in _FLAGS.items() if getattr(terms, name)}
    body |= {} if subaccount is None else {"subaccount": subaccount}
    body |= {} if terms.order_group_id is None else {"order_group_id": terms.order_group_id}
    sent = _sent(action, client_order_id, place=place, price=price, tif=tif)
    sent["self_trade_prevention_type"] = self_trade
    notes = _notes(place, price)
    if action.time_in_force is None and tif == DEFAULT_TIF:
        notes.insert(0, default_tif_note(DEFAULT_TIF))
    if tif == "gtd" != action.time_in_force:
        notes.insert(0, "time in force: gtd, as there is an expire_at")
    return Prepared("new", client_order_id, "POST", EVENT_ORDERS, compact(body), action, notes=tuple(notes), sent=sent)


def _amend(
    action: OrderAction, client_order_id: str, *, place: BookPosition, asked: Mapping[str, str]
) -> Prepared | Refused:
    if list(own_words(action, "self_trade_prevention_type")):
        name = "self_trade_prevention_type"
        return Refused(f"kalshi cannot change an order's {name}", unsent=(name,))
    figures, tif, path = _figures(action, place), _tif(action, None), _path(action)
    if isinstance(path, Refused):
        return path
    if isinstance(figures, Refused):
        return figures
    if isinstance(tif, Refused):
        return tif
    if tif in ("ioc", "fok"):
        return Refused(f"kalshi amends a resting order, and {tif} does not rest")
    price, order = figures
    body = order | {"updated_client_order_id": client_order_id}
    if tif is not None:  # without it the order keeps the expiry that it has, and 0 removes it
        until = action.terms.expire_at
        body["expiration_time"] = 0 if until is None else int(until.timestamp())
    sent = _sent(action, client_order_id, place=place, price=price, tif=tif)
    notes = ["the quantity is the order's whole size, what is filled already included"]
    if tif is None:
        notes.append("time in force and expiry: as the order has them")
    notes += _notes(place, price)
    target = _with(f"{path}/amend", asked)
    return Prepared("replace", client_order_id, "POST", target, compact(body), action, notes=tuple(notes), sent=sent)


def _cancel(action: OrderAction, client_order_id: str, asked: Mapping[str, str]) -> Prepared | Refused:
    path, ticker = _path(action), ticker_of(action.market_id)
    if isinstance(path, Refused):
        return path
    if isinstance(ticker, Refused):
        return ticker
    # With the market, the venue finds the exchange shard that holds the order.
    target = _with(path, {"market_ticker": ticker, **asked})
    sent = sent_order(action, None, market_id=ticker, **asked)
    return Prepared("cancel", client_order_id, "DELETE", target, b"", action, sent=sent)


def _path(action: OrderAction) -> str | Refused:
    if not action.venue_order_id:
        return Refused(f"to {action.verb} an order at kalshi, its venue_order_id is needed")
    return f"{EVENT_ORDERS}/{quote(action.venue_order_id, safe='')}"


def _with(path: str, asked: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(asked)}" if asked else path


def _sent(
    action: OrderAction, client_order_id: str, *, place: BookPosition, price: Decimal, tif: str | None
) -> dict[str, object]:
    """The order in the words of the YES book, as Kalshi gets it."""
    side = "buy" if place.side == "bid" else "sell"
    return sent_order(action, client_order_id, market_id=place.ticker, side=side, price=price, time_in_force=tif)


def _notes(place: BookPosition, price: Decimal) -> list[str]:
    notes = [] if place.stated else ["outcome: yes (the action does not say)"]
    if place.outcome == "no":
        notes.append(f"sent as {'buy' if place.side == 'bid' else 'sell'} yes at {plain(price)} dollars")
    return notes
