"""Reads the members of a stored JSON object with the text of each value; pairs of names and values, as a client sends.

Keeps the digits of numbers. Pure; knows neither a call nor a transport.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote_plus


class Unsendable(Exception):
    """A stored call that cannot be sent as it is stored; `code` is the guard that refuses it."""

    def __init__(self, why: str, code: str = "unparsable") -> None:
        super().__init__(why)
        self.code = code

    @property
    def text(self) -> str:
        return f"{self.code}: {self}"


def unsent(why: str) -> Unsendable:
    """A part of the call would not be sent, or not as it is stored."""
    return Unsendable(why, "unsent-terms")


class Digits(str):
    """A number as it is stored."""

    __slots__ = ()


def members(text: str) -> dict[str, str]:
    """The names of an object's members, each with the text of its value. Raises Unsendable."""
    try:
        pairs = list(_members(text))
    except (ValueError, IndexError, RecursionError):
        raise Unsendable("the stored request is not a JSON object") from None
    if len(dict(pairs)) != len(pairs):
        raise Unsendable("the stored request has a name twice")
    return dict(pairs)


def _members(text: str) -> Iterator[tuple[str, str]]:
    decoder = json.JSONDecoder()
    at = _skip(text, 0)
    if text[at] != "{":
        raise ValueError("not an object")
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if not isinstance(name, str) or text[at] != ":":
            raise ValueError("not a member")
        start = _skip(text, at + 1)
        _, end = decoder.raw_decode(text, start)
        yield name, text[start:end]
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        elif text[at] != "}":
            raise ValueError("not a member")


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def decoded(raw: str, *, unique: bool = True) -> object:
    """The value, with its numbers as Digits. Raises Unsendable for what JSON does not know, and for a name twice."""
    pairs = _unique if unique else dict
    try:
        value: object = json.loads(
            raw, parse_int=Digits, parse_float=Digits, parse_constant=_refuse, object_pairs_hook=pairs
        )
    except (ValueError, RecursionError):
        raise Unsendable("the stored request has a value that cannot be read, or a name twice") from None
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)


def _refuse(token: str) -> object:
    raise ValueError(token)


def is_set(value: object) -> bool:
    return value not in (None, False, "") and value != [] and value != {}


def lines(value: object, what: str) -> list[tuple[str, str]]:
    """An object as names and texts, a list as its name several times, null left out. Raises Unsendable."""
    if not isinstance(value, dict):
        raise unsent(f"{what} is not an object")
    pairs = []
    for name, held in value.items():
        for one in held if isinstance(held, list) else [held]:
            if isinstance(one, dict | list):
                raise unsent(f"{what} has a value inside a value: how it was sent is not stored")
            if one is not None:
                pairs.append((name, ("true" if one else "false") if isinstance(one, bool) else str(one)))
    return pairs


def urlencoded(value: object, what: str) -> str:
    """An object as the text of a query or a form. Raises Unsendable."""
    try:
        return "&".join(f"{quote_plus(name)}={quote_plus(text)}" for name, text in lines(value, what))
    except UnicodeEncodeError:
        raise unsent(f"{what} has text that cannot be encoded") from None
