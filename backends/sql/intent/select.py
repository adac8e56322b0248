"""The SELECTs over an engine's intent table, each row in the shape of an entry of its queue. Makes SQL, runs none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from backends.detect import Attached
from backends.layouts import intents, orders
from backends.ledger.schema import ledger
from backends.records import Entry, State
from backends.sql.order_select import OrderSelect, RowOrder
from backends.sql.postgres_columns import text_value

_STATES: dict[str, State] = {"open": "in_flight", "gone": "in_doubt", "replayed": "replayed"}
_LONGEST_NAME = 200
_DEFAULTS = {"retry_count": "0", "dismissed": "0"}


@dataclass(frozen=True)
class IntentSelect:
    """Of a row it reads: which it is, whether a value is cut, lease, owner, host, then the columns of the queue."""

    attached: Attached
    as_text: bool = False

    @property
    def on_postgres(self) -> bool:
        return self.attached.info.dialect == "postgresql"

    @cached_property
    def table(self) -> str:
        there = self.attached.intents
        assert there is not None, "the caller has looked"
        return there.quoted

    @cached_property
    def _shape(self) -> OrderSelect:
        """The same columns, as far as the intent table has them."""
        there, info = self.attached.intents, self.attached.info
        assert there is not None, "the caller has looked"
        columns = tuple(name for name in info.columns if there.column(name) is not None)
        beside = replace(self.attached, found=there, info=replace(info, columns=columns), by_rowid=False)
        return OrderSelect(beside, with_ledger=False, as_text=self.as_text)

    @cached_property
    def identity(self) -> str:
        column = f"{self.table}.dlq_id"
        return text_value(column, self._shape.attached.column("dlq_id").type) if self.on_postgres else column

    @property
    def gone(self) -> str:
        """Its owner renews no more. A lease that is no time has ended: what is not known must be seen."""
        if self.on_postgres:
            return f"coalesce({self.table}.lease_until < clock_timestamp(), true)"
        return f"coalesce(julianday({self.table}.lease_until) < julianday('now'), 1)"

    @property
    def count_gone(self) -> str:
        """How many a dead owner left open; what became an entry since is among them."""
        return f"SELECT count(*) FROM {self.table} WHERE {self.table}.resolved_at IS NULL AND {self.gone}"

    def open(self, *, owned: bool, whole: bool, ids: bool = False) -> str:
        """What nobody resolved; with `owned` also what its owner may still be sending."""
        kind = f"CASE WHEN {self.gone} THEN 'gone' ELSE 'open' END"
        wanted = [f"{self.table}.resolved_at IS NULL", *(() if owned else (self.gone,))]
        return self._select(kind, [*wanted, self._not_queued, *self._named(ids=ids)], whole=whole)

    def replayed(self, *, whole: bool, ids: bool = False) -> str:
        """What this console's ledger holds as found at its venue; the first parameter is the source."""
        attempt = ledger(self.attached.info.dialect).attempt.fullname
        first = "CAST($1 AS text)" if self.on_postgres else "?"
        found = (
            f"EXISTS (SELECT 1 FROM {attempt} a WHERE a.source = {first} AND a.entry_id = {self.identity} "
            "AND a.holds = 1 AND a.state = 'accepted')"
        )
        wanted = [f"{self.table}.resolved_at IS NOT NULL", found, self._not_queued]
        return self._select("'replayed'", [*wanted, *self._named(ids=ids, at=2)], whole=whole)

    def _select(self, kind: str, wanted: Sequence[str], *, whole: bool) -> str:
        long = "" if whole else self._shape.is_long()
        lease = f"CAST({self.table}.lease_until AS text)"
        columns = [self._value(name, whole=whole) for name in self.attached.info.columns]
        chosen = ", ".join((kind, long or "false", lease, self._sender("owner"), self._sender("host"), *columns))
        order = f"{self.table}.captured_at, {self.table}.dlq_id"
        return f"SELECT {chosen} FROM {self.table} WHERE {' AND '.join(wanted)} ORDER BY {order}"

    def _sender(self, name: str) -> str:
        """What any text of the engine is: no longer than a name; empty where its table lacks the column."""
        there = self.attached.intents
        assert there is not None, "the caller has looked"
        if there.column(name) is None:
            return "''"
        return f"coalesce(substr(CAST({self.table}.{name} AS text), 1, {_LONGEST_NAME}), '')"

    def _value(self, name: str, *, whole: bool) -> str:
        has = name in self._shape.attached.info.columns
        if name == "error":
            told = f"'{intents.ERROR}'"
            return f"coalesce(nullif({self._shape.stored(name, whole=whole)}, ''), {told})" if has else told
        if has:
            return self._shape.stored(name, whole=whole)
        return "false" if name == "dismissed" and self.on_postgres else _DEFAULTS.get(name, "NULL")

    @property
    def _not_queued(self) -> str:
        """The engine, or a console, has made an entry of it: that one is shown."""
        found = self.attached.found
        return f"NOT EXISTS (SELECT 1 FROM {found.quoted} WHERE {RowOrder(self.attached).identity} = {self.identity})"

    def _named(self, *, ids: bool, at: int = 1) -> tuple[str, ...]:
        if not ids:
            return ()
        if self.on_postgres:
            return (f"{self.identity} = ANY(CAST(${at} AS text[]))",)
        return (f"{self.identity} IN (SELECT value FROM json_each(?))",)

    def reader(self) -> Callable[[Sequence[Any]], Entry]:
        names = self.attached.info.columns

        def read(row: Sequence[Any]) -> Entry:
            values = tuple(row[5:])
            version, place = (row[2],), (values[1], str(values[0]))
            entry_id = str(values[0])
            return Entry(
                layout=orders.NAME,
                id=entry_id,
                state=_STATES[row[0]],
                version=version,
                row_key=place,
                names=names,
                values=values,
                clipped=bool(row[1]),
                origin="intent",
                sender=(str(row[3]), str(row[4])),
            )

        return read
