"""A Core statement compiled once: its text and the order of its values, for the driver itself to run.

A page is asked for at every key press; building and caching it anew costs more than the store needs to answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.url import make_url


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    text: str
    names: tuple[str, ...]  # of the values, in their order
    own: Mapping[str, object]  # values that the statement itself brought along

    def values(self, given: Mapping[str, object]) -> list[object]:
        return [given[name] if name in given else self.own[name] for name in self.names]


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A statement that is run again and again within transactions, and its text for a driver that takes it at once."""

    statement: sa.Executable
    query: CompiledQuery
    columns: tuple[str, ...]  # of what it selects

    @classmethod
    def of(cls, statement: Any, *, on_postgres: bool) -> PreparedQuery:
        selected = statement.selected_columns if isinstance(statement, sa.Select) else ()
        names = tuple(str(column.key) for column in selected)
        return cls(statement, compiled(statement, on_postgres=on_postgres), names)


def compiled(statement: Any, *, on_postgres: bool) -> CompiledQuery:
    made = statement.compile(dialect=_dialect(on_postgres=on_postgres))
    own = {name: bind.value for name, bind in made.binds.items() if not bind.required}
    return CompiledQuery(str(made), tuple(made.positiontup or ()), own)


@cache
def _dialect(*, on_postgres: bool) -> sa.Dialect:
    return make_url("postgresql+asyncpg://" if on_postgres else "sqlite+aiosqlite://").get_dialect()()
