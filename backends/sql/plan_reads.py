"""Reads what a plan needs before anything is sent (claims, attempts, recent replays); keeps approvals and breakers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from dlq_sink.values import is_plain

from backends.ledger.evidence import approval_of, asked_entries, digest
from backends.ledger.functions import may_become_owner
from backends.ledger.migrations import bare
from backends.ledger.names import ASK_SECONDS
from backends.ledger.stored_type import required
from backends.records import (
    ActContext,
    Actor,
    Approval,
    ApprovalVerdict,
    Attempt,
    BreakerKey,
    BreakerRow,
    Entry,
    Filter,
    storable,
)
from backends.sql.acts import POSTGRES_NOW, SQLITE_NOW, SQLActs
from backends.sql.connection import Connection
from backends.sql.order_select import RowOrder
from backends.sql.policy import SQLPolicy
from backends.sql.reads import SQLReads
from backends.sql.writer import Transaction
from backends.store import Failures

_CHUNK = 500
_MOST_OF_ORDERS = 10_000
_APPROVAL_SECONDS = 86_400.0
_OPENS_AFTER, _CLOSES_AFTER = 5, 2
_FAILED = ("rejected", "in_doubt")  # states of an attempt that failed; what was not sent, or is proven absent, did not


class SQLPlanReads(SQLPolicy):
    """For every layout: claims, attempts and approvals."""

    @property
    def _clock_now(self) -> Any:
        return sa.literal_column(POSTGRES_NOW if self._attached.info.dialect == "postgresql" else SQLITE_NOW, sa.Float)

    async def live_claims(self, ids: tuple[str, ...]) -> dict[str, str]:
        """Who holds each entry now, by entry id."""
        claim = self._book.claim
        where = (claim.c.released.is_(None), claim.c.expires_at > self._clock_now)
        rows = await self._each(ids, sa.select(claim.c.entry_id, claim.c.owner).where(*where), claim)
        return {row[0]: row[1] for row in rows}

    async def attempts_of(self, ids: tuple[str, ...]) -> dict[str, tuple[Attempt, ...]]:
        attempt = self._book.attempt
        found: dict[str, list[Attempt]] = {}
        for start in range(0, len(ids), _CHUNK):
            among = attempt.c.entry_id.in_(ids[start : start + _CHUNK])
            for one in await self._attempts((among,), attempt.c.id):
                found.setdefault(one.entry_id, []).append(one)
        return {entry_id: tuple(attempts) for entry_id, attempts in found.items()}

    async def failing(self, least: int, ids: tuple[str, ...] | None = None) -> dict[str, Failures]:
        attempt = self._book.attempt
        real = attempt.c.rehearsal == 0
        mine = (attempt.c.source == self._attached.found.shown, attempt.c.state.in_(_FAILED))
        often = sa.select(attempt.c.entry_id).where(real, *mine)
        often = often.group_by(attempt.c.entry_id).having(sa.func.count() >= max(1, least))
        rows = sa.select(attempt.c.entry_id, attempt.c.attempt_no, attempt.c.state, attempt.c.error).where(
            real, attempt.c.state.in_((*_FAILED, "accepted"))
        )
        if least > 0:
            rows = rows.where(attempt.c.entry_id.in_(often))
        told = await self._mine(ids, rows.order_by(attempt.c.entry_id, attempt.c.attempt_no), attempt)
        upto = await self._cleared(tuple({row[0] for row in told}) if ids is None else ids)
        tries: dict[str, list[Any]] = {entry_id: [] for entry_id in (ids or ()) if least == 0}
        for row in told:
            tries.setdefault(row[0], []).append(row)
        found = {entry_id: failures_of(its, upto.get(entry_id)) for entry_id, its in tries.items()}
        return {entry_id: one for entry_id, one in found.items() if len(one.errors) >= least}

    async def _cleared(self, ids: tuple[str, ...]) -> dict[str, int]:
        """The last attempt of each entry whose failures a person cleared."""
        cleared = self._book.cleared
        last = sa.select(cleared.c.entry_id, sa.func.max(cleared.c.upto)).group_by(cleared.c.entry_id)
        rows = await self._each(ids, last, cleared) if await self._has_cleared() else []
        return {row[0]: int(required(row[1])) for row in rows}

    async def _has_cleared(self) -> bool:
        """Ledgers of an earlier version have no such table until somebody acts."""
        await self._quick.run(self._has_ledger)
        return self._found.has(bare(self._book.cleared))

    async def _mine(self, ids: tuple[str, ...] | None, select: Any, table: Any) -> Sequence[Any]:
        if ids is not None:
            return await self._each(ids, select, table)
        return await self._ledger_rows(select.where(table.c.source == self._attached.found.shown))

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
    ) -> None:
        """Ask a second person to approve a plan; asking again keeps an approval that may still be used."""
        asked = {"summary": summary, "asked_for": kind, "document": document, "request": request}
        told = {name: storable(text) for name, text in asked.items()}

        async def work(tx: Transaction) -> None:
            detail: dict[str, object] = {"entries": [], "orders": asked_entries(document)}
            if tx.on_postgres:
                who = {"os_user": storable(actor.os_user), "plan": plan_hash}
                await tx.call("ask_approval", actor, tx.about((), why, detail), **who, **told)
            else:
                await self._ask(tx, {**told, "plan": plan_hash}, actor, why, detail)

        await self.writing.run(work)

    async def _ask(
        self,
        tx: Transaction,
        told: Mapping[str, str],
        actor: Actor,
        why: ActContext,
        detail: Mapping[str, object],
    ) -> None:
        approval, now, plan_hash = self._book.approval, self._clock_now, told["plan"]
        ((moment,),) = await tx.rows(f"SELECT {SQLITE_NOW}")
        kept = {"document": digest(told["document"]), "request": digest(told["request"]), "moment": moment}
        said = {"plan": plan_hash, "summary": told["summary"], "asked_for": told["asked_for"]}
        await tx.audit("ask-approval", (), actor, why, detail={**detail, **said, **kept})
        row = {"plan_hash": plan_hash, "kind": told["asked_for"], "state": "open", "asked_event": tx.seq}
        row |= {name: told[name] for name in ("summary", "document", "request")}
        row |= {"asked_by": _identity(actor), "asked_at": moment}
        row |= {"approved_by": None, "approved_at": None, "approved_event": None}
        there = (await tx.execute(sa.select(approval.c.plan_hash).where(approval.c.plan_hash == plan_hash))).first()
        if there is None:
            await tx.execute(approval.insert().values(**row))
            return
        unused = (
            approval.c.approved_at.is_(None),
            approval.c.state != "open",
            approval.c.approved_at < now - ASK_SECONDS,
        )
        await tx.execute(sa.update(approval).where(approval.c.plan_hash == plan_hash, sa.or_(*unused)).values(**row))

    async def approve(
        self, plan_hash: str, actor: Actor, why: ActContext, *, wanted: ApprovalVerdict = "approve"
    ) -> bool:
        async def work(tx: Transaction) -> bool:
            if not tx.on_postgres:
                return await self._approve(tx, plan_hash, actor, why, wanted)
            who = {"os_user": storable(actor.os_user), "plan": plan_hash}
            row = await tx.call("approve_plan", actor, tx.about((), why), wanted=wanted, **who)
            return bool(row.verdict == wanted != "refused-approval")

        return await self.writing.run(work)

    async def _approve(
        self, tx: Transaction, plan_hash: str, actor: Actor, why: ActContext, wanted: ApprovalVerdict
    ) -> bool:
        approval, mine = self._book.approval, _identity(actor)
        ((moment,),) = await tx.rows(f"SELECT {SQLITE_NOW}")
        this = (approval.c.plan_hash == plan_hash, approval.c.state == "open", approval.c.asked_event.is_not(None))
        young = approval.c.asked_at >= moment - ASK_SECONDS
        asked = (await tx.execute(sa.select(approval.c.asked_by, approval.c.asked_event, young).where(*this))).first()
        by, event, in_time = asked or (None, None, False)
        own = wanted in ("self-approved", "withdrawn")
        fits = bool(in_time) and (by == mine) == own and wanted != "refused-approval"
        detail = {"entries": [], "plan": plan_hash, "asked_by": by, "asked_event": event, "moment": moment}
        await tx.audit(wanted if fits else "refused-approval", (), actor, why, detail=detail)
        if fits:
            values: dict[str, object] = {"approved_by": mine, "approved_at": moment, "approved_event": tx.seq}
            if wanted == "withdrawn":
                values = {"state": "withdrawn"}
            await tx.execute(sa.update(approval).where(*this).values(**values))
        return fits

    async def approval(self, plan_hash: str) -> Approval | None:
        return next(iter(await self._approvals(self._book.approval.c.plan_hash == plan_hash)), None)

    async def approvals(self) -> tuple[Approval, ...]:
        return await self._approvals(self._book.approval.c.asked_at > self._clock_now - _APPROVAL_SECONDS)

    async def _approvals(self, where: Any) -> tuple[Approval, ...]:
        """By the events; a row that says something else counts for nothing."""
        approval, audit = self._book.approval, self._book.audit
        asked, given = audit.alias("asked"), audit.alias("given")
        on_postgres = self._attached.info.dialect == "postgresql"
        advisory, login = (may_become_owner(), "session_user") if on_postgres else ("1", "''")
        told = {"asked_body": asked.c.body, "approved_body": given.c.body, "now": self._clock_now}
        told |= {"advisory": sa.literal_column(advisory), "reader_role": sa.literal_column(login)}
        names = ("plan_hash", "asked_at", "approved_at", "kind", "document", "request", "asked_event")
        rows = (
            sa.select(*(approval.c[name] for name in names), *(what.label(name) for name, what in told.items()))
            .join_from(approval, asked, asked.c.seq == approval.c.asked_event)
            .outerjoin(given, given.c.seq == approval.c.approved_event)
            .where(where, approval.c.state == "open")
            .order_by(approval.c.asked_event.desc())
        )

        def asked_here() -> sa.Executable | None:
            """Approvals of an earlier version lapse with the first act, so they count for nothing before it."""
            return rows if self._found.has("approval", "asked_event") else None

        found = [approval_of(row._mapping) for row in await self._ledger_rows(asked_here)]
        return tuple(one for one in found if one is not None)

    async def breakers(self) -> dict[BreakerKey, BreakerRow]:
        breaker = self._book.breaker

        def asked() -> sa.Executable | None:
            return self._breaker_rows() if self._found.has(bare(breaker)) else None

        return {(row[0], row[1], row[2]): BreakerRow(*row[3:]) for row in await self._ledger_rows(asked)}

    async def breaker_learns(self, key: BreakerKey, *, good: bool) -> BreakerRow:
        """Not audited: nobody decided anything."""
        breaker = self._book.breaker
        venue, account, mode = map(storable, key)
        this = (breaker.c.venue == venue, breaker.c.account == account, breaker.c.mode == mode)

        async def work(tx: Transaction) -> BreakerRow:
            row = (await tx.execute(self._breaker_rows().where(*this))).first()
            values = _learnt(BreakerRow(*row[3:]) if row else None, good=good)
            opened = {"now": self._clock_now, "kept": breaker.c.opened_at if row else None, "closed": None}
            told = {"failures": values[0], "successes": values[1], "opened_at": opened[values[2]]}
            told["updated_at"] = self._clock_now
            if row is None:
                await tx.execute(breaker.insert().values(venue=venue, account=account, mode=mode, **told))
            else:
                await tx.execute(sa.update(breaker).where(*this).values(**told))
            return BreakerRow(*(await tx.execute(self._breaker_rows().where(*this))).one()[3:])

        return await self.writing.run(work)

    def _breaker_rows(self) -> sa.Select[Any]:
        breaker = self._book.breaker
        names = ("venue", "account", "mode", "failures", "successes")
        return sa.select(*(breaker.c[name] for name in names), self._clock_now - breaker.c.opened_at)

    async def _each(self, ids: tuple[str, ...], select: Any, table: Any) -> list[Any]:
        rows: list[Any] = []
        mine = table.c.source == self._attached.found.shown
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK]
            rows += await self._ledger_rows(select.where(mine, table.c.entry_id.in_(chunk)))
        return rows


class OrderPlanReads(SQLReads, SQLActs, SQLPlanReads):
    """Reads and acts of the order layout, and its recent replays."""

    async def replayed_since(self, moment: datetime) -> tuple[Entry, ...]:
        """Entries that a venue accepted since then, as this store's ledger says."""
        attempt = self._book.attempt
        mine = (attempt.c.source == self._attached.found.shown, attempt.c.holds == 1)
        accepted = (attempt.c.state == "accepted", attempt.c.finished_at >= moment.isoformat())
        identity: sa.ColumnElement[Any] = sa.literal_column(RowOrder(self._attached).identity)
        recent = (identity.in_(sa.select(attempt.c.entry_id).where(*mine, *accepted)),)

        async def work(link: Connection, as_text: bool) -> tuple[Entry, ...]:
            shape = await self._shape(link, as_text=as_text, look=True)
            if not shape.with_ledger:
                return ()
            rows = (await link.execute(shape.select(whole=False).where(*recent).limit(10_000))).fetchall()
            return tuple(shape.entries(rows))

        return await self._read(self._quick, work)

    async def of_orders(self, keys: tuple[str, ...], markets: tuple[str, ...]) -> tuple[Entry, ...]:
        """By id, by client order id, or, in one of these markets, by a mention in the action."""
        on_postgres = self._attached.info.dialect == "postgresql"
        # As a text of the JSON, in its quotes, so that no longer key is meant; a key of digits may stand without.
        said = [json.dumps(key, ensure_ascii=pure) for key in keys for pure in (True, False)]
        said += [key for key in keys if key.isdecimal()]
        listed = {"keys": list(keys), "said": list(dict.fromkeys(said)), "markets": list(markets)}
        if on_postgres:
            listed = {name: [text for text in texts if is_plain(text)] for name, texts in listed.items()}

        async def work(link: Connection, as_text: bool) -> tuple[Entry, ...]:
            shape = await self._shape(link, as_text=as_text, look=True)
            pending = shape.conditions(Filter(states=frozenset({"pending"})))
            statement = shape.select(whole=True).where(*pending, shape.mentions()).limit(_MOST_OF_ORDERS)
            given = listed if on_postgres else {name: json.dumps(texts) for name, texts in listed.items()}
            rows = (await link.execute(statement, given)).fetchall()
            return tuple(shape.entries(rows))

        return await self._read(self._quick, work)


def failures_of(tries: Iterable[Any], upto: int | None) -> Failures:
    """Of rows (entry, number, state, error) in their order; `upto`: the last one that a person cleared."""
    known = list(tries)
    taken = [row[1] for row in known if row[2] == "accepted"]
    since = max([*taken, -1 if upto is None else upto], default=-1)
    errors = tuple(row[3] or "" for row in known if row[2] in _FAILED and row[1] > since)
    return Failures(errors, is_cleared=since >= 0)


def _learnt(row: BreakerRow | None, *, good: bool) -> tuple[int, int, Literal["now", "kept", "closed"]]:
    """Failures, successes, and when it opened."""
    failures, successes = (row.failures, row.successes) if row else (0, 0)
    is_open = row is not None and row.opened_ago is not None
    if not good:
        failures += 1
        return failures, 0, "now" if is_open or failures >= _OPENS_AFTER else "closed"
    if not is_open or successes + 1 >= _CLOSES_AFTER:
        return 0, 0, "closed"
    return failures, successes + 1, "kept"


def _identity(actor: Actor) -> str:
    """For SQLite, which has no roles."""
    return f"{storable(actor.os_user)}|"
