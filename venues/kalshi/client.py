"""Signs and sends requests to Kalshi's trading API, and looks orders and markets up there.

Kalshi does not say whose account a key is, so that only the key's digest tells one account from another. Leaves
building to `request`, signing to `key`, reading to `answers` and `market`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from venues.client import Profile, Route
from venues.credentials import Credentials
from venues.endpoint import Endpoint, Hosts, choose
from venues.http_client import HttpClient
from venues.json_fields import Body, text
from venues.kalshi import market
from venues.kalshi.answers import DEFINITIVE, in_subaccount, outcome_of, page_of, readiness, single_of, venue_order
from venues.kalshi.book import ticker_of
from venues.kalshi.key import load_key, sign
from venues.kalshi.look import look
from venues.kalshi.request import DEFAULT_TIF, ID_PATTERN, ROOT, SENDS, TIFS, prepare, subaccount_of
from venues.message import Headers
from venues.orders import (
    Absent,
    Found,
    Lookup,
    LookupFailed,
    Mode,
    OrderAction,
    Outcome,
    Prepared,
    Readiness,
    Refused,
)
from venues.quote import MarketView

PROFILE = Profile(
    name="kalshi",
    dedup="open",
    arrival_bound=None,
    visibility=60.0,
    definitive=DEFINITIVE,
    rate_per_minute=600,
    paper=True,
    lookup=True,
    replace=True,
    cancel=True,
    default_tif=DEFAULT_TIF,
    tifs=TIFS,
    id_pattern=ID_PATTERN,
    sends=SENDS,
)
FIELDS = ("api_key_id", "private_key")
HOSTS = Hosts(
    paper=("https://external-api.demo.kalshi.co", "https://demo-api.kalshi.co"),
    live=("https://external-api.kalshi.com", "https://api.elections.kalshi.com"),
)

ORDERS = f"{ROOT}/portfolio/orders"
HISTORICAL = f"{ROOT}/historical/orders"
PAGE_SIZE = 200  # keeps a page far below MAX_REPLY
MOST_PAGES = 50


def connect(name: str, mode: Mode, credentials: Credentials, route: Route) -> KalshiClient:
    endpoint = choose(name, HOSTS, mode, route)
    credentials.reveal("api_key_id")
    return KalshiClient(mode, endpoint, credentials=credentials, route=route)


def _stated(prepared: Prepared) -> int | None:
    number = subaccount_of(prepared.action)
    return None if isinstance(number, Refused) else number


def _searched(prepared: Prepared) -> dict[str, str]:
    """Return the market and, if the action names one, the subaccount to search in."""
    ticker, number = ticker_of(prepared.action.market_id), _stated(prepared)
    asked = {"ticker": prepared.action.market_id if isinstance(ticker, Refused) else ticker}
    return asked | ({} if number is None else {"subaccount": str(number)})


class KalshiClient(HttpClient):
    def __init__(self, mode: Mode, endpoint: Endpoint, *, credentials: Credentials, route: Route) -> None:
        super().__init__(PROFILE, mode, endpoint=endpoint, credentials=credentials, route=route)
        self._key = load_key(credentials)
        self._patience = route.timeout

    async def open(self) -> None:
        """Load nothing: only Kalshi knows which keys belong to which host, and it refuses the others."""

    def _prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        return prepare(action, client_order_id)

    async def lookup(self, prepared: Prepared) -> Lookup:
        """Page through the live and then the old orders, as Kalshi has no look-up by client order id."""
        if prepared.verb == "cancel":
            return await self._lookup_by_id(prepared)
        for path in (ORDERS, HISTORICAL):
            found = await self._search(path, prepared)
            if isinstance(found, LookupFailed):
                return found
            if len(found) > 1:
                return LookupFailed(f"{len(found)} orders have this client order id: a person must look")
            if found:
                return Found(venue_order(found[0], prepared.action))
        return Absent()

    async def probe(self) -> Readiness:
        status = await self._get(f"{ROOT}/exchange/status")
        balance = await self._get(f"{ROOT}/portfolio/balance")
        return readiness(status, balance, really_paper=self._really_paper)

    def market_key(self, action: OrderAction) -> str:
        return market.market_key(action)

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:
        return await look(self._get, map(market.market_key, actions), patience=self._patience)

    def seen_by(self, action: OrderAction, view: MarketView) -> MarketView:
        return market.seen_by(action, view)

    def _headers(self, method: str, path: str, body: bytes) -> Headers:  # noqa: ARG002 - Kalshi does not sign the body
        timestamp, path = str(time.time_ns() // 1_000_000), path.partition("?")[0]
        return Headers(
            {
                "KALSHI-ACCESS-KEY": self._credentials.reveal("api_key_id"),
                "KALSHI-ACCESS-SIGNATURE": sign(self._key, timestamp, method=method, path=path),
                "KALSHI-ACCESS-TIMESTAMP": timestamp,
            }
        )

    async def _send(self, prepared: Prepared) -> Outcome:
        return outcome_of(await self._request(prepared), prepared)

    async def _lookup_by_id(self, prepared: Prepared) -> Lookup:
        order = single_of(await self._get(f"{ORDERS}/{quote(prepared.action.venue_order_id or '', safe='')}"))
        if isinstance(order, LookupFailed):
            return order
        if order is None:
            return Absent()
        if not in_subaccount(order, _stated(prepared)):
            return LookupFailed("the order is in another subaccount")
        return Found(venue_order(order, prepared.action))

    async def _search(self, path: str, prepared: Prepared) -> list[Body] | LookupFailed:
        found: list[Body] = []
        asked = _searched(prepared) | {"limit": str(PAGE_SIZE)}
        if path == HISTORICAL:  # the old orders cannot be asked for by subaccount, but they say theirs
            asked.pop("subaccount", None)
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            page = page_of(await self._get(path, **asked))
            if isinstance(page, LookupFailed):
                return page
            found += [
                order
                for order in page.orders
                if text(order, "client_order_id") == prepared.client_order_id
                and in_subaccount(order, _stated(prepared))
            ]
            if not page.cursor:
                return found
            if page.cursor in seen:
                return LookupFailed("the venue's pages go round in a circle")
            seen.add(page.cursor)
            asked["cursor"] = page.cursor
        # An order that was found is evidence whatever stands on the pages behind; its absence would be none.
        return found or LookupFailed(f"more than {MOST_PAGES} pages of orders in this market")
