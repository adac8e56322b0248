"""Every exchange ccxt has, without a network: the table is true, paper is paper, and what is stored shows no key."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from tests.support.ccxt_offline import action, offline, secrets_of
from tests.support.venue.rig import leaks
from venues import Credentials, NoPaperMode, Prepared, Refused, Route, UnknownVenue, connect, has_paper, venue_profile
from venues.ccxt import table
from venues.ccxt.client import CcxtClient
from venues.ccxt.request import Wire, aims_at_nothing, mentions, run
from venues.ccxt.transport import Capturing, at

EVERY = sorted(table.rows())
PAPER = [exchange_id for exchange_id in EVERY if "P" in table.rows()[exchange_id].has]
NO_PAPER = [exchange_id for exchange_id in EVERY if exchange_id not in PAPER]
ASKS_FIRST = [exchange_id for exchange_id in EVERY if "A" in table.rows()[exchange_id].has]

# Exchanges that ccxt makes no order for, from what the console has: the reason is ccxt's.
CANNOT = {
    "bitvavo": "operatorId",
    "cex": "accountId",
    "derive": "subaccount_id",
    "dydx": "privateKey",
    "hibachi": "TypeError",  # amounts scaled by figures of its own markets, which a made-up one has not
    "nado": "InvalidOperation",  # the same
    "pacifica": "walletAddress",
    "polymarket": "InvalidOperation",  # its market ids are numbers; it has a client of its own
}
SHORT_IDS = {"gate", "gateeu"}


@dataclass(frozen=True, slots=True)
class Tried:
    result: Prepared | Refused
    client: CcxtClient
    wire: Wire | None


async def tried(exchange_id: str, mode: Any, **changes: object) -> Tried:
    """On a spot market, else on a perpetual."""
    profile = venue_profile(f"ccxt:{exchange_id}")
    name = "ab" * 14 if exchange_id in SHORT_IDS else profile.make_id("ab" * 16)
    for spot in (True, False):
        client = await offline(exchange_id, mode, spot=spot)
        result = client.prepare(action(**{"market_id": "BTC/USDT" if spot else "BTC/USDT:USDT", **changes}), name)
        wires = [held.wire for held in client._held.values()]
        if isinstance(result, Prepared):
            break
    return Tried(result, client, wires[0] if wires else None)


def test_the_table_is_ccxt_s() -> None:
    assert sorted(ccxt.exchanges) == EVERY
    assert (len(EVERY), len(PAPER), len(NO_PAPER)) == (104, 49, 55)


@pytest.mark.parametrize("exchange_id", EVERY)
async def test_a_row_says_what_ccxt_says(exchange_id: str) -> None:
    exchange, row = getattr(ccxt, exchange_id)(), table.rows()[exchange_id]
    assert row.fields == tuple(name for name, needed in exchange.requiredCredentials.items() if needed)
    assert ("R" in row.has) == (exchange.has["editOrder"] is True)
    assert ("X" in row.has) == (exchange.has["cancelOrder"] is True)
    assert row.rate_per_minute == max(1, min(1200, int(60_000 / exchange.rateLimit)))
    try:
        exchange.set_sandbox_mode(True)
    except TypeError:
        assert "P" not in row.has
    else:
        assert "P" in row.has


@pytest.mark.parametrize("name", ["ccxt:", "ccxt:nosuch", "ccxt:Binance", "ccxt:base.exchange", "ccxt:exchanges"])
def test_an_unknown_exchange_is_no_venue(name: str) -> None:
    with pytest.raises(UnknownVenue):
        connect(name, "live", Credentials({}))
    with pytest.raises(UnknownVenue):
        venue_profile(name)


def test_the_55_without_a_sandbox_are_refused_before_ccxt_is_even_imported() -> None:
    """Nothing that could send a byte is loaded by then."""
    code = """
import sys, venues
names = sys.argv[1].split()
for name in names:
    assert not venues.has_paper("ccxt:" + name), name
    for route in (venues.Route(), venues.Route(endpoint="http://127.0.0.1:1")):
        try:
            venues.connect("ccxt:" + name, "paper", venues.Credentials({}), route)
        except venues.NoPaperMode as error:
            assert name in str(error)
        else:
            raise SystemExit(name + " was not refused")
