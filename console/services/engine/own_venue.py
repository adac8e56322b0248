"""The engine's own venue as the guards and the plan see a venue: what it can be asked, and what it would be sent.

Nothing is sent or asked from here; `replay_order` calls the engine's venue on the engine's own thread.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from console.services.replay.venue_pool import VenueAccount, VenuePool
from venues import (
    Credentials,
    Lookup,
    Mode,
    OrderAction,
    Outcome,
    Prepared,
    Profile,
    Readiness,
    SecretSet,
    SentTerms,
    VenueClient,
)
from venues.client import AccountClient

VISIBILITY_SECONDS = 60.0  # how long "not found" proves nothing
_NOT_HERE = "the engine's venue is called by replay_order alone"


def mode_of(venue: object) -> Mode:
    """Paper only when the engine's venue says so itself."""
    said = getattr(venue, "mode", None)
    return "paper" if said == "paper" or getattr(venue, "paper", None) is True else "live"


def can_be_asked(venue: object) -> bool:
    return callable(getattr(venue, "find", None))


class OwnVenue(AccountClient):
    """Takes every order and every id as they are. Of its account and its key nothing is known."""

    def __init__(self, name: str, mode: Mode, *, has_lookup: bool) -> None:
        profile = Profile(
            name=name,
            dedup="none",
            arrival_bound=None,
            visibility=VISIBILITY_SECONDS,
            definitive=frozenset(),
            rate_per_minute=None,
            paper=True,
            lookup=has_lookup,
            replace=True,
            cancel=True,
            default_tif="",
            tifs=frozenset(),
            id_pattern=r"(?s).+",
            sends=SentTerms(everything=True),
        )
        super().__init__(profile, mode, "the engine's own venue")

    def _prepare(self, action: OrderAction, client_order_id: str) -> Prepared:
        return self.named(action, client_order_id)

    def named(self, action: OrderAction, client_order_id: str) -> Prepared:
        """With the id that is sent. A cancel or replace keeps its own: another one would name no order."""
        named = replace(action, client_order_id=client_order_id) if action.verb == "new" else action
        return Prepared(action.verb, client_order_id, "", "", b"", named)

    async def open(self) -> None: ...

    async def aclose(self) -> None: ...

    async def lookup(self, prepared: Prepared) -> Lookup:  # noqa: ARG002 - it is the contract's
        _not_here()

    async def probe(self) -> Readiness:
        _not_here()

    async def _send(self, prepared: Prepared) -> Outcome:  # noqa: ARG002 - it is the contract's
        _not_here()


class OwnVenuePool(VenuePool):
    """The engine's venue, whatever an entry calls its venue and account."""

    def __init__(self, venue: object) -> None:
        super().__init__({}, _no_credentials)
        self._venue = venue

    def check(self, name: str, mode: Mode) -> None: ...

    def profile(self, name: str) -> Profile:
        return OwnVenue(name, mode_of(self._venue), has_lookup=can_be_asked(self._venue)).profile

    async def client(self, at: VenueAccount, mode: Mode) -> VenueClient:
        return OwnVenue(at.venue, mode, has_lookup=can_be_asked(self._venue))


def _not_here() -> NoReturn:
    raise AssertionError(_NOT_HERE)


def _no_credentials(_: SecretSet) -> Credentials:
    raise AssertionError("an engine's venue has its own credentials")
