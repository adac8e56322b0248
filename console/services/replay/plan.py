"""What a replay will do, decided before anything is done: collapsed, guarded, ordered, hashed. Pure.

The same object is the dry run, the gate's preview and what runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from backends.records import Entry, Version
from console.services.json_lines import json_line
from console.services.market.exposure import Exposed, Exposure, amounts_text, by_currency, exposure_of
from console.services.market.worth import UNKNOWN, Worth, is_valued
from console.services.replay.command import Command, Problem, place_of
from console.services.replay.guards import (
    Facts,
    Guard,
    Likeness,
    OrderFacts,
    blocking,
    doubts,
    likeness,
    placed,
    time_facts,
    unvalued,
    worth,
)
from console.services.replay.outcome import NOTHING_PLANNED, EntryOutcome, PlannedGuard, PlannedOrder, row_of
from console.services.replay.venue_pool import VenueAccount
from venues import Mode, Profile, Readiness

WAVES = (1, 5)  # a canary, a few, then the rest
_ARRIVED = "may-have-arrived"
_OVER = ("settled", "superseded")  # nothing else matters of these
_DRIFT_PLACES = 8
_BACK = 1.0  # seconds by which a clock may be corrected
_TERMS = (
    "verb",
    "market_id",
    "side",
    "quantity",
    "order_type",
    "price",
    "price_unit",
    "time_in_force",
    "account_id",
    "venue_order_id",
    "order_key",
)


@dataclass(frozen=True, slots=True)
class Step:
    command: Command
    wave: int
    overridden: tuple[str, ...] = ()
    host: str = ""
    account: str | None = None  # the venue's own name of the account it goes to; None: the venue does not tell
    key_digest: str = ""
    profile: Profile | None = None
    readiness: Readiness | None = None  # None also where trading hours do not bind it
    order_in_doubt: bool = False  # another command of its logical order is in doubt
    order: Mapping[str, object] = field(default_factory=dict)  # as it goes on the wire, by neutral names
    worth: Worth = UNKNOWN
    passed: tuple[Guard, ...] = ()  # what was overridden
    is_live: bool = False

    @property
    def hash(self) -> str:
        """Everything that makes it this order and no other; never times, notes or texts."""
        command, action = self.command, self.command.action
        terms = {name: getattr(action, name) for name in _TERMS} | {"extra": dict(action.extra)}
        terms |= {"terms": action.terms.document(), "params": dict(action.params), "sent": dict(self.order)}
        parts = [command.entry_id, [str(part) for part in command.version], command.venue, self.host, self.account]
        document = [*parts, command.client_order_id, list(self.overridden), terms]
        return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Blocked:
    entry_id: str
    guards: tuple[Guard, ...]
    planned: PlannedOrder = NOTHING_PLANNED

    @property
    def text(self) -> str:
        return "; ".join(f"{guard.code}: {guard.text}" for guard in self.guards)


@dataclass(frozen=True, slots=True)
class Superseded:
    entry_id: str
    version: Version
    by: str


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    mode: Mode
    rehearsal: bool
    steps: tuple[Step, ...]
    superseded: tuple[Superseded, ...]
    blocked: tuple[Blocked, ...]
    exposure: tuple[Exposure, ...]
    hash: str
    hosts: tuple[tuple[str, str], ...] = ()  # (venue and account, host)
    rates: tuple[tuple[str, int | None], ...] = ()
    made_at: datetime | None = None  # by the clock it was judged by
    needs_second: str | None = None  # why another person must approve
    overrides: frozenset[str] = field(default_factory=frozenset)
    problem: str | None = None  # why nothing at all could go; each entry of an order plan names its own reason
    max_drift: Decimal = Decimal(0)  # by how much a currency's gross may grow in the same plan made again
    rules: tuple[str, ...] = ()  # what the store's policy says, and not the config
    lost: frozenset[str] = frozenset()  # what a second person approved and that no longer goes

    def is_old(self, at: datetime, seconds: float) -> bool:
        """Whether it has waited too long for its confirmation, or the clock was set back meanwhile."""
        return self.made_at is None or not -_BACK <= (at - self.made_at).total_seconds() <= seconds

    @property
    def going_ids(self) -> tuple[str, ...]:
        return tuple(step.command.entry_id for step in self.steps)

    @property
    def spoken_of(self) -> tuple[str, ...]:
        """What goes, and what that supersedes."""
        return (*self.going_ids, *(one.entry_id for one in self.superseded))

    @property
    def document(self) -> str:
        """What a second person approves: every order that goes, by its hash, and as the asker saw it."""
        orders = {step.command.entry_id: step.hash for step in self.steps}
        gross = {currency: f"{amount:f}" for currency, amount in self.gross.items()}
        rows = [row_of(one) for one in self.planned() if one.outcome == "planned"]
        places = {step.command.entry_id: _place_row(step) for step in self.steps}
        return json_line({"mode": self.mode, "gross": gross, "orders": orders, "rows": rows, "places": places})

    def is_covered_by(self, document: str) -> bool:
        """Whether everything it does was in an approved plan: the same orders, or fewer, and worth hardly more."""
        try:
            approved = json.loads(document)
            grown = [
                currency
                for currency, amount in self.gross.items()
                if amount > Decimal(approved["gross"].get(currency, "0")) * (1 + self.max_drift)
            ]
            same = all(approved["orders"].get(step.command.entry_id) == step.hash for step in self.steps)
            return approved["mode"] == self.mode and same and not grown
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
            return False

    @property
    def gross(self) -> dict[str, Decimal]:
        """By currency; empty for one that is not known."""
        return by_currency((line.currency, line.gross) for line in self.exposure)

    @property
    def net(self) -> dict[str, Decimal]:
        return by_currency((line.currency, line.net) for line in self.exposure)

    def beneath(self, head: str) -> tuple[Superseded, ...]:
        """What that entry's command supersedes."""
        return tuple(one for one in self.superseded if one.by == head)

    @property
    def size(self) -> int:
        """How many entries it speaks of, whatever becomes of them."""
        return len(self.steps) + len(self.superseded) + len(self.blocked)

    @property
    def count(self) -> int:
        return len(self.steps)

    @property
    def overridable(self) -> frozenset[str]:
        """Codes of the guards that an operator may override; none of an entry that would stay all the same."""
        free = [one.guards for one in self.blocked if all(guard.overridable for guard in one.guards)]
        return frozenset(guard.code for guards in free for guard in guards)

    @property
    def summary(self) -> str:
        """What a second person reads before they approve."""
        gross = f"gross {amounts_text(self.gross)}"
        why = (self.needs_second or "").removeprefix(f"{gross} is ")
        return f"{self.count} {self.mode} order{'' if self.count == 1 else 's'}, {gross} ({why})"

    @property
    def held(self) -> tuple[EntryOutcome, ...]:
        """Outcomes of the entries that stay."""
        return tuple(EntryOutcome(one.entry_id, "refused", self.mode, detail=one.text) for one in self.blocked)

    def without_moved(self, moved: Iterable[tuple[str, str]]) -> ReplayPlan:
        """With the entries that changed after they were chosen named as blocked."""
        changed = tuple(Blocked(entry_id, (Guard("changed", text),)) for entry_id, text in moved)
        return replace(self, blocked=(*self.blocked, *changed))

    def planned(self) -> tuple[EntryOutcome, ...]:
        """A dry run's outcomes: the same plan, told instead of sent."""
        steps = [
            EntryOutcome(
                entry_id=step.command.entry_id,
                outcome="planned",
                mode=self.mode,
                client_order_id=step.command.client_order_id,
                detail="; ".join(step.command.notes) or None,
                account=step.account,
                notes=(*step.command.notes, *step.worth.remarks, *self._rule_notes),
                planned=_planned(step.order, step.worth, step.passed, overridden=True),
            )
            for step in self.steps
        ]
        superseded = [
            EntryOutcome(
                one.entry_id, "superseded", self.mode, detail=f"superseded by {one.by}", planned=NOTHING_PLANNED
            )
            for one in self.superseded
        ]
        held = [
            EntryOutcome(
                one.entry_id, "refused", self.mode, detail=one.text, notes=self._rule_notes, planned=one.planned
            )
            for one in self.blocked
        ]
        return (*steps, *superseded, *held)

    @property
    def _rule_notes(self) -> tuple[str, ...]:
        return tuple(f"in force: {rule}" for rule in self.rules)

    def refused(self, why: str) -> tuple[EntryOutcome, ...]:
        """Every entry's outcome where nobody confirms or approves the plan."""
        ids = [step.command.entry_id for step in self.steps] + [one.entry_id for one in self.superseded]
        held = [EntryOutcome(entry_id, "refused", self.mode, detail=why) for entry_id in ids]
        return (*held, *self.held)

    @property
    def wave_sizes(self) -> tuple[int, ...]:
        sizes: dict[int, int] = {}
        for step in self.steps:
            sizes[step.wave] = sizes.get(step.wave, 0) + 1
        return tuple(sizes[wave] for wave in sorted(sizes))


