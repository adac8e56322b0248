"""An entry as the one command it stands for: parsed action, venue, and the client order id it will carry. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from backends.records import Attempt, Entry, RowKey, Version, parse_time
from console.services.replay.venue_pool import VenueAccount
from console.services.triage.triage import ClassifiedEntry, classified
from venues import OrderAction, Profile, named_order, parse_action

RANK = {"cancel": 2, "replace": 1, "new": 0}


@dataclass(frozen=True, slots=True)
class Command:
    entry_id: str
    version: Version
    row_key: RowKey
    venue: str  # where it is sent, as the store or the operator names it
    own_venue: str  # where the engine sent it
    action: OrderAction
    client_order_id: str
    own_id: bool  # the entry's own client order id, so the venue may know it already
    may_have_arrived: bool
    captured_at: datetime | None
    retry_count: int
    fingerprint: str
    notes: tuple[str, ...] = ()
    places: str = ""  # a replace that goes out as a new order: the NEW entry that was never placed
    ledger_lost: bool = False  # the ledger was restored from a backup: it may have been sent from here since
    elsewhere_id: str = ""  # the id by which the entry's own venue is asked, where it is sent to another one
    sent_at: datetime | None = None  # the latest moment at which an order of this key may have been sent
    aims: tuple[str, ...] = ()  # client order ids that the order of a cancel or replace without an order id may have
    rival: str = ""  # a NEW entry of the same order that may have arrived, under another client order id
    is_aim_sure: bool = False  # one of them is an id that the order was sent with, so that its absence counts

    @property
    def at(self) -> VenueAccount:
        """Whose credentials send it."""
        return VenueAccount(self.venue, self.account)

    @property
    def account(self) -> str | None:
        return self.action.account_id or None

    @property
    def elsewhere(self) -> VenueAccount | None:
        """The entry's own venue, where the operator sends it to another one."""
        return VenueAccount(self.own_venue, self.account) if self.own_venue != self.venue else None

    @property
    def rank(self) -> int:
        """Which command of a logical order stands for the others."""
        return RANK["replace" if self.places else self.action.verb]

    @property
    def may_stand(self) -> bool:
        """Whether an order of it may stand at the venue, sent by the engine or from here."""
        return self.may_have_arrived or self.ledger_lost

    @property
    def engine_id_is_known(self) -> bool:
        """Whether the venue of the engine's own send can be asked by the id that it was sent with."""
        return self.own_id if self.elsewhere is None else bool(self.action.client_order_id)

    @property
    def place(self) -> tuple[str, ...]:
        """Where its entry stands in the store."""
        return place_of(self.row_key, self.entry_id)

    def asked_by(self) -> OrderAction:
        """The action with the id that its order is looked up by first, where it aims at one without an order id."""
        return replace(self.action, client_order_id=self.aims[0]) if self.aims else self.action

    @property
    def key(self) -> tuple[str, str, str]:
        """The logical order: at most one command of it is in flight."""
        return self.venue, self.action.account_id or "", self.action.order_key


def place_of(row_key: RowKey, entry_id: str) -> tuple[str, ...]:
    """A total order, whatever a row's key is made of."""
    return *map(_spelled, row_key), entry_id


def _spelled(part: object) -> str:
    match part:
        case int():
            return f"{part + 2**63:020d}"
        case datetime():
            return part.isoformat(timespec="microseconds")
        case _:
            return str(part)


def with_rival(command: Command, firsts: Sequence[Command]) -> Command:
    """With one of the NEW entries that it stands for whose order may be at the venue and is not asked for."""
    if command.action.verb != "new":
        return command
    own = command.action.client_order_id
    rivals = [
        one.entry_id
        for one in firsts
        if one.entry_id not in (command.entry_id, command.places)
        and one.action.verb == "new"
        and one.may_have_arrived
        and (not own or one.action.client_order_id != own)
    ]
    return replace(command, rival=min(rivals, default=""))


def aimed(command: Command, firsts: Sequence[Command], placed: Sequence[str] = ()) -> Command:
    """With the ids by which its order can be found; `firsts` are the NEW commands of the same logical order, `placed`
    the ids under which orders of it were placed from here."""
    action = command.action
    if action.verb == "new" or action.venue_order_id:
        return command
    own = [action.client_order_id] if action.verb == "cancel" or action.order_key == action.client_order_id else []
    key = [action.order_key] if action.order_key != command.entry_id else []
    named = [one.action.client_order_id for one in firsts if one.action.verb == "new"]
    sure = any((*placed, *named, *own))  # an order key alone may be no client order id at all
    aims = dict.fromkeys(name for name in (*placed, *named, *own, *key) if name)
    return replace(command, aims=tuple(aims), is_aim_sure=sure)


