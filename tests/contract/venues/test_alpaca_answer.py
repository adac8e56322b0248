"""What Alpaca's answers mean: outcomes, look-ups, readiness."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.venue.alpaca import COIN, LIMIT, ORDER, client_of, prepared_of
from venues import (
    Absent,
    Accepted,
    Found,
    LookupFailed,
    Outcome,
    RateLimited,
    Rejected,
    Unknown,
    VenueOrder,
    differences,
)
from venues.alpaca.answers import lookup_of, outcome_of, readiness
from venues.http import Reply
from venues.practice import PracticeExchange

DUPLICATE = {"code": 40010001, "message": "client_order_id must be unique"}
BAD = {"code": 42210000, "message": "sub-penny increment"}


def answered(status: int, body: object, **headers: str) -> Outcome:
    content = reply(status, body).partition(b"\r\n\r\n")[2]
    return outcome_of(Reply(status, headers, content), prepared_of(LIMIT))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_its_own_error_body_is_a_refusal(status: int) -> None:
    assert answered(status, BAD) == Rejected("42210000", "sub-penny increment")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
@pytest.mark.parametrize(
    "body", [b"", b"<html>denied</html>", {}, {"message": "x"}, {"code": 1}, {"code": None, "message": "x"}, [BAD]]
)
def test_a_4xx_without_its_own_error_body_is_unknown(status: int, body: object) -> None:
    assert isinstance(answered(status, body), Unknown)


@pytest.mark.parametrize("status", [402, 405, 408, 409, 410, 413, 418, 425, 500, 502, 503, 504, 302, 307, 199])
def test_every_other_status_is_unknown_whatever_it_says(status: int) -> None:
    assert isinstance(answered(status, BAD), Unknown)


def test_a_duplicate_client_order_id_is_evidence_of_arrival() -> None:
    outcome = answered(422, DUPLICATE)
    assert isinstance(outcome, Unknown)
    assert outcome.arrived
    assert isinstance(answered(422, {"code": 40010001, "message": "invalid side"}), Rejected)


def test_too_many_requests() -> None:
    assert answered(429, {}, **{"retry-after": "3"}) == RateLimited(3.0)
    reset = {"x-ratelimit-reset": "1794790933", "date": "Mon, 16 Nov 2026 01:02:03 GMT"}
    assert answered(429, b"<html>", **reset) == RateLimited(10.0)
    assert answered(429, b"") == RateLimited(None)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "open"),
        ({"status": "filled"}, "filled"),
        ({"status": "partially_filled"}, "partly_filled"),
        ({"status": "odd"}, "unclear"),
        ({"status": "replaced"}, "replaced"),
        ({"status": "canceled", "filled_qty": "5"}, "partly_filled"),
    ],
)
def test_accepted_with_the_venues_id(changes: dict[str, object], status: str) -> None:
    assert answered(200, {**ORDER, **changes}) == Accepted(str(ORDER["id"]), status)  # type: ignore[arg-type]  # table


def test_an_order_taken_and_rejected_at_once_is_rejected() -> None:
    assert isinstance(answered(200, {**ORDER, "status": "rejected"}), Rejected)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        [ORDER],
        {},
        {**ORDER, "id": ""},
        {**ORDER, "id": None},
        {**ORDER, "id": 7},
        {**ORDER, "client_order_id": "coid-2"},
    ],
)
def test_a_success_that_is_none(body: object) -> None:
    assert isinstance(answered(200, body), Unknown)


# Look-ups


def looked_up(status: int, body: object) -> object:
    content = reply(status, body).partition(b"\r\n\r\n")[2]
    return lookup_of(Reply(status, {}, content), prepared_of(LIMIT))


def test_a_found_order_in_the_actions_terms() -> None:
    assert looked_up(200, ORDER) == Found(
        VenueOrder(
            venue_order_id=str(ORDER["id"]),
            client_order_id="coid-1",
            status="open",
            raw_status="accepted",
            market_id="AAPL",
            side="buy",
            quantity=Decimal("100"),
            order_type="limit",
            price=Decimal("180.25"),
            time_in_force="gtc",
            filled=Decimal(0),
        )
    )


def test_only_its_own_not_found_is_absence() -> None:
    assert looked_up(404, {"code": 40410000, "message": "order not found for coid-1"}) == Absent()
    for status, body in [
        (404, b"<html>"),
        (404, b""),
        (404, BAD),
        (404, {"message": "x"}),
        (429, BAD),
        (500, BAD),
        (401, BAD),
        (200, b""),
        (200, {}),
    ]:
        assert isinstance(looked_up(status, body), LookupFailed)


@pytest.mark.parametrize(
    ("times", "at"),
    [
        ({"created_at": "2026-11-16T10:00:00.123456789Z"}, datetime(2026, 11, 16, 10, 0, 0, 123456, tzinfo=UTC)),
        ({"submitted_at": "2026-11-16T05:00:00-05:00"}, datetime(2026, 11, 16, 10, tzinfo=UTC)),
        ({"created_at": None, "submitted_at": "2026-11-16T10:00:00Z"}, datetime(2026, 11, 16, 10, tzinfo=UTC)),
        ({"created_at": "2026-11-16T10:00:00"}, None),
        ({"created_at": "yesterday"}, None),
        ({}, None),
    ],
)
def test_when_it_was_made(times: dict[str, object], at: datetime | None) -> None:
    found = looked_up(200, {**ORDER, **times})
    assert isinstance(found, Found)
    assert found.order.created_at == at


def test_another_order_is_no_answer() -> None:
    assert isinstance(looked_up(200, {**ORDER, "client_order_id": "coid-2"}), LookupFailed)


async def test_an_order_that_differs_is_found_with_its_differences() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        client = client_of(exchange.url)
        await client.submit(prepared_of(LIMIT))
        exchange.fault("*", "lookup_different", on="lookup", times=1)
        found = await client.lookup(prepared_of(LIMIT))
        await client.aclose()
    assert isinstance(found, Found)
    assert [text.partition(":")[0] for text in differences(LIMIT, found.order)] == ["quantity"]


# Probe

CLOCK = {"timestamp": "2026-11-16T10:00:00-05:00", "is_open": True, "next_open": "n/o", "next_close": "n/c"}
ACCOUNT = {"account_number": "PA3XYZ", "status": "ACTIVE", "trading_blocked": False, "account_blocked": False}


def probe_handler(clock: bytes, account: bytes) -> Callable[[Received], Answer]:
    return lambda request: clock if request.path == "/v2/clock" else account


async def test_a_ready_venue() -> None:
    async with Loopback(probe_handler(reply(200, CLOCK), reply(200, ACCOUNT))) as server:
        client = client_of(server.url)
        ready = await client.probe()
        await client.aclose()
    assert (ready.reachable, ready.ready, ready.market_open, ready.account_usable) == (True, True, True, True)
    assert ready.really_paper is True
    assert (ready.session_close, ready.server_time) == ("n/c", "2026-11-16T10:00:00-05:00")


@pytest.mark.parametrize(
    ("clock", "account", "word"),
    [
        (reply(200, {**CLOCK, "is_open": False}), reply(200, ACCOUNT), "closed"),
        (reply(200, CLOCK), reply(200, {**ACCOUNT, "trading_blocked": True}), "may not trade"),
        (reply(200, CLOCK), reply(200, {**ACCOUNT, "status": "ONBOARDING"}), "may not trade"),
        (reply(200, CLOCK), reply(401, BAD), "refused"),
        (reply(503), reply(200, ACCOUNT), "503"),
        (reply(200, CLOCK), reply(200, {**ACCOUNT, "account_number": "123456789"}), "live account"),
    ],
)
async def test_an_unready_venue_says_why(clock: bytes, account: bytes, word: str) -> None:
    async with Loopback(probe_handler(clock, account)) as server:
        client = client_of(server.url)
        ready = await client.probe()
        await client.aclose()
    assert ready.reachable
    assert not ready.ready
    assert word in ready.detail


def test_a_venue_out_of_reach() -> None:
    ready = readiness(Unknown("no answer"), Unknown("no answer"), mode="paper")
    assert (ready.reachable, ready.ready, ready.market_open) == (False, False, None)


@pytest.mark.parametrize(
    ("clock", "account", "closed"),
    [
        ({"is_open": False}, {}, True),
        ({"is_open": True}, {}, False),
        ({"is_open": False}, {"trading_blocked": True}, False),
        ({"is_open": False}, {"account_number": "123456789"}, False),
    ],
)
def test_only_a_shut_market_counts_as_closed(
    clock: dict[str, object], account: dict[str, object], closed: bool
) -> None:
    told = [
        Reply(200, {}, reply(200, body).partition(b"\r\n\r\n")[2])
        for body in ({**CLOCK, **clock}, {**ACCOUNT, **account})
    ]
    assert readiness(*told, mode="paper").closed is closed


async def test_the_stock_markets_clock_is_not_cryptos() -> None:
    client = client_of("http://127.0.0.1:1")
    assert client.clock_counts(LIMIT)
    assert not client.clock_counts(COIN)
    await client.aclose()
