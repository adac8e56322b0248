"""A request as ccxt signed it: captures it, reads its numbers, removes its secrets, tells paper from live.

Must not know ccxt's objects, nor send anything.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from venues.http import Headers

_SHORTEST_SECRET = 4  # characters; blanking shorter ones would garble every request
_LONGEST = 5.0  # seconds; only a call that waits for something other than a request takes so long
_NO_ID = re.compile(r"(?:[=/:]|\")None\b")


@dataclass(frozen=True, slots=True)
class Wire:
    """One signed request; its repr leaves out url, headers and body, as they carry the signature."""

    method: str
    url: str = field(repr=False)
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def path(self) -> str:
        """Path and query, as they are sent."""
        return self.url[len(self.origin) :] or "/"

    @property
    def digest(self) -> str:
        parts = (self.method.encode(), self.url.encode(), self.body)
        return hashlib.sha256(b"\0".join(parts)).hexdigest()


class Captured(BaseException):
    """Carries a request out of ccxt unsent. A BaseException, because ccxt swallows Exceptions."""

    def __init__(self, wire: Wire) -> None:
        super().__init__("captured")
        self.wire = wire


def run(call: Callable[[], Coroutine[Any, Any, object]]) -> Wire | None:
    """Run the call up to its first request and return that; None if it ends without one.

    Uses an event loop in another thread, because `prepare` is not a coroutine and ccxt may gather tasks.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, asyncio.run, _first_request(call)).result()


async def _first_request(call: Callable[[], Coroutine[Any, Any, object]]) -> Wire | None:
    try:
        async with asyncio.timeout(_LONGEST):
            await call()
    except Captured as captured:
        return captured.wire
    except TimeoutError:
        return None
    return None


def payload(wire: Wire) -> str:
    """Return the body as text; some exchanges encode it as base64."""
    body = wire.body.decode(errors="replace")
    return _unpacked(body) or body


def mentions(wire: Wire, token: str) -> bool:
    return token in wire.path or token in payload(wire)


def aims_at_nothing(wire: Wire) -> bool:
    """Tell whether ccxt wrote `None` where the order id belongs."""
    return _NO_ID.search(wire.path) is not None or _NO_ID.search(payload(wire)) is not None


def numbers(wire: Wire) -> Counter[Decimal]:
    """Return every number in query and body, exactly, and how often it stands there."""
    texts = [value for _, value in parse_qsl(urlsplit(wire.url).query)]
    return Counter(_numbers([*texts, *_leaves(payload(wire))]))


def fields(wire: Wire) -> dict[str, str]:
    """Return what the request says by name: method, path, and every leaf of query and body, as text."""
    parts = urlsplit(wire.url)
    named = {"method": wire.method, "path": f"{wire.host}{parts.path}"}
    for mark, text in (("?", parts.query), ("", payload(wire))):
        held = _json(text)
        leaves = _named("", _texts(text) if held is None else held)
        named |= {f"{mark}{name}": value for name, value in leaves}
    return named


def bare_path(wire: Wire) -> str:
    return urlsplit(wire.url).path


def number_of(text: str) -> Decimal | None:
    """Return the size of the number in a field: without its sign or a percent sign; None if it is no number."""
    try:
        number = Decimal(text.removesuffix("%"))
    except InvalidOperation:
        return None
    return abs(number) if number.is_finite() else None


def blanked(text: str, secrets: Mapping[str, str]) -> str:
    """Return `text` with every secret replaced by its field's name in braces."""
    for name, value in secrets.items():
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, "{" + name + "}")
    return text


def unproven(wire: Wire, proof: tuple[str, ...], *, live_hosts: frozenset[str]) -> str | None:
    """Return why this request may be a live one; None if it is certainly paper."""
    match proof:
        case (header, value):
            headers = {name.lower(): wire.headers[name] for name in wire.headers}
            return None if headers.get(header.lower()) == value else f"the header {header} is not on the request"
        case (path,):
            return None if wire.path.startswith(path) else f"the request is not for {path}"
        case _:
            return f"{wire.host} is the live host" if wire.host in live_hosts else None


def _unpacked(text: str) -> str | None:
    """Return the JSON inside base64; None if the text is something else."""
    try:
        inner = base64.b64decode(text, validate=True).decode()
        return inner if isinstance(json.loads(inner), dict | list) else None
    except (binascii.Error, ValueError):
        return None


def _leaves(text: str) -> Iterator[str]:
    try:
        yield from _walk(json.loads(text, parse_float=str, parse_int=str))
    except ValueError:
        yield from (value for _, value in parse_qsl(text))


def _walk(value: object) -> Iterator[str]:
    match value:
        case dict():
            yield from (leaf for inner in value.values() for leaf in _walk(inner))
        case list():
            yield from (leaf for inner in value for leaf in _walk(inner))
        case str():
            yield value


def _numbers(texts: Iterable[str]) -> Iterator[Decimal]:
    return (number for text in texts if (number := number_of(text)) is not None)


def _texts(form: str) -> dict[str, object]:
    pairs = parse_qsl(form, keep_blank_values=True)
    return {f"{name}.{place}" if place else name: value for place, name, value in _counted(pairs)}


def _counted(pairs: list[tuple[str, str]]) -> Iterator[tuple[int, str, str]]:
    """Number the values of a name that stands in a form more than once."""
    seen: dict[str, int] = {}
    for name, value in pairs:
        yield seen.get(name, 0), name, value
        seen[name] = seen.get(name, 0) + 1


def _json(text: str) -> object:
    """Return the object or list in a text; None if it holds neither."""
    try:
        held = json.loads(text, parse_float=str, parse_int=str) if text[:1] in ("{", "[") else None
    except ValueError:
        return None
    return held if isinstance(held, dict | list) else None


def _named(path: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            yield from (leaf for key, inner in value.items() for leaf in _named(f"{path}.{key}", inner))
        case list():
            yield from (leaf for place, inner in enumerate(value) for leaf in _named(f"{path}.{place}", inner))
        case str() if (inner := _json(value)) is not None:  # some exchanges take an object as text
            yield from _named(path, inner)
        case _:
            yield path, value if isinstance(value, str) else json.dumps(value)
