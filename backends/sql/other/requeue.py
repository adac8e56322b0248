"""An outbox's replay: one new row of the outbox, in the very transaction that marks the dead-lettered one as handled.

Everything is copied by the database itself; no payload passes through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from backends.detect import outboxes as detected
from backends.detect.outboxes import Outbox
from backends.layouts import outbox
from backends.records import ActContext, Actor, Version, storable
from backends.sql.other.acts import OtherActs, statement, verbatim
from backends.sql.other.select import Select
from backends.sql.transaction import Transaction
from backends.store import ActRefused, ClaimRefused, OnSuccess, Requeued, StoreError

_UNIQUE = "23505"


class _Collision(StoreError):
    """A live row of the outbox has the timer: everything is rolled back."""


class RequeueStatements(OtherActs):
    """Acts on an outbox's dead letters."""

    def check_requeue(self) -> str:
        return self._into().shown

    @property
    def after_success(self) -> OnSuccess | None:
        return "delete" if self._table.options.delete_after_replay else None

    def _into(self) -> Outbox:
        return detected.chosen(self._table.outboxes, self._table.options.outbox_table)

    async def requeue(self, entry_id: str, version: Version, actor: Actor, why: ActContext) -> Requeued | ClaimRefused:
        into = self._into()

        async def work(tx: Transaction) -> Requeued | ClaimRefused:
            if (await tx.execute(sa.select(self._book.halt.c.id))).first() is not None:
                return ClaimRefused(entry_id, "halt is set on this store", "halt")
            row = await self._row(tx, entry_id, version)
            if isinstance(row, ClaimRefused):
                return row
            return await self._move(tx, row, into, actor, why)

        try:
            return await self.writing.run(work)
        except _Collision:
            why_not = "conflict: a live row of the outbox has this queue and timer_id; nothing was changed"
            return ClaimRefused(entry_id, why_not, "conflict")

    async def _row(self, tx: Transaction, entry_id: str, version: Version) -> Mapping[str, Any] | ClaimRefused:
        select = Select(self._table, with_ledger=True)
        if not select.is_id(entry_id):
            return ClaimRefused(entry_id, "no such entry", "gone")
        shown = {
            "id": select.identity,
            "born": select.born,
            "queue": self._table.sql("queue"),
            "state": select.state,
            "hash": f"encode(sha256({self._table.sql('payload')}), 'hex')",
            "size": f"octet_length({self._table.sql('payload')})",
            "correlation_id": self._correlation(),
            **{name: self._as_text(name) for name in ("original_id", "created_at", "failure_reason", "timer_id")},
        }
        columns = ", ".join(f"{verbatim(sql)} AS {name}" for name, sql in shown.items())
        here = f"{verbatim(self._table.sql('id'))} = CAST(:id AS {self._table.part('id').type})"
        found = await tx.execute(
            statement(f"SELECT {columns} FROM {verbatim(self._table.found.quoted)} t WHERE {here}", id=sa.Text),
            {"id": entry_id},
        )
        rows = [dict(row) for row in found.mappings()]
        if not rows:
            return ClaimRefused(entry_id, "no such entry", "gone")
        mine = [row for row in rows if (row["born"],) == tuple(version)]
        if len(mine) != 1:
            return ClaimRefused(entry_id, "changed since it was looked at", "changed")
        if mine[0]["state"] != "pending":
            return ClaimRefused(entry_id, f"already {mine[0]['state']}", "settled")
        return mine[0]

    def _as_text(self, name: str) -> str:
        return f"CAST({self._table.sql(name)} AS text)" if self._table.actual(name) else "CAST(NULL AS text)"

    def _correlation(self) -> str:
        if self._table.actual("headers") is None or not self._table.part("headers").type.startswith("json"):
            return "CAST(NULL AS text)"
        return f"CAST({self._table.sql('headers')} AS jsonb) ->> 'correlation_id'"

    async def _move(
        self, tx: Transaction, row: Mapping[str, Any], into: Outbox, actor: Actor, why: ActContext
    ) -> Requeued | ClaimRefused:
        entry_id, gone = str(row["id"]), self._table.options.delete_after_replay
        marked = {"source": tx.source, "entry_id": entry_id, "born": row["born"], "state": "replayed"}
        await tx.execute(self._book.settled.insert(), {**marked, "at": why.at.isoformat(), "operation": why.operation})
        try:
            made = (await tx.execute(self._copy(into), {"id": entry_id, "born": row["born"]})).first()
        except IntegrityError as problem:
            if getattr(problem.orig, "sqlstate", None) == _UNIQUE:
                raise _Collision("the outbox has this timer") from None
            raise
        if made is None:
            raise ActRefused(f"{self._table.found.shown}: the row was removed meanwhile; nothing was changed")
        if (channel := outbox.channel(into.name)) is not None:
            notify = statement("SELECT pg_notify(:channel, :queue)", channel=sa.Text, queue=sa.Text)
            await tx.execute(notify, {"channel": channel, "queue": row["queue"]})
        done = Requeued(entry_id, str(made[0]), str(row["queue"]), row["correlation_id"], into.shown, gone)
        await self._record(tx, row, done, actor, why)
        return done

    def _copy(self, into: Outbox) -> sa.TextClause:
        """One statement, one look at the row: what is deleted is what was copied."""
        table, kinds = self._table, dict(into.types)
        copied = [name for name in into.copied if table.actual(name)]
        values = [self._value(name, kinds[name]) for name in copied]
        filled = {name: outbox.FILLED[name] for name in into.filled}
        names = ", ".join((*copied, *filled))
        kind, born = table.part("id").type, Select(table, with_ledger=True).born
        this = f"{verbatim(table.sql('id'))} = CAST(:id AS {kind}) AND {verbatim(born)} = :born"
        here = f"{verbatim(table.found.quoted)} t WHERE {this}"
        if table.options.delete_after_replay:
            source = f"WITH t AS (DELETE FROM {here} RETURNING t.*) INSERT INTO"
            rows = "FROM t"
        else:
            source, rows = "INSERT INTO", f"FROM {here}"
        return statement(
            f"{source} {verbatim(into.quoted)} ({names}) SELECT {', '.join((*values, *filled.values()))} {rows} "
            "RETURNING id",
            id=sa.Text,
            born=sa.Text,
        )

    def _value(self, name: str, kind: str) -> str:
        column = verbatim(self._table.sql(name))
        if name != "headers":
            return column
        if self._table.options.replay_header:
            of = f"{self._table.found.name}:".replace("'", "''")
            identity = verbatim(Select(self._table, with_ledger=True).identity)
            mark = f"jsonb_build_object('{outbox.REPLAY_HEADER}', '{verbatim(of)}' || {identity})"
            column = (
                f"CASE WHEN {column} IS NULL THEN {mark} WHEN jsonb_typeof(CAST({column} AS jsonb)) = 'object' "
                f"THEN CAST({column} AS jsonb) || {mark} ELSE CAST({column} AS jsonb) END"
            )
        return f"CAST({column} AS {kind})"

    async def _record(
        self, tx: Transaction, row: Mapping[str, Any], done: Requeued, actor: Actor, why: ActContext
    ) -> None:
        attempt, at = self._book.attempt, why.at.isoformat()
        last = sa.select(sa.func.coalesce(sa.func.max(attempt.c.attempt_no), 0)).where(
            attempt.c.source == tx.source, attempt.c.entry_id == done.entry_id
        )
        number = int((await tx.execute(last)).scalar_one()) + 1
        sent: dict[str, object] = {"mode": "live", "venue": storable(done.queue)}
        sent["client_order_id"] = storable(done.key or "")
        sent |= {"payload": b"", "payload_hash": row["hash"], "rehearsal": 0, "token": 0}
        ended = {"state": "accepted", "holds": None, "venue_order_id": done.row_id, "error": None, "finished_at": at}
        who = {"operator": storable(actor.operator), "os_user": storable(actor.os_user), "started_at": at}
        of = {"source": tx.source, "entry_id": done.entry_id, "attempt_no": number}
        await tx.execute(attempt.insert(), {**of, **sent, **ended, **who})
        await self._tell(tx, row, done, actor, why, number=number)

    async def _tell(
        self, tx: Transaction, row: Mapping[str, Any], done: Requeued, actor: Actor, why: ActContext, *, number: int
    ) -> None:
        """In the words of every other replay, so that whoever reads the chain counts it."""
        ids = (done.entry_id,)
        told: dict[str, object] = {"entries": list(ids), "attempt_no": number}
        sent = {"mode": "live", "venue": done.queue, "client_order_id": done.key, "payload_hash": row["hash"]}
        into = {"rehearsal": False, "detail": f"into {done.outbox}"}
        await tx.audit("intent", ids, actor, why, detail={**told, **sent, **into})
        of = ("original_id", "queue", "created_at", "failure_reason", "timer_id", "correlation_id", "size")
        message = {name: row[name] for name in of} | {"failed_at": row["born"]}
        ended = {"outcome": "accepted", "venue_order_id": done.row_id, "rehearsal": False, "error": None}
        left = {"outbox": done.outbox, "message": message, "after": {"deleted": done.deleted}}
        await tx.audit("outcome", ids, actor, why, detail={**told, **ended, **left})
