"""SELECTs over the order layout: columns, states and order of rows; and turning rows into entries. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from backends.detect import Attached, Candidate
from backends.layouts import orders
from backends.layouts.roles import roles
from backends.ledger.schema import HELD, ledger, shown_state
from backends.records import CLIP, OPEN_STATES, Entry, Filter, RowKey, State, parse_time, readable
from backends.sql.connection import CompiledQuery, compiled
from backends.sql.filter_sql import Column, FilterSQL, filter_sql, placed
from backends.sql.ledger_access import present_sql
from backends.sql.postgres_columns import EQ, INFINITE, PLAIN_TYPES, TIME_TYPES, spelled, stored_value, text_value
from backends.values import is_encodable, to_bytes

Part = Literal["all", "dated", "undated"]
_TEXT = ("text", "character varying", "varchar")


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

    def columns(self) -> tuple[ColumnElement[Any], ...]:
        quoted = self.attached.found.quoted
        if self.attached.by_rowid:
            return (sa.literal_column(f"{quoted}._rowid_"),)
        identity = self.identity
        if not self.attached.column("dlq_id").not_null:
            identity = f"coalesce({identity}, '')"
        return (sa.literal_column(f"{quoted}.captured_at"), sa.literal_column(identity))

    @property
    def identity(self) -> str:
        """The id as text; Postgres would not compare a column of another type with text."""
        column = f"{self.attached.found.quoted}.dlq_id"
        declared = self.attached.column("dlq_id").type
        return column if not self._on_postgres or declared.startswith(_TEXT) else spelled(column, declared)

    def stretches(self, behind: RowKey | None, *, descending: bool) -> list[RowRange]:
        if self.attached.by_rowid or self.attached.column("captured_at").not_null:
            return [RowRange("all", behind)]
        parts: list[Part] = ["undated", "dated"] if descending else ["dated", "undated"]
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

    def placer(self) -> Callable[[Sequence[Any]], RowKey]:
        """A function from a row's values to its row key; the values begin with dlq_id and captured_at."""
        if not self._on_postgres:
            return lambda values: (values[1], "" if values[0] is None else values[0])
        zoned = self.attached.column("captured_at").type.startswith("timestamp with time zone")

        def place(values: Sequence[Any]) -> RowKey:
            identity, captured = values[0], values[1]
            if captured is not None and not (zoned and type(captured) is datetime):
                captured = readable(captured)
            return (captured, identity if type(identity) is str else "" if identity is None else str(identity))

        return place


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
_UNCUT = frozenset({"dlq_id", "retry_count", "dismissed"})


