"""Raw requests in every wire format of the practice exchange, and a client that sees each byte and how it ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

LIMIT = 20.0  # a hang, not a slow machine
SIGNATURE = {"r": "0x1", "s": "0x2", "v": 27}
JSON_TYPE = {"Content-Type": "application/json"}


class SteppedClock:
    """The exchange's time, moved by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 4, 18, 14, 32, 15, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def step(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class Heard:
    """Everything that came back on one connection, and how it ended."""

    data: bytes
    end: Literal["closed", "reset"]

    @property
    def head(self) -> str:
        return self.data.partition(b"\r\n\r\n")[0].decode("latin-1")

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def status(self) -> int:
        return int(self.head.split(" ")[1])

    @property
    def headers(self) -> dict[str, str]:
        pairs = (line.partition(": ") for line in self.head.split("\r\n")[1:])
        return {name.lower(): value for name, _, value in pairs}

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, not yet bytes."""

    method: str
    target: str
    headers: dict[str, str]
    body: str = ""

    def encode(self, *, close: bool = True) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += [f"Content-Length: {len(self.body.encode())}"] + (["Connection: close"] if close else [])
        return ("\r\n".join(lines) + "\r\n\r\n" + self.body).encode()


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = urlsplit(url).port
    assert port is not None
    return await asyncio.open_connection("127.0.0.1", port)


async def hear(url: str, ask: Ask | bytes) -> Heard:
    """Send once, read to the end."""
    reader, writer = await connect(url)
    data = bytearray()
    end: Literal["closed", "reset"] = "closed"
    try:
        async with asyncio.timeout(LIMIT):
            writer.write(ask if isinstance(ask, bytes) else ask.encode())
            while chunk := await reader.read(65536):
                data += chunk
    except ConnectionResetError:
        end = "reset"
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)
    return Heard(bytes(data), end)


async def until(condition: Callable[[], object]) -> None:
    """Give the loop turns until the condition holds; a hang ends the test."""
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.001)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one venue is asked to place, look up, cancel and say whether it is open; where its answers keep ids."""

    name: str
    symbol: str
    order: Callable[[str, str], Ask]  # client order id, symbol
    lookup: Callable[[str, str], Ask]
    cancel: Callable[[str, str, str], Ask]  # client order id, symbol, venue order id
    probe: Callable[[], Ask]
    client_ids: tuple[str, str]

    def place(self, client_order_id: str = "", symbol: str = "") -> Ask:
        return self.order(client_order_id or self.client_ids[0], symbol or self.symbol)

    def find(self, client_order_id: str = "", symbol: str = "") -> Ask:
        return self.lookup(client_order_id or self.client_ids[0], symbol or self.symbol)


ALPACA_KEYS = {"APCA-API-KEY-ID": "key", "APCA-API-SECRET-KEY": "secret"}
KALSHI_KEYS = {f"KALSHI-ACCESS-{part}": "x" for part in ("KEY", "SIGNATURE", "TIMESTAMP")}


def alpaca_order(client_order_id: str, symbol: str, /, **more: object) -> Ask:
    body = {
        "symbol": symbol,
        "qty": "10",
        "side": "buy",
        "type": "limit",
        "time_in_force": "day",
        "limit_price": "190.10",
        "client_order_id": client_order_id,
    }
    return Ask("POST", "/v2/orders", ALPACA_KEYS | JSON_TYPE, json.dumps(body | more))


def kalshi_order(client_order_id: str, symbol: str, /, **more: object) -> Ask:
    body = {
        "ticker": symbol,
        "client_order_id": client_order_id,
        "side": "bid",
        "count": "10",
        "price": "0.5600",
        "time_in_force": "good_till_canceled",
        "self_trade_prevention_type": "taker_at_cross",
    }
    target = "/trade-api/v2/portfolio/events/orders"
    return Ask("POST", target, KALSHI_KEYS | JSON_TYPE, json.dumps(body | more))


def binance_ask(method: str, path: str, **fields: object) -> Ask:
    form = urlencode(fields | {"timestamp": int(time.time() * 1000), "signature": "ab"})
    if method == "POST":
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return Ask(method, f"/api/v3/{path}", {"X-MBX-APIKEY": "key"} | kind, form)
    return Ask(method, f"/api/v3/{path}?{form}", {"X-MBX-APIKEY": "key"})


