"""Every exchange of ccxt 4.5.90 as data: the profile and the credential fields, without importing ccxt.

Also how each can be asked for a client order id, and what "not found" is worth there. Tests compare all of it with
the installed ccxt. Must not know an exchange object.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal
from uuid import UUID

from venues.ccxt.words import SENDS
from venues.client import Dedup, Profile, Reach, UnknownVenue

PREFIX = "ccxt:"

# Columns: id, abilities, requests per minute, required credentials. Abilities are: P has a sandbox, C create takes
# a client order id, L fetch_order takes one, I the order id is the client's, R edits an order in one request,
# X cancels, A ccxt asks about the account before its first order.
TABLE = """
alpaca PCRX 180 apiKey secret
apex PCLXA 1200 apiKey secret password
aster CLX 180 privateKey
backpack CX 1200 apiKey secret
bequant PCIRX 1200 apiKey secret
bigone CX 1200 apiKey secret
binance PCLRX 1200 apiKey secret
binancecoinm PCLRX 1200 apiKey secret
binanceus PCLRX 1200 apiKey secret
binanceusdm PCLRX 1200 apiKey secret
bingx PCRX 600 apiKey secret
bit2c X 20 apiKey secret
bitbank X 600 apiKey secret
bitbns X 60 apiKey secret
bitfinex CRX 240 apiKey secret
bitflyer X 60 apiKey secret
bitget PCLRXA 1200 apiKey secret password
bithumb CLX 1200 apiKey secret
bitopro X 600 apiKey secret
bitrue CLX 1200 apiKey secret
bitso PX 30 apiKey secret
bitstamp CLRX 800 apiKey secret
bitteam X 1200 apiKey secret
bittrade CXA 600 apiKey secret
bitvavo CRX 1000 apiKey secret
blockchaincom PCX 120 secret
blofin PCX 300 apiKey secret password
btcbox X 60 apiKey secret
btcmarkets CX 60 apiKey secret
btcturk CX 600 apiKey secret
btse PCRX 1200 apiKey secret
bullish PCRXA 1200 apiKey secret
bybit PCRXA 1200 apiKey secret
bybiteu PCRXA 1200 apiKey secret
bybitid PCRXA 1200 apiKey secret
bydfi CR 1200 apiKey secret
cex CX 200 apiKey secret
coinbase CRX 1200 apiKey secret
coinbaseexchange PCLX 600 apiKey secret password
coinbaseinternational CRXA 600 apiKey secret
coincheck X 40 apiKey secret
coinmate X 100 apiKey secret uid
coinone X 1200 apiKey secret
coinsph CLX 1200 apiKey secret
coinspot X 60 apiKey secret
cryptocom PCRX 1200 apiKey secret
cryptomus CX 600 secret uid
deepcoin CRX 300 apiKey secret password
delta PCLRX 200 apiKey secret
deribit PCRX 1200 apiKey secret
derive PCRX 1200 privateKey walletAddress
digifinex X 66 apiKey secret
dydx PCX 600
extended PCLRXA 100 apiKey privateKey
fmfwio PCIRX 1200 apiKey secret
foxbit CRX 1200 apiKey secret
gate PCRXA 1200 apiKey secret
gateeu PCRXA 1200 apiKey secret
gemini PCX 600 apiKey secret
grvt PCLXA 1200 privateKey
hashkey PCLX 600 apiKey secret
hibachi RX 600 apiKey accountId privateKey
hitbtc PCIRX 1200 apiKey secret
hollaex PX 240 apiKey secret
htx CLXA 600 apiKey secret
hyperliquid PCLRX 1200 privateKey walletAddress
independentreserve X 60 apiKey secret
indodax X 1200 apiKey secret
kraken CRX 60 apiKey secret
krakenfutures PCRX 100 apiKey secret
kucoin CLRXA 1200 apiKey secret password
kucoinfutures CLXA 1200 apiKey secret password
latoken CX 60 apiKey secret
lbank CX 1200 apiKey secret
lighter PCRXA 60 privateKey
luno X 300 apiKey secret
mercado X 60 apiKey secret
mexc CLX 1200 apiKey secret
modetrade PCLRX 600 apiKey secret accountId
mudrex RX 600 secret
myokx PCLRX 545 apiKey secret password
nado PRX 1200 privateKey walletAddress
ndax PCRXA 60 apiKey secret uid login password
okx PCLRX 545 apiKey secret password
okxus PCLRX 545 apiKey secret password
onetrading CX 200 apiKey
p2b X 600 apiKey secret
pacifica PCRX 100 privateKey
paradex PCLRXA 1200 privateKey walletAddress
paymium X 30 apiKey secret
phemex PCLRX 497 apiKey secret
poloniex PCRX 1200 apiKey secret
polymarket CRX 1000 privateKey
revolutx CRX 60 apiKey privateKey
tokocrypto CX 30 apiKey secret
toobit CX 1200 apiKey secret
upbit CRX 1200 apiKey secret
weex PCLX 1200 apiKey secret password
whitebit CRX 1200 apiKey secret
woo PCLRX 600 apiKey secret
woofipro PCLRX 600 apiKey secret accountId
xt RX 600 apiKey secret
zaif X 600 apiKey secret
zebpay PCX 1200 apiKey secret
"""

# (header, value) or (path,) that proves paper if the sandbox is on the live host.
PROOFS: dict[str, tuple[str, ...]] = {
    "okx": ("x-simulated-trading", "1"),
    "okxus": ("x-simulated-trading", "1"),
    "myokx": ("x-simulated-trading", "1"),
    "bitget": ("PAPTRADING", "1"),
    "weex": ("/capi/v3/sim/",),
}

# Exchanges that need the client order id under their own name; otherwise ccxt makes one up.
ID_PARAMS = {"coinbase": "client_order_id", "cryptocom": "client_oid", "deribit": "label"}

# Exchanges where an edit makes a new order with a new client order id; elsewhere the order keeps its id.
RENAMED_BY_EDIT = frozenset(("alpaca", "binance", "binanceus"))

# Seconds after which the exchange refuses a signed request: the recvWindow that ccxt sends.
_WINDOWS = {
    **dict.fromkeys(("binance", "binanceus", "binanceusdm", "binancecoinm"), 10.0),
    **dict.fromkeys(("bybit", "bybiteu", "bybitid", "mexc"), 5.0),
}
_DEDUP: dict[str, Dedup] = dict.fromkeys(("binance", "binanceus", "binanceusdm", "binancecoinm", "kraken"), "open")
_IDS = {
    **dict.fromkeys(("okx", "okxus", "myokx"), r"[0-9A-Za-z]{1,32}"),
    "hyperliquid": r"0x[0-9a-f]{32}",
    "kraken": r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\x21-\x7e]{1,18}",
    # ccxt puts `t-` before an id, unless it begins with a t.
    **dict.fromkeys(("gate", "gateeu"), r"(?!t)[0-9A-Za-z_.-]{1,28}|t-[0-9A-Za-z_.-]{1,26}"),
    "mexc": r"[0-9A-Za-z_-]{1,32}",
    "bitvavo": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "deribit": r"[0-9A-Za-z_.-]{1,64}",
    "gemini": r"[0-9A-Za-z_.:#-]{1,100}",
    "whitebit": r"[0-9A-Za-z_.-]{1,36}",
}
_UUIDS = frozenset(("bitvavo",))

Shape = Literal["one", "list", "some", "by id", "by market"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question about a client order id: the call of ccxt that asks it, and where the answer holds the orders."""

    method: str  # `fetch_…` of ccxt's unified API, else the method that ccxt names after the endpoint
    named: str  # the parameter that carries the id
    shape: Shape  # how the orders stand in the answer; "some": one of them, or a list
    within: tuple[str, ...] = ()  # the keys under which they stand
    market: str = ""  # the parameter that carries the market, where the method is an endpoint's
    currency: str = ""  # likewise the currency that the market settles in
    only: str = ""  # spot, linear or inverse: the markets that the question is for
    status: str = ""  # the status of the orders, where the answer leaves it out
    gone: str = ""  # the exchange's own words for "not found", if it answers with an error
    also: tuple[tuple[str, object], ...] = ()  # parameters beside the id


