"""The contract of a store: what can be read, done, claimed and watched, and every error that may come of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

from backends.records import (
    ActContext,
    Actor,
    ActResult,
    Approval,
    Attempt,
    AuditEvent,
    Chained,
    Counts,
    Entry,
    Filter,
    Halt,
    Note,
    Page,
    RowKey,
    Selection,
    StoreInfo,
    Version,
)

OnSuccess = Literal["delete", "soft-delete"]  # what a config may want of an owner's row once it is replayed


class StoreError(Exception):
    """Something about the store; `str()` is one clear line that says what to do, without secrets."""


class BadTarget(StoreError):
    """The target cannot be understood, or it does not say which of several stores is meant."""


class Unreachable(StoreError):
    """The store cannot be opened or does not answer."""


class NotADLQ(StoreError):
    """It opens, but there is no dead-letter queue that can be read."""


class ActRefused(StoreError):
    """The store may be read, but this act may not be done here."""


class CommitUnknown(StoreError):
    """The connection was lost while committing and the store did not yet say whether the act took place."""


class BadEntry(StoreError, ValueError):
    """A value of an entry cannot be kept or read exactly; nothing was written."""


class DuplicateEntry(StoreError):
    """An entry of that id is already there; nothing was overwritten."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to act on one entry until the lease ends; the token fences off late writers."""

    entry_id: str
    token: int
    version: Version


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """Why an entry could not be claimed."""

    entry_id: str
    why: str  # "claimed by oncall@host", "in doubt", "dismissed", "changed", "halt", "gone"
    code: Literal["claimed", "in-doubt", "settled", "changed", "halt", "gone", "conflict"]


@dataclass(frozen=True, slots=True)
class Intent:
    """What is about to be sent: committed before the venue hears a byte."""

    mode: str
    venue: str
    client_order_id: str
    payload: bytes
    payload_hash: str
    rehearsal: bool = False
    detail: str = ""  # for the audit: host, plan hash, overrides


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended, and what that does to the entry."""

    outcome: Literal["accepted", "rejected", "unknown", "not_sent"]
    venue_order_id: str | None = None
    error: str | None = None
    evidence: str = ""  # for the audit: what the venue said
    counts: bool | None = None  # as a retry of the entry; None: as its outcome has it


@dataclass(frozen=True, slots=True)
class Requeued:
    """A dead-lettered message is in the outbox again, as a new row of it."""

    entry_id: str
    row_id: str
    queue: str
    key: str | None  # the correlation id: what a consumer can tell a repetition by
    outbox: str
    deleted: bool  # the dead-lettered row is gone


@dataclass(frozen=True, slots=True)
class Change:
    """A sign of life from the store. "changed" may be spurious, never missing."""

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
        """Entries in insertion order (or the reverse), from just behind `after` or up to just before `before`."""

    async def get(self, entry_id: str) -> Entry | None: ...

    async def many(self, ids: tuple[str, ...]) -> dict[str, Entry]: ...

    async def counts(self, where: Filter) -> Counts: ...

    async def attempts(self, entry_id: str) -> tuple[Attempt, ...]: ...

    async def open_attempts(self) -> tuple[Attempt, ...]:
        """Attempts in flight or in doubt, oldest first."""

    async def events(self, entry_id: str) -> tuple[AuditEvent, ...]: ...

    async def notes(self, entry_id: str) -> tuple[Note, ...]: ...

    async def halted(self) -> Halt | None: ...

    def audit(self, after: int = 0) -> AsyncIterator[list[AuditEvent]]:
        """The whole chain in order, in blocks."""

    def chain(self, after: int = 0) -> AsyncIterator[Sequence[Chained]]:
        """The same as bare tuples: millions are verified, and making an event of each costs as much as its hash."""

    async def store_id(self) -> str:
        """Fixed for this store from the first act on; before that, derived from where it is."""

    async def clock(self) -> datetime:
        """The store's own time."""


class Acts(Protocol):
    """Each method is one transaction that holds its audit event."""

    async def dismiss(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult: ...

    async def restore(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult: ...

    async def note(self, entry_id: str, actor: Actor, why: ActContext) -> None: ...

    async def halt(self, actor: Actor, why: ActContext) -> None: ...

    async def resume(self, actor: Actor, why: ActContext) -> None: ...

    async def record(self, kind: str, ids: tuple[str, ...], actor: Actor, why: ActContext) -> None:
        """An audit event without an act: a refusal, a view."""


class Claims(Protocol):
    async def claim(self, entry_id: str, version: Version, actor: Actor, lease: float) -> Claim | ClaimRefused: ...

    async def intend(self, claim: Claim, intent: Intent, actor: Actor, why: ActContext) -> Attempt | ClaimRefused: ...

    async def conclude(self, claim: Claim, result: Result, actor: Actor, why: ActContext) -> bool:
        """Outcome, audit and the entry's own columns in one commit. False: fenced off, somebody settled it."""

    async def settle(self, attempt: Attempt, result: Result, actor: Actor, why: ActContext) -> bool:
        """The outcome of an attempt whose owner is gone or in doubt, by evidence. False: it was settled meanwhile."""

    async def release(self, claim: Claim) -> None: ...


class PlanReads(Protocol):
    """What a plan must know before anything is sent, and the second person's word."""

    async def live_claims(self, ids: tuple[str, ...]) -> dict[str, str]: ...

    async def attempts_of(self, ids: tuple[str, ...]) -> dict[str, tuple[Attempt, ...]]: ...

    async def replayed_since(self, moment: datetime) -> tuple[Entry, ...]: ...

    async def ask(self, plan_hash: str, summary: str, actor: Actor, why: ActContext) -> None: ...

    async def approve(self, plan_hash: str, actor: Actor, why: ActContext) -> bool:
        """False: nobody asked, or the asker would approve their own plan."""

    async def approval(self, plan_hash: str) -> Approval | None: ...


class Watch(Protocol):
    def changes(self) -> AsyncIterator[Change]: ...


class Store(Reads, Acts, Claims, PlanReads, Watch, Protocol):
    async def aclose(self) -> None: ...


@runtime_checkable
class Requeues(Protocol):
    """What an outbox's dead letters can do besides: a replay is a transaction of the store itself."""

    def check_requeue(self) -> str:
        """Which outbox takes a replay. Raises ActRefused, and says why."""

    @property
    def after_success(self) -> OnSuccess | None:
        """What becomes of the dead-lettered row with its replay; None: it stays."""

    async def requeue(
        self, entry_id: str, version: Version, actor: Actor, why: ActContext
    ) -> Requeued | ClaimRefused: ...


@runtime_checkable
class Requests(Protocol):
    """What an integration's failed calls can do besides."""

    @property
    def after_success(self) -> OnSuccess | None:
        """What becomes of the row once its call was answered well; None: it stays."""

    async def request(self, entry_id: str) -> str | None:
        """The call as it was stored, credentials and all, to be sent and never to be shown."""


@runtime_checkable
class Partial(Protocol):
    """A store that may hold more than is looked at."""

    @property
    def shortfall(self) -> str | None:
        """What is left out, in one line, as of the last look; None where everything is seen."""
