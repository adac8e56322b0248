"""Calls an integration hub's own API: list, get, retry and delete failed calls. One request per call.

The hub only queues a retry; the entry shows later how it ended. Only answers in the hub's own form are believed: a
gateway before it answers too. Must not know stores.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
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

    wait: float | None = None  # seconds that the hub asks to wait, where it is busy


class NotFound(HubError):
    """A 404, which a gateway may have sent: only the hub's list can tell whether the entry is gone."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An entry as the hub shows it, its request as JSON text; None where it does not tell that, as lists may not."""

    id: str
    columns: Mapping[str, object]

    @property
    def attempts(self) -> int:
        value = self.columns.get("attempts")
        return int(value) if isinstance(value, Decimal | int) else 0

    @property
    def last_retry_at(self) -> str:
        value = self.columns.get("lastRetryAt")
        return "" if value is None else str(value)

    @property
    def mark(self) -> str:
        """What changes with every retry that has ended."""
        return f"{self.attempts}|{self.last_retry_at}"


@dataclass(frozen=True, slots=True)
class FailedPage:
    items: tuple[Failed, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Queued:
    """The hub will try again, under this key."""

    key: str | None


@dataclass(frozen=True, slots=True)
class AlreadyQueued:
    """The hub holds a retry of this entry already: whose, and how it ends, is not known."""


Asked = Queued | AlreadyQueued | Rejected | RateLimited | NotSent | Unknown | NotFound
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
    """`renewed` reads the token anew; it is asked for when the hub refuses the one in use."""

    def __init__(
        self,
        base_url: str,
        token: Credentials,
        timeout: float = 10.0,
        *,
        renewed: Callable[[], Credentials | None] = lambda: None,
    ) -> None:
        self.host = urlsplit(check_base(base_url)).netloc
        self._token = token
        self._renewed = renewed
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
        if not isinstance(items, list) or not isinstance(total, Decimal) or total < len(items):
            raise HubError(f"{self.host}: the hub's list cannot be read")
        if body.get("page") != page or not isinstance(body.get("limit"), Decimal):
            raise HubError(f"{self.host}: the answer is not page {page} of the hub's list")
        return FailedPage(tuple(_failed(item, self.host) for item in items), int(total))

    async def get(self, entry_id: str) -> Failed:
        """Return the entry. Raises NotFound, which is no proof that it is gone, or HubError."""
        reply = await self._ask("GET", f"/{quote(entry_id, safe='')}")
        if isinstance(reply, Reply) and reply.status == 404:
            raise NotFound(f"{self.host}: entry: HTTP 404")
        found = _failed(self._good(reply, "entry", 200), self.host)
        if found.id != entry_id:
            raise HubError(f"{self.host}: the hub answered with another entry")
        return found

    async def retry(self, entry_id: str) -> Asked:
        reply = await self._send("POST", f"/{quote(entry_id, safe='')}/retry")
        if not isinstance(reply, Reply):
            return reply
        body = reply.json()
        match reply.status:
            case 200 | 202 if body is not None and _is_queued(body, entry_id):
                key = body.get("idempotencyKey")
                return Queued(key if isinstance(key, str) else None)
            case 200 | 202:
                return Unknown("the answer to the retry is not the hub's")
            case 401 | 403:
                return NotSent("the hub refused the token: nothing was queued")
            case 404:
                return NotFound(f"{self.host}: retry: HTTP 404")
            case 409:
                return AlreadyQueued()
            case 429:
                return RateLimited(reply.retry_after())
            case status if 400 <= status < 500 and status != 408 and body is not None:
                return Rejected(f"HTTP {status}", "the hub refused the retry")
            case status:
                return Unknown(f"HTTP {status}")

    async def retry_all(self, provider: str | None = None) -> int:
        """Return how many entries the hub queued: all it holds now, also those not shown here. Raises HubError."""
        asked = {} if provider is None else {"providerId": provider}
        reply = await self._send("POST", "/retry-all", json.dumps(asked).encode())
        queued = self._good(reply, "retry-all", 202).get("queued")
        return int(queued) if isinstance(queued, Decimal) else 0

    async def delete(self, entry_id: str) -> None:
        """Delete the entry. Raises NotFound, which is no proof that it is gone, or HubError."""
        reply = await self._send("DELETE", f"/{quote(entry_id, safe='')}")
        if isinstance(reply, Reply) and reply.status == 204:
            return
        kind = NotFound if isinstance(reply, Reply) and reply.status == 404 else HubError
        raise self._problem(reply, "delete", kind)

    async def _ask(self, method: str, path: str, params: Mapping[str, str] | None = None) -> Result:
        reply = await self._transport.ask(method, _ROOT + path, headers=self._headers(), params=params)
        if await self._has_newer_token(reply):
            return await self._transport.ask(method, _ROOT + path, headers=self._headers(), params=params)
        return reply

    async def _send(self, method: str, path: str, body: bytes = b"") -> Result:
        reply = await self._transport.request(method, _ROOT + path, headers=self._headers(), body=body)
        if await self._has_newer_token(reply):  # what was refused for its token was not done
            return await self._transport.request(method, _ROOT + path, headers=self._headers(), body=body)
        return reply

    async def _has_newer_token(self, reply: Result) -> bool:
        """Whether the token was refused and another one is set by now."""
        if not isinstance(reply, Reply) or reply.status not in (401, 403):
            return False
        try:
            fresh = await asyncio.to_thread(self._renewed)
        except VenueError:
            return False
        if fresh is None or fresh.digest == self._token.digest:
            return False
        self._token = fresh
        return True

    def _headers(self) -> Headers:
        return Headers({"Authorization": f"Bearer {self._token.reveal(FIELD)}"})

    def _good(self, reply: Result, what: str, status: int) -> Mapping[str, object]:
        if isinstance(reply, Reply) and reply.status == status:
            body = reply.json()
            if body is not None:
                return body
            raise HubError(f"{self.host}: {what}: the answer is not a JSON object")
        raise self._problem(reply, what)

    def _problem(self, reply: Result, what: str, kind: type[HubError] = HubError) -> HubError:
        problem = kind(f"{self.host}: {what}: {_told(reply)}")
        if isinstance(reply, Reply) and reply.status == 429:
            problem.wait = reply.retry_after() or 1.0
        return problem

    async def aclose(self) -> None:
        await self._transport.aclose()


def _is_queued(body: Mapping[str, object], entry_id: str) -> bool:
    return body.get("status") == "queued" and body.get("dlqId", entry_id) == entry_id


def _told(reply: Result) -> str:
    if not isinstance(reply, Reply):
        return reply.why
    return "the token was refused" if reply.status in (401, 403) else f"HTTP {reply.status}"


def _failed(item: object, host: str) -> Failed:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        raise HubError(f"{host}: an entry of the hub has no id")
    if not isinstance(item.get("attempts"), Decimal):
        raise HubError(f"{host}: an entry of the hub does not give its attempts")
    columns = {name: item.get(name) for name in COLUMNS}
    request = item.get("originalRequest")
    columns["originalRequest"] = None if request is None else spelled(request)
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
