"""Masks credentials in stored requests, errors and audit events, by the names of fields and by known shapes. Pure.

Works on the stored text, even if a page cut it, so that everything else keeps its spelling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from dlq_sink.mask import MASKED as MASKED
from dlq_sink.mask import masked_error as masked_error

_WORDS = (
    "authorization",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "privatekey",
    "accesskey",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "authtoken",
    "sessiontoken",
    "securitytoken",
    "bearertoken",
    "csrftoken",
    "credential",
    "credentials",
    "cookie",
    "signature",
    "sessionid",
)
_WHOLE = frozenset({"token", "auth", "jwt", "bearer", "pin", "cvv", "cvc", "cardnumber", "xauth", "pwd"})
# Most stored requests hold no credential, and searching for words is much faster than the expression. Each hint is a
# part of the words it stands for; fewer hints make a page faster.
_HINTS = (
    "auth", "pass", "secret", "token", "key", "credential", "cookie", "signature", "session", "bearer", "basic", "jwt",
    "eyj", "pin", "cv", "card", "pwd", "k_", "akia", "-----begin", "://",
)  # fmt: skip
# Of an audit event, what may repeat an error.
_TOLD = ("error", "evidence", "detail", "note", "reason", "summary", "text", "malformed", "body")
_SUSPECT = re.compile(
    r"auth|passw|passphrase|secret|token|api.?key|private.?key|access.?key|credential|cookie|signature|session.?id|"
    r"bearer|basic\s|jwt|eyJ|\bpin\b|cvv|cvc|card.?number|pwd|[srp]k_live|[srp]k_test|AKIA|-----BEGIN|://[^/\s\"@]*:[^/\s\"@]*@",
    re.IGNORECASE,
)
_SHAPES = re.compile(
    r"(?:(?<=bearer )|(?<=basic )|(?<=token ))[A-Za-z0-9._~+/=-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|\b[srp]k_(?:live|test)_[A-Za-z0-9]{8,}"
    r"|\bAKIA[0-9A-Z]{12,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|(?<=://)[^/\s\"@:]*:[^/\s\"@]+(?=@)",
    re.IGNORECASE | re.DOTALL,
)
_PAIR = re.compile(r"([A-Za-z0-9_.\-\[\]]{2,60})(=|:\s?)([^&\s;,\"'}\]]+)")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s{}\[\],:"]+|\s+', re.DOTALL)


def is_sensitive(name: str) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return plain in _WHOLE or plain.endswith(_WORDS)


def hints_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The hints that occur in any of these texts, so that a page is searched once instead of once per value."""
    low = "\n".join(texts).lower()
    return tuple(hint for hint in _HINTS if hint in low)


def _is_suspect(text: str, hints: tuple[str, ...] = _HINTS) -> bool:
    low = text.lower()
    for hint in hints:  # a loop is faster than any(), and a page calls this hundreds of times
        if hint in low:
            return _SUSPECT.search(text) is not None
    return False


def masked_text(text: str, hints: tuple[str, ...] = _HINTS) -> str:
    """Mask what looks like a credential in free text: an error, a form, a path with its query."""
    if not _is_suspect(text, hints):
        return text
    hidden = _SHAPES.sub(MASKED, text)
    return _PAIR.sub(_pair, hidden)


def _pair(match: re.Match[str]) -> str:
    if not is_sensitive(match[1]) or match[3].lower() in ("bearer", "basic"):
        return match[0]
    return f"{match[1]}{match[2]}{MASKED}"


def masked_event(body: Mapping[str, object]) -> dict[str, object]:
    """An audit event's fields as they are shown; the chain itself keeps what was recorded."""
    return {name: masked_error(held) if type(held) is str and name in _TOLD else held for name, held in body.items()}


def masked_document(text: str, hints: tuple[str, ...] = _HINTS) -> str:
    """Mask the values of sensitive fields in JSON, whole or cut, and in strings that hold JSON or forms."""
    if not _is_suspect(text, hints):
        return text
    return "".join(_walk(text))


def _walk(text: str) -> Iterator[str]:
    """Mask piece by piece; `hiding` counts the open brackets of a value that is left out whole."""
    within: list[str] = []  # the open brackets, outermost first
    key, hiding = "", 0
    expects_key = False
    for match in _PIECE.finditer(text):
        piece = match[0]
        if hiding:
            hiding += (piece in "{[") - (piece in "}]")
            continue
        if piece in ("{", "["):
            if not expects_key and is_sensitive(key) and within and within[-1] == "{":
                yield f'"{MASKED}"'
                key, hiding = "", 1
                continue
            within.append(piece)
            expects_key, key = piece == "{", ""
        elif piece in ("}", "]"):
            within = within[:-1]
            expects_key, key = False, ""
        elif piece == ",":
            expects_key, key = bool(within) and within[-1] == "{", ""
        elif piece == ":":
            expects_key = False
        elif expects_key and piece.startswith('"'):
            key = _decoded(piece)
        elif not piece.isspace():
            piece = _value(key, piece)
        yield piece


def _value(key: str, piece: str) -> str:
    if key and is_sensitive(key):
        return piece if piece in ("null", '""', f'"{MASKED}"') else f'"{MASKED}"'
    if not piece.startswith('"') or not _is_suspect(piece):
        return piece
    inner = _decoded(piece)
    hidden = masked_document(inner) if inner.lstrip().startswith(("{", "[")) else masked_text(inner)
    return piece if hidden == inner else json.dumps(hidden, ensure_ascii=False)


def _decoded(piece: str) -> str:
    try:
        return str(json.loads(piece))
    except ValueError:
        return piece.strip('"')


def masked_fields(text: str) -> tuple[str, ...]:
    """The masked fields of a document, such as `headers.Authorization` and `body.password`."""
    if MASKED not in text:
        return ()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ("the request",)
    return tuple(dict.fromkeys(_paths(document, "")))


def _paths(value: object, path: str) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from _paths(inner, f"{path}.{name}" if path else str(name))
        case list():
            for inner in value:
                yield from _paths(inner, path)
        case str() if MASKED in value:
            yield path or "the request"
        case _:
            return
