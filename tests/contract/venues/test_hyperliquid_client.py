"""The hyperliquid client on the wire: what is signed and for which chain, and which digits are taken."""

from __future__ import annotations

import json
import sys
from decimal import Decimal

import msgpack
import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak

from tests.support.venue.hyperliquid import ADDRESS, CLOID, action, client, prepared, status
from tests.support.venue.rigs_sdk import HEX_KEY, HYPERLIQUID_SECRETS
from venues import (
    Accepted,
    BadCredentials,
    Credentials,
    MissingExtra,
    Mode,
    NotSent,
    Prepared,
    Refused,
    Route,
    WrongMode,
    connect,
    credential_fields,
    venue_profile,
)
from venues.hyperliquid import client as hyperliquid


def signer_of(payload: dict[str, object], source: str) -> str:
    """Who signed this, by the venue's documented scheme, without its SDK."""
    nonce, expires = payload["nonce"], payload["expiresAfter"]
    assert isinstance(nonce, int)
    assert isinstance(expires, int)
    packed = (
        msgpack.packb(payload["action"]) + nonce.to_bytes(8, "big") + b"\x00" + b"\x00" + expires.to_bytes(8, "big")
    )
    domain = {"chainId": 1337, "name": "Exchange", "verifyingContract": "0x" + "0" * 40, "version": "1"}
    types = {"Agent": [{"name": "source", "type": "string"}, {"name": "connectionId", "type": "bytes32"}]}
    message = encode_typed_data(
        domain_data=domain, message_types=types, message_data={"source": source, "connectionId": keccak(packed)}
    )
    signature = payload["signature"]
    assert isinstance(signature, dict)
    rsv = tuple(int(signature[name], 16) if name != "v" else signature[name] for name in ("v", "r", "s"))
    return str(Account.recover_message(message, vrs=rsv))


async def test_the_request_is_as_documented_and_goes_out_as_it_was_stored() -> None:
    async with client(status(resting={"oid": 77738308})) as (made, server):
        ready = prepared(made)
        assert await made.submit(ready) == Accepted("77738308", "open")
        (request,) = server.requests
        assert (request.method, request.target) == ("POST", "/exchange")
        assert request.headers["content-type"] == "application/json"
        assert request.body == ready.body
        payload = json.loads(ready.body)
        assert payload["action"] == {
            "type": "order",
            "orders": [
                {
                    "a": 1,
                    "b": True,
                    "p": "1100",
                    "s": "0.2",
                    "r": False,
                    "t": {"limit": {"tif": "Gtc"}},
                    "c": CLOID,
                }
            ],
            "grouping": "na",
        }
        assert payload["vaultAddress"] is None
        assert payload["expiresAfter"] - payload["nonce"] == hyperliquid.EXPIRES * 1000
        assert venue_profile("hyperliquid").arrival_bound == hyperliquid.EXPIRES


@pytest.mark.parametrize(("mode", "source", "other"), [("paper", "b", "a"), ("live", "a", "b")])
async def test_the_signature_is_for_the_mode_s_chain_only(mode: Mode, source: str, other: str) -> None:
    async with client(mode=mode) as (made, _):
        for changes in ({}, {"verb": "replace", "venue_order_id": "5"}, {"verb": "cancel", "venue_order_id": "5"}):
            payload = json.loads(prepared(made, **changes).body)
            assert signer_of(payload, source) == ADDRESS
            assert signer_of(payload, other) != ADDRESS


async def test_the_signature_equals_the_sdk_s_own() -> None:
    from hyperliquid.utils.signing import sign_l1_action

    async with client() as (made, _):
        payload = json.loads(prepared(made).body)
        own = sign_l1_action(
            Account.from_key(HEX_KEY), payload["action"], None, payload["nonce"], payload["expiresAfter"], False
        )
        assert payload["signature"] == own


async def test_a_nonce_never_comes_twice() -> None:
    async with client() as (made, _):
        nonces = [json.loads(prepared(made).body)["nonce"] for _ in range(50)]
        assert nonces == sorted(set(nonces))


async def test_what_expired_before_it_was_sent_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with client(status(resting={"oid": 1})) as (made, server):
        ready = prepared(made)
        later = json.loads(ready.body)["expiresAfter"] / 1000 + 0.001
        monkeypatch.setattr("venues.hyperliquid.client.time.time", lambda: later)
        outcome = await made.submit(ready)
        assert isinstance(outcome, NotSent)
        assert "prepare it again" in outcome.why
        assert server.requests == []


