"""Reads single stored values as text, time or number. Standard library only; knows no record."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal

_ENDLESS = (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))  # how asyncpg returns infinity
_LARGEST_SCALE = 16383  # of a numeric in Postgres
_LONGEST_NUMBER = 64
# A larger exponent would take megabytes to write out.
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_SURROGATE = re.compile("[\ud800-\udfff]")


def readable(value: object) -> str:
    """Any stored value as text, without loss: bytes and undecodable text become escapes."""
    if type(value) is str and value.isascii():
        return value
    match value:
        case str():
            return value if is_encodable(value) else _SURROGATE.sub(_escape, value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).decode("utf-8", "backslashreplace")
        case datetime():
            return value.isoformat()
        case Decimal() if _is_positional(value):
            return format(value, "f")  # as databases spell it: 0.00000012, not 1.2E-7
        case _:
            return str(value)


def storable(text: str) -> str:
    """Text that any store can hold: NUL and what is not Unicode become escapes."""
    return readable(text).replace("\0", "\\x00")


def is_encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_plain(text: str) -> bool:
    """Whether every database takes this text as it is: Unicode without NUL."""
    return "\0" not in text and is_encodable(text)


def to_bytes(text: str) -> bytes:
    """The bytes a database holds for this text, whether or not it is Unicode."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def parse_time(value: object) -> datetime | None:
    """The instant in UTC; None if the value is no time or has no zone."""
    at = _time(value)
    if at is None or at.tzinfo is UTC:
        return at
    if at.utcoffset() is None:
        return None
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return None


def utc_time(value: object) -> datetime | None:
    """The instant in UTC, where a time without a zone counts as UTC; None if the value is no time."""
    at = _time(value)
    if at is not None and at.utcoffset() is None:
        at = at.replace(tzinfo=UTC)
        return None if at in _ENDLESS else at
    return parse_time(at)


def _time(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    return value if isinstance(value, datetime) else None


def number(value: object) -> Decimal | None:
    """The exact number; None if the value is none."""
    if type(value) is float and math.isfinite(value):  # most are
        return Decimal(repr(value))
    match value:
        case bool():
            return None
        case int():
            return Decimal(value)
        case float() if math.isfinite(value):
            return Decimal(repr(value))
        case Decimal() if value.is_finite():
            return value
        case str() if len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value):
            return Decimal(value)
        case _:
            return None


def _is_positional(value: Decimal) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and -_LARGEST_SCALE <= exponent <= 0


def is_naive(text: str) -> bool:
    at = _time(text)
    return at is not None and at.utcoffset() is None
