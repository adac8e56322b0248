"""Builds and sends requests to Alpaca's trading API, v2.

Sends numbers as strings with exactly the action's digits; `prepare` refuses what Alpaca would round. Leaves
reading to `answers`, and must not know stores or keyrings.
"""

from __future__ import annotations

from urllib.parse import quote

from venues.alpaca.answers import DEFINITIVE, account_mode, account_number, lookup_of, outcome_of, readiness
from venues.client import Profile, Route, WrongMode
from venues.credentials import Credentials
from venues.endpoint import Hosts, choose
from venues.http_client import HttpClient
from venues.json_fields import compact
from venues.message import Headers, Result
from venues.orders import (
    Lookup,
    Mode,
    NotSent,
    OrderAction,
    Outcome,
    Prepared,
    Readiness,
    Refused,
    default_tif_note,
    places,
    plain,
)

PROFILE = Profile(
    name="alpaca",
    dedup="lifetime",
    arrival_bound=None,
    visibility=60.0,
    definitive=DEFINITIVE,
    rate_per_minute=200,
    paper=True,
    lookup=True,
    replace=True,
    cancel=True,
    default_tif="day",
    tifs=frozenset({"day", "gtc", "opg", "cls", "ioc", "fok"}),
    id_pattern=r"[\x21-\x7e]{1,128}",
    tells_account=True,
)
FIELDS = ("api_key", "secret_key")
HOSTS = Hosts(paper=("https://paper-api.alpaca.markets",), live=("https://api.alpaca.markets",))

ORDERS = "/v2/orders"
BY_CLIENT_ID = "/v2/orders:by_client_order_id"
_CRYPTO_TIFS = frozenset({"gtc", "ioc"})
_MOST_PLACES = 9


def connect(name: str, mode: Mode, credentials: Credentials, route: Route) -> AlpacaClient:
    endpoint = choose(name, HOSTS, mode, route)
    for field in FIELDS:
        credentials.reveal(field)
    belongs = _key_mode(credentials)
    if belongs not in (None, mode):
        raise WrongMode(f"alpaca: api_key is a {belongs} key, but {mode} was asked")
    return AlpacaClient(PROFILE, mode, endpoint=endpoint, credentials=credentials, route=route)


def _key_mode(credentials: Credentials) -> Mode | None:
    """Return the mode of the key: PK begins paper keys, AK live ones; None for any other beginning."""
    if credentials.reveal("api_key").startswith("PK"):
        return "paper"
    return "live" if credentials.reveal("api_key").startswith("AK") else None


def fields(action: OrderAction, client_order_id: str) -> dict[str, str] | Refused:
    """Return the order in Alpaca's field names, all values as strings."""
    if action.side not in ("buy", "sell"):
        return Refused(f"alpaca takes buy or sell, not {action.side}")
    if action.order_type not in ("market", "limit"):
        return Refused(f"alpaca: a {action.order_type} order cannot be sent from here")
    if action.price_unit not in (None, "dollars"):
        return Refused(f"alpaca's prices are dollars, not {action.price_unit}")
    tif = action.time_in_force or default_tif(action)
    if tif not in (_CRYPTO_TIFS if _is_crypto(action) else PROFILE.tifs):
        return Refused(f"alpaca does not take time in force {tif} for {action.market_id}")
    if (why := _inexact(action)) is not None:
        return Refused(why)
    order = {"symbol": action.market_id, "qty": plain(action.quantity), "side": action.side}
    order |= {"type": action.order_type, "time_in_force": tif}
    if action.order_type == "limit" and action.price is not None:
        order["limit_price"] = plain(action.price)
    return order | {"client_order_id": client_order_id}


def default_tif(action: OrderAction) -> str:
    return "gtc" if _is_crypto(action) else PROFILE.default_tif


def _is_crypto(action: OrderAction) -> bool:
    return "/" in action.market_id


def _inexact(action: OrderAction) -> str | None:
    """Return why Alpaca would not take these numbers as they are; nothing is rounded here."""
    if action.quantity <= 0:
        return f"quantity {plain(action.quantity)} is not above zero"
    if places(action.quantity) > _MOST_PLACES:
        return f"quantity {plain(action.quantity)}: alpaca takes at most {_MOST_PLACES} decimals"
    if action.order_type == "market":
        return None
    if action.price is None or action.price <= 0:
        return "a limit order needs a price above zero"
    most = _MOST_PLACES if _is_crypto(action) else 2 if action.price >= 1 else 4
    if places(action.price) > most:
        return f"price {plain(action.price)}: alpaca takes at most {most} decimals there, and it is not rounded"
    return None


def prepare(action: OrderAction, client_order_id: str) -> Prepared | Refused:
    if not PROFILE.takes_id(client_order_id):
        return Refused("alpaca takes client order ids of 1 to 128 printable ASCII characters")
    target = quote(action.venue_order_id or "", safe="")
    if action.verb != "new" and not target:
        return Refused(f"to {action.verb} an order at alpaca, its venue_order_id is needed")
    if action.verb == "cancel":
        return Prepared("cancel", client_order_id, "DELETE", f"{ORDERS}/{target}", b"", action)
    order = fields(action, client_order_id)
    if isinstance(order, Refused):
        return order
    if action.verb == "replace":
        for name in ("symbol", "side", "type", *(() if action.time_in_force else ("time_in_force",))):
            del order[name]
        return Prepared("replace", client_order_id, "PATCH", f"{ORDERS}/{target}", compact(order), action)
    notes = () if action.time_in_force else (default_tif_note(order["time_in_force"]),)
    return Prepared("new", client_order_id, "POST", ORDERS, compact(order), action, notes=notes)


class AlpacaClient(HttpClient):
    _wrong_account: str | None = None

    async def open(self) -> None:
        """Ask whose account this is, to know it and to refuse keys of the other mode before an order is sent.

        Without an answer the account stays unknown.
        """
        self._note_account(await self._get("/v2/account"))
        if self._wrong_account is not None:
            raise WrongMode(self._wrong_account)

    def clock_counts(self, action: OrderAction) -> bool:
        """Alpaca's clock is the stock market's; crypto trades all the time."""
        return not _is_crypto(action)

    def _prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        return prepare(action, client_order_id)

    async def lookup(self, prepared: Prepared) -> Lookup:
        if prepared.verb == "cancel":
            return lookup_of(await self._get(prepared.path), prepared)
        return lookup_of(await self._get(BY_CLIENT_ID, client_order_id=prepared.client_order_id), prepared)

    async def probe(self) -> Readiness:
        clock = await self._get("/v2/clock")
        account = await self._get("/v2/account")
        self._note_account(account)
        return readiness(clock, account, mode=self.mode)

    def _headers(self, method: str, path: str, body: bytes) -> Headers:  # noqa: ARG002 - Alpaca signs nothing
        return Headers(
            {
                "APCA-API-KEY-ID": self._credentials.reveal("api_key"),
                "APCA-API-SECRET-KEY": self._credentials.reveal("secret_key"),
            }
        )

    async def _send(self, prepared: Prepared) -> Outcome:
        if self._wrong_account is not None:
            return NotSent(self._wrong_account)
        return outcome_of(await self._request(prepared), prepared)

    def _note_account(self, account: Result) -> None:
        self.account = account_number(account) or self.account
        belongs = account_mode(account)
        if belongs is not None:
            contradicts = belongs != self.mode
            self._wrong_account = (
                f"alpaca: this is a {belongs} account, but {self.mode} was asked" if contradicts else None
            )