@dataclass(frozen=True, slots=True)
class Way:
    """How an exchange is asked for a client order id. All its questions together cover every state of an order."""

    asks: tuple[Ask, ...]
    reach: Reach = "all"
    unproven: str = ""  # why "not found" proves nothing; empty: it is the exchange's full answer
    echo: str = ""  # the field of an order that holds the id, where ccxt does not read it
    prefix: str = ""  # what ccxt puts before the id
    folds: bool = False  # the exchange writes the id in lower case


_BYBIT = Way(
    (
        Ask("fetch_open_orders", "orderLinkId", "list", ("result", "list")),
        # Just closed: the history gets them late.
        Ask("fetch_open_orders", "orderLinkId", "list", ("result", "list"), also=(("openOnly", 1),)),
        Ask("fetch_canceled_and_closed_orders", "orderLinkId", "list", ("result", "list")),
    ),
    reach="day",  # its history keeps cancelled and rejected orders for 24 hours
)
_GATE = Way(
    (Ask("fetch_order", "clientOrderId", "one", gone="ORDER_NOT_FOUND|CLIENT_ID_NOT_FOUND"),),
    unproven="gate finds an order by its client order id only while it is open, or just finished",
    prefix="t-",
)
WAYS: dict[str, Way] = {
    "bingx": Way(
        (
            Ask("spotV1PrivateGetTradeQuery", "clientOrderID", "one", ("data",), "symbol", only="spot"),
            Ask("swapV2PrivateGetTradeOrder", "clientOrderId", "one", ("data", "order"), "symbol", only="linear"),
            Ask(
                "cswapV1PrivateGetTradeOrderDetail", "clientOrderId", "one", ("data", "order"), "symbol", only="inverse"
            ),
        ),
        unproven="bingx finds a spot order by its client order id for 2 hours only",
        folds=True,
    ),
    "bitvavo": Way(
        (Ask("fetch_order", "clientOrderId", "one", gone=r'"errorCode"\s*:\s*240\b'),), echo="clientOrderId"
    ),
    **dict.fromkeys(("bybit", "bybiteu", "bybitid"), _BYBIT),
    "cryptocom": Way(
        (Ask("v1PrivatePostPrivateGetOrderDetail", "client_oid", "one", ("result",), gone=r'"code"\s*:\s*"?40401\b'),),
        reach="day",
    ),
    "deribit": Way(
        (Ask("privateGetGetOrderStateByLabel", "label", "list", ("result",), currency="currency"),),
        unproven="deribit finds an order by its label for 30 minutes after it is closed",
        echo="label",
    ),
    **dict.fromkeys(("gate", "gateeu"), _GATE),
    "gemini": Way(
        (Ask("privatePostV1OrderStatus", "client_order_id", "some"),),
        unproven="gemini does not say how long it finds an order by its client order id",
    ),
    "kraken": Way(
        (
            Ask("fetch_open_orders", "clientOrderId", "by id", ("result", "open")),
            Ask("fetch_closed_orders", "clientOrderId", "by id", ("result", "closed")),
        )
    ),
    "upbit": Way((Ask("privateGetOrder", "identifier", "one", gone="order_not_found"),), reach="day"),
    "whitebit": Way(
        (
            Ask(
                "v4PrivatePostOrders",
                "clientOrderId",
                "list",
                market="market",
                status="open",
                gone="Unexecuted order was not found",
            ),
            Ask(
                "v4PrivatePostTradeAccountOrderHistory",
                "clientOrderId",
                "by market",
                market="market",
                gone=r"order id \S+ not found",
            ),
        ),
        reach="day",
    ),
}

