"""Claims an entry for sending, records the intent and the outcome: one transaction each, fenced by a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, assert_never

import sqlalchemy as sa
from dlq_sink.values import is_plain

from backends.detect import Attached
from backends.ledger.policy import digest
from backends.ledger.schema import LedgerTables
from backends.records import ActContext, Actor, Attempt, Version, storable
from backends.sql.acts import POSTGRES_NOW, SQLITE_NOW, SQLLog, verbatim
from backends.sql.connection import PreparedQuery
from backends.sql.order_select import OrderSelect
from backends.sql.policy import policy_rows
from backends.sql.postgres_columns import EQ, PLUS
from backends.sql.writer import Transaction
from backends.store import Claim, ClaimRefused, Intent, Result

_ATTEMPT = (
    "source", "entry_id", "attempt_no", "mode", "rehearsal", "venue", "client_order_id", "payload", "payload_hash",
    "started_at", "operator", "os_user", "token", "state", "holds", "account", "key_digest", "notional", "currency",
)  # fmt: skip
_END = ("state", "holds", "venue_order_id", "error", "finished_at")


def given(name: str, kind: Any = sa.Text) -> Any:
    return sa.bindparam(f"given_{name}", type_=kind)


class SendStatements:
    def __init__(self, attached: Attached, book: LedgerTables) -> None:
        self._attached = attached
        self._book = book
        self._on_postgres = attached.info.dialect == "postgresql"
        self.moment: Any = sa.literal_column(POSTGRES_NOW if self._on_postgres else SQLITE_NOW, sa.Float)

    @cached_property
    def earlier(self) -> PreparedQuery:
        """Mode, state and whether it was a rehearsal, of the attempts that may stand in the way of another."""
        attempt = self._book.attempt
        rehearsed = sa.and_(
            attempt.c.rehearsal == sa.text("1"), attempt.c.state.in_(sa.text("'submitting', 'in_doubt'"))
        )
        columns = (attempt.c.mode, attempt.c.state, attempt.c.rehearsal)
        standing = sa.or_(attempt.c.holds == sa.text("1"), rehearsed)
        return self._made(sa.select(*columns).where(*self._this(attempt), standing))

    @cached_property
    def release_expired(self) -> PreparedQuery:
        claim = self._book.claim
        past = claim.c.expires_at <= self.moment
        return self._made(sa.update(claim).where(*self._mine, past).values(released=sa.text("1")))

    @cached_property
    def claimant(self) -> PreparedQuery:
        return self._made(sa.select(self._book.claim.c.owner).where(*self._mine))

    @cached_property
    def claim(self) -> PreparedQuery:
        claim = self._book.claim
        values = {"source": given("source"), "entry_id": given("entry_id"), "owner": given("owner")}
        times = {"claimed_at": self.moment, "expires_at": self.moment + given("lease", sa.Float)}
        return self._made(claim.insert().values(**values, **times).returning(claim.c.token))

    @cached_property
    def lease(self) -> PreparedQuery:
        claim = self._book.claim
        mine = (claim.c.token == given("token", sa.BigInteger), claim.c.released.is_(None))
        return self._made(sa.select(claim.c.expires_at).where(*mine, claim.c.expires_at > self.moment))

    @cached_property
    def release(self) -> PreparedQuery:
        claim = self._book.claim
        mine = (claim.c.token == given("token", sa.BigInteger), claim.c.released.is_(None))
        return self._made(sa.update(claim).where(*mine).values(released=sa.text("1")))

    @cached_property
    def last_attempt(self) -> PreparedQuery:
        attempt = self._book.attempt
        last = sa.func.coalesce(sa.func.max(attempt.c.attempt_no), sa.text("0"))
        return self._made(sa.select(last).where(*self._this(attempt)))

    @cached_property
    def attempt(self) -> PreparedQuery:
        attempt = self._book.attempt
        values = {name: given(name, attempt.c[name].type) for name in _ATTEMPT}
        if self._on_postgres:
            values["role"] = sa.literal_column("SESSION_USER")
        return self._made(attempt.insert().values(**values))

    @cached_property
    def submitting(self) -> PreparedQuery:
        """The attempt that this claim has sent and nobody has concluded."""
        attempt = self._book.attempt
        mine = (attempt.c.token == given("token", sa.BigInteger), attempt.c.state == sa.text("'submitting'"))
        return self._made(sa.select(attempt).where(*mine, *self._this(attempt)))

    @cached_property
    def end(self) -> PreparedQuery:
        attempt = self._book.attempt
        values = {name: given(name, attempt.c[name].type) for name in _END}
        return self._made(sa.update(attempt).where(attempt.c.id == given("id", sa.BigInteger)).values(**values))

    @cached_property
    def entry(self) -> PreparedQuery:
        """Whether the entry is open, and its version columns."""
        return self._made(self._entry())

    @cached_property
    def locked_entry(self) -> PreparedQuery:
        return self._made(self._entry().with_for_update() if self._on_postgres else self._entry())

    @cached_property
    def dismissed(self) -> PreparedQuery:
        """Writes the owner's row; on Postgres it names everything with its schema."""
        shape = self._shape
        if self._on_postgres:
            yes = "true" if self._attached.column("dismissed").type.startswith("bool") else "1"
            return self._made(self._owners_update(f"dismissed = {yes}", f" AND ({verbatim(shape.pending_sql)})"))
        done = sa.update(shape.table).where(self._here, shape.pending())
        return self._made(done.values(dismissed=sa.literal_column("1")))

    @cached_property
    def bumped(self) -> PreparedQuery:
        table = self._shape.table
        if self._on_postgres:
            name = f"{verbatim(self._attached.found.quoted)}.retry_count"
            counting = f"retry_count = coalesce({name}, 0) {PLUS} 1"
            return self._made(self._owners_update(counting, f" RETURNING {name}"))
        more = sa.func.coalesce(table.c.retry_count, sa.literal_column("0")) + sa.literal_column("1")
        counts = sa.func.typeof(table.c.retry_count) != sa.text("'text'")
        bump = sa.update(table).where(self._here, counts).values(retry_count=more)
        return self._made(bump.returning(table.c.retry_count))

    def _owners_update(self, sets: str, tail: str) -> sa.TextClause:
        here = f"{verbatim(self._shape.order.identity)} {EQ} CAST(:given_entry_id AS pg_catalog.text)"
        return sa.text(f"UPDATE {verbatim(self._attached.found.quoted)} SET {sets} WHERE {here}{tail}")

    @cached_property
    def _shape(self) -> OrderSelect:
        return OrderSelect(self._attached, with_ledger=True)

    @property
    def _here(self) -> Any:
        identity: sa.ColumnElement[Any] = sa.literal_column(self._shape.order.identity)
        return identity == given("entry_id")

    def _entry(self) -> sa.Select[Any]:
        names = [name for name in ("retry_count", "dismissed") if name in self._attached.info.columns]
        columns = (self._shape.table.c[name] for name in names)
        return sa.select(self._shape.pending(), *columns).where(self._here)

    @property
    def _mine(self) -> tuple[Any, ...]:
        """The claim on this entry that nobody has released."""
        return (*self._this(self._book.claim), self._book.claim.c.released.is_(None))

    def _this(self, table: sa.Table) -> tuple[Any, Any]:
        return table.c.source == given("source"), table.c.entry_id == given("entry_id")

    def _made(self, statement: Any) -> PreparedQuery:
        return PreparedQuery.of(statement, on_postgres=self._on_postgres)


