"""Alpaca's paths beside orders: clock, account, assets; and the shape of its errors.

Knows nothing of orders.
"""

from __future__ import annotations

import re
import uuid
from datetime import timedelta

from venues.practice.book import Desk
from venues.practice.wire import WireReply

SYMBOL = re.compile(r"[A-Z][A-Z0-9]*([./][A-Z0-9]+)?")
UNKNOWN_SYMBOL = "NOSUCH"  # every other well-formed symbol is listed
ACCOUNT = "e6fe16f3-64a4-4921-8928-cadf02f92f98"


def problem(status: int, message: str, *, code: int, **more: str) -> WireReply:
    return WireReply(status, {"code": code, "message": message, **more})


def listed(symbol: str) -> bool:
    return symbol != UNKNOWN_SYMBOL and SYMBOL.fullmatch(symbol) is not None


def asset_id(symbol: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, symbol))


def clock(desk: Desk) -> WireReply:
    bell = desk.now.replace(hour=14, minute=30, second=0, microsecond=0) + timedelta(days=1)
    close = desk.now + timedelta(hours=4) if not desk.closed else bell + timedelta(hours=6, minutes=30)
    times = {"timestamp": desk.now, "next_open": bell, "next_close": close}
    return WireReply(200, {"is_open": not desk.closed} | {name: at.isoformat() for name, at in times.items()})


def account(key: str) -> WireReply:
    """A paper key has a paper account and a live key a live one; any other key says nothing of either."""
    number = {"PK": "PA3PRACTICE1", "AK": "927341058"}.get(key[:2], "PRACTICE1")
    money = dict.fromkeys(("cash", "equity", "last_equity", "portfolio_value"), "100000")
    power = dict.fromkeys(("buying_power", "regt_buying_power", "non_marginable_buying_power"), "200000")
    flags = ("trading_blocked", "transfers_blocked", "account_blocked", "trade_suspended_by_user")
    who = {
        "id": ACCOUNT,
        "account_number": number,
        "status": "ACTIVE",
        "crypto_status": "ACTIVE",
        "currency": "USD",
    }
    made = {"created_at": "2024-01-02T15:04:05Z", "multiplier": "2", "shorting_enabled": True}
    return WireReply(200, {**who, **money, **power, **made, **dict.fromkeys(flags, False)})


def asset(symbol: str) -> WireReply:
    if not listed(symbol):
        return problem(404, f"asset not found for {symbol}", code=40410000)
    flags = ("tradable", "marginable", "shortable", "easy_to_borrow", "fractionable")
    crypto = "/" in symbol
    return WireReply(
        200,
        {
            "id": asset_id(symbol),
            "class": "crypto" if crypto else "us_equity",
            "exchange": "CRYPTO" if crypto else "NASDAQ",
            "symbol": symbol,
            "name": symbol,
            "status": "active",
            **dict.fromkeys(flags, True),
        },
    )