def _place_row(step: Step) -> dict[str, object]:
    """Where it goes, which the terms of an order do not say."""
    return {"venue": step.command.venue, "account_id": step.command.account, "host": step.host}


def entries_of(document: str | None) -> tuple[str, ...]:
    """The entries of an approved plan's document."""
    try:
        orders = json.loads(document or "{}").get("orders", {})
    except (ValueError, AttributeError):
        return ()
    return tuple(orders) if isinstance(orders, dict) else ()


def plan(entries: Iterable[Entry], facts: Facts) -> ReplayPlan:
    ordered = sorted({entry.id: entry for entry in entries}.values(), key=_insertion)
    waiting = [entry for entry in ordered if facts.states.get(entry.id, "pending") == "pending"]
    commands = [found for entry in waiting if isinstance(found := facts.commands[entry.id], Command)]
    _, superseded = collapse(sorted((*commands, *facts.others), key=_place))
    gone = {one.entry_id for one in superseded}
    making = _Making(facts)
    ids = [entry.id for entry in ordered if entry.id not in gone]
    exits = [entry_id for entry_id in ids if making.reduces(entry_id)]
    first = [entry_id for entry_id in exits if making.take(entry_id, only_exit=True)]
    for entry_id in ids:
        if entry_id not in first:
            making.take(entry_id)
    blocked = [making.blocked[entry_id] for entry_id in ids if entry_id in making.blocked]
    sent = {step.command.entry_id for step in making.steps}
    named = {entry.id for entry in ordered}
    held = [one for one in superseded if one.entry_id in named and one.by not in sent]
    return _finished(
        facts, making.steps, [one for one in superseded if one.by in sent], [*blocked, *_with_heads(held, named)]
    )


