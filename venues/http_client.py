"""The base of the clients that speak HTTP: one transport per client, this account's headers on its requests.

Knows no venue; what the headers are and what an answer means is each venue's own.
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
        self._http = Transport(endpoint.url, route.timeout)
        # Nobody knows what is behind an address from the config.
        self._really_paper = None if endpoint.custom else mode == "paper"

    async def aclose(self) -> None:
        await self._http.aclose()

    def _headers(self, method: str, path: str, body: bytes) -> Headers:  # noqa: ARG002 - what a venue may sign
        """What lets this account in, made when the request is sent."""
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
