"""Sends orders to Interactive Brokers through a running TWS or Gateway, with ib_async. Holds no secrets.

The gateway's accounts decide paper or live, not its port; every connect asks for them before any order. An order
goes to its entry's own account or not at all. Leaves contracts, orders, answers and looking to the modules beside it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as with_
from datetime import UTC
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from venues import extra
from venues.client import AccountClient, Profile, Route, VenueError, WrongAccount, WrongMode
from venues.credentials import Credentials
from venues.endpoint import Hosts, choose
from venues.ibkr import answers as answer
from venues.ibkr import contract as market
from venues.ibkr import look as looking
from venues.ibkr import order as wire
from venues.orders import (
    Lookup,
    LookupFailed,
    Mode,
    NotSent,
    OrderAction,
    Outcome,
    Prepared,
    Readiness,
    Refused,
    Unknown,
    default_tif_note,
    sent_order,
)
from venues.quote import MOST_MARKETS, MarketView

FIELDS: tuple[str, ...] = ()
PORTS: Mapping[Mode, int] = {"paper": 4002, "live": 4001}
PROFILE = Profile(
    name="ibkr",
    dedup="none",
    arrival_bound=None,
    visibility=60.0,
    definitive=frozenset((0, str(code)) for code in answer.DEFINITIVE),
    rate_per_minute=2700,
    paper=True,
    lookup=True,
    replace=False,
    cancel=False,
    default_tif="day",
    tifs=frozenset(wire.TIFS),
    id_pattern=r"[0-9A-Za-z_.:-]{1,40}",
    tells_account=True,
    reach="day",
    sends=wire.SENDS,
)
_NO_CONTRACT = 200  # TWS's code for a question that no contract fits
_PAPER_ACCOUNTS = ("DU", "DF")
_LOOK_SECONDS = 4.0  # somebody waits for the plan, and a gateway without data never says so
# A gateway has no fixed address; these only must not match any host.
_NOWHERE = Hosts(paper=("https://paper.invalid",), live=("https://live.invalid",))


def connect(name: str, mode: Mode, credentials: Credentials, route: Route) -> IbkrClient:  # noqa: ARG001 - every venue has these parameters; this one needs neither name nor credentials
    client = IbkrClient(mode, route)
    extra.require("ib_async", "ibkr")
    return client


class IbkrClient(AccountClient):
    def __init__(self, mode: Mode, route: Route) -> None:
        self._address, self._port = _gateway(mode, route)
        super().__init__(PROFILE.tuned(route), mode, f"{self._address}:{self._port}")
        self._timeout = route.timeout
        self._sdk: Any = None
        self._ib: Any = None
        self._managed = wire.Managed((), route.account_number, f"{mode}_number")
        self._listings: dict[str, market.Listing | Refused] = {}
        # ib_async answers two questions of one kind as if they were one.
        self._of_orders, self._of_positions = asyncio.Lock(), asyncio.Lock()

    async def open(self) -> None:
        self._sdk = await extra.load("ib_async", "ibkr")
        # ib_async logs every message; without a handler Python would print them over the screen.
        logging.getLogger("ib_async").addHandler(logging.NullHandler())
        await self._connected()

    async def _connected(self) -> None:
        """Connect unless connected, and check that the accounts are the mode's and the config's. Raises VenueError."""
        if self._ib is not None and self._ib.isConnected():
            return
        self._ib = self._sdk.IB()
        self._ib.RaiseRequestErrors = True
        try:
            await self._ib.connectAsync(
                self._address,
                self._port,
                clientId=1000 + secrets.randbelow(30_000),
                timeout=self._timeout,
                readonly=True,
                fetchFields=self._sdk.StartupFetchNONE,
            )
        except (OSError, TimeoutError) as error:
            raise VenueError(f"no gateway answers at {self.host} ({type(error).__name__})") from None
        try:
            self._check(tuple(self._ib.managedAccounts()))
        except VenueError:
            await self.aclose()
            raise

    def _check(self, accounts: tuple[str, ...]) -> None:
        self._managed = with_(self._managed, accounts=accounts)
        paper, told = [account.startswith(_PAPER_ACCOUNTS) for account in accounts], ", ".join(accounts) or "none"
        if not paper or (not all(paper) if self.mode == "paper" else any(paper)):
            raise WrongMode(f"the gateway at {self.host} has accounts that are not {self.mode}: {told}")
        number = self._managed.number
        if number is not None and number not in accounts:
            raise WrongAccount(
                f"the gateway at {self.host} has the accounts {told}, but the config says "
                f'{self._managed.setting} = "{number}"'
            )
        self.account = number or (accounts[0] if len(accounts) == 1 else None)

    def account_of(self, action: OrderAction) -> str | None:
        """Return the gateway's account that the order goes to; None if it goes to none of them."""
        account = self._managed.account_for(action)
        return None if isinstance(account, Refused) else account

    def _prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        if action.verb != "new":
            return Refused(f"ibkr lets only the API client that placed an order {action.verb} it: do it in TWS")
        if not self.profile.takes_id(client_order_id):
            return Refused(f"client order id {client_order_id}: ibkr takes 1 to 40 letters, digits, _ . : -")
        contract, order = self._contract(action.market_id), wire.order_of(action, client_order_id)
        account = self._managed.account_for(action)
        for part in (contract, order, account):
            if isinstance(part, Refused):
                return part
        assert isinstance(contract, dict)
        assert isinstance(order, dict)
        order["account"] = account
        return Prepared(
            verb="new",
            client_order_id=client_order_id,
            method="TWS",
            path="placeOrder",
            body=wire.encoded(contract, order),
            action=action,
            notes=self._notes(action, account),
            sent=sent_order(
                action,
                client_order_id,
                market_id=market.shown_market(contract),
                time_in_force=action.time_in_force or PROFILE.default_tif,
            ),
        )

    def _notes(self, action: OrderAction, account: object) -> tuple[str, ...]:
        notes = [f"account {account}"]
        listing = self._listings.get(action.market_id)
        if isinstance(listing, market.Listing) and market.contract_of(action.market_id) is None:
            notes.append(f"market {action.market_id} is {listing.words}, conId {listing.number}")
        if action.time_in_force is None:
            notes.append(default_tif_note(PROFILE.default_tif))
        return tuple(notes)

    def _contract(self, market_id: str) -> dict[str, object] | Refused:
        """Return the contract of a market id, as it says it or as the gateway told it."""
        if (contract := market.contract_of(market_id)) is not None:
            return contract
        listing = self._listings.get(market_id) or market.unclear(market_id)
        return listing if isinstance(listing, Refused) else listing.fields

    async def learn(self, market_ids: Iterable[str]) -> tuple[str, ...]:
        """Ask the gateway which contract each id names that does not say it by itself."""
        unknown = [one for one in dict.fromkeys(market_ids) if market.contract_of(one) is None]
        failed = []
        for market_id in unknown:
            if market.question_of(market_id) is None:
                continue
            try:
                async with asyncio.timeout(self._timeout):
                    await self._connected()
                    listing = await self._listing(market_id)
            except self._faults as fault:
                failed.append(f"{market_id}: the gateway did not list its contracts ({type(fault).__name__})")
                continue
            if isinstance(listing, Refused):
                failed.append(listing.why)
        return tuple(failed)

    async def _listing(self, market_id: str) -> market.Listing | Refused:
        """Return the one listing of a market id, from the gateway the first time."""
        known = self._listings.get(market_id)
        if isinstance(known, market.Listing):
            return known
        question = market.contract_of(market_id) or market.question_of(market_id)
        if question is None:
            return market.unclear(market_id)
        try:
            found = await self._ib.reqContractDetailsAsync(self._sdk.Contract(**question))
        except self._sdk.RequestError as error:
            if error.code != _NO_CONTRACT:
                raise
            found = []
        self._listings[market_id] = listing = market.the_one(market_id, found)
        return listing

    @property
    def _faults(self) -> tuple[type[Exception], ...]:
        return (VenueError, OSError, TimeoutError, self._sdk.RequestError)

    def market_key(self, action: OrderAction) -> str:
        """Return the market, and whose position in it: a gateway may manage several accounts."""
        return f"{self.account_of(action) or ''}/{action.market_id}"

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:
        gateway = looking.Gateway(
            listing=self._listing,
            ticker=self._ticker,
            positions=self._positions,
            orders=self._open_orders,
            faults=self._faults,
            seconds=min(self._timeout, _LOOK_SECONDS),
        )
        asked = {
            self.market_key(one): looking.Asked(one.market_id, self.account_of(one)) for one in actions[:MOST_MARKETS]
        }
        try:
            async with asyncio.timeout(self._timeout):
                await self._connected()
        except self._faults as fault:
            return {key: MarketView(problems=(str(fault) or "no gateway answers",)) for key in asked}
        return await looking.look(gateway, asked)

    async def _ticker(self, listing: market.Listing) -> Any:
        contract = self._sdk.Contract(**listing.fields)
        self._ib.wrapper.tickers.pop(hash(contract), None)  # it would keep the prices of an earlier look
        (ticker,) = await self._ib.reqTickersAsync(contract)
        return ticker

    async def _positions(self) -> list[Any]:
        async with self._of_positions:
            return list(await self._ib.reqPositionsAsync())

    async def _open_orders(self) -> list[Any]:
        async with self._of_orders:
            return list(await self._ib.reqAllOpenOrdersAsync())

    async def _send(self, prepared: Prepared) -> Outcome:
        """Send one placeOrder message with the stored fields; only the order number belongs to this session."""
        try:
            await self._connected()
        except VenueError as error:
            return NotSent(str(error))
        except asyncio.CancelledError:
            return NotSent("cancelled before it was sent")
        return await self._placed(prepared)

    async def _placed(self, prepared: Prepared) -> Outcome:
        stored = json.loads(prepared.body)
        if stored["order"].get("account") not in self._managed.accounts:
            return NotSent(f"the gateway no longer has account {stored['order'].get('account')}")
        # ib_async writes a Decimal with exactly these digits; a float may have others.
        figures = {name: Decimal(stored["order"].pop(name)) for name in wire.FIGURES if name in stored["order"]}
        contract = self._sdk.Contract(**stored["contract"])
        try:
            trade = self._ib.placeOrder(contract, self._sdk.Order(**stored["order"], **figures))
        except ConnectionError:
            return NotSent("the gateway is not connected")
        return await self._settled(trade)

    async def _settled(self, trade: Any) -> Outcome:
        """Wait for what settles the order: TWS sends several messages or none, and raises nothing when it is lost."""
        settled: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def heard(*_: object) -> None:
            if not settled.done() and (outcome := answer.verdict(trade)) is not None:
                settled.set_result(outcome)

        def lost(*_: object) -> None:
            if not settled.done():
                settled.set_result(Unknown("the connection to the gateway was lost"))

        events = ((trade.statusEvent, heard), (self._ib.openOrderEvent, heard), (self._ib.disconnectedEvent, lost))
        for event, handler in events:
            event.connect(handler)
        try:
            async with asyncio.timeout(self._timeout):
                return await settled
        except TimeoutError:
            return Unknown(f"no answer within {self._timeout:g} s")
        except asyncio.CancelledError:
            return Unknown("cancelled")
        finally:
            for event, handler in events:
                event.disconnect(handler)

    async def replace(self, prepared: Prepared) -> Outcome:
        return NotSent(f"ibkr cannot {prepared.verb} from here")

    async def cancel(self, prepared: Prepared) -> Outcome:
        return NotSent(f"ibkr cannot {prepared.verb} from here")

    async def lookup(self, prepared: Prepared) -> Lookup:
        """Search the account's open, completed and today's executed orders, of all clients, by their reference."""
        try:
            async with asyncio.timeout(self._timeout):
                async with self._of_orders:
                    await self._connected()
                    opened = await self._ib.reqAllOpenOrdersAsync()
                    completed = await self._ib.reqCompletedOrdersAsync(False)
                    fills = await self._ib.reqExecutionsAsync()
        except VenueError as error:
            return LookupFailed(str(error))
        except (OSError, TimeoutError, self._sdk.RequestError) as error:
            return LookupFailed(f"the gateway did not list its orders ({type(error).__name__})")
        account = self._managed.account_for(prepared.action)
        if isinstance(account, Refused):
            return LookupFailed(account.why)
        contract = json.loads(prepared.body)["contract"]
        search = answer.OrderSearch(prepared.action, prepared.client_order_id, account=account, contract=contract)
        return search.find([*opened, *completed], fills)

    async def probe(self) -> Readiness:
        try:
            async with asyncio.timeout(self._timeout):
                await self._connected()
                now = await self._ib.reqCurrentTimeAsync()
        except VenueError as error:
            return Readiness(False, False, str(error))
        except (OSError, TimeoutError) as error:
            return Readiness(False, False, f"the gateway does not answer ({type(error).__name__})")
        return Readiness(
            reachable=True,
            ready=True,
            detail=f"accounts {', '.join(self._managed.accounts)}",
            account_usable=True,
            really_paper=self.mode == "paper",
            server_time=now.astimezone(UTC).isoformat(),
        )

    async def aclose(self) -> None:
        if self._ib is not None and self._ib.isConnected():
            gone = self._ib.client.conn.disconnected
            self._ib.disconnect()
            await gone


def _gateway(mode: Mode, route: Route) -> tuple[str, int]:
    """Return host and port. An endpoint without a scheme must be on loopback, as TWS does not encrypt."""
    if route.endpoint is None:
        return "127.0.0.1", PORTS[mode]
    told = route.endpoint if "://" in route.endpoint else f"http://{route.endpoint}"
    parts = urlsplit(choose("ibkr", _NOWHERE, mode, with_(route, endpoint=told)).url)
    return parts.hostname or "127.0.0.1", parts.port or PORTS[mode]
