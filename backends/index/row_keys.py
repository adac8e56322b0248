"""A place of a store as text and back, so that the index can go on where it stopped. Pure."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal

from backends.records import RowKey, readable


def spell(place: RowKey | None) -> str:
    return json.dumps(None if place is None else [_tagged(value) for value in place])


def unspell(text: str | None) -> RowKey | None:
    parts = json.loads(text) if text else None
    return None if parts is None else tuple(_value(kind, value) for kind, value in parts)


def _tagged(value: object) -> tuple[str, object]:
    match value:
        case None:
            return ("none", None)
        case bool() | int() | str():
            return ("plain", value)
        case float():
            return ("float", value.hex())
        case datetime():
            return ("time", value.isoformat())
        case bytes():
            return ("bytes", value.hex())
        case Decimal():
            return ("decimal", str(value))
        case _:
            return ("plain", readable(value))


def _value(kind: str, value: object) -> object:
    match kind, value:
        case "float", str(text):
            return float.fromhex(text)
        case "time", str(text):
            return datetime.fromisoformat(text)
        case "bytes", str(text):
            return bytes.fromhex(text)
        case "decimal", str(text):
            return Decimal(text)
        case _:
            return value
