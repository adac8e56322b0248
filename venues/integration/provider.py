"""Sends a stored call to its provider once more, with fresh authorization and an idempotency key.

One request per `send`; the caller decides about another try. Must not know stores.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from venues.credentials import Credentials
from venues.endpoint import check_base
from venues.http import Headers, Transport
from venues.integration.call import StoredCall
from venues.message import Reply
from venues.orders import NotSent, RateLimited, Rejected, Unknown

FIELD = "authorization"
KEY_HEADER = "Idempotency-Key"
_SHOWN = 200  # characters of a refusal's body that are shown


@dataclass(frozen=True, slots=True)
class Delivered:
    """The provider answered with a success."""

    status: int


@dataclass(frozen=True, slots=True)
class ProviderFailed:
    """The provider itself says that it failed (5xx): worth another try, as the hub does."""

    status: int


Answer = Delivered | Rejected | RateLimited | ProviderFailed | NotSent | Unknown
_OF_GATEWAYS = frozenset({502, 504, *range(520, 600)})  # whoever stands in between does not know what became of it


@dataclass(frozen=True, slots=True)
class ProviderRoute:
    """How to reach a provider; set from the config, never from a stored request."""

    base_url: str
    timeout: float = 10.0
    auth_header: str = "Authorization"
    key_header: str = KEY_HEADER


class Provider:
    def __init__(self, name: str, route: ProviderRoute, authorization: Credentials | None) -> None:
        self.name = name
        self.timeout = route.timeout
        self.key_digest = "" if authorization is None else authorization.digest
        self.host = urlsplit(check_base(route.base_url)).netloc
        self._route = route
        self._authorization = authorization
        self._transport = Transport(route.base_url, route.timeout, says_json=False, status_counts=True)

    async def send(self, call: StoredCall, key: str) -> Answer:
        ours = {self._route.auth_header.lower(), self._route.key_header.lower()}
        added = {self._route.key_header: key}
        if self._authorization is not None:
            added[self._route.auth_header] = self._authorization.reveal(FIELD)
        if (problem := Headers(added).unsendable()) is not None:
            return NotSent(problem)
        headers = [(name, value) for name, value in call.headers if name.lower() not in ours]
        headers += added.items()
        reply = await self._transport.exactly(call.method, call.path, headers=headers, body=call.body)
        return self._read(reply) if isinstance(reply, Reply) else reply

    def _read(self, reply: Reply) -> Answer:
        status = reply.status
        if 200 <= status < 300:
            return Delivered(status)
        if status == 429:
            return RateLimited(reply.retry_after())
        if status >= 500:
            return Unknown(f"HTTP {status}") if status in _OF_GATEWAYS else ProviderFailed(status)
        said = "redirects are not followed" if status < 400 else self._said(reply)
        return Rejected(f"HTTP {status}", said)

    def _said(self, reply: Reply) -> str:
        """Return the provider's text with our authorization masked."""
        if reply.headers.get("content-encoding", "identity") != "identity":
            return "its text is compressed"  # the stored call may ask for that
        text = " ".join(reply.body[: 4 * _SHOWN].decode("utf-8", "replace").split())
        if self._authorization is not None:
            secret = self._authorization.reveal(FIELD)
            for part in {secret, secret.rpartition(" ")[2]} - {""}:
                text = text.replace(part, "[masked]")
        return text[:_SHOWN]

    async def aclose(self) -> None:
        await self._transport.aclose()