@dataclass(frozen=True, slots=True)
class OrderSelect:
    """The SELECTs over one attached table."""

    attached: Attached
    with_ledger: bool
    stray: bool = False  # an entry in flight or in doubt was dismissed behind our back, and must still show
    as_text: bool = False  # read times as text, as some do not fit Python's types

    @property
    def on_postgres(self) -> bool:
        return self.attached.info.dialect == "postgresql"

    @property
    def table(self) -> sa.TableClause:
        return _table(self.attached.found)

    @property
    def order(self) -> RowOrder:
        return RowOrder(self.attached)

    def select(self, *, whole: bool, unfit: ColumnElement[Any] | None = None) -> sa.Select[Any]:
        """Selects state, whether a value is cut, whether the shape is outdated, the rowid if any, then all columns."""
        columns: list[ColumnElement[Any]] = [self.state()]
        columns.append(sa.literal_column("false" if whole else self._is_long()))
        columns.append(unfit if unfit is not None else sa.literal_column("0"))
        if self.attached.by_rowid:
            columns += self.order.columns()
        columns += [sa.literal_column(self._stored(name, whole=whole)) for name in self.attached.info.columns]
        return self.source(sa.select(*columns))

    def source(self, statement: sa.Select[Any]) -> sa.Select[Any]:
        if not self.with_ledger:
            return statement.select_from(self.table)
        joined: Any = self.table
        for mode, attempt in _holding(self.attached.info.dialect).items():
            holding = sa.and_(
                attempt.c.source == sa.bindparam("source", self.attached.found.shown, sa.Text),
                attempt.c.entry_id == sa.literal_column(self.order.identity),
                attempt.c.mode == sa.literal_column(f"'{mode}'"),
                attempt.c.holds == sa.literal_column("1"),
            )
            joined = joined.outerjoin(attempt, holding)
        return statement.select_from(joined)

    def page(self, where: Filter, stretch: RowRange, *, descending: bool, most: int, unsure: bool) -> CompiledQuery:
        statement = self.select(whole=False, unfit=self._unfit(where)).where(*self.conditions(where, unsure=unsure))
        statement = self.order.apply(statement, stretch, descending=descending)
        # Not a parameter: Postgres plans better for a limit it knows.
        return compiled(statement.limit(sa.literal_column(str(int(most)))), on_postgres=self.on_postgres)

    def edge(self, where: Filter, stretch: RowRange, *, descending: bool, most: int) -> CompiledQuery:
        """Selects the key of the last of the next `most` rows; nothing if there are fewer."""
        if self.attached.by_rowid:
            columns = self.order.columns()
        else:
            names = ("dlq_id", "captured_at")
            columns = tuple(sa.literal_column(self._stored(name, whole=True)) for name in names)
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
        named: list[ColumnElement[bool]] = [
            sa.literal_column(self.order.identity).in_(sa.select(among["keys"].c.value))
        ]
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

    def reader(self) -> Callable[[Sequence[Any]], Entry]:
        """A function from a row to an entry. Decides everything that is the same for all rows once."""
        names, by_rowid, place_of = self.attached.info.columns, self.attached.by_rowid, self.order.placer()
        counted = "retry_count" in names
        layout, first = orders.NAME, 4 if by_rowid else 3

        respell = self.as_text and self.attached.column("captured_at").type.startswith("timestamp with time zone")

        def read(row: Sequence[Any]) -> Entry:
            values = tuple(row[first:])
            if respell:
                values = (values[0], parse_time(values[1]) or values[1], *values[2:])
            place = (row[3],) if by_rowid else place_of(values)
            version = values[-3:-1] if counted else values[-2:-1]
            identity, captured = values[0], values[1]
            if type(identity) is not str or not is_encodable(identity):
                identity = _spelled(identity)
            if type(captured) is datetime and captured.tzinfo is None and captured in INFINITE:
                values = (values[0], INFINITE[captured], *values[2:])
            return Entry(layout, identity, shown_state(row[0]), version, place, names, values, bool(row[1]))

        return read

    def state(self) -> ColumnElement[Any]:
        if not self.with_ledger:
            return sa.literal_column(f"CASE WHEN {self.pending_sql} THEN 'pending' ELSE 'dismissed' END", sa.Text)
        # What is under way or in doubt comes first. An entry accepted in paper only is open again once its row is.
        return sa.literal_column(
            f"CASE WHEN {_LIVE} IS NULL AND {_PAPER} IS NULL "
            f"THEN CASE WHEN {self.pending_sql} THEN 'pending' ELSE 'dismissed' END "
            f"WHEN {_LIVE} = 'submitting' OR {_PAPER} = 'submitting' THEN 'submitting' "
            f"WHEN {_LIVE} <> 'accepted' THEN {_LIVE} WHEN {_PAPER} <> 'accepted' THEN {_PAPER} "
            f"WHEN {_LIVE} = 'accepted' OR NOT ({self.pending_sql}) THEN 'accepted' ELSE 'pending' END",
            sa.Text,
        )

    @property
    def pending_sql(self) -> str:
        """Not dismissed, written so that the store's partial index applies."""
        column = self.attached.column("dismissed")
        quoted = f"{self.attached.found.quoted}.dismissed"
        if self.on_postgres and column.type.startswith("bool"):
            return f"NOT {quoted}" if column.not_null else f"{quoted} IS NOT TRUE"
        is_zero = f"{quoted} {EQ} 0" if self.on_postgres else f"{quoted} = 0"
        return is_zero if column.not_null else f"({is_zero} OR {quoted} IS NULL)"

    def pending(self) -> ColumnElement[bool]:
        return _verbatim(self.pending_sql)

    def dismissed(self) -> ColumnElement[bool]:
        return _verbatim(f"NOT ({self.pending_sql})")

    def conditions(self, where: Filter, *, unsure: bool = False) -> list[ColumnElement[bool]]:
        """What every match fulfils; with `unsure`, only rows of which the database cannot tell."""
        made = row_filter(self.attached, where)
        return [*self._states(where.states), *self._placed(made, made.unsure if unsure else made.may)]

    def sure_conditions(self, where: Filter) -> list[ColumnElement[bool]]:
        made = row_filter(self.attached, where)
        return [*self._states(where.states), *self._placed(made, made.surely)]

    def _placed(self, made: FilterSQL, conditions: Sequence[str]) -> list[ColumnElement[Any]]:
        """With named parameters; a colon of the table's own name is none."""

        def spell(name: str) -> str:
            return f"CAST(:{name} AS {made.values[name][1]})" if self.on_postgres else f":{name}"

        texts = (placed(one.replace(":", "\\:"), spell) for one in conditions)
        found: list[Any] = [sa.text(f"({text})") for text in texts]
        return found

    def _states(self, states: frozenset[State]) -> list[ColumnElement[bool]]:
        if len(states) == 5:
            return []
        if not self.with_ledger:
            plain: dict[State, ColumnElement[bool]] = {"pending": self.pending(), "dismissed": self.dismissed()}
            return [sa.or_(sa.false(), *(sql for state, sql in plain.items() if state in states))]
        if states == OPEN_STATES and not self.stray:
            return [self.pending(), _mostly(f"({_BOTH_OVER}) IS NOT TRUE")]
        chosen = [sql for state, sql in self._known().items() if state in states]
        held = [ours for ours, shown in HELD.items() if shown in states]
        among = [self._among_held(held)] if held and len(held) == len(states) else []
        return [*among, sa.or_(sa.false(), *chosen)]

    def _known(self) -> dict[State, ColumnElement[bool]]:
        """The condition of each state: the same as `state`, in words that a planner can estimate."""
        free, only_paper = f"{_LIVE} IS NULL AND {_PAPER} IS NULL", f"{_LIVE} IS NULL AND {_PAPER} = 'accepted'"
        doubted = (
            f"({_LIVE} = 'in_doubt' AND ({_PAPER} IS NULL OR {_PAPER} <> 'submitting')) "
            f"OR ({_PAPER} = 'in_doubt' AND ({_LIVE} IS NULL OR {_LIVE} = 'accepted'))"
        )
        over = sa.or_(_verbatim(_BOTH_OVER), sa.and_(_verbatim(only_paper), self.dismissed()))
        return {
            "pending": sa.and_(
                self.pending(), _mostly(f"{_LIVE} IS NULL AND ({_PAPER} IS NULL OR {_PAPER} = 'accepted')")
            ),
            "in_flight": _verbatim(f"{_LIVE} = 'submitting' OR {_PAPER} = 'submitting'"),
            "in_doubt": _verbatim(doubted),
            "replayed": over,
            "dismissed": sa.and_(self.dismissed(), _mostly(free)),
        }

    def _among_held(self, states: Sequence[str]) -> ColumnElement[bool]:
        """Starts from the attempts in these states instead of walking the store's table."""
        listed = ", ".join(f"'{state}'" for state in states)
        held = f"SELECT o.entry_id FROM {self._attempt.fullname} o WHERE o.state IN ({listed}) AND o.holds = 1"
        return _verbatim(f"{self.order.identity} IN ({held} AND {self._of_this_source})")

    def _unfit(self, where: Filter) -> ColumnElement[Any] | None:
        """Evaluated once per query: has a ledger appeared, or was a held entry dismissed?"""
        if not self.with_ledger:
            return sa.literal_column(present_sql(on_postgres=self.on_postgres))
        return sa.literal_column(self.stray_sql()) if where.states == OPEN_STATES and not self.stray else None

    def stray_sql(self) -> str:
        """Whether a held entry is dismissed. Starts from the few open attempts, never from the store's table."""
        attempt, found = self._attempt, self.attached.found
        return (
            f"(EXISTS (SELECT 1 FROM {attempt.fullname} o WHERE o.state IN ('submitting', 'in_doubt') AND o.holds = 1 "
            f"AND {self._of_this_source} AND (SELECT count(*) FROM {found.quoted} "
            f"WHERE {self.order.identity} = o.entry_id AND NOT ({self.pending_sql})) > 0))"
        )

    @property
    def _of_this_source(self) -> str:
        """Without statistics SQLite would walk every attempt of the source; the + makes it use the states' index."""
        source = self.attached.found.shown.replace("'", "''")
        return f"{'o.source' if self.on_postgres else '+o.source'} = '{source}'"

    @property
    def _attempt(self) -> sa.Table:
        return ledger(self.attached.info.dialect).attempt

    def _stored(self, name: str, *, whole: bool) -> str:
        value = self._value(name)
        if whole or not self._may_be_cut(name):
            return value
        return f"CASE WHEN {self._exceeds(name)} THEN substr({value}, 1, {CLIP}) ELSE {value} END"

    def _value(self, name: str) -> str:
        quoted = f"{self.attached.found.quoted}.{orders.quoted(name)}"
        if not self.on_postgres:
            return quoted
        return stored_value(quoted, self.attached.column(name).type, as_text=self.as_text)

    def _exceeds(self, name: str) -> str:
        value = self._value(name)
        if self.on_postgres:
            return f"octet_length({value}) > {CLIP}"
        # length() of a text stops at a NUL; of a blob it is exact and costs nothing. Numbers, which sort before '', are
        # left out, as they would have to be spelled first.
        size = f"length(CAST({value} AS BLOB)) > {CLIP}"
        texty = orders.sqlite_affinity(self.attached.column(name).type) == "text"
        return size if texty else f"({value} >= '' AND {size})"

    def _may_be_cut(self, name: str) -> bool:
        if name in _UNCUT or (name == "captured_at" and not self.attached.by_rowid):
            return False
        declared = self.attached.column(name).type
        return not self.on_postgres or not declared.startswith((*PLAIN_TYPES, *TIME_TYPES, "real"))

    def _is_long(self) -> str:
        cut = [self._exceeds(name) for name in self.attached.info.columns if self._may_be_cut(name)]
        return f"({' OR '.join(cut)})" if cut else "false"


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


_LIVE, _PAPER = "console_live.state", "console_paper.state"
_BOTH_OVER = f"{_LIVE} = 'accepted' AND ({_PAPER} IS NULL OR {_PAPER} = 'accepted')"


@cache
def _holding(dialect: str) -> dict[str, sa.FromClause]:
    """The attempt that holds an entry in each mode; a unique index lets there be one at most."""
    attempt = ledger(dialect).attempt
    return {mode: attempt.alias(f"console_{mode}") for mode in ("live", "paper")}


def _mostly(sql: str) -> ColumnElement[bool]:
    """Holds for most rows, which Postgres would not expect of a joined column that is null."""
    return _verbatim(f"CASE WHEN {sql} THEN 0 ELSE 1 END <> 1")


@cache
def _table(found: Candidate) -> sa.TableClause:
    columns: list[sa.ColumnClause[Any]] = [sa.column(column.name) for column in found.columns]
    return sa.table(found.name, *columns, schema=found.schema)


def _spelled(identity: object) -> str:
    """Spells an id that is not text so that it cannot be confused with one that is."""
    match identity:
        case None:
            return "NULL"
        case bytes():
            return f"x'{identity.hex()}'"
        case _:
            return readable(identity)