def as_new(change: Command, first: Command) -> Command:
    """A replace of an order that was never placed: its NEW entry's order with the replace's terms, under that id."""
    ours, theirs = change.action, first.action
    action = replace(
        theirs,
        quantity=ours.quantity or theirs.quantity,
        price=theirs.price if ours.price is None else ours.price,
        order_type=theirs.order_type if ours.price is None else ours.order_type,
        time_in_force=ours.time_in_force or theirs.time_in_force,
        price_unit=ours.price_unit or theirs.price_unit,
        terms=theirs.terms.overlaid(ours.terms),
        params={**theirs.params, **ours.params},
        extra={**theirs.extra, **ours.extra},
    )
    note = f"goes out as a new order: {first.entry_id}, which it replaces, was never placed"
    return replace(
        change,
        action=action,
        client_order_id=first.client_order_id,
        own_id=first.own_id,
        may_have_arrived=first.may_have_arrived,
        places=first.entry_id,
        notes=(*change.notes, note),
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an entry is no command."""

    entry_id: str
    code: str
    text: str


def read_command(entry: Entry, *, venue: str | None) -> Command | Problem:
    """The entry's action, as stored; its client order id is fitted to the venue later."""
    parsed = parse_action(entry.columns, entry.text("action_json") or None)
    if parsed.action is None:
        text = "; ".join(f"{finding.code}: {finding.text}" for finding in parsed.findings) or "no action"
        return Problem(entry.id, "unparsable", text)
    return _command(entry, parsed.action, venue, parsed.notes)


def read_names(entry: Entry) -> Command | None:
    """Of an entry that is no command: what its order can be asked for by. It can never be sent."""
    action = named_order(entry.columns, entry.text("action_json") or None)
    return None if action is None else _command(entry, action, None, ())


def _command(entry: Entry, action: OrderAction, venue: str | None, notes: tuple[str, ...]) -> Command:
    row: ClassifiedEntry = classified(entry)
    retries = entry.get("retry_count")
    return Command(
        entry_id=entry.id,
        version=entry.version,
        row_key=entry.row_key,
        venue=venue or entry.text("venue_name"),
        own_venue=entry.text("venue_name"),
        action=action,
        client_order_id=action.client_order_id or "",
        own_id=bool(action.client_order_id),
        may_have_arrived=row.reach == "maybe",
        captured_at=parse_time(entry.get("captured_at")),
        retry_count=retries if isinstance(retries, int) else 0,
        fingerprint=row.fingerprint,
        notes=notes,
    )


def with_client_id(command: Command, profile: Profile, *, store_id: str, attempts: Sequence[Attempt]) -> Command:
    """The entry's own id where the venue takes it, else one fixed for the entry; a fresh one only where it is burnt.

    `attempts` are those of this entry at this venue in this mode: no other says anything of an id there.
    """
    own = command.client_order_id
    takes_own = bool(own) and profile.takes_id(own)
    named = command.places or command.entry_id
    base = own if takes_own else profile.make_id(_seed(store_id, named, 0))
    burnt = sum(1 for attempt in attempts if is_burnt(attempt))
    chosen = base if not burnt else profile.make_id(_seed(store_id, named, burnt))
    # The venue shows the engine's own order as rejected: nothing else can stand there under that id.
    refused = any(is_burnt(attempt) and attempt.client_order_id == own for attempt in attempts)
    notes = command.notes
    if own and not takes_own:
        notes = (*notes, f"its own client order id does not fit {profile.name}: {chosen} is sent")
    if burnt:
        notes = (*notes, f"an order under its earlier id has ended at the venue: {chosen} is sent")
    return replace(
        command,
        client_order_id=chosen,
        own_id=takes_own and not burnt,
        may_have_arrived=command.may_have_arrived and not refused,
        notes=notes,
    )


def is_burnt(attempt: Attempt) -> bool:
    """The venue has an order under this id and it has ended unfilled: the id can name no second one."""
    return attempt.outcome == "rejected" and bool(attempt.venue_order_id)


def _seed(store_id: str, entry_id: str, turn: int) -> str:
    text = f"{store_id}\n{entry_id}" + (f"\n{turn}" if turn else "")
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
