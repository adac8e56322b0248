"""Paper cannot slip to live: every wrong mix of mode, keys, endpoint and account is refused, and live sees 0 bytes.

Both of a venue's addresses are stood in for by loopback servers, so that a slip would really arrive somewhere.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import ModuleType

import pytest

from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.venue.rigs_practice import ALPACA_SECRETS, KALSHI_SECRETS, alpaca_action, kalshi_action
from venues import (
    NAMES,
    Accepted,
    Credentials,
    Mode,
    NotSent,
    OrderAction,
    Prepared,
    Route,
    Unknown,
    UnknownVenue,
    VenueClient,
    VenueError,
    WrongMode,
    connect,
    credential_fields,
    has_paper,
    venue_profile,
)
from venues.endpoint import Hosts

PAPER_ACCOUNT = "PA3XYZ12"
LIVE_ACCOUNT = "927341058"


@dataclass(frozen=True, slots=True)
class Venue:
    name: str
    module: ModuleType
    secrets: dict[str, str]
    action: OrderAction


VENUES = {
    "alpaca": Venue(
        "alpaca", importlib.import_module("venues.alpaca.client"), ALPACA_SECRETS, alpaca_action("new", None)
    ),
    "kalshi": Venue(
        "kalshi", importlib.import_module("venues.kalshi.client"), KALSHI_SECRETS, kalshi_action("new", None)
    ),
}
BOTH = pytest.mark.parametrize("venue", VENUES.values(), ids=VENUES)


def answering(account: str) -> Callable[[Received], Answer]:
    def handler(request: Received) -> Answer:
        if request.path == "/v2/account":
            return reply(200, {"account_number": account, "status": "ACTIVE"})
        return reply(200, {"id": "ord-1", "order_id": "ord-1"})

    return handler


@dataclass(frozen=True, slots=True)
class Servers:
    paper: Loopback
    live: Loopback

    def of(self, mode: Mode) -> Loopback:
        return self.paper if mode == "paper" else self.live

    def untouched(self) -> bool:
        return self.paper.connections == 0 and self.live.connections == 0


@pytest.fixture
async def servers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    async with (
        Loopback(answering(PAPER_ACCOUNT), name="127.0.0.1") as paper,
        Loopback(answering(LIVE_ACCOUNT), name="localhost") as live,
    ):
        for venue in VENUES.values():
            monkeypatch.setattr(venue.module, "HOSTS", Hosts(paper=(paper.url,), live=(live.url,)))
        yield Servers(paper, live)


def client_of(venue: Venue, mode: Mode, endpoint: str | None = None, **secrets: str) -> VenueClient:
    route = Route(timeout=10.0, endpoint=endpoint)
    return connect(venue.name, mode, Credentials({**venue.secrets, **secrets}), route)


async def send(client: VenueClient, venue: Venue) -> object:
    prepared = client.prepare(venue.action, "coid-1")
    assert isinstance(prepared, Prepared)
    outcome = await client.submit(prepared)
    await client.aclose()
    return outcome


@BOTH
async def test_paper_goes_to_paper_and_live_to_live(venue: Venue, servers: Servers) -> None:
    paper = client_of(venue, "paper")
    await paper.open()
    assert isinstance(await send(paper, venue), Accepted)
    assert servers.live.connections == 0
    assert (paper.mode, paper.host) == ("paper", servers.paper.url.removeprefix("http://"))
    seen = servers.paper.connections
    key = {"api_key": "AKCANARY4C1D77E0"} if venue.name == "alpaca" else {}
    live = client_of(venue, "live", **key)
    await live.open()
    assert isinstance(await send(live, venue), Accepted)
    assert servers.paper.connections == seen
    assert (live.mode, live.host) == ("live", servers.live.url.removeprefix("http://"))


@pytest.mark.parametrize(("mode", "prefix"), [("paper", "AK"), ("live", "PK")])
async def test_keys_of_the_other_mode(mode: Mode, prefix: str, servers: Servers) -> None:
    with pytest.raises(WrongMode):
        client_of(VENUES["alpaca"], mode, api_key=f"{prefix}CANARY4C1D77E0")
    assert servers.untouched()


@BOTH
@pytest.mark.parametrize(("mode", "other"), [("paper", "live"), ("live", "paper")])
async def test_the_endpoint_of_the_other_mode(venue: Venue, mode: Mode, other: Mode, servers: Servers) -> None:
    key = {"api_key": f"{mode[0].upper()}XCANARY4C1D77E0"} if venue.name == "alpaca" else {}
    with pytest.raises(WrongMode):
        client_of(venue, mode, servers.of(other).url, **key)
    assert servers.untouched()


@pytest.mark.parametrize(("mode", "account"), [("paper", LIVE_ACCOUNT), ("live", PAPER_ACCOUNT)])
@pytest.mark.parametrize("first", ["open", "probe"])
async def test_the_account_of_the_other_mode(mode: Mode, account: str, first: str, servers: Servers) -> None:
    servers.of(mode).handler = answering(account)
    venue = VENUES["alpaca"]
    client = client_of(venue, mode, api_key="XXCANARY4C1D77E0")
    if first == "open":
        with pytest.raises(WrongMode):
            await client.open()
    else:
        ready = await client.probe()
        assert not ready.ready
        assert ready.really_paper is (mode == "live")
    assert isinstance(await send(client, venue), NotSent)
    assert [request.method for request in servers.of(mode).requests if request.method != "GET"] == []
    assert servers.of("live" if mode == "paper" else "paper").connections == 0


@pytest.mark.parametrize("mode", ["paper", "live"])
async def test_an_account_that_does_not_tell_is_taken(mode: Mode, servers: Servers) -> None:
    servers.of(mode).handler = answering("010203ABCD")
    client = client_of(VENUES["alpaca"], mode, api_key="XXCANARY4C1D77E0")
    await client.open()
    assert isinstance(await send(client, VENUES["alpaca"]), Accepted)


@BOTH
@pytest.mark.parametrize("endpoint", ["https://proxy.example", "http://proxy.example", "http://u:p@127.0.0.1:1"])
async def test_an_endpoint_off_loopback(venue: Venue, endpoint: str, servers: Servers) -> None:
    with pytest.raises(VenueError):
        client_of(venue, "paper", endpoint)
    assert servers.untouched()


@BOTH
async def test_neither_proxies_nor_the_sdks_variables_lead_elsewhere(
    venue: Venue, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "APCA_API_BASE_URL", "KALSHI_API_HOST", "KALSHI_HOST"]
    for name in names:
        monkeypatch.setenv(name, servers.live.url)
        monkeypatch.setenv(name.lower(), servers.live.url)
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    client = client_of(venue, "paper")
    await client.open()
    await client.probe()
    assert isinstance(await send(client, venue), Accepted)
    assert (servers.live.connections, servers.live.received_bytes) == (0, 0)


@BOTH
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_live_is_not_followed(venue: Venue, status: int, servers: Servers) -> None:
    servers.paper.handler = lambda request: reply(status, Location=servers.live.url + request.target)
    client = client_of(venue, "paper")
    await client.open()
    await client.probe()
    prepared = client.prepare(venue.action, "coid-1")
    assert isinstance(prepared, Prepared)
    await client.lookup(prepared)
    assert isinstance(await send(client, venue), Unknown)
    assert (servers.live.connections, servers.live.received_bytes) == (0, 0)


def test_the_mode_must_be_one_of_two() -> None:
    with pytest.raises(WrongMode):
        connect("alpaca", "PAPER", Credentials(ALPACA_SECRETS))  # type: ignore[arg-type]  # what a config may say


@pytest.mark.parametrize("name", ["", "nasdaq", "ALPACA", "alpaca:x", "venues.alpaca.client", "../alpaca", "ccxt"])
def test_an_unknown_venue(name: str) -> None:
    with pytest.raises(UnknownVenue):
        connect(name, "paper", Credentials({}))
    with pytest.raises(UnknownVenue):
        has_paper(name)


def test_the_venues_own_addresses() -> None:
    assert (
        Hosts(paper=("https://paper-api.alpaca.markets",), live=("https://api.alpaca.markets",))
        == VENUES["alpaca"].module.HOSTS
    )
    assert (
        Hosts(
            paper=("https://external-api.demo.kalshi.co", "https://demo-api.kalshi.co"),
            live=("https://external-api.kalshi.com", "https://api.elections.kalshi.com"),
        )
        == VENUES["kalshi"].module.HOSTS
    )


def test_the_fields_to_ask_for() -> None:
    assert credential_fields("alpaca") == ("api_key", "secret_key")
    assert credential_fields("kalshi") == ("api_key_id", "private_key")


@pytest.mark.parametrize("name", NAMES)
def test_the_short_table_of_paper_modes_is_true(name: str) -> None:
    assert has_paper(name) == venue_profile(name).paper


def test_importing_the_package_imports_no_client_and_no_sdk() -> None:
    code = (
        "import sys, venues; assert venues.has_paper('alpaca') and not venues.has_paper('polymarket'); "
        "bad = {'httpx', 'httpcore', 'cryptography', 'ccxt', 'hyperliquid', 'polymarket', 'ib_async', 'aiohttp', "
        "'venues.alpaca.client', 'venues.kalshi.client', 'venues.ccxt.client', 'venues.http'}; "
        "print(sorted(bad & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "[]"
