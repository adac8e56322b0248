"""The order layout as SELECTs: which columns, in which order, under which filter. Pure; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from backends.detect import Attached, Column
from backends.layouts import orders
from backends.ledger.schema import ledger
from backends.records import OPEN_STATES, Entry, Filter, Place, State

CLIP = 4096  # bytes of a text that a page carries; `get` has it whole
_TEXTS = frozenset(orders.COLUMNS) - {
    "dlq_id",
    "captured_at",
    "quantity",
    "price",
    "retry_count",
    "dismissed",
}
_HELD: dict[str, State] = {"submitting": "in_flight", "in_doubt": "in_doubt", "accepted": "replayed"}


def _type(column: Column, *, on_postgres: bool) -> sa.types.TypeEngine[object]:
    if not on_postgres:
        return sa.types.NullType()
    if column.type.startswith("timestamp with time"):
        return sa.TIMESTAMP(timezone=True)
    if column.type.startswith("timestamp"):
        return sa.TIMESTAMP()
    if column.type.startswith(("text", "character", "varchar", "uuid")):
        return sa.Text()
    return sa.types.NullType()


@dataclass(frozen=True, slots=True)
class Shape:
    """How to ask one attached table."""

    attached: Attached
    table: sa.TableClause
    with_ledger: bool
    stray: bool = False  # somebody dismissed an entry that is in flight or in doubt: it must still be seen

    @classmethod
    def of(cls, attached: Attached, *, with_ledger: bool, stray: bool = False) -> Shape:
        on_postgres = attached.info.dialect == "postgresql"
        found = attached.found
        columns = [sa.column(column.name, _type(column, on_postgres=on_postgres)) for column in found.columns]
        table = sa.table(found.name, *columns, schema=found.schema)
        return cls(attached, table, with_ledger, stray)

    @property
    def on_postgres(self) -> bool:
        return self.attached.info.dialect == "postgresql"

    @property
    def names(self) -> tuple[str, ...]:
        return self.attached.info.columns

    @property
    def place_columns(self) -> tuple[ColumnElement[object], ...]:
        if self.attached.by_rowid:
            return (sa.literal_column(f"{self.attached.found.quoted}._rowid_"),)
        captured = self.attached.found.column("captured_at")
        column: ColumnElement[object] = self.table.c.captured_at
        if captured is not None and not captured.not_null:
            lowest = sa.literal_column("'-infinity'::timestamptz" if self.on_postgres else "''")
            column = sa.func.coalesce(column, lowest)
        return (column, self.table.c.dlq_id)

    def select(self, *, whole: bool) -> sa.Select[tuple[object, ...]]:
        """Place columns, held state, clipped?, then the layout's columns as stored."""
        columns: list[ColumnElement[object]] = list(self.place_columns)
        columns.append(self._attempt.c.state if self.with_ledger else sa.null().label("held"))
        columns.append(sa.literal_column("0") if whole else self._is_long())
        columns += [self._stored(name, whole=whole) for name in self.names]
        statement = sa.select(*columns)
        if self.with_ledger:
            return statement.select_from(self.table.outerjoin(self._attempt, self._holding()))
        return statement.select_from(self.table)

    def entry(self, row: Sequence[object]) -> Entry:
        width = 1 if self.attached.by_rowid else 2
        values = tuple(row[width + 2 :])
        names = self.names
        dismissed = values[names.index("dismissed")]
        held = row[width]
        state: State = _HELD[str(held)] if held is not None else "dismissed" if is_true(dismissed) else "pending"
        version: tuple[object, ...] = (dismissed,)
        if "retry_count" in names:
            version = (values[names.index("retry_count")], dismissed)
        identity = values[0]
        return Entry(
            orders.NAME,
            identity if isinstance(identity, str) else str(identity),
            state,
            version,
            tuple(row[:width]),
            names,
            values,
            bool(row[width + 1]),
        )

    @property
    def _attempt(self) -> sa.Table:
        return ledger(self.attached.info.dialect).attempt

    def _holding(self) -> ColumnElement[bool]:
        attempt = self._attempt
        return sa.and_(
            attempt.c.source == sa.bindparam("source", self.attached.found.shown),
            attempt.c.entry_id == self.table.c.dlq_id,
            attempt.c.holds == 1,
        )

    def _stored(self, name: str, *, whole: bool) -> ColumnElement[object]:
        column: ColumnElement[object] = self.table.c[name]
        declared = self.attached.found.column(name)
        if self.on_postgres and declared is not None:
            if declared.type in ("json", "jsonb", "real", "uuid") or declared.type.endswith("[]"):
                column = sa.cast(column, sa.Text)
            if not whole and self._texty(declared):
                return sa.func.left(column, CLIP).label(name)
            return column.label(name)
        if whole or name == "dlq_id" or not self._texty(declared):
            return column.label(name)
        # length() of a text stops at NUL; of a blob it is exact and free.
        quoted = f"{self.attached.found.quoted}.{orders.quoted(name)}"
        return sa.literal_column(
            f"CASE WHEN length(CAST({quoted} AS BLOB)) > {CLIP} THEN substr({quoted}, 1, {CLIP}) ELSE {quoted} END"
        ).label(name)

    def _is_long(self) -> ColumnElement[object]:
        found = self.attached.found
        texts = [c for c in found.columns if c.name in self.names and c.name != "dlq_id" and self._texty(c)]
        measure = "octet_length({}::text)" if self.on_postgres else "length(CAST({} AS BLOB))"
        sizes = [measure.format(f"{found.quoted}.{orders.quoted(c.name)}") for c in texts]
        if not sizes:
            return sa.literal_column("0")
        return sa.literal_column(" OR ".join(f"coalesce({size}, 0) > {CLIP}" for size in sizes))

    def _texty(self, column: Column | None) -> bool:
        return column is not None and column.name in _TEXTS

    def ordered(
        self, statement: sa.Select[tuple[object, ...]], *, after: Place | None, descending: bool
    ) -> sa.Select[tuple[object, ...]]:
        columns = self.place_columns
        if after is not None:
            here = columns[0] if len(columns) == 1 else sa.tuple_(*columns)
            there = _place_value(columns, after)
            statement = statement.where(here < there if descending else here > there)
        return statement.order_by(*(column.desc() if descending else column.asc() for column in columns))

    def where(self, wanted: Filter) -> list[ColumnElement[bool]]:
        conditions = [*self._states(wanted.states)]
        for name, value in (
            ("venue_name", wanted.venue),
            ("account_id", wanted.account),
            ("market_id", wanted.market),
            ("side", wanted.side),
        ):
            if value is not None:
                conditions.append(self.table.c[name] == value if name in self.names else sa.false())
        for moment, is_since in ((wanted.since, True), (wanted.until, False)):
            if moment is not None:
                conditions.append(self._moment(moment.isoformat(), is_since=is_since))
        conditions += [self._contains(term) for term in wanted.terms]
        conditions += [sa.not_(self._contains(term)) for term in wanted.without]
        return conditions

    def pending(self) -> ColumnElement[bool]:
        """Not dismissed, in the form the store's own partial index can answer."""
        column = self.attached.found.column("dismissed")
        quoted = f"{self.attached.found.quoted}.dismissed"
        if column is not None and column.type.startswith("bool") and self.on_postgres:
            return sa.literal_column(f"NOT {quoted}" if column.not_null else f"{quoted} IS NOT TRUE", sa.Boolean)
        if column is not None and column.not_null:
            return sa.literal_column(f"{quoted} = 0", sa.Boolean)
        return sa.literal_column(f"({quoted} IS NULL OR {quoted} <> 1)", sa.Boolean)

    def _states(self, states: frozenset[State]) -> list[ColumnElement[bool]]:
        if len(states) == 5:
            return []
        free = self._attempt.c.state.is_(None) if self.with_ledger else sa.true()
        held = [ours for ours, shown in _HELD.items() if shown in states]
        choices: list[ColumnElement[bool]] = []
        if states == OPEN_STATES:
            if not self.with_ledger:
                return [self.pending()]
            if not self.stray:
                return [self.pending(), self._attempt.c.state.is_distinct_from("accepted")]
        if "pending" in states:
            choices.append(sa.and_(self.pending(), free))
        if "dismissed" in states:
            choices.append(sa.and_(sa.not_(self.pending()), free))
        if held and self.with_ledger:
            choices.append(self._attempt.c.state.in_(held))
        return [sa.or_(*choices)] if choices else [sa.false()]

    def _moment(self, iso: str, *, is_since: bool) -> ColumnElement[bool]:
        column = self.table.c.captured_at
        declared = self.attached.found.column("captured_at")
        if self.on_postgres:
            there: ColumnElement[object] = column
            if declared is not None and not declared.type.startswith("timestamp"):
                there = sa.literal_column(
                    f"CASE WHEN {self.attached.found.quoted}.captured_at ~ "
                    r"'^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$' "
                    f"THEN CAST({self.attached.found.quoted}.captured_at AS timestamptz) END"
                )
            when = sa.cast(sa.literal(iso, sa.Text), sa.TIMESTAMP(timezone=True))
            return there >= when if is_since else there < when
        here, limit = sa.func.julianday(column), sa.func.julianday(iso)
        return here >= limit if is_since else here < limit

    def _contains(self, term: str) -> ColumnElement[bool]:
        pattern = "%" + term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        columns = [self.table.c[name] for name in orders.SEARCHED if name in self.names]
        if self.on_postgres:
            return sa.or_(*(sa.func.coalesce(sa.cast(c, sa.Text), "").ilike(pattern, escape="\\") for c in columns))
        return sa.or_(*(sa.func.coalesce(c, "").like(pattern, escape="\\") for c in columns))


def _place_value(columns: Sequence[ColumnElement[object]], place: Place) -> ColumnElement[object]:
    if len(columns) == 1:
        return sa.bindparam("place", place[0], sa.BigInteger)
    return sa.tuple_(
        *(sa.bindparam(f"place_{n}", value, columns[n].type) for n, value in enumerate(place)),
    )


def is_true(value: object) -> bool:
    return value is True or value == 1
