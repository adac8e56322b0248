"""An act in the making: its statements and its audit event, which commit together or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.ledger import audit_chain as chain
from backends.ledger.schema import LedgerTables
from backends.records import ActContext, Actor
from backends.sql.query import PreparedQuery

_MANY = 32  # entries from which on an event is a bulk


@dataclass(frozen=True, slots=True)
class Event:
    """An audit event in the making, with the marks by which its entries find it."""

    seq: int
    body: bytes
    hash: bytes
    marks: list[int]


@dataclass(slots=True)
class Transaction:
    connection: AsyncConnection
    driver: Any  # the same connection, as its driver has it
    book: LedgerTables
    on_postgres: bool
    source: str
    role: str
    session: int = 0  # Postgres: the server's process that works on it
    hash: bytes | None = None  # of its last audit event: the proof that it took place
    seq: int = 0
    contended: bool = False  # SQLite: somebody else has written since our last act
    tail: tuple[int, bytes] | None = None  # the chain's end, where it is known

    async def execute(
        self, statement: sa.Executable, args: Mapping[str, object] | None = None
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        return await self.connection.execute(statement, dict(args or {}))

    async def ask(self, prepared: PreparedQuery, **given: object) -> list[Any]:
        """What a statement of a send returns; on SQLite in one crossing to the driver's thread instead of four."""
        told = {f"given_{name}": value for name, value in given.items()}
        if not self.on_postgres:
            return await self.rows(prepared.query.text, prepared.query.values(told))
        result = await self.execute(prepared.statement, told)
        return list(result.fetchall()) if result.returns_rows else []

    async def audit(
        self,
        kind: str,
        ids: Sequence[str],
        actor: Actor,
        why: ActContext,
        *,
        detail: Mapping[str, object] | None = None,
    ) -> None:
        """Append one event that names every entry; each of them finds it by the index."""
        await self.append(await self.compose(kind, ids, actor, why, detail=detail))

    async def compose(
        self,
        kind: str,
        ids: Sequence[str],
        actor: Actor,
        why: ActContext,
        *,
        detail: Mapping[str, object] | None = None,
    ) -> Event:
        """The event that `append` would write next."""
        if self.tail is None:
            self.tail = await self._read_tail()
        seq, previous = self.tail
        body = chain.canonical(
            {
                "v": 1,
                "seq": seq + 1,
                "kind": kind,
                "operation": why.operation,
                "at": why.at.isoformat(),
                "who": asdict(actor) | {"db_role": self.role},
                "source": self.source,
                "reason": why.reason,
                "note": why.note,
                **(detail or {"entries": list(ids)}),
            }
        )
        return Event(seq + 1, body, chain.link(previous, body), sorted(set(chain.marks(self.source, ids))))

    async def append(self, event: Event) -> None:
        self.seq, self.hash = event.seq, event.hash
        self.tail = (event.seq, event.hash)
        index = (self.book.audit_bulk if len(event.marks) >= _MANY else self.book.audit_entry).fullname
        if not self.on_postgres:
            values = (event.seq, event.body, event.hash)
            marks = f"INSERT INTO {index} (mark, seq) SELECT value, ? FROM json_each(?)"
            await asyncio.gather(
                self.rows("INSERT INTO console_audit (seq, body, hash) VALUES (?, ?, ?)", values),
                self.rows(marks, (event.seq, json.dumps(event.marks))),
            )
            return
        row = {"seq": event.seq, "body": event.body, "hash": event.hash}
        await self.execute(self.book.audit.insert(), row)
        if event.marks:
            await self.execute(_postgres_index(index), {"marks": event.marks, "seq": event.seq})

    async def rows(self, sql: str, args: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """SQLite: one statement in one crossing to the driver's thread."""
        return list(await self.driver.execute_fetchall(sql, args))

    async def _read_tail(self) -> tuple[int, bytes]:
        audit = self.book.audit
        last = sa.select(audit.c.seq, audit.c.hash).order_by(audit.c.seq.desc()).limit(1)
        row = (await self.execute(last)).first()
        return (int(row[0]), bytes(row[1])) if row else (0, chain.GENESIS)


@cache
def _postgres_index(table: str) -> sa.TextClause:
    return sa.text(
        f"INSERT INTO {table} (mark, seq) SELECT mark, CAST(:seq AS bigint) FROM unnest(CAST(:marks AS bigint[])) mark"
    ).bindparams(sa.bindparam("marks", type_=sa.ARRAY(sa.BigInteger)))
