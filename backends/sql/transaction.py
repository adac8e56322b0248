"""An act in the making: its statements and its audit event, which commit together or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.ledger import chain
from backends.ledger.schema import Ledger
from backends.records import Actor, Why

_MANY = 32  # entries from which on an event is a bulk


@dataclass(slots=True)
class Transaction:
    connection: AsyncConnection
    book: Ledger
    on_postgres: bool
    source: str
    role: str
    session: int = 0  # Postgres: the server's process that works on it
    hash: bytes | None = None  # of its last audit event: the proof that it took place
    seq: int = 0
    _tail: tuple[int, bytes] | None = field(default=None)

    async def execute(
        self, statement: sa.Executable, args: Mapping[str, object] | None = None
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        return await self.connection.execute(statement, dict(args or {}))

    async def audit(
        self,
        kind: str,
        ids: Sequence[str],
        actor: Actor,
        why: Why,
        *,
        detail: Mapping[str, object] | None = None,
    ) -> None:
        """Append one event that names every entry; each of them finds it by the index."""
        seq, previous = self._tail or await self._read_tail()
        self.seq = seq + 1
        body = chain.canonical(
            {
                "v": 1,
                "seq": self.seq,
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
        self.hash = chain.link(previous, body)
        self._tail = (self.seq, self.hash)
        await self.execute(self.book.audit.insert(), {"seq": self.seq, "body": body, "hash": self.hash})
        if ids:
            marks = sorted({chain.mark(self.source, entry_id) for entry_id in ids})
            table = self.book.audit_bulk if len(marks) >= _MANY else self.book.audit_entry
            await self.execute(
                _index(table.fullname, on_postgres=self.on_postgres),
                {"marks": marks if self.on_postgres else json.dumps(marks), "seq": self.seq},
            )

    async def _read_tail(self) -> tuple[int, bytes]:
        audit = self.book.audit
        last = sa.select(audit.c.seq, audit.c.hash).order_by(audit.c.seq.desc()).limit(1)
        row = (await self.execute(last)).first()
        return (int(row[0]), bytes(row[1])) if row else (0, chain.GENESIS)


@cache
def _index(table: str, *, on_postgres: bool) -> sa.TextClause:
    if not on_postgres:
        return sa.text(f"INSERT INTO {table} (mark, seq) SELECT value, :seq FROM json_each(:marks)")
    return sa.text(
        f"INSERT INTO {table} (mark, seq) SELECT mark, CAST(:seq AS bigint) FROM unnest(CAST(:marks AS bigint[])) mark"
    ).bindparams(sa.bindparam("marks", type_=sa.ARRAY(sa.BigInteger)))
