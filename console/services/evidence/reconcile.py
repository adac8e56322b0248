"""Settles attempts in doubt, or in flight without an owner, by what the venue shows. Never submits anything."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from backends.records import ENGINE_SEND, ActContext, Actor, Attempt, Entry, Filter, parse_time
from backends.store import Result, Store
from console.services.browse.engine_intent import engine_send, intents_of
from console.services.evidence import payload
from console.services.evidence.absence import AccountMatch, absence_gap, account_match, earliest
from console.services.evidence.entry_question import CannotAsk, question_of
from console.services.evidence.lookup_verdict import LookupVerdict, judge
from console.services.replay.background_run import RunHandle
from console.services.replay.flow_control import Pace, wait_unless_stopped
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.services.replay.venue_pool import VenueAccount, VenuePool
from venues import Mode, OrderAction, Prepared, VenueClient, VenueError

LOOK_UPS = 3  # successful look-ups that must all show nothing before an order counts as absent
_BETWEEN_SECONDS = 0.2
_IN_DOUBT = Filter(states=frozenset({"in_doubt"}))
_UNREADABLE = "the stored request cannot be read: look at the venue yourself, then settle it (dlq settle)"
_STOPPED = "stopped before the venue was asked"
_UNSURE = "it was sent with another key, and the venue does not name its account"
_NO_KEY = "which key it was sent with is not on record"


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of one attempt; `result` is None when the ledger stays as it is."""

    word: OutcomeKind
    text: str
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class VenueWord:
    """What the venue shows of an attempt's order, and what that proves."""

    verdict: LookupVerdict
    match: AccountMatch = "same"  # whose account answered
    account: str | None = None
    absence_gap: str | None = None  # why "not found" proves nothing; None: it proves the order's absence
    is_owned: bool = False  # its sender may still be sending it
    could_ask: bool = True  # whether the venue can be asked for it from here at all


