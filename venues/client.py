"""The contract of every venue client, its errors, the profile of a venue, and the base class of the clients.

Must not know a single venue, nor import an SDK or an HTTP library.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, runtime_checkable

from venues.orders import Lookup, Mode, OrderAction, Outcome, Prepared, Readiness, Refused, Verb
from venues.quote import MarketView
from venues.terms import SentTerms

_SOME_ORDER = "1"  # only to see whether the rest of a request can be built
Dedup = Literal["lifetime", "open", "none"]
Reach = Literal["all", "day"]


class VenueError(Exception):
    """A venue cannot be used as asked; `str()` is one line that says what to do, without secrets."""


class UnknownVenue(VenueError):
    """No venue has that name."""


class NoPaperMode(VenueError):
    """The venue has no paper mode; the request is refused, never sent live instead."""


class MissingExtra(VenueError):
    """The venue's SDK is not installed; the message gives the pip command."""


class WrongMode(VenueError):
    """Mode, credentials, endpoint or account do not belong together."""


class BadCredentials(VenueError):
    """A field is missing or malformed. The message names the field, never its value."""


class MissingCredentials(BadCredentials):
    """The account's credentials, or a field of them, are not set. The message names what mends it."""


class WrongAccount(VenueError):
    """The account that answers is not the one the order belongs to."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What the venue guarantees: every figure that decides whether an order may be sent again."""

    name: str
    dedup: Dedup  # how long the venue refuses a second order with the same client id
    arrival_bound: float | None  # seconds after which a request can no longer arrive; None: no bound
    visibility: float  # seconds during which "not found" proves nothing
    definitive: frozenset[tuple[int, str]]  # (status, code) of a refusal; "*": any code of the venue's own
    rate_per_minute: int | None
    paper: bool
    lookup: bool
    replace: bool
    cancel: bool
    default_tif: str
    tifs: frozenset[str]
    id_pattern: str = r"[0-9A-Za-z_-]{1,64}"  # must match a whole client order id
    id_prefix: str = ""  # begins an id that is made because the entry has none
    id_digits: int = 32  # hex digits of such an id
    tells_account: bool = False  # whether the venue says whose account answers
    reach: Reach = "all"  # the orders that a look-up sees: all, or only those of the gateway's day
    sends: SentTerms = field(default_factory=SentTerms)

    def takes_id(self, client_order_id: str) -> bool:
        return re.fullmatch(self.id_pattern, client_order_id) is not None

    def make_id(self, hex32: str) -> str:
        return self.id_prefix + hex32[: self.id_digits]

    def tuned(self, route: Route) -> Profile:
        """Return the profile with the figures from the config in place of the venue's own."""
        rate, seconds = route.rate_per_minute, route.visibility_seconds
        return replace(
            self,
            rate_per_minute=self.rate_per_minute if rate is None else rate,
            visibility=self.visibility if seconds is None else seconds,
        )


@dataclass(frozen=True, slots=True)
class Route:
    """How to reach a venue; set once from the config, never from the environment."""

    timeout: float = 10.0
    endpoint: str | None = None  # replaces the venue's own address for this mode
    allow_custom_endpoint: bool = False  # without it only loopback
    rate_per_minute: int | None = None
    visibility_seconds: float | None = None
    account_number: str | None = None  # the venue's own number of the account that must answer
    options: Mapping[str, object] = field(default_factory=dict)  # handed to a ccxt exchange as they are
    data_endpoint: str | None = None  # where quotes are asked for; None: at `endpoint`, else at the venue's own host


@runtime_checkable
class Learner(Protocol):
    """A client whose `prepare` needs to know each market first, as the venue has rules per market."""

    async def learn(self, market_ids: Iterable[str]) -> tuple[str, ...]:
        """Ask about the markets not known yet and return what failed; `prepare` refuses those."""


