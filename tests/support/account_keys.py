"""Keys of many accounts, and a witness who knows whose key, secret or signature each request carried.

An owner is `venue|account|mode`: each has a set of credentials of its own, made from that name alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from functools import cache
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from eth_account import Account

from tests.support.venue.polymarket import signed_order
from venues import Mode
from venues.practice.accounts import digits, letters
from venues.practice.alpaca import account_number
from venues.practice.signer import action_signer
from venues.practice.wire import WireRequest

STRANGER = "a key of nobody"
_CHAINS: dict[Mode, str] = {"paper": "b", "live": "a"}


class Owner(NamedTuple):
    """Whose credentials: an account's at a venue (None: the venue's own) in one mode. `turn` counts renewed keys."""

    kind: str
    venue: str
    account: str | None
    mode: Mode
    turn: int = 0

    def __str__(self) -> str:
        renewed = f"#{self.turn}" if self.turn else ""
        return f"{self.venue}|{self.account or ''}|{self.mode}{renewed}"


@cache
def keys_of(owner: Owner) -> dict[str, str]:
    """This owner's credentials, by field."""
    seed = hashlib.sha256(repr(owner).encode()).digest()
    word = seed.hex()
    match owner.kind:
        case "alpaca":
            return {"api_key": ("PK" if owner.mode == "paper" else "AK") + word[:18].upper(), "secret_key": word[18:58]}
        case "kalshi":
            return {"api_key_id": word[:32], "private_key": _pem(seed)}
        case "ccxt:binance":
            return {"apiKey": word[:40], "secret": word[20:60]}
        case "hyperliquid":
            return {"private_key": f"0x{word}", "account_address": Account.from_key(seed).address}
        case "polymarket":
            secret = base64.urlsafe_b64encode(seed).decode()
            return {
                "private_key": f"0x{word}",
                "wallet": Account.from_key(seed).address,
                "api_key": word[:32],
                "api_secret": secret,
                "api_passphrase": word[32:],
            }
        case kind:
            raise ValueError(f"{kind} has no keys")


def _pem(seed: bytes) -> str:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


def account_at(owner: Owner) -> str:
    """The practice exchange's name of this owner's account."""
    keys = keys_of(owner)
    match owner.kind:
        case "alpaca":
            return account_number(keys["api_key"])
        case "kalshi":
            return f"member-{letters(keys['api_key_id'], 10)}"
        case "ccxt:binance":
            return digits(keys["apiKey"], 9)
        case "hyperliquid":
            return keys["account_address"].lower()
        case _:
            return letters(keys["api_key"], 10)


class Witness:
    """Knows every owner's keys, and names the owners of what a request carries; of an unknown key, nobody."""

    def __init__(self) -> None:
        self._by_value: dict[str, Owner] = {}

    def meet(self, owner: Owner) -> dict[str, str]:
        keys = keys_of(owner)
        self._by_value |= {value.lower(): owner for value in keys.values()}
        return keys

    def owners(self, request: WireRequest) -> frozenset[str]:
        """Whose key, secret, address and signature it carries; empty where it carries none."""
        headers = request.headers
        if "apca-api-key-id" in headers:
            return frozenset(self._named(headers[name]) for name in ("apca-api-key-id", "apca-api-secret-key"))
        if "kalshi-access-key" in headers:
            return self._proven(headers["kalshi-access-key"], lambda owner: _kalshi_signed(owner, request))
        if "x-mbx-apikey" in headers:
            return self._proven(headers["x-mbx-apikey"], lambda owner: _binance_signed(owner, request))
        if "poly_api_key" in headers:
            told = frozenset(self._named(headers[name]) for name in ("poly_api_key", "poly_passphrase", "poly_address"))
            proven = self._proven(headers["poly_api_key"], lambda owner: _polymarket_signed(owner, request))
            return told | proven | self._maker(request)
        return self._wallet(request)

    def _named(self, value: str) -> str:
        owner = self._by_value.get(value.lower())
        return str(owner) if owner else STRANGER

    def _proven(self, key: str, signed: object) -> frozenset[str]:
        owner = self._by_value.get(key.lower())
        assert callable(signed)
        return frozenset({str(owner) if owner is not None and signed(owner) else STRANGER})

    def _maker(self, request: WireRequest) -> frozenset[str]:
        body = request.object() or {}
        order = body.get("order")
        if not isinstance(order, dict):
            return frozenset()
        return frozenset({self._named(signed_order(order, neg_risk=False)[1]), self._named(str(body.get("owner")))})

    def _wallet(self, request: WireRequest) -> frozenset[str]:
        body = request.object() or {}
        if request.parts == ("info",) and isinstance(user := body.get("user"), str):
            return frozenset({self._named(user)})
        if request.parts != ("exchange",):
            return frozenset()
        for mode, chain in _CHAINS.items():
            owner = self._by_value.get(_signer(body, chain).lower())
            if owner is not None and owner.mode == mode:
                return frozenset({str(owner)})
        return frozenset({STRANGER})


def _kalshi_signed(owner: Owner, request: WireRequest) -> bool:
    pem = keys_of(owner)["private_key"].encode()
    key = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(key, Ed25519PrivateKey)
    stamp, signature = (request.headers[f"kalshi-access-{name}"] for name in ("timestamp", "signature"))
    try:
        key.public_key().verify(base64.b64decode(signature), f"{stamp}{request.method}{request.path}".encode())
    except InvalidSignature:
        return False
    return True


def _binance_signed(owner: Owner, request: WireRequest) -> bool:
    text = request.query if "signature=" in request.query else request.text
    message, _, signature = text.rpartition("&signature=")
    if not signature:
        return True  # a key without a signature: a public question
    return hmac.new(keys_of(owner)["secret"].encode(), message.encode(), hashlib.sha256).hexdigest() == signature


def _polymarket_signed(owner: Owner, request: WireRequest) -> bool:
    headers = request.headers
    message = headers["poly_timestamp"] + request.method + request.path + request.text
    key = base64.urlsafe_b64decode(keys_of(owner)["api_secret"])
    right = base64.urlsafe_b64encode(hmac.new(key, message.encode(), hashlib.sha256).digest()).decode()
    return headers["poly_signature"] == right


def _signer(body: dict[str, object], chain: str) -> str:
    signature, nonce, expires = body.get("signature"), body.get("nonce"), body.get("expiresAfter")
    if not isinstance(signature, dict) or not isinstance(nonce, int):
        return STRANGER
    until = expires if isinstance(expires, int) else None
    return action_signer(body["action"], signature, nonce=nonce, vault=None, expires=until, source=chain)
