"""Masks credentials in error texts: signatures, keys, auth headers, cookies. Pure.

An error is prose with pieces of requests in it: URLs, header dumps, JSON, Python reprs. A value is hidden because of
the name before it or because of its shape; prose about a credential ("invalid signature") stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from dlq_sink.mask import MASKED


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHAPES: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
    r"|\b[srp]k_(?:live|test)_[A-Za-z0-9]{8,}"
    r"|\bAKIA[0-9A-Z]{12,}"
    r"|\b0x[0-9a-fA-F]{128,132}\b"  # r, s and v of a signature in one
    r"|(?<=://)[^/\s\"'@:]{0,256}:[^/\s\"'@]{1,256}(?=@)",
    re.DOTALL,
)
_SCHEME: Final = re.compile(r"\b(bearer|basic|token)( |%20)([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_HALF: Final = re.compile(r"(\b[rs]\\{0,8}[\"']?\s{0,4}[:=]\s{0,4}\\{0,8}[\"']?)0x[0-9a-fA-F]{40,}")
_WORD: Final = re.compile(
    r"(?:signature|sign|sig|passphrase|password|passwd|pwd|secret|key(?:[_-]?id)?|token|auth|authorization|cookies?|"
    r"credentials?|jwt|mnemonic|hmac|session[_-]?id)"
    r"(?P<close>\\{0,8}[\"'])?"
    r"(?P<sep>\s{0,4}(?:=>|[:=]|%3D)\s{0,4}|,\s{0,4}(?=b?\\{0,8}[\"'])|[ \t]{1,4})",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"[A-Za-z0-9_\-]{0,60}\Z")  # the rest of the name, before the word
_PAIR: Final = re.compile(r"[(\[]\s?b?\\{0,8}[\"']\Z")
_OPEN: Final = re.compile(r"b?(?P<quote>\\{0,8}[\"'])")
_PLAIN: Final = re.compile(r"(?:[^\s&;,\"'{}()\[\]<>|\\%]|%(?!26))(?:[^\s&;,\"'{}()\[\]<>|\\%]+|%(?!26))*")
_COOKIES: Final = re.compile(r"[^\s;,\"'}\\]+(?:;\s{0,2}[^\s;,\"'}\\]+=[^\s;,\"'}\\]*)*")
_REMEMBERED: Final = 4096  # characters; longer texts would fill the memory
_JUDGED: Final = 256  # characters of a value that are looked at, so that a long text takes no time
_AUTH_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token|Digest|HMAC|ApiKey|Signature)(?: {1,4}|%20)", re.IGNORECASE)
_OWN_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,24} {1,4}(?=[^\s,;\"']{0,60}[0-9])(?=[^\s,;\"']{8})")
_STRONG: Final = (
    "apikey", "apikeyid", "keyid", "secretkey", "apisecret", "privatekey", "privkey", "accesskey", "signingkey",
    "listenkey", "passphrase", "password", "passwd", "pwd", "accesstoken", "refreshtoken", "idtoken", "authtoken",
    "sessiontoken", "securitytoken", "bearertoken", "csrftoken", "apisign", "accesssign", "setcookie", "mnemonic",
    "hmac", "jwt", "sessionid",
)  # fmt: skip
_WEAK: Final = frozenset(
    {"signature", "sign", "sig", "secret", "token", "auth", "authorization", "cookie", "cookies", "credential",
     "credentials"}
)  # fmt: skip
_PREFIXED: Final = ("signature", "secret", "authorization", "cookie", "token", "credentials")
_ABOUT: Final = ("invalid", "bad", "missing", "wrong", "unknown", "no", "expired", "unsupported", "duplicate")
_LEAD: Final = re.compile(r"(?:api|access|secret|private|signing|apca)[ _-]\Z", re.IGNORECASE)
# What stands behind a name where the text speaks of the credential.
_PROSE: Final = _words(
    """null none nil true false undefined empty missing required invalid expired wrong incorrect mismatch malformed
    unknown unset not is was are must should may can cannot could expected failed failure error errors and or for in
    of on to the a an has have had does did do with without unauthorized forbidden rejected revoked disabled denied
    format header headers parameter parameters field value string type length id ids pair name permission permissions
    authentication authorization verification validation given provided supplied present absent bytes from by this
    that your ok"""
)
_TELLING: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])", re.DOTALL)
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}|[0-9]+")

_Kind = Literal["strong", "weak", "faint"]


def without_credentials(text: str) -> str:
    """The text with every credential in it hidden; the same text where there is none."""
    return _remembered(text) if len(text) <= _REMEMBERED else _masked(text)


@lru_cache(maxsize=1024)  # a storm repeats one text
def _remembered(text: str) -> str:
    return _masked(text)


def _masked(text: str) -> str:
    text = _SHAPES.sub(MASKED, text)
    text = _HALF.sub(rf"\g<1>{MASKED}", text)
    text = "".join(_pieces(text))
    return _SCHEME.sub(_schemed, text)


def _schemed(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}{MASKED}" if _is_telling(match[3], 8) or _has_both_cases(match[3]) else match[0]


def _pieces(text: str) -> Iterator[str]:
    done = at = 0
    while (match := _WORD.search(text, at)) is not None:
        at = match.end()
        hidden = _hidden(text, match)
        if hidden is not None:
            yield text[done : hidden.start]
            yield hidden.shown
            done = at = hidden.end
    yield text[done:]


class _Hidden(NamedTuple):
    start: int
    end: int
    shown: str = MASKED


def _hidden(text: str, match: re.Match[str]) -> _Hidden | None:
    """Which part of the text is the value of this name, if it is a credential."""
    word_end = match.start("close") if match["close"] else match.start("sep")
    before = _NAME.search(text, max(0, match.start() - 60), match.start())
    start = before.start() if before else match.start()
    name = text[start:word_end]
    kind = _kind(name, text[max(0, start - 10) : start])
    if kind is None:
        return None
    quoted = _OPEN.match(text, match.end())
    spoken = not match["sep"].strip()
    if match["sep"][0] == "," and _PAIR.search(text, max(0, start - 12), start) is None:
        return None
    if quoted is not None:
        return _quoted(text, quoted, name, kind, listed=match["sep"][0] == ",")
    if match["close"] and spoken:
        return None
    if text[match.end() : match.end() + 1] in ("{", "[", "("):
        return _bracketed(text, match)
    return _bare(text, match, name, kind)


def _kind(name: str, before: str) -> _Kind | None:
    """How surely this is the name of a credential: strong is no word of prose, weak may be one."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if plain in _WEAK or plain.startswith(_ABOUT):
        return "weak" if plain.endswith((*_WEAK, *_STRONG)) else None
    if plain.endswith((*_STRONG, *_PREFIXED)):
        return "strong"
    if plain in ("key", "keyid"):
        return "weak" if _LEAD.search(before) else "faint"
    return None