class _Making:
    """Weighs one entry after the other: an order that goes changes the position that the next one meets."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._seen: set[Likeness] = set()
        self._moved: dict[tuple[VenueAccount, str], Decimal] = {}  # by market: what the steps add to its position
        self.steps: list[Step] = []
        self.blocked: dict[str, Blocked] = {}

    def reduces(self, entry_id: str) -> bool:
        command = self._facts.commands[entry_id]
        return isinstance(command, Command) and worth(command, self._facts).reduces

    def take(self, entry_id: str, *, only_exit: bool = False) -> bool:
        """Whether it was weighed; `only_exit` leaves out what no longer reduces its position."""
        command, facts = self._facts.commands[entry_id], self._facts
        seen = self._worth(command)
        if only_exit and not seen.reduces:
            return False
        guards, passed = _weigh(entry_id, facts, self._seen, seen)
        if not guards and len(self.steps) >= facts.limits.max_batch:
            guards = [Guard("max-batch", f"the batch is full: {facts.limits.max_batch} at most")]
        order = facts.orders.get(entry_id, OrderFacts()).order
        if guards:
            told = _planned(order, seen, (*guards, *passed), overridden=False, passed=passed)
            self.blocked[entry_id] = Blocked(entry_id, tuple(guards), told)
        elif isinstance(command, Command):
            self._seen |= placed(command)
            self._move(command, seen)
            self.steps.append(_step(command, facts, _wave(len(self.steps)), passed, seen))
        return True

    def _worth(self, command: Command | Problem) -> Worth:
        """As it meets the market after the steps before it."""
        if isinstance(command, Problem):
            return UNKNOWN
        made = worth(command, self._facts)
        moved = self._moved.get(self._market(command), Decimal(0)) * self._sense(command)
        return made.standing_at(command.action, made.before + moved) if moved and made.before is not None else made

    def _move(self, command: Command, seen: Worth) -> None:
        if seen.before is not None and seen.after is not None:
            market = self._market(command)
            change = (seen.after - seen.before) * self._sense(command)
            self._moved[market] = self._moved.get(market, Decimal(0)) + change

    def _market(self, command: Command) -> tuple[VenueAccount, str]:
        return command.at, self._facts.orders.get(command.entry_id, OrderFacts()).market

    def _sense(self, command: Command) -> int:
        view = self._facts.orders.get(command.entry_id, OrderFacts()).view
        return -1 if view is not None and view.flipped else 1


def _step(command: Command, facts: Facts, wave: int, passed: Sequence[Guard], seen: Worth) -> Step:
    venue = facts.venues.get(command.at)
    profile, readiness = time_facts(command, facts)
    its = facts.orders.get(command.entry_id, OrderFacts())
    return Step(
        command=replace(command, notes=tuple(dict.fromkeys((*command.notes, *_market_notes(command, seen, facts))))),
        wave=wave,
        overridden=tuple(dict.fromkeys(guard.code for guard in passed)),
        host=venue.host if venue else "",
        account=its.account,
        key_digest=venue.key_digest if venue else "",
        profile=profile,
        readiness=readiness,
        order_in_doubt=any(one.entry_id != command.entry_id for one in facts.busy.get(command.key, ())),
        order=its.order,
        worth=seen,
        passed=tuple(passed),
        is_live=facts.mode == "live",
    )


def _market_notes(command: Command, seen: Worth, facts: Facts) -> Iterator[str]:
    if command.action.verb == "cancel":
        return
    yield from seen.notes
    if not is_valued(seen, facts.limits):
        yield unvalued(seen)


def _planned(
    order: Mapping[str, object], seen: Worth, guards: Iterable[Guard], *, overridden: bool, passed: Sequence[Guard] = ()
) -> PlannedOrder:
    quote = seen.quote
    shown = None if quote is None else {"bid": quote.bid, "ask": quote.ask, "at": quote.at}
    known = seen.before is not None and seen.after is not None
    return PlannedOrder(
        order=order or None,
        notional=seen.amount,
        currency=seen.currency,
        quote=shown,
        drift=None if seen.drift is None else round(seen.drift, _DRIFT_PLACES),
        position={"before": seen.before, "after": seen.after} if known else None,
        guards=tuple(PlannedGuard(one.code, one.text, one.overridable, overridden or one in passed) for one in guards),
    )


def _insertion(entry: Entry) -> tuple[str, ...]:
    return place_of(entry.row_key, entry.id)


def _place(command: Command) -> tuple[str, ...]:
    return command.place


def collapse(commands: Sequence[Command]) -> tuple[list[Command], list[Superseded]]:
    """One command per logical order: CANCEL over REPLACE over NEW, then the later one."""
    chosen: dict[tuple[str, str, str], int] = {}
    for position, command in enumerate(commands):
        held = chosen.get(command.key)
        if held is None or command.rank >= commands[held].rank:
            chosen[command.key] = position
    keep = set(chosen.values())
    superseded = [
        Superseded(command.entry_id, command.version, commands[chosen[command.key]].entry_id)
        for position, command in enumerate(commands)
        if position not in keep
    ]
    return [command for position, command in enumerate(commands) if position in keep], superseded


def _weigh(entry_id: str, facts: Facts, seen: set[Likeness], its: Worth) -> tuple[list[Guard], list[Guard]]:
    """(what blocks, what was overridden)."""
    guards, command = blocking(entry_id, facts), facts.commands[entry_id]
    if not isinstance(command, Command) or any(guard.code in _OVER for guard in guards):
        return guards, []
    found = doubts(command, facts, its)
    if likeness(command) in seen and command.action.verb == "new":
        found.append(Guard("duplicate", "the same order is in this batch already"))
    passed = [guard for guard in found if guard.code in facts.overrides]
    if command.may_stand and command.action.verb == "new" and _ARRIVED in facts.overrides:
        # A look-up that cannot answer yet would be this guard while the plan runs.
        passed.append(Guard(_ARRIVED, "a look-up may not answer while it runs"))
    return [*guards, *(guard for guard in found if guard.code not in facts.overrides)], passed


def _wave(position: int) -> int:
    bounds = (0, *(sum(WAVES[: n + 1]) for n in range(len(WAVES))))
    for wave, (low, high) in enumerate(pairwise(bounds)):
        if low <= position < high:
            return wave
    return len(WAVES)


def _with_heads(superseded: Sequence[Superseded], named: set[str]) -> list[Blocked]:
    """What a stronger command of its order stands for waits with that one, selected or not."""
    return [
        Blocked(one.entry_id, (Guard("superseded", f"{one.by} waits{' and is blocked' if one.by in named else ''}"),))
        for one in superseded
    ]


def _finished(
    facts: Facts, steps: Sequence[Step], superseded: Sequence[Superseded], blocked: Sequence[Blocked]
) -> ReplayPlan:
    exposure = exposure_of(
        Exposed(step.command.venue, step.command.action, step.worth.amount, step.worth.currency) for step in steps
    )
    used = sorted({code for step in steps for code in step.overridden})
    risky = sorted({code for step in steps if step.command.action.verb != "cancel" for code in step.overridden})
    names = sorted({step.command.at for step in steps}, key=lambda at: (at.venue, at.account or ""))
    venues = [(at.label, facts.venues[at]) for at in names if at in facts.venues]
    gross = by_currency((line.currency, line.gross) for line in exposure)
    return ReplayPlan(
        mode=facts.mode,
        rehearsal=facts.rehearsal,
        steps=tuple(steps),
        superseded=tuple(superseded),
        blocked=tuple(blocked),
        exposure=exposure,
        hash=_hash(facts.mode, steps),
        hosts=tuple((label, venue.host) for label, venue in venues),
        rates=tuple((label, venue.rate_per_minute) for label, venue in venues),
        made_at=facts.at,
        needs_second=_second(facts, gross, risky),
        overrides=frozenset(used),
        max_drift=facts.limits.max_drift,
        rules=facts.rules,
    )


def _second(facts: Facts, gross: Mapping[str, Decimal], used: Sequence[str]) -> str | None:
    if not facts.rehearsal and any(gross.values()):
        over = facts.sent.over(gross, facts.limits.four_eyes_over, is_live=facts.mode == "live")
        if over is not None:
            return over
    if used and facts.mode == "live":
        return f"overrides {', '.join(used)}"
    return None


def _hash(mode: Mode, steps: Sequence[Step]) -> str:
    """The mode and every order that goes. What stays, and what is superseded, changes nothing at a venue."""
    return hashlib.sha256(json.dumps([mode, *(step.hash for step in steps)]).encode()).hexdigest()[:16]
