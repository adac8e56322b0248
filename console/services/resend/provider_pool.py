"""The providers of an integration hub, from config and secrets: one client each, closed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from backends.records import Entry
from console.services.layout_fields import text
from console.services.replay.flow_control import Breaker
from console.settings.providers import ProviderConfig
from venues.client import BadCredentials, UnknownVenue
from venues.credentials import Credentials
from venues.integration.provider import Provider, ProviderRoute

AuthorizationSource = Callable[[str], Credentials | None]  # by the provider's name in the config


class Providers:
    def __init__(
        self,
        known: Mapping[str, ProviderConfig],
        authorization: AuthorizationSource,
        breakers: dict[str, Breaker] | None = None,
    ) -> None:
        """`breakers` outlive a batch where they are given: a provider that just failed is not tried at once again."""
        self._known = known
        self._authorization = authorization
        self.breakers = {} if breakers is None else breakers
        self._clients: dict[str, Provider] = {}

    def name(self, entry: Entry) -> str:
        """How the config calls the entry's provider: by its id, else by its name. Raises UnknownVenue."""
        names = [text(entry, "providerId"), text(entry, "providerName")]
        found = next((name for name in names if name in self._known), None)
        if found is None:
            shown = " or ".join(f"[providers.{name}]" for name in names if name)
            raise UnknownVenue(f"the config has no {shown or 'provider'} with its base_url: nothing is sent")
        return found

    def breaker(self, name: str) -> Breaker:
        return self.breakers.get(name, Breaker())

    def client(self, name: str) -> Provider:
        """Raises VenueError."""
        if name not in self._clients:
            self._clients[name] = self._connect(name)
        return self._clients[name]

    def _connect(self, name: str) -> Provider:
        settings = self._known[name]
        secret = self._authorization(name)
        if secret is None and settings.auth_header:
            raise BadCredentials(
                f"provider {name}: nothing is set for its {settings.auth_header} header: put it into the keyring, "
                f"service dlq-console/provider/{name}, item authorization"
            )
        header = settings.auth_header or "Authorization"
        route = ProviderRoute(settings.base_url, settings.timeout, header, settings.key_header)
        return Provider(name, route, secret)

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()
