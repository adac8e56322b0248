"""Two operators, a venue that hides and loses, crashes at any boundary: the state machine against its invariants."""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import tempfile
from collections.abc import Coroutine
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from backends.ledger.audit_chain import Verifier
from backends.records import ActContext, Entry, Selection
from console import clock
from console.services.evidence import payload
from console.services.replay.batch import ReplayBatch
from console.services.replay.submit import Point
from console.settings.config import Limits, VenueConfig
from tests.support.orders import sqlite_store
from tests.support.session import ANN, BOB, Stage, fresh
from tests.support.venue.in_process import FakeDesk, FakeVenue, Held, dedup
from venues import Dedup, Outcome, Prepared, Status

T = TypeVar("T")
NUMBERS = (1, 2, 3)
POINTS: tuple[Point, ...] = get_args(Point)
WORDS = ("ok", "reject", "limit", "not-sent", "drop", "lost", "late", "cancelled")
LIVE = ("open", "partly_filled", "filled")
# Far more steps than CI has time for: make faults.
THOROUGH = int(os.environ.get("DLQ_EXAMPLES", "10"))


class Crash(BaseException):
    """The process is gone at this very point."""


@dataclass
class CrashingVenue(FakeVenue):
    crash: str = ""  # "before" or "after" the venue has taken the request

    async def _receive(self, prepared: Prepared) -> Outcome:
        where, self.crash = self.crash, ""
        if where == "before":
            raise Crash
        outcome = await super()._receive(prepared)
        if where == "after":
            raise Crash
        return outcome


@dataclass
class Rig:
    target: str
    venue: CrashingVenue
    stages: dict[str, Stage] = field(default_factory=dict)


