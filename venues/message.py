"""HTTP headers and replies as the venue clients handle them. Pure; must not know a socket or a venue."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime

from venues.orders import NotSent, Unknown

_LONGEST_WAIT = 86_400.0
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class Headers(Mapping[str, str]):
    """Request headers whose repr shows only names, so that no traceback or log shows a key."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str]) -> None:
        self._items = tuple(items.items())

    def __getitem__(self, name: str) -> str:
        return dict(self._items)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Headers({', '.join(self)})"

    def unsendable(self) -> str | None:
        """Return why these cannot be sent. Checked here, because a library's error would repeat the value."""
        for name, value in self._items:
            if not _HEADER_VALUE.fullmatch(value):
                return f"the value for header {name} is empty or has characters that cannot be sent"
        return None


NO_HEADERS = Headers({})


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer, as it came. Header names are lower-case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def json(self) -> dict[str, object] | None:
        """Return the body as one JSON object with exact numbers; None if it is anything else."""
        try:
            value = json.loads(
                self.body,
                parse_float=Decimal,
                parse_int=Decimal,
                parse_constant=_refuse,
                object_pairs_hook=_unique,
            )
        except (ValueError, ArithmeticError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def date(self) -> datetime | None:
        """Return the time in the Date header."""
        return _http_date(self.headers.get("date", ""))

    def retry_after(self) -> float | None:
        """Return the seconds to wait from Retry-After or X-RateLimit-Reset; None if neither is usable."""
        now = self.date() or datetime.fromtimestamp(time.time(), UTC)
        asked = self.headers.get("retry-after", "")
        if (when := _http_date(asked)) is not None:
            return _sensible((when - now).total_seconds())
        if (seconds := _seconds(asked)) is not None:
            return _sensible(seconds)
        reset = _seconds(self.headers.get("x-ratelimit-reset", ""))
        return None if reset is None else _sensible(reset - now.timestamp())


Result = Reply | NotSent | Unknown


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)


def _refuse(token: str) -> object:
    raise ValueError(token)


def _http_date(text: str) -> datetime | None:
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _sensible(seconds: float) -> float | None:
    return min(max(seconds, 0.0), _LONGEST_WAIT) if math.isfinite(seconds) else None
