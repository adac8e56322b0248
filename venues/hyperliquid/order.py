"""Hyperliquid's markets and the order as the venue hashes it: digits, triggers, exits, the vault. Pure.

Must not sign or send.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from venues.credentials import HEX_ADDRESS
from venues.json_fields import shown
from venues.orders import OrderAction, Refused, places, plain, sent_order
from venues.terms import ExitTerms, SentTerms

TIFS = {"gtc": "Gtc", "ioc": "Ioc", "alo": "Alo"}
DEFAULT_TIF = "gtc"
SPOT_BASE = 10_000
CLOID = r"0x[0-9a-f]{32}"
EXITS = (("take_profit", "tp"), ("stop_loss", "sl"))
TRIGGERS = {"stop_price": "sl", "stop_loss_price": "sl", "take_profit_price": "tp"}
_STOPS = frozenset({"vault_address", "reduce_only", "stop_price", "stop_loss_price"})
_LIMITS = frozenset({"vault_address", "reduce_only", "post_only", "stop_loss_price", "take_profit_price"})
# A stop's price is the worst one that it takes once it is triggered.
_CHANGED = {"limit": _LIMITS, "stop": _STOPS | {"price"}, "stop_limit": _STOPS}
SENDS = SentTerms(
    new=_CHANGED | {"limit": _LIMITS | {"take_profit", "stop_loss", "order_class"}},
    replace=_CHANGED,
)


@dataclass(frozen=True, slots=True)
class Asset:
    """One market: its number in requests, the venue's name for it, the decimals of a size."""

    number: int
    coin: str
    size_decimals: int
    base: int | None = None  # of a spot market: the token that is bought
    quote: str = "USDC"

    @property
    def spot(self) -> bool:
        return self.number >= SPOT_BASE

    @property
    def price_decimals(self) -> int:
        return (8 if self.spot else 6) - self.size_decimals


def assets(meta: object, spot: object) -> dict[str, Asset]:
    """Return every asset by name. Raises KeyError, TypeError or ValueError for an unknown form."""
    if not isinstance(meta, dict) or not isinstance(spot, dict):
        raise TypeError
    return {**_spot_assets(spot), **_perp_assets(meta)}


def _perp_assets(meta: Mapping[str, object]) -> dict[str, Asset]:
    return {
        entry["name"]: Asset(number, entry["name"], int(entry["szDecimals"]))
        for number, entry in enumerate(_entries(meta, "universe"))
    }


def _spot_assets(meta: Mapping[str, object]) -> dict[str, Asset]:
    """Return spot assets by the venue's name ("@107", "PURR/USDC") and by "BASE/QUOTE" if only one has that."""
    by_index = {int(token["index"]): token for token in _entries(meta, "tokens")}
    named: dict[str, Asset] = {}
    pairs: dict[str, list[Asset]] = {}
    for entry in _entries(meta, "universe"):
        base, quote = (by_index[int(index)] for index in entry["tokens"])
        number, decimals = SPOT_BASE + int(entry["index"]), int(base["szDecimals"])
        asset = Asset(number, entry["name"], decimals, int(base["index"]), str(quote["name"]))
        named[asset.coin] = asset
        pairs.setdefault(f"{base['name']}/{quote['name']}", []).append(asset)
    for pair, found in pairs.items():
        if len(found) == 1:
            named.setdefault(pair, found[0])
    return named


def _entries(meta: Mapping[str, object], name: str) -> list[dict[str, Any]]:
    entries = meta[name]
    if not isinstance(entries, list):
        raise TypeError(name)
    return entries


def vault_of(action: OrderAction) -> str | Refused | None:
    """Return the vault or sub-account that the action names, in lower case; None if it names none."""
    stated = action.terms.vault_address
    if stated is not None and not HEX_ADDRESS.fullmatch(stated):
        return Refused(f"vault_address {shown(stated)}: hyperliquid takes 0x and 40 hex digits")
    return None if stated is None else stated.lower()


class Trigger(NamedTuple):
    price: Decimal
    kind: str  # "sl" or "tp", the venue's words


