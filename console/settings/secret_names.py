"""The names under which sets of secrets are kept: keyring services and files. Pure; knows no keyring and no file.

A part of a name has its bytes outside A-Za-z0-9_- percent-encoded, so that no two sets share a name whatever stores,
venues and tenants are called. Version 0.1 did not encode; its names are still read where they can mean nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from venues import CCXT, NAMES, Mode

_SERVICE = "dlq-console/"
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_PART = re.compile(r"(?:[A-Za-z0-9_:.-]|%[0-9A-F]{2})+")


def encoded(text: str, keep: str = "") -> str:
    """One part of a name. Raises UnicodeEncodeError where the text is no text at all."""
    kept = _PLAIN | frozenset(keep.encode())
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))


class SetName(NamedTuple):
    """One set of secrets: of a venue (`alpaca`, `live`), its account (`alpaca`, `hedge`, `live`), a provider, a hub."""

    parts: tuple[str, ...]
    whose: int = 0  # which part names the venue, provider or store
    old: bool = True  # version 0.1 knew such sets

    @property
    def service(self) -> str:
        keep = ":." if self.whose == 0 else ""  # a venue's name stays readable
        first, *rest = self.parts
        return _SERVICE + "/".join([encoded(first, keep), *map(encoded, rest)])

    @property
    def prefix(self) -> str:
        """A file's name without its field."""
        return ".".join(map(encoded, self.parts))

    def services(self, known: Collection[str]) -> tuple[str, ...]:
        """The names to look under, in order. `known`: venues and providers whose accounts and tenants may have sets."""
        old = "/".join(self.parts)
        return self._with_old(self.service, _SERVICE + old, old.split("/"), known)

    def prefixes(self, known: Collection[str]) -> tuple[str, ...]:
        old = ".".join(self.parts)
        if "/" in old or "\0" in old:
            return (self.prefix,)  # never a file of another folder
        return self._with_old(self.prefix, old, old.split("."), known)

    def _with_old(self, name: str, old: str, parts: list[str], known: Collection[str]) -> tuple[str, ...]:
        if not self.old or old == name or self._is_another(parts, known):
            return (name,)
        return (name, old)

    def _is_another(self, parts: list[str], known: Collection[str]) -> bool:
        """Whether a name of 0.1 is also the name of an account's or a tenant's set: then it is that, and only that."""
        if len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
            return False
        owner = unquote_to_bytes(parts[self.whose]).decode("utf-8", "surrogateescape")
        return owner in known or (self.whose == 0 and (owner in NAMES or owner.startswith(CCXT)))


def venue_set(venue: str, account: str | None, mode: Mode) -> SetName:
    """An account's set at a venue; the venue's own for entries without an account."""
    return SetName((venue, account, mode), old=False) if account else SetName((venue, mode))


def provider_set(name: str, tenant: str | None = None) -> SetName:
    return SetName(("provider", name, tenant), 1, old=False) if tenant else SetName(("provider", name), 1)


def hub_set(store: str) -> SetName:
    return SetName(("hub", store), 1)
