"""Holds the secrets of one venue and mode so that they cannot be printed, copied or stored.

The caller hands them in. Must not know a keyring, a file or the environment.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from venues.client import BadCredentials
from venues.orders import Mode

HEX_KEY = re.compile(r"(?:0x)?[0-9a-fA-F]{64}")
HEX_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


def _kept(mapping: Mapping[str, str]) -> Callable[[str], str | None]:
    """Hide the values in a closure, where `vars`, slots and pretty printers find nothing to show."""
    values = dict(mapping)
    return values.get


def _digest(mapping: Mapping[str, str]) -> str:
    """Tell one set of secrets from another; "" for none. All fields count, so that none can be guessed alone."""
    if not mapping:
        return ""
    text = "\n".join(f"{name}={mapping[name]}" for name in sorted(mapping))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


class Credentials:
    """Named secret fields. Only `reveal` gives a value; call it in the expression that sends it."""

    __slots__ = ("_fields", "_value", "digest")

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._fields = tuple(mapping)
        self._value = _kept(mapping)
        self.digest = _digest(mapping)

    def fields(self) -> tuple[str, ...]:
        return self._fields

    def reveal(self, field: str) -> str:
        if self._usable(field):
            return self._value(field) or ""
        raise BadCredentials(f"{field}: missing or empty")

    def _usable(self, field: str) -> bool:
        # Not part of `reveal`, so that no frame that raises holds the value in its locals.
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
    """Check each field against its pattern; the text says what is wrong with it. Raises BadCredentials."""
    for field, shape, what in shapes:
        if not shape.fullmatch(credentials.reveal(field)):
            raise BadCredentials(f"{field}: {what}")


class SecretSet(NamedTuple):
    """Whose credentials are meant: an account's at a venue, by the names that the store's entries use."""

    venue: str
    kind: str  # what the client is built for, which says which fields there are
    account: str | None  # None: the venue's own
    mode: Mode
    venue_too: bool = False  # the venue's own set counts too, where the account has none under its name
