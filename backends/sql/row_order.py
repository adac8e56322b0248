"""Insertion order as SQL: where a row stands, and what lies behind it. Pure; runs nothing.

By rowid on SQLite, else by captured_at and dlq_id. Rows without a captured_at come last: a part of their own,
because one comparison over both parts could not be answered by an index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from backends.detect import Attached
from backends.records import RowKey, readable
from backends.values import is_encodable, to_bytes

Part = Literal["all", "dated", "undated"]
_TEXT = ("text", "character varying", "varchar")


@dataclass(frozen=True, slots=True)
class RowRange:
    """A part of the order, from just behind a place on (or from its beginning)."""

    part: Part
    behind: RowKey | None

    @property
    def key(self) -> tuple[object, ...]:
        """What of it changes the statement rather than its values."""
        return (self.part, None if self.behind is None else tuple(_kind(value) for value in self.behind))

    @property
    def values(self) -> Mapping[str, object]:
        return {f"place_{n}": _bound(value) for n, value in enumerate(self.behind or ())}


def _kind(value: object) -> str:
    return type(value).__name__


def _bound(value: object) -> object:
    """SQLite takes text that is not Unicode as its bytes, cast back."""
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
        """The id as the text it is known by: a column of another type would not be compared with one on Postgres."""
        column = f"{self.attached.found.quoted}.dlq_id"
        plain = not self._on_postgres or self.attached.column("dlq_id").type.startswith(_TEXT)
        return column if plain else f"CAST({column} AS text)"

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
        if stretch.behind is not None:
            there = self._there(stretch.behind)[-len(columns) :]
            here: Any = columns[0] if len(columns) == 1 else sa.tuple_(*columns)
            limit: Any = there[0] if len(columns) == 1 else sa.tuple_(*there)
            statement = statement.where(here < limit if descending else here > limit)
        return statement.order_by(*(column.desc() if descending else column.asc() for column in columns))

    def _there(self, place: RowKey) -> tuple[ColumnElement[Any], ...]:
        if self.attached.by_rowid:
            return (sa.bindparam("place_0", type_=sa.BigInteger),)
        if not self._on_postgres:
            return tuple(_sqlite_value(f"place_{n}", value) for n, value in enumerate(place))
        captured: ColumnElement[Any] = sa.bindparam("place_0", type_=sa.TIMESTAMP(timezone=True))
        if not isinstance(place[0], datetime):
            declared = self.attached.column("captured_at").type
            captured = sa.cast(sa.bindparam("place_0", type_=sa.Text), _Named(declared))
        return (captured, sa.bindparam("place_1", type_=sa.Text))

    def placer(self) -> Callable[[Sequence[Any]], RowKey]:
        """Values of a row → where it stands; the layout begins with dlq_id and captured_at."""
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
    """A type by the name the catalog gave it."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        return self.name