class TwoOperators(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="dlq-machine-")
        self.crashed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize(kind=st.sampled_from(get_args(Dedup)), own=st.lists(st.booleans(), min_size=3, max_size=3))
    def begin(self, kind: Dedup, own: list[bool]) -> None:
        rows = [
            fresh(number, market_id=f"M{number}", client_order_id=f"cid-{number}" if its else None)
            for number, its in zip(NUMBERS, own, strict=True)
        ]
        target = sqlite_store(Path(self.folder.name) / "orders.db", rows)
        self.rig = Rig(target, CrashingVenue(profile=dedup(kind)))
        self.run(self._arrive("ann"))
        self.run(self._arrive("bob"))

    async def _arrive(self, name: str, window: float = 60.0) -> Stage:
        old = self.rig.stages.pop(name, None)
        if old is not None:
            await old.store.aclose()
        limits = Limits(poison_after=99, retry_limit=99)
        stage = Stage(self.rig.target, venue=self.rig.venue, actor=ANN if name == "ann" else BOB, limits=limits)
        stage.pool = FakeDesk({"fake": self.rig.venue}, {"fake": VenueConfig(visibility_seconds=window)})
        self.rig.stages[name] = await stage.__aenter__()
        return stage

    who = st.sampled_from(("ann", "bob"))
    which = st.sampled_from(NUMBERS)

    @rule(who=who, which=which, word=st.sampled_from(WORDS))
    def replays(self, who: str, which: int, word: str) -> None:
        self.rig.venue.script = [word]
        self.run(self.rig.stages[who].replay(which))
        self.rig.venue.script = []

    @rule(who=who, words=st.lists(st.sampled_from(WORDS), max_size=3))
    def replays_all(self, who: str, words: list[str]) -> None:
        self.rig.venue.script = list(words)
        self.run(self.rig.stages[who].replay(*NUMBERS))
        self.rig.venue.script = []

    @rule(which=which, word=st.sampled_from(WORDS))
    def both_replay_at_once(self, which: int, word: str) -> None:
        self.rig.venue.script = [word]

        async def race() -> None:
            await asyncio.gather(*(stage.replay(which) for stage in self.rig.stages.values()))

        self.run(race())
        self.rig.venue.script = []

    @rule(who=who, which=which, word=st.sampled_from(WORDS), point=st.sampled_from((*POINTS, "before", "after")))
    def crashes_while_replaying(self, who: str, which: int, word: str, point: str) -> None:
        venue, stage = self.rig.venue, self.rig.stages[who]
        venue.script = [word]
        venue.crash = point if point in ("before", "after") else ""

        def die(reached: Point) -> None:
            if reached == point:
                raise Crash

        async def run() -> None:
            made = await stage.plan(which)
            await ReplayBatch(stage.store, stage.at_desk(), stage.actor, clock.now, at=die).run(made)

        try:
            self.run(run())
        except Crash:
            self.crashed = True
            self.run(self._arrive(who))
        venue.script, venue.crash = [], ""

    @rule(who=who, which=which)
    def reconciles_at_once(self, who: str, which: int) -> None:
        self.run(self.rig.stages[who].reconcile(which))

    @rule(who=who, fails=st.lists(st.sampled_from(("ok", "fail", "busy")), max_size=3))
    def reconciles_when_lease_and_window_are_over(self, who: str, fails: list[str]) -> None:
        """Time passes: whatever the venue took can be seen by now."""
        self.rig.venue.reveal()
        with closing(sqlite3.connect(self.rig.target)) as connection, connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'console_claim'").fetchone():
                connection.execute("UPDATE console_claim SET expires_at = 0")
        self.rig.venue.lookups = list(fails)
        stage = self.run(self._arrive(who, window=0.0))
        self.run(stage.reconcile())
        self.rig.venue.lookups = []
        self.run(self._arrive(who))

    @rule(who=who, which=which)
    def dismisses(self, who: str, which: int) -> None:
        stage = self.rig.stages[who]
        entry = self.run(stage.entry(which))
        held = entry.state in ("in_flight", "in_doubt", "replayed")
        done = self.run(stage.store.dismiss(Selection.of([entry]), stage.actor, _why())).done
        assert not (held and done)

    @rule(who=who, which=which)
    def restores(self, who: str, which: int) -> None:
        stage = self.rig.stages[who]
        entry = self.run(stage.entry(which))
        done = self.run(stage.store.restore(Selection.of([entry]), stage.actor, _why())).done
        assert not (done and entry.state not in ("dismissed", "replayed"))

    @rule(which=which, status=st.sampled_from(("filled", "cancelled", "expired")))
    def the_market_moves(self, which: int, status: Status) -> None:
        def moved(one: Held) -> Held:
            hit = one.entry == f"M{which}" and one.order.status == "open"
            return replace(one, order=replace(one.order, status=status, raw_status=status)) if hit else one

        self.rig.venue.book = [moved(one) for one in self.rig.venue.book]

    @invariant()
    def every_entry_has_at_most_one_order_that_stands(self) -> None:
        for number in NUMBERS if hasattr(self, "rig") else ():
            header_state = [one for one in self._orders(number) if one.order.status in LIVE]
            assert len(header_state) <= 1, header_state

    @invariant()
    def every_request_has_its_intent(self) -> None:
        for number in NUMBERS if hasattr(self, "rig") else ():
            posts = [post for post in self.rig.venue.posts if post.action.market_id == f"M{number}"]
            attempts = self.run(self.rig.stages["ann"].attempts(number))
            kept = [payload.decode(attempt.payload) for attempt in attempts]
            assert len(posts) <= len(attempts)
            assert all(post in kept for post in posts)

    @invariant()
    def what_the_store_says_is_true_of_the_venue(self) -> None:
        for number in NUMBERS if hasattr(self, "rig") else ():
            entry = self.run(self.rig.stages["bob"].entry(number))
            self._check(number, entry)

    def _check(self, number: int, entry: Entry) -> None:
        orders, attempts = self._orders(number), self.run(self.rig.stages["bob"].attempts(number))
        if entry.state == "pending" and any(one.outcome == "accepted" for one in attempts):
            return  # somebody has reopened what was replayed in paper: it goes live, and never in paper again
        if any(one.order.status in LIVE for one in orders):
            assert entry.state in ("in_flight", "in_doubt", "replayed"), "an order stands that the store has let go of"
        if entry.state == "replayed":
            accepted = [one.venue_order_id for one in attempts if one.outcome == "accepted"]
            assert len(accepted) == 1
            assert accepted[0] in [one.order.venue_order_id for one in orders]
        open_ones = [one for one in attempts if one.outcome in (None, "unknown", "accepted")]
        assert len(open_ones) == (1 if entry.state in ("in_flight", "in_doubt", "replayed") else 0)
        assert all(earlier.outcome in ("rejected", "not_sent") for earlier, _ in itertools.pairwise(attempts))
        failed = sum(1 for one in attempts if one.outcome in ("rejected", "unknown"))
        retries = entry.get("retry_count")
        assert isinstance(retries, int)
        assert failed <= retries <= len(attempts)

    @invariant()
    def no_claim_outlives_its_work(self) -> None:
        if hasattr(self, "rig") and not self.crashed:
            assert self.run(self.rig.stages["ann"].claims()) == {}

    def _orders(self, number: int) -> list[Held]:
        return [one for one in self.rig.venue.book if one.entry == f"M{number}"]

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            assert self.run(self._broken()) is None
            for stage in self.rig.stages.values():
                self.run(stage.store.aclose())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        self.folder.cleanup()

    async def _broken(self) -> str | None:
        verifier = Verifier()
        async for block in self.rig.stages["ann"].store.audit():
            verifier.feed(block)
        return verifier.finish()


def _why() -> ActContext:
    return ActContext(clock.now(), "op", "test")


TestTwoOperators = pytest.mark.xdist_group("machine")(TwoOperators.TestCase)
TestTwoOperators.settings = settings(
    max_examples=THOROUGH,
    stateful_step_count=14,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
