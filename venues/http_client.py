"""The base of the clients that use HTTP: one transport per client, the account's headers on each request.

Must not know what a venue's headers or answers are.
"""

from __future__ import annotations

from collections.abc import Mapping

from venues.client import AccountClient, Profile, Route
from venues.credentials import Credentials
from venues.endpoint import Endpoint
from venues.http import Transport
from venues.message import NO_HEADERS, Headers, Result
from venues.orders import Mode, Prepared


class HttpClient(AccountClient):
    def __init__(
        self, profile: Profile, mode: Mode, *, endpoint: Endpoint, credentials: Credentials, route: Route
    ) -> None:
        super().__init__(profile.tuned(route), mode, endpoint.host)
        self._credentials = credentials
        self.key_digest = credentials.digest
        self._http = Transport(endpoint.url, route.timeout)
        # An address from the config does not show whether it is paper.
        self._really_paper = None if endpoint.custom else mode == "paper"

    async def aclose(self) -> None:
        await self._http.aclose()

    def _headers(self, method: str, path: str, body: bytes) -> Headers:  # noqa: ARG002 - for venues that sign them
        """Return the headers that authorize a request; called when it is sent."""
        return NO_HEADERS

    async def _request(
        self, prepared: Prepared, *, body: bytes | None = None, params: Mapping[str, str] | None = None
    ) -> Result:
        """Send a prepared request, once; `body` replaces the stored one."""
        method, path, body = prepared.method, prepared.path, prepared.body if body is None else body
        return await self._http.request(
            method, path, headers=self._headers(method, path, body), body=body, params=params
        )

    async def _get(self, path: str, **params: str) -> Result:
        return await self._http.ask("GET", path, headers=self._headers("GET", path, b""), params=params)
