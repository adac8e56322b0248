"""Intents in a SQLite file, over the sink's own connection.

What opens or fails one is synced; what resolves or renews it is not, and resolves many at once.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dlq_sink.error import DuplicateEntry, NotADLQ
from dlq_sink.order_table import quoted
from dlq_sink.rows import values
from dlq_sink.sqlite import _bound
from dlq_sink.witness.table import COLUMNS, KEPT_SECONDS, LEASE_SECONDS, intent_name, sqlite_ddl

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from dlq_sink.record import DeadLetteredOrder
    from dlq_sink.sqlite import SQLiteDLQ


class SQLiteIntents:
    """Makes its table where it is missing."""

    lingers = True

    def __init__(self, sink: SQLiteDLQ) -> None:
        self._sink = sink
        name = intent_name(sink.table, repr(sink))
        self._name = name
        with sink._transaction() as connection:
            self._make(connection)
        sink._makers.append(self._make)
        self._table = quoted(name)
        places = ", ".join("?" for _ in COLUMNS)
        self._insert = f"INSERT INTO {self._table} ({', '.join(COLUMNS)}) VALUES ({places})"

    def _make(self, connection: sqlite3.Connection) -> None:
        self.columns = _columns(connection, self._name)
        if not self.columns:
            for statement in sqlite_ddl(self._name):
                connection.execute(statement)
        elif not self.columns >= set(COLUMNS):
            raise NotADLQ(
                f"{self._sink!r} has another kind of table named {self._name}: rename it, or do without a witness"
            )

    def open(self, entry: DeadLetteredOrder, owner: str, host: str) -> None:
        row = _bound(values(entry), dict.fromkeys(("quantity", "price"), "real"))
        with self._sink._transaction() as connection:
            connection.execute(self._insert, (*row, owner, host, _stamp(LEASE_SECONDS), None, None))

    def resolve(self, placed: Mapping[str, str | None]) -> Sequence[str]:
        ended = f"UPDATE {self._table} SET resolved_at = ?, venue_order_id = ? WHERE dlq_id = ? AND resolved_at IS NULL"
        with self._sink._transaction(synced=False) as connection:
            late = {
                dlq_id: order_id
                for dlq_id, order_id in placed.items()
                if not connection.execute(ended, (_stamp(), order_id, dlq_id)).rowcount
            }
        return [dlq_id for dlq_id, order_id in late.items() if self._adopt(dlq_id, order_id)]

    def _adopt(self, dlq_id: str, venue_order_id: str | None) -> bool:
        told = f"UPDATE {self._table} SET venue_order_id = ? WHERE dlq_id = ?"
        with self._sink._transaction() as connection:
            connection.execute(told, (venue_order_id, dlq_id))
            return self._sink._dismiss(connection, dlq_id)

    def fail(self, entry: DeadLetteredOrder) -> None:
        """The entry, and the intent resolved, in one transaction."""
        with self._sink._transaction() as connection:
            with suppress(DuplicateEntry):  # a console had already found the order absent and made the entry
                self._sink._insert_row(connection, values(entry))
            connection.execute(
                f"UPDATE {self._table} SET resolved_at = ? WHERE dlq_id = ? AND resolved_at IS NULL",
                (_stamp(), entry.dlq_id),
            )

    def renew(self, owner: str) -> None:
        with self._sink._transaction(synced=False) as connection:
            connection.execute(
                f"UPDATE {self._table} SET lease_until = ? WHERE owner = ? AND resolved_at IS NULL",
                (_stamp(LEASE_SECONDS), owner),
            )

    def clean(self, most: int) -> int:
        """Delete old resolved intents, a few at a time; the number deleted."""
        old = f"SELECT rowid FROM {self._table} WHERE resolved_at < ? ORDER BY rowid LIMIT ?"
        with self._sink._transaction(synced=False) as connection:
            done = connection.execute(
                f"DELETE FROM {self._table} WHERE rowid IN ({old})", (_stamp(-KEPT_SECONDS), most)
            )
            return done.rowcount


def _columns(connection: sqlite3.Connection, name: str) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))}


def _stamp(seconds: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