_HOLDS = ("submitting", "in_doubt", "accepted")


@dataclass(frozen=True, slots=True)
class SendMode:
    """How an entry is to be sent."""

    mode: str
    rehearsal: bool


def in_the_way(
    entry_id: str, asked: SendMode, earlier: Sequence[tuple[str, str, int]], *, is_open: bool
) -> ClaimRefused | None:
    """Which earlier attempt forbids another one; of each: mode, state, whether it was a rehearsal."""
    real = {mode: state for mode, state, rehearsal in earlier if not rehearsal}
    if any(state != "accepted" for state in real.values()):
        return ClaimRefused(entry_id, "in doubt: reconcile first", "in-doubt")
    if "live" in real:
        return ClaimRefused(entry_id, "already replayed live", "settled")
    if asked.mode in real:
        return ClaimRefused(entry_id, f"already replayed in {asked.mode}", "settled")
    if real and not is_open:
        before = ", ".join(sorted(real))
        return ClaimRefused(entry_id, f"replayed in {before}: dlq restore reopens it for {asked.mode}", "settled")
    if asked.rehearsal and len(earlier) > len(real):
        return ClaimRefused(entry_id, "its rehearsal is in doubt: reconcile first", "in-doubt")
    return None


class SQLClaims:
    def __init__(self, attached: Attached, book: LedgerTables, acts: SQLLog) -> None:
        self._attached = attached
        self._book = book
        self._acts = acts
        self._sending = SendStatements(attached, book)

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
        send, owner = self._sending, storable(f"{actor.operator} ({actor.os_user}@{actor.host})")

        async def work(tx: Transaction) -> Claim | ClaimRefused:
            if why := await self._obstacle(tx, entry_id, version, SendMode(mode, rehearsal)):
                return why
            this = {"source": tx.source, "entry_id": entry_id}
            await tx.ask(send.release_expired, **this)
            if held := await tx.ask(send.claimant, **this):
                return ClaimRefused(entry_id, f"claimed by {held[0][0]}", "claimed")
            ((token,),) = await tx.ask(send.claim, **this, owner=owner, lease=lease)
            return Claim(entry_id, int(token), version)

        return await self._acts.writing.run(work)

    async def intend(self, claim: Claim, intent: Intent, actor: Actor, why: ActContext) -> Attempt | ClaimRefused:
        async def work(tx: Transaction) -> Attempt | ClaimRefused:
            send = SendMode(intent.mode, intent.rehearsal)
            if obstacle := await self._obstacle(tx, claim.entry_id, claim.version, send, lock=True):
                return obstacle
            leases = await tx.ask(self._sending.lease, token=claim.token)
            if not leases:
                return ClaimRefused(claim.entry_id, "the claim ran out before anything was sent", "claimed")
            policy = digest(await policy_rows(tx))
            if intent.policy not in (None, policy):
                return ClaimRefused(claim.entry_id, "the store's policy was changed at this moment", "policy")
            attempt = await self._next_attempt(tx, claim, intent, actor, why)
            told = {"attempt_no": attempt.attempt_no, "mode": attempt.mode, "venue": attempt.venue}
            told |= {"client_order_id": attempt.client_order_id, "payload_hash": attempt.payload_hash}
            told |= {"account": attempt.account, "key_digest": attempt.key_digest}
            detail = {"entries": [claim.entry_id], **told, "rehearsal": intent.rehearsal, "detail": intent.detail}
            detail |= {"policy": policy}
            await tx.audit("intent", (claim.entry_id,), actor, why, detail=detail)
            return replace(attempt, lease_until=float(leases[0][0]))

        return await self._acts.writing.run(work)

    async def _next_attempt(
        self, tx: Transaction, claim: Claim, intent: Intent, actor: Actor, why: ActContext
    ) -> Attempt:
        ((last,),) = await tx.ask(self._sending.last_attempt, source=tx.source, entry_id=claim.entry_id)
        attempt = Attempt(
            entry_id=claim.entry_id,
            attempt_no=int(last) + 1,
            mode=storable(intent.mode),
            venue=storable(intent.venue),
            client_order_id=storable(intent.client_order_id),
            payload_hash=storable(intent.payload_hash),
            outcome=None,
            venue_order_id=None,
            error=None,
            started_at=why.at.isoformat(),
            finished_at=None,
            operator=storable(actor.operator),
            os_user=storable(actor.os_user),
            rehearsal=intent.rehearsal,
            payload=intent.payload,
            account=None if intent.account is None else storable(intent.account),
            key_digest=storable(intent.key_digest),
        )
        same = ("entry_id", "attempt_no", "mode", "venue", "client_order_id", "payload_hash", "payload", "started_at")
        row = {name: getattr(attempt, name) for name in (*same, "operator", "os_user", "account", "key_digest")}
        row |= {"source": tx.source, "token": claim.token, "state": "submitting", "rehearsal": int(intent.rehearsal)}
        row |= {"notional": None if intent.notional is None else f"{intent.notional:f}"}
        row |= {"currency": None if intent.currency is None else storable(intent.currency)}
        await tx.ask(self._sending.attempt, **row, holds=None if intent.rehearsal else 1)
        return attempt

    async def conclude(self, claim: Claim, result: Result, actor: Actor, why: ActContext) -> bool:
        sent = self._sending.submitting

        async def work(tx: Transaction) -> bool:
            rows = await tx.ask(sent, token=claim.token, source=tx.source, entry_id=claim.entry_id)
            await self._release(tx, claim.token)
            if not rows:
                detail: dict[str, object] = {"outcome": result.outcome, "evidence": result.evidence}
                detail |= {"venue_order_id": result.venue_order_id, "error": result.error}
                await tx.audit(
                    "late-outcome", (claim.entry_id,), actor, why, detail={"entries": [claim.entry_id], **detail}
                )
                return False
            await self._finish(tx, dict(zip(sent.columns, rows[0], strict=True)), result, actor, why)
            return True

        return await self._acts.writing.run(work)

    async def settle(self, attempt: Attempt, result: Result, actor: Actor, why: ActContext) -> bool:
        table = self._book.attempt

        async def work(tx: Transaction) -> bool:
            this = sa.select(table).where(
                table.c.source == tx.source,
                table.c.entry_id == attempt.entry_id,
                table.c.attempt_no == attempt.attempt_no,
                table.c.state.in_(("submitting", "in_doubt")),
            )
            row = (await tx.execute(this)).mappings().first()
            if row is None:
                return False
            await self._release(tx, int(row["token"]))
            await self._finish(tx, dict(row), result, actor, why)
            return True

        return await self._acts.writing.run(work)

    async def release(self, claim: Claim) -> None:
        async def work(tx: Transaction) -> None:
            await self._release(tx, claim.token)

        await self._acts.writing.run(work)

    async def _release(self, tx: Transaction, token: int) -> None:
        await tx.ask(self._sending.release, token=token)

    async def _finish(
        self, tx: Transaction, row: Mapping[str, Any], result: Result, actor: Actor, why: ActContext
    ) -> None:
        """End the attempt, write its audit event and update the entry's own columns."""
        entry_id, was_doubted = str(row["entry_id"]), row["state"] == "in_doubt"
        state = _state(result, was_doubted=was_doubted)
        values = {
            "state": state,
            "holds": 1 if state in _HOLDS and not row["rehearsal"] else None,
            "venue_order_id": None if result.venue_order_id is None else storable(result.venue_order_id),
            "error": None if result.error is None else storable(result.error),
            "finished_at": why.at.isoformat(),
        }
        await tx.ask(self._sending.end, **values, id=row["id"])
        after: dict[str, object] = {}
        if not row["rehearsal"]:
            bump = result.outcome in ("rejected", "unknown") if result.counts is None else result.counts
            after = await self._mark(tx, entry_id, settled=result.outcome == "accepted", bump=bump and not was_doubted)
        detail = {
            "entries": [entry_id],
            "attempt_no": row["attempt_no"],
            "outcome": result.outcome,
            "venue_order_id": result.venue_order_id,
            "error": result.error,
            "evidence": result.evidence,
            "rehearsal": bool(row["rehearsal"]),
            "after": after,
        }
        await tx.audit("reconcile" if was_doubted else "outcome", (entry_id,), actor, why, detail=detail)

    async def _mark(self, tx: Transaction, entry_id: str, *, settled: bool, bump: bool) -> dict[str, object]:
        if settled:
            async with tx.as_owners_do():
                await tx.ask(self._sending.dismissed, entry_id=entry_id)
            return {"dismissed": True}
        if bump and self._attached.counts_retries:
            async with tx.as_owners_do():
                counted = await tx.ask(self._sending.bumped, entry_id=entry_id)
            return {"retry_count": counted[0][0] if counted else None}
        return {}

    async def _obstacle(
        self, tx: Transaction, entry_id: str, version: Version, asked: SendMode, *, lock: bool = False
    ) -> ClaimRefused | None:
        """Why this entry may not be sent now, as the store says within this transaction; None if it may."""
        send = self._sending
        if await tx.is_halted():
            return ClaimRefused(entry_id, "halt is set on this store", "halt")
        if not is_plain(entry_id):
            return ClaimRefused(entry_id, "its id is not plain text: cannot be acted on", "gone")
        rows = await tx.ask(send.locked_entry if lock else send.entry, entry_id=entry_id)
        if not rows:
            return ClaimRefused(entry_id, "no such entry", "gone")
        if len(rows) > 1:
            return ClaimRefused(entry_id, "several rows have this id: cannot tell which is meant", "changed")
        earlier = await tx.ask(send.earlier, source=tx.source, entry_id=entry_id)
        if standing := in_the_way(entry_id, asked, [tuple(row) for row in earlier], is_open=bool(rows[0][0])):
            return standing
        if not rows[0][0]:
            return ClaimRefused(entry_id, "dismissed meanwhile", "settled")
        if tuple(rows[0])[1:] != tuple(version):
            return ClaimRefused(entry_id, "changed since it was looked at", "changed")
        return None


def _state(result: Result, *, was_doubted: bool) -> str:
    match result.outcome:
        case "accepted" | "rejected":
            return result.outcome
        case "unknown":
            return "in_doubt"
        case "not_sent":
            return "absent" if was_doubted else "not_sent"
        case _:
            assert_never(result.outcome)
