"""Decides the category of an error, and whether the order may have reached the venue.

Applies the rules of `category_rules` to the text; the first match wins. Pure; knows neither entries nor venue clients.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from console.services.errors.category_rules import (
    LOOK,
    NO_WORDS,
    RULES,
    STATUS_KEYS,
    STATUS_LEADS,
    STATUS_TAILS,
    UNKNOWN,
    Category,
    Reach,
    Rule,
)
from console.services.errors.template import LONGEST, key_of

VERSION: Final = 4
READ_LENGTH: Final = 8_192


@dataclass(frozen=True, slots=True)
class Class:
    category: Category
    reach: Reach
    rule: str
    note: str


_NUMBER: Final = re.compile(r"(?<![0-9])[0-9]++(?![a-z_]|[.,][0-9])")  # no part of an id or an amount
_ID_ENDS: Final = re.compile(r"[0-9a-f]{5}\Z")  # the number is the rest of it
_AFTER_TYPE: Final = re.compile(r"[a-z_.0-9]{1,80}:[ ]\(?")
_HEADERS: Final = re.compile(r"header(?:s|dict)[(:= ]{0,3}\{[^{}]{0,2000}\}|multidictproxy\([^()]{0,2000}\)")
_OWN_WORDS: Final = re.compile(
    r"""["'](?:message|(?:ret_?|s)?msg|errors?|error_message|details?|reason|code|label)["']"""
    r"""[ ]?:[ ]?\[?["']([^"']{3,})"""
)


def classify(error: str, names: tuple[str, ...] = ()) -> Class:
    """`names`, the entry's own, only let like errors of other names share one judgement."""
    if len(error) <= LONGEST:
        return _classify(key_of(error, names)[0], whole=True)
    return _classify(error[:READ_LENGTH], whole=len(error) <= READ_LENGTH)


@lru_cache(maxsize=8_192)
def _classify(text: str, *, whole: bool) -> Class:
    rule = _match(text.lower())
    if rule.reach == "no" and not whole:
        return Class(rule.category, "maybe", rule.name, f"too long to be read whole; {LOOK}")
    return Class(rule.category, rule.reach, rule.name, rule.next_step)


_Sign = TypeVar("_Sign", str, int)


def _ruled(signs: Iterable[tuple[int, Iterable[_Sign]]]) -> dict[_Sign, list[int]]:
    """Which rules, by their number, each sign may match."""
    found: defaultdict[_Sign, list[int]] = defaultdict(list)
    for number, own in signs:
        for sign in own:
            found[sign].append(number)
    return dict(found)


_BY_WORDS: Final = _ruled((number, rule.words) for number, rule in enumerate(RULES))
_BY_STATUS: Final = _ruled((number, rule.statuses) for number, rule in enumerate(RULES))
_BY_CODE: Final = _ruled((number, rule.codes) for number, rule in enumerate(RULES))


def _match(text: str) -> Rule:
    if "header" in text:
        text = _HEADERS.sub(" ", text)  # header dumps mention rate limits and timeouts that did not happen
    statuses, codes = _numbers(text)
    said = _words_of(text)
    told = {number for word in said if word in _BY_WORDS for number in _BY_WORDS[word]}
    told.update(number for status in statuses if status in _BY_STATUS for number in _BY_STATUS[status])
    told.update(number for code in codes if code in _BY_CODE for number in _BY_CODE[code])
    for number in sorted(told):
        rule = RULES[number]
        if rule.among and rule.among.isdisjoint(statuses):
            continue
        if said.isdisjoint(rule.unless) and (not rule.own_words or _own_words(text)):
            return rule
    return UNKNOWN


# The longest part without a blank of each of the rules' words: it stands in one of the text's own parts, if the word
# is in the text. Which words may be, is known of a part that was seen before.
_PARTS: Final[dict[str, list[str]]] = {}
for _rule in RULES:
    for _word in (*_rule.words, *_rule.unless):
        _same = _PARTS.setdefault(max(_word.split(" "), key=len), [])
        if _word not in _same:
            _same.append(_word)
_KNOWN: Final[dict[str, tuple[str, ...]]] = {}
_MOST_KNOWN: Final = 16_384
_LONGEST_PART: Final = 200
_SHORT: Final = 20  # whose own parts are fewer than the rules'; those have three letters or more


def _words_of(text: str) -> set[str]:
    """The rules' words in the text."""
    found: set[str] = set()
    for part in text.split(" "):
        words = _KNOWN.get(part)
        if words is None:
            words = _learn(part)
        if words:
            found.update(words)
    return {word for word in found if word in text}


def _learn(part: str) -> tuple[str, ...]:
    size = len(part)
    if size <= _SHORT:
        cuts = {part[at:end] for at in range(size - 2) for end in range(at + 3, size + 1)}
        words = tuple([word for own in cuts & _PARTS.keys() for word in _PARTS[own]])
    else:
        words = tuple([word for own, words in _PARTS.items() if own in part for word in words])
    if len(part) <= _LONGEST_PART:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[part] = words
    return words


def _numbers(text: str) -> tuple[set[int], set[str]]:
    """(HTTP statuses, recognised by the text around them; negative codes such as -2010)."""
    statuses: set[int] = set()
    codes: set[str] = set()
    for found in _NUMBER.finditer(text):
        start, end = found.span()
        size, before = end - start, text[start - 1 : start]
        if size == 3 and _is_status(text, start, end):
            statuses.add(int(found[0]))
        elif size == 8 and text[max(0, start - 8) : start].replace(" ", "").endswith(STATUS_KEYS):
            statuses.add(int(found[0][:3]))  # Alpaca's codes begin with the status
        elif before == "-" and size in (4, 5) and not text[start - 2 : start - 1].isalnum():
            codes.add(f"-{found[0]}")
    return statuses, codes


def _is_status(text: str, start: int, end: int) -> bool:
    lead = text[max(0, start - 14) : start]
    if _ID_ENDS.search(lead):
        return False
    if lead.endswith(STATUS_LEADS) or text.startswith(STATUS_TAILS, end):
        return True
    if text[start] == "5" and len(text) == 3:
        return True  # a failing server's status and nothing else; any other lone number may mean anything
    if lead.replace(" ", "").rstrip("\"'").endswith(STATUS_KEYS):
        return True
    head = _AFTER_TYPE.match(text)
    return (
        head is not None
        and head.end() == start
        and text[end : end + 2].lstrip(" ")[:1] in ("", ")", ",", ":", "{", "<")
    )


def _own_words(text: str) -> bool:
    """Whether an error body holds the venue's own message or code, beyond the HTTP status."""
    return any(
        said.strip(" .") not in NO_WORDS and not (said.isdigit() and len(said) == 3)
        for said in _OWN_WORDS.findall(text)
    )
