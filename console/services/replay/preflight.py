"""Gathers the facts a plan hangs on: commands, venues and their readiness, claims, earlier attempts, clocks, halt.

Asks, never writes, never sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from backends.records import Actor, Attempt, Entry, Filter, State, Version
from backends.store import Store
from console.clock import Clock
from console.services.browse.engine_intent import intents_of
from console.services.evidence import payload
from console.services.market.look import look_at
from console.services.replay.command import (
    RANK,
    Command,
    Problem,
    aimed,
    as_new,
    read_command,
    with_client_id,
    with_rival,
)
from console.services.replay.guards import (
    BusyOrder,
    Facts,
    Guard,
    Key,
    Likeness,
    OrderFacts,
    Replayed,
    VenueFacts,
    placed,
    refusal,
)
from console.services.replay.sent_amounts import SentAmounts, sent_last_hour
from console.services.replay.venue_pool import VenueAccount, VenuePool
from console.services.triage.poison import poison_among
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

_IN_DOUBT: frozenset[State] = frozenset({"in_doubt"})
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
        refuses_live: bool = False,
        lost_at: datetime | None = None,
        actor: Actor | None = None,
        rules: tuple[str, ...] = (),
    ) -> None:
        self._lost_at = lost_at  # the ledger was restored from a backup: what was done until then may be missing
        self._store = store
        self._pool = pool
        self._limits = limits
        self._clock = clock
        self._environment = environment
        self._refuses_live = refuses_live or environment == "paper"
        self._actor = actor  # whose orders of the last hour count; None: nobody's
        self._rules = rules  # what the store's policy says, and not the config

    async def facts(self, entries: Sequence[Entry], request: ReplayRequest) -> Facts:
        facts = await self._facts(entries, request)
        sent = await self._sent(request.mode, facts.at, rehearsal=facts.rehearsal)
        return replace(facts, sent=sent, rules=self._rules)

    async def _facts(self, entries: Sequence[Entry], request: ReplayRequest) -> Facts:
        ids = tuple(entry.id for entry in entries)
        rehearsal = self._environment == "live" and request.mode == "paper"
        attempts = await self._store.attempts_of(ids)
        read = await self._commands(entries, request)
        others = await self._others(read, request)
        pending = {entry.id for entry in entries if entry.state == "pending"} | {one.entry_id for one in others}
        replayed = await self._replayed(request.mode, rehearsal=rehearsal)
        commands, first = await self._never_placed(_aimed(read, others, replayed), others, pending, replayed)
        attempts |= await self._store.attempts_of(tuple(one for one, _ in first.values()))
        venues = await self._venues(commands, request)
        identified = _dated(await self._identified(commands, venues, attempts, request.mode), others, self._lost_at)
        seen = await self._prepared(identified, venues, request.mode)
        await self._look(seen, pending, request)
        bad = await poison_among(self._store, entries, self._limits.poison_after)
        here, there = self._clock(), await self._store.clock()
        return Facts(
            mode=request.mode,
            at=max(here, there),
            skew=abs(here - there),
            single=len(entries) == 1,
            rehearsal=rehearsal,
            live_store=self._environment == "live",
            paper_store=self._refuses_live,
            halt=await self._store.halted(),
            limits=self._limits,
            venues=venues,
            orders=seen.orders,
            commands=seen.commands,
            states={entry.id: entry.state for entry in entries},
            accepted={entry_id: _accepted(its) for entry_id, its in attempts.items()},
            claims=await self._store.live_claims(ids),
            busy=await self._busy(request.mode),
            failures={one: poison.times for one, poison in bad.items()},
            replayed=replayed,
            first=first,
            others=others,
            refusals=seen.refusals,
            overrides=request.overrides,
        )

    async def _busy(self, mode: Mode) -> dict[Key, tuple[BusyOrder, ...]]:
        """The logical orders that have a command in flight or in doubt, here or by an engine's intent."""
        busy = _busy(await self._store.open_attempts(), mode)
        if self._environment not in (None, mode):
            return busy
        for intent in await intents_of(self._store, Filter(states=_IN_DOUBT), owned=True):
            whole = (await self._store.get(intent.id) or intent) if intent.clipped else intent
            command = read_command(whole, venue=None)
            if isinstance(command, Command):
                doubted = intent.state == "in_doubt"
                held = BusyOrder(intent.id, command.action.verb, doubted, by_engine=not doubted)
                busy[command.key] = (*busy.get(command.key, ()), held)
        return busy

    async def _sent(self, mode: Mode, now: datetime, *, rehearsal: bool) -> SentAmounts:
        if self._actor is None or rehearsal:
            return SentAmounts()
        return await sent_last_hour(self._store, mode, self._actor, now)

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
        self, commands: Commands, others: Sequence[Command], pending: set[str], replayed: Replayed
    ) -> tuple[Commands, dict[str, tuple[str, Version]]]:
        """With each replace of an order that was never placed as a new order, and with the rivals of each order; and
        the NEW entries that those replaces stand for."""
        made = dict(commands)
        first: dict[str, tuple[str, Version]] = {}
        known = [*(one for one in commands.values() if isinstance(one, Command)), *others]
        for entry_id, command in commands.items():
            if isinstance(command, Command) and command.action.verb == "replace" and not command.action.venue_order_id:
                firsts = [one for one in known if one.action.verb == "new" and one.key == command.key]
                if command.key not in replayed.heads and not await self._was_placed(firsts):
                    waiting = [one for one in firsts if one.entry_id in pending]
                    if waiting:
                        found = max(waiting, key=lambda one: one.place)  # as the later one of equal commands goes
                        made[entry_id] = as_new(command, found)
                        first[entry_id] = (found.entry_id, found.version)
        return _with_rivals(made, [one for one in known if one.entry_id in pending]), first

    async def _was_placed(self, firsts: Iterable[Command]) -> bool:
        tried = await self._store.attempts_of(tuple(one.entry_id for one in firsts))
        return any(attempt.outcome == "accepted" for its in tried.values() for attempt in its)

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

    async def _replayed(self, mode: Mode, *, rehearsal: bool) -> Replayed:
        """What went out in this mode: a paper order duplicates no live one, and a rehearsal nothing."""
        if rehearsal:
            return Replayed()
        now = max(self._clock(), await self._store.clock())
        every = await self._store.replayed_since(now - self._limits.duplicate_window)
        attempts = await self._store.attempts_of(tuple(entry.id for entry in every))
        recent = [entry for entry in every if mode in _accepted(attempts.get(entry.id, ()))]
        likes: set[Likeness] = set()
        heads: dict[Key, tuple[int, str]] = {}
        ids: dict[Key, list[tuple[str, str]]] = {}
        for command in [read_command(entry, venue=None) for entry in recent]:
            if isinstance(command, Command):
                likes |= placed(command)
                heads[command.key] = max(heads.get(command.key, (0, "")), (RANK[command.action.verb], command.entry_id))
                taken = [one for one in attempts[command.entry_id] if one.outcome == "accepted" and one.mode == mode]
                named = [(one.started_at, one.client_order_id) for one in taken if command.action.verb != "cancel"]
                ids[command.key] = [*ids.get(command.key, ()), *named]
        latest = {key: tuple(name for _, name in sorted(its, reverse=True)) for key, its in ids.items()}
        return Replayed(frozenset(likes), heads, latest)

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

    async def _look(self, seen: _Seen, pending: set[str], request: ReplayRequest) -> None:
        """One look at each market that an order may go to."""
        if not request.probe:
            return
        wanted: dict[VenueAccount, list[Command]] = {}
        for entry_id in seen.orders:
            command = seen.commands[entry_id]
            going = entry_id in pending and entry_id not in seen.refusals
            if going and isinstance(command, Command) and command.action.verb != "cancel":
                wanted.setdefault(command.at, []).append(command)
        for entry_id, view in (await look_at(self._pool, wanted, request.mode)).items():
            seen.orders[entry_id] = replace(seen.orders[entry_id], view=view)


class _Seen(NamedTuple):
    commands: dict[str, Command | Problem]
    orders: dict[str, OrderFacts]
    refusals: dict[str, Guard]


def _with_rivals(commands: Commands, waiting: Sequence[Command]) -> Commands:
    """With what waits of the same order and may be at the venue under another id."""
    made: dict[str, Command | Problem] = {}
    for entry_id, one in commands.items():
        same = [other for other in waiting if isinstance(one, Command) and other.key == one.key]
        made[entry_id] = with_rival(one, same) if isinstance(one, Command) else one
    return made


def _aimed(commands: Commands, others: Sequence[Command], replayed: Replayed) -> Commands:
    """With the ids by which the orders of cancels and replaces can be found."""
    known = [*(one for one in commands.values() if isinstance(one, Command)), *others]
    made: dict[str, Command | Problem] = {}
    for entry_id, one in commands.items():
        if isinstance(one, Command):
            firsts = [other for other in known if other.key == one.key]
            one = aimed(one, firsts, replayed.ids.get(one.key, ()))
        made[entry_id] = one
    return made


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