assert "ccxt" not in sys.modules and "aiohttp" not in sys.modules
print(len(names))
"""
    done = subprocess.run([sys.executable, "-c", code, " ".join(NO_PAPER)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "55"), done.stderr


def test_has_paper_is_the_table_s() -> None:
    assert [exchange_id for exchange_id in EVERY if has_paper(f"ccxt:{exchange_id}")] == PAPER


@pytest.mark.parametrize("exchange_id", EVERY)
async def test_an_order_is_prepared_exactly_or_refused_and_shows_no_key(exchange_id: str) -> None:
    """Quantity, price and client order id are on the request; `prepare` itself has checked that, so look again."""
    one = await tried(exchange_id, "live")
    if exchange_id in CANNOT:
        assert isinstance(one.result, Refused)
        assert CANNOT[exchange_id] in one.result.why
    elif exchange_id in ASKS_FIRST and exchange_id != "htx":
        assert isinstance(one.result, Refused)
        assert "another request first" in one.result.why or "TypeError" in one.result.why
    else:
        assert isinstance(one.result, Prepared), one.result
        assert one.wire is not None
        said = one.result.path + one.result.body.decode()
        assert "0.5" in said
        assert "50000" in said
        if "C" in table.rows()[exchange_id].has:
            assert one.result.client_order_id in said
    shown = [repr(one.result), repr(one.client), repr(vars(one.client)), repr(one.wire)]
    secrets = {name: value for name, value in secrets_of(exchange_id).items() if name != "walletAddress"}
    assert leaks(secrets.values(), shown) == []


@pytest.mark.parametrize("exchange_id", EVERY)
async def test_the_address_ccxt_signed_is_sent_character_by_character(exchange_id: str) -> None:
    for changes in ({}, {"verb": "cancel", "venue_order_id": "47-11"}, {"verb": "replace", "venue_order_id": "4711"}):
        wire = (await tried(exchange_id, "live", **changes)).wire
        if wire is not None:
            assert httpx.URL(wire.url).raw_path.decode() == wire.path


@pytest.mark.parametrize("exchange_id", ["btcbox", "coinone", "cryptocom", "independentreserve", "coinmate"])
async def test_a_key_inside_the_body_is_sent_but_not_stored(exchange_id: str) -> None:
    one = await tried(exchange_id, "live")
    assert isinstance(one.result, Prepared)
    assert one.wire is not None
    assert b"{apiKey}" in one.result.body
    assert secrets_of(exchange_id)["apiKey"].encode() not in one.result.body


@pytest.mark.parametrize("exchange_id", [e for e in EVERY if e not in CANNOT and e not in ASKS_FIRST])
@pytest.mark.parametrize("tif", ["ioc", "fok"])
async def test_a_time_in_force_is_sent_or_refused_never_dropped(exchange_id: str, tif: str) -> None:
    one = await tried(exchange_id, "live", time_in_force=tif)
    if isinstance(one.result, Prepared):
        said = (one.result.path + one.result.body.decode()).lower()
        assert tif in said or {"ioc": "immediate", "fok": "kill"}[tif] in said
    else:
        named = "time_in_force" in one.result.unsent or tif.upper() in one.result.why.upper()
        assert named or "ccxt cannot make a request" in one.result.why


@pytest.mark.parametrize("exchange_id", [e for e in EVERY if "L" in table.rows()[e].has and e not in ASKS_FIRST])
async def test_a_look_up_by_client_order_id_names_it_and_no_none(exchange_id: str) -> None:
    name = venue_profile(f"ccxt:{exchange_id}").make_id("cd" * 16)
    asked = [await lookup_request(exchange_id, name, spot=spot) for spot in (True, False)]
    assert any(wire is not None and mentions(wire, name) and not aims_at_nothing(wire) for wire in asked)


async def lookup_request(exchange_id: str, name: str, *, spot: bool) -> Wire | None:
    exchange = (await offline(exchange_id, "live", spot=spot))._exchange
    symbol = next(iter(exchange.markets))
    with at(Capturing()):
        try:
            return run(lambda: exchange.fetch_order(None, symbol, {"clientOrderId": name}))
        except ccxt.BaseError:
            return None


@pytest.mark.parametrize("exchange_id", PAPER)
async def test_a_paper_order_goes_to_a_sandbox_host_or_carries_its_proof(exchange_id: str) -> None:
    if exchange_id == "blockchaincom":  # ccxt would send its keys to another company's testnet
        with pytest.raises(NoPaperMode, match="another company"):
            await offline(exchange_id, "paper")
        return
    plain = getattr(ccxt, exchange_id)()
    live = {url.split("/")[2] for url in _urls(plain, plain.urls["api"])}
    one = await tried(exchange_id, "paper")
    if not isinstance(one.result, Prepared):
        assert exchange_id in {*CANNOT, *ASKS_FIRST, "binanceusdm"}
        return
    assert one.wire is not None
    match table.PROOFS.get(exchange_id):
        case (header, value):
            assert one.wire.host in live
            assert {name.lower(): one.wire.headers[name] for name in one.wire.headers}[header.lower()] == value
        case (path,):
            assert one.wire.path.startswith(path)
        case _:
            assert one.wire.host not in live


@pytest.mark.parametrize("exchange_id", ["okx", "okxus", "myokx"])
async def test_without_its_header_a_paper_order_is_refused(exchange_id: str) -> None:
    client = await offline(exchange_id, "paper")
    del client._exchange.headers["x-simulated-trading"]
    refused = client.prepare(action(), "ab" * 16)
    assert isinstance(refused, Refused)
    assert "x-simulated-trading" in refused.why


async def test_a_sandbox_that_switched_itself_off_is_refused() -> None:
    client = await offline("binance", "paper")
    client._exchange.set_sandbox_mode(False)
    refused = client.prepare(action(), "ab" * 16)
    assert isinstance(refused, Refused)
    assert "live host" in refused.why


@pytest.mark.parametrize("exchange_id", ["hyperliquid", "aster", "grvt", "pacifica", "lighter"])
async def test_ccxt_grants_itself_no_fee_and_no_referral(exchange_id: str) -> None:
    client = await offline(exchange_id, "live")
    exchange = client._exchange
    for name in ("initialize_client", "handle_builder_fee_approval", "approve_builder_fee", "set_ref"):
        if hasattr(exchange, name):
            with at(Capturing()):
                assert await getattr(exchange, name)() is False
    assert exchange.options["builderFee"] is False
    one = await tried(exchange_id, "live")
    if isinstance(one.result, Prepared):
        assert b"builder" not in one.result.body


@pytest.mark.parametrize(
    ("exchange_id", "changes"),
    [
        ("okx", {"verb": "cancel", "venue_order_id": "4711"}),
        ("kraken", {"verb": "cancel", "venue_order_id": "O4711-AB"}),
        ("okx", {"verb": "replace", "venue_order_id": "4711"}),
        ("kraken", {"verb": "replace", "venue_order_id": "O4711-AB"}),
        ("binance", {"verb": "cancel", "client_order_id": "cd" * 16}),
    ],
)
async def test_a_cancel_or_replace_names_its_order(exchange_id: str, changes: dict[str, object]) -> None:
    one = await tried(exchange_id, "live", **changes)
    assert isinstance(one.result, Prepared), one.result
    aim = str(changes.get("venue_order_id") or changes["client_order_id"])
    assert aim in one.result.path + one.result.body.decode()


@pytest.mark.parametrize("exchange_id", ["mexc", "kucoinfutures", "backpack"])
async def test_an_exchange_that_cannot_edit_in_one_request_is_refused(exchange_id: str) -> None:
    one = await tried(exchange_id, "live", verb="replace", venue_order_id="4711")
    assert isinstance(one.result, Refused)
    assert "cannot replace" in one.result.why


def _urls(exchange: Any, urls: object) -> list[str]:
    if isinstance(urls, str):
        return [exchange.implode_hostname(urls)]
    return [url for inner in urls.values() for url in _urls(exchange, inner)] if isinstance(urls, dict) else []


def test_credentials_are_asked_for_before_anything_is_built() -> None:
    from venues import BadCredentials

    with pytest.raises(BadCredentials, match="secret"):
        connect("ccxt:binance", "live", Credentials({"apiKey": "x"}), Route())
