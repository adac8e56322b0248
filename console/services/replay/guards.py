"""What stands against sending a command: pure findings, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from backends.records import Halt
from console.services.replay.command import Command, Problem
from console.settings.config import Limits
from console.text.durations import age
from venues import Mode, Profile, Readiness

_DAY = timedelta(hours=24)
_JUST_NOW = timedelta(minutes=15)
_FOR_THE_DAY = ("day", "opg", "cls")
_STATED = ("expiration_time", "expire_time")
_MILLISECONDS = 10**11  # an epoch beyond this is not meant in seconds


def past_its_time(
    command: Command, at: datetime, *, profile: Profile | None, readiness: Readiness | None
) -> str | None:
    """Why its time is over; None where it is not. Immediate orders end by their age alone."""
    if command.captured_at is None:
        return None
    stated = next((moment for name in _STATED if (moment := _moment(command.action.extra.get(name)))), None)
    if stated is not None and at > stated:
        return f"its time in force ended at {stated.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    tif = command.action.time_in_force or (profile.default_tif if profile else None)
    if tif not in _FOR_THE_DAY:
        return None
    close = _moment(readiness.session_close) if readiness else None
    # Sessions close a day apart: with more than that to the next close, one has closed since the capture. Out of
    # hours the next close may be a weekend away; of an entry of the last minutes that says nothing yet.
    just_now = readiness is not None and readiness.market_open is False and at - command.captured_at <= _JUST_NOW
    if close is not None and close - command.captured_at > _DAY and not just_now:
        return "its day is over: the venue's session has closed since it was captured"
    return "its day is over: captured more than 24 h ago" if at - command.captured_at > _DAY else None


def _moment(value: object) -> datetime | None:
    """An ISO time with a zone, or seconds or milliseconds since the epoch."""
    text = str(value or "").strip()
    try:
        if text.isdecimal():
            number = int(text)
            return datetime.fromtimestamp(number / 1000 if number > _MILLISECONDS else number, UTC)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.utcoffset() is not None else None


BLOCKS = ("unparsable", "in-doubt", "claimed", "halt", "unknown-venue", "no-paper-mode", "max-batch")
OVERRIDABLE = ("stale", "duplicate", "poison", "retry-limit", "notional", "not-ready", "may-have-arrived")
RANK = {"cancel": 2, "replace": 1, "new": 0}
_FUTURE = timedelta(seconds=60)
_SKEW = timedelta(seconds=2)
Likeness = tuple[str, str, str, Decimal, Decimal | None]  # account, market, side, quantity, price
Key = tuple[str, str, str]  # venue, account, order key


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
class Replayed:
    """What was replayed a short while ago: how it looked, and the strongest command of each logical order."""

    likes: frozenset[Likeness] = frozenset()
    heads: Mapping[Key, tuple[int, str]] = field(default_factory=dict)  # rank, entry


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a plan hangs on besides the entries, frozen at one moment."""

    mode: Mode
    at: datetime  # the later of this machine's and the store's clock
    skew: timedelta = timedelta()  # between those two
    rehearsal: bool = False
    live_store: bool = False
    halt: Halt | None = None
    limits: Limits = field(default_factory=Limits)
    venues: Mapping[str, VenueFacts] = field(default_factory=dict)
    commands: Mapping[str, Command | Problem] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    busy: Mapping[Key, str] = field(default_factory=dict)  # logical orders with an entry in flight or in doubt
    failures: Mapping[str, int] = field(default_factory=dict)  # of one signature
    replayed: Replayed = field(default_factory=Replayed)
    refusals: Mapping[str, str] = field(default_factory=dict)  # what `prepare` would not make
    overrides: frozenset[str] = frozenset()


def likeness(command: Command) -> Likeness:
    action = command.action
    return action.account_id or "", action.market_id, action.side, action.quantity, action.price


def notional(command: Command) -> Decimal | None:
    """Quantity × price in whole units of money; None for a market order, zero for a cancel."""
    action = command.action
    if action.verb == "cancel":
        return Decimal(0)
    if action.price is None:
        return None
    amount = abs(action.quantity * action.price)
    return amount / 100 if action.price_unit == "cents" else amount


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
    elif venue.problem is not None:
        found.append(venue.problem)
    if entry_id in facts.refusals:
        found.append(Guard("unparsable", facts.refusals[entry_id]))
    if state == "pending":
        found += _same_order(command, facts)
    return found


def _same_order(command: Command, facts: Facts) -> list[Guard]:
    """At most one command of a logical order is in flight, and none follows a stronger one that has gone out."""
    other = facts.busy.get(command.key)
    if other is not None and other != command.entry_id:
        return [Guard("in-doubt", f"{other}, of the same order, is in flight or in doubt: reconcile first")]
    rank, head = facts.replayed.heads.get(command.key, (0, ""))
    if rank > RANK[command.action.verb]:
        return [Guard("superseded", f"superseded by {head}, which was replayed")]
    return []


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
    if likeness(command) in facts.replayed.likes and command.action.verb == "new":
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
        text = f"{age(command.captured_at, facts.at)} old, limit {limit}"
        if facts.skew > _SKEW:
            text += f" (this machine's clock and the store's are {facts.skew.total_seconds():.0f} s apart)"
        return Guard("stale", text)
    venue = facts.venues.get(command.venue)
    profile, readiness = (venue.profile, venue.readiness) if venue else (None, None)
    over = past_its_time(command, facts.at, profile=profile, readiness=readiness)
    return Guard("stale", over) if over else None


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
    seen = venue.readiness if venue else None
    if venue is None or seen is None:
        return None
    not_paper = facts.mode == "paper" and seen.really_paper is False
    if seen.reachable and seen.ready and not not_paper and False not in (seen.market_open, seen.account_usable):
        return None
    return Guard("not-ready", f"{venue.name}: {'this is no paper account' if not_paper else seen.detail}")


def _arrived(command: Command, facts: Facts) -> Guard | None:
    if not command.may_have_arrived or command.action.verb != "new":
        return None
    venue = facts.venues.get(command.venue)
    if venue is None or venue.problem is not None:
        return None  # blocked by that, and nothing is known of what it could be asked
    if command.own_id and venue.has_lookup:
        return None  # the venue is asked before anything is sent
    why = "it cannot be asked by the id it was sent with" if not command.own_id else "it cannot be asked by client id"
    return Guard("may-have-arrived", f"the failed submit may have reached the venue, and {why}")
