"""One run at a time, one more for everybody who asks meanwhile, and a new run after a failure."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from console.screens.queue import coalescer
from console.screens.queue.coalescer import Coalescer
from tests.support.app import Stage, settled


class Work:
    def __init__(self) -> None:
        self.begun = 0
        self.at_once = 0
        self.most = 0
        self.gate = asyncio.Event()

    async def __call__(self) -> None:
        self.begun += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.gate.wait()
        self.at_once -= 1


async def test_many_who_ask_meanwhile_get_one_more_run() -> None:
    work = Work()
    turn = Coalescer(work)
    first = asyncio.create_task(turn())
    await asyncio.sleep(0)
    for _ in range(50):
        await turn()  # returns at once
    assert work.begun == 1
    work.gate.set()
    await first
    assert (work.begun, work.most) == (2, 1)


async def test_asked_again_later_it_runs_again() -> None:
    work = Work()
    work.gate.set()
    turn = Coalescer(work)
    await turn()
    await turn()
    assert work.begun == 2


async def test_a_failure_or_an_end_frees_the_turn() -> None:
    runs = 0

    async def fails() -> None:
        nonlocal runs
        runs += 1
        raise LookupError

    turn = Coalescer(fails)
    for _ in range(2):
        with pytest.raises(LookupError):
            await turn()
    assert runs == 2


async def test_work_that_keeps_its_own_pace_is_not_made_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    async def rested(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(coalescer, "asyncio", SimpleNamespace(sleep=rested))
    for kept in ({"rest": 0.0}, {}):
        work = Work()
        turn = Coalescer(work, **kept)
        first = asyncio.create_task(turn())
        await asyncio.sleep(0)
        await turn()
        work.gate.set()
        await first
    own, other = rests
    assert own == 0.0 < other


async def test_the_counts_of_the_queue_keep_their_own_pace(stage: Stage) -> None:
    """The loader lets five times a count's cost pass before the next; its waiting is not multiplied once more."""
    app = stage.console()
    async with app.run_test() as pilot:
        await settled(pilot)
        assert app.queue._counting._rest == 0.0
