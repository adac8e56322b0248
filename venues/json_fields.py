"""Reads and writes JSON: fields of a venue's answer, an entry's action document, request bodies.

A missing field or one of another type reads as empty; a document with a fault raises DocumentError. Must not
know a venue.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import cast

Body = Mapping[str, object]


def text(body: Body | None, name: str) -> str:
    value = (body or {}).get(name)
    return value if isinstance(value, str) else ""


def inner(body: Body | None, name: str) -> Body:
    value = (body or {}).get(name)
    return cast("Body", value) if isinstance(value, dict) else {}


def flag(body: Body | None, name: str) -> bool | None:
    value = (body or {}).get(name)
    return value if isinstance(value, bool) else None


def figure(body: Body | None, *names: str) -> Decimal | None:
    """Return the first of these fields that holds a finite number, as a number or as a string."""
    for name in names:
        value = (body or {}).get(name)
        if isinstance(value, Decimal | str):
            try:
                number = Decimal(value)
            except InvalidOperation:
                continue
            if number.is_finite():
                return number
    return None


def moment(body: Body | None, *names: str) -> datetime | None:
    """Return the first of these fields that holds an ISO time with its zone."""
    for name in names:
        try:
            at = datetime.fromisoformat(text(body, name))
        except ValueError:
            continue
        if at.tzinfo is not None:
            return at
    return None


def unix_moment(body: Body | None, name: str, *, per_second: int = 1) -> datetime | None:
    """Return the time in a field that counts seconds, or parts of one, since 1970."""
    number = figure(body, name)
    if number is None or number <= 0:
        return None
    try:
        return datetime.fromtimestamp(float(number / per_second), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def compact(value: object) -> bytes:
    """Return the JSON bytes without white space, as requests carry them."""
    return json.dumps(value, separators=(",", ":")).encode()


MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
_LONGEST_INT = 40
_SHOWN = 60
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 128
_MOST_DIGITS = 38
_MAGNITUDE = 30  # powers of ten; larger numbers are no order and would fill the screen


class DocumentError(ValueError):
    """A fault in a document. Programs match `code`, people read `text`."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def read_document(text: str | None) -> dict[str, object]:
    if text is None:
        return {}
    if not isinstance(text, str):  # SQLite returns bytes if bytes were stored, whatever the column's type
        raise DocumentError("bad-json", "the action is stored as bytes, not as text")
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise DocumentError("too-long", f"the action JSON is longer than {MAX_BYTES} bytes")
    if not text.strip():
        return {}
    try:
        document = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_float=exact,
            parse_int=lambda token: int(token) if len(token) <= _LONGEST_INT else Decimal(token),
            parse_constant=_not_finite,
        )
    except DocumentError:
        raise
    except RecursionError:
        raise DocumentError("too-deep", f"the action JSON is nested deeper than {MAX_DEPTH}") from None
    except ValueError as error:
        raise DocumentError("bad-json", f"the action is not JSON: {str(error)[:80]}") from None
    if not isinstance(document, dict):
        raise DocumentError("not-object", "the action JSON is not an object")
    if _is_deep(document):
        raise DocumentError("too-deep", f"the action JSON is nested deeper than {MAX_DEPTH}")
    return document


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    seen: dict[str, object] = {}
    for key, value in pairs:
        if key in seen:
            raise DocumentError("duplicate-key", f"{shown(key)} is in the JSON twice")
        seen[key] = value
    return seen


def exact(token: str) -> Decimal:
    try:
        return Decimal(token)
    except InvalidOperation:
        raise DocumentError("out-of-range", f"{shown(token)} is not an order's number") from None


def as_number(value: object) -> Decimal | None:
    """Return an order's number, exactly; None for null. Raises DocumentError."""
    match value:
        case None:
            return None
        case bool():
            raise DocumentError("bad-number", f"{value} is not a number")
        case int() | Decimal():
            number = Decimal(value)
        case float():
            number = Decimal(repr(value))
        case str() if len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value):
            number = exact(value)
        case _:
            raise DocumentError("bad-number", f"{shown(value)} is not a number")
    if not number.is_finite():
        raise DocumentError("not-finite", f"{number} is not a number that can be ordered")
    if number and (abs(number.adjusted()) > _MAGNITUDE or len(number.as_tuple().digits) > _MOST_DIGITS):
        raise DocumentError("out-of-range", "more digits than an order's number has")
    return number if number else Decimal(0)


def _not_finite(token: str) -> object:
    raise DocumentError("not-finite", f"{token} is in the JSON")


def _is_deep(document: object) -> bool:
    level, depth = [document], 0
    while level:
        depth += 1
        nested = [value for value in level if isinstance(value, dict | list)]
        level = [child for value in nested for child in (value.values() if isinstance(value, dict) else value)]
        if nested and depth > MAX_DEPTH:
            return True
    return False


def shown(value: object) -> str:
    """Return any value in a few ASCII characters."""
    if isinstance(value, int) and value.bit_length() > _SHOWN * 4:
        return "a very long number"
    text = format(value, "f") if isinstance(value, Decimal) and abs(value.adjusted()) < _SHOWN else ascii(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