class Reconciliation:
    """`environment` is the store's: an engine's own send is asked for in that mode, else in the one that is said."""

    def __init__(self, store: Store, pool: VenuePool, actor: Actor, environment: str | None = None) -> None:
        self._environment = environment
        self._store = store
        self._pool = pool
        self._actor = actor
        self._paces: dict[VenueAccount, Pace] = {}
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Ask about no further attempt. Call from this object's own loop."""
        self._stopped.set()

    async def settle(self, ids: tuple[str, ...], modes: Sequence[Mode], handle: RunHandle) -> tuple[EntryOutcome, ...]:
        """Settle the open attempts and intents of these entries, or of all when there are no ids."""
        handle.attend(self)
        attempts = tuple([one for mode in modes for one in await self.open(ids, mode)])
        sends = [send_of(one, modes, self._environment) for one in await intents_of(self._store, _IN_DOUBT)]
        meant = [one for one in sends if not ids or one.entry_id in ids]
        attempts += tuple(one for one in meant if isinstance(one, Attempt))
        refused = [one for one in meant if isinstance(one, EntryOutcome) and ids]
        left = tuple(one for one in ids if one not in {other.entry_id for other in refused})
        skipped = [*refused, *await self._nothing_to_ask(left, attempts, modes)]
        handle.total = len(skipped) + len(attempts)
        for ended in skipped:
            handle.tell(ended)
        return (*skipped, *await self.run(attempts, tell=handle.tell))

    async def _nothing_to_ask(
        self, ids: tuple[str, ...], attempts: Sequence[Attempt], modes: Sequence[Mode]
    ) -> list[EntryOutcome]:
        asked = {attempt.entry_id for attempt in attempts}
        if not set(ids) - asked:
            return []
        elsewhere = [one for one in await self._store.open_attempts() if one.mode not in modes]
        words = {one.entry_id: f"in doubt in {one.mode}: say --{one.mode}" for one in elsewhere}
        mode = modes[0] if len(modes) == 1 else None
        free = [entry_id for entry_id in ids if entry_id not in asked]
        return [EntryOutcome(one, "skipped", mode, detail=words.get(one, "not in doubt")) for one in free]

    async def open(self, ids: tuple[str, ...], mode: Mode) -> tuple[Attempt, ...]:
        """The open attempts in this mode: of these entries, or of all when there are no ids."""
        attempts = await self._store.open_attempts()
        return tuple(one for one in attempts if one.mode == mode and (not ids or one.entry_id in ids))

    async def run(
        self, attempts: tuple[Attempt, ...], *, tell: Callable[[EntryOutcome], None] = lambda _: None
    ) -> tuple[EntryOutcome, ...]:
        results = []
        for attempt in attempts:
            ended = _ended(attempt, "skipped", "stopped: nothing was asked")
            if not self._stopped.is_set():
                ended = await self._one(attempt)
            results.append(ended)
            tell(ended)
        return tuple(results)

    async def _one(self, attempt: Attempt) -> EntryOutcome:
        word = await self.ask(attempt)
        settled = decide(word)
        if attempt.attempt_no == ENGINE_SEND:
            attempt = replace(attempt, account=word.account)
            if settled.word == "unknown":
                settled = replace(settled, result=None)  # nobody but its engine may write more of an intent
        now = await self._store.clock()
        why = ActContext(at=now, operation=uuid.uuid4().hex, reason="reconcile")
        if settled.result is not None and not await self._store.settle(attempt, settled.result, self._actor, why):
            return _ended(attempt, "skipped", settled_elsewhere(attempt))
        if settled.result is None:
            note = ActContext(at=now, operation=why.operation, reason="reconcile", note=settled.text)
            await self._store.record("lookup", (attempt.entry_id,), self._actor, note)
        order_id = settled.result.venue_order_id if settled.result else None
        return _ended(attempt, settled.word, settled.text, order_id, word.account or attempt.account)

    async def ask(self, attempt: Attempt) -> VenueWord:
        """What the venue shows of this attempt's order, and what that proves. Writes nothing."""
        # Read the clock before asking the venue: an answer from within the window must not count as one from after it.
        if attempt.attempt_no == ENGINE_SEND:
            return await self._ask_engine_send(attempt)
        now = await self._store.clock()
        owned = attempt.outcome is None and attempt.lease_until > now.timestamp()
        prepared = payload.decode(attempt.payload)
        if prepared is None:
            return VenueWord(LookupVerdict("no-answer", _UNREADABLE), is_owned=owned, could_ask=False)
        mode: Mode = "live" if attempt.mode == "live" else "paper"
        at = VenueAccount(attempt.venue, prepared.action.account_id or None)
        try:
            client = await self._pool.client(at, mode)
            window, pace = self._pool.window(at.venue), self._paces.setdefault(at, Pace(self._pool.rate(at.venue)))
        except VenueError as problem:
            return VenueWord(LookupVerdict("no-answer", str(problem)), is_owned=owned, could_ask=False)
        account = client.account_of(prepared.action)
        match = account_match(attempt, account, client.key_digest)
        if match == "other":
            text = f"account {account} answered, but it was sent from {attempt.account}: the answer proves nothing"
            return VenueWord(LookupVerdict("no-answer", text), match, account, is_owned=owned)
        sent, captured = await self._times(attempt)
        gap = absence_gap(sent, now, window=window, reach=client.profile.reach)
        if owned:
            gap = "its owner may still be sending it"
        elif match == "unsure":
            gap = _UNSURE if attempt.key_digest else _NO_KEY
        action, oldest = prepared.action, earliest(captured)
        verdict = await self._looked_up(client, pace, prepared, action, sure=gap is None, not_before=oldest)
        return VenueWord(verdict, match, account, gap, owned, could_ask=client.profile.lookup)

    async def _ask_engine_send(self, attempt: Attempt) -> VenueWord:
        """By its intent: whose key the engine used is not known, but its account's credentials are asked with."""
        now, intent = await self._store.clock(), await self._store.get(attempt.entry_id)
        if intent is None or intent.origin != "intent" or intent.state != "in_doubt":
            return VenueWord(LookupVerdict("no-answer", settled_elsewhere(attempt)), could_ask=False)
        mode: Mode = "live" if attempt.mode == "live" else "paper"
        question = await question_of(self._store, self._pool, intent, mode)
        if isinstance(question, CannotAsk):
            verdict = LookupVerdict("no-answer", question.why)
            return VenueWord(verdict, account=question.account, could_ask=False)
        client, at = question.client, question.command.at
        pace = self._paces.setdefault(at, Pace(self._pool.rate(at.venue)))
        captured = question.command.captured_at
        sent = max(filter(None, (captured, parse_time(attempt.finished_at))), default=None)
        reach, window = client.profile.reach, self._pool.window(at.venue)
        gap = question.gap or absence_gap(sent, now, window=window, reach=reach)
        prepared, action = question.prepared, question.command.action
        seen = await self._looked_up(client, pace, prepared, action, sure=gap is None, not_before=earliest(captured))
        verdict = question.judged(seen)
        return VenueWord(verdict, account=question.account, absence_gap=gap, could_ask=client.profile.lookup)

    async def _times(self, attempt: Attempt) -> tuple[datetime | None, datetime | None]:
        """(the latest moment at which an order of this entry may have been sent, when it was captured)."""
        entry = await self._store.get(attempt.entry_id)
        captured = parse_time(entry.get("captured_at")) if entry is not None else None
        tried = [parse_time(at) for one in await self._store.attempts(attempt.entry_id) for at in _moments(one)]
        # A request may have been under way until its outcome was recorded.
        return max(filter(None, (captured, *tried)), default=None), captured

    async def _looked_up(
        self,
        client: VenueClient,
        pace: Pace,
        prepared: Prepared,
        action: OrderAction,
        *,
        sure: bool,
        not_before: datetime | None,
    ) -> LookupVerdict:
        """What the venue shows. Where absence would count, only several look-ups in a row count as absent."""
        verdict = LookupVerdict("no-answer", _STOPPED)
        for turn in range(LOOK_UPS if sure else 1):
            if not await wait_unless_stopped(max(pace.book(), _BETWEEN_SECONDS if turn else 0.0), self._stopped):
                return LookupVerdict("no-answer", _STOPPED)
            verdict = judge(action, await client.lookup(prepared), not_before=not_before)
            if verdict.kind == "absent" and not client.profile.lookup:
                # This venue may find an order, but "not found" proves nothing.
                text = f"{client.profile.name} cannot be asked by client order id: look there, then settle it"
                return LookupVerdict("no-answer", text)
            pace.hold(verdict.retry_after or 0.0)
            if verdict.kind != "absent":
                return verdict
        return verdict


