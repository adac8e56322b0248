"""Gathers the facts a plan hangs on: commands, venues and their readiness, claims, earlier attempts, clocks, halt.

Asks, never writes, never sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from backends.records import Attempt, Entry, Version
from backends.store import Store
from console.clock import Clock
from console.services.errors.fingerprint import fingerprint
from console.services.evidence import payload
from console.services.market.look import look_at
from console.services.replay.command import RANK, Command, Problem, aimed, as_new, read_command, with_client_id
from console.services.replay.guards import (
    BusyOrder,
    Facts,
    Guard,
    Key,
    Likeness,
    OrderFacts,
    Replayed,
    VenueFacts,
    likeness,
    refusal,
)
from console.services.replay.venue_pool import VenueAccount, VenuePool
from console.settings.config import Limits
from venues import (
    BadCredentials,
    BadEndpoint,
    Learner,
    MissingExtra,
    Mode,
    NoPaperMode,
    Profile,
    Refused,
    UnknownVenue,
    VenueError,
    WrongAccount,
    WrongMode,
)

Commands = Mapping[str, Command | Problem]


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What an operator asks for."""

    mode: Mode
    venue: str | None = None  # instead of the entry's own
    overrides: frozenset[str] = frozenset()
    single: bool = False
    probe: bool = True


