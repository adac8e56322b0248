"""How a Postgres column of any type is read: as stored, as text, as a moment. Makes SQL, runs none."""

from __future__ import annotations

from datetime import datetime

# For statements that run under the role's own search_path: nobody's operator can stand in for the server's.
EQ, PLUS, JOINED = "OPERATOR(pg_catalog.=)", "OPERATOR(pg_catalog.+)", "OPERATOR(pg_catalog.||)"
_OF_THE_GRAMMAR = (
    "bigint", "integer", "smallint", "boolean", "numeric", "real", "double precision", "character", "timestamp",
    "time", "interval", "bit",
)  # fmt: skip
PLAIN_TYPES = ("boolean", "smallint", "integer", "bigint", "numeric", "double precision", "bytea")
TIME_TYPES = ("timestamp", "date")
_TEXT_TYPES = ("text", "character varying", "character(")
INFINITE = {datetime.max: "infinity", datetime.min: "-infinity"}  # noqa: DTZ901 - asyncpg returns them without a zone
# A moment written as text. The day is added to the first of its month, so that a 30th of February becomes a later day
# instead of failing the whole query.
_SPELLED = (
    r"^[1-9]\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6}\d*)?)?"
    r"(Z|[+-](0\d|1[0-5])(:?[0-5]\d)?)?$"
)


def type_name(declared: str) -> str:
    """A type as the catalog spells it, so that no search_path can give the name to another type."""
    return declared if "." in declared or declared.startswith(_OF_THE_GRAMMAR) else f"pg_catalog.{declared}"


def spelled(column: str, declared: str) -> str:
    """The column's text. Of a type that somebody made, by its output function: a cast may run its maker's function."""
    if "." in declared:
        return f"CASE WHEN pg_catalog.num_nulls({column}) {EQ} 0 THEN pg_catalog.concat({column}) END"
    return f"CAST({column} AS pg_catalog.text)"


def stored_value(column: str, declared: str, *, as_text: bool) -> str:
    """The value in a type the driver reads without loss; with `as_text`, times as the server spells them."""
    if declared.startswith(_TEXT_TYPES):
        return column
    if declared == "real":  # as a double it would show digits that were never stored
        return f"CAST({spelled(column, declared)} AS numeric)"
    plain = PLAIN_TYPES if as_text else (*PLAIN_TYPES, *TIME_TYPES)
    return column if declared.startswith(plain) and not declared.endswith("[]") else spelled(column, declared)


def text_value(column: str, declared: str) -> str:
    return column if declared.startswith(("text", "character varying")) else spelled(column, declared)


def moment(column: str, declared: str) -> str:
    """The moment as a time; NULL if a column of text holds none."""
    if declared.startswith(TIME_TYPES):
        return column
    text = spelled(column, declared)
    first_of_month = f"substr({text}, 1, 7) || '-01' || substr({text}, 11)"
    return (
        f"CASE WHEN {text} ~ '{_SPELLED}' THEN CAST({first_of_month} AS timestamptz) "
        f"+ (CAST(substr({text}, 9, 2) AS integer) - 1) * interval '1 day' END"
    )
