"""What stands against sending a command: pure findings, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from backends.records import BreakerRow, Halt, Version
from console.services.market.worth import Worth, drifted, is_valued, worth_of
from console.services.replay.command import Command, Problem
from console.services.replay.flow_control import OPEN_SECONDS, breaker_text
from console.services.replay.moment import too_late
from console.services.replay.sent_amounts import SentAmounts
from console.services.replay.venue_pool import VenueAccount
from console.settings.config import Limits, amount_in
from console.text.amounts import spelled_amount
from console.text.shell import set_command
from venues import MarketView, Mode, Profile, Readiness, Refused, SentTerms, Terms, Verb

BLOCKS = (
    "unparsable",
    "in-doubt",
    "claimed",
    "halt",
    "unknown-venue",
    "unknown-account",
    "no-paper-mode",
    "max-batch",
    "unsent-terms",
)
OVERRIDABLE = (
    "stale",
    "duplicate",
    "poison",
    "retry-limit",
    "notional",
    "price-drift",
    "not-ready",
    "may-have-arrived",
    "unmapped-terms",
)
Likeness = tuple[str, str, str, Decimal, str, Decimal | None, Terms]  # account, market, side, size, type, price, terms
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
    """What was learnt of one account at one venue before planning; `problem` where it cannot be used at all."""

    name: str
    host: str = ""
    profile: Profile | None = None
    readiness: Readiness | None = None
    rate_per_minute: int | None = None
    problem: Guard | None = None
    has_lookup: bool = False
    key_digest: str = ""
    breaker: BreakerRow | None = None  # how the last sends there ended, as the ledger has it


@dataclass(frozen=True, slots=True)
class OrderFacts:
    """What the client of its venue says of one order: whose account it goes to, and whether trading hours bind it."""

    account: str | None = None  # the venue's own name of the account
    has_hours: bool = True
    order: Mapping[str, object] = field(default_factory=dict)  # as it goes on the wire, by neutral names
    view: MarketView | None = None  # of its market; None: nobody looked
    market: str = ""  # what its market, and the account inside the account, are told apart by


@dataclass(frozen=True, slots=True)
class BusyOrder:
    """The entry of a logical order that is in flight or in doubt."""

    entry_id: str
    verb: Verb
    in_doubt: bool
    by_engine: bool = False  # an engine may be sending it at this moment


@dataclass(frozen=True, slots=True)
class Replayed:
    """What was replayed a short while ago: how it looked, and the strongest command of each logical order."""

    likes: frozenset[Likeness] = frozenset()
    heads: Mapping[Key, tuple[int, str]] = field(default_factory=dict)  # rank, entry
    ids: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)  # the client order ids sent, the latest first


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a plan hangs on besides the entries, frozen at one moment."""

    mode: Mode
    at: datetime  # the later of this machine's and the store's clock
    skew: timedelta = timedelta()  # between those two
    single: bool = False  # one entry, which waits for nothing
    rehearsal: bool = False
    live_store: bool = False
    paper_store: bool = False
    halt: Halt | None = None
    limits: Limits = field(default_factory=Limits)
    venues: Mapping[VenueAccount, VenueFacts] = field(default_factory=dict)
    orders: Mapping[str, OrderFacts] = field(default_factory=dict)  # by entry
    commands: Mapping[str, Command | Problem] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    accepted: Mapping[str, frozenset[str]] = field(default_factory=dict)  # modes in which a venue took its order
    claims: Mapping[str, str] = field(default_factory=dict)
    busy: Mapping[Key, tuple[BusyOrder, ...]] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)  # of one signature
    replayed: Replayed = field(default_factory=Replayed)
    first: Mapping[str, tuple[str, Version]] = field(default_factory=dict)  # entry → the NEW entry it places instead
    others: tuple[Command, ...] = ()  # pending commands of the same logical orders that nobody selected
    refusals: Mapping[str, Guard] = field(default_factory=dict)  # what `prepare` would not make
    overrides: frozenset[str] = frozenset()
    sent: SentAmounts = field(default_factory=SentAmounts)  # by the same person in the last hour
    rules: tuple[str, ...] = ()  # what the store's policy says, and not the config


def refusal(refused: Refused) -> Guard:
    """The guard for an order of which its venue's client makes no request."""
    if refused.unsent:
        return Guard("unsent-terms", refused.why)
    return Guard("unknown-account" if refused.wrong_account else "unparsable", refused.why)


def likeness(command: Command) -> Likeness:
    action = command.action
    size = (action.quantity, action.order_type, action.price, action.terms)
    return action.account_id or "", action.market_id, action.side, *size


def placed(command: Command) -> frozenset[Likeness]:
    """What it puts at the venue, so that the same order is known again. A cancel puts nothing there."""
    return frozenset() if command.action.verb == "cancel" else frozenset((likeness(command),))


