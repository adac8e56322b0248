"""Sends requests to Alpaca's trading API, v2, and asks its data API for quotes.

Leaves building to `request` and reading to `answers` and `market`; must not know stores or keyrings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from venues.alpaca.answers import (
    DEFINITIVE,
    account_mode,
    account_number,
    lacks_legs,
    lookup_of,
    outcome_of,
    readiness,
)
from venues.alpaca.market import Looking, market_key
from venues.alpaca.request import DEFAULT_TIF, ID_PATTERN, ORDERS, SENDS, TIFS, is_crypto, prepare
from venues.client import Profile, Route, WrongMode
from venues.credentials import Credentials
from venues.endpoint import Endpoint, Hosts, choose, choose_data
from venues.http import Transport
from venues.http_client import HttpClient
from venues.message import Headers, Reply, Result
from venues.orders import Lookup, Mode, NotSent, OrderAction, Outcome, Prepared, Readiness, Refused
from venues.quote import MarketView

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
    default_tif=DEFAULT_TIF,
    tifs=TIFS,
    id_pattern=ID_PATTERN,
    tells_account=True,
    sends=SENDS,
)
FIELDS = ("api_key", "secret_key")
HOSTS = Hosts(paper=("https://paper-api.alpaca.markets",), live=("https://api.alpaca.markets",))
DATA = "https://data.alpaca.markets"  # for paper and live accounts alike

BY_CLIENT_ID = "/v2/orders:by_client_order_id"
NESTED = "true"  # the orders that belong to another one come inside it


def connect(name: str, mode: Mode, credentials: Credentials, route: Route) -> AlpacaClient:
    endpoint = choose(name, HOSTS, mode, route)
    for field in FIELDS:
        credentials.reveal(field)
    belongs = _key_mode(credentials)
    if belongs not in (None, mode):
        raise WrongMode(f"alpaca: api_key is a {belongs} key, but {mode} was asked for")
    return AlpacaClient(PROFILE, mode, endpoint=endpoint, credentials=credentials, route=route)


def _key_mode(credentials: Credentials) -> Mode | None:
    """Return the mode of the key: PK begins paper keys, AK live ones; None for any other beginning."""
    if credentials.reveal("api_key").startswith("PK"):
        return "paper"
    return "live" if credentials.reveal("api_key").startswith("AK") else None


class AlpacaClient(HttpClient):
    _wrong_account: str | None = None

    def __init__(
        self, profile: Profile, mode: Mode, *, endpoint: Endpoint, credentials: Credentials, route: Route
    ) -> None:
        super().__init__(profile, mode, endpoint=endpoint, credentials=credentials, route=route)
        self._timeout = route.timeout
        self._data_url = choose_data(DATA, endpoint, route).url
        self._data: Transport | None = None  # made by the first look

    async def aclose(self) -> None:
        await super().aclose()
        if self._data is not None:
            await self._data.aclose()

    async def open(self) -> None:
        """Ask whose account this is, to know it and to refuse keys of the other mode before an order is sent.

        Without an answer the account stays unknown.
        """
        self._note_account(await self._get("/v2/account"))
        if self._wrong_account is not None:
            raise WrongMode(self._wrong_account)

    def clock_counts(self, action: OrderAction) -> bool:
        """Alpaca's clock is the stock market's; crypto trades all the time."""
        return not is_crypto(action)

    def _prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        return prepare(action, client_order_id)

    async def lookup(self, prepared: Prepared) -> Lookup:
        if prepared.verb == "cancel":
            return lookup_of(await self._get(prepared.path), prepared)
        told = await self._get(BY_CLIENT_ID, client_order_id=prepared.client_order_id, nested=NESTED)
        if isinstance(told, Reply) and (order_id := lacks_legs(told)) is not None:
            whole = await self._get(f"{ORDERS}/{quote(order_id, safe='')}", nested=NESTED)
            told = whole if isinstance(whole, Reply) and whole.status == 200 else told
        return lookup_of(told, prepared)

    def market_key(self, action: OrderAction) -> str:
        return market_key(action)

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:
        return await Looking(self._get, self._get_data, within=self._timeout).look(actions)

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

    async def _get_data(self, path: str, **params: str) -> Result:
        if self._data is None:
            self._data = Transport(self._data_url, self._timeout)
        return await self._data.ask("GET", path, headers=self._headers("GET", path, b""), params=params)

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
                f"alpaca: this is a {belongs} account, but {self.mode} was asked for" if contradicts else None
            )