def _quoted(text: str, opened: re.Match[str], name: str, kind: _Kind, *, listed: bool) -> _Hidden | None:
    """`listed`: name and value are a pair in a list, which may as well be two names."""
    quote = opened["quote"]
    start, end = opened.end(), _closing(text, opened.end(), quote)
    value = text[start : min(end, start + _JUDGED)]
    scheme = _AUTH_SCHEME.match(value)
    if scheme is not None:
        start, value = start + scheme.end(), value[scheme.end() :]
    if not value or value == MASKED or (listed and not _is_telling(value, 8)):
        return None
    if not _is_hidden(value, name, kind, sure=True):
        return None
    return _Hidden(start, end)


def _closing(text: str, start: int, quote: str) -> int:
    """Where a quoted value ends: at its quote, or with the text, which may be cut."""
    at = start
    while (end := text.find(quote, at)) >= 0:
        escapes = end
        while escapes > at and text[escapes - 1] == "\\":
            escapes -= 1
        if len(quote) > 1 or (end - escapes) % 2 == 0:
            return end
        at = end + 1
    return len(text)


_BRACKET: Final = re.compile(r"[{}()\[\]]")


def _bracketed(text: str, match: re.Match[str]) -> _Hidden | None:
    """An object or a list, where the name is a key: behind an unquoted name and a colon it is the answer's body."""
    sep = match["sep"].strip()
    if not match["close"] and sep != "=":
        return None
    start, end, depth = match.end(), len(text), 0
    for bracket in _BRACKET.finditer(text, start, start + 4 * _JUDGED):
        depth += 1 if bracket[0] in "{[(" else -1
        if not depth:
            end = bracket.end()
            break
    inner = text[start + 1 : min(end - 1, start + 4 * _JUDGED)]
    if not inner.strip() or MASKED in inner or not any(char.isdigit() for char in inner):
        return None
    quote = match["close"] or ""
    return _Hidden(start, end, f"{quote}{MASKED}{quote}")