def trigger_of(action: OrderAction) -> Trigger | Refused | None:
    """Return the one price that sets the order off; None for an order that rests at once."""
    held = [(getattr(action.terms, name), kind) for name, kind in TRIGGERS.items()]
    found = [Trigger(price, kind) for price, kind in held if price is not None]
    if len(found) > 1:
        return Refused("an order at hyperliquid has one trigger: stop_price, stop_loss_price or take_profit_price")
    if not found and action.order_type != "limit":
        return Refused(f"a {action.order_type} order needs a stop_price")
    return found[0] if found else None


def exits_of(action: OrderAction) -> list[tuple[str, str, ExitTerms]]:
    """Return the attached exits as (term, the venue's word, prices), in the order of the request."""
    held = [(name, kind, getattr(action.terms, name)) for name, kind in EXITS]
    return [one for one in held if one[2] is not None]


def refused(action: OrderAction, asset: Asset) -> Refused | None:
    """Return why the order cannot be sent exactly as it is meant."""
    if action.side not in ("buy", "sell"):
        return Refused(f"side {action.side}: hyperliquid takes buy and sell")
    if action.order_type not in _CHANGED:
        if action.order_type == "market":
            return Refused("hyperliquid has no market orders: give the worst price you take, as a limit order, ioc")
        return Refused(f"hyperliquid has no {action.order_type} orders")
    if action.price is None:
        if action.order_type == "stop":
            return Refused("a stop at hyperliquid carries the worst price it takes once triggered: give it as price")
        return Refused(f"a {action.order_type} order needs a price")
    if action.quantity <= 0:
        return Refused(f"quantity {plain(action.quantity)} is not above zero")
    trigger = trigger_of(action)
    if isinstance(trigger, Refused):
        return trigger
    return (
        _tif_refused(action, trigger)
        or _exits_refused(action, asset, trigger)
        or _digits_refused(action, asset, trigger)
    )


def _tif_refused(action: OrderAction, trigger: Trigger | None) -> Refused | None:
    tif, post_only = action.time_in_force or DEFAULT_TIF, action.terms.post_only
    if tif not in TIFS:
        return Refused(f"time in force {tif}: hyperliquid takes {', '.join(sorted(TIFS))}")
    if trigger is not None and (tif != "gtc" or post_only):
        asked = "post_only" if post_only else f"time in force {tif}"
        return Refused(f"{asked}: a trigger at hyperliquid waits until it is cancelled and has no other time in force")
    if post_only and tif == "ioc":
        return Refused("post_only and time in force ioc exclude each other")
    return None


def _exits_refused(action: OrderAction, asset: Asset, trigger: Trigger | None) -> Refused | None:
    exits, order_class = exits_of(action), action.terms.order_class
    if asset.spot and (exits or action.terms.reduce_only):
        return Refused(f"{asset.coin} is a spot market: it has no position that an order could reduce")
    if order_class not in (None, "bracket", "oto"):
        return Refused(f"order_class {order_class}: hyperliquid takes bracket and oto")
    if order_class is not None and len(exits) != {"bracket": 2, "oto": 1}[order_class]:
        return Refused(f"order_class {order_class}: it has {len(exits)} of take_profit and stop_loss")
    if exits and trigger is not None:
        return Refused("an order with a trigger takes no attached take_profit or stop_loss at hyperliquid")
    for name, _, prices in exits:
        if prices.stop_price is None or prices.limit_price is None:
            return Refused(f"{name}: an exit at hyperliquid is a trigger with a limit: give stop_price and limit_price")
    return None


def _digits_refused(action: OrderAction, asset: Asset, trigger: Trigger | None) -> Refused | None:
    """Check the venue's digit rules here, as the venue would refuse and an SDK would round."""
    if places(action.quantity) > asset.size_decimals:
        return Refused(f"quantity {action.quantity}: {asset.coin} takes {asset.size_decimals} decimals")
    prices: list[tuple[str, Decimal | None]] = [("price", action.price)]
    if trigger is not None:
        prices.append(("trigger price", trigger.price))
    for name, _, held in exits_of(action):
        prices += [(f"{name} stop_price", held.stop_price), (f"{name} limit_price", held.limit_price)]
    return _first(_price_refused(name, price, asset) for name, price in prices if price is not None)


