"""Who may come in: Host, token, cookie and Origin of a request. Pure, but for the secrets it makes.

A page of any other site, another user of this machine, and a name that was pointed at this address stay outside.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

_HOST = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?")
_TARGET = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
COOKIE = "dlq-console"
WRONG_HOST = "this host name is not served here\n"


@dataclass(frozen=True, slots=True)
class Door:
    """The secrets of one server: the token of the address that is printed, the path it leads to, that path's cookie."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    path: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}/", repr=False)

    def is_token(self, given: Sequence[str]) -> bool:
        return len(given) == 1 and _same(given[0], self.token)

    def is_inside(self, path: str, cookie: str | None) -> bool:
        return path.startswith(self.path) and cookie is not None and _same(cookie, self.cookie)


def is_our_host(given: Sequence[str]) -> bool:
    """The one Host header names this machine, with any port: a tunnel may have its own."""
    return len(given) == 1 and _HOST.fullmatch(given[0]) is not None


def is_our_target(target: str) -> bool:
    """A host in the request line itself, as a proxy gets it, names this machine too: it outranks Host."""
    named = _TARGET.match(target)
    return named is None or is_our_host([named[1]])


def is_own_origin(given: Sequence[str], host: str) -> bool:
    """The one Origin header names the page that this very address served."""
    return len(given) == 1 and given[0] == f"http://{host}"


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())