@pytest.mark.parametrize(
    ("changes", "wire"),
    [
        ({"verb": "replace", "venue_order_id": "42"}, {"type": "batchModify", "oid": 42}),
        ({"verb": "replace", "client_order_id": "0x" + "cd" * 16}, {"type": "batchModify", "oid": "0x" + "cd" * 16}),
        ({"verb": "cancel", "venue_order_id": "42"}, {"type": "cancel", "cancels": [{"a": 1, "o": 42}]}),
        (
            {"verb": "cancel", "client_order_id": "0x" + "cd" * 16},
            {"type": "cancelByCloid", "cancels": [{"asset": 1, "cloid": "0x" + "cd" * 16}]},
        ),
    ],
)
async def test_replace_and_cancel_aim_at_the_order(changes: dict[str, object], wire: dict[str, object]) -> None:
    async with client() as (made, _):
        sent = json.loads(prepared(made, **changes).body)["action"]
        if "oid" in wire:
            (modify,) = sent["modifies"]
            assert (sent["type"], modify["oid"], modify["order"]["c"]) == ("batchModify", wire["oid"], CLOID)
        else:
            assert sent == wire


@pytest.mark.parametrize(
    ("market", "quantity", "price", "wire"),
    [
        ("ETH", "0.2000", "1100.50", ("1100.5", "0.2")),
        ("ETH", "1E+2", "1.1E+3", ("1100", "100")),
        ("ETH", "0.0001", "1234567", ("1234567", "0.0001")),  # whole prices may have more figures
        ("ETH", "1", "12.34", ("12.34", "1")),
        ("PURR/USDC", "7", "0.12345678", None),
        ("PURR/USDC", "7", "0.00012345", ("0.00012345", "7")),
        ("PURR/USDC", "7.5", "0.1", None),
        ("@7", "7.25", "0.123", ("0.123", "7.25")),
        ("ETH", "0.00001", "1100", None),
        ("ETH", "0.2", "1100.55", None),
        ("ETH", "0.2", "0.123", None),
    ],
)
async def test_digits_go_out_as_they_are_or_not_at_all(
    market: str, quantity: str, price: str, wire: tuple[str, str] | None
) -> None:
    async with client() as (made, _):
        ready = made.prepare(action(market_id=market, quantity=Decimal(quantity), price=Decimal(price)), CLOID)
        if wire is None:
            assert isinstance(ready, Refused)
            assert "quantity" in ready.why or "price" in ready.why
        else:
            assert isinstance(ready, Prepared)
            (order,) = json.loads(ready.body)["action"]["orders"]
            assert (order["p"], order["s"]) == wire


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"market_id": "DOGE"}, "no market DOGE"),
        ({"market_id": "TWIN/USDC"}, "no market TWIN/USDC"),  # two pairs have this name
        ({"order_type": "market", "price": None}, "no market orders"),
        ({"time_in_force": "fok"}, "time in force fok"),
        ({"time_in_force": "day"}, "time in force day"),
        ({"side": "yes"}, "side yes"),
        ({"verb": "cancel"}, "the order it aims at"),
        ({"verb": "replace", "venue_order_id": "abc"}, "the order it aims at"),
    ],
)
async def test_what_cannot_be_sent_as_it_is_is_refused(changes: dict[str, object], why: str) -> None:
    async with client() as (made, _):
        refused = made.prepare(action(**changes), CLOID)
        assert isinstance(refused, Refused)
        assert why in refused.why


@pytest.mark.parametrize("cloid", ["", "ab" * 16, "0x" + "AB" * 16, "0x" + "zz" * 16, "0x" + "ab" * 15])
async def test_a_cloid_is_0x_and_32_hex_digits(cloid: str) -> None:
    async with client() as (made, _):
        assert isinstance(made.prepare(action(), cloid), Refused)
    own = venue_profile("hyperliquid")
    assert own.takes_id(own.make_id("0123456789abcdef" * 2))


async def test_the_hosts_are_the_mode_s_and_never_the_other_s() -> None:
    credentials = Credentials(HYPERLIQUID_SECRETS)
    assert connect("hyperliquid", "paper", credentials).host == "api.hyperliquid-testnet.xyz"
    assert connect("hyperliquid", "live", credentials).host == "api.hyperliquid.xyz"
    with pytest.raises(WrongMode):
        connect("hyperliquid", "paper", credentials, Route(endpoint="https://api.hyperliquid.xyz"))


@pytest.mark.parametrize(
    ("field", "value"),
    [("private_key", ""), ("private_key", "0x1234"), ("account_address", "0x12"), ("account_address", "")],
)
def test_bad_credentials_name_the_field_and_not_the_value(field: str, value: str) -> None:
    with pytest.raises(BadCredentials, match=field) as caught:
        connect("hyperliquid", "paper", Credentials({**HYPERLIQUID_SECRETS, field: value}))
    assert not value or value not in str(caught.value)


@pytest.mark.parametrize("digits", ["00", "ff"])
async def test_a_key_that_cannot_sign_is_named_on_opening(digits: str) -> None:
    made = connect("hyperliquid", "paper", Credentials({**HYPERLIQUID_SECRETS, "private_key": "0x" + digits * 32}))
    with pytest.raises(BadCredentials, match="private_key"):
        await made.open()


def test_a_missing_extra_says_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperliquid", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dlq-console\[hyperliquid\]'"):
        connect("hyperliquid", "paper", Credentials(HYPERLIQUID_SECRETS))


def test_its_fields_are_those_of_the_contract() -> None:
    assert credential_fields("hyperliquid") == ("private_key", "account_address")
