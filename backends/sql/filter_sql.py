"""A filter as SQL: which rows it means, and the values it asks with. Pure; runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from backends.detect import Attached
from backends.layouts import orders
from backends.records import Filter
from backends.values import is_encodable, to_bytes

ESCAPE = "!"  # a backslash would mean different things to different servers


def like(term: str) -> str:
    return "%" + re.sub(f"([%_{ESCAPE}])", rf"{ESCAPE}\1", term) + "%"


def is_cased(term: str) -> bool:
    """Has it letters that LIKE may not know the other case of?"""
    return not term.isascii() and any(len(_cases(char)) > 1 for char in term if not char.isascii())


def glob(term: str) -> str:
    return "*" + "".join(_class(char) or (f"[{char}]" if char in "*?[" else char) for char in term) + "*"


def regex(term: str) -> str:
    return "".join(_class(char) or (f"\\{char}" if char in r".^$*+?()[]{}|\\" else char) for char in term)


def _class(char: str) -> str:
    cases = _cases(char)
    return f"[{cases}]" if len(cases) > 1 else ""


def _cases(char: str) -> str:
    """ß and its like have no other case of one character."""
    return "".join(dict.fromkeys(case for case in (char, char.lower(), char.upper()) if len(case) == 1))


_Way = Literal["bytes", "cases", "like"]
_FIELDS = {
    "venue": "venue_name",
    "account": "account_id",
    "market": "market_id",
    "side": "side",
    "reason": "failure_reason",  # which no order has
}
# The day is added apart, so that a 30th of February is a later day and not an error of the whole query.
_SPELLED = (
    r"^[1-9]\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6}\d*)?)?"
    r"(Z|[+-](0\d|1[0-5])(:?[0-5]\d)?)?$"
)


def answerable(where: Filter, attached: Attached) -> Filter | None:
    """The filter as this store can be asked it; None where nothing in it could match."""
    if attached.info.dialect == "sqlite":
        return where
    asked = (*(getattr(where, field) or "" for field in _FIELDS), *where.terms)
    if not all(_holdable(text) for text in asked):
        return None
    if all(_holdable(text) for text in where.without):
        return where
    return replace(where, without=tuple(filter(_holdable, where.without)))


def _holdable(text: str) -> bool:
    return "\0" not in text and is_encodable(text)


def key(where: Filter) -> tuple[object, ...]:
    """What of a filter changes the statement rather than its values."""
    given = tuple(field for field in _FIELDS if getattr(where, field) is not None)
    terms, without = (tuple(map(_way, listed)) for listed in (where.terms, where.without))
    return (where.states, given, bool(where.since), bool(where.until), terms, without)


def values(where: Filter, *, on_postgres: bool) -> dict[str, object]:
    given: dict[str, object] = {}
    for field in _FIELDS:
        if (value := getattr(where, field)) is not None:
            given[field] = _text(value)
    for name, moment in (("since", where.since), ("until", where.until)):
        if moment is not None:
            given[name] = moment if on_postgres else moment.astimezone(UTC).isoformat()
    for name, terms in (("term", where.terms), ("without", where.without)):
        given |= {f"{name}_{n}": _text(_sought(term, on_postgres)) for n, term in enumerate(terms)}
    return given


def _text(value: str) -> str | bytes:
    """SQLite takes what is not Unicode as its bytes, cast to text; Postgres never gets such a value."""
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
    """All but the states."""
    there = attached.info.columns
    for field, name in _FIELDS.items():
        if getattr(where, field) is not None:
            yield _column(attached, name) == _asked(field, attached) if name in there else sa.false()
    for name, moment in (("since", where.since), ("until", where.until)):
        if moment is not None:
            yield _moment(attached, name)
    for n, term in enumerate(where.terms):
        yield _contains(attached, f"term_{n}", _way(term))
    for n, term in enumerate(where.without):
        yield sa.not_(_contains(attached, f"without_{n}", _way(term)))


def _column(attached: Attached, name: str) -> ColumnElement[Any]:
    quoted = f"{attached.found.quoted}.{orders.quoted(name)}"
    declared = attached.column(name).type
    if attached.info.dialect == "postgresql" and not declared.startswith(("text", "character varying")):
        quoted = f"CAST({quoted} AS text)"
    return sa.literal_column(quoted, sa.Text)


def _asked(name: str, attached: Attached) -> ColumnElement[Any]:
    if attached.info.dialect == "postgresql":
        return sa.bindparam(name, type_=sa.Text)
    return sa.cast(sa.bindparam(name, type_=sa.types.NullType()), sa.Text)


def _moment(attached: Attached, name: str) -> ColumnElement[bool]:
    """A time without a zone counts as UTC; what is no time at all lies in no span."""
    column = f"{attached.found.quoted}.captured_at"
    here: ColumnElement[Any]
    limit: ColumnElement[Any]
    if attached.info.dialect == "sqlite":
        stored: ColumnElement[Any] = sa.literal_column(column)
        here = sa.func.coalesce(sa.func.julianday(stored), sa.func.dlq_julianday(stored))
        limit = sa.func.julianday(sa.bindparam(name, type_=sa.Text))
    else:
        declared = attached.column("captured_at").type
        if not declared.startswith(("timestamp", "date")):
            text = f"CAST({column} AS text)"
            spelled = f"substr({text}, 1, 7) || '-01' || substr({text}, 11)"
            column = (
                f"CASE WHEN {text} ~ '{_SPELLED}' THEN CAST({spelled} AS timestamptz) "
                f"+ (CAST(substr({text}, 9, 2) AS integer) - 1) * interval '1 day' END"
            )
        here = sa.literal_column(f"({column})")
        limit = sa.bindparam(name, type_=sa.TIMESTAMP(timezone=True))
    return here >= limit if name == "since" else here < limit


def _contains(attached: Attached, name: str, way: _Way) -> ColumnElement[bool]:
    pattern = _asked(name, attached)
    texts = [
        sa.func.coalesce(_column(attached, column), sa.literal_column("''"))
        for column in orders.SEARCHED
        if column in attached.info.columns
    ]
    if way == "bytes":  # SQLite's LIKE ends at NUL; bytes do not
        part = sa.cast(pattern, sa.BLOB)
        return sa.or_(*(sa.func.instr(sa.cast(text, sa.BLOB), part) > sa.literal_column("0") for text in texts))
    on_postgres = attached.info.dialect == "postgresql"
    if way == "cases":
        return sa.or_(*(text.bool_op("~" if on_postgres else "GLOB")(pattern) for text in texts))
    if on_postgres:
        return sa.or_(*(text.ilike(pattern, escape=ESCAPE) for text in texts))
    return sa.or_(*(text.like(pattern, escape=ESCAPE) for text in texts))