# They find an order by its client order id only while it is active: "not found" may be an order that has filled.
_ACTIVE_ONLY = frozenset(("kucoin", "kucoinfutures"))

# ccxt's errors that mean a definite refusal, if the exchange's own answer caused them.
DEFINITIVE = frozenset(
    {
        "AccountNotEnabled",
        "AccountSuspended",
        "ArgumentsRequired",
        "AuthenticationError",
        "BadRequest",
        "BadSymbol",
        "ContractUnavailable",
        "InsufficientFunds",
        "InvalidOrder",
        "ManualInteractionNeeded",
        "MarketClosed",
        "OperationRejected",
        "OrderImmediatelyFillable",
        "OrderNotFillable",
        "PermissionDenied",
        "RestrictedLocation",
    }
)


@dataclass(frozen=True, slots=True)
class Row:
    exchange_id: str
    has: str
    rate_per_minute: int
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UuidProfile(Profile):
    """The profile of an exchange whose client order ids are UUIDs."""

    def make_id(self, hex32: str) -> str:
        return str(UUID(hex=hex32))


@cache
def rows() -> dict[str, Row]:
    found = {}
    for line in TABLE.strip().splitlines():
        exchange_id, has, rate, *fields = line.split()
        found[exchange_id] = Row(exchange_id, has, int(rate), tuple(fields))
    return found


def row(name: str) -> Row:
    found = rows().get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
    if found is None:
        raise UnknownVenue(f"{name[:40]!a}: ccxt has no such exchange")
    return found


def profile(name: str) -> Profile:
    this = row(name)
    known = this.exchange_id
    way = WAYS.get(known)
    made = UuidProfile if known in _UUIDS else Profile
    return made(
        name=name,
        dedup=_DEDUP.get(known, "none"),
        arrival_bound=_WINDOWS.get(known),
        visibility=60.0,
        definitive=frozenset((status, word) for status in (200, 400, 401, 403, 404, 422) for word in DEFINITIVE),
        rate_per_minute=this.rate_per_minute,
        paper="P" in this.has,
        lookup=(way is not None and not way.unproven) or (bool({"L", "I"} & {*this.has}) and known not in _ACTIVE_ONLY),
        replace="R" in this.has,
        cancel="X" in this.has,
        default_tif="gtc",
        tifs=frozenset(("gtc", "ioc", "fok", "po")),
        id_pattern=_IDS.get(known, r"[0-9A-Za-z_-]{1,36}"),
        id_prefix="0x" if known == "hyperliquid" else "",
        id_digits=28 if known in ("gate", "gateeu") else 32,
        # Most exchanges forget cancelled orders after some days and do not say when.
        reach=way.reach if way is not None else "day",
        sends=SENDS,
    )
