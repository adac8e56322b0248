"""The client for `ccxt:<exchange_id>`: ccxt builds, signs and reads, and `venues.http` sends.

`prepare` runs ccxt's call up to its request and keeps that; `submit` runs the call again and sends the kept
request. Must not know how a single exchange words its requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from venues import extra
from venues.ccxt import answers as answer
from venues.ccxt import check, lookup, markets, order, table
from venues.ccxt import request as wire
from venues.ccxt.exchange import Setup
from venues.ccxt.look import Looker
from venues.ccxt.transport import Capturing, Line, Lost, Reading, Rehearsing, Sending, at
from venues.ccxt.words import WAITS_FOR
from venues.client import AccountClient, NoPaperMode, Profile, Route, VenueError
from venues.credentials import Credentials
from venues.orders import (
    Absent,
    Found,
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
    VenueOrder,
)
from venues.quote import MOST_MARKETS, MarketView

_FRESH = 30.0  # seconds; exchanges refuse older signatures
_SCANNED = ("fetch_open_orders", "fetch_canceled_and_closed_orders", "fetch_closed_orders", "fetch_canceled_orders")


def profile(name: str) -> Profile:
    return table.profile(name)


def credential_fields(name: str) -> tuple[str, ...]:
    return table.row(name).fields


def connect(name: str, mode: Mode, credentials: Credentials, route: Route) -> CcxtClient:
    row = table.row(name)
    if mode == "paper" and "P" not in row.has:
        raise NoPaperMode(f"{name} has no sandbox: nothing was sent")
    extra.require("ccxt", "ccxt")
    for field in row.fields:
        credentials.reveal(field)
    return CcxtClient(Setup(row, mode, credentials=credentials, route=route), table.profile(name).tuned(route))


@dataclass(frozen=True, slots=True)
class Held:
    """A signed request between `prepare` and `submit`. Stays in memory, as its headers carry the keys."""

    wire: wire.Wire
    call: order.Call
    since: float


class CcxtClient(AccountClient):
    def __init__(self, setup: Setup, tuned: Profile) -> None:
        super().__init__(tuned, setup.mode, setup.host)
        self._setup = setup
        self.key_digest = setup.key_digest
        self._row = setup.row
        self._held: dict[str, Held] = {}
        self._exchange: Any = None
        self._errors: Any = None
        self._line: Line | None = None

    async def build(self) -> Any:
        """Make the exchange object in its mode, without any request. Raises VenueError."""
        made = await self._setup.exchange()
        self._exchange, self._errors, self._line = made.exchange, made.errors, made.line
        self.host = made.host
        return made.exchange

    async def open(self) -> None:
        await self.build()
        try:
            await markets.load(self._exchange, self._errors, ours=self._setup.custom)
            if "A" in self._row.has:
                await self._rehearse()
        except (self._errors.BaseError, *order.STUMBLES) as error:
            await self.aclose()
            raise VenueError(f"{self.profile.name} did not list its markets ({type(error).__name__})") from None

    async def _rehearse(self) -> None:
        """Run an order up to its request now: ccxt asks some exchanges about the account before the first order."""
        active = (m for m in self._exchange.markets.values() if m.get("active") is not False and m.get("spot"))
        market = next(active, None) or next(iter(self._exchange.markets.values()))
        token = "d1c0" * 4
        params = {"clientOrderId": token}
        with at(Rehearsing(token)):
            try:
                await self._exchange.create_order(market["symbol"], "limit", "buy", 1.0, 1.0, params)
            except (wire.Captured, self._errors.BaseError, *order.STUMBLES):
                # Only the reads matter; ccxt may refuse the made-up numbers.
                return
        raise VenueError(f"{self.profile.name}: an order could not be told from its other requests")

    def _prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        if action.verb == "new" and not self.profile.takes_id(client_order_id):
            return Refused(f"client order id {client_order_id}: {self.profile.name} takes {self.profile.id_pattern}")
        if (action.verb == "replace" and not self.profile.replace) or (
            action.verb == "cancel" and not self.profile.cancel
        ):
            return Refused(f"{self.profile.name} cannot {action.verb} an order in one request")
        symbol = order.symbol_of(self._exchange, action.market_id)
        if isinstance(symbol, Refused):
            return symbol
        try:
            return self._captured(action, symbol, client_order_id=client_order_id)
        except (self._errors.BaseError, *order.STUMBLES) as error:
            why = wire.blanked(str(error)[:200], self._setup.secrets())
            return Refused(f"ccxt cannot make a request of this ({type(error).__name__}: {why})")

    def _captured(self, action: OrderAction, symbol: str, *, client_order_id: str) -> Prepared | Refused:
        if action.verb != "cancel" and (refused := order.inexact(self._exchange, action, symbol=symbol)) is not None:
            return refused
        market, cost = self._exchange.market(symbol), f"createMarket{action.side.capitalize()}OrderWithCost"
        contract, by_cost = bool(market.get("contract")), self._exchange.has.get(cost) is True
        call = order.call(
            action, symbol, client_order_id=client_order_id, row=self._row, contract=contract, by_cost=by_cost
        )
        if isinstance(call, Refused):
            return call
        caught = self._request_of(call)
        if caught is None:
            return Refused(f"{self.profile.name} needs another request before this one, which prepare does not make")
        sent_id = client_order_id if order.sends_id(action.verb, symbol, row=self._row) else None
        if (lacks := order.unlike(caught, action, client_order_id=sent_id)) is not None:
            names = lacks[1] or tuple(name for name in action.terms.names if name in WAITS_FOR)
            return Refused(f"{self.profile.name} would not send what was asked: {lacks[0]}", unsent=names)
        if (why := self._setup.refuses(caught, public=False)) is not None:
            return Refused(f"not sent in {self.mode} mode: {why}")
        verdict = check.judge(
            self._rebuilt,
            call,
            wire.fields(caught),
            parts=order.parts_of(action, call),
            passed_on=order.passed_on(self._row.exchange_id, contract=contract),
        )
        if verdict.why:
            return Refused(f"{self.profile.name} would not send what was asked: {verdict.why}", unsent=verdict.unsent)
        return self._kept(caught, call, action=action, client_order_id=client_order_id, apart=verdict.apart)

    def _request_of(self, call: order.Call) -> wire.Wire | None:
        with at(Capturing()):
            method = getattr(self._exchange, call.method)
            return wire.run(lambda: method(*call.arguments, call.params))

    def _rebuilt(self, call: order.Call, second: int) -> check.Fields | None:
        """What ccxt would say at that second; None if it makes no request of this."""
        try:
            with check.stopped_clock(self._exchange, second):
                made = self._request_of(call)
        except (self._errors.BaseError, *order.STUMBLES):
            return None
        return None if made is None else wire.fields(made)

    def _kept(
        self, caught: wire.Wire, call: order.Call, *, action: OrderAction, client_order_id: str, apart: bool
    ) -> Prepared:
        now, secrets = time.monotonic(), self._setup.secrets()
        self._held = {key: held for key, held in self._held.items() if now - held.since <= self._valid_for}
        self._held[caught.digest] = Held(caught, call, now)
        own_id = order.sends_id(action.verb, call.symbol, row=self._row)
        request: dict[str, object] = {"digest": caught.digest, "host": caught.host, "own_id": own_id}
        return Prepared(
            verb=action.verb,
            client_order_id=client_order_id,
            method=caught.method,
            path=wire.blanked(caught.path, secrets),
            body=wire.blanked(wire.payload(caught), secrets).encode(),
            action=action,
            request=request | ({"apart": wire.bare_path(caught)} if apart else {}),
            notes=order.notes(action, self._exchange.market(call.symbol), row=self._row),
            sent=order.sent(action, client_order_id if own_id else None, fields=wire.fields(caught)),
        )

    @property
    def _valid_for(self) -> float:
        return self.profile.arrival_bound or _FRESH

    async def _send(self, prepared: Prepared) -> Outcome:
        held = self._held.get(str(prepared.request.get("digest")))
        if held is None or time.monotonic() - held.since > self._valid_for:
            return NotSent("its signature is gone or too old: prepare it again")
        options = self._exchange.options
        if options.get("maxRetriesOnFailure"):
            return NotSent("ccxt is set to retry: an order is never sent twice")
        # With this flag set, ccxt would report a revoked key as a busy exchange.
        options["hasAlreadyAuthenticatedSuccessfully"] = False
        with at(Sending(held.wire)) as sending:
            return await self._sent(sending, held.call, prepared=prepared)

    async def _sent(self, sending: Sending, call: order.Call, *, prepared: Prepared) -> Outcome:
        error: BaseException | None = None
        try:
            made = await getattr(self._exchange, call.method)(*call.arguments, call.params)
            return answer.placed(sending, made, prepared=prepared)
        except (Lost, asyncio.CancelledError):
            pass
        except self._errors.BaseError as raised:
            error = raised
        except order.STUMBLES as raised:
            if sending.begun:
                return Unknown(f"the answer is not one that ccxt can read ({type(raised).__name__})")
        return answer.failed(sending, error, verb=prepared.verb, secrets=self._setup.secrets())

    async def lookup(self, prepared: Prepared) -> Lookup:
        symbol = order.symbol_of(self._exchange, prepared.action.market_id)
        if isinstance(symbol, Refused):
            return LookupFailed(symbol.why)
        try:
            if apart := prepared.request.get("apart"):
                return await self._fetched_apart(prepared, symbol, path=str(apart))
            if prepared.action.venue_order_id and not prepared.request.get("own_id"):
                return await self._fetched(prepared, symbol, order_id=prepared.action.venue_order_id, params={})
            if "I" in self._row.has:
                return await self._fetched(prepared, symbol, order_id=prepared.client_order_id, params={})
            if "L" in self._row.has:
                return await self._fetched(
                    prepared, symbol, order_id=None, params={"clientOrderId": prepared.client_order_id}
                )
            if (way := table.WAYS.get(self._row.exchange_id)) is not None:
                return await self._asked(prepared, symbol, way=way)
            return await self._scanned(prepared, symbol, way=table.Way(()))
        except (self._errors.BaseError, *order.STUMBLES) as error:
            return LookupFailed(f"the look-up failed ({type(error).__name__})")

    def _seen(self, found: dict[str, Any], action: OrderAction, symbol: str) -> VenueOrder | None:
        return answer.venue_order(found, action, symbol=symbol, exchange_id=self._row.exchange_id)

    async def _fetched_apart(self, prepared: Prepared, symbol: str, *, path: str) -> Lookup:
        """Ask for an order that waits where the exchange keeps such orders: the path that it was sent to."""
        if "L" not in self._row.has or not prepared.request.get("own_id"):
            return LookupFailed(f"{self.profile.name} cannot be asked by client order id for an order that waits")
        params = {"trigger": True, "clientOrderId": prepared.client_order_id}
        return await self._fetched(prepared, symbol, order_id=None, params=params, path=path)

    async def _fetched(
        self, prepared: Prepared, symbol: str, *, order_id: str | None, params: dict[str, object], path: str = ""
    ) -> Lookup:
        """Ask by `fetch_order`. With `path`, only that path's "not found" counts."""
        about = order_id or prepared.client_order_id
        with at(Reading(about=about)) as reading:
            try:
                found = await self._exchange.fetch_order(order_id, symbol, params)
            except self._errors.OrderNotFound:
                proper = reading.asked and reading.own and path in ("", reading.path)
                return Absent() if proper else LookupFailed("not found, but not in the exchange's own words")
        seen = self._seen(found, prepared.action, symbol) if reading.asked else None
        if seen is None or about not in (seen.client_order_id, seen.venue_order_id):
            return LookupFailed("the answer is not the order that was asked for")
        return Found(seen)

    async def _asked(self, prepared: Prepared, symbol: str, *, way: table.Way) -> Lookup:
        own = prepared.client_order_id
        said: Lookup = LookupFailed(way.unproven)
        try:
            said = await lookup.ask(self._exchange, self._errors, way, action=prepared.action, symbol=symbol, own=own)
        except (self._errors.BaseError, *order.STUMBLES):
            if not way.unproven:
                raise
        if isinstance(said, Found) or not way.unproven:
            return said
        return await self._scanned(prepared, symbol, way=way)

    async def _scanned(self, prepared: Prepared, symbol: str, *, way: table.Way) -> Lookup:
        """Search the recent orders of an exchange whose "not found" proves nothing. Never answers Absent."""
        if "C" not in self._row.has:
            return LookupFailed(f"{self.profile.name} takes no client order id, so none can be looked up")
        for method in _SCANNED:
            if self._exchange.has.get(_camel(method)) is not True:
                continue
            with at(Reading(about=symbol)):
                orders = await getattr(self._exchange, method)(symbol)
            for each in orders:
                seen = self._seen(lookup.named(each, way), prepared.action, symbol)
                if seen is not None and lookup.carries(seen, way, own=prepared.client_order_id):
                    return Found(replace(seen, client_order_id=prepared.client_order_id))
        why = way.unproven or f"{self.profile.name} cannot be asked by client order id"
        return LookupFailed(f"not among the recent orders; {why}")

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:
        seen: dict[str, MarketView] = {}
        symbols: dict[str, str] = {}
        for action in actions[:MOST_MARKETS]:
            symbol = order.symbol_of(self._exchange, action.market_id)
            if isinstance(symbol, Refused):
                seen[self.market_key(action)] = MarketView(problems=(symbol.why,))
            else:
                symbols[self.market_key(action)] = symbol
        views = await Looker(self._exchange, self._errors).views(list(dict.fromkeys(symbols.values())))
        return seen | {key: views[symbol] for key, symbol in symbols.items()}

    async def probe(self) -> Readiness:
        when = None
        try:
            with at(Reading(about=self.profile.name)):
                if self._exchange.has.get("fetchTime"):
                    when = await self._exchange.fetch_time()
                await self._exchange.fetch_balance()
        except self._errors.AuthenticationError:
            return Readiness(True, False, "the exchange does not take these keys", account_usable=False)
        except (self._errors.BaseError, *order.STUMBLES) as error:
            return Readiness(when is not None, False, f"no answer about the account ({type(error).__name__})")
        return Readiness(
            reachable=True,
            ready=True,
            detail="the account can be read",
            account_usable=True,
            really_paper=self.mode == "paper" if not self._setup.custom else None,
            server_time=datetime.fromtimestamp(when / 1000, UTC).isoformat() if when else None,
        )

    async def aclose(self) -> None:
        self._held.clear()
        if self._line is not None:
            await self._line.aclose()


def _camel(method: str) -> str:
    first, *rest = method.split("_")
    return first + "".join(word.capitalize() for word in rest)
