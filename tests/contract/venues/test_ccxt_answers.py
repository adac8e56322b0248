"""What the ccxt client makes of answers: to orders, cancels, look-ups and probes; only proof counts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tests.support.ccxt_offline import action, offline
from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.venue.ccxt import (
    COID,
    ORDER,
    at_market,
    client,
    connected,
    prepared,
    sends,
)
from venues import (
    Absent,
    Accepted,
    Found,
    LookupFailed,
    Outcome,
    Prepared,
    RateLimited,
    Rejected,
    Unknown,
    VenueError,
    differences,
    venue_profile,
)
from venues.ccxt.answers import venue_order

REFUSAL = {"code": -2010, "msg": "Account has insufficient balance for requested action."}
ANSWERS: list[tuple[int, object, Outcome | type[Outcome]]] = [
    (200, ORDER, Accepted("28", "open")),
    (200, {**ORDER, "status": "FILLED", "executedQty": "0.5"}, Accepted("28", "filled")),
    (200, {**ORDER, "status": "PARTIALLY_FILLED", "executedQty": "0.1"}, Accepted("28", "partly_filled")),
    (200, {**ORDER, "status": "REJECTED"}, Rejected),
    (200, {**ORDER, "orderId": None}, Unknown),
    (200, {**ORDER, "orderId": ""}, Unknown),
    (200, {**ORDER, "clientOrderId": "somebody-else"}, Unknown),
    (200, {**ORDER, "clientOrderId": f"t-{COID}"}, Accepted("28", "open")),
    (200, {**ORDER, "clientOrderId": f"{COID}0"}, Unknown),
    (200, {}, Unknown),
    (200, [], Unknown),
    (200, b"", Unknown),
    (200, b"OK", Unknown),
    (200, b"null", Unknown),
    (307, b"", Unknown),
    (400, REFUSAL, Rejected),
    (400, {"code": -1013, "msg": "Filter failure: LOT_SIZE"}, Rejected),
    (400, {"code": -1121, "msg": "Invalid symbol."}, Rejected),
    (401, {"code": -2015, "msg": "Invalid API-key, IP, or permissions for action."}, Rejected),
    (400, {"code": -1021, "msg": "Timestamp for this request is outside of the recvWindow."}, Unknown),
    (400, {"code": -1006, "msg": "An unexpected response was received. Execution status unknown."}, Unknown),
    (400, {"code": -1007, "msg": "Timeout waiting for response from backend server."}, Unknown),
    (400, {"code": -987654, "msg": "a code that nobody has seen"}, Unknown),
    (400, {"error": "not binance's own form"}, Unknown),
    (400, b"<html>bad request</html>", Unknown),
    (403, b"<html>WAF limit</html>", Unknown),
    (404, b"<html>not found</html>", Unknown),
    (408, REFUSAL, Unknown),
    (409, REFUSAL, Unknown),
    (418, {"code": -1003, "msg": "Way too many requests; IP banned"}, RateLimited),
    (429, {"code": -1003, "msg": "Too many requests"}, RateLimited),
    (429, b"slow down", RateLimited),
    (451, b"<html>Unavailable For Legal Reasons</html>", Unknown),
    (500, REFUSAL, Unknown),
    (503, {"code": -1007, "msg": "Timeout"}, Unknown),
    (504, b"<html>gateway</html>", Unknown),
]


@pytest.mark.parametrize(("status", "body", "outcome"), ANSWERS)
async def test_each_answer_is_read_for_what_it_proves(
    status: int, body: object, outcome: Outcome | type[Outcome]
) -> None:
    async with client(reply(status, body)) as (made, server):
        got = await made.submit(prepared(made))
        assert type(got) is outcome if isinstance(outcome, type) else got == outcome, got
        assert [(request.method, request.target) for request in sends(server)] == [("POST", "/api/v3/order")]


async def test_how_long_to_wait_is_told() -> None:
    async with client(reply(429, REFUSAL, Retry_After="7")) as (made, _):
        assert await made.submit(prepared(made)) == RateLimited(7.0)


async def test_a_duplicate_proves_that_it_arrived() -> None:
    async with client(reply(400, {"code": -2010, "msg": "Duplicate order sent."})) as (made, _):
        outcome = await made.submit(prepared(made))
        assert isinstance(outcome, Unknown)
        assert outcome.arrived


async def test_a_key_revoked_after_a_success_is_still_a_refusal() -> None:
    """ccxt itself would call it a busy exchange from then on."""
    answers = iter([reply(200, ORDER), reply(401, {"code": -2015, "msg": "Invalid API-key, IP, or permissions."})])
    async with client(lambda _: next(answers)) as (made, _):
        assert isinstance(await made.submit(prepared(made)), Accepted)
        assert isinstance(await made.submit(prepared(made)), Rejected)


async def test_a_cancel_is_believed_only_about_its_order() -> None:
    async with client(reply(200, {**ORDER, "status": "CANCELED"})) as (made, server):
        assert await made.cancel(prepared(made, verb="cancel", venue_order_id="28")) == Accepted("28", "cancelled")
        assert isinstance(await made.cancel(prepared(made, verb="cancel", venue_order_id="29")), Unknown)
        assert [request.method for request in sends(server)] == ["DELETE", "DELETE"]


async def test_an_order_that_is_gone_cannot_be_cancelled() -> None:
    async with client(reply(400, {"code": -2011, "msg": "Unknown order sent."})) as (made, _):
        outcome = await made.cancel(prepared(made, verb="cancel", venue_order_id="28"))
        assert isinstance(outcome, Rejected)
        assert outcome.code == "OrderNotFound"


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (200, ORDER, Found),
        (200, {**ORDER, "clientOrderId": "another"}, LookupFailed),
        (200, {}, LookupFailed),
        (200, b"garbage", LookupFailed),
        (400, {"code": -2013, "msg": "Order does not exist."}, Absent),
        (400, b"<html>Order does not exist.</html>", LookupFailed),
        (404, b"<html>", LookupFailed),
        (401, {"code": -2015, "msg": "Invalid API-key"}, LookupFailed),
        (429, {"code": -1003, "msg": "Too many requests"}, LookupFailed),
        (500, {"code": -2013, "msg": "Order does not exist."}, LookupFailed),
    ],
)
async def test_a_look_up_says_absent_only_in_the_exchange_s_own_words(status: int, body: object, found: type) -> None:
    async with client(reply(status, body)) as (made, server):
        ready = prepared(made)
        got = await made.lookup(ready)
        assert type(got) is found, got
        if isinstance(got, Found):
            assert differences(ready.action, got.order) == ()
        (request,) = sends(server)
        assert (request.method, request.params["origClientOrderId"]) == ("GET", COID)


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ({"timestamp": 1507725176595}, datetime(2017, 10, 11, 12, 32, 56, 595000, UTC)),
        ({"datetime": "2017-10-11T12:32:56.595Z"}, datetime(2017, 10, 11, 12, 32, 56, 595000, UTC)),
        ({"timestamp": None, "datetime": "2017-10-11T14:32:56+02:00"}, datetime(2017, 10, 11, 12, 32, 56, 0, UTC)),
        ({"datetime": "2017-10-11T12:32:56"}, None),
        ({"timestamp": 10**20}, None),
        ({"timestamp": 0, "datetime": None}, None),
        ({"timestamp": True, "datetime": "soon"}, None),
        ({}, None),
    ],
)
def test_the_age_of_an_order_is_the_exchange_s_word_or_unknown(
    said: dict[str, object], moment: datetime | None
) -> None:
    seen = venue_order({"id": "28", **said}, action(), symbol="BTC/USDT")
    assert seen is not None
    assert seen.created_at == moment


async def test_a_found_order_tells_its_age() -> None:
    async with client(reply(200, {**ORDER, "time": 1507725176595})) as (made, _):
        got = await made.lookup(prepared(made))
        assert isinstance(got, Found)
        assert got.order.created_at == datetime(2017, 10, 11, 12, 32, 56, 595000, UTC)


async def test_an_exchange_that_cannot_be_asked_by_id_is_searched_but_never_says_absent() -> None:
    """poloniex takes a client order id, and ccxt has no query by it."""
    row = {"id": "O-1", "clientOrderId": COID, "symbol": "BTCUSDT", "state": "NEW", "quantity": "0.5", "side": "BUY"}
    rows = [row]
    async with Loopback(lambda _: reply(200, rows)) as server:
        here = await at_market(server.url, "poloniex")
        ready = here.prepare(action(), COID)
        assert isinstance(ready, Prepared)
        found = await here.lookup(ready)
        assert isinstance(found, Found)
        assert found.order.venue_order_id == "O-1"
        for others in ([], [{**row, "clientOrderId": "another"}], [{**row, "clientOrderId": f"bot-{COID}"}]):
            rows[:] = others
            assert isinstance(await here.lookup(ready), LookupFailed)
        assert venue_profile("ccxt:poloniex").lookup is False
        assert {(request.method, request.path) for request in server.requests} == {("GET", "/orders")}
        await here.aclose()


async def test_an_exchange_without_client_order_ids_cannot_be_looked_up() -> None:
    made = await offline("zaif", "live")
    ready = made.prepare(action(), COID)
    assert isinstance(ready, Prepared)
    assert any("no client order id" in note for note in ready.notes)
    assert COID.encode() not in ready.body
    assert isinstance(await made.lookup(ready), LookupFailed)
    assert (made.profile.lookup, made.profile.dedup) == (False, "none")


async def test_markets_that_cannot_be_read_are_said_at_once() -> None:
    for answer in (reply(503), reply(200, b"<html>"), reply(200, {"symbols": 5})):
        async with Loopback(lambda _, answer=answer: answer) as server:  # type: ignore[misc]  # bound per round
            with pytest.raises(VenueError, match="did not list its markets"):
                await connected(server.url).open()


async def test_a_probe_without_keys_that_count_is_not_ready() -> None:
    def told(request: Received) -> bytes:
        if request.path == "/api/v3/time":
            return reply(200, {"serverTime": 1794795000000})
        return reply(401, {"code": -2014, "msg": "API-key format invalid."})

    async with client(told) as (made, _):
        seen = await made.probe()
        assert (seen.reachable, seen.ready, seen.account_usable) == (True, False, False)


async def test_a_cancelled_look_up_is_cancelled() -> None:
    waiting = asyncio.Event()

    async def silent(_: Received) -> Answer:
        waiting.set()
        await asyncio.Event().wait()
        return None

    async with client(silent) as (made, _):
        task = asyncio.create_task(made.lookup(prepared(made)))
        async with asyncio.timeout(30):
            await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
