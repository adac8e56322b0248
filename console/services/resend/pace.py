"""How long a batch waits before its next call, where a provider or a hub said that it is busy. Waits are bounded."""

from __future__ import annotations

import asyncio

from console.services.replay.flow_control import Sleep, Wait, Waiting, wait_unless_stopped
from console.services.replay.outcome import EntryOutcome, not_begun
from venues.orders import RateLimited

LONGEST = 60.0  # seconds: where more is asked for, the rest of the batch does not go
_ALTOGETHER = 300.0
_FIRST = 1.0


class BusyPace:
    """One provider's or hub's. Without a Retry-After each busy answer in a row doubles the wait."""

    def __init__(self, name: str, sleep: Sleep = asyncio.sleep, waiting: Waiting = lambda _, __: None) -> None:
        self._name = name
        self._sleep = sleep
        self._waiting = waiting
        self._wait = 0.0
        self._in_a_row = 0
        self._waited = 0.0
        self._too_long: str | None = None

    def heard(self, answer: object) -> None:
        if not isinstance(answer, RateLimited):
            self._wait, self._in_a_row = 0.0, 0
            return
        self._wait = answer.retry_after if answer.retry_after is not None else _FIRST * 2**self._in_a_row
        self._in_a_row += 1

    def not_begun(self, entry_id: str) -> EntryOutcome:
        """The outcome of an entry after `may_go` said no."""
        if self._too_long is None:
            return not_begun(entry_id, "stopped")
        return EntryOutcome(entry_id, "not_sent", None, detail=self._too_long)

    async def may_go(self, stopped: asyncio.Event) -> bool:
        """Wait as long as was asked for; False where that is too long, or once the batch is stopped."""
        if stopped.is_set():
            return False
        if not self._wait:
            return True
        if self._wait > LONGEST or self._waited + self._wait > _ALTOGETHER:
            self._too_long = f"{self._name} answered HTTP 429 and asks for a wait of {self._wait:g} s: nothing was sent"
            return False
        self._waiting(self._name, Wait(self._wait, "it answered HTTP 429"))
        try:
            going = await wait_unless_stopped(self._wait, stopped, self._sleep)
        finally:
            self._waiting(self._name, None)
        self._waited += self._wait
        self._wait = 0.0
        return going
