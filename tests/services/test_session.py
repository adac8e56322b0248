"""What a screen asks of a store, without the screen: a stop reaches the work, an approval counts for one attempt."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from backends import open_store
from backends.records import ActContext
from backends.store import Claim, ClaimRefused, Intent, Result, Store
from console import clock
from console.services.evidence import payload
from console.services.evidence.settle import SettleRequest
from console.services.replay.background_run import BackgroundRun
from console.services.replay.outcome import EntryOutcome
from console.services.session import SessionSettings, StoreSession
from console.services.triage.approvals import Approvals
from console.settings.config import Config, StoreConfig, VenueConfig
from tests.services.conftest import Make
from tests.support.integration import IntegrationRig, entry_id
from tests.support.session import ANN, BOB, Stage, fresh, ident
from tests.support.store import why
from tests.support.venue.in_process import FakeDesk, FakeVenue
from venues import Credentials, Mode, Prepared

At = Callable[..., Awaitable[Stage]]


def window(seconds: float) -> dict[str, VenueConfig]:
    return {"fake": VenueConfig(visibility_seconds=seconds)}


@dataclass
class Place:
    """A workplace whose only venue is `venue`."""

    target: str
    venue: FakeVenue = field(default_factory=FakeVenue)
    venues: dict[str, VenueConfig] = field(default_factory=lambda: window(60))
    batch: BackgroundRun | None = None

    async def reconcile(self, *ids: str) -> dict[str, EntryOutcome]:
        workplace = await self.attach()
        try:
            self.batch = BackgroundRun(workplace.reconcile_work(ids))
            ended = await asyncio.to_thread(self.batch.start().join)
        finally:
            await workplace.aclose()
        return {one.entry_id: one for one in ended}

    async def attach(self, **store: str) -> StoreSession:
        setting = SessionSettings(
            config=Config(venues=self.venues),
            store=StoreConfig("desk", self.target, **store),  # type: ignore[arg-type]  # environment alone
            actor=ANN,
            clock=clock.now,
            open=self._open,
            credentials=lambda: lambda *_: Credentials({}),
        )
        return await StoreSession.attach(setting)

    async def _open(self) -> Store:
        return await open_store(self.target)

    def stop(self) -> None:
        assert self.batch is not None
        self.batch.stop()


@pytest.fixture
def place(make: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Place]:
    def made(rows: object, **given: object) -> Place:
        one = Place(make(rows), **given)  # type: ignore[arg-type]  # tests name fields of Place
        monkeypatch.setattr(
            "console.services.replay.venue_pool.VenuePool", lambda *_: FakeDesk({"fake": one.venue}, one.venues)
        )
        return one

    return made


async def in_doubt(stage: Stage, number: int, mode: Mode = "paper") -> None:
    """Sent, and no answer came."""
    (step,) = (await stage.plan(number)).steps
    prepared = stage.venue.prepare(step.command.action, step.command.client_order_id)
    assert isinstance(prepared, Prepared)
    entry = await stage.entry(number)
    claim = await stage.store.claim(entry.id, entry.version, ANN, 60)
    assert isinstance(claim, Claim)
    now = ActContext(clock.now(), "op")
    intent = Intent(mode, "fake", prepared.client_order_id, payload.encode(prepared), "h")
    assert not isinstance(await stage.store.intend(claim, intent, ANN, now), ClaimRefused)
    await stage.store.conclude(claim, Result("unknown", error="no answer"), ANN, now)


async def test_stop_ends_a_reconcile_between_entries(place: Callable[..., Place], at: At) -> None:
    pool = place(3)
    stage = await at(pool.target, venue=pool.venue)
    for number in (1, 2, 3):
        await in_doubt(stage, number)

    async def stop(_: Prepared) -> None:
        pool.stop()

    pool.venue.before_lookup = stop
    ended = await pool.reconcile(*map(ident, (1, 2, 3)))
    assert [one.outcome for one in ended.values()] == ["unknown", "skipped", "skipped"]
    assert len(pool.venue.asked) == 1


async def test_stop_ends_the_settling_of_calls(postgres_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, pool = IntegrationRig(postgres_db), Place(postgres_db)
    await rig.tables()
    await rig.failed(1, 2)
    store = await rig.store()
    for number in (1, 2):
        entry = await store.get(entry_id(number))
        assert entry is not None
        claim = await store.claim(entry.id, entry.version, ANN, 60)
        assert isinstance(claim, Claim)
        await store.intend(claim, Intent("live", "prov-1", f"key-{number}", b"{}", "h"), ANN, why())
    await rig.sql("UPDATE dlq_console.claim SET expires_at = 0")
    settle = type(store).settle

    async def stopping(*given: object) -> bool:
        pool.stop()
        return await settle(*given)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(type(store), "settle", stopping)
    ended = await pool.reconcile(entry_id(1), entry_id(2))
    await rig.aclose()
    assert [one.outcome for one in ended.values()] == ["unknown", "skipped"]


async def test_an_approval_counts_for_its_own_attempt_alone(place: Callable[..., Place], at: At) -> None:
    """Two entries under one client order id: who agrees to the one has not agreed to the other."""
    rows = [fresh(n, client_order_id="same", action_json=f'{{"order_key": "k-{n}"}}') for n in (1, 2)]
    pool = place(rows, venues=window(60))
    stage = await at(pool.target, venue=pool.venue)
    await in_doubt(stage, 1, "live")
    await in_doubt(stage, 2, "live")
    session = await pool.attach()
    asked = [await session.settle(SettleRequest(ident(number), "absent", "not in its list")) for number in (1, 2)]
    assert [one.ended.outcome for one in asked] == ["refused", "refused"]
    assert await Approvals(stage.store, BOB, clock.now).approve(asked[0].plan or "") == "approved"
    ended = [await session.settle(SettleRequest(ident(number), "absent", "not in its list")) for number in (1, 2)]
    await session.aclose()
    assert [one.ended.outcome for one in ended] == ["not_sent", "refused"]


async def test_an_entry_settled_meanwhile_is_named(place: Callable[..., Place], at: At) -> None:
    pool = place(2)
    stage = await at(pool.target, venue=pool.venue)
    await in_doubt(stage, 1)
    ended = await pool.reconcile(ident(1), ident(2))
    assert (ended[ident(2)].outcome, ended[ident(2)].detail) == ("skipped", "not in doubt")


async def test_of_a_question_nobody_waits_for_any_more_nothing_is_begun(place: Callable[..., Place]) -> None:
    """Its threads were busy when the screen was left. Python warns of work that was made and never run."""
    session = await place([fresh(1)]).attach()
    over, one_thread = threading.Event(), ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(one_thread)
    busy = asyncio.create_task(asyncio.to_thread(over.wait, 90))
    await asyncio.sleep(0)
    asking = asyncio.create_task(session.ask((ident(1),), "paper"))
    await asyncio.sleep(0)
    asking.cancel()
    over.set()
    await asyncio.gather(busy, asking, return_exceptions=True)
    gc.collect()
    assert asking.cancelled()
    await session.aclose()
