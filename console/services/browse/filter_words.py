"""Splits a filter line into words and their values, and edits it. Pure; knows no field.

A word ends at a blank outside quotes. In quotes blank, comma, colon and star are literal, and a backslash escapes a
quote or a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from backends.criterion import Pattern, fold

_FIELD = re.compile(r"([!-]?)([A-Za-z][A-Za-z0-9_.]*)(>=|<=|:|>|<)")
_NEEDS_QUOTES = re.compile(r'[\s",*\\]')


class UnclosedQuote(Exception):
    """A quote is opened and never closed."""


class Char(NamedTuple):
    char: str
    quoted: bool


class Word(NamedTuple):
    """A word of the line. `name` is "" for a text; `value` is what stands behind the sign, or the whole text."""

    raw: str
    negated: bool
    name: str
    sign: str
    value: tuple[Char, ...]
    has_quotes: bool  # in its value

    @property
    def is_empty(self) -> bool:
        """Nothing stands behind the sign; `""` is something."""
        return not self.value and not self.has_quotes

    @property
    def text(self) -> str:
        return "".join(one.char for one in self.value)

    @property
    def has_star(self) -> bool:
        return any(one == Char("*", quoted=False) for one in self.value)

    @property
    def choices(self) -> tuple[tuple[Char, ...], ...]:
        """The value, split at commas outside quotes."""
        found: list[list[Char]] = [[]]
        for one in self.value:
            if one == Char(",", quoted=False):
                found.append([])
            else:
                found[-1].append(one)
        return tuple(map(tuple, found))


def pattern(choice: tuple[Char, ...]) -> Pattern:
    """With each star outside quotes as anything."""
    pieces: list[str] = [""]
    for one in choice:
        if one == Char("*", quoted=False):
            pieces.append("")
        else:
            pieces[-1] += one.char
    return Pattern(tuple(map(fold, pieces)))


def spelled(choice: tuple[Char, ...]) -> str:
    return "".join(one.char for one in choice)


def words(line: str) -> list[Word]:
    """Raises UnclosedQuote."""
    return [_word(raw) for raw in raw_words(line)]


def raw_words(line: str) -> list[str]:
    """Raises UnclosedQuote."""
    found: list[str] = []
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        end = _end(line, at)
        found.append(line[at:end])
        at = end
    return found


def _end(line: str, at: int) -> int:
    quoted = False
    while at < len(line) and (quoted or not line[at].isspace()):
        if quoted and line[at] == "\\" and line[at + 1 : at + 2] in ('"', "\\"):
            at += 1
        elif line[at] == '"':
            quoted = not quoted
        at += 1
    if quoted:
        raise UnclosedQuote
    return at


def _word(raw: str) -> Word:
    found = _FIELD.match(raw)
    if found is not None:
        rest = raw[found.end() :]
        return Word(raw, bool(found[1]), found[2], found[3], tuple(_chars(rest)), '"' in rest)
    negated = raw.startswith("!")
    rest = raw.removeprefix("!")
    return Word(raw, negated, "", "", tuple(_chars(rest)), '"' in rest)


def _chars(raw: str) -> Iterator[Char]:
    quoted, at = False, 0
    while at < len(raw):
        char = raw[at]
        if quoted and char == "\\" and raw[at + 1 : at + 2] in ('"', "\\"):
            at += 1
            yield Char(raw[at], quoted=True)
        elif char == '"':
            quoted = not quoted
        else:
            yield Char(char, quoted)
        at += 1


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def quoted_if_needed(text: str) -> str:
    return quote(text) if not text or _NEEDS_QUOTES.search(text) else text


def with_field(line: str, name: str, value: str) -> str:
    """The line with this field required to have this value; what it required of the field before is removed."""
    kept = [one.raw for one in words(line) if one.negated or one.name.lower() != name or one.sign != ":"]
    return " ".join([*kept, f"{name}:{quoted_if_needed(value)}"])
