"""An error's text without the long numbers, times and ids in it, so that equal failures are judged once. Pure.

What is left out never decides a group or a category: `fingerprint` hides it, and no rule of `category` reads it.
Taken word by word, as most words of an error are known from the errors before it. `key_of` leaves out its names too.
"""

import re
from http import HTTPStatus
from typing import Final

from console.services.errors.own_name import spellings, stand_in, stands_in, without

LONGEST: Final = 1_024  # longer texts differ in more than their numbers, and would fill the memory
_NUMBER: Final = "0000000000"  # too long for any code
_COUNT: Final = "0000"  # after a blank no code: those of four digits follow a minus


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Values of these keys describe the failure. Values of other keys vary with the order or the time.
CODES: Final = _set("code errno error_code errorcode grpc_status ret_code retcode scode status status_code statuscode")
MEANINGS: Final = CODES | _set(
    """cause description detail details err errmsg error error_details error_message error_type errormessage errors
    exception failure_reason label message method msg reason reject_reason rejectreason response ret_msg retmsg smsg
    statuses text title"""
)
_VARYING: Final = re.compile(
    r"""[0-9](?<![0-9A-Za-z_#][0-9])
      (?:(?<!P/[0-9])[0-9]*(?:[.,][0-9]+)+  # but not HTTP/1.1
      | [0-9]{9,}
      | [0-9]{3}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?
      | x[0-9a-f]{8,}
      | [0-9a-f]{7}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
      | [0-9a-f]{11,}
      )(?![0-9A-Za-z_])
    | [a-f](?<![0-9A-Za-z_#].)(?<![0-9a-f]{4}-.)(?=[a-f]{0,10}[0-9])
      (?:[0-9a-f]{11,}|[0-9a-f]{7}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9A-Za-z_])""",
    re.VERBOSE | re.ASCII,
)
_SETTING: Final = re.compile(  # three digits may be a status, whatever the key is called
    r"(?<![0-9A-Za-z_#-])([A-Za-z_]{1,40})=(?![0-9]{3}(?![0-9]))[0-9]{1,7}(?![0-9A-Za-z_#]|[-:.,/+@][0-9A-Za-z_#])",
    re.ASCII,
)
_COUNTED: Final = re.compile(r"[0-9]{1,7}(?![0-9A-Za-z_#]|[-:.,/+@][0-9A-Za-z_#])", re.ASCII)
_TIME: Final = re.compile(
    r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?(?![0-9A-Za-z_])", re.ASCII
)
_DATED: Final = re.compile(r"(?:.*[^0-9A-Za-z_#])?[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII | re.DOTALL)
# A number behind one of these may be a code; one of three digits also before the words of a status.
_CODE_LEADS: Final = (":", "TP", "tp", "rno", "ode", "ror", "ROR")
_STATUS_LEADS: Final = (
    ":", '"', "'", "http", "errno", "code", "error", "/1.0", "/1.1", "/2", "status", "many",
    "returned", "answered", "got", "received", "response",
)  # fmt: skip
_STATUS_TAILS: Final = tuple({status.phrase[:4].strip().lower() for status in HTTPStatus} | {"clie", "serv", "too"})
_DIGITS: Final = frozenset("0123456789")
_LINES: Final = re.compile(r'", line [0-9]{1,9}, in ')  # of a traceback
_LINE: Final = f'", line {_COUNT}, in '
_MOST_KNOWN: Final = 16_384
_LONGEST_WORD: Final = 200
_MOST_HEADS: Final = 1_024
# What a template leaves as it is: nearly all words of nearly all errors, and all lines but the last of tracebacks.
_KNOWN: Final[dict[str, str]] = {}
_HEADS: Final[dict[str, str]] = {}


Key = tuple[str, bool]
# A group and a category are asked for one after the other.
_last: tuple[str, tuple[str, ...], Key] = ("", (), ("", True))


def key_of(error: str, names: tuple[str, ...]) -> Key:
    """(what the judgements of this error are remembered by, whether groups need no more).

    Its names are left out where no rule reads them; a group hides the others too.
    """
    global _last  # noqa: PLW0603  a memory of one; replaced at once, so that threads see the old or the new one
    last_error, last_names, key = _last
    if error is last_error and names == last_names:
        return key
    text, is_whole = template(error), True
    for name in names:
        has_others = "/" in name or ("-" in name and not name.islower())  # without capitals it names no currency
        for spelling in (name, *spellings(name)) if has_others else (name,):
            if spelling in text and spelling:
                if shown := stand_in(spelling):
                    text = without(text, spelling, shown)
                elif shown == "" and stands_in(text, spelling):
                    is_whole = False
    key = text, is_whole
    _last = error, names, key
    return key


def template(text: str) -> str:
    if "\n" not in text:
        return _line(text, "")
    head, _, last = _LINES.sub(_LINE, text).rpartition("\n")
    if head not in _HEADS:
        shown = "\n".join([_line(line, None) for line in head.split("\n")])
        if shown == head:
            _keep(_HEADS, head, _MOST_HEADS)
        head = shown
    return f"{head}\n{_line(last, '')}"


def _line(text: str, beyond: str | None) -> str:
    """`beyond`: the word that follows; None where nobody knows it."""
    words = text.split(" ")
    shown = list(map(_KNOWN.get, words))
    new = shown.count(None)
    if not new:
        return text
    words.append(beyond)  # type: ignore[arg-type]  # at the end only
    at = -1
    for _ in range(new):
        at = shown.index(None, at + 1)
        shown[at] = _new(words[at - 1] if at else ":", words[at], words[at + 1])
    return " ".join(shown)  # type: ignore[arg-type]  # each None was replaced


def _new(before: str, word: str, after: str | None) -> str:
    """`before` is a colon at the beginning of a line: there a number may be a code, as behind a key."""
    if word.isdigit() and word.isascii():
        if _is_count(before, word, len(word), after):
            return _COUNT
    elif word[:1] in _DIGITS:
        if found := _COUNTED.match(word):
            if _is_count(before, word, found.end(), after):
                return _COUNT + _VARYING.sub(_NUMBER, word[found.end() :])
        elif word[2:3] == ":" and _DATED.fullmatch(before) and (time := _TIME.match(word)):
            return _NUMBER + _VARYING.sub(_NUMBER, word[time.end() :])
    shown = _VARYING.sub(_NUMBER, word)
    if "=" in word:
        shown = _SETTING.sub(_setting, shown)
    if shown == word and len(word) <= _LONGEST_WORD and word[:1] not in _DIGITS:
        _keep(_KNOWN, word, _MOST_KNOWN)  # the others seldom come again, or depend on the words around them
    return shown


def _is_count(before: str, word: str, size: int, after: str | None) -> bool:
    if before.endswith(_CODE_LEADS) or size > 7:
        return False
    if size == 3:
        return not (word[0] < "6" and _may_be_status(before, after)) and not (word[:2] == "20" and before[-1:] == ",")
    return not (word[:2] == "20" and before[-1:] == ",") and word[:4] != "5432"  # a year, a database's port


def _keep(known: dict[str, str], text: str, most: int) -> None:
    if len(known) >= most:
        known.clear()
    known[text] = text


def _setting(found: re.Match[str]) -> str:
    return found[0] if found[1].lower() in MEANINGS or found[1].lower() == "type" else f"{found[1]}={_COUNT}"


def _may_be_status(before: str, after: str | None) -> bool:
    if not before or after is None or before.lower().endswith(_STATUS_LEADS):
        return True
    return after.lower().startswith(_STATUS_TAILS)
