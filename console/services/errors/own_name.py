"""The names in an error that are only its entry's own: account, market, order ids. Which of them no judgement reads,
so that like errors of other names share one. Pure; knows the rules' words, neither entries nor stores.
"""

import re
from functools import lru_cache
from typing import Final

from console.services.errors.category_rules import BODY_KEYS, NO_WORDS, RULES, STATUS_KEYS, STATUS_LEADS, STATUS_TAILS

HIDDEN: Final = "#"
ANY_NAME: Final = "zzqzz"  # as no venue and no rule spells it
ANY_NUMBERED: Final = f"{ANY_NAME}0"
# Ordinary words of error texts. An account of that name must not hide them.
_VOCABULARY: Final = frozenset(
    ("a", "account", "code", "error", "failed", "http", "i", "invalid", "market", "message", "no", "not", "order",
     "price", "quantity", "status", "timeout")
)  # fmt: skip
# No digits that could be a code: those before a letter are none, nor those of other lengths than codes have.
_NAME: Final = re.compile(
    r"(?!.*[^0-9A-Za-z]-[0-9])[A-Za-z]"
    r"(?:[A-Za-z_/:.-]|(?<![0-9])[0-9]++(?=[A-Za-z_])|(?<![0-9])(?:[0-9]{1,2}|[0-9]{5,7})(?![0-9]))*+",
    re.ASCII,
)
_SHORT: Final = 4


@lru_cache(maxsize=4_096)
def stand_in(name: str) -> str | None:
    """What may stand for this name in any error, for the group and for the category; "" where nothing may.

    None for a name that groups do not hide: it is an ordinary word, or a small number.
    """
    if name.lower() in _VOCABULARY or (len(name) < 5 and name.isdigit()):
        return None
    if not _says_nothing(name):
        return ""
    # "after desk-6 attempts" ends in a digit for the rules, and still does; which one, none asks.
    return ANY_NUMBERED if name[-1].isdigit() else ANY_NAME


def _says_nothing(name: str) -> bool:
    """Whether no rule could read any part of this name, not even together with the text around it."""
    low = name.lower()
    if _NAME.fullmatch(name) is None or low in _standing_parts():
        return False
    words, size = _read_words(), len(low)
    if not words.isdisjoint([low[at:end] for at in range(size) for end in range(at + 3, size + 1)]):
        return False
    # The text's neighbours of a name are no letters, so a word that goes on into it has none there either.
    starts, ends = _broken_words()
    sizes = range(1, size)
    goes_on = not ends.isdisjoint([low[:size] for size in sizes])
    begins = not starts.isdisjoint([low[-size:] for size in sizes if size > 1 or not low[-1].isdigit()])
    return not (goes_on or begins)


@lru_cache(maxsize=1)
def _standing_parts() -> frozenset[str]:
    """The parts of the words that rules read which stand alone in them, and so could be a name."""
    found: set[str] = set()
    for word in _read_words():
        letters = [char.isalnum() or char == "_" for char in f" {word} "]
        starts = [at for at in range(len(word)) if not letters[at]]
        stops = [at for at in range(1, len(word) + 1) if not letters[at + 1]]
        found.update(word[start:stop] for start in starts for stop in stops if stop > start)
    return frozenset(found)


@lru_cache(maxsize=1)
def _broken_words() -> tuple[frozenset[str], frozenset[str]]:
    """(beginnings, ends) of the words that rules read, broken where no letter or digit is at the break's other side."""
    parts = [(word, size) for word in _read_words() for size in range(1, len(word))]
    return (
        frozenset(word[:size] for word, size in parts if not word[size].isalnum()),
        frozenset(word[-size:] for word, size in parts if not word[-size - 1].isalnum()),
    )


@lru_cache(maxsize=1)
def _read_words() -> frozenset[str]:
    """All have three letters or more."""
    ruled = (word for rule in RULES for word in (*rule.words, *rule.unless))
    return frozenset((*ruled, *STATUS_LEADS, *STATUS_TAILS, *STATUS_KEYS, *NO_WORDS, *BODY_KEYS))


_CURRENCY: Final = re.compile(r"(?<![^/:_-])[^\W\d_a-z]{3,}(?![^/:_-])")


def spellings(name: str) -> tuple[str, ...]:
    """Other spellings of BTC/USDT:USDT: BTCUSDT, BTC-USDT, BTC_USDT, and USDT in an error about funds."""
    return _spellings(name) if "/" in name or ("-" in name and _CURRENCY.search(name)) else ()


@lru_cache(maxsize=1_024)
def _spellings(name: str) -> tuple[str, ...]:
    parts = [part for part in re.split(r"[/:_-]", name) if part]
    pair = parts[:2]
    joined = [glue.join(pair) for glue in ("", "-", "_", "/")] if len(pair) == 2 and "/" in name else []
    currencies = [part for part in parts if len(part) >= 3 and part.isalpha() and part.isupper()]
    return tuple(dict.fromkeys(other for other in (*joined, *currencies) if other != name))


def stands_in(text: str, name: str) -> bool:
    return _alone(name).search(text) is not None if len(name) <= _SHORT else without(text, name, "") != text


def hide_all(text: str, names: tuple[str, ...]) -> str:
    for name in names:
        for spelling in (name, *spellings(name)):
            if spelling and spelling in text:
                text = _hide(text, spelling)
    return text


def _hide(text: str, name: str) -> str:
    return text if stand_in(name) is None else without(text, name, HIDDEN)


def without(text: str, name: str, shown: str) -> str:
    """The text with something else for a name, wherever that stands alone."""
    if len(name) <= _SHORT:
        return _alone(name).sub(shown, text)
    made, *parts = text.split(name)
    more = len(parts)
    for part in parts:
        more -= 1
        before, after = made[-1:], (part or name)[0] if part or more else ""
        is_part = before.isalnum() or before == "_" or after.isalnum() or after == "_"
        made = f"{made}{name if is_part else shown}{part}"
    return made


@lru_cache(maxsize=1_024)
def _alone(name: str) -> re.Pattern[str]:
    """Short names are part of many words, and few."""
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
