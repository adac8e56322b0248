"""The practice exchange: routes a request to its format, applies a fault, books and writes the ledger.

Also answers the control paths under /practice, which set faults and show orders. The only module here that knows
book, formats, faults and server together.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import cast, get_args

from venues.practice.alpaca import Alpaca
from venues.practice.binance import Binance
from venues.practice.book import Book, Desk, Order, State, utc_now
from venues.practice.faults import (
    BEHAVIOURS,
    DEMO_SYMBOLS,
    NORMAL,
    ORDER_KINDS,
    Fault,
    FaultError,
    FaultTable,
    On,
    parse_fault,
)
from venues.practice.format import Call, Format, Moment, Plan, answer
from venues.practice.hyperliquid import Hyperliquid
from venues.practice.kalshi import Kalshi
from venues.practice.ledger import Ledger, LedgerError
from venues.practice.plain_file import decoded, read_script
from venues.practice.prices import Prices
from venues.practice.server import Server
from venues.practice.wire import WireReply, WireRequest, decimal


def control_answer(exchange: PracticeExchange, request: WireRequest) -> WireReply:
    match request.method, request.parts[1:]:
        case "GET", ():
            return WireReply(200, {"url": exchange.url, "faults": list(BEHAVIOURS), "symbols": dict(DEMO_SYMBOLS)})
        case "GET", ("ledger",):
            return WireReply(200, list(exchange.ledger))
        case "GET", ("orders",):
            return WireReply(200, [order.line() for order in exchange.orders])
        case "GET", ("requests",):
            return WireReply(200, _counts(exchange))
        case "GET", ("faults",):
            return WireReply(200, [_shown(fault, left) for fault, left in exchange.faults.left()])
        case "POST", ("faults",):
            return _add(exchange, request)
        case "DELETE", ("faults",):
            exchange.clear_faults()
            return WireReply(200, [])
        case "POST", ("quotes",):
            return _quote(exchange, request)
        case "DELETE", ("quotes",):
            exchange.prices.clear()
            return WireReply(200, [])
        case "POST", ("positions",):
            return _hold(exchange, request)
        case "POST", ("orders", order_id):
            return _mark(exchange, request, order_id=order_id)
        case _:
            return WireReply(404, {"error": "no such path under /practice"})


def _counts(exchange: PracticeExchange) -> dict[str, object]:
    return {
        "total": exchange.kinds.total(),
        "kinds": dict(exchange.kinds),
        "paths": dict(exchange.paths),
        "followed_redirects": exchange.decoyed,
    }


def _shown(fault: Fault, left: int | None) -> dict[str, object]:
    return {
        "symbol": fault.symbol,
        "on": fault.on,
        "fault": fault.name,
        "times": left,
        "seconds": fault.lasting,
    }


def _add(exchange: PracticeExchange, request: WireRequest) -> WireReply:
    """Add one fault or a list of them; all or none."""
    try:
        asked = decoded(request.body)
        faults = [parse_fault(item) for item in (asked if isinstance(asked, list) else [asked])]
    except FaultError as error:
        return WireReply(400, {"error": str(error)})
    except ValueError:
        return WireReply(400, {"error": "not JSON"})
    for fault in faults:
        exchange.faults.add(fault)
    return WireReply(200, [_shown(fault, left) for fault, left in exchange.faults.left()])


def _quote(exchange: PracticeExchange, request: WireRequest) -> WireReply:
    """Fix the quote of a symbol: `{symbol, bid, ask, at}`; without prices the market has none."""
    asked = request.object() or {}
    symbol, at = asked.get("symbol"), asked.get("at")
    try:
        when = None if at is None else datetime.fromisoformat(str(at))
    except ValueError:
        return WireReply(400, {"error": "at must be an ISO time"})
    if not isinstance(symbol, str) or not symbol:
        return WireReply(400, {"error": "a quote needs a symbol"})
    exchange.prices.set(symbol, decimal(asked.get("bid")), decimal(asked.get("ask")), when)
    return WireReply(200, dict(asked))


def _hold(exchange: PracticeExchange, request: WireRequest) -> WireReply:
    """Give an account a position: `{venue, symbol, quantity, account}`; without `account` every account has it."""
    asked = request.object() or {}
    venue, symbol, quantity = asked.get("venue"), asked.get("symbol"), decimal(asked.get("quantity"))
    if not isinstance(venue, str) or not isinstance(symbol, str) or quantity is None:
        return WireReply(400, {"error": "a position needs venue, symbol and quantity"})
    exchange.prices.hold(venue, str(asked.get("account") or ""), symbol, quantity)
    return WireReply(200, dict(asked))


def _mark(exchange: PracticeExchange, request: WireRequest, *, order_id: str) -> WireReply:
    wanted = request.object() or {}
    state = wanted.get("state")
    if state not in get_args(State):
        return WireReply(400, {"error": f"state must be one of: {', '.join(get_args(State))}"})
    try:
        order: Order = exchange.mark(
            order_id,
            cast(State, state),
            filled=decimal(wanted.get("filled")),
            archived=wanted.get("archived") is True,
        )
    except KeyError:
        return WireReply(404, {"error": "no such order"})
    return WireReply(200, order.line())


Line = Mapping[str, object]
NOTHING = WireReply(200, None)


class PracticeError(Exception):
    """The exchange cannot start as asked; `str()` is one line for the operator."""


@dataclass(frozen=True, slots=True)
class _Late:
    due: datetime
    venue: str
    account: str
    call: Call


class PracticeExchange:
    """One loopback URL for every format. Ledger and faults can be read and set while it runs."""

    def __init__(
        self,
        port: int = 0,
        ledger: Path | None = None,
        *,
        script: Path | None = None,
        clock: Callable[[], datetime] = utc_now,
        fsync: bool = True,
    ) -> None:
        self.faults = FaultTable()
        self.kinds: Counter[str] = Counter()
        self.paths: Counter[str] = Counter()
        self.decoyed = 0  # requests that followed a redirect
        self._port = port
        self._clock = clock
        self._late: list[_Late] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._formats: tuple[Format, ...] = (Alpaca(), Kalshi(), Binance(), Hyperliquid())
        self._server = Server(self.handle, clock)
        self._decoy = Server(self._handle_decoy, clock)
        for fault in _read_script(script):
            self.faults.add(fault)
        try:
            self._ledger = Ledger(ledger, fsync=fsync)
            self._book = Book(self._ledger)
        except (OSError, LedgerError, KeyError, ValueError, ArithmeticError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise PracticeError(f"cannot use the ledger {ledger}: {why}") from error
        self._n = sum(1 for _ in self.received)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def prices(self) -> Prices:
        return self._book.prices

    @property
    def orders(self) -> tuple[Order, ...]:
        """Every order it ever booked, oldest first."""
        self.settle()
        return self._book.all()

    @property
    def received(self) -> tuple[Line, ...]:
        """Every request to a path that changes orders, oldest first."""
        return tuple(line for line in self._ledger.lines if line.get("type") == "request")

    @property
    def ledger(self) -> tuple[Line, ...]:
        return tuple(self._ledger.lines)

    def clear_faults(self) -> None:
        """Removes the rules; an answer that one of them delays goes out at once."""
        self.faults.clear()
        self._server.let_go()

    async def start(self) -> None:
        try:
            await self._server.start(self._port)
        except OSError as error:
            self._ledger.close()
            raise PracticeError(f"cannot listen on 127.0.0.1:{self._port}: {error.strerror}") from error
        await self._decoy.start(0)

    async def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        await self._server.stop()
        await self._decoy.stop()
        self._ledger.close()

    async def __aenter__(self) -> PracticeExchange:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def fault(
        self,
        symbol: str,
        name: str,
        *,
        on: On = "order",
        times: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Make the next `times` requests (None: all) of this kind for this symbol (`*`: any) go wrong."""
        self.faults.add(Fault(symbol, name, on=on, times=times, seconds=seconds))

    def mark(self, order_id: str, state: State, *, filled: Decimal | None = None, archived: bool = False) -> Order:
        """Change an order as the market would: fill, expire or reject it late. Raises KeyError.

        An archived order moves to the venue's list of old orders.
        """
        order = self._book.get(order_id)
        if order is None:
            raise KeyError(order_id)
        amount = filled if filled is not None else order.quantity if state == "filled" else order.filled
        price = (order.price or Decimal(100)) if amount else None
        desk = Desk(self._book, order.venue, now=self._clock(), account=order.account)
        wire = {**order.wire, "archived": True} if archived else order.wire
        changed = desk.revise(order, state=state, filled=amount, fill_price=price, wire=wire)
        self._ledger.append(order.line() for order in desk.changed)
        return changed

    def settle(self) -> None:
        """Book the late orders that are due."""
        now = self._clock()
        due = [late for late in self._late if late.due <= now]
        self._late = [late for late in self._late if late.due > now]
        for late in due:
            desk = Desk(self._book, late.venue, now=late.due, account=late.account)
            late.call.act(desk)
            self._ledger.append(order.line() for order in desk.changed)

    def handle(self, request: WireRequest) -> Plan:
        """Do all that one request asks for, including the ledger's fsync; the server only delivers the plan."""
        self.settle()
        now = self._clock()
        if request.parts[:1] == ("practice",):
            return Plan(control_answer(self, request), now)
        for form in self._formats:
            desk = Desk(self._book, form.name, now=now)
            call = form.route(request, desk)
            if call is not None:
                self._count(request, call)
                return self._act(request, form, call=call, desk=desk)
        self._count(request, None)
        return Plan(WireReply(404, {"message": "no venue has this path"}), now)

    def _act(self, request: WireRequest, form: Format, *, call: Call, desk: Desk) -> Plan:
        now = desk.now
        fault = self.faults.take(call.kind, call.symbol)
        behaviour = NORMAL if fault is None else fault.behaviour
        seconds = 0.0 if fault is None else fault.lasting
        later = now + timedelta(seconds=seconds)
        if behaviour.skews and call.kind == "probe":
            desk.now = later
        desk.hidden_until = later if behaviour.hides else None
        desk.closed = behaviour.closed
        own = NOTHING
        if behaviour.books == "now":
            own = self._do(call, desk)
        elif behaviour.books == "later":
            self._postpone(_Late(later, form.name, desk.account, call), seconds)
        if call.kind in ORDER_KINDS:
            self._record(request, call, desk=desk, fault=fault)
        decoy = self._decoy.url + request.path + (f"?{request.query}" if request.query else "")
        reply = answer(form, call, own=own, behaviour=behaviour, moment=Moment(now, seconds, decoy))
        return Plan(
            reply,
            later if behaviour.skews else now,
            behaviour.delivery,
            wait=seconds if behaviour.waits else 0.0,
            drip=seconds if behaviour.delivery == "drip" else 0.0,
        )

    def _do(self, call: Call, desk: Desk) -> WireReply:
        if call.once is not None:
            desk.repeated = call.once in self._book.used
            self._book.used.add(call.once)
        return call.act(desk)

    def _postpone(self, late: _Late, seconds: float) -> None:
        self._late.append(late)
        self._timers.append(asyncio.get_running_loop().call_later(seconds, self.settle))

    def _record(self, request: WireRequest, call: Call, *, desk: Desk, fault: Fault | None) -> None:
        self._n += 1
        order = desk.changed[-1] if desk.changed else None
        line: dict[str, object] = {
            "type": "request",
            "n": self._n,
            "at": desk.now.isoformat(),
            "venue": desk.venue,
            "kind": call.kind,
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "body": request.text,
            "client_order_id": call.client_order_id or (order and order.client_order_id) or None,
            "symbol": call.symbol or (order and order.symbol),
            "booked": order is not None,
            "order_id": order.order_id if order else None,
            "fault": fault.name if fault else None,
        }
        if call.once is not None:
            line |= {"once": call.once, "taken": call.once in self._book.used}
        self._ledger.append([line, *(changed.line() for changed in desk.changed)])

    def _count(self, request: WireRequest, call: Call | None) -> None:
        self.kinds[call.kind if call else "unknown"] += 1
        self.paths[f"{request.method} {request.path}"] += 1

    def _handle_decoy(self, _: WireRequest) -> Plan:
        self.decoyed += 1
        return Plan(WireReply(404, {"message": "a redirect was followed to here"}), self._clock())


def _read_script(script: Path | None) -> list[Fault]:
    if script is None:
        return []
    try:
        items = decoded(read_script(script))
        if not isinstance(items, list):
            raise FaultError("a script is a JSON list of faults")
        return [parse_fault(item) for item in items]
    except (OSError, ValueError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise PracticeError(f"cannot use the script {script}: {why}") from error
