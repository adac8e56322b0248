"""How ccxt and its exchanges name the terms of an order, as data: ccxt 4.5.90.

Tests compare it with the installed ccxt. Must not know an exchange object, nor import ccxt.
"""

from __future__ import annotations

from dlq_sink.terms import TERMS

from venues.terms import TYPES, SentTerms, for_types

# Neutral name → ccxt's unified name inside `params`.
UNIFIED = {
    "stop_price": "triggerPrice",
    "stop_loss_price": "stopLossPrice",
    "take_profit_price": "takeProfitPrice",
    "trail_price": "trailingAmount",
    "trail_percent": "trailingPercent",
    "notional": "cost",
    "reduce_only": "reduceOnly",
    "post_only": "postOnly",
    "take_profit": "takeProfit",
    "stop_loss": "stopLoss",
    "margin_mode": "marginMode",
    "leverage": "leverage",
}
EXIT_WORDS = {"stop_price": "triggerPrice", "limit_price": "price"}
# Terms that have no unified name; they can only come in a call's own params.
_ONLY_IN_PARAMS = ("extended_hours", "position_intent", "expire_at")
# The order waits for them: one that is lost on the way becomes an order that trades at once.
WAITS_FOR = frozenset({"stop_price", "stop_loss_price", "take_profit_price", "trail_price", "trail_percent"})

# The wire decides what an exchange gets; here is what may get as far as that.
_EXITS = ("take_profit", "stop_loss")
SENDS = SentTerms(
    new=for_types((*UNIFIED, *_ONLY_IN_PARAMS)),
    replace=for_types((*UNIFIED, *_ONLY_IN_PARAMS)),
    own=frozenset(
        f"{name}.{key}" for name in _EXITS for key in ("type", "price_type", "trigger_price_type", "trigger_type")
    ),
    params=True,
)

CALL_TYPES = dict(zip(TYPES, ("market", "limit", "market", "limit", "market"), strict=True))

BINANCE = ("binance", "binanceus", "binanceusdm", "binancecoinm")
_BYBIT = ("bybit", "bybiteu", "bybitid")
_OKX = ("okx", "okxus", "myokx")
# A stop (buy above the market, sell below it) by the name that means exactly this there. ccxt's `triggerPrice`
# has the other direction at some (coinbase) and none at others, so an exchange that is not here gets no stop; nor does
# gate, where ccxt lets it expire after a day.
STOP_NAME = {
    **dict.fromkeys((*BINANCE, *_BYBIT, *_OKX), "triggerPrice"),
    **dict.fromkeys(("alpaca", "bitfinex", "bitget", "hyperliquid", "krakenfutures"), "triggerPrice"),
    "phemex": "triggerPrice",
    **dict.fromkeys(("coinbase", "cryptocom", "deribit", "kraken", "kucoin"), "stopLossPrice"),
}
# Exchanges that must be told from which side the price comes.
DIRECTED = frozenset((*_BYBIT, "phemex"))

# Exchanges that know an order which waits by another client order id than ccxt sends.
WAITING_ID = dict.fromkeys(_OKX, "algoClOrdId")

# ccxt hands a name that it does not know on as it is, and most exchanges ignore it. Under these names the exchange
# itself takes the term, so as it is is right; the last ones only in contract markets.
PASSED_ON: dict[str, frozenset[str]] = {
    "timeInForce": frozenset(
        (
            *_BYBIT,
            "backpack",
            "bingx",
            "bitrue",
            "blockchaincom",
            "btcmarkets",
            "btse",
            "bydfi",
            "hashkey",
            "kucoin",
            "kucoinfutures",
            "poloniex",
            "toobit",
            "weex",
            "xt",
        )
    ),
    "postOnly": frozenset(("backpack", "btcmarkets", "btse", "kucoin", "kucoinfutures", "whitebit")),
    "leverage": frozenset(("kraken",)),
    **dict.fromkeys(("extended_hours", "position_intent"), frozenset(("alpaca",))),
}
PASSED_ON_CONTRACTS: dict[str, frozenset[str]] = {
    "reduceOnly": frozenset(
        (
            *BINANCE,
            *_BYBIT,
            *_OKX,
            "aster",
            "backpack",
            "bingx",
            "bitget",
            "blofin",
            "bydfi",
            "krakenfutures",
            "kucoin",
            "kucoinfutures",
            "mexc",
            "phemex",
            "woo",
        )
    ),
    "leverage": frozenset(("kucoin", "kucoinfutures", "mexc")),
    "goodTillDate": frozenset(BINANCE),
}

# Exchanges whose answers show that an order is not post-only; ccxt says so of others without knowing.
TELLS_POST_ONLY = frozenset((*BINANCE, *_BYBIT, *_OKX, "kucoin", "kucoinfutures"))

# Parameters, folded, that change what the quantity counts, or that an order is made at all.
REMEASURES = {
    "createmarketbuyorderrequiresprice": "it changes what the quantity counts",
    "tgtccy": "it changes what the quantity counts",
    "marketunit": "it changes what the quantity counts",
    "quoteorderqty": "it changes what the quantity counts",
    "test": "no order would be placed",
}
# Fields of a request that ccxt fills in and that a parameter of the same name may set instead.
MAY_OVERWRITE = frozenset(
    {
        "closeposition",
        "force",
        "isisolated",
        "marginmode",
        "neworderresptype",
        "offset",
        "opentype",
        "positionidx",
        "positionside",
        "posside",
        "pricetype",
        "reduceonly",
        "selftradepreventionmode",
        "stopworkingtype",
        "tdmode",
        "timeinforce",
        "tpslmode",
        "tradeside",
        "triggerby",
        "triggerdirection",
        "triggersignal",
        "triggertype",
        "workingtype",
    }
)
assert UNIFIED.keys() <= TERMS.keys()
