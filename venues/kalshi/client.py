"""Builds, signs and sends requests to Kalshi's trading API, v2 event orders.

Sends prices and counts as strings with exactly the action's digits; `prepare` refuses what Kalshi does not take.
Kalshi does not say whose account a key is, so that only the key's digest tells one account from another. Leaves
signing to `key` and reading to `answers`.
"""

from __future__ import annotations

import re
import time
from decimal import Decimal
from urllib.parse import quote

from venues.client import Profile, Route
from venues.credentials import Credentials
from venues.endpoint import Endpoint, Hosts, choose
from venues.http_client import HttpClient
from venues.json_fields import Body, compact, shown, text
from venues.kalshi.answers import DEFINITIVE, in_subaccount, outcome_of, page_of, readiness, single_of, venue_order
from venues.kalshi.book import BookPosition, place_of, yes_price
from venues.kalshi.key import load_key, sign
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
    default_tif_note,
    places,
    plain,
)
from venues.terms import SentTerms, for_types

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
    default_tif="gtc",
    tifs=frozenset({"gtc", "ioc", "fok", "gtd"}),
    id_pattern=r"[0-9A-Za-z_:+=/-]{1,64}",
    sends=SentTerms(
        new=for_types(("expire_at", "subaccount"), ("limit",)),
        replace=for_types(("subaccount",), ("limit",)),
        own=frozenset({"outcome", "outcome_side", "book_side"}),
    ),
)
FIELDS = ("api_key_id", "private_key")
HOSTS = Hosts(
    paper=("https://external-api.demo.kalshi.co", "https://demo-api.kalshi.co"),
    live=("https://external-api.kalshi.com", "https://api.elections.kalshi.com"),
)

ROOT = "/trade-api/v2"
EVENT_ORDERS = f"{ROOT}/portfolio/events/orders"
ORDERS = f"{ROOT}/portfolio/orders"
HISTORICAL = f"{ROOT}/historical/orders"
PAGE_SIZE = 200  # keeps a page far below MAX_REPLY
MOST_PAGES = 50
SUBACCOUNTS = range(64)  # 0 is the primary one
_TIF = {
    "gtc": "good_till_canceled",
    "good_till_canceled": "good_till_canceled",
    "ioc": "immediate_or_cancel",
    "immediate_or_cancel": "immediate_or_cancel",
    "fok": "fill_or_kill",
    "fill_or_kill": "fill_or_kill",
}


def connect(name: str, mode: Mode, credentials: Credentials, route: Route) -> KalshiClient:
    endpoint = choose(name, HOSTS, mode, route)
    credentials.reveal("api_key_id")
    return KalshiClient(mode, endpoint, credentials=credentials, route=route)


def fields(action: OrderAction, place: BookPosition) -> dict[str, object] | Refused:
    """Return the order in Kalshi's field names, without its client order id."""
    if action.order_type != "limit":
        return Refused(
            "kalshi has no market orders: dismiss this one, or send a limit order with time in force ioc "
            "at the worst price you accept"
        )
    price = yes_price(action, place)
    if isinstance(price, Refused):
        return price
    if action.quantity <= 0 or places(action.quantity) > 2:
        return Refused(f"kalshi: a count is above zero with at most 2 decimals, not {plain(action.quantity)}")
    return {
        "ticker": place.ticker,
        "side": place.side,
        "count": plain(action.quantity),
        "price": f"{price:.4f}",
    }


def _lifetime(action: OrderAction) -> dict[str, object] | Refused:
    tif = action.time_in_force or PROFILE.default_tif
    expiration = action.terms.expire_at
    if tif == "gtd":
        if expiration is None or expiration.microsecond:
            return Refused("kalshi: gtd needs expire_at, in whole seconds, in the action")
        return {"time_in_force": _TIF["gtc"], "expiration_time": int(expiration.timestamp())}
    if tif in _TIF and expiration is None:
        return {"time_in_force": _TIF[tif]}
    return Refused(
        f"kalshi takes gtc, ioc and fok, and gtd with an expiration_time; not {tif}"
        f"{' with one' if expiration is not None else ''}"
    )


