"""Requeues an outbox's dead letters: one new row of the outbox, the mark and the record in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from backends.detect.outboxes import Outbox, chosen
from backends.layouts import outbox
from backends.layouts.mask import masked_text
from backends.records import CLIP, ActContext, Actor, Version, storable
from backends.sql.acts import verbatim
from backends.sql.other import naming
from backends.sql.other.acts import OtherActs
from backends.sql.other.owner_row import statement
from backends.sql.other.select import Select
from backends.sql.postgres_columns import EQ, JOINED, type_name
from backends.sql.writer import Transaction
from backends.store import ActRefused, ClaimRefused, OnSuccess, Requeued, StoreError

_UNIQUE = "23505"
_REWRITTEN = "0A000"  # a rule of the table makes of the insert something that returns no row
_TOLD = ("original_id", "created_at", "failure_reason", "last_exception", "timer_id")  # what the record keeps of a row


class _Collision(StoreError):
    """A row of the outbox already has this timer, so the transaction is rolled back."""


class RequeueStatements(OtherActs):
    """Acts of an outbox: requeues its dead letters."""

    def check_requeue(self) -> str:
        return self._into().shown

    @property
    def after_success(self) -> OnSuccess | None:
        return "delete" if self._table.options.delete_after_replay else None

    def _into(self) -> Outbox:
        return chosen(self._table.outboxes, self._table.options.outbox_table)

    async def requeue(self, entry_id: str, version: Version, actor: Actor, why: ActContext) -> Requeued | ClaimRefused:
        into = self._into()

        async def work(tx: Transaction) -> Requeued | ClaimRefused:
            if await tx.is_halted():
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
        """The row that is meant, by its id and the moment that was seen; `name` is what the entry is called now."""
        select = Select(self._table, with_ledger=True)
        own = naming.plain(entry_id, str(version[0])) if self._table.ids_repeat else entry_id
        if not select.is_plain_id(own):
            return ClaimRefused(entry_id, "no such entry", "gone")
        shown = {
            "id": select.identity,
            "born": select.born,
            "queue": self._table.sql("queue"),
            "state": select.state,
            "hash": f"encode(sha256({self._table.sql('payload')}), 'hex')",
            "size": f"octet_length({self._table.sql('payload')})",
            "correlation_id": self._header("correlation_id"),
            "replay_of": self._header(outbox.REPLAY_HEADER),
            **{name: self._table.text(name) for name in _TOLD},
        }
        columns = ", ".join(f"{verbatim(sql)} AS {name}" for name, sql in shown.items())
        here = f"{verbatim(self._table.sql('id'))} = CAST(:id AS {self._table.id_type})"
        found = await tx.execute(
            statement(f"SELECT {columns} FROM {verbatim(self._table.found.quoted)} t WHERE {here}", id=sa.Text),
            {"id": own},
        )
        rows = [dict(row) for row in found.mappings()]
        if not rows:
            return ClaimRefused(entry_id, "no such entry", "gone")
        mine = [row for row in rows if (row["born"],) == tuple(version)]
        if len(mine) > 1:
            return ClaimRefused(entry_id, "another row has its id and time: cannot tell which is meant", "changed")
        if not mine:
            return ClaimRefused(entry_id, "changed since it was looked at", "changed")
        if mine[0]["state"] != "pending":
            return ClaimRefused(entry_id, f"already {mine[0]['state']}", "settled")
        apart = naming.suffix(mine[0]["born"]) if len(rows) > 1 else ""
        return {**mine[0], "name": f"{mine[0]['id']}{apart}"}

    def _header(self, name: str) -> str:
        if self._table.actual("headers") is None or not self._table.part("headers").type.startswith("json"):
            return "CAST(NULL AS text)"
        return f"CAST({self._table.sql('headers')} AS jsonb) ->> '{name}'"

    async def _move(
        self, tx: Transaction, row: Mapping[str, Any], into: Outbox, actor: Actor, why: ActContext
    ) -> Requeued | ClaimRefused:
        own, gone = str(row["id"]), self._table.options.delete_after_replay
        marked = {"source": tx.source, "entry_id": own, "born": row["born"], "state": "replayed"}
        await tx.execute(self._book.settled.insert(), {**marked, "at": why.at.isoformat(), "operation": why.operation})
        made = await self._copied(tx, row, into)
        if (channel := outbox.channel(into.name)) is not None:
            notify = statement("SELECT pg_notify(:channel, :queue)", channel=sa.Text, queue=sa.Text)
            await tx.execute(notify, {"channel": channel, "queue": row["queue"]})
        done = Requeued(str(row["name"]), made, str(row["queue"]), row["correlation_id"], into.shown, gone)
        await self._record(tx, row, done, actor, why)
        return done

    async def _copied(self, tx: Transaction, row: Mapping[str, Any], into: Outbox) -> str:
        """The id of the outbox's new row. Raises, and so undoes everything, where there is none."""
        this = {"id": str(row["id"]), "born": row["born"]}
        of = {"replay_of": f"{self._table.found.name}:{row['name']}"} if self._table.options.replay_header else {}
        swallowed = f"the outbox took no row: a trigger or rule on {into.shown} swallowed it; nothing was changed"
        try:
            async with tx.as_owners_do():
                found, made = (await tx.execute(self._copy(into), {**this, **of})).one()
        except IntegrityError as problem:
            if _state(problem) == _UNIQUE:
                raise _Collision("the outbox has this timer") from None
            raise
        except DBAPIError as problem:
            if _state(problem) == _REWRITTEN:
                raise ActRefused(swallowed) from None
            raise
        if made is not None:
            return str(made)
        if found:
            raise ActRefused(swallowed)
        table = self._table.found.shown
        there = sa.text(f"SELECT pg_catalog.count(*) FROM {self._this()}")
        if (await tx.execute(there, this)).scalar_one():
            raise ActRefused(f"a trigger or rule on {table} keeps the row from being deleted; nothing was changed")
        raise ActRefused(f"{table}: the row was removed meanwhile; nothing was changed")

    def _copy(self, into: Outbox) -> sa.TextClause:
        """Copies and deletes in one statement, so that exactly the copied row is deleted.

        Returns how many rows were found, and the new row's id.
        """
        table, kinds = self._table, dict(into.types)
        copied = [name for name in into.copied if table.actual(name)]
        values = [self._value(name, kinds[name]) for name in copied]
        filled = {name: outbox.FILLED[name] for name in into.filled}
        names = ", ".join((*copied, *filled))  # the columns of the package, whose names need no quotes
        deletes = table.options.delete_after_replay
        source = f"DELETE FROM {self._this()} RETURNING t.*" if deletes else f"SELECT t.* FROM {self._this()}"
        return sa.text(
            f"WITH t AS MATERIALIZED ({source}), made AS (INSERT INTO {verbatim(into.quoted)} ({names}) "
            f"SELECT {', '.join((*values, *filled.values()))} FROM t RETURNING id) "
            "SELECT (SELECT pg_catalog.count(*) FROM t), (SELECT CAST(id AS pg_catalog.text) FROM made)"
        )

    def _this(self) -> str:
        """The row :id that failed at :born."""
        table, born = self._table, Select(self._table, with_ledger=True).born
        this = f"{verbatim(table.sql('id'))} {EQ} CAST(CAST(:id AS pg_catalog.text) AS {table.id_type})"
        then = f"{verbatim(born)} {EQ} CAST(:born AS pg_catalog.text)"
        return f"{verbatim(table.found.quoted)} t WHERE {this} AND {then}"

    def _value(self, name: str, kind: str) -> str:
        column = verbatim(self._table.sql(name))
        if name != "headers":
            return column
        if self._table.options.replay_header:
            held = f"CAST({column} AS pg_catalog.jsonb)"
            mark = f"pg_catalog.jsonb_build_object('{outbox.REPLAY_HEADER}', CAST(:replay_of AS pg_catalog.text))"
            is_object = f"pg_catalog.jsonb_typeof({held}) {EQ} 'object'"
            column = (
                f"CASE WHEN {column} IS NULL THEN {mark} WHEN {is_object} THEN {held} {JOINED} {mark} ELSE {held} END"
            )
        return f"CAST({column} AS {type_name(kind)})"

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
        """Writes the same audit events as every other replay, so that readers of the chain count it."""
        ids = (done.entry_id,)
        told: dict[str, object] = {"entries": list(ids), "attempt_no": number}
        sent = {"mode": "live", "venue": done.queue, "client_order_id": done.key, "payload_hash": row["hash"]}
        into = {"rehearsal": False, "detail": f"into {done.outbox}"}
        await tx.audit("intent", ids, actor, why, detail={**told, **sent, **into})
        of = ("original_id", "queue", "created_at", "failure_reason", "timer_id", "correlation_id", "size")
        message = {name: row[name] for name in of} | {"failed_at": row["born"]}
        # Kept with the replay, as the row may be deleted or pruned: a message that comes back is judged by it.
        message["last_exception"] = masked_text(row["last_exception"] or "")[:CLIP] or None
        message["replay_of"] = (row["replay_of"] or "")[:CLIP] or None
        ended = {"outcome": "accepted", "venue_order_id": done.row_id, "rehearsal": False, "error": None}
        left = {"outbox": done.outbox, "message": message, "after": {"deleted": done.deleted}}
        await tx.audit("outcome", ids, actor, why, detail={**told, **ended, **left})


def _state(problem: DBAPIError) -> str | None:
    return getattr(problem.orig, "sqlstate", None)