class Preflight:
    def __init__(
        self,
        store: Store,
        pool: VenuePool,
        limits: Limits,
        clock: Clock,
        *,
        environment: str | None = None,
        lost_at: datetime | None = None,
    ) -> None:
        self._lost_at = lost_at  # the ledger was restored from a backup: what was done until then may be missing
        self._store = store
        self._pool = pool
        self._limits = limits
        self._clock = clock
        self._environment = environment

    async def facts(self, entries: Sequence[Entry], request: ReplayRequest) -> Facts:
        ids = tuple(entry.id for entry in entries)
        rehearsal = self._environment == "live" and request.mode == "paper"
        attempts = await self._store.attempts_of(ids)
        read = await self._commands(entries, request)
        others = await self._others(read, request)
        commands, first = await self._never_placed(_aimed(read, others), others)
        attempts |= await self._store.attempts_of(tuple(one for one, _ in first.values()))
        venues = await self._venues(commands, request)
        identified = _dated(await self._identified(commands, venues, attempts, request.mode), others, self._lost_at)
        seen = await self._prepared(identified, venues, request.mode)
        if request.probe:
            await self._look(seen, {entry.id for entry in entries if entry.state == "pending"}, request.mode)
        here, there = self._clock(), await self._store.clock()
        return Facts(
            mode=request.mode,
            at=max(here, there),
            skew=abs(here - there),
            single=len(entries) == 1,
            rehearsal=rehearsal,
            live_store=self._environment == "live",
            paper_store=self._environment == "paper",
            halt=await self._store.halted(),
            limits=self._limits,
            venues=venues,
            orders=seen.orders,
            commands=seen.commands,
            states={entry.id: entry.state for entry in entries},
            accepted={entry_id: _accepted(its) for entry_id, its in attempts.items()},
            claims=await self._store.live_claims(ids),
            busy=_busy(await self._store.open_attempts(), request.mode),
            failures={entry.id: _same_failures(entry, attempts.get(entry.id, ())) for entry in entries},
            # A rehearsal duplicates nothing.
            replayed=Replayed() if rehearsal else await self._replayed(max(here, there), request.mode),
            first=first,
            others=others,
            refusals=seen.refusals,
            overrides=request.overrides,
        )

    async def _commands(self, entries: Iterable[Entry], request: ReplayRequest) -> Commands:
        whole = [(await self._store.get(entry.id) or entry) if entry.clipped else entry for entry in entries]
        return {entry.id: read_command(entry, venue=request.venue) for entry in whole}

    async def _others(self, commands: Commands, request: ReplayRequest) -> tuple[Command, ...]:
        """The pending commands of the same logical orders that were not selected."""
        chosen = [one for one in commands.values() if isinstance(one, Command)]
        if not chosen:
            return ()
        keys = tuple(dict.fromkeys(one.action.order_key for one in chosen))
        found = await self._store.of_orders(keys, tuple(dict.fromkeys(one.action.market_id for one in chosen)))
        orders = {(one.own_venue, one.key) for one in chosen}
        read = [read_command(entry, venue=request.venue) for entry in found if entry.id not in commands]
        return tuple(one for one in read if isinstance(one, Command) and (one.own_venue, one.key) in orders)

    async def _never_placed(
        self, commands: Commands, others: Sequence[Command]
    ) -> tuple[Commands, dict[str, tuple[str, Version]]]:
        """With each replace of an order that was never placed as a new order; and the NEW entries they stand for."""
        made = dict(commands)
        first: dict[str, tuple[str, Version]] = {}
        for entry_id, command in commands.items():
            if isinstance(command, Command) and command.action.verb == "replace" and not command.action.venue_order_id:
                found = await self._first_of(command, commands, others)
                if found is not None:
                    made[entry_id] = as_new(command, found)
                    first[entry_id] = (found.entry_id, found.version)
        return made, first

    async def _first_of(self, change: Command, commands: Commands, others: Sequence[Command]) -> Command | None:
        """The NEW entry of the same order that waits and of which no order was ever accepted."""
        known = [one for one in commands.values() if isinstance(one, Command)]
        for one in (*known, *others):
            if one.action.verb == "new" and one.key == change.key:
                tried = await self._store.attempts(one.entry_id)
                return None if any(attempt.outcome == "accepted" for attempt in tried) else one
        return None

    async def _venues(self, commands: Commands, request: ReplayRequest) -> dict[VenueAccount, VenueFacts]:
        broken = await self._store.breakers()
        return {
            at: replace(await self._venue(at, request), breaker=broken.get((at.venue, at.account or "", request.mode)))
            for at in _venue_accounts(commands)
        }

    async def _venue(self, at: VenueAccount, request: ReplayRequest) -> VenueFacts:
        name = at.venue
        try:
            self._pool.check(name, request.mode)
            profile, rate = self._pool.profile(name), self._pool.rate(name)
        except NoPaperMode as problem:
            return VenueFacts(name, problem=Guard("no-paper-mode", str(problem)))
        except VenueError as problem:
            return VenueFacts(name, problem=Guard("unknown-venue", str(problem)))
        try:
            client = await self._pool.client(at, request.mode)
            readiness = await client.probe() if request.probe else None
            self._pool.check_number(at, request.mode, client)  # a probe may have learnt whose account answers
        except VenueError as problem:
            return VenueFacts(name, profile=profile, problem=guard_of(problem))
        return VenueFacts(
            name=name,
            host=client.host,
            profile=profile,
            readiness=readiness,
            rate_per_minute=rate,
            has_lookup=profile.lookup,
            key_digest=client.key_digest,
        )

    async def _identified(
        self,
        commands: Commands,
        venues: Mapping[VenueAccount, VenueFacts],
        attempts: Mapping[str, tuple[Attempt, ...]],
        mode: Mode,
    ) -> Commands:
        store_id = await self._store.store_id()
        fitted: dict[str, Command | Problem] = {}
        for entry_id, command in commands.items():
            profile = venues[command.at].profile if isinstance(command, Command) else None
            if isinstance(command, Command) and profile is not None:
                tried = [one for one in attempts.get(command.places or entry_id, ()) if one.mode == mode]
                command = _identify(command, profile, venues, store_id=store_id, attempts=tried)
            fitted[entry_id] = command
        return fitted

    async def _replayed(self, at: datetime, mode: Mode) -> Replayed:
        """What went out in this mode: a paper order duplicates no live one."""
        every = await self._store.replayed_since(at - self._limits.duplicate_window)
        attempts = await self._store.attempts_of(tuple(entry.id for entry in every))
        recent = [entry for entry in every if mode in _accepted(attempts.get(entry.id, ()))]
        likes: set[Likeness] = set()
        heads: dict[Key, tuple[int, str]] = {}
        for command in [read_command(entry, venue=None) for entry in recent]:
            if isinstance(command, Command):
                likes.add(likeness(command))
                heads[command.key] = max(heads.get(command.key, (0, "")), (RANK[command.action.verb], command.entry_id))
        return Replayed(frozenset(likes), heads)

    async def _prepared(self, commands: Commands, venues: Mapping[VenueAccount, VenueFacts], mode: Mode) -> _Seen:
        """What the venue's client makes of each command, or why it will not; nothing of it is kept or sent."""
        seen = _Seen({}, {}, {})
        for entry_id, command in commands.items():
            if isinstance(command, Command) and venues[command.at].problem is None:
                client = await self._pool.client(command.at, mode)
                action = command.action
                if isinstance(client, Learner):
                    await client.learn((command.action.market_id,))
                tried = client.prepare(command.asked_by(), command.client_order_id)
                order: Mapping[str, object] = {}
                if isinstance(tried, Refused):
                    seen.refusals[entry_id] = refusal(tried)
                else:
                    order = tried.sent
                    command = replace(command, notes=tuple(dict.fromkeys((*command.notes, *tried.notes))))
                seen.orders[entry_id] = OrderFacts(
                    client.account_of(action), client.clock_counts(action), order, market=client.market_key(action)
                )
            seen.commands[entry_id] = command
        return seen

    async def _look(self, seen: _Seen, pending: set[str], mode: Mode) -> None:
        """One look at each market that an order may go to."""
        wanted: dict[VenueAccount, list[Command]] = {}
        for entry_id in seen.orders:
            command = seen.commands[entry_id]
            going = entry_id in pending and entry_id not in seen.refusals
            if going and isinstance(command, Command) and command.action.verb != "cancel":
                wanted.setdefault(command.at, []).append(command)
        for entry_id, view in (await look_at(self._pool, wanted, mode)).items():
            seen.orders[entry_id] = replace(seen.orders[entry_id], view=view)


