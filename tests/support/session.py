"""A console without a screen over a real store and venues of the test's own: plan, replay, reconcile, look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from backends import open_store
from backends.records import Actor, Attempt, Entry
from backends.store import Store
from console import clock
from console.services.evidence.reconcile import Reconciliation
from console.services.replay.batch import ReplayBatch
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import ReplayPlan, plan
from console.services.replay.preflight import Preflight, ReplayRequest
from console.services.replay.venue_pool import VenuePool
from console.settings.config import Limits, VenueConfig
from tests.support.orders import row
from tests.support.venue.in_process import FakeDesk, FakeVenue
from venues import Mode

ANN = Actor("ann", "ann", "desk1", "test")
BOB = Actor("bob", "bob", "desk2", "test")


def fresh(number: int, **given: object) -> dict[str, Any]:
    """A row captured just now, at the fake venue, unlike every other in its quantity."""
    defaults = {"captured_at": datetime.now(UTC), "venue_name": "fake", "quantity": float(number), "price": 10.0}
    return row(number, **(defaults | given))


def ident(number: int) -> str:
    return f"dlq_{number:016x}"


@dataclass
class Stage:
    """One operator at one store. `venue` answers to every entry unless a desk is given."""

    target: str
    venue: FakeVenue = field(default_factory=FakeVenue)
    actor: Actor = ANN
    limits: Limits = field(default_factory=Limits)
    settings: Mapping[str, VenueConfig] = field(default_factory=dict)
    environment: str | None = None
    lease: float = 60.0
    pool: VenuePool | None = None
    store: Store = field(init=False)
    running: ReplayBatch | None = None
    told: list[EntryOutcome] = field(default_factory=list)

    async def __aenter__(self) -> Stage:
        self.store = await open_store(self.target)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.aclose()

    def at_desk(self) -> VenuePool:
        if self.pool is None:
            self.pool = FakeDesk({"fake": self.venue}, self.settings)
        return self.pool

    async def entries(self, numbers: Iterable[int]) -> list[Entry]:
        found = await self.store.many(tuple(map(ident, numbers)))
        return list(found.values())

    async def plan(self, *numbers: int, mode: Mode = "paper", **asked: Any) -> ReplayPlan:
        preflight = Preflight(self.store, self.at_desk(), self.limits, clock.now, environment=self.environment)
        entries = await self.entries(numbers)
        return plan(entries, await preflight.facts(entries, ReplayRequest(mode, **asked)))

    async def run(self, made: ReplayPlan, note: str | None = None) -> dict[str, EntryOutcome]:
        self.running = ReplayBatch(self.store, self.at_desk(), self.actor, clock.now, lease=self.lease)
        ended = await self.running.run(made, note=note, tell=self.told.append)
        assert list(ended) == self.told[-len(ended) :] if ended else True
        assert len({one.entry_id for one in ended}) == len(ended)
        return {one.entry_id: one for one in ended}

    async def replay(self, *numbers: int, mode: Mode = "paper", **asked: Any) -> dict[str, EntryOutcome]:
        return await self.run(await self.plan(*numbers, mode=mode, **asked))

    async def replay_one(self, number: int, mode: Mode = "paper", **asked: Any) -> EntryOutcome:
        return (await self.replay(number, mode=mode, **asked))[ident(number)]

    async def reconcile(self, *numbers: int, mode: Mode = "paper") -> dict[str, EntryOutcome]:
        reconcile = Reconciliation(self.store, self.at_desk(), self.actor)
        attempts = await reconcile.open(tuple(map(ident, numbers)), mode)
        ended = await reconcile.run(attempts)
        return {one.entry_id: one for one in ended}

    async def entry(self, number: int) -> Entry:
        found = await self.store.get(ident(number))
        assert found is not None
        return found

    async def shows(self, number: int) -> tuple[str, object]:
        """State and retry count."""
        entry = await self.entry(number)
        return entry.state, entry.get("retry_count")

    async def attempts(self, number: int) -> tuple[Attempt, ...]:
        return await self.store.attempts(ident(number))

    async def claims(self) -> dict[str, str]:
        return await self.store.live_claims(tuple(ident(number) for number in range(100)))
