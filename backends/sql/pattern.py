"""A search term as the pattern of an engine's own operator. Pure.

LIKE ignores the case of ASCII letters only in SQLite, and in Postgres what its locale knows of: where a term has other
letters, both their cases are spelled out.
"""

from __future__ import annotations

import re

ESCAPE = "!"  # a backslash would mean different things to different servers


def like(term: str) -> str:
    return "%" + re.sub(f"([%_{ESCAPE}])", rf"{ESCAPE}\1", term) + "%"


def is_cased(term: str) -> bool:
    """Has it letters that LIKE may not know the other case of?"""
    return not term.isascii() and any(len(_cases(char)) > 1 for char in term if not char.isascii())


def glob(term: str) -> str:
    return "*" + "".join(_class(char) or (f"[{char}]" if char in "*?[" else char) for char in term) + "*"


def regex(term: str) -> str:
    return "".join(_class(char) or (f"\\{char}" if char in r".^$*+?()[]{}|\\" else char) for char in term)


def _class(char: str) -> str:
    cases = _cases(char)
    return f"[{cases}]" if len(cases) > 1 else ""


def _cases(char: str) -> str:
    """ß and its like have no other case of one character."""
    return "".join(dict.fromkeys(case for case in (char, char.lower(), char.upper()) if len(case) == 1))
