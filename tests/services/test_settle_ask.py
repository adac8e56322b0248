"""Ways out of doubt besides the venue's own answer: a person's evidence, in paper alone and in live with a second one.

And a look at the venue that changes nothing, for an entry in any state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from backends import open_store
from backends.records import Selection
from backends.store import ActRefused, Store
from console import clock
from console.services.evidence.ask import VenueAnswer
from console.services.evidence.settle import SettleReport, SettleRequest
from console.services.replay.outcome import NOTHING_PLANNED, EntryOutcome, row_of
from console.services.session import SessionSettings, StoreSession
from console.services.triage.approvals import Approvals
from console.services.triage.triage import Triage
from console.settings.config import Config, StoreConfig, VenueConfig
from tests.services.conftest import Make
from tests.support.session import ANN, BOB, Stage, fresh, ident
from tests.support.venue.in_process import PROFILE, FakeDesk, FakeVenue
from venues import Credentials, Mode, Prepared

At = Callable[..., Awaitable[Stage]]
TIMEOUT = "ReadTimeout: no answer in 10 s"


@dataclass
class Ground:
    """A session of ann's on a store whose only venue is `stage.venue`."""

    stage: Stage
    session: StoreSession
    patch: pytest.MonkeyPatch
    known: dict[str, FakeVenue] = field(default_factory=dict)

    async def settle(self, claimed: Any, order: str | None = None, mode: str | None = None) -> SettleReport:
        return await self.session.settle(SettleRequest(ident(1), claimed, "seen in its web page", order, mode))

    async def ask(self, mode: Mode = "paper") -> VenueAnswer:
        (answer,) = await self.session.ask((ident(1),), mode)
        return answer

    async def approve(self, plan: str | None) -> None:
        assert await Approvals(self.stage.store, BOB, clock.now).approve(plan or "") == "approved"


@pytest.fixture
async def ground(make_both: Make, at: At, monkeypatch: pytest.MonkeyPatch) -> Any:
    opened: list[StoreSession] = []

    async def made(rows: Any = 1, *, venue: FakeVenue | None = None, window: float = 60, **store: Any) -> Ground:
        target = make_both(rows)
        settings = {"fake": VenueConfig(visibility_seconds=window)}
        stage = await at(target, venue=venue or FakeVenue(), settings=settings, **store)
        known = {"fake": stage.venue}
        monkeypatch.setattr("console.services.replay.venue_pool.VenuePool", lambda *_: FakeDesk(known, settings))

        async def reopen() -> Store:
            return await open_store(target)

        setting = SessionSettings(
            config=Config(venues=settings),
            store=StoreConfig("desk", target, **store),
            actor=ANN,
            clock=clock.now,
            open=reopen,
            credentials=lambda: lambda *_: Credentials({}),
        )
        session = await StoreSession.attach(setting)
        opened.append(session)
        return Ground(stage, session, monkeypatch, known)

    yield made
    for session in opened:
        await session.aclose()


def _unaskable(**given: Any) -> FakeVenue:
    return FakeVenue(profile=replace(PROFILE, lookup=False), **given)


@pytest.mark.parametrize(
    ("claimed", "order", "outcome", "state"),
    [
        ("accepted", "ord_77", "accepted", "replayed"),
        ("accepted", None, "accepted", "replayed"),
        ("absent", None, "not_sent", "pending"),
    ],
)
async def test_one_person_settles_in_paper_where_the_venue_cannot_be_asked(
    ground: Any, claimed: str, order: str | None, outcome: str, state: str
) -> None:
    here: Ground = await ground(venue=_unaskable(script=["lost"]))
    assert (await here.stage.replay_one(1)).outcome == "unknown"
    report = await here.settle(claimed, order)
    assert (report.is_done, report.ended.outcome, report.ended.venue_order_id) == (True, outcome, order)
    assert report.ended.detail == "settled by ann: seen in its web page"
    assert (await here.stage.shows(1))[0] == state
    (attempt,) = await here.stage.attempts(1)
    assert (attempt.outcome, attempt.venue_order_id) == (outcome, order)


async def test_live_needs_a_second_person_for_these_very_words(ground: Any) -> None:
    here: Ground = await ground(venue=_unaskable(script=["lost"], mode="live"))
    assert (await here.stage.replay_one(1, mode="live")).outcome == "unknown"
    asked = await here.settle("absent")
    assert (asked.is_done, asked.ended.outcome) == (False, "refused")
    (waiting,) = await Approvals(here.stage.store, BOB, clock.now).waiting()
    (row,) = waiting.orders
    names = row_of(EntryOutcome("", "planned", "live", planned=NOTHING_PLANNED)).keys()
    assert names <= row.keys(), "a dry run's row, for whoever reads what waits"
    assert (row["outcome"], row["mode"], row["order"], row["guards"]) == ("planned", "live", None, [])
    assert row["detail"] == "settle as absent: seen in its web page"
    await here.approve(asked.plan)
    other = await here.settle("accepted")
    assert (other.is_done, other.plan != asked.plan) == (False, True)
    assert (await here.stage.shows(1))[0] == "in_doubt"
    assert (await here.settle("absent")).is_done
    assert (await here.stage.shows(1))[0] == "pending"


