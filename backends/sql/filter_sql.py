"""Turns a filter into SQL over the order layout, and terms into patterns for every layout. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from backends.detect import Attached
from backends.filter_meaning import Bound, Condition, Contains, Equals, conditions
from backends.layouts import orders
from backends.layouts.roles import roles
from backends.records import Filter
from backends.sql.postgres_columns import moment, text_value
from backends.values import is_encodable, is_plain, to_bytes

ESCAPE = "!"  # servers treat a backslash in different ways


def like(term: str) -> str:
    return "%" + re.sub(f"([%_{ESCAPE}])", rf"{ESCAPE}\1", term) + "%"


def is_cased(term: str) -> bool:
    """Whether the term has letters whose other case LIKE may not know."""
    return not term.isascii() and any(len(_cases(char)) > 1 for char in term if not char.isascii())


def glob(term: str) -> str:
    return "*" + "".join(_class(char) or (f"[{char}]" if char in "*?[" else char) for char in term) + "*"


def regex(term: str) -> str:
    return "".join(_class(char) or (f"\\{char}" if char in r".^$*+?()[]{}|\\" else char) for char in term)


def _class(char: str) -> str:
    cases = _cases(char)
    return f"[{cases}]" if len(cases) > 1 else ""


def _cases(char: str) -> str:
    """The character in both cases; ß, for one, has no other case of one character."""
    return "".join(dict.fromkeys(case for case in (char, char.lower(), char.upper()) if len(case) == 1))


_Way = Literal["bytes", "cases", "like"]
END_OF_TIME, START_OF_TIME = "'infinity'", "'-infinity'"  # outside every span, so that an infinite time lies in none


def answerable(where: Filter, attached: Attached) -> Filter | None:
    """The filter without what this database cannot hold; None if nothing could match."""
    if attached.info.dialect == "sqlite":
        return where
    for asked in _conditions(where, attached):
        match asked:
            case Equals(text=text) | Contains(term=text, negated=False) if not is_plain(text):
                return None
            case _:
                pass
    if all(is_plain(text) for text in where.without):
        return where
    return replace(where, without=tuple(filter(is_plain, where.without)))


def _conditions(where: Filter, attached: Attached) -> Iterator[Condition]:
    return conditions(where, roles(attached.info.layout, attached.info.columns))


def key(where: Filter, attached: Attached) -> tuple[object, ...]:
    """The part of a filter that changes the statement and not only its values."""
    asked = _conditions(where, attached)
    return (where.states, *((one.name, _way(one.term) if isinstance(one, Contains) else None) for one in asked))


def values(where: Filter, attached: Attached) -> dict[str, object]:
    on_postgres = attached.info.dialect == "postgresql"
    given: dict[str, object] = {}
    for asked in _conditions(where, attached):
        match asked:
            case Equals():
                given[asked.name] = _text(asked.text)
            case Bound():
                given[asked.name] = asked.limit if on_postgres else asked.limit.astimezone(UTC).isoformat()
            case Contains():
                given[asked.name] = _text(_sought(asked.term, on_postgres))
    return given


def _text(value: str) -> str | bytes:
    """SQLite takes text that is not Unicode as bytes, cast to text; Postgres never gets such a value."""
    return value if is_encodable(value) else to_bytes(value)


def _way(term: str) -> _Way:
    if "\0" in term:
        return "bytes"
    return "cases" if is_cased(term) else "like"


def _sought(term: str, on_postgres: bool) -> str:
    match _way(term):
        case "bytes":
            return term
        case "cases":
            return regex(term) if on_postgres else glob(term)
        case "like":
            return like(term)


def matching(where: Filter, attached: Attached) -> Iterator[ColumnElement[bool]]:
    """Everything but the states."""
    for asked in _conditions(where, attached):
        match asked:
            case Equals():
                choices = [column_text(attached, name) == _asked(asked.name, attached) for name in asked.columns]
                yield sa.or_(*choices) if choices else sa.false()
            case Bound():
                yield _within(attached, asked)
            case Contains():
                contains = _contains(attached, asked)
                yield sa.not_(contains) if asked.negated else contains


def column_text(attached: Attached, name: str) -> ColumnElement[Any]:
    column = f"{attached.found.quoted}.{orders.quoted(name)}"
    if attached.info.dialect == "postgresql":
        column = text_value(column, attached.column(name).type)
    return sa.literal_column(column, sa.Text)


def _asked(name: str, attached: Attached) -> ColumnElement[Any]:
    if attached.info.dialect == "postgresql":
        return sa.bindparam(name, type_=sa.Text)
    return sa.cast(sa.bindparam(name, type_=sa.types.NullType()), sa.Text)


def _within(attached: Attached, asked: Bound) -> ColumnElement[bool]:
    column = f"{attached.found.quoted}.{orders.quoted(asked.column)}"
    if attached.info.dialect == "postgresql":
        limit = sa.bindparam(asked.name, type_=sa.TIMESTAMP(timezone=True))
        at: ColumnElement[Any] = sa.literal_column(f"({moment(column, attached.column(asked.column).type)})")
        if asked.is_lower:
            return sa.and_(at >= limit, at < sa.literal_column(END_OF_TIME))
        return sa.and_(at < limit, at > sa.literal_column(START_OF_TIME))
    stored: ColumnElement[Any] = sa.literal_column(column)
    here = sa.func.coalesce(sa.func.julianday(stored), sa.func.dlq_julianday(stored))
    there = sa.func.julianday(sa.bindparam(asked.name, type_=sa.Text))
    return here >= there if asked.is_lower else here < there


def _contains(attached: Attached, asked: Contains) -> ColumnElement[bool]:
    pattern, way = _asked(asked.name, attached), _way(asked.term)
    texts = [sa.func.coalesce(column_text(attached, name), sa.literal_column("''")) for name in asked.columns]
    if way == "bytes":  # SQLite's LIKE stops at a NUL; instr over bytes does not
        part = sa.cast(pattern, sa.BLOB)
        return sa.or_(*(sa.func.instr(sa.cast(text, sa.BLOB), part) > sa.literal_column("0") for text in texts))
    on_postgres = attached.info.dialect == "postgresql"
    if way == "cases":
        return sa.or_(*(text.bool_op("~" if on_postgres else "GLOB")(pattern) for text in texts))
    if on_postgres:
        return sa.or_(*(text.ilike(pattern, escape=ESCAPE) for text in texts))
    return sa.or_(*(text.like(pattern, escape=ESCAPE) for text in texts))
