"""Gathers the facts a plan hangs on: commands, venues and their readiness, claims, earlier attempts, clocks, halt.

Asks, never writes, never sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from backends.records import Attempt, Entry
from backends.store import Store
from console.clock import Clock
from console.services.errors.fingerprint import fingerprint
from console.services.replay import payload
from console.services.replay.command import Command, Problem, read_command, with_client_id
from console.services.replay.guards import RANK, Facts, Guard, Key, Likeness, Replayed, VenueFacts, likeness
from console.services.replay.venue_pool import VenuePool
from console.settings.config import Limits
from venues import Learner, Mode, NoPaperMode, Refused, VenueError

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
    def __init__(self, store: Store, pool: VenuePool, limits: Limits, clock: Clock, *, live_store: bool) -> None:
        self._store = store
        self._pool = pool
        self._limits = limits
        self._clock = clock
        self._live_store = live_store

    async def facts(self, entries: Sequence[Entry], request: ReplayRequest) -> Facts:
        ids = tuple(entry.id for entry in entries)
        rehearsal = self._live_store and request.mode == "paper"
        attempts = await self._store.attempts_of(ids)
        commands = await self._commands(entries, request)
        venues = {name: await self._venue(name, request) for name in _venue_names(commands)}
        identified = await self._identified(commands, venues, attempts, request.mode)
        commands, refusals = await self._prepared(identified, venues, request.mode)
        here, there = self._clock(), await self._store.clock()
        return Facts(
            mode=request.mode,
            at=max(here, there),
            skew=abs(here - there),
            rehearsal=rehearsal,
            live_store=self._live_store,
            halt=await self._store.halted(),
            limits=self._limits,
            venues=venues,
            commands=commands,
            states={entry.id: entry.state for entry in entries},
            claims=await self._store.live_claims(ids),
            busy=_busy(await self._store.open_attempts(), request.mode),
            failures={entry.id: _same_failures(entry, attempts.get(entry.id, ())) for entry in entries},
            # A rehearsal duplicates nothing.
            replayed=Replayed() if rehearsal else await self._replayed(max(here, there)),
            refusals=refusals,
            overrides=request.overrides,
        )

    async def _commands(self, entries: Iterable[Entry], request: ReplayRequest) -> Commands:
        whole = [(await self._store.get(entry.id) or entry) if entry.clipped else entry for entry in entries]
        return {entry.id: read_command(entry, venue=request.venue) for entry in whole}

    async def _venue(self, name: str, request: ReplayRequest) -> VenueFacts:
        try:
            self._pool.check(name, request.mode)
            profile, rate = self._pool.profile(name), self._pool.rate(name)
        except NoPaperMode as problem:
            return VenueFacts(name, problem=Guard("no-paper-mode", str(problem)))
        except VenueError as problem:
            return VenueFacts(name, problem=Guard("unknown-venue", str(problem)))
        try:
            client = await self._pool.client(name, request.mode)
        except NoPaperMode as problem:
            return VenueFacts(name, profile=profile, problem=Guard("no-paper-mode", str(problem)))
        except VenueError as problem:
            return VenueFacts(name, profile=profile, problem=Guard("unknown-venue", str(problem)))
        return VenueFacts(
            name=name,
            host=client.host,
            profile=profile,
            readiness=await client.probe() if request.probe else None,
            rate_per_minute=rate,
            has_lookup=profile.lookup,
        )

    async def _identified(
        self,
        commands: Commands,
        venues: Mapping[str, VenueFacts],
        attempts: Mapping[str, tuple[Attempt, ...]],
        mode: Mode,
    ) -> Commands:
        store_id = await self._store.store_id()
        fitted: dict[str, Command | Problem] = {}
        for entry_id, command in commands.items():
            profile = venues[command.venue].profile if isinstance(command, Command) else None
            if isinstance(command, Command) and profile is not None:
                its = [one for one in attempts.get(entry_id, ()) if (one.mode, one.venue) == (mode, command.venue)]
                command = with_client_id(command, profile, store_id=store_id, attempts=its)
            fitted[entry_id] = command
        return fitted

    async def _replayed(self, at: datetime) -> Replayed:
        recent = await self._store.replayed_since(at - self._limits.duplicate_window)
        likes: set[Likeness] = set()
        heads: dict[Key, tuple[int, str]] = {}
        for command in [read_command(entry, venue=None) for entry in recent]:
            if isinstance(command, Command):
                likes.add(likeness(command))
                heads[command.key] = max(heads.get(command.key, (0, "")), (RANK[command.action.verb], command.entry_id))
        return Replayed(frozenset(likes), heads)

    async def _prepared(
        self, commands: Commands, venues: Mapping[str, VenueFacts], mode: Mode
    ) -> tuple[Commands, dict[str, str]]:
        """What the venue's client makes of each command, or why it will not; nothing of it is kept or sent."""
        refused: dict[str, str] = {}
        noted: dict[str, Command | Problem] = {}
        for entry_id, command in commands.items():
            if isinstance(command, Command) and venues[command.venue].problem is None:
                client = await self._pool.client(command.venue, mode)
                if isinstance(client, Learner):
                    await client.learn((command.action.market_id,))
                tried = client.prepare(command.action, command.client_order_id)
                if isinstance(tried, Refused):
                    refused[entry_id] = tried.why
                else:
                    command = replace(command, notes=tuple(dict.fromkeys((*command.notes, *tried.notes))))
            noted[entry_id] = command
        return noted, refused


def _venue_names(commands: Commands) -> list[str]:
    return sorted({command.venue for command in commands.values() if isinstance(command, Command)})


def _busy(attempts: Iterable[Attempt], mode: Mode) -> dict[Key, str]:
    """The logical orders that have a command in flight or in doubt; rehearsals hold up nothing."""
    busy: dict[Key, str] = {}
    for attempt in attempts:
        sent = payload.decode(attempt.payload) if attempt.mode == mode and not attempt.rehearsal else None
        if sent is not None:
            busy[attempt.venue, sent.action.account_id or "", sent.action.order_key] = attempt.entry_id
    return busy


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
