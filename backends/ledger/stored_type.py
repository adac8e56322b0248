"""Column types of the ledger in SQLite, which keeps anything in any column: a value of another type is damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from backends.store import Unreachable


class DamagedValue(sqlite3.DatabaseError):
    """The ledger holds what no console wrote there; read as SQLite's own report of a damaged file."""

    sqlite_errorname = "SQLITE_CORRUPT"


def check_types(metadata: sa.MetaData) -> None:
    """Let every column of these tables be checked as it is read."""
    for table in metadata.tables.values():
        for column in table.columns:
            column.type = _checked(column.type)


def required(value: Any) -> Any:
    """The value of a column that is never empty in a ledger that a console wrote."""
    if value is None:
        raise Unreachable("the console's ledger in this store is damaged: restore it from a backup")
    return value


def _checked(kind: sa.types.TypeEngine[Any]) -> sa.types.TypeEngine[Any]:
    for plain, checked in _TYPES.items():
        if isinstance(kind, plain):
            return checked()
    return kind


def _only(*types: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value is not None and not isinstance(value, types):
            raise DamagedValue
        return value

    return check


_text, _number, _amount, _bytes = _only(str), _only(int), _only(int, float), _only(bytes)


class StoredText(sa.Text):
    def result_processor(self, dialect: Any, coltype: Any) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return _text


class StoredInteger(sa.Integer):
    def result_processor(self, dialect: Any, coltype: Any) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return _number


class StoredFloat(sa.Float[float]):
    def result_processor(self, dialect: Any, coltype: Any) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return _amount


class StoredBytes(sa.LargeBinary):
    def result_processor(self, dialect: Any, coltype: Any) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return _bytes


_TYPES: dict[type[sa.types.TypeEngine[Any]], type[sa.types.TypeEngine[Any]]] = {
    sa.Text: StoredText,
    sa.Integer: StoredInteger,
    sa.Float: StoredFloat,
    sa.LargeBinary: StoredBytes,
}
