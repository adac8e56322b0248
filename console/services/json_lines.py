"""JSON objects on one line each, whose numbers keep the digits they are stored with. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring_ascii

from backends.records import readable


def json_line(pairs: Mapping[str, object]) -> str:
    """One object. Numbers keep the digits they are stored with."""
    return "{" + ", ".join([f"{_key(key)}: {json_value(key, value)}" for key, value in pairs.items()]) + "}"


_key = lru_cache(maxsize=256)(json.dumps)  # every row of a list has the same keys


def json_value(key: str, value: object) -> str:
    match value:
        case str():
            return encode_basestring_ascii(readable(value))  # what json.dumps does, in half the time
        case None | True | False:
            return json.dumps(value)
        case int() if key == "dismissed" and value in (0, 1):
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else json.dumps(str(value))
        case Decimal():
            return readable(value) if value.is_finite() else json.dumps(str(value))
        case datetime():
            return json.dumps(value.isoformat())
        case bytes():
            return json.dumps(readable(value))
        case Mapping():
            return json_line(value)
        case list() | tuple():
            return "[" + ", ".join(json_value(key, one) for one in value) + "]"
        case _:
            return json.dumps(value, default=readable)