def subaccount_of(action: OrderAction) -> int | Refused | None:
    """Return the number of the subaccount that the action names; None if it names none, which is the primary one."""
    stated = action.terms.subaccount
    if stated is None or stated == "":
        return None
    number = str(stated) if isinstance(stated, int | Decimal | str) and not isinstance(stated, bool) else ""
    if not re.fullmatch("0|[1-9][0-9]?", number) or int(number) not in SUBACCOUNTS:
        return Refused(f"kalshi: subaccount is a whole number from 0 to {SUBACCOUNTS[-1]}, not {shown(stated)}")
    return int(number)


def _stated(prepared: Prepared) -> int | None:
    number = subaccount_of(prepared.action)
    return None if isinstance(number, Refused) else number


def _subaccount(prepared: Prepared) -> dict[str, str]:
    """Return the query that names the subaccount, if the action names one."""
    number = _stated(prepared)
    return {} if number is None else {"subaccount": str(number)}


def prepare(action: OrderAction, client_order_id: str) -> Prepared | Refused:
    if not PROFILE.takes_id(client_order_id):
        return Refused("kalshi takes client order ids of 1 to 64 letters, digits and _ - : + = /")
    place, subaccount = place_of(action), subaccount_of(action)
    if isinstance(place, Refused):
        return place
    if isinstance(subaccount, Refused):
        return subaccount
    if action.verb == "new":
        return _prepare_new(action, client_order_id, place=place)
    if not action.venue_order_id:
        return Refused(f"to {action.verb} an order at kalshi, its venue_order_id is needed")
    path = f"{EVENT_ORDERS}/{quote(action.venue_order_id, safe='')}"
    if action.verb == "cancel":
        return Prepared("cancel", client_order_id, "DELETE", path, b"", action)
    order = fields(action, place)
    if isinstance(order, Refused):
        return order
    body = compact(order | {"updated_client_order_id": client_order_id})
    notes = ("the quantity is the order's whole size, what is filled already included",)
    return Prepared("replace", client_order_id, "POST", f"{path}/amend", body, action, notes=notes)


def _prepare_new(action: OrderAction, client_order_id: str, *, place: BookPosition) -> Prepared | Refused:
    order, lifetime, subaccount = fields(action, place), _lifetime(action), subaccount_of(action)
    if isinstance(order, Refused):
        return order
    if isinstance(lifetime, Refused):
        return lifetime
    body = compact(
        {"ticker": place.ticker, "client_order_id": client_order_id}
        | order
        | lifetime
        | {"self_trade_prevention_type": "taker_at_cross"}
        | ({} if subaccount is None else {"subaccount": subaccount})
    )
    notes = []
    if action.time_in_force is None:
        notes.append(default_tif_note(PROFILE.default_tif))
    if not place.stated:
        notes.append("outcome: yes (the action does not say)")
    return Prepared("new", client_order_id, "POST", EVENT_ORDERS, body, action, notes=tuple(notes))


def _ticker(prepared: Prepared) -> str:
    place = place_of(prepared.action)
    return place.ticker if isinstance(place, BookPosition) else prepared.action.market_id


class KalshiClient(HttpClient):
    def __init__(self, mode: Mode, endpoint: Endpoint, *, credentials: Credentials, route: Route) -> None:
        super().__init__(PROFILE, mode, endpoint=endpoint, credentials=credentials, route=route)
        self._key = load_key(credentials)

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

    def _headers(self, method: str, path: str, body: bytes) -> Headers:  # noqa: ARG002 - Kalshi does not sign the body
        timestamp = str(time.time_ns() // 1_000_000)
        return Headers(
            {
                "KALSHI-ACCESS-KEY": self._credentials.reveal("api_key_id"),
                "KALSHI-ACCESS-SIGNATURE": sign(self._key, timestamp, method=method, path=path),
                "KALSHI-ACCESS-TIMESTAMP": timestamp,
            }
        )

    async def _send(self, prepared: Prepared) -> Outcome:
        # With the market, the venue finds the exchange shard that holds the order.
        params = {"market_ticker": _ticker(prepared)} if prepared.verb == "cancel" else {}
        params |= {} if prepared.verb == "new" else _subaccount(prepared)
        return outcome_of(await self._request(prepared, params=params or None), prepared)

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
        asked = {"ticker": _ticker(prepared), "limit": str(PAGE_SIZE)}
        if path == ORDERS:  # the old orders cannot be asked for by subaccount, but they say theirs
            asked |= _subaccount(prepared)
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
