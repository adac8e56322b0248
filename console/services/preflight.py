"""Gathers the facts a plan hangs on: commands, venues and their readiness, claims, earlier attempts, clocks, halt.

Asks, never writes, never sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from backends.records import Attempt, Entry
from backends.store import Store
from console.clock import Clock
from console.config import Limits
from console.services.command import Command, Problem, read_command, with_client_id
from console.services.desk import Desk
from console.services.fingerprint import fingerprint
from console.services.guards import Facts, Guard, Likeness, VenueFacts, likeness
from venues import Mode, NoPaperMode, Refused, UnknownVenue, VenueClient, VenueError


@dataclass(frozen=True, slots=True)
class Request:
    """What an operator asks for."""

    mode: Mode
    venue: str | None = None  # instead of the entry's own
    overrides: frozenset[str] = frozenset()
    single: bool = False
    probe: bool = True


class Preflight:
    def __init__(self, store: Store, desk: Desk, limits: Limits, clock: Clock, *, live_store: bool) -> None:
        self._store = store
        self._desk = desk
        self._limits = limits
        self._clock = clock
        self._live_store = live_store

    async def facts(self, entries: Sequence[Entry], request: Request) -> Facts:
        ids = tuple(entry.id for entry in entries)
        attempts = await self._store.attempts_of(ids)
        commands = {entry.id: read_command(entry, venue=request.venue) for entry in entries}
        venues = {name: await self._venue(name, request) for name in _venue_names(commands)}
        commands = await self._identified(commands, venues, attempts)
        at = max(self._clock(), await self._store.clock())
        return Facts(
            mode=request.mode,
            at=at,
            rehearsal=self._live_store and request.mode == "paper",
            live_store=self._live_store,
            halt=await self._store.halted(),
            limits=self._limits,
            venues=venues,
            commands=commands,
            states={entry.id: entry.state for entry in entries},
            claims=await self._store.live_claims(ids),
            failures={entry.id: _same_failures(entry, attempts.get(entry.id, ())) for entry in entries},
            replayed=await self._recent(at, request),
            refusals=await self._refusals(commands, venues, request.mode),
            overrides=request.overrides,
            single=request.single,
        )

    async def _venue(self, name: str, request: Request) -> VenueFacts:
        try:
            self._desk.check(name, request.mode)
            profile, rate = self._desk.profile(name), self._desk.rate(name)
        except NoPaperMode as problem:
            return VenueFacts(name, problem=Guard("no-paper-mode", str(problem)))
        except UnknownVenue as problem:
            return VenueFacts(name, problem=Guard("unknown-venue", str(problem)))
        except VenueError as problem:
            return VenueFacts(name, problem=Guard("unknown-venue", str(problem)))
        try:
            client = await self._desk.client(name, request.mode)
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
        commands: Mapping[str, Command | Problem],
        venues: Mapping[str, VenueFacts],
        attempts: Mapping[str, tuple[Attempt, ...]],
    ) -> dict[str, Command | Problem]:
        store_id = await self._store.store_id()
        fitted: dict[str, Command | Problem] = {}
        for entry_id, command in commands.items():
            profile = venues[command.venue].profile if isinstance(command, Command) else None
            if isinstance(command, Command) and profile is not None:
                command = with_client_id(command, profile, store_id, attempts.get(entry_id, ()))
            fitted[entry_id] = command
        return fitted

    async def _recent(self, at: datetime, request: Request) -> frozenset[Likeness]:
        if self._live_store and request.mode == "paper":
            return frozenset()  # a rehearsal duplicates nothing
        recent = await self._store.replayed_since(at - self._limits.duplicate_window)
        commands = [read_command(entry, venue=None) for entry in recent]
        return frozenset(likeness(command) for command in commands if isinstance(command, Command))

    async def _refusals(
        self, commands: Mapping[str, Command | Problem], venues: Mapping[str, VenueFacts], mode: Mode
    ) -> dict[str, str]:
        """What the venue's client would not make of a command, found by trying; nothing of it is kept or sent."""
        refused: dict[str, str] = {}
        clients: dict[str, VenueClient] = {}
        for entry_id, command in commands.items():
            if not isinstance(command, Command) or venues[command.venue].problem is not None:
                continue
            if command.venue not in clients:
                clients[command.venue] = await self._desk.client(command.venue, mode)
            tried = clients[command.venue].prepare(command.action, command.client_order_id)
            if isinstance(tried, Refused):
                refused[entry_id] = tried.why
        return refused


def _venue_names(commands: Mapping[str, Command | Problem]) -> list[str]:
    return sorted({command.venue for command in commands.values() if isinstance(command, Command)})


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
