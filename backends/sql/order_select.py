"""SELECTs over the order layout: columns, states and order of rows; and turning rows into entries. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from dlq_sink.values import is_encodable, to_bytes
from sqlalchemy.sql.elements import ColumnElement

from backends.detect import Attached, Candidate
from backends.layouts import orders
from backends.layouts.roles import roles
from backends.ledger.presence import hinted_sql, present_sql
from backends.ledger.schema import ledger
from backends.records import OPEN_STATES, Filter, RowKey, State
from backends.sql.connection import compiled
from backends.sql.filter_sql import Column, FilterSQL, filter_sql, placed
from backends.sql.postgres_columns import text_value
from backends.sql.text.order_row import OrderRow, Part, identity_sql, order_columns, order_parts
from backends.sql.text.query import CompiledQuery
from backends.sql.text.spelling import Spelled, holds_more


@dataclass(frozen=True, slots=True)
class RowRange:
    """A stretch of the row order, from just behind a row key or from the beginning."""

    part: Part
    behind: RowKey | None
    until: RowKey | None = None  # the last row; only of a stretch that is "all"

    @property
    def key(self) -> tuple[object, ...]:
        """The part that changes the statement and not only its values."""
        ends = (None if end is None else tuple(map(_kind, end)) for end in (self.behind, self.until))
        return (self.part, *ends)

    @property
    def values(self) -> Mapping[str, object]:
        ends = (("place", self.behind), ("until", self.until))
        return {f"{name}_{n}": _bound(value) for name, end in ends for n, value in enumerate(end or ())}


def _kind(value: object) -> str:
    return type(value).__name__


def _bound(value: object) -> object:
    """SQLite takes text that is not Unicode as bytes, cast back to text."""
    return to_bytes(value) if isinstance(value, str) and not is_encodable(value) else value


@dataclass(frozen=True, slots=True)
class RowOrder:
    attached: Attached

    @property
    def _on_postgres(self) -> bool:
        return self.attached.info.dialect == "postgresql"

    @property
    def identity(self) -> str:
        return identity_sql(self.attached)

    def columns(self) -> tuple[ColumnElement[Any], ...]:
        return tuple(map(sa.literal_column, order_columns(self.attached)))

    def stretches(self, behind: RowKey | None, *, descending: bool) -> list[RowRange]:
        parts = order_parts(self.attached, descending=descending)
        if len(parts) == 1:
            return [RowRange(parts[0], behind)]
        if behind is None:
            return [RowRange(part, None) for part in parts]
        here: Part = "undated" if behind[0] is None else "dated"
        return [RowRange(here, behind), *(RowRange(part, None) for part in parts[parts.index(here) + 1 :])]

    def apply(self, statement: Any, stretch: RowRange, *, descending: bool) -> Any:
        columns = self.columns()
        if stretch.part != "all":
            missing = columns[0].is_(None)
            statement = statement.where(missing if stretch.part == "undated" else sa.not_(missing))
            columns = columns[1:] if stretch.part == "undated" else columns
        here: Any = columns[0] if len(columns) == 1 else sa.tuple_(*columns)
        if stretch.behind is not None:
            limit = self._limit(stretch.behind, "place", len(columns))
            statement = statement.where(here < limit if descending else here > limit)
        if stretch.until is not None:
            limit = self._limit(stretch.until, "until", len(columns))
            statement = statement.where(here >= limit if descending else here <= limit)
        return statement.order_by(*(column.desc() if descending else column.asc() for column in columns))

    def _limit(self, place: RowKey, name: str, columns: int) -> Any:
        there = self._there(place, name)[-columns:]
        return there[0] if columns == 1 else sa.tuple_(*there)

    def _there(self, place: RowKey, name: str) -> tuple[ColumnElement[Any], ...]:
        if self.attached.by_rowid:
            return (sa.bindparam(f"{name}_0", type_=sa.BigInteger),)
        if not self._on_postgres:
            return tuple(_sqlite_value(f"{name}_{n}", value) for n, value in enumerate(place))
        captured: ColumnElement[Any] = sa.bindparam(f"{name}_0", type_=sa.TIMESTAMP(timezone=True))
        if not isinstance(place[0], datetime):
            declared = self.attached.column("captured_at").type
            captured = sa.cast(sa.bindparam(f"{name}_0", type_=sa.Text), _Named(declared))
        return (captured, sa.bindparam(f"{name}_1", type_=sa.Text))


def _sqlite_value(name: str, value: object) -> ColumnElement[Any]:
    bound = sa.bindparam(name, type_=sa.types.NullType())
    return sa.cast(bound, sa.Text) if isinstance(value, str) else bound


class _Named(sa.types.UserDefinedType[Any]):
    """A type by its name in the catalog."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        return self.name