@pytest.mark.parametrize(
    ("word", "claimed", "done", "state"),
    [
        ("drop", "accepted", True, "replayed"),
        ("drop", "absent", False, "in_doubt"),
        ("lost", "absent", True, "pending"),
        ("lost", "accepted", False, "in_doubt"),
    ],
)
async def test_where_the_venue_answers_clearly_nobody_says_otherwise(
    ground: Any, word: str, claimed: str, done: bool, state: str
) -> None:
    """Also in live, and then without a second person: it is the venue's evidence."""
    here: Ground = await ground(venue=FakeVenue(script=[word], mode="live"), window=0)
    assert (await here.stage.replay_one(1, mode="live")).outcome == "unknown"
    report = await here.settle(claimed)
    assert (report.is_done, report.plan) == (done, None)
    assert (await here.stage.shows(1))[0] == state
    if not done:
        assert "says otherwise" in (report.ended.detail or "")


async def test_another_order_than_the_venues_is_refused(ground: Any) -> None:
    here: Ground = await ground(venue=FakeVenue(script=["drop"]))
    assert (await here.stage.replay_one(1)).outcome == "unknown"
    assert not (await here.settle("accepted", "ord_9")).is_done
    assert (await here.settle("accepted", "ord_1")).is_done


async def _conflict(here: Ground) -> None:
    here.stage.venue.place(here.stage.venue.posts[0], quantity=Decimal(9))


async def _gone_from_the_config(here: Ground) -> None:
    here.known.clear()


async def _unclear(here: Ground) -> None:
    here.stage.venue.place(here.stage.venue.posts[0], "unclear")


async def _another_account(here: Ground) -> None:
    here.stage.venue.account = "PA2"


async def _no_answer(here: Ground) -> None:
    here.stage.venue.lookups = ["fail"] * 99


async def _another_key(here: Ground) -> None:
    here.stage.venue.account, here.stage.venue.key_digest = None, "rotated"


async def _unreadable(here: Ground) -> None:
    """As if a later version had written it."""
    attempts = type(here.session.store).open_attempts
    here.patch.setattr(type(here.session.store), "open_attempts", _with_payload(attempts, b"not ours"))


def _with_payload(read: Any, payload: bytes) -> Any:
    async def reading(store: Any) -> Any:
        return tuple(replace(one, payload=payload) for one in await read(store))

    return reading


STUCK: dict[str, Callable[[Ground], Awaitable[None]]] = {
    "a conflict": _conflict,
    "a venue removed from the config": _gone_from_the_config,
    "a status nobody knows": _unclear,
    "the keys of another account": _another_account,
    "a venue that does not answer": _no_answer,
    "a rotated key": _another_key,
    "a request that cannot be read": _unreadable,
}


@pytest.mark.parametrize("mode", ["paper", "live"])
@pytest.mark.parametrize("why", STUCK)
async def test_whatever_keeps_an_entry_in_doubt_a_person_can_settle_it(ground: Any, why: str, mode: Mode) -> None:
    here: Ground = await ground(venue=FakeVenue(script=["lost"], mode=mode, account="PA1"), window=0)
    assert (await here.stage.replay_one(1, mode=mode)).outcome == "unknown"
    await STUCK[why](here)
    here.stage.pool = FakeDesk(here.known, here.stage.settings)
    assert (await here.stage.reconcile(mode=mode))[ident(1)].outcome == "unknown"
    report = await here.settle("absent")
    if mode == "live":
        assert not report.is_done
        await here.approve(report.plan)
        report = await here.settle("absent")
    assert report.is_done
    assert (await here.stage.shows(1))[0] == "pending"


async def test_only_what_is_in_doubt_is_settled(ground: Any) -> None:
    here: Ground = await ground()
    report = await here.settle("absent")
    assert (report.is_done, report.ended.outcome) == (False, "refused")
    assert "not in doubt" in (report.ended.detail or "")
    assert (await here.stage.replay_one(1)).outcome == "accepted"
    assert not (await here.settle("absent")).is_done


async def test_a_rehearsals_settlement_changes_only_the_attempt(ground: Any) -> None:
    here: Ground = await ground(venue=_unaskable(script=["lost"]), environment="live")
    assert (await here.stage.replay_one(1)).outcome == "unknown"
    again = await here.stage.replay_one(1)
    assert (again.outcome, here.stage.venue.posts[1:]) == ("refused", [])  # one in doubt blocks further rehearsals
    assert (await here.settle("accepted")).is_done  # nobody else is needed: nothing of it is live
    assert await here.stage.shows(1) == ("pending", 0)
    (attempt,) = await here.stage.attempts(1)
    assert (attempt.outcome, attempt.rehearsal) == ("accepted", True)


