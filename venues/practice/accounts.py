"""Names the account behind a key: the same for the same key, and never showing it.

Pure. Must not know a venue.
"""

from __future__ import annotations

import hashlib

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def letters(key: str, count: int) -> str:
    """Return this many capitals and digits that stand for the key."""
    number = _number(key)
    return "".join(_LETTERS[number >> 5 * at & 31] for at in range(count))


def digits(key: str, count: int) -> str:
    """Return this many digits that stand for the key; the first is not 0."""
    least = 10 ** (count - 1)
    return str(least + _number(key) % (9 * least))


def _number(key: str) -> int:
    return int.from_bytes(hashlib.sha256(b"practice account\n" + key.encode()).digest(), "big")
