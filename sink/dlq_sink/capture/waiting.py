"""The async side: what a sink does runs in a thread, so that a disk never stops the engine's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

    from dlq_sink.witness.submission import Submission

Result = TypeVar("Result")
BEFORE_THE_SEND = "cancelled before the send; nothing was sent"


async def in_thread(work: Callable[[], Result]) -> Result:
    """Finishes even if this task is cancelled meanwhile."""
    return await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(work)))


async def begin_in_thread(submission: Submission) -> None:
    begun = asyncio.ensure_future(asyncio.to_thread(submission.begin))
    try:
        await asyncio.shield(begun)
    except asyncio.CancelledError as stop:
        while not begun.done():
            with suppress(asyncio.CancelledError):  # again: the witness that is under way must be resolved all the same
                await asyncio.wait({begun})
        if begun.exception() is None:
            submission.missed(stop, f"CancelledError: {BEFORE_THE_SEND}")
        raise


class PendingSubmit(Coroutine[Any, Any, Result]):
    """A coroutine that calls `forgotten` if it never begins: an order must not vanish with it.

    That is given what came before its first step, or None if nobody ever awaited it.
    """

    def __init__(self, work: Coroutine[Any, Any, Result], forgotten: Callable[[BaseException | None], object]) -> None:
        self._work = work
        self._forgotten: Callable[[BaseException | None], object] | None = forgotten

    def send(self, value: Any, /) -> Any:
        self._forgotten = None
        return self._work.send(value)

    def throw(
        self,
        kind: Any,
        value: BaseException | object | None = None,
        at: TracebackType | None = None,
        /,
    ) -> Any:
        forgotten, self._forgotten = self._forgotten, None
        try:
            return self._work.throw(kind, value, at) if at or value else self._work.throw(kind)
        except BaseException as stop:
            if forgotten is not None:
                forgotten(stop)
            raise

    def close(self) -> None:
        forgotten, self._forgotten = self._forgotten, None
        self._work.close()
        if forgotten is not None:
            forgotten(None)

    def __await__(self) -> Generator[Any, Any, Result]:
        self._forgotten = None
        return (yield from self._work.__await__())  # keeps this object, and so the work, alive

    def __del__(self) -> None:
        self.close()
