"""A batch of retries through a hub's API: claim → intent → asked for → followed → outcome. The hub itself sends.

Also settles retries that were still queued when nobody waited any more; that only asks.
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
from backends.store import Claim, ClaimRefused, Intent, Result, Store, StoreError
from console.clock import Clock
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.services.triage.approvals import Approvals, absence_hash
from console.settings.config import HUB_WAIT
from venues.client import VenueError
from venues.integration.hub import Hub, Queued
from venues.orders import NotSent, RateLimited, Rejected, Unknown

Tell = Callable[[EntryOutcome], None]
POLL_SECONDS = 1.0
_SLACK_SECONDS = 60.0
_UNCHANGED = Result("unknown", error="the hub's entry has not changed: its retry may still be queued")
_AGREED = "the hub's entry has not changed, and a second person agreed that no retry of it is under way"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A retry the hub has queued, or may have, and the entry as it was before."""

    entry: Entry
    claim: Claim
    key: str | None
    doubt: str | None = None  # why it is not known to be queued

    @property
    def words(self) -> str:
        return f"queued at the hub{_under(self.key)}" if self.doubt is None else f"{self.doubt}: it may be queued"


@dataclass(frozen=True, slots=True)
class Patience:
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    wait: float = HUB_WAIT  # for a queued retry to end; the hub itself may hold it longer

    @property
    def looks(self) -> int:
        return max(1, int(self.wait / POLL_SECONDS))