class _Seen(NamedTuple):
    commands: dict[str, Command | Problem]
    orders: dict[str, OrderFacts]
    refusals: dict[str, Guard]


def _aimed(commands: Commands, others: Sequence[Command]) -> Commands:
    """With the ids by which the orders of cancels and replaces can be found."""
    known = [*(one for one in commands.values() if isinstance(one, Command)), *others]
    return {
        entry_id: aimed(one, [other for other in known if other.key == one.key]) if isinstance(one, Command) else one
        for entry_id, one in commands.items()
    }


def _identify(
    command: Command,
    profile: Profile,
    venues: Mapping[VenueAccount, VenueFacts],
    *,
    store_id: str,
    attempts: Sequence[Attempt],
) -> Command:
    """With the id that is sent and, where it goes to another venue than its own, the id to ask there for."""
    here = [one for one in attempts if one.venue == command.venue]
    there = [one for one in attempts if one.venue == command.own_venue]
    own = venues[command.elsewhere].profile if command.elsewhere else None
    fitted = with_client_id(command, profile, store_id=store_id, attempts=here)
    if own is None:
        return fitted
    return replace(fitted, elsewhere_id=with_client_id(command, own, store_id=store_id, attempts=there).client_order_id)


def _dated(commands: Commands, others: Iterable[Command], lost_at: datetime | None) -> Commands:
    """With the newest capture of each logical order: until the venue shows that one, "not found" proves nothing.

    Where the ledger was restored from a backup, an older entry may have been sent from here until then.
    """
    newest: dict[Key, datetime] = {}
    for command in (*commands.values(), *others):
        if isinstance(command, Command) and command.captured_at is not None:
            newest[command.key] = max(newest.get(command.key, command.captured_at), command.captured_at)
    dated: dict[str, Command | Problem] = {}
    for entry_id, command in commands.items():
        if isinstance(command, Command):
            sent_at = newest.get(command.key)
            lost = lost_at is not None and (command.captured_at is None or command.captured_at <= lost_at)
            if lost_at is not None and lost:
                sent_at = max(sent_at or lost_at, lost_at)
            command = replace(command, sent_at=sent_at, ledger_lost=lost)
        dated[entry_id] = command
    return dated


def guard_of(problem: VenueError) -> Guard:
    """The guard for a venue that is known but cannot be used: the wrong credentials, or no answer."""
    if isinstance(problem, NoPaperMode):
        return Guard("no-paper-mode", str(problem))
    if isinstance(problem, BadCredentials | WrongMode | WrongAccount):
        return Guard("unknown-account", str(problem))
    if isinstance(problem, UnknownVenue | MissingExtra | BadEndpoint):
        return Guard("unknown-venue", str(problem))
    return Guard("not-ready", str(problem))


def _venue_accounts(commands: Commands) -> list[VenueAccount]:
    found = [command for command in commands.values() if isinstance(command, Command)]
    used = {command.at for command in found} | {command.elsewhere for command in found}
    return sorted((at for at in used if at is not None), key=lambda at: (at.venue, at.account or ""))


def _busy(attempts: Iterable[Attempt], mode: Mode) -> dict[Key, tuple[BusyOrder, ...]]:
    """The logical orders that have a command in flight or in doubt; rehearsals hold up nothing."""
    busy: dict[Key, tuple[BusyOrder, ...]] = {}
    for attempt in attempts:
        sent = payload.decode(attempt.payload) if attempt.mode == mode and not attempt.rehearsal else None
        if sent is not None:
            key = (attempt.venue, sent.action.account_id or "", sent.action.order_key)
            held = BusyOrder(attempt.entry_id, sent.verb, attempt.outcome is not None)
            busy[key] = (*busy.get(key, ()), held)
    return busy


def _accepted(attempts: Iterable[Attempt]) -> frozenset[str]:
    return frozenset(one.mode for one in attempts if one.outcome == "accepted" and not one.rehearsal)


def _same_failures(entry: Entry, attempts: Sequence[Attempt]) -> int:
    """Failures of one signature; retries older than our history count as the entry's own error."""
    tally: dict[str, int] = {}
    recorded = 0
    for attempt in attempts:
        if attempt.rehearsal or attempt.outcome not in ("rejected", "unknown"):
            continue
        recorded += 1
        mark = fingerprint(attempt.error or "").id
        tally[mark] = tally.get(mark, 0) + 1
    counted = entry.get("retry_count")
    earlier = max(0, counted - recorded) if isinstance(counted, int) else 0
    return max([earlier, *tally.values()])
