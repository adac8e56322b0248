"""The store's time, kept by a steady clock: never earlier than the store's own, and hardly later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from console.services.replay.attempt import anchored
from tests.services.conftest import Make
from tests.support.session import Stage

At = Callable[..., Awaitable[Stage]]


async def test_it_is_the_stores_time_and_never_earlier(make_both: Make, at: At) -> None:
    stage = await at(make_both(1))
    moment = await anchored(stage.store)
    for _ in range(20):
        before = await stage.store.clock()
        ours = moment()
        assert before - timedelta(milliseconds=1) <= ours <= await stage.store.clock() + timedelta(seconds=1)


async def test_a_first_look_that_takes_its_time_does_not_put_it_ahead(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await at(make(1))
    clock, slow = stage.store.clock, [0.3]

    async def sluggish() -> datetime:
        told = await clock()
        if slow:
            await asyncio.sleep(slow.pop())  # the answer is long on its way
        return told

    monkeypatch.setattr(stage.store, "clock", sluggish)
    moment = await anchored(stage.store)
    assert moment() - datetime.now(UTC) < timedelta(seconds=0.2)
