"""Asks a hub to retry its entries and follows each retry until the hub has finished it. The hub itself sends.

Also settles retries that were still queued when their batch ended; that sends nothing and asks for no retry.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from backends.layouts.mask import masked_text
from backends.records import ActContext, Actor, Attempt, Entry, readable
from backends.store import Intent, Result, Store, StoreError
from console.clock import Clock
from console.services.replay.attempt import AttemptLedger, HeldClaim, Lease, unsent
from console.services.replay.flow_control import Waiting
from console.services.replay.outcome import EntryOutcome, not_begun
from console.services.resend.hub_list import HubLook
from console.services.resend.pace import BusyPace
from console.settings.config import HUB_WAIT
from venues.client import VenueError
from venues.integration.hub import AlreadyQueued, Failed, Hub, NotFound, Queued
from venues.orders import NotSent, RateLimited, Rejected, Unknown

Tell = Callable[[EntryOutcome], None]
GONE = "gone from the hub"
POLL_SECONDS = 1.0
_SLACK_SECONDS = 60.0
_UNCHANGED = Result("unknown", error="the hub's entry has not changed: its retry may still be queued")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A retry that the hub has queued or may have queued, and the entry as it was before."""

    entry: Entry
    held: HeldClaim
    key: str | None
    doubt: str | None = None  # why it may not be queued

    @property
    def words(self) -> str:
        return f"queued at the hub{_under(self.key)}" if self.doubt is None else f"{self.doubt}: it may be queued"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a batch waits for queued retries. The hub may keep them for longer."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    wait: float = HUB_WAIT

    @property
    def looks(self) -> int:
        return max(1, int(self.wait / POLL_SECONDS))


