"""ccxt exchanges without a network: made-up credentials that each can sign with, and one made-up market."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from venues import Credentials, Mode, OrderAction, Route, connect
from venues.ccxt.client import CcxtClient
from venues.ccxt.table import row

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
VALUES = {
    "apiKey": "CANARYKEY0123",
    "secret": base64.b64encode(b"CANARYSECRET-0123456789-abcdefgh").decode(),
    "password": "CANARYPASS99",
    "uid": "12345",
    "login": "CANARYLOGIN",
    "accountId": "77",
    "privateKey": "0x" + "11" * 32,
    "walletAddress": "0x" + "22" * 20,
}


def base58(data: bytes) -> str:
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    return text


PEM = (
    Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode()
)
SPECIAL = {
    ("gemini", "apiKey"): "account-CANARYKEY0123",
    ("lbank", "secret"): "CANARYSECRET0123456789ABCDEFGHIJ",
    ("modetrade", "secret"): "ed25519:" + base58(bytes(range(1, 33))),
    ("woofipro", "secret"): "ed25519:" + base58(bytes(range(1, 33))),
    ("pacifica", "privateKey"): base58(bytes(range(1, 65))),
    ("revolutx", "privateKey"): PEM,
}
SPOT_TYPES = ("LIMIT", "MARKET", "LIMIT_MAKER", "STOP_LOSS", "STOP_LOSS_LIMIT", "TAKE_PROFIT", "TAKE_PROFIT_LIMIT")
ORDER_TYPES = [*SPOT_TYPES, "STOP", "STOP_MARKET", "TAKE_PROFIT_MARKET", "TRAILING_STOP_MARKET"]
# What ccxt would ask some exchanges about the account before its first order.
ASKED_BEFORE = {
    "enableUnifiedMargin": False,
    "enableUnifiedAccount": True,
    "unifiedMarginStatus": 6,
    "unifiedAccount": False,
    "uta": False,
}
# Where spot and the perpetual have two names.
IDS = dict.fromkeys(("okx", "okxus", "myokx"), ("BTC-USDT", "BTC-USDT-SWAP"))
# Most count precision in ticks; these in decimals.
PRECISION = {"bitfinex": {"amount": 8, "price": 5}, "bithumb": {"amount": 5, "price": 2}}


def secrets_of(exchange_id: str) -> dict[str, str]:
    fields = row(f"ccxt:{exchange_id}").fields
    return {field: SPECIAL.get((exchange_id, field), VALUES[field]) for field in fields}


def market(exchange_id: str, *, spot: bool) -> dict[str, Any]:
    limits = {"min": None, "max": None}
    return {
        "id": IDS.get(exchange_id, ("BTCUSDT", "BTCUSDT"))[not spot],
        "lowercaseId": "btcusdt",
        "uppercaseId": "BTCUSDT",
        "numericId": 1,
        "symbol": "BTC/USDT" if spot else "BTC/USDT:USDT",
        "base": "BTC",
        "quote": "USDT",
        "baseId": "1",
        "quoteId": "USDT",
        "settle": None if spot else "USDT",
        "settleId": None if spot else "USDT",
        "type": "spot" if spot else "swap",
        "spot": spot,
        "margin": False,
        "swap": not spot,
        "future": False,
        "option": False,
        "active": True,
        "contract": not spot,
        "linear": None if spot else True,
        "inverse": None if spot else False,
        "contractSize": None if spot else 1.0,
        "taker": 0.001,
        "maker": 0.001,
        "precision": PRECISION.get(exchange_id, {"amount": 0.00001, "price": 0.01}),
        "limits": dict.fromkeys(("amount", "price", "cost", "leverage"), limits),
        "info": {"orderTypes": ORDER_TYPES, "orderType": ORDER_TYPES},
    }


async def offline(
    exchange_id: str, mode: Mode, *, spot: bool = True, options: Mapping[str, object] | None = None
) -> CcxtClient:
    """Built as `open` builds it, but with a market of ours instead of the exchange's."""
    route = Route(timeout=1.0, options=options or {})
    client = connect(f"ccxt:{exchange_id}", mode, Credentials(secrets_of(exchange_id)), route)
    assert isinstance(client, CcxtClient)
    exchange = await client.build()
    exchange.set_markets([market(exchange_id, spot=spot)])

    async def loaded(*_: object, **__: object) -> object:
        return exchange.markets

    exchange.load_markets = loaded
    return client


def action(**changes: object) -> OrderAction:
    fields: dict[str, object] = {
        "verb": "new",
        "market_id": "BTC/USDT",
        "side": "buy",
        "quantity": Decimal("0.5"),
        "order_type": "limit",
        "price": Decimal("50000"),
        "order_key": "k",
    }
    return OrderAction(**{**fields, **changes})  # type: ignore[arg-type]  # the fields above, by name
