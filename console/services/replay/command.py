"""An entry as the one command it stands for: parsed action, venue, and the client order id it will carry. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from backends.records import Attempt, Entry, RowKey, Version, parse_time
from console.services.triage.triage import ClassifiedEntry, classified
from venues import OrderAction, Profile, parse_action


@dataclass(frozen=True, slots=True)
class Command:
    entry_id: str
    version: Version
    row_key: RowKey
    venue: str  # as the store or the operator names it
    action: OrderAction
    client_order_id: str
    own_id: bool  # the entry's own client order id, so the venue may know it already
    may_have_arrived: bool
    captured_at: datetime | None
    retry_count: int
    fingerprint: str
    notes: tuple[str, ...] = ()
    fresh: bool = True  # nobody has sent this id from here yet

    @property
    def key(self) -> tuple[str, str, str]:
        """The logical order: at most one command of it is in flight."""
        return self.venue, self.action.account_id or "", self.action.order_key


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
    row: ClassifiedEntry = classified(entry)
    retries = entry.get("retry_count")
    return Command(
        entry_id=entry.id,
        version=entry.version,
        row_key=entry.row_key,
        venue=venue or entry.text("venue_name"),
        action=parsed.action,
        client_order_id=parsed.action.client_order_id or "",
        own_id=bool(parsed.action.client_order_id),
        may_have_arrived=row.reach == "maybe",
        captured_at=parse_time(entry.get("captured_at")),
        retry_count=retries if isinstance(retries, int) else 0,
        fingerprint=row.fingerprint,
        notes=parsed.notes,
    )


def with_client_id(command: Command, profile: Profile, *, store_id: str, attempts: Sequence[Attempt]) -> Command:
    """The entry's own id where the venue takes it, else one fixed for the entry; a fresh one only where it is burnt.

    `attempts` are those of this entry at this venue in this mode: no other says anything of an id there.
    """
    own = command.client_order_id
    takes_own = bool(own) and profile.takes_id(own)
    base = own if takes_own else profile.make_id(_seed(store_id, command.entry_id, 0))
    burnt = sum(1 for attempt in attempts if is_burnt(attempt))
    chosen = base if not burnt else profile.make_id(_seed(store_id, command.entry_id, burnt))
    notes = command.notes
    if own and not takes_own:
        notes = (*notes, f"its own client order id does not fit {profile.name}: {chosen} is sent")
    if burnt:
        notes = (*notes, f"an order under its earlier id has ended at the venue: {chosen} is sent")
    return replace(
        command,
        client_order_id=chosen,
        own_id=takes_own and not burnt,
        fresh=not any(attempt.client_order_id == chosen for attempt in attempts),
        notes=notes,
    )


def is_burnt(attempt: Attempt) -> bool:
    """The venue has an order under this id and it has ended unfilled: the id can name no second one."""
    return attempt.outcome == "rejected" and bool(attempt.venue_order_id)


def _seed(store_id: str, entry_id: str, turn: int) -> str:
    text = f"{store_id}\n{entry_id}" + (f"\n{turn}" if turn else "")
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
