"""Reading a venue's JSON answer field by field: what is missing or of another kind is empty. Knows no venue."""

from __future__ import annotations

from collections.abc import Mapping
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
    """The first of these that holds a finite number, as a number or as a string."""
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
