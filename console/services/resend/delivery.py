"""Tries one call at a provider until there is a definite answer, and says what the answers mean for its attempt."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import assert_never

from backends.layouts.mask import masked_text
from backends.store import Result
from console.services.replay.flow_control import Sleep
from venues.integration.provider import Answer, Delivered, ProviderFailed
from venues.orders import NotSent, RateLimited, Rejected, Unknown

WAITS = (1.0, 2.0, 4.0, 8.0, 8.0)  # seconds before each further try
JITTER = 0.2  # share of a wait by which it is longer or shorter


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits between tries. `spread` gives a number between -1 and 1; `sleep` waits so many seconds."""

    sleep: Sleep = asyncio.sleep
    spread: Callable[[], float] = lambda: random.uniform(-1, 1)  # noqa: S311 - spreads load, guards nothing

    def wait(self, number: int) -> float:
        return WAITS[number] * (1 + JITTER * self.spread())

    @property
    def longest(self) -> float:
        return sum(WAITS) * (1 + JITTER)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The last answer to a retry and the number of its tries; `may_have_arrived`: one of them got no clear answer."""

    answer: Answer
    tries: int
    may_have_arrived: bool


async def deliver(
    send: Callable[[], Awaitable[Answer]], backoff: Backoff, stopped: Callable[[], bool] = lambda: False
) -> Delivery:
    """Send until there is a definite answer, the tries are used up or the batch is stopped."""
    doubted, tries = False, 0
    while True:
        answer = await send()
        tries += 1
        match answer:
            case Delivered() | Rejected() | RateLimited():
                return Delivery(answer, tries, doubted)
            case Unknown():
                doubted = True
            case NotSent() | ProviderFailed():
                pass
        if tries > len(WAITS) or stopped():
            return Delivery(answer, tries, doubted)
        await backoff.sleep(backoff.wait(tries - 1))
        if stopped():
            return Delivery(answer, tries, doubted)


def outcome(done: Delivery, key: str) -> Result:
    """The result of an attempt after this delivery. Pure.

    After a try without a clear answer only a yes ends it: the next attempt has another key, so a call that was taken
    for failed could be done twice.
    """
    tries = f"{done.tries} {'try' if done.tries == 1 else 'tries'}"
    match done.answer:
        case Delivered(status):
            return Result("accepted", evidence=f"HTTP {status} after {tries}")
        case Rejected() if not done.may_have_arrived:
            return Result("rejected", error=_told(done.answer), counts=True)
        case RateLimited() if not done.may_have_arrived:
            return Result("not_sent", error=_told(done.answer), evidence=_told(done.answer), counts=False)
        case ProviderFailed() if not done.may_have_arrived:
            error = f"{_told(done.answer)} in {tries}; if the provider acted all the same, it was under key {key}"
            return Result("rejected", error=error, counts=True)
        case NotSent(reason) if not done.may_have_arrived:
            return Result("not_sent", error=f"{reason} ({tries}): nothing reached the provider", counts=True)
        case last:
            unclear = f"no clear answer in {tries}, the last: {_told(last)}"
            return Result("unknown", error=f"{unclear}; the provider may have acted on key {key}")


def _told(answer: Rejected | RateLimited | ProviderFailed | NotSent | Unknown) -> str:
    match answer:
        case ProviderFailed(status):
            return f"HTTP {status}"
        case Rejected(code, said):
            return masked_text(f"{code}: {said}" if said else code)
        case RateLimited(seconds):
            return f"HTTP 429, retry after {seconds:g} s" if seconds else "HTTP 429"
        case NotSent(reason) | Unknown(reason):
            return reason
        case _:
            assert_never(answer)
