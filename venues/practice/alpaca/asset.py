"""What Alpaca lists: which symbols there are and of what kind, and the body of its errors.

Must not know orders or paths.
"""

from __future__ import annotations

import re
import uuid

from venues.practice.wire import WireReply

SYMBOL = re.compile(r"[A-Z][A-Z0-9]*([./][A-Z0-9]+)?")
OPTION = re.compile(r"[A-Z][A-Z0-9.]{0,5}[0-9]{6}[CP][0-9]{8}")
UNKNOWN_SYMBOL = "NOSUCH"  # every other well-formed symbol is listed


def problem(status: int, message: str, *, code: int, **more: str) -> WireReply:
    return WireReply(status, {"code": code, "message": message, **more})


def listed(symbol: str) -> bool:
    return symbol != UNKNOWN_SYMBOL and SYMBOL.fullmatch(symbol) is not None


def asset_id(symbol: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, symbol))


def asset_class(symbol: str) -> str:
    return "crypto" if "/" in symbol else "us_option" if OPTION.fullmatch(symbol) else "us_equity"


def listing(symbol: str) -> str:
    """Return the exchange that Alpaca names for a symbol."""
    return {"crypto": "CRYPTO", "us_option": ""}.get(asset_class(symbol), "NASDAQ")


def asset(symbol: str) -> WireReply:
    if not listed(symbol):
        return problem(404, f"asset not found for {symbol}", code=40410000)
    flags = ("tradable", "marginable", "shortable", "easy_to_borrow", "fractionable")
    return WireReply(
        200,
        {
            "id": asset_id(symbol),
            "class": asset_class(symbol),
            "exchange": listing(symbol),
            "symbol": symbol,
            "name": symbol,
            "status": "active",
            **dict.fromkeys(flags, True),
        },
    )