async def test_a_replay_after_a_settlement_asks_the_venue_as_ever(ground: Any) -> None:
    """Somebody said it was not there; the venue shows it after all: it is adopted, not sent again."""
    here: Ground = await ground(venue=FakeVenue(script=["late"]), window=60)
    assert (await here.stage.replay_one(1)).outcome == "unknown"
    assert (await here.settle("absent")).is_done
    here.stage.venue.reveal()
    ended = await here.stage.replay_one(1)
    assert (ended.outcome, ended.venue_order_id) == ("accepted", "ord_1")
    assert len(here.stage.venue.posts) == 1


def _old(**more: Any) -> list[Any]:
    return [fresh(1, captured_at=datetime.now(UTC) - timedelta(minutes=5), **more)]


async def _placed(here: Ground, status: Any, **changes: Any) -> None:
    command = (await here.stage.plan(1)).steps[0].command
    prepared = here.stage.venue.prepare(command.action, command.client_order_id)
    assert isinstance(prepared, Prepared)
    here.stage.venue.place(prepared, status, **changes)


@pytest.mark.parametrize("state", ["pending", "dismissed", "replayed", "in_doubt"])
async def test_any_entry_can_be_asked_about_and_nothing_is_written(ground: Any, state: str) -> None:
    here: Ground = await ground(_old(), venue=FakeVenue(account="PA1"))
    if state == "dismissed":
        await _placed(here, "filled")
        await Triage(here.stage.store, ANN, clock.now).dismiss(Selection.of([await here.stage.entry(1)]), reason="test")
    elif state == "pending":
        await _placed(here, "filled")
    else:
        here.stage.venue.script = ["ok" if state == "replayed" else "drop"]
        await here.stage.replay_one(1)
    before = [len(await here.stage.store.events(ident(1))), await here.stage.shows(1), len(here.stage.venue.posts)]
    answer = await here.ask()
    assert (answer.answer, answer.equal, answer.venue_order_id, answer.account) == ("found", True, "ord_1", "PA1")
    assert [
        len(await here.stage.store.events(ident(1))),
        await here.stage.shows(1),
        len(here.stage.venue.posts),
    ] == before
    assert not await here.stage.claims()


async def test_what_differs_is_told(ground: Any) -> None:
    here: Ground = await ground(_old())
    await _placed(here, "open", quantity=Decimal(9))
    answer = await here.ask()
    assert (answer.answer, answer.equal, answer.status) == ("found", False, "open")
    assert answer.differences == ("quantity: 1.0 here, 9 at the venue",)


@pytest.mark.parametrize(
    ("rows", "venue", "answer"),
    [
        (_old(), FakeVenue(), "absent"),
        (None, FakeVenue(), "unknown"),
        (_old(client_order_id=None), FakeVenue(), "unknown"),
        (_old(), _unaskable(), "cannot-ask"),
        (_old(venue_name="nowhere"), FakeVenue(), "cannot-ask"),
        (_old(action_json='{"side": "buy", "side": "sell"}'), FakeVenue(), "cannot-ask"),
    ],
)
async def test_absent_is_said_only_where_absence_counts(ground: Any, rows: Any, venue: FakeVenue, answer: str) -> None:
    """Rows of None are an entry of this very moment."""
    here: Ground = await ground(rows or [fresh(1)], venue=replace(venue, asked=[], posts=[], book=[]))
    assert (await here.ask()).answer == answer


async def test_the_answer_of_another_account_says_nothing(ground: Any) -> None:
    here: Ground = await ground(venue=FakeVenue(script=["drop"], account="PA1"), window=0)
    assert (await here.stage.replay_one(1)).outcome == "unknown"
    here.stage.venue.account = "PA2"
    answer = await here.ask()
    assert (answer.answer, answer.venue_order_id) == ("unknown", None)


async def test_who_attaches_read_only_asks_no_venue(ground: Any) -> None:
    here: Ground = await ground()
    await here.session.store.aclose()
    here.session.store = await open_store(here.stage.target, read_only=True)
    with pytest.raises(ActRefused, match="read-only"):
        await here.ask()
    assert here.stage.venue.asked == []


async def test_a_venue_that_can_be_asked_and_does_not_answer_is_unknown(ground: Any) -> None:
    """Also where it does not tell its account: it was asked, and only the answer is missing."""
    here: Ground = await ground(_old(), venue=FakeVenue(lookups=["fail"]))
    assert (await here.ask()).answer == "unknown"
    here.known.clear()
    assert (await here.ask()).answer == "cannot-ask"
