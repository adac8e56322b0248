"""Reads the body of a stored call: text, JSON, a form or base64, as its content type and its encodings say. Pure.

Raises Unsendable where the stored body and what its headers say of it cannot both be true.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import zlib

from venues.integration.stored_json import Unsendable, decoded, unsent, urlencoded

_TEXT = frozenset(("", "utf8", "utf-8", "text", "plain", "none"))
_FORM = "application/x-www-form-urlencoded"
_MOST_UNPACKED = 1 << 26


def read_body(raw: str, encoding: object, headers: dict[str, str]) -> tuple[bytes, bool]:
    """The bytes of a stored body, and whether they are JSON that no header calls so. Header names are lower-case."""
    content = headers.get("content-type", "")
    kind, charset = _kind(content)
    value = decoded(raw, unique=kind == _FORM)  # of JSON the stored text is sent
    body, is_json = _bytes(raw, value, encoding, kind=kind, charset=charset, length=headers.get("content-length"))
    _check_length(value, body, headers.get("content-length"))
    _check_coding(body, headers.get("content-encoding", ""), is_base64=_is_base64(encoding))
    return body, is_json and not content


def _bytes(
    raw: str, value: object, encoding: object, *, kind: str, charset: str, length: str | None
) -> tuple[bytes, bool]:
    if value is None:
        return b"", False
    if _is_base64(encoding):
        return _unpacked(value), False
    if not isinstance(encoding, str | None) or (encoding or "").lower() not in (*_TEXT, "json"):
        raise unsent("its bodyEncoding is not known: base64, utf8 and json are")
    if type(value) is str:
        if (encoding or "").lower() == "json":
            return _encoded(raw, "utf-8"), True
        return _text(value, kind, charset, length), False
    if kind == _FORM:
        if not isinstance(value, dict):
            raise unsent("its body is declared a form but stored as something else")
        return _encoded(urlencoded(value, "its form"), "ascii"), False
    if kind and not _is_json(kind):
        raise unsent(f"its body is stored as JSON but declared {kind}: how it was sent is not stored")
    return _encoded(raw, charset), True


def _text(value: str, kind: str, charset: str, length: str | None) -> bytes:
    """A stored text as it was sent. A JSON value that is a string is stored without its quotes."""
    plain = _encoded(value, charset)
    if not value or not _is_json(kind) or _holds_json(value):
        return plain
    quoted = _encoded(json.dumps(value, ensure_ascii=False), charset)
    fitting = [one for one in (plain, quoted) if length is not None and str(len(one)) == length.strip()]
    if len(fitting) != 1:
        raise unsent("its body is text declared as JSON: whether it was sent in quotes is not stored")
    return fitting[0]


def _holds_json(text: str) -> bool:
    """Whether the text itself is a JSON object or list, and so what was sent."""
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _kind(content_type: str) -> tuple[str, str]:
    """(the type without its parameters, the charset)."""
    kind, _, rest = content_type.partition(";")
    named = [part.partition("=") for part in rest.split(";")]
    charsets = [value.strip().strip('"') for name, _, value in named if name.strip().lower() == "charset"]
    return kind.strip().lower(), charsets[0] if charsets else "utf-8"


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def _is_base64(encoding: object) -> bool:
    return isinstance(encoding, str) and encoding.lower() == "base64"


def _unpacked(value: object) -> bytes:
    if type(value) is not str:
        raise Unsendable("its body is declared base64 but is not text")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Unsendable("its body is declared base64 but is not") from None


def _encoded(text: str, charset: str) -> bytes:
    try:
        codec = codecs.lookup(charset).name
        return text.encode(codec)
    except (LookupError, UnicodeError, ValueError):
        raise unsent(f"its body cannot be written as {charset[:40]}") from None


def _check_length(value: object, body: bytes, told: str | None) -> None:
    """A JSON value may be stored with other blanks than it was sent with; a text may not."""
    if told is not None and (value is None or type(value) is str) and told.strip() != str(len(body)):
        raise unsent(f"its Content-Length is {told.strip()[:20]} but the stored body has {len(body)} bytes")


def _check_coding(body: bytes, told: str, *, is_base64: bool) -> None:
    coding = told.strip().lower()
    if coding in ("", "identity"):
        return
    if not is_base64 or not _is_coded(body, coding):
        raise unsent(f"Content-Encoding {coding[:40]}, which the stored body does not have or cannot be checked for")


def _is_coded(body: bytes, coding: str) -> bool:
    try:
        match coding:
            case "gzip" | "x-gzip":
                return body[:2] == b"\x1f\x8b" and _unpacks(zlib.decompressobj(wbits=31), body)
            case "deflate":
                return _unpacks(zlib.decompressobj(), body)
            case _:
                return False
    except zlib.error:
        return False


def _unpacks(unpacking: zlib._Decompress, body: bytes) -> bool:
    unpacking.decompress(body, _MOST_UNPACKED)
    return unpacking.eof
