"""A store that is away while a stored call is sent again: what is recorded, what is told, and what stays open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from backends.store import StoreError, Unreachable
from console.services.replay import attempt as record
from tests.support.http_server import Loopback, reply
from tests.support.integration import IntegrationRig, answers, clock, entry_id, resend
from tests.support.store import ids, only


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


def failing(right: Any, *problems: StoreError, committed: bool = False) -> Any:
    """A store method that fails so often and then works; `committed`: it does its work, and only its answer is lost."""
    left = list(problems)

    async def method(*given: Any, **named: Any) -> Any:
        if not left:
            return await right(*given, **named)
        if committed:
            await right(*given, **named)
        raise left.pop(0)

    return method


async def test_an_intent_in_doubt_is_withdrawn_once_the_store_is_back(
    rig: IntegrationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.001)
    await rig.failed(1)
    store = await rig.store()
    lost = failing(store.intend, StoreError("lost while it committed"), committed=True)
    monkeypatch.setattr(store, "intend", lost)
    monkeypatch.setattr(store, "attempts", failing(store.attempts, *[Unreachable("away")] * 3))
    async with Loopback(answers(reply(200))) as server:
        (ended,) = await resend(rig, server.url, 1)
    assert (ended.outcome, ended.detail) == ("skipped", "lost while it committed: nothing was sent")
    assert server.requests == []
    assert [one.outcome for one in await store.attempts(entry_id(1))] == ["not_sent"]
    assert await store.live_claims((entry_id(1),)) == {}
    assert await rig.column("attempts", 1) == 6


async def test_a_claim_is_given_back_when_the_request_cannot_be_read(
    rig: IntegrationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.failed(1)
    store = await rig.store()
    monkeypatch.setattr(store, "request", failing(store.request, Unreachable("away")))
    async with Loopback(answers(reply(200))) as server:
        (ended,) = await resend(rig, server.url, 1)
    assert (ended.outcome, ended.detail) == ("skipped", "away: nothing was sent")
    assert server.requests == []
    assert await store.live_claims((entry_id(1),)) == {}


async def test_a_batch_waits_for_a_store_that_comes_back(rig: IntegrationRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_AGAIN_SECONDS", 0.001)
    await rig.failed(1)
    store = await rig.store()
    monkeypatch.setattr(store, "clock", failing(store.clock, Unreachable("away")))
    monkeypatch.setattr(store, "claim", failing(store.claim, *[Unreachable("away")] * 3))
    async with Loopback(answers(reply(200))) as server:
        (ended,) = await resend(rig, server.url, 1)
    assert (ended.outcome, len(server.requests)) == ("accepted", 1)


async def test_an_outcome_whose_commit_lost_its_answer_is_told_as_it_is(
    rig: IntegrationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.001)
    await rig.failed(1)
    store = await rig.store()
    monkeypatch.setattr(store, "conclude", failing(store.conclude, StoreError("lost"), committed=True))
    async with Loopback(answers(reply(200))) as server:
        (ended,) = await resend(rig, server.url, 1)
    assert (ended.outcome, ended.detail) == ("accepted", "HTTP 200 after 1 try")
    assert [one.outcome for one in await store.attempts(entry_id(1))] == ["accepted"]


async def test_an_outcome_that_cannot_be_recorded_is_unknown(
    rig: IntegrationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.0)
    await rig.failed(1)
    store = await rig.store()
    monkeypatch.setattr(store, "conclude", failing(store.conclude, *[Unreachable("the disk is full")] * 1000))
    async with Loopback(answers(reply(200))) as server:
        (ended,) = await resend(rig, server.url, 1)
    told = "the outcome accepted (HTTP 200 after 1 try) could not be recorded: the disk is full"
    assert (ended.outcome, ended.detail) == ("unknown", told)
    assert await ids(store, only("in_flight")) == [entry_id(1)]


async def test_nothing_is_sent_when_the_lease_is_nearly_over(
    rig: IntegrationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.services.resend.provider._SLACK_SECONDS", -9.5)
    await rig.failed(1)
    store = await rig.store()
    right = store.intend

    async def slow(*given: Any) -> Any:
        attempt = await right(*given)
        await asyncio.sleep(0.6)
        return attempt

    monkeypatch.setattr(store, "intend", slow)
    async with Loopback(answers(reply(200))) as server:
        (ended,) = await resend(rig, server.url, 1)
    assert (ended.outcome, ended.detail) == ("not_sent", record.TOO_LATE)
    assert server.requests == []
    assert await ids(store, only("pending")) == [entry_id(1)]
    assert await rig.column("attempts", 1) == 6


async def test_an_attempt_is_dated_by_the_store(rig: IntegrationRig) -> None:
    await rig.failed(1)
    async with Loopback(answers(reply(400))) as server:
        await resend(rig, server.url, 1)
    store = rig.opened[0]
    (attempt,) = await store.attempts(entry_id(1))
    assert attempt.finished_at is not None
    assert attempt.started_at <= attempt.finished_at
    assert clock().isoformat() < attempt.started_at
    assert attempt.finished_at[:10] == (await store.clock()).isoformat()[:10]
