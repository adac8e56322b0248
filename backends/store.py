"""The contract of a store: how to read, act, claim and watch, and every error it raises. Knows no database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Protocol, runtime_checkable

from dlq_sink.error import ActRefused as ActRefused
from dlq_sink.error import BadEntry as BadEntry
from dlq_sink.error import BadTarget as BadTarget
from dlq_sink.error import CommitUnknown as CommitUnknown
from dlq_sink.error import DuplicateEntry as DuplicateEntry
from dlq_sink.error import NotADLQ as NotADLQ
from dlq_sink.error import StoreError as StoreError
from dlq_sink.error import Unreachable as Unreachable

from backends.layouts.mask import masked_error
from backends.records import (
    ActContext,
    Actor,
    ActResult,
    Ancestor,
    Approval,
    ApprovalVerdict,
    Attempt,
    AuditEvent,
    BreakerKey,
    BreakerRow,
    Chained,
    Counts,
    Entry,
    Filter,
    Halt,
    Note,
    Page,
    RowKey,
    ScannedRows,
    Selection,
    StoreInfo,
    Version,
)

OnSuccess = Literal["delete", "soft-delete", "keep"]  # what the config may ask to do with a handled row


class RunsForeignCode(NotADLQ):
    """Looking at it would run functions of another role; `info` is what the catalog alone says of it."""

    def __init__(self, text: str, info: StoreInfo) -> None:
        super().__init__(text)
        self.info = info


class RepeatedId(BadTarget):
    """Several entries have this id; the text names them."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to act on one entry until the lease ends; the token stops late writers."""

    entry_id: str
    token: int
    version: Version


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """Why an entry could not be claimed."""

    entry_id: str
    why: str  # "claimed by oncall@host", "in doubt", "dismissed", "changed", "halt", "gone"
    code: Literal["claimed", "in-doubt", "settled", "changed", "halt", "gone", "conflict", "policy"]


@dataclass(frozen=True, slots=True)
class Intent:
    """What is about to be sent; committed before the first byte leaves."""

    mode: str
    venue: str
    client_order_id: str
    payload: bytes
    payload_hash: str
    rehearsal: bool = False
    detail: str = ""  # for the audit: host, plan hash, overrides
    account: str | None = None  # the venue's own name of the account; None: it does not tell
    key_digest: str = ""
    policy: str | None = None  # digest of the policy it was judged by: refused under another; None: any
    notional: Decimal | None = None  # what the order is worth; None: nobody can tell
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class SentOrder:
    """What one attempt counts towards the limits of an hour."""

    notional: Decimal | None
    currency: str | None
    payload: bytes | None = None  # of an attempt of an earlier version, which kept no value


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended, and what that does to the entry."""

    outcome: Literal["accepted", "rejected", "unknown", "not_sent"]
    venue_order_id: str | None = None
    error: str | None = None
    evidence: str = ""  # for the audit: what the venue said
    counts: bool | None = None  # whether it counts as a retry; None: the outcome decides

    def __post_init__(self) -> None:
        """What a venue's library said may repeat the request, and neither ledger nor chain forgets."""
        if self.error:
            object.__setattr__(self, "error", masked_error(self.error))
        if self.evidence:
            object.__setattr__(self, "evidence", masked_error(self.evidence))


@dataclass(frozen=True, slots=True)
class Failures:
    """How an entry's tries failed, as far as that counts towards poison."""

    errors: tuple[str, ...]  # of the failed tries since the last clear, oldest first; rehearsals do not count
    is_cleared: bool = False  # an accepted replay or a person cleared what came before, its own error included


@dataclass(frozen=True, slots=True)
class Requeued:
    """A dead-lettered message was put into the outbox again, as a new row."""

    entry_id: str
    row_id: str
    queue: str
    key: str | None  # the correlation id, by which a consumer recognises a repetition
    outbox: str
    deleted: bool  # the dead-lettered row is gone


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """The rows of one queue in the outbox."""

    queue: str
    rows: int
    leased: int  # held by a broker
    expired: int  # held for longer than a broker usually does
    oldest_lease: float  # seconds


@dataclass(frozen=True, slots=True)
class OutboxFigures:
    reasons: Mapping[tuple[str, str], int]  # open messages by queue and reason
    queues: tuple[QueueLoad, ...] | None  # None: the outbox is not known, or this role may not read it


@dataclass(frozen=True, slots=True)
class Change:
    """News from the store. "changed" may come without a change, but never fails to come."""

    kind: Literal["changed", "lost", "back"]
    detail: str = ""


