"""Records that stores and callers exchange: entries, filters, pages, acts, attempts. Standard library only, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from dlq_sink.record import ERROR_LIMIT as ERROR_LIMIT
from dlq_sink.record import DeadLetteredOrder as DeadLetteredOrder
from dlq_sink.record import new_dlq_id as new_dlq_id
from dlq_sink.values import is_encodable, is_naive
from dlq_sink.values import number as number
from dlq_sink.values import parse_time as parse_time
from dlq_sink.values import readable as readable
from dlq_sink.values import storable as storable
from dlq_sink.values import utc_time as utc_time

from backends.criterion import Criterion, Pattern

CLIP = 4096  # characters or bytes of a value that a page carries; `get` gives it whole
State = Literal["pending", "in_flight", "in_doubt", "replayed", "dismissed"]
STATES: tuple[State, ...] = ("pending", "in_flight", "in_doubt", "replayed", "dismissed")
OPEN_STATES: frozenset[State] = frozenset({"pending", "in_flight", "in_doubt"})
Origin = Literal["entry", "intent"]
ENGINE_SEND = 0  # the number of an attempt that the engine made itself, known by its intent
Version = tuple[object, ...]  # the mutable columns of a row as last seen
RowKey = tuple[object, ...]  # where a row stands in insertion order


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of any layout: its columns as stored, and the state that the ledger adds."""

    layout: str
    id: str
    state: State
    version: Version
    row_key: RowKey
    names: tuple[str, ...]
    values: tuple[object, ...]
    clipped: bool = False  # some long text is cut here; `get` gives it whole
    origin: Origin = "entry"  # or an engine's intent that nobody resolved, or that was found at its venue
    sender: tuple[str, str] = ("", "")  # of an intent: the engine that was about to send it, and its host

    def get(self, name: str) -> object:
        """The column as stored; None where the layout or this store has no such column."""
        try:
            return self.values[self.names.index(name)]
        except ValueError:
            return None

    def text(self, name: str) -> str:
        value = self.get(name)
        return "" if value is None else readable(value)

    @property
    def columns(self) -> Mapping[str, object]:
        return dict(zip(self.names, self.values, strict=True))


class _UnfrozenEntry:
    """An entry while it is made: a frozen dataclass sets each field by a call, which takes four times as long."""

    __slots__ = Entry.__slots__


def stored_entry(
    layout: str, entry_id: str, state: State, version: Version, row_key: RowKey, *,
    names: tuple[str, ...], values: tuple[object, ...], clipped: bool,
) -> Entry:  # fmt: skip
    """The same as `Entry(…)`, for who makes thousands of them: both classes have the same slots."""
    made: Any = _UnfrozenEntry()
    made.layout = layout
    made.id = entry_id
    made.state = state
    made.version = version
    made.row_key = row_key
    made.names = names
    made.values = values
    made.clipped = clipped
    made.origin = "entry"
    made.sender = ("", "")
    made.__class__ = Entry
    entry: Entry = made
    return entry


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
class Actor:
    """Who acts. `operator` is a label; the identity is the OS user (and the role the store adds)."""

    operator: str
    os_user: str  # the name of the real uid
    host: str
    program: str
    uid: int | None = None  # the real one
    sudo_user: str | None = None  # who became this user by sudo, as sudo says
    login_uid: int | None = None  # who logged in, as the kernel keeps it through su and sudo
    foreign_namespace: bool = False  # in a user namespace of its own, where anybody may be any uid

    @property
    def evidence(self) -> dict[str, object]:
        """What an event keeps; what is not known is left out."""
        told: dict[str, object] = {"operator": self.operator, "os_user": self.os_user, "host": self.host}
        more = {"uid": self.uid, "sudo_user": self.sudo_user, "login_uid": self.login_uid}
        told |= {"program": self.program} | {name: value for name, value in more.items() if value is not None}
        return told | ({"foreign_namespace": True} if self.foreign_namespace else {})


@dataclass(frozen=True, slots=True)
class Person:
    """Who asked for a plan or approved it, by the event of the chain."""

    os_user: str
    role: str  # that logged in to the database, as the database says; empty on SQLite
    host: str = ""
    uid: int | None = None
    foreign_namespace: bool = False

    def __str__(self) -> str:
        return f"{self.os_user}|{self.role}"


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
    asked: Person = Person("", "")
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


@dataclass(frozen=True, slots=True)
class Finding:
    """Something an operator should know about this store; `sql` is what its owner could run to mend it."""

    code: str
    text: str
    sql: str = ""


STANDBY = "standby"  # the code of the finding that a server can only be read


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """The attach report."""

    label: str  # never holds a password
    dialect: Literal["sqlite", "postgresql", "memory"]
    layout: str
    table: str
    columns: tuple[str, ...]
    order: str  # "rowid" or "captured_at"
    read_only: bool
    read_only_enforced_by: Literal["database", "client"]
    role: str
    findings: tuple[Finding, ...] = field(default=())
    login: str = ""  # the role that logged in, which may act as another one
    advisory: Finding | None = None  # why the database cannot hold this role to four eyes, halt and policy
    role_sql: tuple[tuple[str, str], ...] = ()  # what an owner would run for operators, approvers and auditors
    unread: tuple[str, ...] = ()  # what this role would need to read and may not

    @property
    def why_read_only(self) -> str | None:
        """Why nobody can act here, whatever they ask for; None where it is only this console that may not."""
        return next((finding.text for finding in self.findings if finding.code == STANDBY), None)

    @property
    def ledger_is_readable(self) -> bool:
        """False: there is a ledger, and what it holds (in flight, in doubt, replayed, the halt) is unknown here."""
        return self.unreadable is None

    @property
    def unreadable(self) -> Finding | None:
        """Why the ledger cannot be read, and what an owner would run."""
        return next((one for one in self.findings if one.code == "ledger-unreadable"), None)


_TEXT_COLUMNS = frozenset(
    {"dlq_id", "venue_name", "account_id", "market_id", "side", "order_type", "client_order_id", "error", "action_json"}
)
_MAY_BE_NULL = frozenset(
    {"account_id", "order_type", "price", "client_order_id", "retry_count", "dismissed", "action_json"}
)


def malformed(entry: Entry) -> tuple[str, ...]:
    """The columns of an order row that hold an unexpected value, each with the reason."""
    found = (f"{name}: {_oddity(name, value)}" for name, value in zip(entry.names, entry.values, strict=True))
    return tuple(text for text in found if not text.endswith(": "))


def _oddity(name: str, value: object) -> str:
    if value is None:
        return "" if name in _MAY_BE_NULL else "missing"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, str) and not is_encodable(value):
        return "invalid UTF-8"
    if isinstance(value, str) and "\0" in value:
        return "holds a NUL"
    match name:
        case "captured_at":
            return "" if parse_time(value) else "no time zone" if is_naive(readable(value)) else "not a time"
        case "quantity" | "price":
            return "" if number(value) is not None else "not a finite number"
        case "retry_count":
            return "" if isinstance(value, int) and value >= 0 else "not a count"
        case "dismissed":
            return "" if value in (0, 1, "0", "1") else "neither yes nor no"
        case _:
            return "" if isinstance(value, str) or name not in _TEXT_COLUMNS else "not text"
