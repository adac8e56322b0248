"""The polymarket client on the wire: what is signed and stored, that only it is sent, and that paper is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
import time
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.venue.polymarket import TOKEN, signed_order
from tests.support.venue.polymarket_client import action, clob, connected, prepared
from tests.support.venue.rig import leaks
from tests.support.venue.rigs_sdk import POLYMARKET_SECRETS
from tests.support.venue.term_samples import LATER
from venues import (
    Accepted,
    BadCredentials,
    Credentials,
    Found,
    MissingExtra,
    NoPaperMode,
    Refused,
    Route,
    Unknown,
    connect,
    credential_fields,
    differences,
    has_paper,
    venue_profile,
)
from venues.message import Reply
from venues.polymarket import order
from venues.polymarket.answers import outcome_of
from venues.terms import Terms

MONEY = Terms(notional=Decimal("5.6"))
SECRETS = tuple(POLYMARKET_SECRETS[name] for name in ("private_key", "api_key", "api_secret", "api_passphrase"))


@pytest.mark.parametrize("neg_risk", [False, True])
@pytest.mark.parametrize(("side", "maker", "taker"), [("buy", "5600000", "10000000"), ("sell", "10000000", "5600000")])
async def test_the_order_is_as_documented_and_its_hash_is_the_venue_s_id(
    side: str, maker: str, taker: str, neg_risk: bool
) -> None:
    async with clob(neg_risk=neg_risk) as (made, exchange):
        ready = prepared(made, side=side)
        body = json.loads(ready.body)
        sent = body["order"]
        assert (sent["makerAmount"], sent["takerAmount"], sent["side"]) == (maker, taker, side.upper())
        assert (sent["tokenId"], sent["expiration"], sent["signatureType"]) == (TOKEN, "0", 0)
        assert (body["orderType"], body["deferExec"], body["owner"]) == ("GTC", False, "{api_key}")
        order_hash, signer = signed_order(sent, neg_risk=neg_risk)
        assert (order_hash, signer) == (ready.request["order_hash"], POLYMARKET_SECRETS["wallet"])
        assert signed_order(sent, neg_risk=not neg_risk)[1] != signer
        outcome = await made.submit(ready)
        assert outcome == Accepted(order_hash, "open")
        (line,) = exchange.received
        assert line["body"] == ready.body.decode().replace("{api_key}", POLYMARKET_SECRETS["api_key"])


async def test_the_headers_are_signed_over_exactly_what_is_sent() -> None:
    async with clob() as (made, exchange):
        await made.submit(prepared(made))
        request = exchange.format.requests[-1]
        assert (request.method, request.path) == ("POST", "/order")
        headers = request.headers
        message = headers["poly_timestamp"].encode() + b"POST/order" + request.body
        key = base64.urlsafe_b64decode(POLYMARKET_SECRETS["api_secret"])
        assert headers["poly_signature"] == base64.urlsafe_b64encode(hmac.digest(key, message, hashlib.sha256)).decode()
        assert headers["poly_address"] == POLYMARKET_SECRETS["wallet"]
        assert headers["poly_api_key"] == POLYMARKET_SECRETS["api_key"]
        assert headers["poly_passphrase"] == POLYMARKET_SECRETS["api_passphrase"]


async def test_nothing_but_the_needed_paths_is_ever_asked() -> None:
    """No key is derived or created, no allowance touched, no wallet deployed, no chain spoken to."""
    async with clob() as (made, exchange):
        ready = prepared(made)
        await made.submit(ready)
        await made.lookup(ready)
        await made.probe()
        await made.cancel(prepared(made, verb="cancel", venue_order_id=ready.request["order_hash"]))
        paths = {f"{request.method} /{'/'.join(request.parts[:1])}" for request in exchange.format.requests}
        assert paths == {
            "GET /markets-by-token",
            "GET /clob-markets",
            "POST /order",
            "GET /data",
            "GET /ok",
            "GET /auth",
            "DELETE /order",
        }
        assert sum(request.method == "POST" for request in exchange.format.requests) == 1


async def test_the_same_stored_order_is_the_same_order_and_another_preparation_is_not() -> None:
    async with clob() as (made, exchange):
        ready = prepared(made)
        assert isinstance(await made.submit(ready), Accepted)
        again = await made.submit(ready)
        assert isinstance(again, Unknown)
        assert again.arrived
        assert prepared(made).request["order_hash"] != ready.request["order_hash"]
        assert len(exchange.orders) == 1
        assert venue_profile("polymarket").dedup == "none"


async def test_a_stored_order_can_be_sent_by_another_process() -> None:
    async with clob() as (made, exchange):
        ready = prepared(made)
        other = connected(exchange.url)
        await other.open()
        assert isinstance(await other.submit(ready), Accepted)
        assert isinstance(await other.lookup(ready), Found)
        await other.aclose()


@pytest.mark.parametrize(
    ("derive", "kind"),
    [
        ("derive_proxy_wallet_address", 1),
        ("derive_safe_wallet_address", 2),
        ("derive_beacon_deposit_wallet_address", 3),
        ("derive_uups_deposit_wallet_address", 3),
    ],
)
async def test_every_kind_of_wallet_is_signed_for_as_the_sdk_does(derive: str, kind: int) -> None:
    from polymarket._internal import wallet
    from polymarket.environments import PRODUCTION

    own = POLYMARKET_SECRETS["wallet"]
    address = getattr(wallet, derive)(own, PRODUCTION._config.wallet_derivation)
    async with clob(wallet=address) as (made, _):
        ready = prepared(made)
        sent = json.loads(ready.body)["order"]
        assert (sent["maker"], sent["signatureType"]) == (address, kind)
        assert sent["signer"] == (address if kind == 3 else own)
        plain = {**sent, "signature": sent["signature"][:132]}
        assert signed_order(plain, neg_risk=False)[0] == ready.request["order_hash"]
        assert not any("session key" in note for note in ready.notes)
    async with clob(wallet="0x" + "12" * 20) as (made, _):
        assert any("session key" in note for note in prepared(made).notes)


@given(
    cents=st.integers(1, 99),
    hundredths=st.integers(1, 10_000_000),
    side=st.sampled_from(["buy", "sell"]),
)
def test_amounts_equal_the_sdk_s_where_it_does_not_round(cents: int, hundredths: int, side: str) -> None:
    from polymarket._internal.actions.orders.limit import _compute_limit_order_amounts

    size, price, tick = Decimal(hundredths) / 100, Decimal(cents) / 100, Decimal("0.01")
    ours = order.amounts(action(quantity=size, price=price, side=side), order.Market(tick, neg_risk=False))
    sdk = _compute_limit_order_amounts(price=price, size=size, side=side.upper(), tick_size=tick)
    assert ours == sdk


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"quantity": Decimal("10.123")}, "2 decimals"),
        ({"price": Decimal("0.565")}, "multiples of 0.01"),
        ({"price": Decimal("0")}, "multiples of 0.01"),
        ({"price": Decimal("1")}, "multiples of 0.01"),
        ({"quantity": Decimal("0")}, "above zero"),
        ({"price": None}, "with a price only"),
        ({"order_type": "market", "price": None, "terms": MONEY, "quantity": Decimal(0)}, "must say a price"),
        ({"order_type": "market", "price": None, "side": "sell"}, "must say a price"),
        ({"order_type": "market"}, "must say notional"),
        ({"order_type": "market", "terms": MONEY}, "no quantity"),
        ({"order_type": "market", "terms": MONEY, "side": "sell"}, "no notional"),
        ({"order_type": "market", "side": "sell", "time_in_force": "gtc"}, "fok or ioc"),
        (
            {"order_type": "market", "terms": Terms(notional=Decimal("0.01")), "quantity": Decimal(0)},
            "too little",
        ),
        ({"order_type": "stop"}, "price"),
        ({"terms": MONEY}, "notional"),
        ({"terms": Terms(reduce_only=True)}, "reduce_only"),
        ({"side": "yes"}, "side yes"),
        ({"price_unit": "cents"}, "price_unit cents"),
        ({"time_in_force": "ioc"}, "by money"),
        ({"time_in_force": "fok"}, "by money"),
        ({"time_in_force": "fok", "side": "sell", "terms": Terms(post_only=True)}, "post_only"),
        ({"time_in_force": "ioc", "side": "sell", "terms": Terms(expire_at=LATER)}, "expire_at"),
        ({"time_in_force": "gtc", "terms": Terms(expire_at=LATER)}, "expire_at"),
        ({"time_in_force": "day"}, "time in force day"),
        ({"time_in_force": "gtd"}, "expire_at"),
        ({"market_id": "0x" + "5e" * 32}, "token id"),
        ({"market_id": "12345"}, "tick size"),
        ({"verb": "replace"}, "cannot replace"),
        ({"verb": "cancel"}, "order id"),
        ({"verb": "cancel", "venue_order_id": "7"}, "order id"),
    ],
)
async def test_what_cannot_be_sent_as_it_is_is_refused(changes: dict[str, object], why: str) -> None:
    async with clob() as (made, exchange):
        refused = made.prepare(action(**changes), "entry-1")
        assert isinstance(refused, Refused)
        assert why in refused.why
        assert exchange.received == ()


async def test_good_till_date_needs_a_date_far_enough_ahead() -> None:
    async with clob() as (made, _):
        soon, later = (datetime.fromtimestamp(int(time.time()) + ahead, UTC) for ahead in (60, 3600))
        for until in (soon, later.replace(microsecond=1)):
            assert isinstance(made.prepare(action(time_in_force="gtd", terms=Terms(expire_at=until)), "e"), Refused)
        ready = prepared(made, time_in_force="gtd", terms=Terms(expire_at=later))
        body = json.loads(ready.body)
        assert (body["orderType"], body["order"]["expiration"]) == ("GTD", str(int(later.timestamp())))
        assert "polymarket ends an order a minute before its expiration" in ready.notes


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({}, "time in force: gtc (the venue's default)"),
        ({"terms": Terms(expire_at=LATER)}, "time in force: gtd (as there is an expire_at)"),
        ({"time_in_force": "ioc", "side": "sell"}, "time in force: ioc is FAK at polymarket, fill and kill"),
        (
            {"order_type": "market", "side": "sell"},
            "time in force: ioc (polymarket's client's default for a market order)",
        ),
        ({"order_type": "market", "side": "sell"}, "at market: at least 0.56 a share"),
        ({"order_type": "market", "terms": MONEY, "quantity": Decimal(0)}, "at market: at most 0.56 a share"),
    ],
)
async def test_what_was_not_said_is_shown(changes: dict[str, object], note: str) -> None:
    async with clob() as (made, _):
        assert note in prepared(made, **changes).notes


async def test_money_that_was_spent_is_a_filled_order() -> None:
    async with clob() as (made, exchange):
        ready = prepared(made, order_type="market", terms=MONEY, quantity=Decimal(0))
        assert ready.sent == {
            "action": "new",
            "market_id": TOKEN,
            "side": "buy",
            "order_type": "market",
            "price": Decimal("0.56"),
            "time_in_force": "ioc",
            "notional": Decimal("5.6"),
        }
        assert isinstance(await made.submit(ready), Accepted)
        found = await made.lookup(ready)
        assert isinstance(found, Found)
        assert differences(ready.action, found.order) == ()
        assert len(exchange.orders) == 1
    told = {"errorMsg": "", "orderID": ready.request["order_hash"], "status": "matched", "success": True}
    for spent, status in (("5.6", "filled"), ("3", "partly_filled")):
        content = json.dumps({**told, "makingAmount": spent, "takingAmount": "11"}).encode()
        assert outcome_of(Reply(200, {}, content), ready) == Accepted(str(ready.request["order_hash"]), status)  # type: ignore[arg-type]  # a table of statuses


@pytest.mark.parametrize(("tick", "price"), [("0.001", "0.565"), ("0.0001", "0.5651"), ("0.0025", "0.5625")])
async def test_the_market_s_own_tick_counts(tick: str, price: str) -> None:
    async with clob(tick=tick) as (made, _):
        sent = json.loads(prepared(made, price=Decimal(price)).body)["order"]
        assert Decimal(sent["makerAmount"]) == Decimal(price) * 10 * 1_000_000
        assert isinstance(made.prepare(action(price=Decimal("0.56555")), "e"), Refused)


def test_paper_is_refused_before_anything_else() -> None:
    assert has_paper("polymarket") is False
    for credentials in (POLYMARKET_SECRETS, {}):
        with pytest.raises(NoPaperMode):
            connect("polymarket", "paper", Credentials(credentials), Route(endpoint="http://127.0.0.1:1"))


@pytest.mark.parametrize("field", POLYMARKET_SECRETS)
def test_all_five_fields_are_required_and_named_without_their_value(field: str) -> None:
    assert credential_fields("polymarket") == tuple(POLYMARKET_SECRETS)
    for value in ("", "not/ok ü"):
        with pytest.raises(BadCredentials, match=field) as caught:
            connect("polymarket", "live", Credentials({**POLYMARKET_SECRETS, field: value}))
        assert leaks(SECRETS, [str(caught.value), repr(caught.value)]) == []
    fewer = {name: value for name, value in POLYMARKET_SECRETS.items() if name != field}
    with pytest.raises(BadCredentials, match=field):
        connect("polymarket", "live", Credentials(fewer))


def test_a_missing_extra_says_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polymarket", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dlq-console\[polymarket\]'"):
        connect("polymarket", "live", Credentials(POLYMARKET_SECRETS))