class HubBatch:
    """Every entry gets exactly one outcome. What counts is the hub's entry after the retry, not the queueing."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        actor: Actor,
        clock: Clock,
        *,
        patience: Patience | None = None,
        waiting: Waiting = lambda _, __: None,
    ) -> None:
        self._store = store
        self._hub = hub
        self._actor = actor
        self._clock = clock
        self._patience = patience or Patience()
        self._pace = BusyPace(f"hub {hub.host}", self._patience.sleep, waiting)
        self._stopped = asyncio.Event()
        self._halted = False

    def stop(self) -> None:
        """Ask for no further retry and settle no further attempt. The batch still follows what it queued."""
        self._stopped.set()

    async def run(
        self, entries: Sequence[Entry], *, note: str | None = None, tell: Tell = lambda _: None
    ) -> tuple[EntryOutcome, ...]:
        ledger = AttemptLedger(self._store, self._actor, note=note, stopped=self._stopped)
        results: list[EntryOutcome] = []
        queued: list[_Asked] = []
        for entry in entries:
            asked = await self._ask(entry, ledger)
            if isinstance(asked, _Asked):
                queued.append(asked)
            else:
                results.append(asked)
                tell(asked)
        async for ended in self._follow(queued, ledger):
            results.append(ended)
            tell(ended)
        await ledger.settle_up()
        return tuple(results)

    async def _ask(self, entry: Entry, ledger: AttemptLedger) -> _Asked | EntryOutcome:
        if self._halted:
            return not_begun(entry.id, "halt")
        if not await self._pace.may_go(self._stopped):
            return self._pace.not_begun(entry.id)
        lease = Lease(self._patience.wait + _SLACK_SECONDS, self._patience.wait)
        try:
            begun = await ledger.begin(entry.id, entry.version, lease, lambda: self._prepare(entry))
        except StoreError as problem:
            return unsent(entry.id, problem)
        self._halted = ledger.halted
        if isinstance(begun, EntryOutcome):
            return begun
        held, _ = begun
        answer = await self._hub.retry(entry.id)
        self._pace.heard(answer)
        match answer:
            case Queued(key):
                return _Asked(entry, held, key)
            case Unknown(reason):
                return _Asked(entry, held, None, reason)  # following the hub's entry shows whether it was queued
            case NotFound():
                look = HubLook(self._hub, self._patience.sleep)
                result = await self._verdict(look.listed(entry.id), entry.version)
            case _:
                result = _refusal(answer)
        return await _concluded(ledger, held, result, None)

    async def _prepare(self, entry: Entry) -> tuple[Intent, None] | EntryOutcome:
        """The intent to retry an entry that is still as it was seen. The ledger cannot tell: the hub owns the entry."""
        now = await self._store.get(entry.id)
        if now is None or now.version != entry.version:
            text = "changed since it was looked at" if now else "gone"
            return EntryOutcome(entry.id, "skipped", None, detail=text)
        seen = json.dumps({"version": list(entry.version)}).encode()
        host = self._hub.host
        return Intent("live", host, "", seen, "", detail=f"retry asked of the hub at {host}"), None

    async def _follow(self, queued: list[_Asked], ledger: AttemptLedger) -> AsyncIterator[EntryOutcome]:
        waiting = list(queued)
        for _ in range(self._patience.looks):
            if not waiting:
                return
            look = HubLook(self._hub, self._patience.sleep)
            for asked in list(waiting):
                result = await self._verdict(look.find(asked.entry.id), asked.entry.version)
                if result.outcome != "unknown":
                    waiting.remove(asked)
                    yield await _concluded(ledger, asked.held, result, asked.key)
            if waiting:
                await self._patience.sleep(POLL_SECONDS)
        for asked in waiting:
            text = f"{asked.words}, no end within {self._patience.wait:g} s"
            yield await _concluded(ledger, asked.held, Result("unknown", error=text), asked.key)

    async def verdict(self, attempt: Attempt) -> Result:
        """The result of a retry that has no end yet, by the hub's entry; unknown while that has not changed."""
        look = HubLook(self._hub, self._patience.sleep)
        return await self._verdict(look.find(attempt.entry_id), seen_version(attempt))

    async def _verdict(self, looking: Awaitable[Failed | None], seen: tuple[object, ...]) -> Result:
        try:
            now = await looking
        except VenueError as problem:
            return Result("unknown", error=str(problem))
        if now is None:
            return Result("accepted", evidence=GONE)
        before = _attempts(seen)
        if (now.mark,) == tuple(seen) or before is None or now.attempts < before:
            return _UNCHANGED
        said = masked_text(readable(now.columns.get("error") or ""))
        return Result("rejected", error=f"the hub's retry failed, attempts {now.attempts}: {said}"[:1000])

    async def settle(self, ids: tuple[str, ...], *, tell: Tell = lambda _: None) -> tuple[EntryOutcome, ...]:
        """Settle the open retries of these entries, or of all when there are no ids, by what the hub shows."""
        attempts = [one for one in await self._store.open_attempts() if not ids or one.entry_id in ids]
        asked = {one.entry_id for one in attempts}
        results = [EntryOutcome(one, "skipped", None, detail="not in doubt") for one in ids if one not in asked]
        for ended in results:
            tell(ended)
        for attempt in attempts:
            ended = EntryOutcome(attempt.entry_id, "skipped", None, detail="stopped: nothing was asked")
            if not self._stopped.is_set():
                ended = await self._settled(attempt)
            results.append(ended)
            tell(ended)
        return tuple(results)

    async def _settled(self, attempt: Attempt) -> EntryOutcome:
        result = await self.verdict(attempt)
        ended = EntryOutcome(attempt.entry_id, result.outcome, None, None, None, result.error or result.evidence)
        if result.outcome == "unknown":
            return ended
        why = ActContext(at=self._clock(), operation=uuid.uuid4().hex, reason="reconcile")
        if await self._store.settle(attempt, result, self._actor, why):
            return ended
        return replace(ended, outcome="skipped", detail="settled elsewhere meanwhile")


async def _concluded(ledger: AttemptLedger, held: HeldClaim, result: Result, key: str | None) -> EntryOutcome:
    told = EntryOutcome(held.entry_id, result.outcome, None, None, key, result.error or result.evidence)
    return await ledger.conclude(held, result, told)


def _refusal(answer: AlreadyQueued | Rejected | RateLimited | NotSent) -> Result:
    match answer:
        case AlreadyQueued():
            return Result(
                "unknown", error="HTTP 409: the hub holds a retry of it already, and how that ends is not known"
            )
        case Rejected(code, said):
            return Result("rejected", error=f"{code}: {said}")
        case RateLimited(seconds):
            return Result("not_sent", error=f"HTTP 429 from the hub{f', retry after {seconds:g} s' if seconds else ''}")
        case NotSent(reason):
            return Result("not_sent", error=reason)
        case _:
            assert_never(answer)


def _attempts(seen: tuple[object, ...]) -> int | None:
    """How many attempts an entry had when it was seen; None where that is not known."""
    text = str(seen[0]).partition("|")[0] if seen else ""
    return int(text) if text.isdecimal() else None


def _under(key: str | None) -> str:
    return f" under key {key}" if key else ""


def seen_version(attempt: Attempt) -> tuple[object, ...]:
    try:
        return tuple(json.loads(attempt.payload)["version"])
    except (ValueError, KeyError, TypeError):
        return ()