def send_of(intent: Entry, modes: Sequence[Mode], environment: str | None) -> Attempt | EntryOutcome:
    """An engine's open intent as an attempt in the mode it was sent in; refused where that is not one of these."""
    if environment is not None and environment not in modes:
        text = f"this store is {environment}, and so is the engine's order: say --{environment}"
        return EntryOutcome(intent.id, "refused", modes[0], detail=text)
    return engine_send(intent, environment or modes[0])


def settled_elsewhere(attempt: Attempt) -> str:
    """Why nothing was written: somebody was quicker."""
    if attempt.attempt_no == ENGINE_SEND:
        return "changed meanwhile: the engine or another console resolved it"
    return "settled elsewhere meanwhile"


def _moments(attempt: Attempt) -> tuple[str | None, str | None]:
    return attempt.started_at, attempt.finished_at


def decide(word: VenueWord) -> Settled:
    """The outcome of an attempt by what the venue shows. Pure."""
    verdict = word.verdict
    order_id, text = verdict.order_id, verdict.text
    match verdict.kind:
        case "ours" | "ended":
            return Settled("accepted", text, Result("accepted", order_id, evidence=text))
        case "refused":
            return Settled("rejected", text, Result("rejected", order_id, text, text))
        case "conflict":
            return Settled("unknown", text, Result("unknown", order_id, text, text))
        case "unclear":
            # While its sender may still be sending it, the answer to that send will say more.
            return Settled("unknown", text, None if word.is_owned else Result("unknown", order_id, text, text))
        case "no-answer":
            return Settled("unknown", f"look-up failed: {text}")
        case "absent":
            if word.absence_gap is not None:
                return Settled("unknown", f"not found yet: {text}; {word.absence_gap}")
            evidence = f"{text}, after its window"
            return Settled("not_sent", f"absent: {evidence}", Result("not_sent", error=evidence, evidence=evidence))
        case _:
            assert_never(verdict.kind)


def _ended(
    attempt: Attempt, word: OutcomeKind, text: str, order_id: str | None = None, account: str | None = None
) -> EntryOutcome:
    told = account or attempt.account
    return EntryOutcome(attempt.entry_id, word, attempt.mode, order_id, attempt.client_order_id, text, told)