class Reads(Protocol):
    @property
    def info(self) -> StoreInfo: ...

    async def page(
        self,
        where: Filter,
        *,
        limit: int,
        after: RowKey | None = None,
        before: RowKey | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Entries in insertion order or its reverse, from just after `after` or up to just before `before`."""

    async def scan(
        self, where: Filter, *, most: int, after: RowKey | None = None, newest_first: bool = True
    ) -> ScannedRows:
        """The matches among the next `most` rows in these states: as quick where matches are rare."""

    async def get(self, entry_id: str) -> Entry | None: ...

    async def many(self, ids: tuple[str, ...]) -> dict[str, Entry]: ...

    async def counts(self, where: Filter) -> Counts: ...

    async def origins(self) -> frozenset[str]:
        """The venues, queues or providers of all entries, whatever their state."""

    async def attempts(self, entry_id: str) -> tuple[Attempt, ...]: ...

    async def open_attempts(self) -> tuple[Attempt, ...]:
        """Attempts in flight or in doubt, oldest first."""

    async def events(self, entry_id: str) -> tuple[AuditEvent, ...]: ...

    async def notes(self, entry_id: str) -> tuple[Note, ...]: ...

    async def note_counts(self, begins: str) -> dict[str, int]:
        """How many notes there are on each subject whose name begins so."""

    async def halted(self) -> Halt | None: ...

    async def policy(self) -> Mapping[str, str]:
        """What the ledger's owner has set, key → value as TOML. Raises ActRefused where this role may not read it."""

    def audit(self, after: int = 0) -> AsyncIterator[list[AuditEvent]]:
        """The whole chain in order, in blocks."""

    async def latest(self, before: int | None, limit: int) -> tuple[AuditEvent, ...]:
        """The newest events before this one (None: of all), newest first."""

    def chain(self, after: int = 0) -> AsyncIterator[Sequence[Chained]]:
        """The same as bare tuples: making an event of each costs as much as hashing it."""

    def keeps(self, table: str, column: str | None = None) -> bool:
        """Whether the ledger has this table, as of the last look: earlier versions have fewer."""

    def kept(
        self, table: str, columns: Sequence[str], *, mark: int | None = None
    ) -> AsyncIterator[Sequence[tuple[Any, ...]]]:
        """The rows of one of the ledger's tables, in blocks, to compare with the chain; of an index those of a mark."""

    async def event_hash(self, seq: int) -> bytes | None:
        """The hash of that event; None if the chain is shorter."""

    async def store_id(self) -> str:
        """The store's id: fixed by the first act; before that, derived from its first row."""

    async def clock(self) -> datetime:
        """The store's own time."""


class Acts(Protocol):
    """Each method is one transaction that includes its audit event."""

    @property
    def head(self) -> tuple[int, bytes] | None:
        """Count and hash of the chain after this process's last act that added to it; None before."""

    async def dismiss(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult: ...

    async def restore(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        """Reopen dismissed entries, and replayed ones that were accepted in paper only."""

    async def clear(self, ids: tuple[str, ...], actor: Actor, why: ActContext) -> None:
        """What failed until now no longer counts towards poison."""

    async def note(self, entry_id: str, actor: Actor, why: ActContext) -> None: ...

    async def halt(self, actor: Actor, why: ActContext) -> None: ...

    async def resume(self, actor: Actor, why: ActContext) -> None: ...

    async def set_policy(self, changes: Mapping[str, str | None], actor: Actor, why: ActContext) -> Mapping[str, str]:
        """Set these keys, or with None take them away; returns the whole policy then. Only the owner may."""

    async def record(self, kind: str, ids: tuple[str, ...], actor: Actor, why: ActContext) -> None:
        """Write an audit event without an act, for a refusal or a view."""


class Claims(Protocol):
    async def claim(
        self,
        entry_id: str,
        version: Version,
        actor: Actor,
        lease: float,
        *,
        mode: str = "live",
        rehearsal: bool = False,
    ) -> Claim | ClaimRefused:
        """Refused while any attempt is in flight or in doubt, and after one that was accepted in this mode."""

    async def intend(self, claim: Claim, intent: Intent, actor: Actor, why: ActContext) -> Attempt | ClaimRefused: ...

    async def conclude(self, claim: Claim, result: Result, actor: Actor, why: ActContext) -> bool:
        """Commit outcome, audit event and the entry's columns together. False if somebody else settled it."""

    async def settle(self, attempt: Attempt, result: Result, actor: Actor, why: ActContext) -> bool:
        """Record, by evidence, how an abandoned or doubtful attempt ended. False if somebody settled it first.

        An engine's own send (`ENGINE_SEND`) ends with its intent: found, it is resolved; else it becomes an entry.
        """

    async def release(self, claim: Claim) -> None: ...


class PlanReads(Protocol):
    """What a plan must know before anything is sent, and approvals by a second person."""

    async def live_claims(self, ids: tuple[str, ...]) -> dict[str, str]: ...

    async def attempts_of(self, ids: tuple[str, ...]) -> dict[str, tuple[Attempt, ...]]: ...

    async def failing(self, least: int, ids: tuple[str, ...] | None = None) -> dict[str, Failures]:
        """Entries (of these ids) of which at least so many tries failed. With 0, each of the ids has its answer."""

    async def replayed_since(self, moment: datetime) -> tuple[Entry, ...]: ...

    async def sent_since(self, moment: datetime, mode: str, actor: Actor) -> tuple[SentOrder, ...]:
        """What this identity (the login role; on SQLite the OS user) sent since then: accepted, in flight, in doubt."""

    async def of_orders(self, keys: tuple[str, ...], markets: tuple[str, ...]) -> tuple[Entry, ...]:
        """Pending entries that may name one of these logical orders: the caller reads their actions to know."""

    async def ask(
        self,
        plan_hash: str,
        summary: str,
        actor: Actor,
        why: ActContext,
        *,
        kind: str = "replay",
        document: str = "{}",
        request: str = "",
    ) -> None: ...

    async def approve(
        self, plan_hash: str, actor: Actor, why: ActContext, *, wanted: ApprovalVerdict = "approve"
    ) -> bool:
        """Write an event of the wanted kind. False if nobody asked in time, or if the asker would approve their own
        plan other than as `self-approved`; that is then the event. Whether an approval counts, its reader decides."""

    async def approval(self, plan_hash: str) -> Approval | None:
        """None also where the chain does not bear it out, and for what an earlier version asked for."""

    async def breakers(self) -> dict[BreakerKey, BreakerRow]: ...

    async def breaker_learns(self, key: BreakerKey, *, good: bool) -> BreakerRow:
        """Keep how a send ended. Five failures in a row open the breaker, two successes close it."""

    async def approvals(self) -> tuple[Approval, ...]:
        """What was asked for in the last day, approved or not, newest first."""


class Watch(Protocol):
    def changes(self) -> AsyncIterator[Change]: ...


class Store(Reads, Acts, Claims, PlanReads, Watch, Protocol):
    async def aclose(self) -> None: ...


@runtime_checkable
class Requeues(Protocol):
    """A store of an outbox's dead letters, which replays a message in one transaction of its own."""

    def check_requeue(self) -> str:
        """The outbox that takes a replay. Raises ActRefused with the reason."""

    @property
    def after_success(self) -> OnSuccess | None:
        """What a replay does with the dead-lettered row; None: it stays."""

    async def requeue(
        self, entry_id: str, version: Version, actor: Actor, why: ActContext
    ) -> Requeued | ClaimRefused: ...


@runtime_checkable
class HoldsIntents(Protocol):
    """A store beside which an engine keeps what it is about to send."""

    async def intents(self, where: Filter, *, owned: bool = False) -> tuple[Entry, ...]:
        """Open intents whose owner is gone, in doubt, and those found at their venue, replayed; oldest first.

        With `owned` also, as in flight, what an engine may still be sending.
        """


@runtime_checkable
class TellsApart(Protocol):
    """A store whose table may hold an id more than once; such entries have names of their own."""

    async def named(self, entry_id: str) -> tuple[str, ...]:
        """The entries whose rows have this id, where there are several."""


@runtime_checkable
class CountsOutbox(Protocol):
    """A store that can count what only an outbox has."""

    async def figures(self) -> OutboxFigures: ...


@runtime_checkable
class Lineages(Protocol):
    """A store whose replayed messages may fail again and come back as new entries."""

    async def lineage(self, ids: Sequence[str]) -> dict[str, tuple[Ancestor, ...]]:
        """The ancestors of those of these entries that came back, oldest first."""

    async def came_back(self) -> dict[str, int]:
        """How often each open entry came back, for those that did."""


@runtime_checkable
class Requests(Protocol):
    """A store of an integration's failed calls, which hands out the stored request."""

    @property
    def after_success(self) -> OnSuccess | None:
        """What a successful replay does with the row; None: the config does not say."""

    async def check_success(self) -> None:
        """Raises ActRefused where the config does not say what becomes of the row, or this role may not do it."""

    async def finish_row(self, entry_id: str, actor: Actor, why: ActContext) -> str | None:
        """Do with the row of an accepted call what the config asks. Returns what is left to do; never raises."""

    async def unfinished(self, ids: tuple[str, ...]) -> dict[str, str]:
        """What is left to do with the rows of accepted calls, by their ids; of all where no ids are given."""

    async def request(self, entry_id: str) -> str | None:
        """The call as stored, with its credentials: for sending, never for showing."""


@runtime_checkable
class Partial(Protocol):
    """A store that may hold more entries than it reads."""

    @property
    def shortfall(self) -> str | None:
        """One line on what the last read left out; None if it saw everything."""
