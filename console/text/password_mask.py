"""Hides the password of a connection string, also of one that is still being typed. Keeps every character's place."""

from __future__ import annotations

import re

_DOT = "•"
_SCHEME = re.compile(r"\s*(?:postgres(?:ql)?(?:\+\w*)?:/{0,2}|[A-Za-z][\w+.-]*://)", re.I)
_FILE = re.compile(r"\s*(?:[/.~]|sqlite[\w+]*:)", re.I)
_NAME = r"(?:password|passwd|passwor|pasword|pwd|passphrase|secret|_key)\s*=\s*"
_IN_WORDS = re.compile(_NAME + r"(?P<secret>'(?:\\.|[^'\\])*\\?'?|(?:\\.|[^\\\s])*\\?)", re.I | re.S)
_IN_URI = re.compile(_NAME + r"(?P<secret>[^&]*)", re.I | re.S)


def masked(text: str) -> str:
    """The text with a dot for each character of a password: between `user:` and `@`, and behind `password=`.

    While no @ has been typed, what follows the colon may be a password as well as a port: it is hidden.
    """
    words = _IN_URI if _SCHEME.match(text) else _IN_WORDS
    hidden = [found.span("secret") for found in words.finditer(text)]
    if not _FILE.match(text):
        hidden.append(_login(text))
    for start, end in hidden:
        text = text[:start] + _DOT * (end - start) + text[end:]
    return text


def _login(text: str) -> tuple[int, int]:
    scheme = _SCHEME.match(text)
    begin = scheme.end() if scheme else 0
    words = re.compile(r"\s*\w+\s*=").match(text, begin)
    colon, at = text.find(":", begin), text.rfind("@")
    if colon < 0 or (words and at < colon):
        return 0, 0
    if at > colon:
        return colon + 1, at
    user_is_over = "@" in text[begin:colon] or text.startswith("[", begin)  # the address of a host follows
    return (0, 0) if user_is_over else (colon + 1, len(text))
