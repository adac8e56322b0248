"""The values of an indexed column as they are stored, so that a filter in any case can ask for them by the index.

A database compares in its own case or not by an index. Where few different values are stored, they are read first, from
one to the next by the index, and those that fit are asked for as they are. Runs nothing, no SQLAlchemy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlq_sink.values import is_encodable

from backends.criterion import Criterion
from backends.detect import Attached
from backends.filter_match import text_columns
from backends.layouts import orders
from backends.layouts.roles import roles
from backends.records import Filter
from backends.sql.filter_sql import placeholder
from backends.sql.text.query import CompiledQuery

_MOST = 200  # values of a column that are read for one filter
_FEW = 8  # values that fit; with more an index saves nothing
_FIELDS = frozenset({"venue", "account", "market", "side", "type", "cid"})
_TEXTS = ("text", "character varying")


@dataclass(frozen=True, slots=True)
class Spelled:
    """A column, and the stored values that fit a filter: every match has one of them."""

    number: int  # of the condition in its statement
    column: str
    values: tuple[str, ...]
    stored: tuple[str, ...]  # all that the column held when it was last read

    @property
    def key(self) -> tuple[str, int]:
        """The part that changes the statement and not only its values."""
        return self.column, len(self.values)

    @property
    def named(self) -> dict[str, object]:
        return {f"spelled_{self.number}_{n}": value for n, value in enumerate(self.values)}

    @property
    def stored_name(self) -> str:
        return f"stored_{self.number}"

    def given(self, *, on_postgres: bool) -> dict[str, object]:
        return {**self.named, self.stored_name: list(self.stored) if on_postgres else json.dumps(self.stored)}

    def condition(self, table: str) -> str:
        """With named parameters. One value is compared, as an index then has its rows in their order."""
        names = [f":{name}" for name in self.named]
        if not names:
            return "1=0"
        column = f"{table}.{orders.quoted(self.column)}"
        return f"{column} = {names[0]}" if len(names) == 1 else f"{column} IN ({', '.join(names)})"


def indexed(where: Filter, attached: Attached) -> Iterator[tuple[str, Criterion]]:
    """The criteria that one column decides whose values an index has in their order."""
    role = roles(orders.NAME, attached.info.columns)
    for asked in where.every:
        if asked.field not in _FIELDS or asked.negated or asked.asks_for_nothing:
            continue
        names = text_columns(asked.field, role)
        if len(names) == 1 and names[0] in attached.indexed and _is_text(attached, names[0]):
            yield names[0], asked


def _is_text(attached: Attached, name: str) -> bool:
    declared = attached.column(name).type
    if attached.info.dialect == "postgresql":
        return declared.startswith(_TEXTS) and not declared.endswith("[]")
    return orders.sqlite_affinity(declared) == "text"


def stored_values(attached: Attached, name: str) -> CompiledQuery:
    """Selects each different value once, from one to the next; one more than are of use, if there are that many."""
    return CompiledQuery(f"{_held(attached, name)} SELECT v FROM held WHERE v IS NOT NULL LIMIT {_MOST + 1}", (), {})


def holds_more(attached: Attached, one: Spelled) -> str:
    """A condition, evaluated once a query: the column has a value that it had not when its values were read."""
    unread = "v <> ALL({})" if attached.info.dialect == "postgresql" else "v NOT IN (SELECT value FROM json_each({}))"
    among = unread.format(placeholder(one.stored_name))
    return f"(EXISTS ({_held(attached, one.column)} SELECT 1 FROM held WHERE v IS NOT NULL AND {among}))"


def _held(attached: Attached, name: str) -> str:
    column, table = orders.quoted(name), attached.found.quoted
    return (
        f"WITH RECURSIVE held(v) AS (SELECT min({column}) FROM {table} UNION ALL "
        f"SELECT (SELECT min({column}) FROM {table} WHERE {column} > held.v) FROM held WHERE held.v IS NOT NULL)"
    )


def are_too_many(stored: Sequence[object]) -> bool:
    return len(stored) > _MOST


def fitting(asked: Criterion, stored: Sequence[object]) -> tuple[str, ...] | None:
    """Those that fit; None where the index cannot help."""
    texts = [value for value in stored if isinstance(value, str) and is_encodable(value)]
    if len(texts) < len(stored):
        return None  # bytes may spell a text, too
    found = tuple(value for value in texts if asked.fits_texts((value,)))
    return found if len(found) <= _FEW else None
