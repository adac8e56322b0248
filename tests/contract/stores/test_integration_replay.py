"""A stored call is sent to its provider again: what goes on the wire, when, under which key, what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from backends.records import Filter
from backends.store import Claim, Intent, Result
from console.services.resend.orphans import OrphanedCalls
from tests.support.http_server import Answer, Loopback, Received, full_port, never, reply
from tests.support.integration import (
    REQUEST,
    SECRET,
    IntegrationRig,
    Time,
    answers,
    clock,
    entries,
    entry_id,
    failed_row,
    providers,
    redelivery,
    resend,
)
from tests.support.store import ACTOR, events_of, ids, only, verdict, why


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


async def test_a_text_is_not_called_json_on_the_wire(rig: IntegrationRig) -> None:
    request = {"method": "PUT", "path": "/x", "body": "<order/>"}
    await rig.failed(failed_row(1, originalRequest=json.dumps(request)))
    async with Loopback(lambda _: reply(200, {})) as server:
        assert [one.outcome for one in await resend(rig, server.url, 1)] == ["accepted"]
    (received,) = server.requests
    assert received.body == b"<order/>"
    assert {"content-type", "accept"}.isdisjoint(received.headers)


async def test_what_goes_on_the_wire(rig: IntegrationRig) -> None:
    body = '{"amount": 1.10, "big": 123456789012345678901234567890.5, "text": "ü"}'
    request = {
        **REQUEST,
        "headers": {"X-Trace": "t-1", "Idempotency-Key": "old", "Host": "evil", "Content-Length": "1"},
    }
    stored = json.dumps(request)[:-1].replace(json.dumps(REQUEST["body"]), body) + "}"
    await rig.failed(failed_row(1, originalRequest=stored))
    async with Loopback(answers(reply(201, {"id": "ch_1"}))) as server:
        (ended,) = await resend(rig, f"{server.url}/base", 1)
    (got,) = server.requests
    assert (got.method, got.target) == ("POST", "/base/v1/charges?expand=1")
    assert got.headers["authorization"] == SECRET
    assert got.headers["x-trace"] == "t-1"
    assert got.headers["host"] == server.url.removeprefix("http://")
    assert got.headers["content-length"] == str(len(got.body))
    key = got.headers["idempotency-key"]
    assert uuid.UUID(key).version == 4
    assert b"123456789012345678901234567890.5" in got.body
    assert b"1.10" in got.body
    assert (ended.outcome, ended.client_order_id, ended.mode) == ("accepted", key, None)


async def test_every_retry_has_a_key_of_its_own_that_its_tries_share(rig: IntegrationRig) -> None:
    await rig.failed(1)
    script = [*[reply(503)] * 6, reply(503), reply(502), None, reply(200)]
    async with Loopback(answers(*script)) as server:
        first = await resend(rig, server.url, 1)
        second = await resend(rig, server.url, 1)
    keys = [got.headers["idempotency-key"] for got in server.requests]
    assert len(keys) == 10
    assert (len(set(keys[:6])), len(set(keys[6:])), len(set(keys))) == (1, 1, 2)
    assert [one.outcome for one in first + second] == ["rejected", "accepted"]
    assert await rig.column("attempts", 1) == 7


@pytest.mark.parametrize("spread", [-1.0, 0.0, 1.0])
async def test_the_waits_between_tries(rig: IntegrationRig, spread: float) -> None:
    await rig.failed(1)
    time = Time(spread)
    async with Loopback(answers(reply(503))) as server:
        (ended,) = await resend(rig, server.url, 1, time=time)
    assert len(server.requests) == 6
    assert time.waits == [pytest.approx(wait * (1 + 0.2 * spread)) for wait in (1, 2, 4, 8, 8)]
    assert (ended.outcome, (ended.detail or "")[:22]) == ("rejected", "HTTP 503 in 6 tries; i")
    assert ended.client_order_id is not None
    assert ended.client_order_id in (ended.detail or "")
    assert await rig.column("attempts", 1) == 7
    assert await rig.column("lastRetryAt", 1) is not None
    store = rig.opened[0]
    assert await ids(store, only("pending")) == [entry_id(1)], "the provider itself says that it failed"
    assert (await verdict(store))[0] is None


UNCLEAR = (reply(502), reply(504), reply(520), None, b"HTTP/1.1 502 X\r\nContent-Length: 9\r\n\r\ncut")


@pytest.mark.parametrize(
    "script",
    [
        *([answer] for answer in UNCLEAR),
        UNCLEAR,
        [None, reply(409, {"error": "key in use"})],
        [reply(504), reply(422, {"error": "already captured"})],
        [None, reply(429)],
        [reply(502), reply(401)],
        [None, reply(503)],
    ],
)
async def test_an_end_that_is_not_known_is_in_doubt_and_nothing_goes_again(
    rig: IntegrationRig, script: Sequence[Answer]
) -> None:
    await rig.failed(1)
    async with Loopback(answers(*script)) as server:
        (ended,) = await resend(rig, server.url, 1)
        assert (ended.outcome, await rig.column("attempts", 1)) == ("unknown", 7)
        sent, store = len(server.requests), rig.opened[0]
        (asked,) = await OrphanedCalls(store, ACTOR, clock).run((entry_id(1),))
        assert (asked.outcome, (asked.detail or "").startswith(ended.detail or "?")) == ("unknown", True)
        (refused,) = await resend(rig, server.url, 1)
    assert (refused.outcome, len(server.requests)) == ("refused", sent)
    assert await ids(store, only("in_doubt")) == [entry_id(1)]


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 422, 302])
async def test_a_refusal_ends_it_at_once(rig: IntegrationRig, status: int) -> None:
    await rig.failed(1)
    time = Time()
    async with Loopback(answers(reply(status, {"error": "no", "echo": SECRET}, Location="/elsewhere"))) as server:
        (ended,) = await resend(rig, server.url, 1, time=time)
    assert (len(server.requests), time.waits) == (1, [])
    assert ended.outcome == "rejected"
    assert f"HTTP {status}" in (ended.detail or "")
    assert "s3cr3t" not in repr(ended)
    assert await rig.column("attempts", 1) == 7


async def test_too_many_requests_is_not_sent_and_counts_nothing(rig: IntegrationRig) -> None:
    await rig.failed(1)
    async with Loopback(answers(reply(429, Retry_After="7"))) as server:
        (ended,) = await resend(rig, server.url, 1)
    assert len(server.requests) == 1
    assert (ended.outcome, "7 s" in (ended.detail or "")) == ("not_sent", True)
    assert await rig.column("attempts", 1) == 6
    assert await rig.column("lastRetryAt", 1) is None


async def test_a_busy_provider_is_waited_for_within_a_batch(rig: IntegrationRig) -> None:
    await rig.failed(*range(1, 6))
    time = Time()
    script = [reply(429, Retry_After="7"), reply(200), reply(429), reply(429), reply(200)]
    async with Loopback(answers(*script)) as server:
        results = await resend(rig, server.url, *range(1, 6), time=time)
    assert [one.outcome for one in results] == ["not_sent", "accepted", "not_sent", "not_sent", "accepted"]
    assert (time.waits, len(server.requests)) == ([7.0, 1.0, 2.0], 5)


async def test_a_provider_that_asks_for_an_hour_gets_no_more_of_the_batch(rig: IntegrationRig) -> None:
    await rig.failed(*range(1, 41))
    time = Time()
    async with Loopback(answers(reply(429, Retry_After="3600"))) as server:
        results = await resend(rig, server.url, *range(1, 41), time=time)
    assert ({one.outcome for one in results}, len(server.requests), time.waits) == ({"not_sent"}, 1, [])
    assert "asks for a wait of 3600 s: nothing was sent" in (results[-1].detail or "")
    assert await rig.column("attempts", 1) == 6


async def test_no_connection_is_tried_again_and_named_as_not_sent(rig: IntegrationRig) -> None:
    await rig.failed(1)
    time = Time()
    async with Loopback(answers(reply(200))) as server:
        url = server.url
    (ended,) = await resend(rig, url, 1, time=time)
    assert (ended.outcome, len(time.waits)) == ("not_sent", 5)
    assert "nothing reached the provider" in (ended.detail or "")
    assert await rig.column("attempts", 1) == 7


async def test_no_answer_in_time_is_tried_again(rig: IntegrationRig) -> None:
    await rig.failed(1, 2)
    store = await rig.store()
    time = Time()
    async with Loopback(never) as server:
        there = providers(server.url, timeout=0.2)
        (ended,) = await redelivery(store, there, time).run(await entries(store, entry_id(1)))
        await there.aclose()
    assert len(server.requests) == 6
    assert ended.outcome == "unknown"
    assert "no answer within 0.2 s" in (ended.detail or "")
    with full_port() as url:
        there = providers(url, timeout=0.1)
        (ended,) = await redelivery(store, there, Time()).run(await entries(store, entry_id(2)))
        await there.aclose()
    assert ended.outcome == "not_sent"


async def test_a_broken_answer_is_tried_again_and_may_succeed(rig: IntegrationRig) -> None:
    await rig.failed(1)
    script = [None, b"not http at all\r\n\r\n", b"HTTP/1.1 503 X\r\nContent-Length: 99\r\n\r\ncut", reply(204)]
    async with Loopback(answers(*script)) as server:
        (ended,) = await resend(rig, server.url, 1)
    assert len({got.headers["idempotency-key"] for got in server.requests}) == 1
    assert (ended.outcome, ended.detail) == ("accepted", "HTTP 204 after 4 tries")
    assert await ids(rig.opened[0], Filter()) == []


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ncut",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        reply(201, b"x" * ((1 << 20) + 1)),
    ],
    ids=["broken off", "badly framed", "too long"],
)
async def test_a_yes_whose_body_does_not_come_whole_is_a_yes(rig: IntegrationRig, answer: bytes) -> None:
    await rig.failed(1)
    async with Loopback(answers(answer)) as server:
        (ended,) = await resend(rig, server.url, 1)
    assert (ended.outcome, len(server.requests)) == ("accepted", 1)


async def test_the_secret_is_kept_nowhere(rig: IntegrationRig) -> None:
    held = {
        "headers": {"Authorization": "Bearer stored-111", "Cookie": "sid=stored-222"},
        "method": "PUT",
        "path": "/x",
    }
    await rig.failed(failed_row(1, originalRequest=json.dumps({**held, "body": {"password": "stored-333"}})))
    async with Loopback(answers(reply(200))) as server:
        (ended,) = await resend(rig, server.url, 1)
    (got,) = server.requests
    assert (got.headers["authorization"], "cookie" in got.headers) == (SECRET, False)
    assert got.json() == {"password": "stored-333"}
    store = rig.opened[0]
    kept = repr(await store.attempts(entry_id(1))) + repr([one.body for one in await events_of(store)]) + repr(ended)
    for secret in ("s3cr3t", "stored-111", "stored-222", "stored-333"):
        assert secret not in kept
    assert re.search("not sent again: (Authorization, Cookie|Cookie, Authorization)", kept)


@pytest.mark.parametrize(
    "stored",
    [
        {"method": "POST", "path": "https://elsewhere.example/x"},
        {"method": "POST", "path": "//elsewhere.example/x"},
        {"method": "POST", "path": "/a b"},
        {"method": "GET ME", "path": "/x"},
        {"path": "/x"},
        {"method": "POST", "path": "/x", "headers": ["a"]},
        {"method": "POST", "path": "/x", "headers": {"a\r\nb": "c"}},
        {"method": "POST", "path": "/x", "headers": {"a": "b\r\nc: d"}},
        [],
    ],
)
async def test_a_request_that_cannot_be_sent_as_meant_is_refused(rig: IntegrationRig, stored: object) -> None:
    await rig.failed(failed_row(1, originalRequest=json.dumps(stored)))
    async with Loopback(answers(reply(200))) as server:
        (ended,) = await resend(rig, server.url, 1)
    assert server.requests == []
    assert (ended.outcome, (ended.detail or "")[:10]) == ("refused", "unparsable")
    assert await rig.column("attempts", 1) == 6
    assert await rig.opened[0].live_claims((entry_id(1),)) == {}


async def test_an_unknown_provider_or_a_missing_secret_is_refused_and_named(rig: IntegrationRig) -> None:
    await rig.failed(1)
    store = await rig.store()
    found = await entries(store, entry_id(1))
    (ended,) = await redelivery(store, providers("http://127.0.0.1:1", "other")).run(found)
    assert (ended.outcome, "[providers.prov-1]" in (ended.detail or "")) == ("refused", True)
    without = providers("http://127.0.0.1:1", secret=None, auth_header="X-Api-Key")
    (ended,) = await redelivery(store, without).run(found)
    assert ended.outcome == "refused"
    for place in ("dlq secrets set provider/prov-1", "dlq-console/provider/prov-1", "provider.prov-1.authorization"):
        assert place in (ended.detail or "")
    (ended,) = await redelivery(store, providers("http://10.0.0.1")).run(found)
    assert (ended.outcome, "plain http only on loopback" in (ended.detail or "")) == ("refused", True)
    assert await store.attempts(entry_id(1)) == ()


async def test_the_header_of_the_secret_can_be_named(rig: IntegrationRig) -> None:
    await rig.failed(failed_row(1, providerId="p-9", providerName="Acme Pay"))
    store = await rig.store()
    async with Loopback(answers(reply(200))) as server:
        there = providers(server.url, "Acme Pay", secret="k-1", auth_header="X-Api-Key", key_header="X-Once")
        await redelivery(store, there).run(await entries(store, entry_id(1)))
        await there.aclose()
    (got,) = server.requests
    assert (got.headers["x-api-key"], "authorization" in got.headers) == ("k-1", False)
    assert uuid.UUID(got.headers["x-once"]).version == 4
    assert "idempotency-key" not in got.headers


async def test_an_open_breaker_holds_the_rest_and_lets_it_go_once_the_provider_is_well(rig: IntegrationRig) -> None:
    await rig.failed(*range(1, 10))
    time = Time()
    script = [reply(503)] * 30 + [reply(200)]
    async with Loopback(answers(*script)) as server:
        results = await resend(rig, server.url, *range(1, 10), time=time)
    assert [one.outcome for one in results] == ["rejected"] * 5 + ["accepted"] * 4
    assert len(server.requests) == 34
    held = [wait for wait in time.waits if wait > 10]
    assert held == [pytest.approx(30, abs=0.01)]


async def test_what_failed_in_one_run_holds_the_next_one_back(rig: IntegrationRig) -> None:
    await rig.failed(*range(1, 8), failed_row(11, providerId="prov-2"))
    async with Loopback(answers(*[reply(503)] * 30, reply(200))) as server, Loopback(answers(reply(200))) as well:
        for number in range(1, 6):
            time = Time()
            await resend(rig, server.url, number, time=time)  # a single replay, by a console that begins anew
            assert max(time.waits) < 10
        await rig.sql("UPDATE dlq_console.breaker SET opened_at = opened_at + 3600")  # so that no slow test outlasts it
        held = Time()
        (ended,) = await resend(rig, server.url, 6, time=held)
        assert (ended.outcome, [wait > 3000 for wait in held.waits]) == ("accepted", [True])
        there = providers(well.url, "prov-2")
        other = Time()
        store = await rig.store()
        (ended,) = await redelivery(store, there, other).run(await entries(store, entry_id(11)))
        await there.aclose()
    assert (ended.outcome, other.waits) == ("accepted", [])


async def test_a_breaker_that_never_closes_gives_the_rest_up(rig: IntegrationRig) -> None:
    await rig.failed(*range(1, 11))
    time = Time()
    async with Loopback(answers(reply(503))) as server:
        results = await resend(rig, server.url, *range(1, 11), time=time)
    assert [one.outcome for one in results] == ["rejected"] * 7 + ["skipped"] * 3
    assert results[-1].detail == "breaker open: nothing was sent"
    assert len(server.requests) == 7 * 6
    assert await rig.column("attempts", 10) == 6


async def test_one_provider_s_breaker_holds_nobody_else(rig: IntegrationRig) -> None:
    others = [failed_row(n, providerId="prov-2") for n in range(11, 14)]
    await rig.failed(*range(1, 9), *others)
    store = await rig.store()
    async with Loopback(answers(reply(500))) as sick, Loopback(answers(reply(200))) as well:
        there = providers(sick.url)
        there._known = {**there._known, **providers(well.url, "prov-2")._known}
        everything = await entries(store, *(entry_id(n) for n in (*range(1, 9), 11, 12, 13)))
        results = {one.entry_id: one.outcome for one in await redelivery(store, there).run(everything)}
        await there.aclose()
    assert [results[entry_id(n)] for n in (11, 12, 13)] == ["accepted"] * 3
    assert len(well.requests) == 3


async def test_two_consoles_send_an_entry_once(rig: IntegrationRig) -> None:
    await rig.failed(*range(1, 6))
    stores = [await rig.store() for _ in range(4)]
    seen = await entries(stores[0], *(entry_id(n) for n in range(1, 6)))
    async with Loopback(answers(reply(200))) as server:
        there = [providers(server.url) for _ in stores]
        runs = [redelivery(store, one).run(seen) for store, one in zip(stores, there, strict=True)]
        results = [one for batch in await asyncio.gather(*runs) for one in batch]
        for one in there:
            await one.aclose()
    assert sum(one.outcome == "accepted" for one in results) == 5
    assert len(server.requests) == 5


async def test_stopping_ends_the_waiting_and_says_what_was_tried(rig: IntegrationRig) -> None:
    await rig.failed(1, 2)
    store = await rig.store()

    async def for_ever(_: float) -> None:
        run.stop()
        await asyncio.Event().wait()

    time = Time()
    time.sleep = for_ever  # type: ignore[method-assign,assignment]  # a wait that only stopping ends
    async with Loopback(answers(reply(503))) as server:
        there = providers(server.url)
        run = redelivery(store, there, time)
        async with asyncio.timeout(20):
            results = await run.run(await entries(store, entry_id(1), entry_id(2)))
        await there.aclose()
    assert [(one.outcome, (one.detail or "")[:24]) for one in results] == [
        ("rejected", "HTTP 503 in 1 try; if th"),
        ("skipped", "stopped: nothing was sen"),
    ]
    assert len(server.requests) == 1


async def test_halt_sends_nothing_more(rig: IntegrationRig) -> None:
    await rig.failed(1, 2)
    store = await rig.store()
    await store.halt(ACTOR, why(note="stop"))
    async with Loopback(answers(reply(200))) as server:
        results = await resend(rig, server.url, 1, 2)
    assert [one.outcome for one in results] == ["not_sent", "not_sent"]
    assert server.requests == []


async def test_the_intent_is_in_the_ledger_before_a_byte_leaves(rig: IntegrationRig) -> None:
    await rig.failed(1)
    seen: list[tuple[Any, ...]] = []

    async def look(got: Received) -> Answer:
        rows = await rig.sql("SELECT state, holds, client_order_id, mode FROM dlq_console.attempt")
        seen.extend((*row, got.headers["idempotency-key"]) for row in rows)
        return reply(200)

    async with Loopback(look) as server:
        await resend(rig, server.url, 1)
    ((state, holds, kept, mode, sent),) = seen
    assert (state, holds, mode) == ("submitting", 1, "live")
    assert kept == sent


async def test_a_retry_whose_owner_is_gone_is_settled_by_hand_and_never_sent(rig: IntegrationRig) -> None:
    await rig.failed(1, 2)
    store = await rig.store()
    (seen,) = await entries(store, entry_id(1))
    claim = await store.claim(seen.id, seen.version, ACTOR, 60)
    assert isinstance(claim, Claim)
    await store.intend(claim, Intent("live", "prov-1", "key-1", b"{}", "hash"), ACTOR, why())
    abandoned = OrphanedCalls(await rig.store(), ACTOR, clock)
    (busy,) = await abandoned.run(())
    assert (busy.outcome, busy.detail) == ("unknown", "its owner may still be sending it")
    await rig.sql("UPDATE dlq_console.claim SET expires_at = 0")
    results = await abandoned.run((entry_id(1), entry_id(2)))
    assert {one.entry_id: one.outcome for one in results} == {entry_id(1): "unknown", entry_id(2): "skipped"}
    assert await rig.column("attempts", 1) == 7
    (attempt,) = await store.attempts(entry_id(1))
    assert (attempt.outcome, "key-1" in (attempt.error or "")) == ("unknown", True)
    assert [one.outcome for one in await abandoned.run(())] == ["unknown"]
    async with Loopback(answers(reply(200))) as server:
        (refused,) = await resend(rig, server.url, 1)
        assert (refused.outcome, server.requests) == ("refused", [])
        assert await store.settle(attempt, Result("not_sent", evidence="their support looked"), ACTOR, why())
        (again,) = await resend(rig, server.url, 1)
    assert (again.outcome, len(server.requests)) == ("accepted", 1)
    assert again.client_order_id != "key-1"
    assert await rig.column("attempts", 1) == 7


async def test_a_cancelled_batch_still_records_what_became_of_its_call(rig: IntegrationRig) -> None:
    await rig.failed(1)
    store = await rig.store()
    async with Loopback(never) as server:
        there = providers(server.url)
        running = asyncio.ensure_future(redelivery(store, there).run(await entries(store, entry_id(1))))
        await server.arrived.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await there.aclose()
    assert len(server.requests) == 1
    assert await ids(store, only("in_doubt")) == [entry_id(1)]
    (attempt,) = await store.attempts(entry_id(1))
    assert (attempt.outcome, attempt.client_order_id) == ("unknown", server.requests[0].headers["idempotency-key"])
    assert "may have acted" in (attempt.error or "")
