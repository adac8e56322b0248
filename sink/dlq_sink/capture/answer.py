"""The venue's order id in whatever a submit returned: the id itself, or an order that has one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Final
from uuid import UUID

ORDER_IDS: Final = ("venue_order_id", "order_id", "orderId", "orderID", "ordId", "order_no", "orderNo", "id", "oid")


def told(found: object, name: str) -> object:
    value = found.get(name) if isinstance(found, Mapping) else getattr(found, name, None)
    if isinstance(value, Enum):
        value = value.value
    return None if callable(value) else value


def order_id_of(answer: object) -> str:
    """The venue's order id, from the id itself or from the order that the venue answered with."""
    text = _id_in(answer) or _id_in(told(answer, "order"))
    if not text:
        raise RuntimeError("unknown outcome: the venue answered without an order id")
    return text


def _id_in(answer: object) -> str:
    if found := _scalar(answer) or next((text for name in ORDER_IDS if (text := _scalar(told(answer, name)))), ""):
        return found
    # An engine's own type of id says in `__str__` what it is; the text of a record is only its repr.
    is_record = type(answer).__str__ is object.__str__ or hasattr(answer, "model_dump")
    return "" if is_record or answer is None or isinstance(answer, bool | BaseException) else str(answer).strip()


def _scalar(value: object) -> str:
    plain = isinstance(value, str | int | float | Decimal | UUID) and not isinstance(value, bool)
    return str(value).strip() if plain else ""
