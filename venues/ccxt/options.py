"""The config's options for a ccxt exchange: which ones are refused, and how the others reach the exchange object.

An option is what ccxt documents under `exchange.options`. Must not let one undo what keeps an order safe: one
request per send, the mode, the address, the keys, the order's terms, and no fee or referral for anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from venues.ccxt.table import Row
from venues.client import VenueError

# Parts of names, in lower case and without separators.
_UNSAFE = (
    ("retr", "an order is sent once"),
    ("broker|partner|refer|affiliat|builder|integrator", "nobody is paid or named by an order"),
    ("sandbox|testnet|demo", "paper or live is said on the command line"),
    ("host|url|endpoint|proxy|proxies", "the address is the config's paper_endpoint or live_endpoint"),
    ("key|secret|passw|token|auth|cookie|credential|pem$", "credentials are kept in the keyring"),
    ("chain|contract", "signatures are made for the exchange's own chain"),
    ("recvwindow|timewindow", "how long a request may arrive is counted on"),
    ("library", "no code is loaded by the config"),
    ("clientorderid|timeinforce|postonly|reduceonly", "the terms of an order are the entry's"),
)
# Names that are short words: ccxt's referral code, and the fee that a builder gets.
_EXACT = {"id": "nobody is paid or named by an order"} | dict.fromkeys(
    ("ref", "refset", "feerate", "feeint"), "nobody is paid or named by an order"
)
# The address of a wallet is public, and ccxt reads it from the exchange object, not from its options.
_WALLET = "walletAddress"


def check(name: str, row: Row, options: Mapping[str, object]) -> None:
    """Raises VenueError that names the first option that is refused."""
    for key in _keys(options):
        if (why := unsafe(key)) is not None:
            raise VenueError(f"{name}: the option {key[:40]!a} is refused: {why}")
        if key == _WALLET and key in row.fields:
            raise VenueError(f"{name}: the option {key} is refused: it is one of the credentials")


def apply(exchange: Any, options: Mapping[str, object]) -> None:
    """Lay the options over the exchange's own; nested ones one by one."""
    if _WALLET in options:
        exchange.walletAddress = options[_WALLET]
    rest = {key: value for key, value in options.items() if key != _WALLET}
    exchange.options = exchange.deep_extend(exchange.options, rest)


def unsafe(key: str) -> str | None:
    plain = re.sub(r"[^0-9a-z]", "", key.lower())
    if plain in _EXACT:
        return _EXACT[plain]
    return next((why for part, why in _UNSAFE if re.search(part, plain)), None)


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _keys(inner)
