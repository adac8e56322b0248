"""Alpaca's clock, account and positions. Must not know orders or paths."""

from __future__ import annotations

import uuid
from datetime import timedelta
from decimal import Decimal

from venues.practice.accounts import digits, letters
from venues.practice.alpaca.asset import asset_class, asset_id, listing, problem
from venues.practice.book import Desk
from venues.practice.wire import WireReply, plain


def clock(desk: Desk) -> WireReply:
    bell = desk.now.replace(hour=14, minute=30, second=0, microsecond=0) + timedelta(days=1)
    close = desk.now + timedelta(hours=4) if not desk.closed else bell + timedelta(hours=6, minutes=30)
    times = {"timestamp": desk.now, "next_open": bell, "next_close": close}
    return WireReply(200, {"is_open": not desk.closed} | {name: at.isoformat() for name, at in times.items()})


def account_number(key: str) -> str:
    """Return the key's own account: a paper one for a paper key, a live one for a live key, else of neither form."""
    match key[:2]:
        case "PK":
            return f"PA3{letters(key, 9)}"
        case "AK":
            return digits(key, 9)
        case _:
            return f"PRACTICE{letters(key, 8)}"


def account(desk: Desk) -> WireReply:
    number = desk.account
    money = dict.fromkeys(("cash", "equity", "last_equity", "portfolio_value"), "100000")
    power = dict.fromkeys(("buying_power", "regt_buying_power", "non_marginable_buying_power"), "200000")
    flags = ("trading_blocked", "transfers_blocked", "account_blocked", "trade_suspended_by_user")
    who = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_DNS, number)),
        "account_number": number,
        "status": "ACTIVE",
        "crypto_status": "ACTIVE",
        "currency": "USD",
    }
    made = {"created_at": "2024-01-02T15:04:05Z", "multiplier": "2", "shorting_enabled": True}
    return WireReply(200, {**who, **money, **power, **made, **dict.fromkeys(flags, False)})


def positions(desk: Desk) -> WireReply:
    return WireReply(200, [_position(symbol, held, desk) for symbol, held in _held(desk).items()])


def position(wanted: str, desk: Desk) -> WireReply:
    found = ((symbol, held) for symbol, held in _held(desk).items() if _bare(symbol) == _bare(wanted))
    symbol, held = next(found, ("", Decimal(0)))
    return WireReply(200, _position(symbol, held, desk)) if held else _no_position()


def _held(desk: Desk) -> dict[str, Decimal]:
    """Return what the account holds; an order of several legs trades no symbol of its own."""
    return {symbol: held for symbol, held in desk.positions().items() if symbol}


def _bare(symbol: str) -> str:
    return symbol.replace("/", "")


def _no_position() -> WireReply:
    return problem(404, "position does not exist", code=40410000)


def _position(symbol: str, held: Decimal, desk: Desk) -> dict[str, object]:
    quote = desk.quote(symbol)
    price = Decimal(100) if quote is None else (quote.bid + quote.ask) / 2
    zeros = ("unrealized_pl", "unrealized_plpc", "unrealized_intraday_pl", "unrealized_intraday_plpc", "change_today")
    return {
        "asset_id": asset_id(symbol),
        "symbol": _bare(symbol),  # Alpaca writes the pair of a position without its slash
        "exchange": listing(symbol),
        "asset_class": asset_class(symbol),
        "asset_marginable": True,
        "qty": plain(held),
        "qty_available": plain(held),
        "side": "long" if held > 0 else "short",
        "avg_entry_price": plain(price),
        "current_price": plain(price),
        "lastday_price": plain(price),
        "market_value": plain(price * held),
        "cost_basis": plain(price * held),
        **dict.fromkeys(zeros, "0"),
    }
