"""The venue clients of one session, one per venue, account and mode: opened once each, closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from console.settings.config import VenueConfig
from venues import (
    Credentials,
    Mode,
    Route,
    SecretSet,
    UnknownVenue,
    VenueClient,
    WrongAccount,
    connect,
    has_paper,
    venue_profile,
)
from venues.client import NoPaperMode, Profile

CredentialSource = Callable[[SecretSet], Credentials]


class VenueAccount(NamedTuple):
    """Where requests go that share a client, a pace and a breaker: a venue and an account of the entries there."""

    venue: str  # as the store or the operator names it
    account: str | None  # the entries' account_id; None: the venue's own credentials

    @property
    def label(self) -> str:
        return f"{self.venue} {self.account}" if self.account else self.venue


class VenuePool:
    """A venue's name is the store's `venue_name`; its kind is what the client is built for."""

    def __init__(self, venues: Mapping[str, VenueConfig], credentials: CredentialSource) -> None:
        self._venues = venues
        self._credentials = credentials
        self._clients: dict[tuple[VenueAccount, Mode], VenueClient] = {}
        self._opening = asyncio.Lock()

    def kind(self, name: str) -> str:
        settings = self._venues.get(name)
        return settings.type if settings and settings.type else name

    def settings(self, name: str) -> VenueConfig:
        return self._venues.get(name) or VenueConfig()

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

    def number(self, at: VenueAccount, mode: Mode) -> str | None:
        """The account number that the config demands of this account."""
        settings = self.settings(at.venue)
        named = settings.accounts.get(at.account or settings.default_account or "")
        if named is None:
            return None
        return named.paper_number if mode == "paper" else named.live_number

    async def client(self, at: VenueAccount, mode: Mode) -> VenueClient:
        """Opened and kept. Raises VenueError; WrongAccount where another account answers than the config names."""
        async with self._opening:
            known = self._clients.get((at, mode))
            if known is not None:
                return known
            self.check(at.venue, mode)
            client = connect(self.kind(at.venue), mode, self._secrets(at, mode), self._route(at, mode))
            await client.open()
            try:
                self.check_number(at, mode, client)
            except WrongAccount:
                await client.aclose()
                raise
            self._clients[at, mode] = client
            return client

    def check_number(self, at: VenueAccount, mode: Mode, client: VenueClient) -> None:
        """Raises WrongAccount unless the account that answered is the one that the config names, if it names one."""
        number = self.number(at, mode)
        if number is None or not client.profile.tells_account or number.lower() == (client.account or "").lower():
            return
        told = f"account {client.account} answers" if client.account else "the venue did not name its account"
        raise WrongAccount(
            f"{told}, but the config says {mode}_number = {number} for {at.account or 'the default account'}"
        )

    def _secrets(self, at: VenueAccount, mode: Mode) -> Credentials:
        settings = self.settings(at.venue)
        own = at.account is None or at.account == settings.default_account
        return self._credentials(SecretSet(at.venue, self.kind(at.venue), at.account, mode, venue_too=own))

    def _route(self, at: VenueAccount, mode: Mode) -> Route:
        settings = self.settings(at.venue)
        return Route(
            timeout=settings.timeout,
            endpoint=settings.paper_endpoint if mode == "paper" else settings.live_endpoint,
            allow_custom_endpoint=settings.allow_custom_endpoint,
            rate_per_minute=settings.rate_per_minute,
            visibility_seconds=settings.visibility_seconds,
            account_number=self.number(at, mode),
            options=settings.options,
            data_endpoint=settings.data_endpoint,
        )

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()
