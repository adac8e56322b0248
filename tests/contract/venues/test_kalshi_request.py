"""Kalshi's requests on the wire against docs.kalshi.com: to the byte, signatures checked with the public key."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS

from tests.support.http_server import Loopback, Received, reply
from tests.support.venue.kalshi import LISTED, RECEIPT, YES, client_of, prepared_of
from tests.support.venue.rigs_practice import KALSHI_SECRETS
from venues import (
    BadCredentials,
    OrderAction,
    Refused,
    VenueClient,
    Verb,
)
from venues.kalshi.client import KalshiClient
from venues.kalshi.key import Key
from venues.kalshi.request import prepare
from venues.terms import Terms

ROOT = "/trade-api/v2"


def pem(key: Key | ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def keeps_the_contract(client: KalshiClient) -> VenueClient:
    """Checked by the type checker."""
    return client


# (action, method, target, body) as create-order-v2, amend-order-v2 and cancel-order-v2 have them
WIRE: list[tuple[OrderAction, str, str, bytes]] = [
    (
        YES,
        "POST",
        f"{ROOT}/portfolio/events/orders",
        b'{"ticker":"KXBTC-26","client_order_id":"coid-1","side":"bid","count":"10","price":"0.5600",'
        b'"time_in_force":"good_till_canceled","self_trade_prevention_type":"taker_at_cross"}',
    ),
    (
        replace(YES, time_in_force="gtd", terms=Terms(expire_at=datetime.fromtimestamp(2051319845, UTC))),
        "POST",
        f"{ROOT}/portfolio/events/orders",
        b'{"ticker":"KXBTC-26","client_order_id":"coid-1","side":"bid","count":"10","price":"0.5600",'
        b'"time_in_force":"good_till_canceled","expiration_time":2051319845,'
        b'"self_trade_prevention_type":"taker_at_cross"}',
    ),
    (
        replace(YES, terms=Terms(subaccount="3")),
        "POST",
        f"{ROOT}/portfolio/events/orders",
        b'{"ticker":"KXBTC-26","client_order_id":"coid-1","side":"bid","count":"10","price":"0.5600",'
        b'"time_in_force":"good_till_canceled","self_trade_prevention_type":"taker_at_cross","subaccount":3}',
    ),
    (
        replace(YES, verb="replace", venue_order_id="ord-1", time_in_force=None, terms=Terms(subaccount="3")),
        "POST",
        f"{ROOT}/portfolio/events/orders/ord-1/amend?subaccount=3",
        b'{"ticker":"KXBTC-26","side":"bid","count":"10","price":"0.5600","updated_client_order_id":"coid-1"}',
    ),
    (
        replace(YES, verb="cancel", venue_order_id="ord-1", terms=Terms(subaccount="0")),
        "DELETE",
        f"{ROOT}/portfolio/events/orders/ord-1?market_ticker=KXBTC-26&subaccount=0",
        b"",
    ),
    (
        replace(YES, verb="replace", venue_order_id="ord/1"),
        "POST",
        f"{ROOT}/portfolio/events/orders/ord%2F1/amend",
        b'{"ticker":"KXBTC-26","side":"bid","count":"10","price":"0.5600","updated_client_order_id":"coid-1",'
        b'"expiration_time":0}',
    ),
    (
        replace(YES, verb="cancel", venue_order_id="ord-1"),
        "DELETE",
        f"{ROOT}/portfolio/events/orders/ord-1?market_ticker=KXBTC-26",
        b"",
    ),
]


@pytest.mark.parametrize(("action", "method", "target", "body"), WIRE)
async def test_what_goes_out(action: OrderAction, method: str, target: str, body: bytes) -> None:
    prepared = prepared_of(action)
    assert (prepared.method, prepared.path, prepared.body) == (method, target, body)
    async with Loopback(lambda _: reply(201, RECEIPT)) as server:
        client = client_of(server.url)
        await {"new": client.submit, "replace": client.replace, "cancel": client.cancel}[action.verb](prepared)
        await client.aclose()
    (request,) = server.requests
    assert (request.method, request.target, request.body) == (method, target, body)


@pytest.mark.parametrize("number", ["-1", "64", "1.5", "x", "03", "1 ", ""])
@pytest.mark.parametrize("verb", ["new", "replace", "cancel"])
def test_a_subaccount_that_is_none_is_refused(number: str, verb: Verb) -> None:
    refused = prepare(replace(YES, verb=verb, venue_order_id="ord-1", terms=Terms(subaccount=number)), "coid-1")
    assert isinstance(refused, Refused)
    assert "subaccount" in refused.why


def signed_text(request: Received) -> bytes:
    return f"{request.headers['kalshi-access-timestamp']}{request.method}{request.path}".encode()


async def every_request(private_key: str) -> list[Received]:
    listing = {"orders": [], "cursor": "", "order": LISTED, **RECEIPT}
    async with Loopback(lambda _: reply(200, listing)) as server:
        client = client_of(server.url, private_key)
        await client.submit(prepared_of(YES))
        await client.replace(prepared_of(replace(YES, verb="replace", venue_order_id="ord/1")))
        await client.cancel(prepared_of(replace(YES, verb="cancel", venue_order_id="ord/1")))
        await client.lookup(prepared_of(YES))
        await client.lookup(prepared_of(replace(YES, verb="cancel", venue_order_id="ord/1")))
        await client.probe()
        await client.aclose()
    assert len(server.requests) == 8
    return server.requests


async def test_every_rsa_signature_verifies(rsa_key: rsa.RSAPrivateKey) -> None:
    for request in await every_request(pem(rsa_key)):
        assert request.headers["kalshi-access-key"] == KALSHI_SECRETS["api_key_id"]
        signature = base64.b64decode(request.headers["kalshi-access-signature"], validate=True)
        rsa_key.public_key().verify(
            signature, signed_text(request), PSS(mgf=MGF1(hashes.SHA256()), salt_length=32), hashes.SHA256()
        )


async def test_every_ed25519_signature_verifies() -> None:
    key = Ed25519PrivateKey.generate()
    public: Ed25519PublicKey = key.public_key()
    for request in await every_request(pem(key)):
        public.verify(base64.b64decode(request.headers["kalshi-access-signature"]), signed_text(request))


async def test_it_is_signed_when_it_is_sent() -> None:
    async with Loopback(lambda _: reply(201, RECEIPT)) as server:
        client = client_of(server.url)
        prepared = prepared_of(YES)
        await client.submit(prepared)
        await client.submit(prepared)
    stamps = [int(request.headers["kalshi-access-timestamp"]) for request in server.requests]
    assert stamps[0] <= stamps[1]
    assert "signature" not in repr(prepared).lower()


@pytest.mark.parametrize(
    "text", ["", "canary-not-a-pem", "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----"]
)
def test_a_key_it_cannot_read_is_named_and_not_shown(text: str) -> None:
    with pytest.raises(BadCredentials, match="private_key") as caught:
        client_of("http://127.0.0.1:1", text)
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_key_of_another_kind_is_refused() -> None:
    with pytest.raises(BadCredentials, match="RSA or Ed25519"):
        client_of("http://127.0.0.1:1", pem(ec.generate_private_key(ec.SECP256R1())))