def _bare(text: str, match: re.Match[str], name: str, kind: _Kind) -> _Hidden | None:
    start, sep = match.end(), match["sep"].strip()
    plain = name.lower()
    scheme = None
    if sep and plain.endswith(("authorization", "auth")):
        scheme = _AUTH_SCHEME.match(text, start) or _OWN_SCHEME.match(text, start)
    if scheme is not None:
        start = scheme.end()
    cookie = bool(sep) and plain.endswith(("cookie", "cookies"))
    shape = _COOKIES if cookie else _PLAIN
    found = shape.match(text, start, start + _JUDGED)
    if found is None or (sep == "=" and match["sep"][0] == "=" != match["sep"]):
        return None  # a name without a value
    value = found[0].rstrip(".:")
    if scheme is not None:
        hide = value.lower() not in _PROSE
    elif cookie:
        hide = "=" in value or _is_telling(value, 8)
    elif not sep:
        hide = _is_said(value, name, kind)
    else:
        sure = sep != ":" or _is_header(name)
        follows = text[start + len(value) : start + len(value) + 2]
        if value.isalpha() and not _is_header(name) and follows[:1] == " " and follows[1:].isalpha():
            return None  # a sentence
        hide = _is_hidden(value, name, kind, sure=sure)
    if not hide:
        return None
    whole = found if found.end() < start + _JUDGED else shape.match(text, start)
    return _Hidden(start, start + len(value) if whole is found or whole is None else whole.end())


def _is_header(name: str) -> bool:
    return "-" in name or "_" in name


def _is_said(value: str, name: str, kind: _Kind) -> bool:
    """Whether what follows a name and a blank is its value: it must look like one."""
    if kind == "strong" and _is_header(name):
        return _is_telling(value, 8)
    if kind == "faint":
        return re.fullmatch(r"[PAC]K[A-Z0-9]{16,30}", value) is not None
    least = 12 if kind == "strong" else 16 if name.lower().startswith("key") else 32
    return _is_telling(value, least) and not _ADDRESS.fullmatch(value)


def _is_hidden(value: str, name: str, kind: _Kind, *, sure: bool) -> bool:
    """`sure`: the place is one where only a value stands, such as behind `=` or in quotes."""
    first = value.split(maxsplit=1)[0].lower().strip(".,:;!") if value.strip() else ""
    if not first or first in _PROSE or set(value) <= {"*", "x", "X", "."}:
        return False
    if kind == "faint":
        return re.fullmatch(r"[A-Za-z0-9+/=_]{24,}", value) is not None and _is_telling(value, 24)
    plain = name.lower()
    if plain.endswith("token") and kind == "weak" and _ADDRESS.fullmatch(value):
        return False  # the market's asset
    if plain in ("sign", "sig"):
        return _is_telling(value, 16)
    if sure:
        return kind == "strong" or " " not in value or any(char.isdigit() for char in value)
    return (
        kind == "strong" or plain == "secret" or _is_telling(value, 6) or (len(value) >= 16 and _has_both_cases(value))
    )


def _is_telling(value: str, least: int) -> bool:
    """Whether it has the letters and digits of a key; words have none."""
    return len(value) >= least and _TELLING.match(value) is not None


def _has_both_cases(value: str) -> bool:
    return len(value) >= 8 and re.search(r"[a-z][A-Z]", value) is not None