class VenueClient(Protocol):
    """One account at one venue in one mode. `prepare` does no I/O; each sending method makes one request."""

    profile: Profile
    mode: Mode
    host: str  # shown to the operator beside the mode
    account: str | None  # the venue's own name of this account, known from `open` on; None: the venue does not tell
    key_digest: str  # tells one key from another without revealing either; "" where there is no key

    def account_of(self, action: OrderAction) -> str | None:
        """Return the venue's own account that this action's order belongs to: a vault or the like, else `account`."""

    def clock_counts(self, action: OrderAction) -> bool:
        """Tell whether `Readiness.market_open` is about this action's market."""

    async def open(self) -> None:
        """Load what `prepare` needs (markets, precision). Raises VenueError."""

    def prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused: ...

    async def submit(self, prepared: Prepared) -> Outcome:
        """Send the request, once.

        A cancelled call returns NotSent if no byte left, else Unknown, and does not raise; so do `replace` and
        `cancel`. To wait for the answer all the same, shield the task.
        """

    async def replace(self, prepared: Prepared) -> Outcome: ...

    async def cancel(self, prepared: Prepared) -> Outcome: ...

    async def lookup(self, prepared: Prepared) -> Lookup:
        """Return what the venue holds under `prepared.client_order_id` or the stored reference."""

    async def probe(self) -> Readiness: ...

    def market_key(self, action: OrderAction) -> str:
        """Return what this action's market, and the account inside the account, are looked at by."""

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:
        """Return quote, position and open orders of each market, by `market_key`. Reads only, and never raises.

        `actions` has one of each market. A market that could not be read is missing, or says so in its `problems`.
        """

    def seen_by(self, action: OrderAction, view: MarketView) -> MarketView:
        """Return the market's view in the action's own contract and unit of price."""

    async def aclose(self) -> None: ...


class AccountClient(ABC):
    """The base of every client: holds profile, mode and host, and checks the verb before it sends."""

    def __init__(self, profile: Profile, mode: Mode, host: str) -> None:
        self.profile = profile
        self.mode: Mode = mode
        self.host = host
        self.account: str | None = None
        self.key_digest = ""

    def account_of(self, action: OrderAction) -> str | None:  # noqa: ARG002 - for venues with accounts inside accounts
        return self.account

    def clock_counts(self, action: OrderAction) -> bool:  # noqa: ARG002 - for venues with markets that never close
        return True

    def prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        """Refuse an action with a term that its request would not carry, before anything is built."""
        if names := self.profile.sends.unsent(action):
            why = f"{', '.join(names)} cannot be sent to {self.profile.name} with this order"
            return Refused(f"{why}: place it at the venue, or dismiss it", unsent=names)
        made = self._prepare(action, client_order_id)
        return self._unaimed(action, client_order_id) or made if isinstance(made, Refused) else made

    def _unaimed(self, action: OrderAction, client_order_id: str) -> Prepared | None:
        """A cancel or replace whose order has to be found by its client order id first; None if that is not all."""
        aim = action.client_order_id
        if action.verb == "new" or action.venue_order_id or not aim or not self.profile.lookup:
            return None
        made = self._prepare(replace(action, venue_order_id=_SOME_ORDER), client_order_id)
        if isinstance(made, Refused):
            return None
        notes = (*made.notes, f"its order is found by client order id {aim} before it is sent")
        sent = {name: value for name, value in made.sent.items() if name != "venue_order_id"}
        return Prepared(action.verb, client_order_id, "", "", b"", action, notes=notes, sent=sent, found_by=aim)

    @abstractmethod
    def _prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        """Build the request; every set term is one that the profile declares."""

    def market_key(self, action: OrderAction) -> str:
        return action.market_id

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:  # noqa: ARG002 - for venues that can be looked at
        return {}

    def seen_by(self, action: OrderAction, view: MarketView) -> MarketView:  # noqa: ARG002 - for venues with contracts inside a market
        return view

    async def submit(self, prepared: Prepared) -> Outcome:
        return await self._send_as("new", prepared)

    async def replace(self, prepared: Prepared) -> Outcome:
        return await self._send_as("replace", prepared)

    async def cancel(self, prepared: Prepared) -> Outcome:
        return await self._send_as("cancel", prepared)

    async def _send_as(self, verb: Verb, prepared: Prepared) -> Outcome:
        if prepared.verb != verb:
            raise ValueError(f"prepared to {prepared.verb}, asked to {verb}")
        return await self._send(prepared)

    @abstractmethod
    async def _send(self, prepared: Prepared) -> Outcome:
        """Send the request, once, and read the answer."""
