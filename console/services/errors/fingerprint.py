"""Gives like failures one id: strips tracebacks and wrappers, masks what varies, hashes the rest.

Pure and versioned. Knows errors as text only, neither entries nor venues nor stores.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from http import HTTPStatus
from typing import Final

from backends.layouts.mask import masked_error
from console.services.errors.exception_text import CUT as CUT
from console.services.errors.exception_text import unstack, unwrap
from console.services.errors.own_name import ANY_NAME, ANY_NUMBERED, HIDDEN, hide_all
from console.services.errors.template import CODES, LONGEST, MEANINGS, key_of, template

VERSION: Final = 1
TITLE_LENGTH: Final = 80
READ_LENGTH: Final = 4_096  # bounds the time for errors of megabytes
KEY_LENGTH: Final = 400  # engines cut long errors at different lengths


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


@dataclass(frozen=True, slots=True)
class Fingerprint:
    id: str
    title: str


# The leading character class lets the regex engine skip plain words quickly; each branch then looks back at that
# character. No branch nests repetitions over the same characters, so the time is linear.
_MARK: Final = re.compile(
    r"""[0-9"'=/@.](?:
      (?<=[0-9])[0-9A-Za-z_#]*(?:-[0-9A-Za-z_#]+|[:.,/+@][0-9][0-9A-Za-z_#]*)*
        (?:[ ](?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6},?[ ][0-9]{4}\b)?
    | (?<=["'])(?P<key>[A-Za-z_][0-9A-Za-z_.-]{0,39})["'][ ]?:[ ]?
        (?P<value>"[^"]{0,300}"|'[^']{0,300}'|\[[^][{}]{0,300}\]|\{\}|[^][\s"'{},]{1,80})?,?[ ]?
    | (?<![0-9A-Za-z]["'])(?:(?<=")[^"'\s]{0,120}"|(?<=')[^"'\s]{0,120}')
    | (?<=[a-z][ ]["'])(?![0-9]{3}[ ])[^"'\n]{1,120}["']
    | (?<==)[^][\s,;)}&'"({<]{1,120}
    | (?<=:/)/[^\s"'<>)}\]]+
    | (?<![0-9A-Za-z_)/<]/)(?<=/)[0-9A-Za-z_.#~%-]+(?:/[0-9A-Za-z_.#~%?&=-]*)*(?:\?[0-9A-Za-z_.#~%&=+-]*)?
    | (?<=/)(?:USD[TC]?|EUR|GBP|BTC|ETH|BUSD|FDUSD|JPY|KRW|TRY)(?::[A-Z]{3,5})?\b
    | (?<=@)[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)+
    | (?<=\.)(?:com|net|org|io|co|xyz|exchange|finance|markets|trade|internal|local|invalid)\b(?::[0-9]+)?
    )""",
    re.VERBOSE | re.ASCII,
)
_LEAD_END: Final = re.compile(r"[\s:,=\[(]*(?:\w{1,40}=)?$")
_MESSAGE: Final = re.compile(
    r"\b(?:message|[a-z]?[Mm]sg|error_message|error|reason|label)=([^={}]{3,}?)(?= \w{1,40}=| ?[}\]]|$)"
)
_CODE: Final = re.compile(r"\b(?:sCode|retCode|code|status_code)=(-?[0-9]{3,9}|[a-z_]{3,40})\b")

_NAMED: Final = _set(
    """argument attribute class column constraint encoding field function index key keyerror: method module named
    parameter property relation table type variable"""
)
_WORDS_WITH_DIGITS: Final = _set(
    """base64 ed25519 float32 float64 h2 http2 int32 int64 ipv4 ipv6 md5 oauth2 psycopg2 sha1 sha256 sqlite3 urllib3
    utf-16 utf-8 utf8 v1 v2 v3 x509"""
)
_CODE_LEADS: Final = (
    "HTTP ", "HTTP-", "HTTP", "http ", "Errno ", "errno ", "code ", "Code ", "code: ", "Code: ", "Error ", "ERROR ",
    "error ", "[Errno -", "code -", "code: -", "Error -", "error -",
)  # fmt: skip
_STATUS_LEADS: Final = (
    "status ", "Status ", "status: ", "Status: ", "returned ", "answered ", "got ", "received ", "response ", ": (",
)  # fmt: skip
_PHRASES: Final = {str(status.value): f" {status.phrase[:4].lower()}" for status in HTTPStatus}
_STATUSES: Final = frozenset(_PHRASES) | _set("430 499 509 520 521 522 523 524 525 526 527 530")
_AMOUNTS: Final = ("balance", "available", "quantity", "qty", "amount", "position", "margin", "pnl", "price", "size")
_SIDES: Final = ("BUY #", "SELL #", "Buy #", "Sell #", "buy #", "sell #")
_MONTHS: Final = _set("jan feb mar apr may jun jul aug sep oct nov dec")
_WEEKDAY: Final = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? $")


def fingerprint(error: str, masks: tuple[str, ...] = ()) -> Fingerprint:
    """`masks` are the entry's own names (account, market, order ids); all are hidden, as are credentials."""
    if len(error) > LONGEST:
        return _identify(normalise(error, masks))
    if " " in "".join(masks):  # it may hold a number that the template leaves out
        return _remembered(template(hide_all(error, masks)))
    text, is_whole = key_of(error, masks)
    return _remembered(text if is_whole else hide_all(template(error), masks))


@lru_cache(maxsize=8_192)
def _remembered(text: str) -> Fingerprint:
    return _identify(normalise(text.replace(ANY_NUMBERED, HIDDEN).replace(ANY_NAME, HIDDEN)))


def normalise(error: str, masks: tuple[str, ...] = ()) -> str:
    text, frames = error, ""
    if "Traceback (most" in text:
        text, frames = unstack(text[-READ_LENGTH:])
    elif len(text) > READ_LENGTH:
        text = text[:READ_LENGTH]
    is_cut = len(text) == READ_LENGTH
    text = masked_error(text)  # after the cut, so that a page's cut text and the whole one have the same group
    if "\\" in text:
        text = text.replace('\\"', "'").replace("\\'", "'").replace("\\n", " ")
    text = unwrap(text, is_cut=is_cut)
    text = _mask(hide_all(text, masks))
    if "  " in text or not text.isprintable():
        text = " ".join(text.split())
    for side in _SIDES:
        if side in text:
            text = text.replace(side, HIDDEN)
    for run in ("##", "#,#", "#, #", "# #", "#(#)"):
        while run in text:
            text = text.replace(run, HIDDEN)
    text = text.replace("{ ", "{")
    return (text[:KEY_LENGTH].rstrip(" :") + frames).strip()


@lru_cache(maxsize=8_192)
def _identify(normal: str) -> Fingerprint:
    seed = f"{VERSION}\n{normal}".encode("utf-8", "backslashreplace")
    return Fingerprint(blake2b(seed, digest_size=6).hexdigest(), _title(normal))


def _title(normal: str) -> str:
    opening = normal.find("{")
    if opening > 0 and (message := _MESSAGE.search(normal, opening)):
        lead = _LEAD_END.sub("", normal[:opening])
        code = _CODE.search(normal, opening)
        parts = (lead if len(lead) <= TITLE_LENGTH // 2 else lead.partition(":")[0], code and code[1], message[1])
        normal = " · ".join(part for part in parts if part)
    shown = normal[: 2 * TITLE_LENGTH]
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() else " " for char in shown)
    shown = " ".join(shown.split()) or "(no error text)"
    return shown if len(shown) <= TITLE_LENGTH else shown[: TITLE_LENGTH - 1].rstrip() + "…"


_NO_QUOTES: Final = str.maketrans("", "", "\"'")
_CODE_NEIGHBOURS: Final = frozenset(" -(P")
_WORD_END: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_#-"
_WORD_LETTERS: Final = frozenset(_WORD_END)
_HOST_END: Final = _WORD_END + "0123456789."


def _mask(text: str) -> str:
    out: list[str] = []
    last = 0
    for found in _MARK.finditer(text):
        start, end = found.span()
        first, before = text[start], text[last:start]
        last = end
        if "0" <= first <= "9":
            shown = _number(before, text[start:end], text[end : end + 5])
        elif found.lastgroup:
            shown = before + _pair(found["key"], found["value"])
        elif first in "\"'":
            shown = before + _quoted(before, text[start + 1 : end - 1], text[end : end + 7])
        elif first == "=":
            shown = before + _assigned(before, text[start:end])
        elif text[start + 1] == "/":
            shown = before.removesuffix(":").rstrip(_WORD_END) + HIDDEN
        elif first in "@." or text[start + 1 : start + 4].isupper():
            shown = before.rstrip(_HOST_END)
            if not shown and out:  # the part before @ may have been masked as a number: j.doe.3@…
                out[-1] = out[-1].rstrip(_HOST_END)
            shown += HIDDEN
        else:
            shown = before + HIDDEN
        out.append(shown)
    out.append(text[last:])
    return "".join(out)


def _number(before: str, mark: str, after: str) -> str:
    last = before[-1:]
    if last in _CODE_NEIGHBOURS and mark.isdigit() and _is_code(before, mark, after):
        return before + mark
    if last in _WORD_LETTERS:
        stem = before.rstrip(_WORD_END)
        if f"{before[len(stem) :]}{mark}".lower() not in _WORDS_WITH_DIGITS:
            return stem + HIDDEN
        return before + mark
    if " " in mark:
        return _WEEKDAY.sub("", before) + HIDDEN
    if after.startswith(", 20"):
        stem, _, word = before[:-1].rpartition(" ")
        if word[:3].lower() in _MONTHS:
            return f"{stem} {HIDDEN}"
    return before + HIDDEN


def _is_code(before: str, mark: str, after: str) -> bool:
    if before.endswith(_CODE_LEADS):
        return len(mark) <= 8
    if before.endswith("-"):
        lead = before[:-1]
        return 4 <= len(mark) <= 5 and not lead[-1:].isalnum() and not lead.rstrip(" :=").endswith(_AMOUNTS)
    return mark in _STATUSES and (
        before.endswith(_STATUS_LEADS)
        or after.lower() == _PHRASES.get(mark)
        or (before.endswith(": ") and " " not in before[:-1])
    )


def _pair(key: str, value: str | None) -> str:
    name = key.lower()
    if value is None:
        return f"{key}="
    if name not in MEANINGS:
        return " "
    if value[0] == "[":
        return f"{key}={_mask(value[1:-1].translate(_NO_QUOTES))} "
    inner = value.strip("\"'")
    if name in CODES and inner.lstrip("-").isdigit() and len(inner) <= 9:
        return f"{key}={inner} "
    return f"{key}={_mask(inner)} "


def _quoted(before: str, inner: str, after: str) -> str:
    if after.startswith((" object", " codec")):
        return inner
    words = before[-16:].rsplit(None, 1)
    if words and words[-1].lower() in _NAMED and inner.isidentifier():
        return inner
    return HIDDEN


def _assigned(before: str, mark: str) -> str:
    tail = before[len(before.rstrip(_WORD_END)) :].lower()
    if tail not in MEANINGS and tail != "type":
        return f"={HIDDEN}"
    value = mark[1:].lstrip("-")
    return mark if value.replace("_", "").isalpha() or (value.isdigit() and len(value) <= 9) else f"={HIDDEN}"