def binance_order(client_order_id: str, symbol: str, /, **more: object) -> Ask:
    fields: dict[str, object] = {
        "symbol": symbol,
        "side": "BUY",
        "type": "LIMIT",
        "quantity": "0.1",
        "price": "50000.10",
        "timeInForce": "GTC",
        "newClientOrderId": client_order_id,
    }
    return binance_ask("POST", "order", **(fields | more))


def nonces() -> Iterator[int]:
    start = int(time.time() * 1000)
    while True:
        start += 1
        yield start


_nonces = nonces()


def hyperliquid_action(action: dict[str, object], *, nonce: int | None = None, **more: object) -> Ask:
    body = {
        "action": action,
        "nonce": nonce or next(_nonces),
        "signature": SIGNATURE,
        "vaultAddress": None,
        "expiresAfter": None,
    }
    return Ask("POST", "/exchange", JSON_TYPE, json.dumps(body | more))


def hyperliquid_info(kind: str, **more: object) -> Ask:
    return Ask("POST", "/info", JSON_TYPE, json.dumps({"type": kind, "user": "0x0"} | more))


def hyperliquid_order(client_order_id: str, symbol: str, /, **more: object) -> Ask:
    from venues.practice.hyperliquid import PERPS

    asset = [*PERPS].index(symbol)
    row = {"a": asset, "b": True, "p": "1100", "s": "0.2", "r": False, "t": {"limit": {"tif": "Gtc"}}}
    return hyperliquid_action({"type": "order", "orders": [row | {"c": client_order_id} | more], "grouping": "na"})


ALPACA = Dialect(
    "alpaca",
    "AAPL",
    alpaca_order,
    lambda client, _: Ask("GET", f"/v2/orders:by_client_order_id?client_order_id={client}", ALPACA_KEYS),
    lambda client, symbol, order: Ask("DELETE", f"/v2/orders/{order}", ALPACA_KEYS),
    lambda: Ask("GET", "/v2/clock", ALPACA_KEYS),
    ("dlq-1", "dlq-2"),
)
KALSHI = Dialect(
    "kalshi",
    "KXHIGHNY-26APR18-T70",
    kalshi_order,
    lambda _, symbol: Ask("GET", f"/trade-api/v2/portfolio/orders?ticker={symbol}", KALSHI_KEYS),
    lambda client, symbol, order: Ask("DELETE", f"/trade-api/v2/portfolio/events/orders/{order}", KALSHI_KEYS),
    lambda: Ask("GET", "/trade-api/v2/exchange/status", {}),
    ("dlq-1", "dlq-2"),
)
BINANCE = Dialect(
    "binance",
    "BTCUSDT",
    binance_order,
    lambda client, symbol: binance_ask("GET", "order", symbol=symbol, origClientOrderId=client),
    lambda client, symbol, order: binance_ask("DELETE", "order", symbol=symbol, origClientOrderId=client),
    lambda: Ask("GET", "/api/v3/time", {}),
    ("dlq-1", "dlq-2"),
)
HYPERLIQUID = Dialect(
    "hyperliquid",
    "ETH",
    hyperliquid_order,
    lambda client, _: hyperliquid_info("orderStatus", oid=client),
    lambda client, symbol, order: hyperliquid_action(
        {"type": "cancelByCloid", "cancels": [{"asset": 1, "cloid": client}]}
    ),
    lambda: hyperliquid_info("exchangeStatus"),
    ("0x" + "1" * 32, "0x" + "2" * 32),
)
DIALECTS = (ALPACA, KALSHI, BINANCE, HYPERLIQUID)


def values(payload: object, *keys: str) -> list[object]:
    """Every value under these keys, at any depth."""
    if isinstance(payload, list):
        return [found for item in payload for found in values(item, *keys)]
    if not isinstance(payload, dict):
        return []
    here = [payload[key] for key in keys if key in payload]
    return here + [found for item in payload.values() for found in values(item, *keys)]


def order_ids(payload: object) -> list[str]:
    return [str(found) for found in values(payload, "id", "order_id", "orderId", "oid")]


def client_ids(payload: object) -> list[object]:
    return values(payload, "client_order_id", "clientOrderId", "cloid")
