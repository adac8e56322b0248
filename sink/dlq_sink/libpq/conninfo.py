"""Splits a connection string, a URI or `key=value` words, into keywords and values by libpq's rules.

No message repeats a piece of the string: a string that is split wrongly may show its password in any place.
"""

from __future__ import annotations

import re

from dlq_sink.error import BadTarget
from dlq_sink.libpq.keyword import KEYWORDS, unknown_keyword

_BLANK = " \t\n\r\f\v"
_ESCAPE = re.compile(r"%(..?|$)", re.S)
URI_HELP = "expected postgresql://user@host:port/database (percent-encode special characters of a password)"
_WORDS_HELP = "expected words like host=db1 dbname=trading user=ops ('…' around a value with blanks)"


def unreadable() -> BadTarget:
    return BadTarget(f"the DSN cannot be read: {URI_HELP}")


def parse_words(text: str) -> dict[str, str]:
    """`host=db1 dbname='my db'`: blanks around `=`, quotes and backslashes as libpq takes them; the last one counts."""
    pairs: dict[str, str] = {}
    at = 0
    while (at := _skip(text, at)) < len(text):
        end = at
        while end < len(text) and text[end] != "=" and text[end] not in _BLANK:
            end += 1
        key, at = text[at:end], _skip(text, end)
        if text[at : at + 1] != "=":
            raise BadTarget(f'the DSN has a word without "=": {_WORDS_HELP}')
        value, at = _word_value(text, _skip(text, at + 1))
        _store(pairs, key, value)
    return pairs


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _word_value(text: str, at: int) -> tuple[str, int]:
    quoted = text[at : at + 1] == "'"
    at += quoted
    value: list[str] = []
    while at < len(text):
        one = text[at]
        if one == "\\":
            value.append(text[at + 1 : at + 2])
            at += 2
            continue
        if one == "'" if quoted else one in _BLANK:
            return "".join(value), at + 1
        value.append(one)
        at += 1
    if quoted:
        raise BadTarget(f"the DSN has a quote that is not closed: {_WORDS_HELP}")
    return "".join(value), at


def parse_uri(rest: str) -> dict[str, str]:
    """What follows `postgresql://`. An empty part counts as left out."""
    pairs: dict[str, str] = {}
    login, rest = _login(rest)
    user, _, password = login.partition(":")
    hosts, ports, at = _hosts(rest)
    path, question, query = rest[at:].partition("?")
    # An unencoded @ behind the first slash is the end of a password that has a slash in it; nobody's database has a #.
    if "@" in path or "#" in path:
        raise unreadable()
    said = {"user": user, "password": password, "host": hosts, "port": ports, "dbname": path[1:]}
    pairs |= {key: _decoded(value) for key, value in said.items() if value}
    for pair in query.split("&") if question and query else ():
        key, equals, value = pair.partition("=")
        if not equals or "=" in value:
            raise unreadable()
        key, value = _decoded(key), _decoded(value)
        if (key, value) == ("ssl", "true"):
            key, value = "sslmode", "require"  # as JDBC says it
        _store(pairs, key, value)
    return pairs


def _login(rest: str) -> tuple[str, str]:
    """Splits at the last @ before the first slash: a password may hold an @, a host cannot."""
    login, at, _ = rest.partition("/")[0].rpartition("@")
    if "?" in login.partition(":")[0]:
        raise unreadable()
    return (login, rest[len(login) + 1 :]) if at else ("", rest)


def _hosts(rest: str) -> tuple[str, str, int]:
    """Hosts and ports, each separated by commas, and where the path or the query begins."""
    hosts: list[str] = []
    ports: list[str] = []
    at = 0
    while True:
        found = re.compile(r"(\[([^\]]*)\]|[^:/?,\[]*)(?::([^/?,]*))?(?=[,/?]|$)", re.S).match(rest, at)
        if found is None or found[2] == "":
            raise BadTarget(f"the DSN's host or port cannot be read: {URI_HELP}")
        hosts.append(found[1] if found[2] is None else found[2])
        ports.append(found[3] or "")
        at = found.end()
        if rest[at : at + 1] != ",":
            break
        at += 1
    return ",".join(hosts), ",".join(ports), at


def _decoded(text: str) -> str:
    def byte(found: re.Match[str]) -> bytes:
        if not re.fullmatch(r"[0-9A-Fa-f]{2}", found[1]) or found[1] == "00":
            raise BadTarget("the DSN has a % that no two hex digits follow: write %25 for a percent sign")
        return bytes.fromhex(found[1])

    raw, last = b"", 0
    for found in _ESCAPE.finditer(text):
        raw += text[last : found.start()].encode() + byte(found)
        last = found.end()
    try:
        return (raw + text[last:].encode()).decode()
    except UnicodeDecodeError:
        raise BadTarget("a part of the DSN is not UTF-8") from None


def _store(pairs: dict[str, str], key: str, value: str) -> None:
    if key not in KEYWORDS:
        raise unknown_keyword(key)
    pairs[key] = value
