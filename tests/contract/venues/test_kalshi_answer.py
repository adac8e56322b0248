"""What Kalshi's answers mean: outcomes and readiness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.venue.kalshi import OWN, RECEIPT, YES, client_of, prepared_of
from venues import (
    Accepted,
    OrderAction,
    Outcome,
    RateLimited,
    Rejected,
    Unknown,
)
from venues.http import Reply
from venues.kalshi.answers import outcome_of


def answered(status: int, body: object, action: OrderAction = YES) -> Outcome:
    content = reply(status, body).partition(b"\r\n\r\n")[2]
    return outcome_of(Reply(status, {"retry-after": "2"}, content), prepared_of(action))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410])
def test_its_own_error_body_is_a_refusal(status: int) -> None:
    assert answered(status, OWN) == Rejected("invalid_order", "invalid order: post only cross")


def test_a_body_it_cannot_read_is_refused_at_the_top_level() -> None:
    body = {"code": "bad_request", "message": "bad request"}
    assert answered(400, body) == Rejected("bad_request", "bad request")
    assert isinstance(answered(403, body), Unknown)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410])
@pytest.mark.parametrize("body", [b"", b"<html>", {}, {"error": "no"}, {"error": {"code": "x"}}, {"error": {}}])
def test_a_4xx_without_its_own_error_body_is_unknown(status: int, body: object) -> None:
    assert isinstance(answered(status, body), Unknown)


@pytest.mark.parametrize("status", [402, 405, 408, 413, 422, 425, 500, 502, 503, 504, 302, 307])
def test_every_other_status_is_unknown_whatever_it_says(status: int) -> None:
    assert isinstance(answered(status, OWN), Unknown)


@pytest.mark.parametrize("code", ["order_already_exists", "duplicate_client_order_id"])
def test_a_duplicate_client_order_id_is_evidence_of_arrival(code: str) -> None:
    outcome = answered(409, {"error": {"code": code, "message": "x"}})
    assert isinstance(outcome, Unknown)
    assert outcome.arrived


def test_too_many_requests() -> None:
    assert answered(429, {"error": "too many requests"}) == RateLimited(2.0)


@pytest.mark.parametrize(
    ("filled", "remaining", "status"),
    [
        ("0.00", "10.00", "open"),
        ("4.00", "6.00", "partly_filled"),
        ("10.00", "0.00", "filled"),
        ("0.00", "0.00", "cancelled"),
        ("4.00", "0.00", "partly_filled"),
        ("x", "0.00", "unclear"),
    ],
)
def test_accepted_is_not_always_resting(filled: str, remaining: str, status: str) -> None:
    body = {**RECEIPT, "fill_count": filled, "remaining_count": remaining}
    assert answered(201, body) == Accepted("ord-1", status)  # type: ignore[arg-type]  # a table of statuses
    assert answered(201, {"order": body}) == answered(201, body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        {},
        OWN,
        {**RECEIPT, "order_id": ""},
        {**RECEIPT, "client_order_id": "coid-2"},
        {"order": {**RECEIPT, "order_id": ""}},
        {"order": {**RECEIPT, "client_order_id": ""}},
        {"order": {**RECEIPT, "client_order_id": "coid-2"}},
        {"order": [RECEIPT]},
    ],
)
def test_a_success_that_is_none(body: object) -> None:
    assert isinstance(answered(200, body), Unknown)


@pytest.mark.parametrize("verb", ["replace", "cancel"])
def test_an_answer_about_another_order(verb: str) -> None:
    action = replace(YES, verb=verb, venue_order_id="ord-9")  # type: ignore[arg-type]  # both are verbs
    assert isinstance(answered(200, RECEIPT, action), Unknown)


# Probe


def probe_handler(status: bytes, balance: bytes) -> Callable[[Received], Answer]:
    return lambda request: status if request.path.endswith("/exchange/status") else balance


ACTIVE = {"exchange_active": True, "trading_active": True}


async def test_a_ready_venue() -> None:
    status = reply(200, ACTIVE, Date="Mon, 16 Nov 2026 01:02:03 GMT")
    async with Loopback(probe_handler(status, reply(200, {"balance": 1}))) as server:
        client = client_of(server.url)
        ready = await client.probe()
        await client.aclose()
    assert (ready.reachable, ready.ready, ready.market_open, ready.account_usable) == (True, True, True, True)
    assert ready.server_time == "2026-11-16T01:02:03+00:00"
    assert ready.really_paper is None  # a custom endpoint proves nothing


@pytest.mark.parametrize(
    ("status", "balance", "word"),
    [
        (reply(200, {**ACTIVE, "trading_active": False}), reply(200, {}), "paused"),
        (reply(200, {**ACTIVE, "exchange_active": False}), reply(200, {}), "paused"),
        (reply(200, ACTIVE), reply(401, OWN), "refused"),
        (reply(200, {**ACTIVE, "trading_active": False}), reply(401, OWN), "refused"),
        (reply(503), reply(200, {}), "503"),
    ],
)
async def test_an_unready_venue_says_why(status: bytes, balance: bytes, word: str) -> None:
    async with Loopback(probe_handler(status, balance)) as server:
        client = client_of(server.url)
        ready = await client.probe()
        await client.aclose()
    assert not ready.ready
    assert word in ready.detail
    assert ready.closed is (word == "paused")
