"""A ledger that was restored from a backup: what was sent since then is asked for, or left to a person."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backends import open_store
from backends.records import Selection
from backends.store import Store
from console import clock
from console.services.replay.background_run import RunHandle
from console.services.replay.outcome import EntryOutcome
from console.services.replay.preflight import ReplayRequest
from console.services.session import SessionSettings, StoreSession
from console.settings.config import Config, Limits, StoreConfig, VenueConfig
from console.settings.kept_heads import KeptHead, KeptHeads
from tests.services.conftest import Make
from tests.support.session import ANN, fresh, ident
from tests.support.venue.in_process import PROFILE, FakeDesk, FakeVenue
from venues import Credentials

LATE = Config(limits=Limits(stale_after=timedelta(hours=9)))


@dataclass
class Ground:
    """A store with one venue; each replay is a session of its own, as each command is."""

    target: str
    venue: FakeVenue
    folder: Path
    clock: Callable[[], datetime] = clock.now

    async def replay(self, *, overrides: frozenset[str] = frozenset()) -> EntryOutcome:
        async def reopen() -> Store:
            return await open_store(self.target)

        setting = SessionSettings(
            config=replace(LATE, venues={"fake": VenueConfig(visibility_seconds=60)}),
            store=StoreConfig("desk", self.target),
            actor=ANN,
            clock=self.clock,
            open=reopen,
            credentials=lambda: lambda *_: Credentials({}),
            heads=self.folder / "heads",
            own_loops=False,
        )
        session = await StoreSession.attach(setting)
        try:
            found, _ = await session.triage.chosen((ident(1),))
            request = ReplayRequest("paper", overrides=overrides, single=True)
            plan = await session.plan(Selection.of([found[ident(1)]]), request)
            (ended,) = await session.replay_work(plan, "because")(RunHandle())
            return ended
        finally:
            await session.aclose()

    def back_up(self) -> None:
        shutil.copy(self.target, self.folder / "backup.db")

    def bring_back(self) -> None:
        for leftover in (f"{self.target}-wal", f"{self.target}-shm"):
            Path(leftover).unlink(missing_ok=True)
        shutil.copy(self.folder / "backup.db", self.target)


@pytest.fixture
def ground(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ground]:
    def made(venue: FakeVenue, **given: Any) -> Ground:
        one = Ground(make([fresh(1, **given)]), venue, tmp_path)
        monkeypatch.setattr(
            "console.services.replay.venue_pool.VenuePool",
            lambda venues, _: FakeDesk({"fake": one.venue}, venues),
        )
        return one

    return made


UNASKABLE = replace(PROFILE, lookup=False, dedup="none")


@pytest.mark.parametrize("client_order_id", ["cid-1", None])
async def test_a_venue_that_can_be_asked_gets_no_second_order(ground: Any, client_order_id: str | None) -> None:
    here: Ground = ground(FakeVenue(profile=replace(PROFILE, dedup="none")), client_order_id=client_order_id)
    here.back_up()
    first = await here.replay()
    here.bring_back()
    again = await here.replay()
    assert (first.outcome, again.outcome, again.venue_order_id) == ("accepted", "accepted", first.venue_order_id)
    assert len(here.venue.posts) == 1


@pytest.mark.parametrize("client_order_id", ["cid-1", None])
async def test_an_order_that_is_not_shown_yet_is_waited_for(ground: Any, client_order_id: str | None) -> None:
    """It was booked a moment ago and a look-up does not show it: that proves nothing of what this machine sent."""
    here: Ground = ground(
        FakeVenue(profile=replace(PROFILE, dedup="none"), script=["late"]), client_order_id=client_order_id
    )
    here.back_up()
    assert (await here.replay()).outcome == "unknown"
    here.bring_back()
    ended = await here.replay()
    assert (ended.outcome, len(here.venue.posts)) == ("refused", 1)
    assert (ended.detail or "").startswith("may-have-arrived: ")
    here.venue.reveal()
    assert (await here.replay()).outcome == "accepted"
    assert len(here.venue.posts) == 1


async def test_a_venue_that_cannot_be_asked_is_left_to_a_person(ground: Any) -> None:
    here: Ground = ground(FakeVenue(profile=UNASKABLE))
    here.back_up()
    assert (await here.replay()).outcome == "accepted"
    here.bring_back()
    for _ in range(2):
        ended = await here.replay()
        assert (ended.outcome, len(here.venue.posts)) == ("refused", 1)
        assert (ended.detail or "").startswith("may-have-arrived: the ledger was restored")
    assert (await here.replay(overrides=frozenset({"may-have-arrived"}))).outcome == "accepted"


async def test_what_came_after_the_loss_is_sent_as_ever(ground: Any) -> None:
    """Its capture is later than anything this machine saw of the lost ledger: nobody can have sent it before."""
    here: Ground = ground(FakeVenue(profile=UNASKABLE), captured_at=datetime.now(UTC) + timedelta(seconds=30))
    here.back_up()
    assert (await here.replay()).outcome == "accepted"
    here.bring_back()
    assert (await here.replay()).outcome == "accepted"


async def test_a_ledger_that_has_everything_holds_up_nothing(ground: Any) -> None:
    here: Ground = ground(FakeVenue(profile=UNASKABLE, script=["limit", "limit", "ok"]))
    assert [(await here.replay()).outcome for _ in range(3)] == ["not_sent", "not_sent", "accepted"]


def test_a_file_that_is_damaged_or_cannot_be_written_is_no_memory(tmp_path: Path) -> None:
    heads = KeptHeads(folder=tmp_path / "heads")
    assert heads.read("s") is None
    head = KeptHead(3, "ab", datetime.now(UTC))
    heads.keep("s", head)
    assert heads.read("s") == head
    (path,) = (tmp_path / "heads").iterdir()
    whole = path.read_text()
    for damaged in ("{", "[]", whole.replace("+00:00", ""), whole.replace(": 3,", ": 99999999999999999999,")):
        path.write_text(damaged)
        assert heads.read("s") is None
    KeptHeads(folder=path / "no folder").keep("s", head)
