"""Decides the category of an error, and whether the order may have reached the venue.

Applies the rules of `category_rules` to the text; the first match wins. Pure; knows neither entries nor venue clients.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from console.services.errors.category_rules import LOOK, RULES, UNKNOWN, Category, Reach, Rule
from console.services.errors.template import LONGEST, template, without

VERSION: Final = 3
READ_LENGTH: Final = 8_192


@dataclass(frozen=True, slots=True)
class Class:
    category: Category
    reach: Reach
    rule: str
    note: str


_NUMBER: Final = re.compile(r"(?<![0-9])[0-9]++(?![a-z_]|[.,][0-9])")  # no part of an id or an amount
_STATUS_LEADS: Final = (
    "http ", "http-", "http", "http/1.0 ", "http/1.1 ", "http/2 ", "status ", "status: ", "status code ",
    "status code: ", "status=", "status_code=", "status_code: ", "too many ", "returned ", "answered ",
)  # fmt: skip
_STATUS_KEYS: Final = ('code":', "code':", 'status":', "status':")
_STATUS_TAILS: Final = (
    " client error", " server error", " bad request", " unauthori", " forbidden", " not found", " conflict",
    " unprocess", " too many", " too early", " internal server", " bad gateway", " service unav", " gateway time",
    " request time", " i'm a teapot",
)  # fmt: skip
_AFTER_TYPE: Final = re.compile(r"[a-z_.0-9]{1,80}:[ ]\(?")
_HEADERS: Final = re.compile(r"header(?:s|dict)[(:= ]{0,3}\{[^{}]{0,2000}\}|multidictproxy\([^()]{0,2000}\)")
_OWN_WORDS: Final = re.compile(
    r"""["'](?:message|(?:ret_?|s)?msg|errors?|error_message|details?|reason|code|label)["']"""
    r"""[ ]?:[ ]?\[?["']([^"']{3,})"""
)
_NO_WORDS: Final = frozenset(
    ("bad request", "unauthorized", "forbidden", "not found", "conflict", "unprocessable entity", "method not allowed",
     "not acceptable", "gone", "error", "failed", "failure", "rejected", "null", "none")
)  # fmt: skip


def classify(error: str, names: tuple[str, ...] = ()) -> Class:
    """`names`, of its account and market, only let like errors of other names share one judgement."""
    if len(error) <= LONGEST:
        error = template(error)
        for name in names:
            if len(name) > 2 and name in error and _says_nothing(name):
                # "after desk-6 attempts" ends in a digit for the rules, and still does; which one, none asks.
                error = without(error, name, _ANY_NUMBERED if name[-1].isdigit() else _ANY_NAME)
        return _classify(error, whole=True)
    return _classify(error[:READ_LENGTH], whole=len(error) <= READ_LENGTH)


_ANY_NAME: Final = "zzqzz"  # as no venue and no rule spells it
_ANY_NUMBERED: Final = f"{_ANY_NAME}0"
_NAME: Final = re.compile(
    r"[A-Za-z](?:[A-Za-z_/:.-]|(?<![0-9])(?:[0-9]{1,2}|[0-9]{5,7})(?![0-9]))*"
)  # no digits that could be a code


@lru_cache(maxsize=4_096)
def _says_nothing(name: str) -> bool:
    """Whether no rule could read any part of this name, not even together with the text around it."""
    low = name.lower()
    if _NAME.fullmatch(name) is None or _has(low, _read_words()) or _stands_in_a_word(low):
        return False
    # The text's neighbours of a name are no letters, so a word that goes on into it has none there either.
    starts, ends = _broken_words()
    sizes = range(1, len(low))
    goes_on = not ends.isdisjoint([low[:size] for size in sizes])
    begins = not starts.isdisjoint([low[-size:] for size in sizes if size > 1 or not low[-1].isdigit()])
    return not (goes_on or begins)


def _stands_in_a_word(name: str) -> bool:
    if not any(name in word for word in _read_words()):
        return False
    standing = re.compile(rf"(?<![0-9A-Za-z_]){re.escape(name)}(?![0-9A-Za-z_])")
    return any(standing.search(word) for word in _read_words())


