"""What a hub's answers prove: a 404 only with its list, a refused token nothing, a list that moves is read again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from backends.records import Filter, Selection
from backends.sql.hub_ledger import RemoteStore
from backends.store import ActRefused, OnSuccess
from console.services.replay.outcome import EntryOutcome
from console.services.resend import hub_list
from console.services.resend.hub import HubBatch, Patience
from console.services.resend.hub_source import HubStore, hub_of, open_hub
from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.integration import Time, entry_id
from tests.support.store import ACTOR, events_of, ids, only, verdict, why
from tests.support.venue.hub import TOKEN, FakeHub, failed_item
from venues.credentials import Credentials
from venues.integration.hub import Hub

NOW = datetime(2026, 4, 18, 16, tzinfo=UTC)


@dataclass
class Desk:
    """A store on a hub, behind whatever stands in front of it."""

    database: str
    stack: AsyncExitStack
    hub: FakeHub = field(default_factory=lambda: FakeHub().add(*(failed_item(n) for n in (1, 2, 3))))
    front: Callable[[Received], Answer] | None = None  # answers instead of the hub where it does not return None
    token: str = TOKEN
    time: Time = field(default_factory=Time)

    def __call__(self, got: Received) -> Answer:
        said = self.front(got) if self.front is not None else None
        return self.hub(got) if said is None else said

    async def store(self, *, on_dismiss: OnSuccess = "keep", token: str = TOKEN) -> RemoteStore:
        server = await self.stack.enter_async_context(Loopback(self))
        settings = HubStore(server.url, self.database, on_dismiss=on_dismiss)
        store = await open_hub(
            settings,
            Credentials({"token": token}),
            read_only=False,
            renewed=lambda: Credentials({"token": self.token}),
        )
        self.stack.push_async_callback(store.aclose)
        cast("Any", store).source._sleep = self.time.sleep
        return cast("RemoteStore", store)

    def batch(self, store: RemoteStore, **given: Any) -> HubBatch:
        patience = Patience(self.time.sleep, wait=3)
        return HubBatch(store, cast("Hub", hub_of(store)), ACTOR, lambda: NOW, patience=patience, **given)

    async def retry(self, store: RemoteStore, *numbers: int, **given: Any) -> list[EntryOutcome]:
        found = [one for number in numbers if (one := await store.get(entry_id(number))) is not None]
        return list(await self.batch(store, **given).run(found))

    @property
    def posts(self) -> int:
        return sum(method == "POST" for method, _ in self.hub.asked)


@pytest.fixture
async def desk(postgres_db: str) -> AsyncIterator[Desk]:
    async with AsyncExitStack() as stack:
        yield Desk(postgres_db, stack)


def gateway(got: Received) -> Answer:
    """Everything but the retries themselves: 404, as a gateway says it."""
    return None if got.method == "POST" else reply(404, b"<html>no such route</html>")


def entries_only(got: Received) -> Answer:
    """The single entries are hidden; the list answers."""
    hidden = got.method == "GET" and got.path.rpartition("/")[2] != "dlq"
    return reply(404, {"error": "gone"}) if hidden else None


async def test_gone_with_its_list_is_accepted(desk: Desk) -> None:
    store = await desk.store()
    (ended,) = await desk.retry(store, 1)
    assert (ended.outcome, ended.detail) == ("accepted", "gone from the hub")
    assert (await verdict(store))[0] is None


LISTS = {
    "a gateway's 404": reply(404, b"<html>"),
    "an error": reply(503, {"error": "x"}),
    "no JSON": reply(200, b"<html>welcome</html>"),
    "another JSON": reply(200, {"hello": "world"}),
    "no total": reply(200, {"items": [], "page": 1, "limit": 100}),
    "another page": reply(200, {"items": [], "total": 0, "page": 7, "limit": 100}),
    "a list of nothing": reply(200, []),
    "an empty page of many": reply(200, {"items": [], "total": 9, "page": 1, "limit": 100}),
    "entries without attempts": reply(200, {"items": [{"id": "x"}], "total": 1, "page": 1, "limit": 100}),
    "a refused token": reply(401, {"error": "x"}),
    "a redirect": reply(302, Location="/login"),
}


@pytest.mark.parametrize("answer", LISTS.values(), ids=LISTS.keys())
async def test_a_404_without_its_list_proves_nothing(desk: Desk, answer: bytes) -> None:
    store = await desk.store()
    seen = await store.get(entry_id(1))
    assert seen is not None
    desk.hub.ending = ""
    looking = False

    def front(got: Received) -> Answer:
        if not looking or got.method == "POST":
            return None
        return answer if got.path.endswith("/dlq") else reply(404, b"<html>")

    desk.front = front
    batch = desk.batch(store)
    right = cast("Hub", hub_of(store)).retry

    async def then_hidden(entry: str) -> Any:
        nonlocal looking
        answered = await right(entry)
        looking = True
        return answered

    cast("Any", hub_of(store)).retry = then_hidden
    (ended,) = await batch.run([seen])
    assert ended.outcome == "unknown"
    assert [one.outcome for one in await batch.settle(())] == ["unknown"]
    looking = False
    assert await ids(store, only("in_doubt")) == [entry_id(1)]


async def test_an_entry_that_only_its_list_shows_is_not_gone(desk: Desk) -> None:
    store = await desk.store()
    desk.hub.ending = ""
    assert [one.outcome for one in await desk.retry(store, 1)] == ["unknown"]
    desk.front = entries_only
    assert [one.outcome for one in await desk.batch(store).settle(())] == ["unknown"]
    del desk.hub.items[entry_id(1)]
    (ended,) = await desk.batch(store).settle(())
    assert (ended.outcome, ended.detail) == ("accepted", "gone from the hub")


ASKED = {
    "401": (reply(401, {"error": "x"}), "not_sent", "pending"),
    "403": (reply(403, b"<html>"), "not_sent", "pending"),
    "429": (reply(429), "not_sent", "pending"),
    "409": (reply(409, {"error": "already queued"}), "unknown", "in_doubt"),
    "404 while listed": (reply(404), "unknown", "in_doubt"),
    "400": (reply(400, {"error": "no"}), "rejected", "pending"),
    "a gateway's 400": (reply(400, b"<html>"), "unknown", "in_doubt"),
    "another 200": (reply(200, b"<html>welcome</html>"), "unknown", "in_doubt"),
    "202 of another entry": (reply(202, {"dlqId": "x", "status": "queued"}), "unknown", "in_doubt"),
    "302": (reply(302, Location="/login"), "unknown", "in_doubt"),
    "408": (reply(408), "unknown", "in_doubt"),
    "500": (reply(500, {"error": "x"}), "unknown", "in_doubt"),
}


@pytest.mark.parametrize(("answer", "outcome", "state"), ASKED.values(), ids=ASKED.keys())
async def test_what_each_answer_to_a_retry_means(desk: Desk, answer: bytes, outcome: str, state: Any) -> None:
    store = await desk.store()
    desk.hub.answer = answer
    (ended,) = await desk.retry(store, 1)
    assert ended.outcome == outcome
    assert entry_id(1) in await ids(store, only(state))
    assert desk.posts == 1


@pytest.mark.parametrize("body", [{"dlqId": "x", "status": "queued", "idempotencyKey": "k"}, {"hello": "world"}])
async def test_a_queueing_that_is_not_the_hub_s_own_is_not_told_as_one(desk: Desk, body: dict[str, str]) -> None:
    store = await desk.store()
    desk.hub.answer = reply(202, body)
    (ended,) = await desk.retry(store, 1)
    assert (ended.outcome, ended.client_order_id) == ("unknown", None)
    assert (ended.detail or "").startswith("the answer to the retry is not the hub's: it may be queued")


async def test_fewer_attempts_than_before_tell_nothing(desk: Desk) -> None:
    """As after a backup was brought back."""
    store = await desk.store()
    desk.hub.ending = ""
    assert [one.outcome for one in await desk.retry(store, 1)] == ["unknown"]
    desk.hub.items[entry_id(1)]["attempts"] = 2
    assert [one.outcome for one in await desk.batch(store).settle(())] == ["unknown"]


async def test_a_retry_of_what_is_gone_by_the_list_is_accepted(desk: Desk) -> None:
    store = await desk.store()
    seen = await store.get(entry_id(1))
    assert seen is not None
    batch = desk.batch(store)
    right = cast("Hub", hub_of(store)).retry

    async def too_late(entry: str) -> Any:
        del desk.hub.items[entry]
        return await right(entry)

    cast("Any", hub_of(store)).retry = too_late
    (ended,) = await batch.run([seen])
    assert (ended.outcome, ended.detail) == ("accepted", "gone from the hub")


async def test_a_refused_token_is_read_anew(desk: Desk) -> None:
    store = await desk.store(token="outdated")
    assert len(await ids(store, Filter())) == 3
    (ended,) = await desk.retry(store, 1)
    assert ended.outcome == "accepted"
    assert sum("outdated" in repr(one) for one in desk.hub.asked) == 0


@pytest.mark.parametrize(("asked", "waits"), [("7", [7.0]), (None, [1.0])])
async def test_a_busy_hub_is_waited_for_within_a_batch(desk: Desk, asked: str | None, waits: list[float]) -> None:
    store = await desk.store()
    busy = [reply(429, **({"Retry_After": asked} if asked else {}))]
    desk.front = lambda got: busy.pop() if got.method == "POST" and busy else None
    said: list[tuple[str, str | None]] = []
    results = await desk.retry(store, 1, 2, waiting=lambda what, text: said.append((what, text)))
    assert [one.outcome for one in results] == ["not_sent", "accepted"]
    assert desk.time.waits == waits
    assert [text is None for _, text in said] == [False, True]


@pytest.mark.parametrize("seconds", [61, 3600])
async def test_a_hub_that_asks_for_long_gets_no_more_of_the_batch(desk: Desk, seconds: int) -> None:
    store = await desk.store()
    desk.hub.answer = reply(429, Retry_After=str(seconds))
    results = await desk.retry(store, 1, 2, 3)
    assert [one.outcome for one in results] == ["not_sent"] * 3
    assert (desk.posts, desk.time.waits) == (1, [])
    assert f"{seconds} s" in (results[2].detail or "")


async def test_a_page_of_a_busy_hub_is_asked_for_again(desk: Desk) -> None:
    store = await desk.store()
    busy = [reply(429, Retry_After="2")]
    desk.front = lambda _: busy.pop() if busy else None
    assert len(await ids(store, Filter())) == 3
    assert desk.time.waits == [2.0]


def _many(count: int) -> FakeHub:
    return FakeHub().add(*(failed_item(n, createdAt=f"2026-04-18T1{n % 3}:00:00Z") for n in range(1, count + 1)))


@pytest.mark.parametrize("deletions", [1, 2, 3, 99])
async def test_entries_that_move_between_pages_are_not_missed(desk: Desk, deletions: int) -> None:
    """The hub drops its first entry, and takes a new one in, after each page it tells."""
    desk.hub = _many(250)
    left = [deletions]

    def front(got: Received) -> Answer:
        told = desk.hub(got)
        if got.path.endswith("/dlq") and left[0]:
            left[0] -= 1
            first = next(iter(desk.hub.items))
            del desk.hub.items[first]
            desk.hub.add(failed_item(1000 + left[0]))
        return told

    desk.front = front
    store = await desk.store()
    found = set(await ids(store, Filter()))
    missed = set(desk.hub.items) - found
    assert not missed or (store.shortfall is not None and "changed while it was read" in store.shortfall)
    assert deletions == 99 or (missed, store.shortfall) == (set(), None)


async def test_a_list_that_cannot_be_read_whole_proves_no_absence(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_list, "MOST_PAGES", 1)
    desk.hub = _many(150)
    store = await desk.store()
    (ended,) = await desk.retry(store, 1)
    assert (ended.outcome, "only 100 of the hub's 149" in (ended.detail or "")) == ("unknown", False)
    (asked,) = await desk.batch(store).settle(())
    assert (asked.outcome, "are looked at" in (asked.detail or "")) == ("unknown", True)


async def _chosen(store: RemoteStore, *numbers: int) -> Selection:
    return Selection.of([cast("Any", await store.get(entry_id(n))) for n in numbers])


async def test_a_dismissal_deletes_entry_by_entry_and_tries_again(desk: Desk) -> None:
    failing = [reply(503), reply(429, Retry_After="3")]
    desk.front = lambda got: failing.pop(0) if got.method == "DELETE" and failing else None
    store = await desk.store(on_dismiss="delete")
    chosen = await _chosen(store, 1, 2, 3)
    result = await store.dismiss(chosen, ACTOR, why())
    assert (result.done, result.changed) == (tuple(map(entry_id, (1, 2, 3))), ())
    assert desk.hub.items == {}
    assert (await store.restore(chosen, ACTOR, why())).done == ()
    assert (await verdict(store))[0] is None


async def test_a_deletion_that_fails_is_told_and_can_be_tried_again(desk: Desk) -> None:
    store = await desk.store(on_dismiss="delete")
    second = f"/integrations/dlq/{entry_id(2)}"
    desk.front = lambda got: reply(503) if got.method == "DELETE" and got.path == second else None
    chosen = await _chosen(store, 1, 2, 3)
    result = await store.dismiss(chosen, ACTOR, why())
    assert result.done == (entry_id(1), entry_id(3))
    ((left, said),) = result.changed
    assert (left, said.startswith("not dismissed, it could not be removed: ")) == (entry_id(2), True)
    assert await ids(store, only("pending")) == [entry_id(2)]
    desk.front = None
    again = await store.dismiss(await _chosen(store, 2), ACTOR, why())
    assert (again.done, desk.hub.items) == ((entry_id(2),), {})
    assert len(await events_of(store)) == 8


async def test_a_hub_that_deletes_nothing_leaves_the_rest_of_a_batch_open(desk: Desk) -> None:
    desk.hub = FakeHub().add(*(failed_item(n) for n in range(1, 7)))
    desk.front = lambda got: reply(500) if got.method == "DELETE" else None
    store = await desk.store(on_dismiss="delete")
    result = await store.dismiss(await _chosen(store, *range(1, 7)), ACTOR, why())
    assert (result.done, len(result.changed)) == ((), 6)
    assert await ids(store, Filter()) == [entry_id(n) for n in range(1, 7)]
    assert sum(method == "DELETE" for method, _ in desk.hub.asked) == 0
    assert len(await events_of(store)) == 6


async def test_a_gateway_s_404_to_a_deletion_is_no_deletion(desk: Desk) -> None:
    desk.front = lambda got: reply(404) if got.method == "DELETE" else None
    store = await desk.store(on_dismiss="delete")
    result = await store.dismiss(await _chosen(store, 1), ACTOR, why())
    assert (result.done, "its list has the entry" in result.changed[0][1]) == ((), True)


async def test_a_hub_cannot_mark_as_deleted(desk: Desk) -> None:
    store = await desk.store(on_dismiss="soft-delete")
    with pytest.raises(ActRefused, match="a hub can only delete"):
        await store.dismiss(await _chosen(store, 1), ACTOR, why())
    assert len(await ids(store, Filter())) == 3
