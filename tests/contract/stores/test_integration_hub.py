"""A hub through its own API: its entries keep the contract of a store, its retries are followed until they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from backends.records import Filter, Selection
from backends.sql.hub_ledger import RemoteStore
from backends.store import BadTarget, ClaimRefused, Unreachable
from console.cli.context import open_configured
from console.services.layout_fields import days_left, origin, stored_credentials
from console.services.replay import attempt as record
from console.services.replay.background_run import RunHandle
from console.services.replay.outcome import EntryOutcome
from console.services.replay.target import WorkTools
from console.services.replay.venue_pool import VenuePool
from console.services.resend.hub import HubBatch, Patience
from console.services.resend.hub_source import HubSource, HubStore, hub_of, open_hub
from console.services.resend.plan import ResendTools
from console.services.resend.target import HubTarget
from console.settings.config import Config, StoreConfig
from tests.support.http_server import Loopback, never, reply
from tests.support.integration import Time, entry_id
from tests.support.owner_session import rows_of
from tests.support.store import ACTOR, EVERYTHING, events_of, ids, only, verdict, walk, walk_back, why
from tests.support.venue.hub import TOKEN, FakeHub, failed_item
from venues.credentials import Credentials
from venues.integration.hub import Hub, HubError, NotFound

NOW = datetime(2026, 4, 18, 16, tzinfo=UTC)
Open = Callable[..., Awaitable[RemoteStore]]


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def attach(postgres_db: str, stack: AsyncExitStack) -> Open:
    async def opened(
        handler: Any, *, token: str = TOKEN, read_only: bool = False, deletes: bool = False, one_reader: bool = False
    ) -> RemoteStore:
        server = await stack.enter_async_context(Loopback(handler))
        settings = HubStore(server.url, postgres_db, on_dismiss="delete" if deletes else "keep")
        store = await open_hub(settings, Credentials({"token": token}), read_only=read_only, one_reader=one_reader)
        stack.push_async_callback(store.aclose)
        return cast("RemoteStore", store)

    return opened


def hub(count: int = 3) -> FakeHub:
    return FakeHub().add(*(failed_item(n) for n in range(1, count + 1)))


async def retry(store: RemoteStore, *numbers: int, time: Time | None = None) -> list[EntryOutcome]:
    there = hub_of(store)
    assert there is not None
    patience = Patience((time or Time()).sleep, wait=5)
    batch = HubBatch(store, there, ACTOR, lambda: NOW, patience=patience)
    found = [one for number in numbers if (one := await store.get(entry_id(number))) is not None]
    return list(await batch.run(found))


@pytest.mark.parametrize("one_reader", [True, False])
async def test_a_verb_reads_the_ledger_of_a_hub_in_one_session(
    attach: Open, postgres_db: str, one_reader: bool
) -> None:
    store = await attach(hub(), one_reader=one_reader)
    assert len(await ids(store)) == 3
    await store.latest(None, 10)
    here = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'dlq-console'"
    sessions = await rows_of(postgres_db, here)
    assert len(sessions) == (1 if one_reader else 2)


async def test_every_page_of_the_hub_is_read_a_hundred_at_a_time(attach: Open) -> None:
    there = FakeHub().add(*(failed_item(n, createdAt=f"2026-04-18T1{n % 3}:00:00Z") for n in range(1, 251)))
    store = await attach(there)
    found = await walk(store, Filter(), limit=60)
    assert len({one.id for one in found}) == 250
    assert [one.row_key for one in found] == sorted(one.row_key for one in found)
    assert [one.id for one in await walk_back(store, Filter(), found[-1], limit=70)] == [one.id for one in found]
    newest = await walk(store, Filter(), limit=60, newest_first=True)
    assert [one.id for one in newest] == [one.id for one in found][::-1]
    lists = [target for method, target in there.asked if method == "GET" and "page=" in target]
    assert all("limit=100" in target for target in lists)
    assert {target.partition("page=")[2].partition("&")[0] for target in lists} == {"1", "2", "3"}


async def test_an_entry_shows_as_one_of_a_table_would(attach: Open) -> None:
    request = {"method": "POST", "path": "/x", "headers": {"Authorization": "Bearer abcdefgh"}, "body": {"n": 1.10}}
    store = await attach(FakeHub().add(failed_item(1, originalRequest=request, attempts=7)))
    found = await store.get(entry_id(1))
    assert found is not None
    assert (found.layout, found.get("attempts"), origin(found)) == ("integration", 7, "Acme Pay")
    assert "abcdefgh" not in repr(found)
    assert stored_credentials(found) == ("headers.Authorization",)
    assert days_left(found, NOW) == 30
    assert await store.get(entry_id(9)) is None
    assert store.info.layout == "integration"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Filter(venue="prov-2"), [2]),
        (Filter(venue="Acme Pay"), [1, 2, 3]),
        (Filter(account="t-3"), [3]),
        (Filter(since=datetime(2026, 4, 18, 14, 32, 2, tzinfo=UTC)), [2, 3]),
        (Filter(until=datetime(2026, 4, 18, 14, 32, 2, tzinfo=UTC)), [1]),
        (Filter(terms=("TIMEOUT",)), [3]),
        (Filter(without=("timeout",)), [1, 2]),
        (Filter(market="x"), []),
    ],
)
async def test_filters_are_those_of_the_table(attach: Open, where: Filter, expected: list[int]) -> None:
    there = FakeHub().add(
        failed_item(1), failed_item(2, providerId="prov-2"), failed_item(3, tenantId="t-3", error="timeout")
    )
    store = await attach(there)
    assert await ids(store, where) == [entry_id(n) for n in expected]
    assert sum((await store.counts(where)).by_state.values()) == len(expected)


async def test_a_retry_that_succeeds_is_gone_from_the_hub(attach: Open) -> None:
    there = hub()
    store = await attach(there)
    (ended,) = await retry(store, 2)
    assert ended.outcome == "accepted"
    assert ended.client_order_id is not None
    assert await ids(store, Filter()) == [entry_id(1), entry_id(3)]
    assert [one.outcome for one in await store.attempts(entry_id(2))] == ["accepted"]
    assert there.asked.count(("POST", f"/integrations/dlq/{entry_id(2)}/retry")) == 1
    assert (await verdict(store))[0] is None


async def test_a_retry_that_fails_is_told_in_the_hub_s_words_and_can_be_tried_again(attach: Open) -> None:
    there = hub()
    there.ending = "bad"
    store = await attach(there)
    (ended,) = await retry(store, 1)
    assert (ended.outcome, "HTTP 500 again" in (ended.detail or "")) == ("rejected", True)
    assert await ids(store, only("pending")) == [entry_id(n) for n in (1, 2, 3)]
    there.ending = "good"
    (ended,) = await retry(store, 1)
    assert ended.outcome == "accepted"


async def test_a_retry_that_stays_queued_is_in_doubt_until_the_hub_says_more(attach: Open) -> None:
    there = hub()
    there.ending = ""
    store = await attach(there)
    time = Time()
    (ended,) = await retry(store, 1, time=time)
    assert (ended.outcome, time.waits) == ("unknown", [1.0] * 5)
    assert await ids(store, only("in_doubt")) == [entry_id(1)]
    assert [one.outcome for one in await retry(store, 1)] == ["refused"]
    batch = HubBatch(store, cast("Hub", hub_of(store)), ACTOR, lambda: NOW)
    assert [one.outcome for one in await batch.settle(())] == ["unknown"]
    there.ending = "bad"
    assert [one.outcome for one in await batch.settle((entry_id(1),))] == ["rejected"]
    assert await ids(store, only("pending")) == [entry_id(n) for n in (1, 2, 3)]
    assert sum(method == "POST" for method, _ in there.asked) == 1


async def test_a_lost_answer_to_a_retry_is_looked_for_in_the_entry(attach: Open) -> None:
    there = hub(1)
    store = await attach(there)
    there.loses_answers = True
    (ended,) = await retry(store, 1)
    assert ended.outcome == "accepted"


async def test_a_retry_that_may_be_queued_stays_in_doubt_until_the_hub_shows_it(attach: Open) -> None:
    there = hub(1)
    store = await attach(there)
    there.answer = reply(503)
    (ended,) = await retry(store, 1)
    assert (ended.outcome, ended.detail) == ("unknown", "HTTP 503: it may be queued, no end within 5 s")
    batch = HubBatch(store, cast("Hub", hub_of(store)), ACTOR, lambda: NOW)
    (asked,) = await batch.settle(())
    assert (asked.outcome, "may still be queued" in str(asked.detail)) == ("unknown", True)
    assert await ids(store, only("in_doubt")) == [entry_id(1)]
    assert sum(method == "POST" for method, _ in there.asked) == 1


async def test_what_moved_since_it_was_seen_is_not_retried(attach: Open) -> None:
    there = hub(1)
    store = await attach(there)
    seen = await store.get(entry_id(1))
    assert seen is not None
    there.items[entry_id(1)]["attempts"] = 9
    batch = HubBatch(store, cast("Hub", hub_of(store)), ACTOR, lambda: NOW)
    (ended,) = await batch.run([seen])
    assert (ended.outcome, ended.detail) == ("skipped", "changed since it was looked at")
    assert there.queued == {}


@pytest.mark.parametrize("deletes", [False, True])
async def test_dismiss_is_ours_and_deletes_there_only_where_the_config_says_so(attach: Open, deletes: bool) -> None:
    there = hub()
    store = await attach(there, deletes=deletes)
    chosen = Selection.of([cast("Any", await store.get(entry_id(n))) for n in (1, 2)])
    assert (await store.dismiss(chosen, ACTOR, why())).done == chosen.ids
    assert await ids(store, Filter()) == [entry_id(3)]
    assert sorted(there.items) == [entry_id(n) for n in ((3,) if deletes else (1, 2, 3))]
    again = await store.dismiss(chosen, ACTOR, why())
    assert (again.done, {now for _, now in again.changed}) == ((), {"gone"} if deletes else {"dismissed"})
    if not deletes:
        assert (await store.restore(Selection(chosen.picks[:1]), ACTOR, why())).done == (entry_id(1),)
        assert await ids(store, Filter()) == [entry_id(1), entry_id(3)]
        assert dict((await store.counts(EVERYTHING)).by_state) == {"pending": 2, "dismissed": 1}
    kinds = [json.loads(one.body)["kind"] for one in await events_of(store)]
    assert kinds[0] == "dismiss"


async def test_halt_and_notes_live_in_the_ledger(attach: Open) -> None:
    store = await attach(hub())
    await store.note(entry_id(1), ACTOR, why(note="asked"))
    assert [one.text for one in await store.notes(entry_id(1))] == ["asked"]
    await store.halt(ACTOR, why(note="stop"))
    assert [one.outcome for one in await retry(store, 1, 2)] == ["not_sent", "not_sent"]


async def test_an_outcome_waits_for_a_store_that_is_away_for_a_moment(
    attach: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.001)
    store = await attach(hub())
    conclude, failures = store.conclude, [1, 2, 3]

    async def away(*given: Any) -> bool:
        if failures:
            failures.pop()
            raise Unreachable("away")
        return await conclude(*given)

    monkeypatch.setattr(store, "conclude", away)
    (ended,) = await retry(store, 1)
    assert (ended.outcome, failures) == ("accepted", [])
    assert [one.outcome for one in await store.attempts(entry_id(1))] == ["accepted"]


async def test_a_refused_intent_gives_the_claim_back(attach: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    there = hub()
    store = await attach(there)

    async def refuse(*_: object) -> ClaimRefused:
        return ClaimRefused(entry_id(1), "halt is set on this store", "halt")

    monkeypatch.setattr(store, "intend", refuse)
    assert [one.outcome for one in await retry(store, 1, 2)] == ["not_sent", "not_sent"]
    assert await store.live_claims((entry_id(1), entry_id(2))) == {}
    assert there.queued == {}


async def test_an_entry_that_changed_gives_its_claim_back(attach: Open) -> None:
    there = hub(2)
    store = await attach(there)
    seen = [cast("Any", await store.get(entry_id(n))) for n in (1, 2)]
    there.items[entry_id(1)]["attempts"] = 9
    del there.items[entry_id(2)]
    batch = HubBatch(store, cast("Hub", hub_of(store)), ACTOR, lambda: NOW)
    assert [one.detail for one in await batch.run(seen)] == ["changed since it was looked at", "gone"]
    assert await store.live_claims((entry_id(1), entry_id(2))) == {}
    assert there.queued == {}


async def test_stop_ends_the_settling_of_retries_between_entries(attach: Open) -> None:
    there, handle = hub(), RunHandle()
    there.ending = ""
    store = await attach(there)
    assert [one.outcome for one in await retry(store, 1, 2, 3)] == ["unknown"] * 3
    there.ending, there.on_look = "good", handle.stop
    work = WorkTools(store, VenuePool({}, lambda *_: Credentials({})))
    ended = await HubTarget(ResendTools(ACTOR, lambda: NOW)).reconcile(work, (), (), handle)
    assert [one.outcome for one in ended] == ["accepted", "skipped", "skipped"]
    assert [one.entry_id for one in await store.open_attempts()] == [entry_id(2), entry_id(3)]


async def test_an_entry_that_is_not_in_doubt_is_named(attach: Open) -> None:
    work = WorkTools(await attach(hub()), VenuePool({}, lambda *_: Credentials({})))
    target = HubTarget(ResendTools(ACTOR, lambda: NOW))
    (ended,) = await target.reconcile(work, (entry_id(1),), (), RunHandle())
    assert (ended.outcome, ended.detail) == ("skipped", "not in doubt")


async def test_a_hub_that_does_not_answer_is_unreachable(attach: Open) -> None:
    wrong = await attach(hub(), token="wrong")
    with pytest.raises(Unreachable, match="token was refused"):
        await wrong.page(Filter(), limit=1)
    broken = await attach(lambda _: reply(200, b"<html>"))
    with pytest.raises(Unreachable, match="not a JSON object"):
        await broken.page(Filter(), limit=1)
    down = await attach(lambda _: reply(503))
    with pytest.raises(Unreachable, match="HTTP 503"):
        await down.get(entry_id(1))


async def test_what_the_config_lacks_is_said(postgres_db: str) -> None:
    with pytest.raises(BadTarget, match=r"dlq secrets set hub/desk .*dlq-console/hub/desk, .* file hub\.desk\.token"):
        await open_hub(HubStore("http://127.0.0.1:1", postgres_db, name="desk"), None, read_only=False)
    token = Credentials({"token": TOKEN})
    with pytest.raises(BadTarget, match="Postgres"):
        await open_hub(HubStore("http://127.0.0.1:1", "/tmp/x.db"), token, read_only=False)
    with pytest.raises(BadTarget, match="loopback"):
        await open_hub(HubStore("http://hub.example", postgres_db), token, read_only=False)


async def test_a_token_that_others_could_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "hub.desk.token"
    token.write_text(TOKEN)
    token.chmod(0o644)
    desk = StoreConfig("desk", "postgresql://nobody@127.0.0.1:1/x", hub_url="http://127.0.0.1:1")
    with pytest.raises(BadTarget, match="readable by you alone"):
        await open_configured(desk, Config(credentials_dir=tmp_path), read_only=False, table=None)


async def test_the_hub_s_changes_are_noticed(attach: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.services.resend.hub_source._POLL_SECONDS", 0.01)
    there = hub(1)
    store = await attach(there)
    async with asyncio.timeout(20), aclosing(cast("Any", store.changes())) as changes:
        assert (await anext(changes)).kind == "changed"
        there.add(failed_item(2))
        assert (await anext(changes)).kind == "changed"


async def test_retry_all_says_how_many_the_hub_took_on() -> None:
    there = FakeHub().add(failed_item(1), failed_item(2, providerId="prov-2"), failed_item(3))
    async with Loopback(there) as server:
        client = Hub(server.url, Credentials({"token": TOKEN}))
        assert await client.retry_all("prov-1") == 2
        assert await client.retry_all() == 3
        await client.delete(entry_id(1))
        with pytest.raises(NotFound):
            await client.delete(entry_id(1))
        since = datetime(2026, 4, 18, 14, 32, 3, tzinfo=UTC) - timedelta(seconds=1)
        page = await client.list(provider="prov-1", since=since, limit=500)
        assert ([one.id for one in page.items], page.total) == ([entry_id(3)], 1)
        await client.aclose()
    assert "hub-t0ken" not in repr(client.__dict__)


async def test_a_hub_that_hangs_is_given_up() -> None:
    async with Loopback(never) as server:
        client = Hub(server.url, Credentials({"token": TOKEN}), timeout=0.1)
        with pytest.raises(HubError, match=r"no answer within 0\.1 s"):
            await HubSource(client).hub.list()
        await client.aclose()