def worth(command: Command, facts: Facts) -> Worth:
    view = facts.orders.get(command.entry_id, OrderFacts()).view
    return worth_of(command.action, view, at=facts.at, quote_seconds=facts.limits.quote_seconds)


def blocking(entry_id: str, facts: Facts) -> list[Guard]:
    """Guards that hold whatever the operator says."""
    found: list[Guard] = []
    if facts.halt is not None:
        found.append(Guard("halt", facts.halt.text))
    if facts.paper_store and facts.mode == "live":
        found.append(
            Guard("paper-store", "the config or the policy calls this store paper: nothing goes out live from it")
        )
    state = facts.states.get(entry_id, "pending")
    found += _settled(state, facts.accepted.get(entry_id, frozenset()), facts)
    if entry_id in facts.claims:
        found.append(Guard("claimed", f"claimed by {facts.claims[entry_id]}"))
    command = facts.commands[entry_id]
    if isinstance(command, Problem):
        return [*found, Guard(command.code, command.text)]
    venue = facts.venues.get(command.at)
    if venue is None:
        found.append(Guard("unknown-venue", f"no venue {command.venue}"))
    elif venue.problem is not None and not venue.problem.overridable:
        found.append(venue.problem)
    if entry_id in facts.refusals:
        found.append(facts.refusals[entry_id])
    if state == "pending":
        found += _same_order(command, facts)
    return found


def _settled(state: str, accepted: frozenset[str], facts: Facts) -> list[Guard]:
    """Why an entry that has had its order, or may have it, is not sent."""
    if state in ("in_doubt", "in_flight"):
        return [Guard("in-doubt", f"{state.replace('_', ' ')}: reconcile or settle it first")]
    if state == "replayed" and facts.mode == "live" and "live" not in accepted and accepted:
        return [Guard("replayed-in-paper", "replayed in paper only: dlq restore reopens it, then it can go live")]
    if state != "pending":
        return [Guard("settled", f"already {state}")]
    if facts.mode in accepted and not facts.rehearsal:
        return [Guard("settled", f"already replayed in {facts.mode}")]
    return []


def _same_order(command: Command, facts: Facts) -> list[Guard]:
    """At most one command of a logical order is in flight, and none follows a stronger one that has gone out."""
    others = [one for one in facts.busy.get(command.key, ()) if one.entry_id != command.entry_id]
    holding = next((one for one in others if not _may_pass(command, one)), None)
    if holding is not None:
        if holding.by_engine:
            return [
                Guard("claimed", f"{holding.entry_id}, of the same order, is being sent by the engine: wait for it")
            ]
        text = f"{holding.entry_id}, of the same order, is in flight or in doubt: reconcile or settle it first"
        return [Guard("in-doubt", text)]
    rank, head = facts.replayed.heads.get(command.key, (0, ""))
    if rank > command.rank:
        return [Guard("superseded", f"superseded by {head}, which was replayed")]
    return []


def _may_pass(command: Command, other: BusyOrder) -> bool:
    """A cancel goes also while the order it takes away is in doubt."""
    return command.action.verb == "cancel" and other.in_doubt and other.verb != "cancel"


def doubts(command: Command, facts: Facts, seen: Worth) -> list[Guard]:
    """Guards an operator may override with a note. What takes risk away is not held up like what adds it."""
    found = [_not_ready(command, facts)]
    if command.action.verb != "cancel":
        found += [
            _broken(command, facts),
            _stale(command, facts),
            _retries(command, facts),
            _poison(command, facts),
            too_big(command, seen, facts.limits, is_live=facts.mode == "live"),
            _drifted(seen, facts.limits),
            _arrived(command, facts),
            _unmapped(command, facts),
        ]
    if likeness(command) in facts.replayed.likes and command.action.verb == "new":
        found.append(Guard("duplicate", "the same order was replayed a short while ago"))
    else:
        found.append(_second(command, facts))
    return [guard for guard in found if guard is not None]


def _second(command: Command, facts: Facts) -> Guard | None:
    """A second order of one key: it may have another client order id, by which the first one is not found."""
    _, head = facts.replayed.heads.get(command.key, (0, ""))
    if command.action.verb != "new" or head in ("", command.entry_id):
        return None
    return Guard("duplicate", f"{head}, of the same order, was replayed a short while ago")


def _stale(command: Command, facts: Facts) -> Guard | None:
    profile, readiness = time_facts(command, facts)
    limit = facts.limits.stale_after
    late = too_late(command, facts.at, stale_after=limit, profile=profile, readiness=readiness, skew=facts.skew)
    return Guard("stale", late) if late else None


def time_facts(command: Command, facts: Facts) -> tuple[Profile | None, Readiness | None]:
    """(the venue's rules, its session); no session for an order that trading hours do not bind."""
    venue = facts.venues.get(command.at)
    if venue is None:
        return None, None
    has_hours = facts.orders.get(command.entry_id, OrderFacts()).has_hours
    return venue.profile, venue.readiness if has_hours else None


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


