"""What the polymarket client makes of answers: to orders, look-ups and probes; only proof counts."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest

from tests.support.http_server import Loopback, Received, reply
from tests.support.venue.polymarket import TOKEN
from tests.support.venue.polymarket_client import action, clob, connected, prepared
from tests.support.venue.rig import PATIENT, SILENT
from tests.support.venue.term_samples import LATER
from venues import (
    Absent,
    Accepted,
    Found,
    LookupFailed,
    Outcome,
    RateLimited,
    Refused,
    Rejected,
    Unknown,
    differences,
    venue_profile,
)
from venues.polymarket.answers import venue_order
from venues.practice import BEHAVIOURS
from venues.terms import Terms

HASH = "0x" + "77" * 32
PLACED = {"errorMsg": "", "orderID": "HASH", "status": "live", "success": True, "makingAmount": "", "takingAmount": ""}
ANSWERS: list[tuple[int, object, Outcome | type[Outcome]]] = [
    (200, PLACED, Accepted),
    (200, {**PLACED, "status": "matched", "takingAmount": "10", "makingAmount": "5.6"}, Accepted),
    (200, {**PLACED, "status": "delayed"}, Accepted),
    (200, {**PLACED, "orderID": HASH}, Unknown),
    (200, {**PLACED, "orderID": ""}, Unknown),
    (200, {**PLACED, "success": False}, Unknown),
    (200, {**PLACED, "success": False, "errorMsg": "not enough balance / allowance"}, Rejected),
    (200, {**PLACED, "success": False, "errorMsg": "could not insert order"}, Unknown),
    (200, {**PLACED, "errorMsg": "order match delayed due to market conditions"}, Unknown),
    (400, {"error": f"order {HASH} is invalid. Price (0.56) breaks minimum tick size rule: 0.1"}, Rejected),
    (400, {"error": f"order {HASH} is invalid. Size (1) lower than the minimum: 5"}, Rejected),
    (400, {"error": "invalid nonce"}, Unknown),
    (400, {"error": "context canceled"}, Unknown),
    (400, {"message": "says something in between"}, Unknown),
    (401, {"error": "Unauthorized/Invalid api key"}, Rejected),
    (403, {"error": "'0x12' address in closed only mode"}, Rejected),
    (403, b"<html>blocked</html>", Unknown),
    (425, {"error": "restarting"}, Unknown),
    (429, {"error": "Too Many Requests"}, RateLimited),
    (503, {"error": "Trading is currently disabled. Check polymarket.com for updates"}, Unknown),
]


@pytest.mark.parametrize(("code", "answer", "outcome"), ANSWERS)
async def test_each_answer_is_read_for_what_it_proves(code: int, answer: object, outcome: type[Outcome]) -> None:
    async with clob() as (made, _):
        ready = prepared(made)
        told = (
            json.loads(json.dumps(answer).replace('"HASH"', json.dumps(ready.request["order_hash"])))
            if isinstance(answer, dict)
            else answer
        )
        async with Loopback(lambda _: reply(code, told)) as server:
            other = connected(server.url)
            await other.open()
            got = await other.submit(ready)
            assert type(got) is outcome, got
            assert [(request.method, request.target) for request in server.requests] == [("POST", "/order")]
            await other.aclose()


async def test_an_order_only_just_signed_is_not_looked_up() -> None:
    """Its absence would say nothing of an order that the entry's first sender may have placed."""
    async with clob() as (made, exchange):
        asked = exchange.kinds["lookup"]
        assert isinstance(await made.lookup(prepared(made)), LookupFailed)
        assert exchange.kinds["lookup"] == asked
        assert venue_profile("polymarket").lookup is False


async def test_an_order_that_was_sent_is_found_by_its_hash() -> None:
    async with clob() as (made, exchange):
        ready = prepared(made)
        exchange.fault("*", "drop_before_accept", on="new", times=1)
        assert isinstance(await made.submit(ready), Unknown)
        assert await made.lookup(ready) == Absent()
        assert isinstance(await made.submit(ready), Accepted)
        found = await made.lookup(ready)
        assert isinstance(found, Found)
        assert differences(ready.action, found.order) == ()
        assert found.order.venue_order_id == ready.request["order_hash"]
        exchange.fault("*", "lookup_different", on="lookup", times=1)
        different = await made.lookup(ready)
        assert isinstance(different, Found)
        assert differences(ready.action, different.order) != ()