_NAMING = ("client_order_id", "market_id", "action_json")


@dataclass(frozen=True, slots=True)
class OrderSelect(OrderRow):
    """The SELECTs over one attached table."""

    @property
    def table(self) -> sa.TableClause:
        return _table(self.attached.found)

    @property
    def order(self) -> RowOrder:
        return RowOrder(self.attached)

    def select(self, *, whole: bool, marker: ColumnElement[Any] | None = None) -> sa.Select[Any]:
        """Selects what `RowMark` tells, the rowid if any, then all columns."""
        columns: list[ColumnElement[Any]] = [marker if marker is not None else self._marker(whole=whole)]
        if self.attached.by_rowid:
            columns += self.order.columns()
        columns += [sa.literal_column(self.stored(name, whole=whole)) for name in self.attached.info.columns]
        return self.source(sa.select(*columns))

    def _marker(self, *, whole: bool) -> ColumnElement[Any]:
        return sa.literal_column(self.marker(cut="" if whole else self.is_long()), sa.Text)

    def source(self, statement: sa.Select[Any]) -> sa.Select[Any]:
        if not self.with_ledger:
            return statement.select_from(self.table)
        joined: Any = self.table
        for mode, attempt in _holding(self.attached.info.dialect).items():
            holding = sa.and_(
                attempt.c.source == sa.bindparam("source", self.attached.found.shown, sa.Text),
                attempt.c.entry_id == sa.literal_column(self.identity),
                attempt.c.mode == sa.literal_column(f"'{mode}'"),
                attempt.c.holds == sa.literal_column("1"),
            )
            joined = joined.outerjoin(attempt, holding)
        return statement.select_from(joined)

    def page(
        self,
        where: Filter,
        stretch: RowRange,
        *,
        descending: bool,
        most: int,
        unsure: bool,
        spelled: Sequence[Spelled] = (),
    ) -> CompiledQuery:
        statement = self.select(whole=False, marker=self._page_marker(where, spelled))
        statement = statement.where(*self.conditions(where, unsure=unsure), *self.spelled(spelled))
        statement = self.order.apply(statement, stretch, descending=descending)
        # Not a parameter: Postgres plans better for a limit it knows.
        return compiled(statement.limit(sa.literal_column(str(int(most)))), on_postgres=self.on_postgres)

    def edge(self, where: Filter, stretch: RowRange, *, descending: bool, most: int) -> CompiledQuery:
        """Selects the key of the last of the next `most` rows; nothing if there are fewer."""
        if self.attached.by_rowid:
            columns = self.order.columns()
        else:
            names = ("dlq_id", "captured_at")
            columns = tuple(sa.literal_column(self.stored(name, whole=True)) for name in names)
        statement = self.source(sa.select(*columns)).where(*self._states(where.states))
        statement = self.order.apply(statement, stretch, descending=descending)
        return compiled(_limited(statement, 1, most - 1), on_postgres=self.on_postgres)

    def rest(self, where: Filter, stretch: RowRange, *, descending: bool, most: int) -> CompiledQuery:
        """Selects how many of the next `most` rows there are."""
        statement = self.source(sa.select(sa.literal_column("1"))).where(*self._states(where.states))
        some = _limited(self.order.apply(statement, stretch, descending=descending), most, 0).subquery()
        return compiled(sa.select(sa.func.count()).select_from(some), on_postgres=self.on_postgres)

    def by_ids(self, *, whole: bool) -> CompiledQuery:
        column = self.order.identity
        if self.on_postgres:
            among = sa.literal_column(column) == sa.func.any(sa.bindparam("ids", type_=sa.ARRAY(sa.Text)))
        else:
            listed = sa.func.json_each(sa.bindparam("ids", type_=sa.Text)).table_valued("value")
            among = sa.literal_column(column).in_(sa.select(listed.c.value))
        return compiled(self.select(whole=whole).where(among), on_postgres=self.on_postgres)

    def mentions(self) -> ColumnElement[bool]:
        """Rows that may name one of the `keys`: by id, by client order id, or as `said` in the action of a market."""
        among = {name: self._listed(name) for name in ("keys", "markets")}
        texts = {name: _column_text(self.attached, name) for name in _NAMING if name in self.attached.info.columns}
        named: list[ColumnElement[bool]] = [sa.literal_column(self.identity).in_(sa.select(among["keys"].c.value))]
        if "client_order_id" in texts:
            named.append(texts["client_order_id"].in_(sa.select(among["keys"].c.value)))
        if "action_json" in texts and "market_id" in texts:
            one = self._listed("said")
            find = sa.func.strpos if self.on_postgres else sa.func.instr
            said = sa.exists(sa.select(sa.literal_column("1")).where(find(texts["action_json"], one.c.value) > 0))
            named.append(sa.and_(texts["market_id"].in_(sa.select(among["markets"].c.value)), said))
        return sa.or_(*named)

    def _listed(self, name: str) -> Any:
        """A parameter that is a list, as a table of texts."""
        if self.on_postgres:
            return sa.func.unnest(sa.bindparam(name, type_=sa.ARRAY(sa.Text))).table_valued("value").render_derived()
        return sa.func.json_each(sa.bindparam(name, type_=sa.Text)).table_valued("value").alias()

    def by_bytes(self) -> CompiledQuery:
        """For SQLite: selects a row by the bytes of its id, which is not plain text."""
        column = f"{self.attached.found.quoted}.dlq_id"
        same = sa.literal_column(f"CAST({column} AS BLOB)") == sa.bindparam("raw", type_=sa.types.NullType())
        return compiled(self.select(whole=True).where(same), on_postgres=False)

    def state(self) -> ColumnElement[Any]:
        return sa.literal_column(self.state_sql, sa.Text)

    def pending(self) -> ColumnElement[bool]:
        return _verbatim(self.pending_sql)

    def dismissed(self) -> ColumnElement[bool]:
        return _verbatim(f"NOT ({self.pending_sql})")

    def conditions(self, where: Filter, *, unsure: bool = False) -> list[ColumnElement[bool]]:
        """What every match fulfils; with `unsure`, only rows of which the database cannot tell."""
        made = row_filter(self.attached, where)
        return [*self._states(where.states), *self._placed(made, made.unsure if unsure else made.may)]

    def spelled(self, found: Sequence[Spelled]) -> list[ColumnElement[Any]]:
        """What an index answers."""
        table = self.attached.found.quoted.replace(":", "\\:")
        made: list[Any] = [sa.text(f"({one.condition(table)})") for one in found]
        return made

    def sure_conditions(self, where: Filter) -> list[ColumnElement[bool]]:
        made = row_filter(self.attached, where)
        return [*self._states(where.states), *self._placed(made, made.surely)]

    def _page_marker(self, where: Filter, spelled: Sequence[Spelled]) -> ColumnElement[Any]:
        made = row_filter(self.attached, where)
        unsure = f"(({' AND '.join(made.surely)}) IS NOT TRUE)" if made.may_be_sure else ""
        unfit = [self._unfit(where), *(holds_more(self.attached, one) for one in spelled)]
        told = self.marker(cut=self.is_long(), unfit=" OR ".join(filter(None, unfit)), unsure=unsure)
        [marker] = self._placed(made, [told], {one.stored_name: "text[]" for one in spelled})
        return marker

    def _placed(
        self, made: FilterSQL, conditions: Sequence[str], also: Mapping[str, str] = MappingProxyType({})
    ) -> list[ColumnElement[Any]]:
        """With named parameters, and `also` more by their types; a colon of the table's own name is none."""
        types = {**{name: kind for name, (_, kind) in made.values.items()}, **also}

        def spell(name: str) -> str:
            return f"CAST(:{name} AS {types[name]})" if self.on_postgres else f":{name}"

        texts = (placed(one.replace(":", "\\:"), spell) for one in conditions)
        found: list[Any] = [sa.text(f"({text})") for text in texts]
        return found

    def _states(self, states: frozenset[State]) -> list[ColumnElement[bool]]:
        if len(states) == 5:
            return []
        return list(map(_verbatim, self.states_sql(states)))

    def _unfit(self, where: Filter) -> str:
        """Evaluated once per query: has a ledger appeared, or was a held entry dismissed?"""
        if not self.with_ledger:
            asked = present_sql if self.unreadable else hinted_sql
            return asked(on_postgres=self.on_postgres)
        return self.stray_sql() if where.states == OPEN_STATES and not self.stray else ""

    def stray_sql(self) -> str:
        """Whether a held entry is dismissed. Starts from the few open attempts, never from the store's table."""
        found = self.attached.found
        return (
            f"(EXISTS (SELECT 1 FROM {self.attempts} o WHERE o.state IN ('submitting', 'in_doubt') AND o.holds = 1 "
            f"AND {self.of_this_source} AND (SELECT count(*) FROM {found.quoted} "
            f"WHERE {self.identity} = o.entry_id AND NOT ({self.pending_sql})) > 0))"
        )


