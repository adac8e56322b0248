"""A sample of the time matrix in every suite: each wait with each event, and that each wait that ends in time sends.

The whole matrix is `python -m tests.faults.time_matrix`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from backends.store import Unreachable
from console.services.replay import submit
from console.services.replay.attempt import AttemptLedger
from console.services.replay.guards import Guard
from console.services.replay.plan import Step
from console.services.replay.submit import OrderSubmitter
from console.services.session import StoreSession
from tests.faults import time_matrix
from tests.faults.time_matrix import EVENTS, FACES, WAITS, Ground, TimeCell, by_command, run_cell
from tests.support.moved_time import move_time
from tests.support.parity import Side
from tests.support.session import BOB, ident


def sample() -> list[TimeCell]:
    """Every wait with every event from one face, and of each wait two counterparts."""
    over = [
        TimeCell(wait, event, FACES[(n + m) % 2], over=True)
        for n, wait in enumerate(WAITS)
        for m, event in enumerate(EVENTS)
    ]
    in_time = [
        TimeCell(wait, EVENTS[(n + 3 * m) % len(EVENTS)], FACES[m], over=False)
        for n, wait in enumerate(WAITS)
        for m in range(2)
    ]
    return [*over, *in_time]


@pytest.mark.parametrize("cell", sample(), ids=str)
def test_nothing_goes_after_its_moment_and_what_is_in_time_goes(cell: TimeCell, tmp_path: Path) -> None:
    assert run_cell(cell, tmp_path) == []


def test_the_whole_matrix_has_every_wait_event_and_face() -> None:
    every = time_matrix.cells()
    assert len(set(every)) == len(every) == 2 * len(WAITS) * len(EVENTS) * len(FACES)
    assert set(sample()) <= set(every)


@pytest.mark.parametrize("wait", ["suspended-look-up", "suspended-intended", "overslept", "retry-after"])
def test_a_console_that_judges_only_its_plan_is_found_out(
    wait: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "unfit", lambda *_, **__: None)
    monkeypatch.setattr(OrderSubmitter, "_too_long", lambda *_: None)
    (sent, *_) = run_cell(TimeCell(wait, "stale", "session", over=True), tmp_path)
    assert sent.endswith("1 were sent after the moment")


# The prompt and the plan that is made again.


def prompted(folder: Path, monkeypatch: pytest.MonkeyPatch, cell: TimeCell | None = None) -> Ground:
    ground = Ground(cell or TimeCell("confirmation", "stale", "command", over=False), folder)
    move_time(monkeypatch, ground.time, ground.venue, ground.hooks())
    return ground


def test_another_plan_is_shown_and_asked_for_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = prompted(tmp_path, monkeypatch)
    before = ground.happen

    def changed() -> None:
        before()
        ground.venue.account = "another"

    monkeypatch.setattr(ground, "happen", changed)
    ended = by_command(ground, monkeypatch)  # who types the number of the old plan, and then no more
    assert (ended.code, ended.rows, ground.venue.posts) == (4, ((ground.target, "refused"),), [])
    assert "the plan was made again" in ended.said
    assert ended.said.count("type live 1") == 2


@pytest.mark.parametrize("account", ["another", None])
def test_without_anybody_to_ask_another_plan_is_not_sent(
    account: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine sleeps between the plan and its confirmation; the same plan goes, another one does not."""
    ground = prompted(tmp_path, monkeypatch, TimeCell("suspended-begun", "stale", "command", over=False))
    real = StoreSession.is_approved

    async def slept(session: StoreSession, plan: object, request: str = "") -> bool:
        if not ground.happened:
            ground.happen()
            ground.venue.account = account
        return await real(session, plan, request)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(StoreSession, "is_approved", slept)
    ended = by_command(ground, monkeypatch)
    assert ended.code == (4 if account else 0)
    assert len(ground.venue.posts) == (0 if account else 1)


FOUR_EYES = '[limits]\nfour_eyes_over = 1\nstale_after = "1h"\nplan_seconds = 60'


def test_an_approval_that_ended_while_the_prompt_stood_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approved, but confirmed only after the approval was over: a second person is asked for again."""
    ground = prompted(tmp_path, monkeypatch)
    ground.side = Side(tmp_path, ground.side.target, sections=FOUR_EYES)
    ground.side.config()
    assert by_command(ground, monkeypatch).code == 4
    asyncio.run(_approved(ground))

    ground.happened = False

    def expired() -> None:
        if not ground.happened:
            ground.happened = True
            ground.time.suspend(90.0)
            monkeypatch.setattr("console.services.triage.approvals.APPROVAL_SECONDS", -1.0)

    monkeypatch.setattr(ground, "happen", expired)
    ground.answers = 3
    ended = by_command(ground, monkeypatch)
    assert (ended.code, ended.rows, ground.venue.posts) == (4, ((ground.target, "refused"),), [])
    assert "plan " in ended.said


def test_another_plan_needs_its_own_second_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the prompt stands, the plan becomes another one that two people must agree to: typing it is not enough."""
    ground = prompted(tmp_path, monkeypatch)

    def changed() -> None:
        if not ground.happened:
            ground.happened = True
            ground.time.suspend(90.0)
            ground.venue.account = "another"
            Side(tmp_path, ground.side.target, sections=FOUR_EYES).config()

    monkeypatch.setattr(ground, "happen", changed)
    ground.answers = 3
    ended = by_command(ground, monkeypatch)
    assert (ended.code, ended.rows, ground.venue.posts) == (4, ((ground.target, "refused"),), [])
    assert "a second person must approve" in ended.said


async def _approved(ground: Ground) -> None:
    place = await ground.side.attach(BOB)
    await place.approve(ground.side.asked())
    await place.aclose()


def test_an_entry_that_left_the_plan_ends_once_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = prompted(tmp_path, monkeypatch, TimeCell("confirmation", "stale", "command", over=True))
    ended = by_command(ground, monkeypatch)
    assert (ended.code, ended.rows) == (4, ((ident(1), "not_sent"),))
    assert f"{ident(1)} no longer goes: stale" in ended.said


class _Away:
    async def halted(self) -> None:
        raise Unreachable("gone")


async def test_a_halt_that_cannot_be_read_is_no_all_clear() -> None:
    ledger = AttemptLedger(_Away(), BOB)  # type: ignore[arg-type]  # nothing else is asked of the store
    assert await ledger.why_halted() == "whether one is set cannot be read: gone"


def test_what_is_withdrawn_by_its_time_says_nothing_of_the_venue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven intents in a row are overtaken by their moment: the venue did not fail, and its breaker stays closed."""
    monkeypatch.setitem(time_matrix._BATCH, "suspended-begun", 7)
    ground = prompted(tmp_path, monkeypatch, TimeCell("suspended-begun", "stale", "command", over=False))
    judged: set[str] = set()

    def unfit(step: Step, *_: object, **__: object) -> Guard | None:
        again = step.command.entry_id in judged
        judged.add(step.command.entry_id)
        return Guard("stale", "too old by now") if again else None

    monkeypatch.setattr(submit, "unfit", unfit)
    began = ground.time.ticks
    ended = by_command(ground, monkeypatch)
    assert (ended.code, ground.venue.posts) == (4, [])
    assert ground.time.ticks == began  # no breaker was waited for
    assert [word for _, word in ended.rows] == ["not_sent"] * 7