@lru_cache(maxsize=1)
def _broken_words() -> tuple[frozenset[str], frozenset[str]]:
    """(beginnings, ends) of the words that rules read, broken where no letter or digit is at the break's other side."""
    parts = [(word, size) for word in _read_words() for size in range(1, len(word))]
    return (
        frozenset(word[:size] for word, size in parts if not word[size].isalnum()),
        frozenset(word[-size:] for word, size in parts if not word[-size - 1].isalnum()),
    )


@lru_cache(maxsize=1)
def _read_words() -> tuple[str, ...]:
    ruled = (word for rule in RULES for word in (*rule.words, *rule.unless))
    keys = (
        "message",
        "msg",
        "retmsg",
        "ret_msg",
        "smsg",
        "error",
        "errors",
        "detail",
        "details",
        "reason",
        "code",
        "label",
    )
    return tuple(dict.fromkeys((*ruled, *_STATUS_LEADS, *_STATUS_TAILS, *_STATUS_KEYS, *_NO_WORDS, *keys, "header",
                                "error_message", "multidictproxy")))  # fmt: skip


@lru_cache(maxsize=8_192)
def _classify(text: str, *, whole: bool) -> Class:
    rule = _match(text.lower())
    if rule.reach == "no" and not whole:
        return Class(rule.category, "maybe", rule.name, f"too long to be read whole; {LOOK}")
    return Class(rule.category, rule.reach, rule.name, rule.next_step)


def _match(text: str) -> Rule:
    if "header" in text:
        text = _HEADERS.sub(" ", text)  # header dumps mention rate limits and timeouts that did not happen
    statuses, codes = _numbers(text)
    own_words = _own_words(text)
    head, _, last = text.rpartition("\n")
    told_before = _words_of(head)
    for rule in RULES:
        if (rule.own_words and not own_words) or (rule.among and rule.among.isdisjoint(statuses)):
            continue
        told = not rule.statuses.isdisjoint(statuses) or not rule.codes.isdisjoint(codes)
        told = told or _has(last, rule.words) or not told_before.isdisjoint(rule.words)
        if told and told_before.isdisjoint(rule.unless) and not _has(last, rule.unless):
            return rule
    return UNKNOWN


@lru_cache(maxsize=1_024)
def _words_of(text: str) -> frozenset[str]:
    """The words of rules in the lines before the last, as the frames of a traceback come again. No word has a break."""
    return frozenset(word for rule in RULES for word in (*rule.words, *rule.unless) if word in text)


def _has(text: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110  `any` with a generator takes twice as long
        if word in text:
            return True
    return False


def _numbers(text: str) -> tuple[set[int], set[str]]:
    """(HTTP statuses, recognised by the text around them; negative codes such as -2010)."""
    statuses: set[int] = set()
    codes: set[str] = set()
    for found in _NUMBER.finditer(text):
        start, end = found.span()
        size, before = end - start, text[start - 1 : start]
        if size == 3 and _is_status(text, start, end):
            statuses.add(int(found[0]))
        elif size == 8 and text[max(0, start - 8) : start].replace(" ", "").endswith(_STATUS_KEYS):
            statuses.add(int(found[0][:3]))  # Alpaca's codes begin with the status
        elif before == "-" and size in (4, 5) and not text[start - 2 : start - 1].isalnum():
            codes.add(f"-{found[0]}")
    return statuses, codes


def _is_status(text: str, start: int, end: int) -> bool:
    lead = text[max(0, start - 14) : start]
    if lead.endswith(_STATUS_LEADS) or text.startswith(_STATUS_TAILS, end):
        return True
    if text[start] == "5" and len(text) == 3:
        return True  # a failing server's status and nothing else; any other lone number may mean anything
    if lead.replace(" ", "").rstrip("\"'").endswith(_STATUS_KEYS):
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
        said.strip(" .") not in _NO_WORDS and not (said.isdigit() and len(said) == 3)
        for said in _OWN_WORDS.findall(text)
    )
