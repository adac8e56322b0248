"""Secrets of one venue and mode, as something that cannot be printed, copied or stored.

Handed in, never looked up here; knows no keyring, file or environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from venues.client import BadCredentials

HEX_KEY = re.compile(r"(?:0x)?[0-9a-fA-F]{64}")
HEX_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


def _kept(mapping: Mapping[str, str]) -> Callable[[str], str | None]:
    """A closure instead of an attribute: `vars`, slots and pretty printers find nothing to show."""
    values = dict(mapping)
    return values.get


class Credentials:
    """Named secret fields. `reveal` is the only way to a value; use it in the expression that sends it."""

    __slots__ = ("_fields", "_value")

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._fields = tuple(mapping)
        self._value = _kept(mapping)

    def fields(self) -> tuple[str, ...]:
        return self._fields

    def reveal(self, field: str) -> str:
        if self._usable(field):
            return self._value(field) or ""
        raise BadCredentials(f"{field}: missing or empty")

    def _usable(self, field: str) -> bool:
        # Kept apart from `reveal`, so that no frame that raises has the value among its locals.
        return isinstance(self._value(field), str) and self._value(field) != ""

    def __repr__(self) -> str:
        return f"Credentials({', '.join(self._fields)})"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Credentials cannot be copied or stored")

    def __copy__(self) -> NoReturn:
        raise TypeError("Credentials cannot be copied or stored")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise TypeError("Credentials cannot be copied or stored")


def check_shapes(credentials: Credentials, *shapes: tuple[str, re.Pattern[str], str]) -> None:
    """For each field its pattern, and what to say where the value has another shape. Raises BadCredentials."""
    for field, shape, what in shapes:
        if not shape.fullmatch(credentials.reveal(field)):
            raise BadCredentials(f"{field}: {what}")
