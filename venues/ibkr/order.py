"""Interactive Brokers' orders as plain values, and the account each goes to. Pure.

Must not import the SDK or know a socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from venues.json_fields import compact
from venues.orders import OrderAction, Refused, plain
from venues.terms import SentTerms, Terms

TYPES = {"market": "MKT", "limit": "LMT", "stop": "STP", "stop_limit": "STP LMT", "trailing_stop": "TRAIL"}
TIFS = ("day", "gtc", "ioc", "fok", "opg", "gtd")
FIGURES = (
    "totalQuantity",
    "lmtPrice",
    "auxPrice",
    "trailingPercent",
)  # text in the stored order, exact numbers in TWS's
_ANY = frozenset({"extended_hours", "oca_group", "oca_type", "expire_at"})
_STOP = _ANY | {"stop_price"}
SENDS = SentTerms(
    new={
        "market": _ANY,
        "limit": _ANY,
        "stop": _STOP,
        "stop_limit": _STOP,
        "trailing_stop": _ANY | {"trail_price", "trail_percent"},
    }
)
_OCA_TYPES = ("1", "2", "3")


def order_of(action: OrderAction, client_order_id: str) -> dict[str, object] | Refused:
    if (refused := _refused(action)) is not None:
        return refused
    terms = action.terms
    order: dict[str, object] = {
        "action": action.side.upper(),
        "totalQuantity": plain(action.quantity),
        "orderType": TYPES[action.order_type],
        "tif": (action.time_in_force or TIFS[0]).upper(),
        "orderRef": client_order_id,
    }
    if action.order_type in ("limit", "stop_limit"):
        order["lmtPrice"] = _text(action.price)
    if action.order_type in ("stop", "stop_limit"):
        order["auxPrice"] = _text(terms.stop_price)
    if terms.trail_price is not None:
        order["auxPrice"] = _text(terms.trail_price)
    if terms.trail_percent is not None:
        order["trailingPercent"] = _text(terms.trail_percent)
    if terms.expire_at is not None:
        order["goodTillDate"] = terms.expire_at.astimezone(UTC).strftime("%Y%m%d-%H:%M:%S")
    if terms.extended_hours:
        order["outsideRth"] = True
    if terms.oca_group is not None:
        order["ocaGroup"] = terms.oca_group
    if terms.oca_type is not None:
        order["ocaType"] = int(terms.oca_type)
    return order


def _text(number: Decimal | None) -> str:
    assert number is not None
    return plain(number)


def _refused(action: OrderAction) -> Refused | None:
    tif, kind, terms = action.time_in_force or TIFS[0], action.order_type, action.terms
    if action.side not in ("buy", "sell") or kind not in TYPES:
        return Refused(f"{action.side} {kind}: ibkr takes buy and sell, {', '.join(TYPES)}")
    if tif not in TIFS:
        return Refused(f"time in force {tif}: ibkr takes {', '.join(TIFS)} from here")
    if action.quantity <= 0:
        return Refused(f"quantity {plain(action.quantity)} is not above zero")
    if kind in ("limit", "stop_limit") and action.price is None:
        return Refused(f"a {kind} order needs a price")
    if kind in ("stop", "stop_limit") and terms.stop_price is None:
        return Refused(f"a {kind} order needs a stop_price")
    if kind == "trailing_stop" and (terms.trail_price is None) == (terms.trail_percent is None):
        return Refused("a trailing_stop order needs either a trail_price or a trail_percent")
    return _expiry_refused(tif, terms.expire_at) or _oca_refused(terms)


def _expiry_refused(tif: str, expire_at: datetime | None) -> Refused | None:
    if (tif == "gtd") != (expire_at is not None):
        return Refused("time in force gtd and expire_at belong together at ibkr")
    if expire_at is not None and expire_at.microsecond:
        return Refused(f"expire_at {expire_at.isoformat()}: ibkr takes whole seconds")
    return None


def _oca_refused(terms: Terms) -> Refused | None:
    if terms.oca_type is not None and terms.oca_type not in _OCA_TYPES:
        return Refused(f"oca_type {terms.oca_type}: ibkr takes {', '.join(_OCA_TYPES)}")
    if terms.oca_type is not None and terms.oca_group is None:
        return Refused("oca_type means nothing at ibkr without an oca_group")
    return None


@dataclass(frozen=True, slots=True)
class Managed:
    """The accounts that a gateway manages, and which of them the config says that this client is for."""

    accounts: tuple[str, ...]
    number: str | None
    setting: str  # the key that names it in the config

    def account_for(self, action: OrderAction) -> str | Refused:
        """Return the entry's own account: the config's number, else the one it names, else the only one."""
        asked, has = action.account_id, ", ".join(self.accounts) or "none"
        if self.number is not None:
            if self.number not in self.accounts:
                return _elsewhere(
                    f"account {self.number}: this gateway has {has}; the config's {self.setting} is wrong"
                )
            if asked != self.number and asked in self.accounts:
                return _elsewhere(f"account {asked}: the config's {self.setting} for it is {self.number}, another one")
            return self.number
        if asked in self.accounts:
            return asked
        if asked is not None:
            remedy = f"set this account's own number as {self.setting} in the config"
            return _elsewhere(f"account {asked}: this gateway has {has}; {remedy}")
        if len(self.accounts) == 1:
            return self.accounts[0]
        remedy = f"the entry must name one, or the config must set default_account and its {self.setting}"
        return _elsewhere(f"account (none): this gateway has {has}; {remedy}")


def _elsewhere(why: str) -> Refused:
    return Refused(why, wrong_account=True)


def encoded(contract: Mapping[str, object], order: Mapping[str, object]) -> bytes:
    return compact({"contract": contract, "order": order})