class HubBatch:
    def __init__(self, store: Store, hub: Hub, actor: Actor, clock: Clock, *, patience: Patience | None = None) -> None:
        self._store = store
        self._hub = hub
        self._actor = actor
        self._clock = clock
        self._patience = patience or Patience()
        self._stopped = False

    def stop(self) -> None:
        """No further retry is asked for, nor about; what this batch queued is followed to its end, or for its wait."""
        self._stopped = True

    async def run(
        self, entries: Sequence[Entry], *, note: str | None = None, tell: Tell = lambda _: None
    ) -> tuple[EntryOutcome, ...]:
        why = ActContext(at=self._clock(), operation=uuid.uuid4().hex, reason="replay", note=note)
        results: list[EntryOutcome] = []
        queued: list[_Asked] = []
        for entry in entries:
            asked = await self._ask(entry, why)
            if isinstance(asked, _Asked):
                queued.append(asked)
            else:
                results.append(asked)
                tell(asked)
        async for ended in self._follow(queued, why):
            results.append(ended)
            tell(ended)
        return tuple(results)

    async def _ask(self, entry: Entry, why: ActContext) -> _Asked | EntryOutcome:
        if self._stopped:
            return EntryOutcome(entry.id, "skipped", None, detail="stopped: nothing was asked for")
        try:
            now = await self._store.get(entry.id)
            if now is None or now.version != entry.version:
                return EntryOutcome(
                    entry.id, "skipped", None, detail="changed since it was looked at" if now else "gone"
                )
            lease = self._patience.wait + _SLACK_SECONDS
            claim = await self._store.claim(entry.id, entry.version, self._actor, lease)
            if isinstance(claim, ClaimRefused):
                return self._taken(claim)
            attempt = await self._store.intend(claim, self._intent(entry), self._actor, self._now(why))
        except StoreError as problem:
            return EntryOutcome(entry.id, "skipped", None, detail=f"{problem}: nothing was asked for")
        if isinstance(attempt, ClaimRefused):
            return self._taken(attempt)
        answer = await self._hub.retry(entry.id)
        match answer:
            case Queued(key):
                return _Asked(entry, claim, key)
            case Rejected(code, said):
                result = Result("rejected", error=f"{code}: {said}")
            case RateLimited():
                result = Result("not_sent", error="HTTP 429 from the hub")
            case NotSent(reason):
                result = Result("not_sent", error=reason)
            case Unknown(reason):
                return _Asked(entry, claim, None, reason)  # the entry itself will tell
            case _:
                assert_never(answer)
        return await self._conclude(claim, result, None, why)

    async def _follow(self, queued: list[_Asked], why: ActContext) -> AsyncIterator[EntryOutcome]:
        waiting = list(queued)
        for _ in range(self._patience.looks):
            if not waiting:
                return
            for asked in list(waiting):
                result = await self.verdict(asked.entry.id, asked.entry.version, asked.key)
                if result.outcome != "unknown":
                    waiting.remove(asked)
                    yield await self._conclude(asked.claim, result, asked.key, why)
            if waiting:
                await self._patience.sleep(POLL_SECONDS)
        for asked in waiting:
            text = f"{asked.words}, no end within {self._patience.wait:g} s"
            yield await self._conclude(asked.claim, Result("unknown", error=text), asked.key, why)

    async def verdict(self, entry_id: str, seen: tuple[object, ...], key: str | None) -> Result:
        """What the hub's entry says of a retry of it; unknown while nothing has changed."""
        try:
            now = await self._hub.get(entry_id)
        except VenueError as problem:
            return Result("unknown", error=str(problem))
        if now is None:
            return Result("accepted", evidence=f"the hub no longer has it: its retry{_under(key)} succeeded")
        if (f"{now.attempts}|{now.last_retry_at}",) == tuple(seen):
            return _UNCHANGED
        said = masked_text(readable(now.columns.get("error") or ""))
        return Result("rejected", error=f"the hub's retry failed, attempts {now.attempts}: {said}"[:1000])

    async def _conclude(self, claim: Claim, result: Result, key: str | None, why: ActContext) -> EntryOutcome:
        ended = EntryOutcome(claim.entry_id, result.outcome, None, None, key, result.error or result.evidence)
        try:
            mine = await self._store.conclude(claim, result, self._actor, self._now(why))
        except StoreError as problem:
            return replace(ended, outcome="unknown", detail=f"{ended.detail}; could not be recorded: {problem}")
        return ended if mine else replace(ended, detail=f"{ended.detail}; recorded elsewhere meanwhile")

    def _intent(self, entry: Entry) -> Intent:
        seen = json.dumps({"version": list(entry.version)}).encode()
        return Intent("live", self._hub.host, "", seen, "", detail=f"retry asked of the hub at {self._hub.host}")

    def _taken(self, taken: ClaimRefused) -> EntryOutcome:
        self._stopped = self._stopped or taken.code == "halt"
        word: OutcomeKind = "refused" if taken.code in ("halt", "in-doubt", "claimed") else "skipped"
        return EntryOutcome(
            taken.entry_id, word, None, detail=f"{taken.code}: {taken.why}" if word == "refused" else taken.why
        )

    def _now(self, why: ActContext) -> ActContext:
        return replace(why, at=self._clock())

    async def settle(self, ids: tuple[str, ...], *, tell: Tell = lambda _: None) -> tuple[EntryOutcome, ...]:
        """Ask the hub about retries without an end: of these entries, or of all."""
        attempts = [one for one in await self._store.open_attempts() if not ids or one.entry_id in ids]
        asked = {one.entry_id for one in attempts}
        results = [EntryOutcome(one, "skipped", None, detail="not in doubt") for one in ids if one not in asked]
        for ended in results:
            tell(ended)
        for attempt in attempts:
            ended = EntryOutcome(attempt.entry_id, "skipped", None, detail="stopped: nothing was asked")
            if not self._stopped:
                ended = await self._settled(attempt)
            results.append(ended)
            tell(ended)
        return tuple(results)

    async def _settled(self, attempt: Attempt) -> EntryOutcome:
        result = await self.verdict(attempt.entry_id, _seen(attempt), None)
        if result is _UNCHANGED:
            result = await self._second_word(attempt)
        ended = EntryOutcome(attempt.entry_id, result.outcome, None, None, None, result.error or result.evidence)
        if result.outcome == "unknown":
            return ended
        why = ActContext(at=self._clock(), operation=uuid.uuid4().hex, reason="reconcile")
        if await self._store.settle(attempt, result, self._actor, why):
            return ended
        return replace(ended, outcome="skipped", detail="settled elsewhere meanwhile")

    async def _second_word(self, attempt: Attempt) -> Result:
        """Nothing bounds how long a hub may keep a retry: only two people may say that there is none."""
        if attempt.outcome is None and attempt.lease_until > (await self._store.clock()).timestamp():
            return _UNCHANGED  # its owner is still at it
        plan_hash, approvals = absence_hash(attempt), Approvals(self._store, self._actor, self._clock)
        if await approvals.given_or_asked(plan_hash, f"declare the retry of {attempt.entry_id} absent at the hub"):
            return Result("not_sent", error=_AGREED, evidence=_AGREED)
        asked = f"{_UNCHANGED.error}; where the hub has none, a second person may agree: dlq approve {plan_hash}"
        return replace(_UNCHANGED, error=asked)


def _under(key: str | None) -> str:
    return f" under key {key}" if key else ""


def _seen(attempt: Attempt) -> tuple[object, ...]:
    try:
        return tuple(json.loads(attempt.payload)["version"])
    except (ValueError, KeyError, TypeError):
        return ()
