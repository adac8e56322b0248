"""Entries whose row is gone, and requests that a hub's list does not tell: shown, kept and searched all the same."""

from __future__ import annotations

import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from backends.records import Filter, Selection
from backends.sql.hub_ledger import RemoteStore
from console.cli.printing.output import history_json, history_lines
from console.services.resend.hub import HubBatch, Patience
from console.services.resend.hub_source import HubStore, hub_of, open_hub
from console.services.triage.archive import archive, verify
from console.services.triage.triage import Query, Triage
from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.integration import IntegrationRig, Time, clock, entries, entry_id, providers, redelivery
from tests.support.store import ACTOR, EVERYTHING, ids, why
from tests.support.venue.hub import TOKEN, FakeHub, failed_item
from venues.credentials import Credentials

BEGINNING, LATER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


class TerseHub(FakeHub):
    """Its list does not tell the requests."""

    def __call__(self, got: Received) -> Answer:
        told = super().__call__(got)
        if got.method != "GET" or not got.path.endswith("/dlq") or told is None:
            return told
        body = json.loads(told.partition(b"\r\n\r\n")[2])
        body["items"] = [{k: v for k, v in one.items() if k != "originalRequest"} for one in body["items"]]
        return reply(200, body)


async def opened(database: str, stack: AsyncExitStack, hub: FakeHub) -> RemoteStore:
    server = await stack.enter_async_context(Loopback(hub))
    store = await open_hub(HubStore(server.url, database), Credentials({"token": TOKEN}), read_only=False)
    stack.push_async_callback(store.aclose)
    return cast("RemoteStore", store)


async def test_what_was_sent_and_deleted_is_still_shown_and_archived(rig: IntegrationRig, tmp_path: Path) -> None:
    await rig.failed(1, 2, 3)
    store = await rig.store(on_success="delete", on_dismiss="delete")
    async with Loopback(lambda _: reply(200)) as server:
        there = providers(server.url)
        await redelivery(store, there).run(await entries(store, entry_id(1)))
        await there.aclose()
    await store.dismiss(Selection.of(await entries(store, entry_id(2))), ACTOR, why())
    assert await ids(store, EVERYTHING) == [entry_id(3)]
    triage = Triage(store, ACTOR, clock)
    for number, state, outcomes in ((1, "replayed", ["accepted"]), (2, "dismissed", [])):
        history = await triage.history(entry_id(number))
        assert history is not None
        shown = json.loads(history_json(history, {}))
        assert (shown["entry"]["dlq_id"], shown["entry"]["state"]) == (entry_id(number), state)
        assert [one["outcome"] for one in shown["attempts"]] == outcomes
        assert shown["audit"]
        assert "its row is gone" in "\n".join(history_lines(history, {}))
    assert await triage.history(entry_id(9)) is None
    made = await archive(store, LATER, tmp_path / "a.zip", actor=ACTOR, now=clock())
    assert (made.entries, made.attempts, verify(made.path).sound) == (3, 1, True)
    lines = [json.loads(line) for line in zipfile.ZipFile(made.path).read("entries.jsonl").splitlines()]
    assert [(one["id"], one["state"], one.get("gone")) for one in lines] == [
        (entry_id(3), "pending", None),
        (entry_id(1), "replayed", True),
        (entry_id(2), "dismissed", True),
    ]
    early = await archive(store, BEGINNING, tmp_path / "b.zip", actor=ACTOR, now=clock())
    assert (early.entries, early.attempts) == (0, 0)


async def test_an_entry_that_its_hub_no_longer_has_is_still_shown(postgres_db: str, stack: AsyncExitStack) -> None:
    store = await opened(postgres_db, stack, FakeHub().add(failed_item(1)))
    seen = await store.get(entry_id(1))
    assert seen is not None
    patience = Patience(Time().sleep, wait=3)
    await HubBatch(store, cast("Any", hub_of(store)), ACTOR, clock, patience=patience).run([seen])
    history = await Triage(store, ACTOR, clock).history(entry_id(1))
    assert history is not None
    assert (history.entry.entry.state, [one.outcome for one in history.attempts]) == ("replayed", ["accepted"])


async def test_requests_that_the_list_does_not_tell_are_fetched_where_asked_for(
    postgres_db: str, stack: AsyncExitStack, tmp_path: Path
) -> None:
    hub = TerseHub().add(*(failed_item(n, originalRequest={"method": "POST", "path": f"/v{n}"}) for n in (1, 2, 3)))
    store = await opened(postgres_db, stack, hub)
    page = await store.page(Filter(), limit=10)
    assert {(one.get("originalRequest"), one.clipped) for one in page.entries} == {(None, True)}
    whole = [one.entry.text("originalRequest") async for one in Triage(store, ACTOR, clock).stream(Query())]
    assert ["/v1" in whole[0], "/v2" in whole[1], "/v3" in whole[2]] == [True] * 3
    assert await ids(store, Filter(terms=("/v2",))) == [], "a text is looked for in the error"
    assert store.shortfall is None
    made = await archive(store, LATER, tmp_path / "a.zip", actor=ACTOR, now=clock())
    assert b"/v3" in zipfile.ZipFile(made.path).read("entries.jsonl")


class SilentHub(TerseHub):
    """Tells no request at all."""

    def __call__(self, got: Received) -> Answer:
        told = super().__call__(got)
        if got.method != "GET" or told is None or b'"originalRequest"' not in told:
            return told
        return reply(200, {**json.loads(told.partition(b"\r\n\r\n")[2]), "originalRequest": None})


async def test_requests_that_a_hub_does_not_tell_are_named(postgres_db: str, stack: AsyncExitStack) -> None:
    store = await opened(postgres_db, stack, SilentHub().add(*(failed_item(n) for n in (1, 2))))
    whole = [one.entry.get("originalRequest") async for one in Triage(store, ACTOR, clock).stream(Query())]
    assert whole == [None, None]
    assert store.shortfall == "the requests of 2 entries are missing: the hub does not give them"
