"""Reads and sets the ledger's policy, and reads what one identity sent a short while ago. Knows no limit's meaning."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from backends.ledger.names import SCHEMA
from backends.ledger.policy import changed
from backends.records import ActContext, Actor, number, readable, storable
from backends.sql.acts import SQLLog
from backends.sql.connection import Connection
from backends.sql.history import SQLHistory
from backends.sql.writer import Transaction
from backends.store import ActRefused, SentOrder

_COUNTED = ("submitting", "in_doubt", "accepted")  # states of an attempt that is or may be an order at its venue
_OWNER = (
    "SELECT pg_catalog.pg_get_userbyid(c.relowner), pg_catalog.pg_has_role(c.relowner, 'usage') "
    f"FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass('{SCHEMA}.policy')"
)
_NOBODY = Path("/proc/sys/kernel/overflowuid")  # whom the kernel names where the real owner has no number here


async def policy_rows(tx: Transaction) -> dict[str, str]:
    """The policy inside a transaction, which has made the ledger."""
    table = tx.book.policy
    return _policy((await tx.execute(sa.select(table.c.key, table.c.value))).fetchall())


def _policy(rows: Sequence[Any]) -> dict[str, str]:
    return changed({readable(row[0]): readable(row[1]) for row in rows}, {})


class SQLPolicy(SQLHistory, SQLLog):
    async def policy(self) -> dict[str, str]:
        table = self._book.policy

        async def work(link: Connection) -> dict[str, str]:
            await self._has_ledger(link)
            if self._ledger == "unreadable":
                raise ActRefused(self._unreadable())
            if not self._found.has("policy"):
                return {}  # nobody can have set one in a ledger of an earlier version
            return _policy((await link.execute(sa.select(table.c.key, table.c.value))).fetchall())

        return await self._of_ledger(work)

    def _unreadable(self) -> str:
        finding = self._attached.info.unreadable
        if finding is None:  # it was readable when the store was attached
            return "the store's policy cannot be read: this role may no longer read the console's ledger"
        sql = f"; an owner would run:\n{finding.sql}" if finding.sql else ""
        return f"the store's policy cannot be read: {finding.text}{sql}"

    async def set_policy(self, changes: Mapping[str, str | None], actor: Actor, why: ActContext) -> dict[str, str]:
        table = self._book.policy

        async def work(tx: Transaction) -> dict[str, str]:
            await _check_owner(tx)
            before = await policy_rows(tx)
            after = changed(before, changes)
            if after == before:
                return after
            for key, value in changes.items():
                await tx.execute(sa.delete(table).where(table.c.key == key))
                if value is not None:
                    await tx.execute(table.insert(), {"key": key, "value": storable(value)})
            # Whole, so that the last such event and the table must say the same.
            await tx.audit("policy", (), actor, why, detail={"entries": [], "before": before, "after": after})
            return after

        return await self.writing.run(work)

    async def sent_since(self, moment: datetime, mode: str, actor: Actor) -> tuple[SentOrder, ...]:
        attempt = self._book.attempt

        def asked() -> sa.Executable | None:
            has_role = self._found.has("attempt", "role")
            names = ("notional", "currency") if has_role else ()
            values = [attempt.c[name] if name in names else sa.null() for name in ("notional", "currency")]
            mine: Any = attempt.c.os_user == storable(actor.os_user)
            kept: Any = sa.case((attempt.c.notional.is_(None), attempt.c.payload)) if has_role else attempt.c.payload
            if self._attached.info.dialect == "postgresql" and has_role:
                # One of an earlier version names no role: it counts for everybody.
                mine = sa.or_(attempt.c.role == sa.literal_column("SESSION_USER"), attempt.c.role.is_(None))
            return sa.select(*values, kept).where(
                attempt.c.source == self._attached.found.shown,
                attempt.c.mode == mode,
                attempt.c.rehearsal == 0,
                attempt.c.token != 0,  # what an engine sent, a person only settled
                attempt.c.state.in_(_COUNTED),
                attempt.c.started_at >= moment.isoformat(),
                mine,
            )

        return tuple(_sent(row) for row in await self._ledger_rows(asked))


def _sent(row: Sequence[Any]) -> SentOrder:
    worth: Decimal | None = None if row[0] is None else number(row[0])
    currency = None if row[1] is None else readable(row[1])
    return SentOrder(worth, currency, None if row[2] is None else bytes(row[2]))


async def _check_owner(tx: Transaction) -> None:
    """Raises ActRefused unless the ledger's owner (on SQLite the file's) sets its policy."""
    if tx.on_postgres:
        owner, is_owner = tuple((await tx.connection.exec_driver_sql(_OWNER)).one())
        if not is_owner:
            raise ActRefused(f"only the ledger's owner sets its policy: log in as {owner}, or ask them")
        return
    file = next((row[2] for row in await tx.rows("PRAGMA database_list") if row[1] == "main"), "")
    uid = os.stat(file).st_uid  # noqa: PTH116 - one call, inside the transaction that hangs on it
    if uid != os.getuid() or (uid == _unmapped() and not _is_whole_map()):
        raise ActRefused(f"only the owner of {file} (uid {uid}) sets its policy: run this as that user, or ask them")


def _unmapped() -> int:
    try:
        return int(_NOBODY.read_text())
    except (OSError, ValueError):
        return -1


def _is_whole_map() -> bool:
    """Whether every user has the same number here as outside: no user namespace stands between."""
    try:
        return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    except OSError:
        return True  # a system without user namespaces