def _first(found: Iterable[Refused | None]) -> Refused | None:
    return next((one for one in found if one is not None), None)


def _price_refused(name: str, price: Decimal, asset: Asset) -> Refused | None:
    if price == price.to_integral_value():
        return None
    if places(price) > asset.price_decimals:
        return Refused(f"{name} {price}: {asset.coin} takes {asset.price_decimals} decimals")
    if len(price.normalize().as_tuple().digits) > 5:
        return Refused(f"{name} {price}: {asset.coin} takes 5 significant figures")
    return None


def order_wires(action: OrderAction, asset: Asset, *, cloid: str) -> list[dict[str, object]]:
    """Return the order, and its exits after it, as the venue hashes them; the order of the keys is signed too."""
    trigger = trigger_of(action)
    assert action.price is not None
    assert not isinstance(trigger, Refused)
    kind: dict[str, object] = {"limit": {"tif": _tif(action)}}
    if trigger is not None:
        kind = _triggered(trigger.price, trigger.kind, market=action.order_type == "stop")
    main = _wire(action, asset, buys=action.side == "buy", price=action.price, reduces=bool(action.terms.reduce_only))
    orders: list[dict[str, object]] = [main | {"t": kind, "c": cloid}]
    for _, word, prices in exits_of(action):
        assert prices.stop_price is not None
        assert prices.limit_price is not None
        closing = _wire(action, asset, buys=action.side != "buy", price=prices.limit_price, reduces=True)
        orders.append(closing | {"t": _triggered(prices.stop_price, word, market=False)})
    return orders


def _wire(action: OrderAction, asset: Asset, *, buys: bool, price: Decimal, reduces: bool) -> dict[str, object]:
    return {"a": asset.number, "b": buys, "p": plain(price), "s": plain(action.quantity), "r": reduces}


def _triggered(price: Decimal, kind: str, *, market: bool) -> dict[str, object]:
    return {"trigger": {"isMarket": market, "triggerPx": plain(price), "tpsl": kind}}


def _tif(action: OrderAction) -> str:
    return "Alo" if action.terms.post_only else TIFS[action.time_in_force or DEFAULT_TIF]


def aim_of(action: OrderAction) -> int | str | None:
    """Return the order that a replace or cancel aims at: the venue's number or a cloid; None if it names none."""
    aim = action.venue_order_id or action.client_order_id
    if aim is None or not (aim.isdecimal() or re.fullmatch(CLOID, aim)):
        return None
    return int(aim) if aim.isdecimal() else aim


def sent(action: OrderAction, cloid: str, *, vault: str | None) -> dict[str, Any]:
    """Return the order by neutral names as the request says it, whatever names the action used for it."""
    aim = aim_of(action)
    number, name = (str(aim), None) if isinstance(aim, int) else (None, aim)
    if action.verb == "cancel":
        return sent_order(action, name, venue_order_id=number, vault_address=vault)
    trigger, terms, exits = trigger_of(action), action.terms, len(exits_of(action))
    changed: dict[str, Any] = {"price": action.price, "vault_address": vault, "time_in_force": DEFAULT_TIF}
    if trigger is None:
        tif = _tif(action)
        changed |= {"time_in_force": "ioc" if tif == "Ioc" else "gtc", "post_only": True if tif == "Alo" else None}
    elif not isinstance(trigger, Refused) and trigger.kind == "sl":
        changed |= {"order_type": "stop" if action.order_type == "stop" else "stop_limit"}
        changed |= {"stop_price": trigger.price, "stop_loss_price": None}
    if exits:
        changed["order_class"] = terms.order_class or ("bracket" if exits == len(EXITS) else "oto")
    if action.verb == "replace":
        changed["venue_order_id"] = number or name
    return sent_order(action, cloid, **changed)
