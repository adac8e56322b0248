"""Chooses the address of a venue from its own addresses, the mode and the route. Pure.

A custom address is on loopback unless the route allows more, and never the other mode's. Must not read the
environment.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from venues.client import NoPaperMode, Route, VenueError, WrongMode
from venues.orders import Mode

_LABEL = r"[0-9a-z](?:[0-9a-z-]{0,61}[0-9a-z])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*|[0-9a-f:.]*:[0-9a-f:.]*")


class BadEndpoint(VenueError):
    """An address that is refused; the message says why."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """A venue's own addresses per mode, the default first; no paper address means no paper mode."""

    paper: tuple[str, ...]
    live: tuple[str, ...]

    def of(self, mode: Mode) -> tuple[str, ...]:
        return self.paper if mode == "paper" else self.live


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The chosen address. `url` has no trailing slash; `host` is what the operator sees."""

    url: str
    host: str
    custom: bool


def choose(name: str, hosts: Hosts, mode: Mode, route: Route) -> Endpoint:
    if not hosts.of(mode):
        raise NoPaperMode(f"{name} has no {mode} mode: nothing was sent")
    if route.endpoint is None:
        url = hosts.of(mode)[0]
        return Endpoint(url, urlsplit(url).netloc, custom=False)
    return _custom(hosts, mode, text=route.endpoint, allowed=route.allow_custom_endpoint)


def choose_data(data: str, endpoint: Endpoint, route: Route) -> Endpoint:
    """Choose where quotes are asked for: the route's, else where orders go if that is ours, else `data`, the venue's.

    So a stub endpoint never leads to a request to the real data host.
    """
    if route.data_endpoint is not None:
        nowhere = Hosts(paper=(), live=(data,))
        return _custom(nowhere, "live", text=route.data_endpoint, allowed=route.allow_custom_endpoint)
    return endpoint if endpoint.custom else Endpoint(data, urlsplit(data).netloc, custom=False)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_loopback
    return address == ipaddress.IPv6Address(1)


def check_base(url: str, key: str = "base_url") -> str:
    """Return the url if it is https, or http on loopback. Messages leave it out: it may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadEndpoint(f"{key}: not a plain http(s)://host[:port][/path]") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not url.isascii():
        raise BadEndpoint(f"{key}: not a plain http(s)://host[:port][/path]")
    if "@" in url or parts.query or parts.fragment or any(character <= " " for character in url):
        raise BadEndpoint(f"{key}: scheme, host, port and path only")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise BadEndpoint(f"{key} {parts.hostname}: plain http only on loopback")
    return url


def _custom(hosts: Hosts, mode: Mode, *, text: str, allowed: bool) -> Endpoint:
    parts = _split(text)
    host = parts.hostname or ""
    other: Mode = "live" if mode == "paper" else "paper"
    if host in {urlsplit(url).hostname for url in hosts.of(other)}:
        raise WrongMode(f"endpoint {host} is the venue's {other} address, but {mode} was asked for")
    if not is_loopback(host):
        if not allowed and host not in {urlsplit(url).hostname for url in hosts.of(mode)}:
            raise BadEndpoint(f"endpoint {host}: only loopback, unless allow_custom_endpoint = true")
        if parts.scheme != "https":
            raise BadEndpoint(f"endpoint {host}: plain http only on loopback")
    return Endpoint(f"{parts.scheme}://{parts.netloc}", parts.netloc, custom=True)


def _split(text: str) -> SplitResult:
    """Split the address. Messages leave out the text: it may hold a password."""
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise BadEndpoint("endpoint: not a plain http(s)://host[:port]")
    try:
        parts = urlsplit(text.lower())
        port = parts.port
    except ValueError:
        raise BadEndpoint("endpoint: not a plain http(s)://host[:port]") from None
    if "@" in text:
        raise BadEndpoint("endpoint: a user or password in the address is refused")
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(parts.hostname or "") or port == 0:
        raise BadEndpoint("endpoint: not a plain http(s)://host[:port]")
    if parts.path not in ("", "/") or "?" in text or "#" in text:
        raise BadEndpoint("endpoint: scheme, host and port only, no path, query or fragment")
    return parts
