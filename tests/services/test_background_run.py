"""The batch on its own thread: stopped from anywhere, at any time, and its errors are handed to whoever joins."""

from __future__ import annotations

import asyncio
import threading

import pytest

from console.services.replay.background_run import BackgroundRun, RunHandle
from console.services.replay.outcome import EntryOutcome

DONE = (EntryOutcome("dlq_1", "accepted", "paper"),)


class Running:
    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    def stop(self) -> None:
        self.stopped.set()


def drained(handle: RunHandle) -> list[EntryOutcome | None]:
    told = []
    while (one := handle.events.get(timeout=10)) is not None:
        told.append(one)
    return [*told, None]


def test_results_and_the_end_are_told() -> None:
    async def work(handle: RunHandle) -> tuple[EntryOutcome, ...]:
        handle.tell(DONE[0])
        return DONE

    batch = BackgroundRun(work).start()
    assert drained(batch.handle) == [DONE[0], None]
    assert batch.join() == DONE
    assert not batch.running


@pytest.mark.parametrize("when", ["before it attends", "while it runs"])
def test_stop_reaches_it_from_another_thread(when: str) -> None:
    ready, told = threading.Event(), threading.Event()

    async def work(handle: RunHandle) -> tuple[EntryOutcome, ...]:
        running = Running()
        if when == "before it attends":
            ready.set()
            await asyncio.to_thread(told.wait, 10)
        handle.attend(running)
        ready.set()
        await asyncio.wait_for(running.stopped.wait(), 10)
        return DONE

    batch = BackgroundRun(work).start()
    assert ready.wait(10)
    batch.stop()
    told.set()
    assert batch.handle.stopping
    assert batch.join() == DONE


def test_stop_after_the_end_does_nothing() -> None:
    async def work(handle: RunHandle) -> tuple[EntryOutcome, ...]:
        handle.attend(Running())
        return DONE

    batch = BackgroundRun(work).start()
    batch.join()
    batch.stop()
    assert batch.join() == DONE


def test_an_error_is_raised_where_it_is_joined_and_the_end_is_told_all_the_same() -> None:
    async def work(_: RunHandle) -> tuple[EntryOutcome, ...]:
        raise LookupError("a bug")

    batch = BackgroundRun(work).start()
    assert drained(batch.handle) == [None]
    with pytest.raises(LookupError):
        batch.join()


def test_the_process_waits_for_it() -> None:
    async def work(_: RunHandle) -> tuple[EntryOutcome, ...]:
        assert not threading.current_thread().daemon
        return DONE

    assert BackgroundRun(work).start().join() == DONE
