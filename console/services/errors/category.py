"""Decides the category of an error, and whether the order may have reached the venue.

Applies the rules of `category_rules` to the text; the first match wins. Pure; knows neither entries nor venue clients.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from console.services.errors.category_rules import LOOK, RULES, UNKNOWN, Category, Reach, Rule
from console.services.errors.template import LONGEST, template

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
    " request time", " i'm a",
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


def classify(error: str) -> Class:
    if len(error) <= LONGEST:
        return _classify(template(error), whole=True)
    return _classify(error[:READ_LENGTH], whole=len(error) <= READ_LENGTH)


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
    for rule in RULES:
        if (rule.own_words and not own_words) or (rule.among and rule.among.isdisjoint(statuses)):
            continue
        told = _has(text, rule.words) or not rule.statuses.isdisjoint(statuses) or not rule.codes.isdisjoint(codes)
        if told and not _has(text, rule.unless):
            return rule
    return UNKNOWN


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
