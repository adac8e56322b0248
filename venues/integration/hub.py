"""Calls an integration hub's own API: list, get, retry and delete failed calls. One request per call.

The hub only queues a retry; the entry shows later how it ended. Must not know stores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from urllib.parse import quote, urlsplit

from venues.client import VenueError
from venues.credentials import Credentials
from venues.endpoint import check_base
from venues.http import Headers, Transport
from venues.message import Reply, Result
from venues.orders import NotSent, RateLimited, Rejected, Unknown

FIELD = "token"
MOST = 100  # entries per page
_ROOT = "/integrations/dlq"


class HubError(VenueError):
    """The hub did not answer as expected; `str()` says how, without secrets."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An entry as the hub shows it, its request as JSON text."""

    id: str
    columns: Mapping[str, object]

    @property
    def attempts(self) -> int:
        value = self.columns.get("attempts")
        return int(value) if isinstance(value, Decimal | int) else 0

    @property
    def last_retry_at(self) -> str:
        value = self.columns.get("lastRetryAt")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class FailedPage:
    items: tuple[Failed, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Queued:
    """The hub will try again, under this key."""

    key: str | None


COLUMNS = (
    "id",
    "providerId",
    "providerName",
    "originalRequest",
    "error",
    "attempts",
    "tenantId",
    "createdAt",
    "lastRetryAt",
)


class Hub:
    def __init__(self, base_url: str, token: Credentials, timeout: float = 10.0) -> None:
        self.host = urlsplit(check_base(base_url)).netloc
        self._token = token
        self._transport = Transport(base_url, timeout)

    async def list(
        self, *, provider: str | None = None, since: datetime | None = None, page: int = 1, limit: int = MOST
    ) -> FailedPage:
        """Return a page of entries. Raises HubError."""
        params = {"page": str(page), "limit": str(max(1, min(limit, MOST)))}
        if provider is not None:
            params["providerId"] = provider
        if since is not None:
            params["since"] = since.isoformat()
        body = self._good(await self._ask("GET", "", params), "list", 200)
        items, total = body.get("items"), body.get("total")
        if not isinstance(items, list) or not isinstance(total, Decimal):
            raise HubError(f"{self.host}: the hub's list cannot be read")
        return FailedPage(tuple(_failed(item, self.host) for item in items), int(total))

    async def get(self, entry_id: str) -> Failed | None:
        """Return the entry; None if the hub no longer has it. Raises HubError."""
        reply = await self._ask("GET", f"/{quote(entry_id, safe='')}")
        if isinstance(reply, Reply) and reply.status == 404:
            return None
        return _failed(self._good(reply, "entry", 200), self.host)

    async def retry(self, entry_id: str) -> Queued | Rejected | RateLimited | NotSent | Unknown:
        reply = await self._send("POST", f"/{quote(entry_id, safe='')}/retry")
        outcome = _refusal(reply)
        if outcome is not None:
            return outcome
        body = reply.json() if isinstance(reply, Reply) else None
        key = (body or {}).get("idempotencyKey")
        return Queued(key if isinstance(key, str) else None)

    async def retry_all(self, provider: str | None = None) -> int:
        """Return how many entries the hub queued: all it holds now, also those not shown here. Raises HubError."""
        asked = {} if provider is None else {"providerId": provider}
        reply = await self._send("POST", "/retry-all", json.dumps(asked).encode())
        queued = self._good(reply, "retry-all", 202).get("queued")
        return int(queued) if isinstance(queued, Decimal) else 0

    async def delete(self, entry_id: str) -> bool:
        """Return False if the hub no longer had it. Raises HubError."""
        reply = await self._send("DELETE", f"/{quote(entry_id, safe='')}")
        if isinstance(reply, Reply) and reply.status == 404:
            return False
        if isinstance(reply, Reply) and reply.status == 204:
            return True
        raise HubError(f"{self.host}: delete: {_told(reply)}")

    async def _ask(self, method: str, path: str, params: Mapping[str, str] | None = None) -> Result:
        return await self._transport.ask(method, _ROOT + path, headers=self._headers(), params=params)

    async def _send(self, method: str, path: str, body: bytes = b"") -> Result:
        return await self._transport.request(method, _ROOT + path, headers=self._headers(), body=body)

    def _headers(self) -> Headers:
        return Headers({"Authorization": f"Bearer {self._token.reveal(FIELD)}"})

    def _good(self, reply: Result, what: str, status: int) -> Mapping[str, object]:
        if isinstance(reply, Reply) and reply.status == status:
            body = reply.json()
            if body is not None:
                return body
            raise HubError(f"{self.host}: {what}: the answer is not a JSON object")
        raise HubError(f"{self.host}: {what}: {_told(reply)}")

    async def aclose(self) -> None:
        await self._transport.aclose()


def _refusal(reply: Result) -> Rejected | RateLimited | NotSent | Unknown | None:
    """Return the outcome unless the hub accepted the retry; None if it did."""
    if not isinstance(reply, Reply):
        return reply
    if reply.status in (200, 202):
        return None
    if reply.status == 429:
        return RateLimited(reply.retry_after())
    if 400 <= reply.status < 500 and reply.status != 408:
        return Rejected(f"HTTP {reply.status}", "the hub refused the retry")
    return Unknown(f"HTTP {reply.status}")


def _told(reply: Result) -> str:
    if not isinstance(reply, Reply):
        return reply.why
    return "the token was refused" if reply.status in (401, 403) else f"HTTP {reply.status}"


def _failed(item: object, host: str) -> Failed:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        raise HubError(f"{host}: an entry of the hub has no id")
    columns = {name: item.get(name) for name in COLUMNS}
    columns["originalRequest"] = spelled(item.get("originalRequest"))
    return Failed(item["id"], columns)


def spelled(value: object) -> str:
    """Return a JSON value as text that keeps the digits of its numbers."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(str(name))}: {spelled(held)}" for name, held in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(spelled, value)) + "]"
        case Decimal():
            return str(value)
        case _:
            return json.dumps(value)
