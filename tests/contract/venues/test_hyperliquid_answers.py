"""What the hyperliquid client makes of answers: to orders, look-ups and probes; only proof counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.venue.hyperliquid import ADDRESS, CLOID, client, prepared, status
from tests.support.venue.rigs_sdk import HYPERLIQUID_SECRETS
from venues import (
    Absent,
    Accepted,
    Credentials,
    Found,
    LookupFailed,
    Outcome,
    RateLimited,
    Rejected,
    Route,
    Unknown,
    VenueError,
    connect,
)
from venues.practice import PracticeExchange
from venues.terms import ExitTerms, Terms

ANSWERS: list[tuple[bytes, Outcome | type[Outcome]]] = [
    (status(resting={"oid": 5}), Accepted("5", "open")),
    (status(resting={"oid": 5, "cloid": CLOID}), Accepted("5", "open")),
    (status(resting={"oid": 5, "cloid": "0x" + "ff" * 16}), Unknown),
    (status(filled={"oid": 5, "totalSz": "0.2", "avgPx": "1100"}), Accepted("5", "filled")),
    (status(filled={"oid": 5, "totalSz": "0.1", "avgPx": "1100"}), Accepted("5", "partly_filled")),
    (status(resting={}), Unknown),
    (status(error="Insufficient margin to place order. asset=1"), Rejected),
    (status(error="Order must have minimum value of $10."), Rejected),
    (status(error="Price must be divisible by tick size. asset=1"), Rejected),
    (status(error="Post only order would have immediately matched, bbo was 1@2. asset=1"), Rejected),
    (status(error="Order could not immediately match against any resting orders. asset=1"), Rejected),
    (status(error="Something nobody wrote down"), Unknown),
    (reply(200, {"status": "err", "response": "User or API Wallet 0xabc does not exist."}), Rejected),
    (reply(200, {"status": "err", "response": "Must deposit before performing actions. User: 0xabc"}), Rejected),
    (reply(200, {"status": "err", "response": "L1 error: unclear"}), Unknown),
    (reply(200, {"status": "err", "response": "L1 error: User or API Wallet 0xabc does not exist."}), Rejected),
    (reply(200, {"status": "err", "response": "Exchange error: User or API Wallet 0xabc does not exist."}), Rejected),
    (
        reply(200, {"status": "err", "response": "L1 error: Too many cumulative requests sent (2 > 1)"}),
        RateLimited(None),
    ),
    (reply(200, {"status": "ok", "response": {"data": {"statuses": ["waitingForTrigger"]}}}), Unknown),
    (status(error="Too many cumulative requests sent (10001 > 10000) for cumulative volume"), RateLimited(None)),
    (reply(200, {"status": "err", "response": "Too many cumulative requests sent (2 > 1)"}), RateLimited(None)),
    (reply(200, {"status": "ok", "response": {"type": "default"}}), Unknown),
    (reply(200, {"error": "Could not parse JSON: hm"}), Unknown),
    (reply(200, {"status": "ok", "response": {"data": {"statuses": []}}}), Unknown),
    (reply(422, b"Failed to deserialize the JSON body into the target type"), Rejected),
    (reply(422, b"unprocessable, says a proxy"), Unknown),
    (reply(400, {"code": 1}), Unknown),
    (reply(429, b"too many", Retry_After="3"), RateLimited(3.0)),
    (reply(500, b"oops"), Unknown),
]


@pytest.mark.parametrize(("answer", "outcome"), ANSWERS)
async def test_each_answer_is_read_for_what_it_proves(answer: bytes, outcome: Outcome | type[Outcome]) -> None:
    async with client(answer) as (made, server):
        got = await made.submit(prepared(made))
        assert type(got) is outcome if isinstance(outcome, type) else got == outcome, got
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        reply(200, {"status": "err", "response": "Invalid nonce: duplicate nonce 1794795049226"}),
        status(error=f"Duplicate cloid {CLOID}"),
        status(error="Order already placed with this cloid"),
    ],
)
async def test_a_duplicate_proves_that_it_arrived(answer: bytes) -> None:
    async with client(answer) as (made, _):
        outcome = await made.submit(prepared(made))
        assert isinstance(outcome, Unknown)
        assert outcome.arrived


EXITS = Terms(take_profit=ExitTerms(Decimal(1300), Decimal(1290)), stop_loss=ExitTerms(Decimal(1000), Decimal(990)))
TAKEN, NO = {"resting": {"oid": 5}}, {"error": "Invalid TP/SL price. asset=1"}
WAITS = "waitingForFill"
GROUPS: list[tuple[list[object], Outcome | type[Outcome]]] = [
    ([TAKEN, WAITS, WAITS], Accepted("5", "open")),
    ([TAKEN, WAITS, {"resting": {"oid": 6}}], Accepted("5", "open")),
    ([{"filled": {"oid": 5, "totalSz": "0.2"}}, "waitingForTrigger", "waitingForTrigger"], Accepted("5", "filled")),
    ([NO], Rejected),
    ([NO, NO, NO], Rejected),
    ([NO, WAITS, NO], Unknown),
    ([TAKEN], Unknown),
    ([TAKEN, WAITS], Unknown),
    ([TAKEN, WAITS, WAITS, WAITS], Unknown),
    ([], Unknown),
    ([WAITS, WAITS, WAITS], Unknown),
    ([{}, WAITS, WAITS], Unknown),
]


def group(statuses: list[object]) -> bytes:
    return reply(200, {"status": "ok", "response": {"type": "order", "data": {"statuses": statuses}}})


@pytest.mark.parametrize(("statuses", "outcome"), GROUPS)
async def test_an_order_with_exits_is_placed_with_all_of_them(
    statuses: list[object], outcome: Outcome | type[Outcome]
) -> None:
    async with client(group(statuses)) as (made, server):
        got = await made.submit(prepared(made, terms=EXITS))
        assert type(got) is outcome if isinstance(outcome, type) else got == outcome, got
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("statuses", "name"),
    [([TAKEN, WAITS, NO], "stop_loss"), ([TAKEN, NO, WAITS], "take_profit"), ([TAKEN, WAITS, "what"], "stop_loss")],
)
async def test_an_exit_that_was_refused_is_for_a_person(statuses: list[object], name: str) -> None:
    async with client(group(statuses)) as (made, _):
        got = await made.submit(prepared(made, terms=EXITS))
        assert isinstance(got, Unknown)
        assert got.arrived
        assert f"not its {name}" in got.why


async def test_the_account_is_asked_for_not_the_signing_key() -> None:
    def told(request: Received) -> Answer:
        assert request.json() == {"type": "orderStatus", "user": ADDRESS.lower(), "oid": CLOID}
        return reply(200, {"status": "unknownOid"})

    async with client(told) as (made, server):
        assert await made.lookup(prepared(made)) == Absent()
        assert [request.target for request in server.requests] == ["/info"]


@pytest.mark.parametrize(
    ("word", "left", "status_"),
    [
        ("open", "0.2", "open"),
        ("open", "0.1", "partly_filled"),
        ("filled", "0.0", "filled"),
        ("canceled", "0.2", "cancelled"),
        ("marginCanceled", "0.2", "cancelled"),
        ("scheduledCancel", "0.2", "cancelled"),
        ("rejected", "0.2", "rejected"),
        ("tickRejected", "0.2", "rejected"),
        ("somethingNew", "0.2", "unclear"),
    ],
)
async def test_an_order_is_told_in_the_action_s_terms(word: str, left: str, status_: str) -> None:
    order = {
        "coin": "ETH",
        "side": "B",
        "limitPx": "1100.0",
        "sz": left,
        "oid": 9,
        "origSz": "0.2",
        "cloid": CLOID,
        "orderType": "Limit",
        "tif": "Gtc",
        "timestamp": 1_794_790_933_250,
    }
    async with client(reply(200, {"status": "order", "order": {"order": order, "status": word}})) as (made, _):
        found = await made.lookup(prepared(made))
        assert isinstance(found, Found)
        assert (found.order.status, found.order.venue_order_id, found.order.side) == (status_, "9", "buy")
        assert (found.order.market_id, found.order.price, found.order.quantity) == (
            "ETH",
            Decimal(1100),
            Decimal("0.2"),
        )
        assert found.order.created_at == datetime(2026, 11, 16, 1, 2, 13, 250_000, tzinfo=UTC)


@pytest.mark.parametrize("answer", [reply(200, {"status": "order"}), reply(500), reply(200, b"null"), reply(200, [])])
async def test_a_look_up_without_a_clear_answer_proves_nothing(answer: bytes) -> None:
    async with client(answer) as (made, _):
        assert isinstance(await made.lookup(prepared(made)), LookupFailed)


@pytest.mark.parametrize(
    "handler", [lambda _: reply(503), lambda _: reply(200, {"universe": 5}), lambda _: reply(200, {"universe": [{}]})]
)
async def test_markets_in_an_unknown_form_are_said_at_once(handler: Callable[[Received], bytes]) -> None:
    async with Loopback(handler) as server:
        made = connect("hyperliquid", "paper", Credentials(HYPERLIQUID_SECRETS), Route(2.0, server.url))
        with pytest.raises(VenueError, match="markets"):
            await made.open()  # and nothing is left open: a warning here would fail


async def test_the_probe_tells_time_and_account() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        made = connect("hyperliquid", "paper", Credentials(HYPERLIQUID_SECRETS), Route(2.0, exchange.url))
        await made.open()
        seen = await made.probe()
        assert (seen.reachable, seen.ready, seen.account_usable) == (True, True, True)
        assert seen.server_time is not None
        assert exchange.received == ()
        exchange.fault("*", "closed", on="probe", times=1)
        halted = await made.probe()
        assert (halted.ready, halted.market_open, halted.closed, seen.closed) == (False, False, True, False)
        await made.aclose()