@pytest.mark.parametrize(
    "fault",
    sorted(
        name
        for name, told in BEHAVIOURS.items()
        if "lookup" in told.on and name not in ("wrong_date", "lookup_different", "closed", "wrong_id_200")
    ),
)
async def test_a_failed_look_up_is_never_absence(fault: str) -> None:
    async with clob(timeout=1.5 if fault in SILENT else PATIENT) as (made, exchange):
        ready = prepared(made)
        assert isinstance(await made.submit(ready), Accepted)
        exchange.fault("*", fault, on="lookup", times=1)
        found = await made.lookup(ready)
        if fault == "http_404":  # the venue's own word that there is none
            assert found == Absent()
        else:
            assert isinstance(found, LookupFailed)


TOLD = {"id": HASH, "status": "LIVE", "asset_id": TOKEN, "side": "BUY", "original_size": "10", "size_matched": "0"}
GTD = {**TOLD, "price": "0.56", "order_type": "GTD", "expiration": str(int(LATER.timestamp()))}


@pytest.mark.parametrize(
    ("told", "changes", "names"),
    [
        (GTD, {}, []),
        ({**GTD, "expiration": str(int(LATER.timestamp()) + 1)}, {}, ["expire_at"]),
        ({**GTD, "order_type": "GTC", "expiration": "0"}, {}, ["time in force"]),
        ({**GTD, "order_type": "FAK"}, {}, ["time in force"]),
        ({**GTD, "price": "0.57"}, {}, ["price"]),
        ({**GTD, "side": "SELL"}, {}, ["side"]),
        ({**GTD, "order_type": "FAK", "expiration": "0"}, {"time_in_force": "ioc", "terms": Terms()}, []),
        ({**GTD, "order_type": "FAK", "expiration": "0"}, {"time_in_force": "fak", "terms": Terms()}, []),
        (
            {**GTD, "order_type": "FOK", "expiration": "0"},
            {"time_in_force": "fak", "terms": Terms()},
            ["time in force"],
        ),
        (
            {**GTD, "order_type": "FAK", "side": "SELL"},
            {"time_in_force": None, "side": "sell", "order_type": "market", "terms": Terms()},
            [],
        ),
        (
            {**GTD, "order_type": "GTC", "side": "SELL"},
            {"time_in_force": None, "side": "sell", "order_type": "market", "terms": Terms()},
            ["type"],
        ),
    ],
)
def test_an_order_that_differs_in_one_term_is_another_order(
    told: dict[str, object], changes: dict[str, object], names: list[str]
) -> None:
    meant = action(**{"time_in_force": "gtd", "terms": Terms(expire_at=LATER), **changes})
    order = venue_order(told, meant)
    assert order is not None
    assert [text.partition(":")[0] for text in differences(meant, order)] == names


async def test_sizes_in_millionths_are_read_as_shares() -> None:
    async with clob() as (made, _):
        ready = prepared(made)
        told = {"id": ready.request["order_hash"], "status": "ORDER_STATUS_LIVE", "asset_id": TOKEN, "side": "BUY"}
        told |= {"original_size": "10000000", "size_matched": "0", "price": "0.56", "order_type": "GTC"}
        told |= {"created_at": 1_794_790_933}
        async with Loopback(lambda _: reply(200, told)) as server:
            other = connected(server.url)
            await other.open()
            found = await other.lookup(ready)
            assert isinstance(found, Found)
            assert differences(ready.action, found.order) == ()
            assert found.order.created_at == datetime(2026, 11, 16, 1, 2, 13, tzinfo=UTC)
            await other.aclose()


async def test_a_market_that_is_not_told_cannot_be_traded() -> None:
    async with clob() as (made, _):
        assert await made.learn(["12345", "nonsense"]) == (
            "12345: described in an unknown form",
            "nonsense: not a token id",
        )
        assert isinstance(made.prepare(action(market_id="12345"), "e"), Refused)
    async with Loopback(lambda _: reply(404, {"error": "market not found"})) as server:
        other = connected(server.url)
        await other.open()
        assert await other.learn([TOKEN]) == (f"{TOKEN}: HTTP 404",)
        await other.aclose()


async def test_the_probe_is_never_paper_and_sees_a_closed_account() -> None:
    async with clob() as (made, _):
        seen = await made.probe()
        assert (seen.ready, seen.account_usable, seen.really_paper) == (True, True, False)

    def closed(request: Received) -> bytes:
        return reply(200, {"closed_only": True} if "ban-status" in request.target else "OK")

    async with Loopback(closed) as server:
        other = connected(server.url)
        await other.open()
        assert not (await other.probe()).ready
        await other.aclose()


async def test_a_cancelled_look_up_is_cancelled() -> None:
    async with clob(timeout=10.0) as (made, exchange):
        ready = prepared(made)
        await made.submit(ready)
        exchange.fault("*", "delay", on="lookup", times=1)
        asked = exchange.kinds["lookup"]
        task = asyncio.create_task(made.lookup(ready))
        async with asyncio.timeout(30):
            while exchange.kinds["lookup"] == asked:
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
