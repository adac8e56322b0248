"""The part of a store that a replay needs, for a sink that has no ledger: attempts and claims in this process's memory.

Kept for each sink as long as the sink lives. Another process, or this one after a restart, knows nothing of it.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

from backends import DeadLetteredOrder, DLQSink
from backends.records import (
    ActContext,
    Actor,
    Attempt,
    BreakerKey,
    BreakerRow,
    Entry,
    Halt,
    State,
    Version,
    parse_time,
)
from backends.store import Claim, ClaimRefused, Failures, Intent, Result, SentOrder
from console import clock
from console.services.layout_fields import ORDERS


@dataclass
class _Book:
    """What is known of one sink's entries."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    claims: dict[str, tuple[int, float, str]] = field(default_factory=dict)  # token, end by time.monotonic(), owner
    tokens: int = 0
    sink: object = None  # only where it cannot be referred to weakly: its id must not be used again


_BOOKS: dict[int, _Book] = {}
_BOOKS_LOCK = threading.Lock()


def _book_of(sink: DLQSink) -> _Book:
    with _BOOKS_LOCK:
        book = _BOOKS.get(id(sink))
        if book is None:
            book = _BOOKS[id(sink)] = _Book()
            try:
                weakref.finalize(sink, _BOOKS.pop, id(sink), None)
            except TypeError:
                book.sink = sink
        return book


