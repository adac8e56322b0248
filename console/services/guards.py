"""What stands against sending a command: pure findings, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from backends.records import Halt
from console.config import Limits
from console.duration import age
from console.services.command import Command, Problem
from venues import Mode, Profile, Readiness

BLOCKS = ("unparsable", "in-doubt", "claimed", "halt", "unknown-venue", "no-paper-mode", "max-batch")
OVERRIDABLE = ("stale", "duplicate", "poison", "retry-limit", "notional", "not-ready", "may-have-arrived")
_FUTURE = timedelta(seconds=60)
_DAY = timedelta(hours=24)
Likeness = tuple[str, str, str, Decimal, Decimal | None]  # account, market, side, quantity, price


@dataclass(frozen=True, slots=True)
class Guard:
    code: str
    text: str

    @property
    def overridable(self) -> bool:
        return self.code in OVERRIDABLE


@dataclass(frozen=True, slots=True)
class VenueFacts:
    """What was learnt of one venue before planning; `problem` where it cannot be used at all."""

    name: str
    host: str = ""
    profile: Profile | None = None
    readiness: Readiness | None = None
    rate_per_minute: int | None = None
    problem: Guard | None = None
    has_lookup: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a plan hangs on besides the entries, frozen at one moment."""

    mode: Mode
    at: datetime  # the later of this machine's and the store's clock
    rehearsal: bool = False
    live_store: bool = False
    halt: Halt | None = None
    limits: Limits = field(default_factory=Limits)
    venues: Mapping[str, VenueFacts] = field(default_factory=dict)
    commands: Mapping[str, Command | Problem] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)  # of one signature
    replayed: frozenset[Likeness] = frozenset()
    refusals: Mapping[str, str] = field(default_factory=dict)  # what `prepare` would not make
    overrides: frozenset[str] = frozenset()
    single: bool = False  # an explicit replay of one entry


def likeness(command: Command) -> Likeness:
    action = command.action
    return action.account_id or "", action.market_id, action.side, action.quantity, action.price


def notional(command: Command) -> Decimal | None:
    """Quantity × price; None for a market order, zero for a cancel."""
    if command.action.verb == "cancel":
        return Decimal(0)
    return None if command.action.price is None else abs(command.action.quantity * command.action.price)


def blocking(entry_id: str, facts: Facts) -> list[Guard]:
    """Guards that hold whatever the operator says."""
    found: list[Guard] = []
    if facts.halt is not None:
        found.append(Guard("halt", f"halt set by {facts.halt.operator}: {facts.halt.note}"))
    state = facts.states.get(entry_id, "pending")
    if state in ("in_doubt", "in_flight"):
        found.append(Guard("in-doubt", f"{state.replace('_', ' ')}: reconcile first"))
    elif state != "pending":
        found.append(Guard("settled", f"already {state}"))
    if entry_id in facts.claims:
        found.append(Guard("claimed", f"claimed by {facts.claims[entry_id]}"))
    command = facts.commands[entry_id]
    if isinstance(command, Problem):
        return [*found, Guard(command.code, command.text)]
    venue = facts.venues.get(command.venue)
    if venue is None:
        found.append(Guard("unknown-venue", f"no venue {command.venue}"))
    elif venue.problem is not None and venue.problem.code in BLOCKS:
        found.append(venue.problem)
    if entry_id in facts.refusals:
        found.append(Guard("unparsable", facts.refusals[entry_id]))
    return found


def doubts(command: Command, facts: Facts) -> list[Guard]:
    """Guards an operator may override with a note."""
    found = [
        _stale(command, facts),
        _retries(command, facts),
        _poison(command, facts),
        _too_big(command, facts),
        _not_ready(command, facts),
        _arrived(command, facts),
    ]
    if likeness(command) in facts.replayed and command.action.verb == "new":
        found.append(Guard("duplicate", "the same order was replayed a short while ago"))
    return [guard for guard in found if guard is not None]


def _stale(command: Command, facts: Facts) -> Guard | None:
    if command.captured_at is None:
        return Guard("stale", "its age is not known: captured_at is no time with a zone")
    old = facts.at - command.captured_at
    if old < -_FUTURE:
        return Guard("stale", "captured in the future: the engine's clock and this one disagree")
    if old > facts.limits.stale_after:
        limit = age(facts.at - facts.limits.stale_after, facts.at)
        return Guard("stale", f"{age(command.captured_at, facts.at)} old, limit {limit}")
    return _past_its_day(command, facts)


def _past_its_day(command: Command, facts: Facts) -> Guard | None:
    venue = facts.venues.get(command.venue)
    profile = venue.profile if venue else None
    tif = command.action.time_in_force or (profile.default_tif if profile else None)
    if tif != "day" or command.captured_at is None:
        return None
    ends = command.captured_at + _DAY
    close = venue.readiness.session_close if venue and venue.readiness else None
    next_close = _time(close)
    if next_close is not None and next_close - command.captured_at > _DAY:
        return Guard("stale", "its day is over: the venue's session has closed since it was captured")
    return Guard("stale", "its day is over: captured more than 24 h ago") if facts.at > ends else None


def _time(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return moment if moment and moment.utcoffset() is not None else None


def _retries(command: Command, facts: Facts) -> Guard | None:
    limit = facts.limits.retry_limit
    if command.retry_count < limit:
        return None
    return Guard("retry-limit", f"{command.retry_count} retries, limit {limit}")


def _poison(command: Command, facts: Facts) -> Guard | None:
    times = facts.failures.get(command.entry_id, 0)
    if times < facts.limits.poison_after:
        return None
    return Guard("poison", f"failed {times} times in the same way")


def _too_big(command: Command, facts: Facts) -> Guard | None:
    amount = notional(command)
    if amount is not None and amount > facts.limits.max_notional:
        return Guard("notional", f"{amount:f} is over {facts.limits.max_notional:f} per order")
    most = facts.limits.max_quantity
    if most is not None and command.action.verb != "cancel" and command.action.quantity > most:
        return Guard("notional", f"quantity {command.action.quantity:f} is over {most:f} per order")
    return None


def _not_ready(command: Command, facts: Facts) -> Guard | None:
    venue = facts.venues.get(command.venue)
    if venue is None:
        return None
    if venue.problem is not None and venue.problem.code == "not-ready":
        return venue.problem
    seen = venue.readiness
    if seen is None:
        return None
    if not seen.reachable or False in (seen.market_open, seen.account_usable, seen.really_paper):
        return Guard("not-ready", f"{venue.name}: {seen.detail}")
    return None


def _arrived(command: Command, facts: Facts) -> Guard | None:
    if not command.may_have_arrived or command.action.verb != "new":
        return None
    venue = facts.venues.get(command.venue)
    if command.own_id and venue is not None and venue.has_lookup:
        return None  # the venue is asked before anything is sent
    why = "it has no client order id" if not command.own_id else "the venue cannot be asked by client order id"
    return Guard("may-have-arrived", f"the failed submit may have reached the venue and {why}")