def too_big(command: Command, seen: Worth, limits: Limits, *, is_live: bool) -> Guard | None:
    """Over a limit per order, or, in live, not to be held against one."""
    if command.action.verb == "cancel":
        return None
    limit, amount = amount_in(limits.max_notional, seen.currency), seen.amount
    if amount is not None and limit is not None and amount > limit:
        return Guard("notional", f"{spelled_amount(amount)}{_in(seen)} is over {spelled_amount(limit)} per order")
    if is_live and not is_valued(seen, limits):
        return Guard("notional", unvalued(seen))
    most = limits.max_quantity
    if most is not None and command.action.quantity > most:
        quantity = spelled_amount(command.action.quantity)
        return Guard("notional", f"quantity {quantity} is over {spelled_amount(most)} per order")
    return None


def unvalued(seen: Worth) -> str:
    """Why no limit can be held against the order."""
    if seen.amount is None:
        return "cannot be valued: it has no price, and its market has no quote now"
    return f"cannot be valued: [limits] has neither {seen.currency or 'its unknown currency'} nor a default"


def _in(seen: Worth) -> str:
    return f" {seen.currency}" if seen.currency else ""


def _drifted(seen: Worth, limits: Limits) -> Guard | None:
    text = drifted(seen, limits)
    return None if text is None else Guard("price-drift", text)


def _unmapped(command: Command, facts: Facts) -> Guard | None:
    """Keys of the action that nobody knows: they may be terms, and would not be sent."""
    venue = facts.venues.get(command.at)
    sends = venue.profile.sends if venue and venue.profile else SentTerms()
    names = sends.unmapped(command.action, facts.limits.labels)
    if not names:
        return None
    remedy = "name it in [limits] labels if it means nothing to the venue, or override this with a note"
    return Guard("unmapped-terms", f"unknown in the action, and not sent: {', '.join(names)}; {remedy}")


def _not_ready(command: Command, facts: Facts) -> Guard | None:
    venue = facts.venues.get(command.at)
    seen = venue.readiness if venue else None
    if venue is not None and venue.problem is not None and venue.problem.overridable:
        return venue.problem
    if venue is None or seen is None:
        return None
    not_paper = facts.mode == "paper" and seen.really_paper is False
    if not_paper:
        return Guard("not-ready", f"{venue.name}: this is not a paper account{_new_keys(command, facts)}")
    if seen.reachable and seen.ready and False not in (seen.market_open, seen.account_usable):
        return None
    has_hours = facts.orders.get(command.entry_id, OrderFacts()).has_hours
    if seen.closed and (command.action.verb == "cancel" or not has_hours):
        return None  # only the market is shut, which holds up neither a cancel nor what trades round the clock
    remedy = _new_keys(command, facts) if seen.account_usable is False else ""
    return Guard("not-ready", f"{venue.name}: {seen.detail}{remedy}")


def _new_keys(command: Command, facts: Facts) -> str:
    """The command that sets other keys, where the venue does not take or trade with these."""
    return f"; other keys: {set_command(command.at.venue, command.at.account, facts.mode)}"


def _broken(command: Command, facts: Facts) -> Guard | None:
    """Its venue's breaker is open. A batch waits for that once; a single order is told at once."""
    venue = facts.venues.get(command.at)
    row = venue.breaker if venue else None
    if not facts.single or row is None or row.opened_ago is None or row.opened_ago >= OPEN_SECONDS:
        return None
    left = OPEN_SECONDS - row.opened_ago
    return Guard("not-ready", breaker_text(command.at.label, row.failures, left))


def _lost(venue: VenueFacts | None) -> Guard | None:
    """The ledger is older than what this machine saw: only the venue knows what was sent from here since."""
    if venue is None or venue.problem is not None or venue.has_lookup:
        return None
    text = "the ledger was restored from a backup, it may have been sent since, and the venue cannot be asked"
    return Guard("may-have-arrived", text)


def _arrived(command: Command, facts: Facts) -> Guard | None:
    """The engine's own send may be at the entry's own venue, and no look-up there can answer."""
    if command.rival:
        told = f"{command.rival}, of the same order, may have reached the venue under another client order id"
        return Guard("may-have-arrived", f"{told}: ask for it (dlq ask), then dismiss the one that is not needed")
    if not command.may_stand or command.action.verb != "new":
        return None
    venue = facts.venues.get(command.elsewhere or command.at)
    if not command.may_have_arrived:
        return _lost(venue)
    if venue is None or venue.problem is not None:
        if command.elsewhere is None:
            return None  # blocked by that, and nothing is known of what it could be asked
        why = f"{command.own_venue} cannot be asked from here"
    elif not command.engine_id_is_known:
        why = "it cannot be asked by the id it was sent with"
    elif not venue.has_lookup:
        why = "it cannot be asked by client id"
    else:
        return None  # the venue is asked before anything is sent
    return Guard("may-have-arrived", f"the failed submit may have reached the venue, and {why}")
