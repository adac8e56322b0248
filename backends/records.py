"""Records that stores and callers exchange: entries, filters, pages, acts, attempts. Standard library only, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from dlq_sink.values import number as number
from dlq_sink.values import parse_time as parse_time
from dlq_sink.values import readable as readable
from dlq_sink.values import storable as storable
from dlq_sink.values import utc_time as utc_time

from backends.criterion import Criterion, Pattern
from backends.entry import CLIP as CLIP
from backends.entry import ENGINE_SEND as ENGINE_SEND
from backends.entry import OPEN_STATES as OPEN_STATES
from backends.entry import STATES as STATES
from backends.entry import Entry as Entry
from backends.entry import Origin as Origin
from backends.entry import RowKey as RowKey
from backends.entry import State as State
from backends.entry import Version as Version
from backends.entry import malformed as malformed
from backends.entry import stored_entry as stored_entry
from backends.ledger.actor import Actor as Actor
from backends.ledger.actor import Person as Person
from backends.store_info import STANDBY as STANDBY
from backends.store_info import Finding as Finding
from backends.store_info import StoreInfo as StoreInfo

if TYPE_CHECKING:
    from dlq_sink.record import ERROR_LIMIT as ERROR_LIMIT
    from dlq_sink.record import DeadLetteredOrder as DeadLetteredOrder
    from dlq_sink.record import new_dlq_id as new_dlq_id


def __getattr__(name: str) -> object:
    """What an engine writes: loaded when asked for, as reading needs none of it."""
    if name in ("ERROR_LIMIT", "DeadLetteredOrder", "new_dlq_id"):
        from dlq_sink import record

        return getattr(record, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries to read, by what their row holds; `backends.filter_match` says what each field means.

    The single fields are short for a criterion with one literal value.
    """

    states: frozenset[State] = OPEN_STATES
    venue: str | None = None
    account: str | None = None
    market: str | None = None
    side: str | None = None
    failure: str | None = None  # why an outbox gave a message up
    since: datetime | None = None
    until: datetime | None = None
    terms: tuple[str, ...] = ()  # texts that must be found
    without: tuple[str, ...] = ()  # texts that must not
    criteria: tuple[Criterion, ...] = ()

    @property
    def is_open(self) -> bool:
        """Asks for nothing but states."""
        return self == Filter(states=self.states)

    @property
    def every(self) -> tuple[Criterion, ...]:
        """Everything it asks of a row, as criteria."""
        named = {name: getattr(self, name) for name in ("venue", "account", "market", "side", "failure")}
        found = [Criterion(name, (Pattern.literal(text),)) for name, text in named.items() if text is not None]
        if self.since is not None:
            found.append(Criterion("age", sign=">=", limit=self.since))
        if self.until is not None:
            found.append(Criterion("age", sign="<", limit=self.until))
        found += [Criterion("text", (Pattern.literal(text),)) for text in self.terms]
        found += [Criterion("text", (Pattern.literal(text),), negated=True) for text in self.without]
        return (*found, *self.criteria)


@dataclass(frozen=True, slots=True)
class Page:
    entries: tuple[Entry, ...]
    more: bool  # there is at least one more beyond the last


@dataclass(frozen=True, slots=True)
class ScannedRows:
    """The matches among the next rows in one direction, and how far that went."""

    entries: tuple[Entry, ...]
    reached: RowKey | None  # the last row looked at; None: there was none
    looked: int
    more: bool  # rows are left to look at


@dataclass(frozen=True, slots=True)
class Counts:
    by_state: Mapping[State, int]
    oldest_pending: datetime | None

    @property
    def open(self) -> int:
        return sum(count for state, count in self.by_state.items() if state in OPEN_STATES)


@dataclass(frozen=True, slots=True)
class Selection:
    """Exactly these entries, each with the version that was seen."""

    picks: tuple[tuple[str, Version], ...]

    @classmethod
    def of(cls, entries: tuple[Entry, ...] | list[Entry]) -> Selection:
        return cls(tuple((entry.id, entry.version) for entry in entries))

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(entry_id for entry_id, _ in self.picks)

    def __len__(self) -> int:
        return len(self.picks)


@dataclass(frozen=True, slots=True)
class ActContext:
    """When and why somebody acted; every event of one command has the same `operation`."""

    at: datetime
    operation: str
    reason: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ActResult:
    done: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]  # (id, what it is now) of entries that somebody else changed
    contended: bool = False  # somebody else has written since our last act
    held: float | None = None  # seconds for which nobody else could write, where a write keeps everybody out


@dataclass(frozen=True, slots=True)
class Attempt:
    """One send of an entry: its intent and, once known, its outcome."""

    entry_id: str
    attempt_no: int
    mode: str
    venue: str
    client_order_id: str
    payload_hash: str
    outcome: str | None  # accepted, rejected, unknown, not_sent; None while in flight
    venue_order_id: str | None
    error: str | None
    started_at: str
    finished_at: str | None
    operator: str
    os_user: str
    rehearsal: bool = False
    payload: bytes = b""
    lease_until: float = 0.0  # seconds since the epoch, by the store's clock
    account: str | None = None  # the venue's own name of the account; None: it does not tell, or a ledger of 0.1
    key_digest: str | None = None  # of the key it was sent with; None: a ledger of 0.1
    lease_seen: str = ""  # of an engine's own send: its intent's lease as stored when it was looked at


@dataclass(frozen=True, slots=True)
class Ancestor:
    """An earlier dead letter of a message that was replayed and failed again; None where nobody knows any more."""

    entry_id: str
    failed_at: str | None
    reason: str | None
    error: str | None
    replayed_at: str | None
    operator: str | None  # who replayed it
    gone: bool = False  # its row is deleted; what is known comes from the ledger


Chained = tuple[int, bytes, bytes]  # an event's number, its body, and the hash over it and all before


class AuditEvent(NamedTuple):
    """A tuple, because verifying a chain reads millions of them."""

    seq: int
    body: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class Note:
    at: str
    operator: str
    text: str


@dataclass(frozen=True, slots=True)
class Halt:
    since: str
    operator: str
    note: str

    @property
    def text(self) -> str:
        """Why nothing is sent, and what lifts it."""
        return f"halt set by {self.operator}" + (f": {self.note}" if self.note else " (dlq resume lifts it)")


# Kinds of the event that answers an ask.
ApprovalVerdict = Literal["approve", "self-approved", "withdrawn", "refused-approval"]


_NOBODY = Person("", "")


@dataclass(frozen=True, slots=True)
class Approval:
    """A plan that waits for a second person, by the events of the chain. Identities are OS user and database role."""

    plan_hash: str
    asked_by: str
    summary: str
    approved_by: str | None
    approved_ago: float | None  # seconds, by the store's clock
    asked_at: float = 0.0  # seconds since the epoch, by the store's clock
    asked_ago: float = 0.0
    kind: str = "replay"  # or settle, resume, absent
    document: str = "{}"  # what the second person approves, as JSON
    request: str = ""  # what was asked for, to find an approved plan again
    asked: Person = _NOBODY
    approved: Person | None = None
    is_own: bool = False  # the asker approved it, as `second_person = "delay …"` allows
    advisory: bool = False  # the database cannot hold the role that reads this to four eyes
    reader_role: str = ""  # that logged in to read this


BreakerKey = tuple[str, str, str]  # venue, account ("" where entries have none), mode


@dataclass(frozen=True, slots=True)
class BreakerRow:
    """What the last sends to one venue, account and mode told, to every console of the store."""

    failures: int  # in a row
    successes: int  # in a row, since it opened
    opened_ago: float | None  # seconds, by the store's clock; None: closed
