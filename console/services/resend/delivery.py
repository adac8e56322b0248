"""One manual retry of a stored call: its own automatic tries, waiting longer each time. Knows no store.

Only what may pass by itself is tried again: a server's error, no answer, no connection. A refusal ends it at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from venues.integration.provider import Answer, Delivered
from venues.orders import NotSent, RateLimited, Rejected, Unknown

WAITS = (1.0, 2.0, 4.0, 8.0, 8.0)  # seconds before each further try
JITTER = 0.2  # share of a wait by which it is longer or shorter

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Backoff:
    """`spread` gives a number between -1 and 1; `sleep` waits that long, or until the batch is stopped."""

    sleep: Sleep = asyncio.sleep
    spread: Callable[[], float] = lambda: random.uniform(-1, 1)  # noqa: S311 - spreads load, guards nothing

    def wait(self, number: int) -> float:
        return WAITS[number] * (1 + JITTER * self.spread())

    @property
    def longest(self) -> float:
        return sum(WAITS) * (1 + JITTER)


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a retry ended, after how many tries; `may_have_arrived` by any of them."""

    answer: Answer
    tries: int
    may_have_arrived: bool


async def deliver(
    send: Callable[[], Awaitable[Answer]], backoff: Backoff, stopped: Callable[[], bool] = lambda: False
) -> Delivery:
    doubted, tries = False, 0
    while True:
        answer = await send()
        tries += 1
        match answer:
            case Delivered() | Rejected() | RateLimited():
                return Delivery(answer, tries, doubted)
            case Unknown():
                doubted = True
            case NotSent():
                pass
        if tries > len(WAITS) or stopped():
            return Delivery(answer, tries, doubted)
        await backoff.sleep(backoff.wait(tries - 1))
        if stopped():
            return Delivery(answer, tries, doubted)