def _limited(statement: Any, most: int, skipped: int) -> Any:
    """Not as parameters: Postgres plans better for a limit it knows."""
    return statement.limit(sa.literal_column(str(int(most)))).offset(sa.literal_column(str(int(skipped))))


def row_filter(attached: Attached, where: Filter) -> FilterSQL:
    table, on_postgres = attached.found.quoted, attached.info.dialect == "postgresql"

    def column(name: str) -> Column:
        return Column(f"{table}.{orders.quoted(name)}", attached.column(name).type)

    return filter_sql(where, roles(orders.NAME, attached.info.columns), column, on_postgres=on_postgres)


def filter_values(made: FilterSQL) -> dict[str, object]:
    return {name: value for name, (value, _) in made.values.items()}


def _column_text(attached: Attached, name: str) -> ColumnElement[Any]:
    column = f"{attached.found.quoted}.{orders.quoted(name)}"
    if attached.info.dialect == "postgresql":
        column = text_value(column, attached.column(name).type)
    return sa.literal_column(column, sa.Text)


def _verbatim(sql: str) -> ColumnElement[bool]:
    """Untyped SQL: for SQLite, SQLAlchemy would compare a boolean with 1, and then no partial index applies."""
    condition: ColumnElement[Any] = sa.literal_column(f"({sql})")
    return condition


@cache
def _holding(dialect: str) -> dict[str, sa.FromClause]:
    """The attempt that holds an entry in each mode; a unique index lets there be one at most."""
    attempt = ledger(dialect).attempt
    return {mode: attempt.alias(f"console_{mode}") for mode in ("live", "paper")}


@cache
def _table(found: Candidate) -> sa.TableClause:
    columns: list[sa.ColumnClause[Any]] = [sa.column(column.name) for column in found.columns]
    return sa.table(found.name, *columns, schema=found.schema)
