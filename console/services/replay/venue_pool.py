"""The venue clients of one session: built from config and credentials, opened once each, closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from console.settings.config import VenueConfig
from venues import Credentials, Mode, Route, UnknownVenue, VenueClient, connect, has_paper, venue_profile
from venues.client import NoPaperMode, Profile

CredentialSource = Callable[[str, str, Mode], Credentials]  # (venue's name, its kind, mode)


class VenuePool:
    """A venue's name is the store's `venue_name`; its kind is what the client is built for."""

    def __init__(self, venues: Mapping[str, VenueConfig], credentials: CredentialSource) -> None:
        self._venues = venues
        self._credentials = credentials
        self._clients: dict[tuple[str, Mode], VenueClient] = {}
        self._opening = asyncio.Lock()

    def kind(self, name: str) -> str:
        settings = self._venues.get(name)
        return settings.type if settings and settings.type else name

    def settings(self, name: str) -> VenueConfig:
        return self._venues.get(name) or self._venues.get(self.kind(name)) or VenueConfig()

    def profile(self, name: str) -> Profile:
        """Raises UnknownVenue or MissingExtra."""
        return venue_profile(self.kind(name))

    def check(self, name: str, mode: Mode) -> None:
        """Raises UnknownVenue, or NoPaperMode where paper was asked of a venue without it."""
        if not name:
            raise UnknownVenue("the entry names no venue: say --venue")
        if mode == "paper" and not has_paper(self.kind(name)):
            raise NoPaperMode(f"{name} has no paper mode: nothing is sent")

    def rate(self, name: str) -> int | None:
        return self.settings(name).rate_per_minute or self.profile(name).rate_per_minute

    def window(self, name: str) -> float:
        """Seconds after a send for which "not found" proves nothing."""
        profile = self.profile(name)
        stated = self.settings(name).visibility_seconds
        visibility = profile.visibility if stated is None else stated
        return max(visibility, profile.arrival_bound or 0.0)

    async def client(self, name: str, mode: Mode) -> VenueClient:
        """Opened and kept. Raises VenueError."""
        async with self._opening:
            known = self._clients.get((name, mode))
            if known is not None:
                return known
            self.check(name, mode)
            kind, settings = self.kind(name), self.settings(name)
            client = connect(kind, mode, self._credentials(name, kind, mode), self._route(settings, mode))
            await client.open()
            self._clients[name, mode] = client
            return client

    @staticmethod
    def _route(settings: VenueConfig, mode: Mode) -> Route:
        return Route(
            timeout=settings.timeout,
            endpoint=settings.paper_endpoint if mode == "paper" else settings.live_endpoint,
            allow_custom_endpoint=settings.allow_custom_endpoint,
            rate_per_minute=settings.rate_per_minute,
            visibility_seconds=settings.visibility_seconds,
        )

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()
