"""The labelled errors: hand-written templates (TOML, two halves) filled in with seeded, varied values.
It knows nothing of the code that is judged on it.
"""

import random
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Final, Literal

Half = Literal["dev", "heldout"]

MEMBERS: Final = 6
_HOSTS: Final = (
    "api.alpaca.markets",
    "paper-api.alpaca.markets",
    "api2.binance.com",
    "external-api.kalshi.com",
    "clob.polymarket.com",
    "gw-3.internal",
)
_EQUITIES: Final = ("AAPL", "TSLA", "F", "BRK.B", "GOOGL", "SPY", "T")
_PAIRS: Final = ("BTC/USDT", "ETH/USDC", "SOL/USDT:USDT", "DOGE/EUR", "ETH/BTC", "XRP/USD")
_WORDS: Final = ("momentum", "mean_reversion", "carry", "basis", "alpha", "desk")


@dataclass(frozen=True, slots=True)
class Labelled:
    half: Half
    group: str
    source: str
    category: str
    reach: str
    error: str
    masks: tuple[str, ...]


def _hex(rng: random.Random, length: int) -> str:
    return "".join(rng.choice("0123456789abcdef") for _ in range(length))


def _uuid(rng: random.Random) -> str:
    return "-".join(_hex(rng, size) for size in (8, 4, 4, 4, 12))


def _decimal(rng: random.Random) -> str:
    return rng.choice(
        [
            f"{rng.uniform(0.01, 99999):.2f}",
            f"{rng.uniform(0.0001, 1):.8f}",
            str(rng.randint(1, 5000)),
            f"{rng.randint(1, 900)}.0",
        ]
    )


def _moment(rng: random.Random) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randint(0, 25_000_000))


def _market(kind: str, rng: random.Random) -> str:
    match kind:
        case "ccxt":
            return rng.choice(_PAIRS)
        case "kalshi":
            return f"KXBTC-26NOV{rng.randint(10, 30)}-T{rng.randint(50, 150)}000"
        case "token":
            return str(rng.randint(10**75, 10**77))
        case _:
            return rng.choice(_EQUITIES)


def _client_id(rng: random.Random) -> str:
    return rng.choice([_uuid(rng), _hex(rng, 32), f"mm-{rng.randint(1, 99999)}", f"x-TKT{_hex(rng, 10)}"])


_FIELDS: Final[dict[str, Callable[[random.Random], str]]] = {
    "uuid": _uuid,
    "hex16": lambda rng: _hex(rng, 16),
    "hex32": lambda rng: _hex(rng, 32),
    "hexb": lambda rng: rng.choice(["ff", "80", "9c", "e2"]),
    "hash": lambda rng: "0x" + _hex(rng, 64),
    "wallet": lambda rng: "0x" + _hex(rng, 40),
    "addr": lambda rng: "0x7f" + _hex(rng, 10),
    "n": lambda rng: str(rng.randint(2, 96)),
    "big": lambda rng: str(rng.randint(100_000, 9_999_999_999)),
    "px": _decimal,
    "qty": _decimal,
    "usd": lambda rng: f"{rng.uniform(1, 900_000):.2f}",
    "iso": lambda rng: _moment(rng).isoformat(timespec=rng.choice(["seconds", "milliseconds"])),
    "date": lambda rng: f"{_moment(rng):%Y-%m-%d}",
    "rfc": lambda rng: f"{_moment(rng):%a, %d %b %Y %H:%M:%S GMT}",
    "ms": lambda rng: str(rng.randint(1_760_000_000_000, 1_790_000_000_000)),
    "us": lambda rng: str(rng.randint(1_760_000_000_000_000, 1_790_000_000_000_000)),
    "ms3": lambda rng: str(rng.randint(600, 30_000)),
    "ip": lambda rng: ".".join(str(rng.randint(1, 254)) for _ in range(4)),
    "port": lambda rng: str(rng.randint(1024, 65535)),
    "line": lambda rng: str(rng.randint(10, 4000)),
    "host": lambda rng: rng.choice(_HOSTS),
    "url": lambda rng: f"https://{rng.choice(_HOSTS)}/v{rng.randint(1, 3)}/orders/{_hex(rng, 12)}",
    "email": lambda rng: f"{rng.choice(_WORDS)}.{rng.randint(1, 9)}@example.com",
    "word": lambda rng: rng.choice(_WORDS),
}


@cache
def _groups(half: Half) -> tuple[dict[str, object], ...]:
    text = (Path(__file__).parent / f"errors_{half}.toml").read_text("utf-8")
    return tuple(tomllib.loads(text)["group"])


def _member(half: Half, group: dict[str, object], index: int) -> Labelled:
    rng = random.Random(f"{group['name']}:{index}")
    market = _market(str(group.get("market", "")), rng)
    fixed = {
        "sym": market,
        "raw": market.split(":")[0].replace("/", ""),
        "quote": market.split(":")[0].split("/")[-1],
        "acct": rng.choice([f"DU{rng.randint(10**5, 10**7)}", "main", f"acct-{rng.randint(1, 40)}", "prop_east"]),
        "coid": _client_id(rng),
        "oid": rng.choice([_uuid(rng), str(rng.randint(10**6, 10**12))]),
    }
    templates = group["templates"]
    assert isinstance(templates, list)

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        return fixed[name] if name in fixed else _FIELDS[name](rng)

    return Labelled(
        half=half,
        group=str(group["name"]),
        source=str(group["source"]),
        category=str(group["category"]),
        reach=str(group["reach"]),
        error=re.sub(r"~(\w+)~", fill, templates[index % len(templates)]),
        masks=(fixed["acct"], market, fixed["coid"], fixed["oid"]),
    )


def labelled(half: Half) -> tuple[Labelled, ...]:
    return tuple(_member(half, group, index) for group in _groups(half) for index in range(MEMBERS))
