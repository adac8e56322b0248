"""The latest quotes as Alpaca's data API gives them: of stocks, pairs and options, many or one.

Must not know orders or accounts.
"""

from __future__ import annotations

from functools import partial

from venues.practice.alpaca.asset import SYMBOL
from venues.practice.book import Desk
from venues.practice.format import Call, says
from venues.practice.wire import WireReply, WireRequest

MANY = (
    ("v2", "stocks", "quotes", "latest"),
    ("v1beta3", "crypto", "us", "latest", "quotes"),
    ("v1beta1", "options", "quotes", "latest"),
)


def quote_call(request: WireRequest) -> Call | None:
    """Return the call of a path of the data API; None if it is none."""
    if request.method != "GET":
        return None
    if request.parts in MANY:
        return Call("other", partial(_many, request.params.get("symbols", "")))
    match request.parts:
        case ("v2", "stocks", symbol, "quotes", "latest"):
            return Call("other", partial(_one, symbol))
        case ("v1beta1" | "v1beta3", *_):
            return Call("other", says(WireReply(404, {"message": "endpoint not found"})))
        case _:
            return None


def _many(wanted: str, desk: Desk) -> WireReply:
    symbols = [symbol for symbol in wanted.split(",") if symbol]
    if not symbols:
        return WireReply(400, {"message": "symbols is required"})
    wrong = next((symbol for symbol in symbols if SYMBOL.fullmatch(symbol) is None), None)
    if wrong is not None:
        return WireReply(400, {"message": f"code=400, message=invalid symbol: {wrong}"})
    found = {symbol: _quote(symbol, desk) for symbol in symbols}
    return WireReply(200, {"quotes": {symbol: quote for symbol, quote in found.items() if quote is not None}})


def _one(symbol: str, desk: Desk) -> WireReply:
    quote = _quote(symbol, desk)
    if quote is None:
        return WireReply(404, {"message": f"no quote found for {symbol}"})
    return WireReply(200, {"symbol": symbol, "quote": quote})


def _quote(symbol: str, desk: Desk) -> dict[str, object] | None:
    quote = desk.quote(symbol)
    if quote is None:
        return None
    body: dict[str, object] = {"t": quote.at.isoformat().replace("+00:00", "Z")}
    body |= {"bp": float(quote.bid), "bs": 1, "ap": float(quote.ask), "as": 1}
    return body if "/" in symbol else body | {"bx": "Q", "ax": "Q", "c": ["R"], "z": "C"}
