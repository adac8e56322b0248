"""Acts on rows of other owners: dismisses and restores them, and requeues messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from backends.detect import other_layouts as detected
from backends.detect.other_layouts import OtherAttached, Outbox
from backends.layouts import outbox
from backends.ledger.schema import SCHEMA, LedgerTables
from backends.records import ActContext, Actor, ActResult, Entry, Selection, Version, storable
from backends.sql.acts import POSTGRES_NOW, SQLLog, describe, verbatim
from backends.sql.other.owner_row import IMPATIENT, REMOVED, TEXTS, OwnerRow, Removal, statement
from backends.sql.other.reads import OtherReads
from backends.sql.other.select import Select
from backends.sql.writer import StoreWriter, Transaction
from backends.store import ActRefused, ClaimRefused, OnSuccess, Requeued, StoreError, Unreachable


class OtherActs(SQLLog):
    def __init__(
        self, attached: OtherAttached, book: LedgerTables, reads: OtherReads, writer: StoreWriter | None
    ) -> None:
        SQLLog.__init__(self, attached, book, writer)
        self._table = attached
        self._reads = reads

    async def dismiss(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        wanted = self._table.options.on_dismiss
        if wanted == "keep":
            return await self._act("dismiss", self._dismissal(), selection, actor, why)
        await self._reads.check_row("on_dismiss", wanted, counts=False)
        try:
            return await self._act("dismiss", self._dismissal(), selection, actor, why, removal=wanted)
        except (ActRefused, Unreachable):
            return await self._one_by_one(selection, actor, why, wanted)

    async def _one_by_one(self, selection: Selection, actor: Actor, why: ActContext, removal: Removal) -> ActResult:
        """After a row that stayed took the others back with it: each alone, the stubborn ones with their reason."""
        done: list[str] = []
        changed: list[tuple[str, str]] = []
        for pick in selection.picks:
            try:
                one = await self._act("dismiss", self._dismissal(), Selection((pick,)), actor, why, removal=removal)
                done += one.done
                changed += one.changed
            except (ActRefused, Unreachable) as problem:
                changed.append((pick[0], f"not dismissed, its row stays: {str(problem).partition('; an owner')[0]}"))
        return ActResult(tuple(done), tuple(changed))

    async def restore(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        return await self._act("restore", self._return(), selection, actor, why)

    async def _act(
        self,
        kind: str,
        moving: sa.TextClause,
        selection: Selection,
        actor: Actor,
        why: ActContext,
        *,
        removal: Removal | None = None,
    ) -> ActResult:
        """Dismiss or restore in the ledger and, with `removal`, remove the rows in the same transaction."""
        select = Select(self._table, with_ledger=True)
        picks = [(entry_id, str(version[0])) for entry_id, version in selection.picks if select.is_id(entry_id)]
        asked = {"ids": [entry_id for entry_id, _ in picks], "stamps": [stamp for _, stamp in picks]}
        asked_at = {"at": why.at.isoformat(), "operation": why.operation} if kind == "dismiss" else {}

        async def work(tx: Transaction) -> list[str]:
            done = [str(row[0]) for row in await tx.execute(moving, {**asked, **asked_at, "source": tx.source})]
            if done:
                seen = dict(picks)
                after: dict[str, object] = {"dismissed": kind == "dismiss"}
                if removal is not None:
                    after |= await self._remove(tx, removal, done, [seen[one] for one in done])
                detail = {"entries": [[one, seen[one]] for one in done], "before": ["id", "seen"]}
                await tx.audit(kind, done, actor, why, detail={**detail, "after": after})
            return done

        done = await self.writing.run(work)
        missed = tuple(entry_id for entry_id in selection.ids if entry_id not in set(done))
        return ActResult(tuple(done), tuple(await self._now(missed, kind)))

    async def _remove(self, tx: Transaction, how: Removal, ids: list[str], stamps: list[str]) -> dict[str, object]:
        """Raises, and so undoes the dismissal, unless every row goes."""
        await tx.execute(IMPATIENT)
        gone = (await tx.execute(OwnerRow(self._table).removal(how), {"ids": ids, "stamps": stamps})).fetchall()
        if {str(row[0]) for row in gone} != set(ids):
            raise ActRefused("a trigger or a rule of the table keeps it, or somebody changed it meanwhile")
        return dict(REMOVED[how])

    async def _now(self, missed: tuple[str, ...], kind: str) -> list[tuple[str, str]]:
        found = await self._reads.states(missed)
        return [(entry_id, _described(found.get(entry_id), kind)) for entry_id in missed]

    def _dismissal(self) -> sa.TextClause:
        select = Select(self._table, with_ledger=True)
        claim = f"{SCHEMA}.claim h WHERE h.source = :source AND h.entry_id = p.id AND h.released IS NULL"
        return statement(
            f"INSERT INTO {SCHEMA}.settled (source, entry_id, born, state, at, operation) "
            f"SELECT :source, {verbatim(select.identity)}, {verbatim(select.born)}, 'dismissed', :at, :operation "
            f"{self._picked(select)} AND {verbatim(select.is_open)} AND {verbatim(select.held())} IS NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {claim} AND h.expires_at > {POSTGRES_NOW}) "
            "ON CONFLICT DO NOTHING RETURNING entry_id",
            ids=TEXTS,
            stamps=TEXTS,
            source=sa.Text,
            at=sa.Text,
            operation=sa.Text,
        )

    def _return(self) -> sa.TextClause:
        select = Select(self._table, with_ledger=True)
        return statement(
            f"DELETE FROM {SCHEMA}.settled g USING (SELECT {verbatim(select.identity)} AS id, "
            f"{verbatim(select.born)} AS born {self._picked(select)} AND {verbatim(select.is_open)}) r "
            "WHERE g.source = :source AND g.entry_id = r.id AND g.born = r.born AND g.state = 'dismissed' "
            "RETURNING g.entry_id",
            ids=TEXTS,
            stamps=TEXTS,
            source=sa.Text,
        )

    def _picked(self, select: Select) -> str:
        """Selects the rows that are still as they were seen."""
        kind = self._table.part("id").type
        return (
            f"FROM unnest(CAST(:ids AS text[]), CAST(:stamps AS text[])) AS p(id, stamp) "
            f"JOIN {verbatim(self._table.found.quoted)} t ON {verbatim(self._table.sql('id'))} = CAST(p.id AS {kind}) "
            f"WHERE {verbatim(select.stamp)} = p.stamp"
        )


def _described(entry: Entry | None, kind: str) -> str:
    if kind == "restore" and entry is not None and entry.state == "dismissed":
        return "its owner has deleted it: not ours to restore"
    return describe(entry)


_UNIQUE = "23505"


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
        """Copies and deletes in one statement, so that exactly the copied row is deleted."""
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
        """Writes the same audit events as every other replay, so that readers of the chain count it."""
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