class MemoryStore:
    """Attempts of a sink's entries. Synchronous at heart; `async` because a store is."""

    def __init__(self, sink: DLQSink) -> None:
        self._sink = sink
        self._book = _book_of(sink)

    async def aclose(self) -> None: ...

    async def clock(self) -> datetime:
        return clock.now()

    async def store_id(self) -> str:
        return "memory"

    async def halted(self) -> Halt | None:
        return None

    async def get(self, entry_id: str) -> Entry | None:
        found = self._sink.get(entry_id)
        return None if found is None else self._entry(found)

    async def attempts(self, entry_id: str) -> tuple[Attempt, ...]:
        with self._book.lock:
            return tuple(self._book.attempts.get(entry_id, ()))

    async def attempts_of(self, ids: Iterable[str]) -> dict[str, tuple[Attempt, ...]]:
        return {entry_id: attempts for entry_id in ids if (attempts := await self.attempts(entry_id))}

    async def open_attempts(self) -> tuple[Attempt, ...]:
        return tuple(one for one in self._all() if one.outcome in (None, "unknown"))

    async def replayed_since(self, moment: datetime) -> tuple[Entry, ...]:
        taken = [one for one in self._all() if one.outcome == "accepted"]
        ids = [one.entry_id for one in taken if (ended := parse_time(one.finished_at)) and ended >= moment]
        return tuple(self._entry(found) for one in ids if (found := self._sink.get(one)) is not None)

    async def sent_since(self, moment: datetime, mode: str, actor: Actor) -> tuple[SentOrder, ...]:  # noqa: ARG002 - part of the contract
        """An engine answers to no second person."""
        return ()

    async def policy(self) -> dict[str, str]:
        return {}

    async def of_orders(self, keys: tuple[str, ...], markets: tuple[str, ...]) -> tuple[Entry, ...]:  # noqa: ARG002 - the caller reads each action
        return tuple(entry for one in self._sink.list() if (entry := self._entry(one)).state == "pending")

    async def failing(self, least: int, ids: tuple[str, ...] | None = None) -> dict[str, Failures]:
        tried = await self.attempts_of(self._book.attempts if ids is None else ids)
        found = {one: _failures(tried.get(one, ())) for one in (tried if ids is None else ids)}
        return {one: failures for one, failures in found.items() if len(failures.errors) >= least}

    async def breakers(self) -> dict[BreakerKey, BreakerRow]:
        return {}

    async def live_claims(self, ids: Iterable[str]) -> dict[str, str]:
        with self._book.lock:
            return {entry_id: owner for entry_id in ids if (owner := self._owner(entry_id)) is not None}

    async def claim(
        self,
        entry_id: str,
        version: Version,
        actor: Actor,
        lease: float,
        *,
        mode: str = "live",  # noqa: ARG002 - the contract's; memory settles an entry in either
        rehearsal: bool = False,  # noqa: ARG002 - the contract's; memory has none
    ) -> Claim | ClaimRefused:
        with self._book.lock:
            if (obstacle := self._obstacle(entry_id, version)) is not None:
                return obstacle
            if (owner := self._owner(entry_id)) is not None:
                return ClaimRefused(entry_id, f"claimed by {owner}", "claimed")
            self._book.tokens += 1
            owner = f"{actor.operator} ({threading.current_thread().name})"
            self._book.claims[entry_id] = self._book.tokens, time.monotonic() + lease, owner
            return Claim(entry_id, self._book.tokens, version)

    async def intend(self, claim: Claim, intent: Intent, actor: Actor, why: ActContext) -> Attempt | ClaimRefused:
        with self._book.lock:
            if (obstacle := self._obstacle(claim.entry_id, claim.version)) is not None:
                return obstacle
            if not self._holds(claim) or self._owner(claim.entry_id) is None:
                return ClaimRefused(claim.entry_id, "the claim ran out before anything was sent", "claimed")
            tried = self._book.attempts.setdefault(claim.entry_id, [])
            attempt = Attempt(
                entry_id=claim.entry_id,
                attempt_no=len(tried) + 1,
                mode=intent.mode,
                venue=intent.venue,
                client_order_id=intent.client_order_id,
                payload_hash=intent.payload_hash,
                outcome=None,
                venue_order_id=None,
                error=None,
                started_at=why.at.isoformat(),
                finished_at=None,
                operator=actor.operator,
                os_user=actor.os_user,
                payload=intent.payload,
                account=intent.account,
                key_digest=intent.key_digest,
            )
            tried.append(attempt)
            return attempt

    async def conclude(self, claim: Claim, result: Result, _: Actor, why: ActContext) -> bool:
        with self._book.lock:
            tried = self._book.attempts.get(claim.entry_id, [])
            if not tried or tried[-1].outcome is not None:
                return False
            tried[-1] = _ended(tried[-1], result, why)
            self._release(claim)
        self._mark(claim.entry_id, result, counts=True)
        return True

    async def settle(self, attempt: Attempt, result: Result, _: Actor, why: ActContext) -> bool:
        with self._book.lock:
            tried = self._book.attempts.get(attempt.entry_id, [])
            if not tried or tried[-1].outcome not in (None, "unknown"):
                return False
            counts = tried[-1].outcome is None  # one in doubt was counted when it came into doubt
            tried[-1] = _ended(tried[-1], result, why)
            self._book.claims.pop(attempt.entry_id, None)
        self._mark(attempt.entry_id, result, counts=counts)
        return True

    def _mark(self, entry_id: str, result: Result, *, counts: bool) -> None:
        if result.outcome == "accepted":
            self._sink.mark_dismissed(entry_id)
        elif result.outcome in ("rejected", "unknown") and counts:
            with suppress(KeyError):  # the entry is gone; its attempt stays known
                self._sink.bump_retry(entry_id)

    async def release(self, claim: Claim) -> None:
        with self._book.lock:
            self._release(claim)

    def _all(self) -> list[Attempt]:
        with self._book.lock:
            return [one for tried in self._book.attempts.values() for one in tried]

    def _entry(self, found: DeadLetteredOrder) -> Entry:
        columns = asdict(found)
        version = (found.retry_count, found.dismissed)
        state = self._state(found)
        return Entry(ORDERS, found.dlq_id, state, version, (0,), tuple(columns), tuple(columns.values()))

    def _state(self, found: DeadLetteredOrder) -> State:
        with self._book.lock:
            outcomes = [one.outcome for one in self._book.attempts.get(found.dlq_id, ())]
        if None in outcomes:
            return "in_flight"
        if "unknown" in outcomes:
            return "in_doubt"
        if found.dismissed:
            return "replayed" if "accepted" in outcomes else "dismissed"
        return "pending"

    def _obstacle(self, entry_id: str, version: Version) -> ClaimRefused | None:
        found = self._sink.get(entry_id)
        if found is None:
            return ClaimRefused(entry_id, "no such entry", "gone")
        now = self._entry(found)
        if now.state in ("in_doubt", "in_flight"):
            return ClaimRefused(entry_id, "an earlier submit of it ended without an answer", "in-doubt")
        if now.state != "pending":
            return ClaimRefused(entry_id, f"already {now.state}", "settled")
        if now.version != version:
            return ClaimRefused(entry_id, "changed since it was looked at", "changed")
        return None

    def _owner(self, entry_id: str) -> str | None:
        _, ends, owner = self._book.claims.get(entry_id, (0, 0.0, ""))
        return owner if ends > time.monotonic() else None

    def _holds(self, claim: Claim) -> bool:
        return self._book.claims.get(claim.entry_id, (0, 0.0, ""))[0] == claim.token

    def _release(self, claim: Claim) -> None:
        if self._holds(claim):
            del self._book.claims[claim.entry_id]


def _failures(tried: Iterable[Attempt]) -> Failures:
    failed = [one for one in tried if one.outcome in ("rejected", "unknown")]
    return Failures(tuple(one.error or "" for one in failed))


def _ended(attempt: Attempt, result: Result, why: ActContext) -> Attempt:
    return replace(
        attempt,
        outcome=result.outcome,
        venue_order_id=result.venue_order_id,
        error=result.error,
        finished_at=why.at.isoformat(),
    )
