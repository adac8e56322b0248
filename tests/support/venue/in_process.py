"""A venue in this process, behind the clients' own contract: what it holds, what it was sent, how it misbehaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from console.services.replay.venue_pool import VenueAccount, VenuePool
from console.settings.config import VenueConfig
from venues import (
    Absent,
    Accepted,
    Credentials,
    Dedup,
    Found,
    Lookup,
    LookupFailed,
    MarketView,
    Mode,
    NotSent,
    OrderAction,
    Outcome,
    Prepared,
    Profile,
    RateLimited,
    Readiness,
    Refused,
    Rejected,
    SentTerms,
    Status,
    Unknown,
    VenueClient,
    VenueOrder,
)
from venues.orders import sent_order

READY = Readiness(True, True, "open", market_open=True, account_usable=True)
PROFILE = Profile(
    name="fake",
    dedup="lifetime",
    arrival_bound=None,
    visibility=60.0,
    definitive=frozenset(),
    rate_per_minute=None,
    paper=True,
    lookup=True,
    replace=True,
    cancel=True,
    default_tif="day",
    tifs=frozenset({"day", "gtc", "ioc", "fok"}),
    sends=SentTerms(everything=True),
)


@dataclass(frozen=True)
class Held:
    """An order the venue has; `shown_from` is the look-up from which on it is seen."""

    order: VenueOrder
    entry: str
    shown_from: int = 0


@dataclass
class FakeVenue:
    """`script` says what becomes of the next sends, one word each; afterwards all goes well.

    ok · reject · limit · not-sent · drop (booked, answer lost) · lost (not booked, no answer) · late (booked, but
    hidden from look-ups until `reveal`, answer lost) · cancelled (booked, ended unfilled, answer lost)
    """

    profile: Profile = PROFILE
    mode: Mode = "paper"
    host: str = "fake.test"
    readiness: Readiness = READY
    script: list[str] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)  # "fail" or "busy": the next look-ups go wrong
    posts: list[Prepared] = field(default_factory=list)
    asked: list[Prepared] = field(default_factory=list)
    book: list[Held] = field(default_factory=list)
    refuse: str | None = None
    views: dict[str, MarketView] = field(default_factory=dict)  # by market
    looks: list[tuple[str, ...]] = field(default_factory=list)  # the markets of each look
    before_submit: Callable[[Prepared], Awaitable[None]] | None = None
    before_lookup: Callable[[Prepared], Awaitable[None]] | None = None
    closed: int = 0
    account: str | None = None
    key_digest: str = "key"

    def account_of(self, action: OrderAction) -> str | None:
        return self.account

    def clock_counts(self, action: OrderAction) -> bool:
        return "/" not in action.market_id

    async def open(self) -> None:
        return

    def market_key(self, action: OrderAction) -> str:
        return action.market_id

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:
        self.looks.append(tuple(action.market_id for action in actions))
        return {market: self.views[market] for market in self.looks[-1] if market in self.views}

    def seen_by(self, action: OrderAction, view: MarketView) -> MarketView:
        return view

    def prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        if self.refuse:
            return Refused(self.refuse)
        if names := self.profile.sends.unsent(action):
            return Refused(f"not sent: {', '.join(names)}", unsent=names)
        if action.verb != "new" and not action.venue_order_id and action.client_order_id and self.profile.lookup:
            return Prepared(action.verb, client_order_id, "", "", b"", action, found_by=action.client_order_id)
        body = f"{action.verb} {action.side} {action.quantity} {action.market_id} {action.price} {client_order_id}"
        order = sent_order(action, client_order_id)
        return Prepared(action.verb, client_order_id, "POST", "/orders", body.encode(), action, sent=order)

    async def submit(self, prepared: Prepared) -> Outcome:
        return await self._receive(prepared)

    async def replace(self, prepared: Prepared) -> Outcome:
        return await self._receive(prepared)

    async def cancel(self, prepared: Prepared) -> Outcome:
        return await self._receive(prepared)

    async def lookup(self, prepared: Prepared) -> Lookup:
        if self.before_lookup:
            await self.before_lookup(prepared)
        self.asked.append(prepared)
        match self.lookups.pop(0) if self.lookups else "ok":
            case "fail":
                return LookupFailed("HTTP 500")
            case "busy":
                return LookupFailed("HTTP 429", retry_after=0.01)
        shown = [one for one in self.book if one.shown_from <= len(self.asked) and self._is(one.order, prepared)]
        return Found(shown[-1].order) if shown else Absent()

    async def probe(self) -> Readiness:
        return self.readiness

    async def aclose(self) -> None:
        self.closed += 1

    def _is(self, order: VenueOrder, prepared: Prepared) -> bool:
        if prepared.verb == "cancel":
            return order.venue_order_id == prepared.action.venue_order_id
        return order.client_order_id == prepared.client_order_id

    async def _receive(self, prepared: Prepared) -> Outcome:
        if self.before_submit:
            await self.before_submit(prepared)
        word = self.script.pop(0) if self.script else "ok"
        if word == "not-sent":
            return NotSent("connection refused")
        self.posts.append(prepared)
        match word:
            case "limit":
                return RateLimited(0.01)
            case "reject":
                return Rejected("422", "insufficient buying power")
            case "lost":
                return Unknown("the connection was lost")
        if self._refuses(prepared.client_order_id):
            return Unknown("the venue already has an order with this client order id", arrived=True)
        made = self.place(prepared, "cancelled" if word == "cancelled" else "open", hidden=word == "late")
        return Accepted(made.venue_order_id) if word == "ok" else Unknown("no answer")

    def _refuses(self, client_order_id: str) -> bool:
        same = [one.order for one in self.book if one.order.client_order_id == client_order_id]
        live = [order for order in same if order.status in ("open", "partly_filled")]
        return bool({"lifetime": same, "open": live, "none": []}[self.profile.dedup])

    def place(
        self, prepared: Prepared, status: Status = "open", *, hidden: bool = False, **changes: object
    ) -> VenueOrder:
        action = prepared.action
        order = VenueOrder(
            venue_order_id=f"ord_{len(self.book) + 1}",
            client_order_id=prepared.client_order_id,
            status=status,
            raw_status=status,
            market_id=action.market_id,
            side=action.side,
            quantity=action.quantity,
            order_type=action.order_type,
            price=action.price,
            filled=Decimal(0),
        )
        order = replace(order, **changes)  # type: ignore[arg-type]  # tests name fields of VenueOrder
        self.book.append(Held(order, action.market_id, 10**9 if hidden else 0))
        return order

    def reveal(self) -> None:
        self.book = [replace(one, shown_from=0) for one in self.book]


class FakeDesk(VenuePool):
    """Every venue of these names is one of ours, "venue/account" for one account's; any other is unknown as ever."""

    def __init__(self, venues: Mapping[str, FakeVenue], settings: Mapping[str, VenueConfig] | None = None) -> None:
        super().__init__(settings or {}, lambda *_: Credentials({}))
        self._fakes = venues

    def profile(self, name: str) -> Profile:
        return self._fakes[name].profile if name in self._fakes else super().profile(name)

    def check(self, name: str, mode: Mode) -> None:
        if name not in self._fakes:
            super().check(name, mode)

    async def client(self, at: VenueAccount, mode: Mode) -> VenueClient:
        known = self._fakes.get(f"{at.venue}/{at.account}") or self._fakes.get(at.venue)
        if known is None:
            return await super().client(at, mode)
        self.check_number(at, mode, known)
        return known


def dedup(kind: Dedup, **changes: object) -> Profile:
    return replace(PROFILE, dedup=kind, **changes)  # type: ignore[arg-type]  # tests name fields of Profile


async def soon(condition: Callable[[], bool]) -> None:
    """Until it holds; a hang ends by the caller's own limit."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)
