"""How a Postgres column of any type is read: as stored, as text, as a moment. Makes SQL, runs none."""

from __future__ import annotations

from datetime import datetime

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


def stored_value(column: str, declared: str, *, as_text: bool) -> str:
    """The value in a type the driver reads without loss; with `as_text`, times as the server spells them."""
    if declared.startswith(_TEXT_TYPES):
        return column
    if declared == "real":  # as a double it would show digits that were never stored
        return f"CAST(CAST({column} AS text) AS numeric)"
    plain = PLAIN_TYPES if as_text else (*PLAIN_TYPES, *TIME_TYPES)
    return column if declared.startswith(plain) and not declared.endswith("[]") else f"CAST({column} AS text)"


def text_value(column: str, declared: str) -> str:
    return column if declared.startswith(("text", "character varying")) else f"CAST({column} AS text)"


def moment(column: str, declared: str) -> str:
    """The moment as a time; NULL if a column of text holds none."""
    if declared.startswith(TIME_TYPES):
        return column
    text = f"CAST({column} AS text)"
    first_of_month = f"substr({text}, 1, 7) || '-01' || substr({text}, 11)"
    return (
        f"CASE WHEN {text} ~ '{_SPELLED}' THEN CAST({first_of_month} AS timestamptz) "
        f"+ (CAST(substr({text}, 9, 2) AS integer) - 1) * interval '1 day' END"
    )
