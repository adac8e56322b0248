"""The account of the practice Binance: balances, and positions in its perpetuals.

Must not know orders or paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from venues.practice.binance.document import eight
from venues.practice.binance.market import MARKETS, book_symbol
from venues.practice.book import Desk
from venues.practice.wire import WireReply, millis

START = Decimal(1_000_000)  # USDT that every account has, whatever it buys


def system_status(desk: Desk) -> WireReply:
    return WireReply(200, {"status": 1, "msg": "system_maintenance"} if desk.closed else {"status": 0, "msg": "normal"})


def account(desk: Desk) -> WireReply:
    rates = dict.fromkeys(("maker", "taker", "buyer", "seller"), "0.00100000")
    held = _held(desk)
    return WireReply(
        200,
        {
            "makerCommission": 10,
            "takerCommission": 10,
            "buyerCommission": 0,
            "sellerCommission": 0,
            "commissionRates": rates,
            "canTrade": not desk.closed,
            "canWithdraw": False,
            "canDeposit": False,
            "updateTime": millis(desk.now),
            "accountType": "SPOT",
            "balances": [{"asset": name, "free": eight(many), "locked": "0.00000000"} for name, many in held.items()],
            "permissions": ["SPOT"],
            "uid": int(desk.account),
        },
    )


def _held(desk: Desk) -> dict[str, Decimal]:
    """What the account has of each currency: what it was given, and its fills."""
    traded = {market.base: held for market in MARKETS.values() if (held := desk.position(market.symbol)) > 0}
    return {"USDT": START} | traded


def futures_account(desk: Desk) -> WireReply:
    money = dict.fromkeys(("walletBalance", "marginBalance", "availableBalance", "maxWithdrawAmount"), eight(START))
    none = dict.fromkeys(("unrealizedProfit", "initialMargin", "maintMargin", "crossUnPnl"), "0.00000000")
    asset = {"asset": "USDT", **money, **none, "crossWalletBalance": eight(START), "updateTime": millis(desk.now)}
    totals = {"totalWalletBalance": eight(START), "availableBalance": eight(START)}
    return WireReply(200, {"canTrade": not desk.closed, **totals, "assets": [asset], "positions": []})


def futures_balance(desk: Desk) -> WireReply:
    money = dict.fromkeys(("balance", "crossWalletBalance", "availableBalance", "maxWithdrawAmount"), eight(START))
    return WireReply(200, [{"accountAlias": "practice", "asset": "USDT", **money, "updateTime": millis(desk.now)}])


def positions(params: Mapping[str, str], desk: Desk) -> WireReply:
    """Only those that are held, as the newest of Binance's paths does."""
    wanted = [params["symbol"]] if "symbol" in params else list(MARKETS)
    held = {symbol: desk.position(book_symbol(symbol, futures=True)) for symbol in wanted}
    return WireReply(200, [_position(symbol, many, desk) for symbol, many in held.items() if many])


def _position(symbol: str, many: Decimal, desk: Desk) -> dict[str, object]:
    quote = desk.quote(book_symbol(symbol, futures=True))
    mark = (quote.bid + quote.ask) / 2 if quote else MARKETS[symbol].mark
    none = dict.fromkeys(("unRealizedProfit", "liquidationPrice", "isolatedMargin", "isolatedWallet"), "0")
    margins = dict.fromkeys(("initialMargin", "maintMargin", "positionInitialMargin", "openOrderInitialMargin"), "0")
    return {
        "symbol": symbol,
        "positionSide": "BOTH",
        "positionAmt": eight(many),
        "entryPrice": eight(mark),
        "breakEvenPrice": eight(mark),
        "markPrice": eight(mark),
        "notional": eight(many * mark),
        "marginAsset": "USDT",
        **none,
        **margins,
        "adl": "0",
        "bidNotional": "0",
        "askNotional": "0",
        "updateTime": millis(desk.now),
    }


def leverage_brackets(_: Desk) -> WireReply:
    bracket = {
        "bracket": 1,
        "initialLeverage": 20,
        "notionalCap": 1_000_000_000,
        "notionalFloor": 0,
        "maintMarginRatio": 0.01,
        "cum": 0.0,
    }
    return WireReply(200, [{"symbol": symbol, "brackets": [bracket]} for symbol in MARKETS])
