"""The orders behind every format: their accounts, states, fills and client ids.

Rebuilds itself from the ledger. Must not know HTTP or a venue's field names.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from typing import Literal

from venues.practice.ledger import Ledger
from venues.practice.prices import PracticeQuote, Prices

State = Literal["open", "partly_filled", "filled", "cancelled", "expired", "rejected", "replaced"]
LIVE: frozenset[State] = frozenset(("open", "partly_filled"))
EVERYBODY = ""  # the account of orders in a ledger that was written before there were accounts
IMMEDIATE = frozenset(("ioc", "fok"))


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedTerms:
    """What an order asks for, in neutral words; `wire` keeps what only its venue understands."""

    client_order_id: str
    symbol: str
    side: Literal["buy", "sell"]
    quantity: Decimal
    order_type: Literal["market", "limit"]
    price: Decimal | None
    time_in_force: str
    wire: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(BookedTerms):
    """An order as a client sends it."""

    mark: Decimal = Decimal(100)  # the price of a market order's fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(BookedTerms):
    """An order as the book holds it."""

    order_id: str
    venue: str
    state: State
    filled: Decimal
    fill_price: Decimal | None
    created_at: datetime
    updated_at: datetime
    visible_at: datetime  # look-ups show it from then on
    account: str = EVERYBODY  # whose it is: a name that stands for the key, never the key

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def remaining(self) -> Decimal:
        return self.quantity - self.filled

    def line(self) -> dict[str, object]:
        row: dict[str, object] = {"type": "order"}
        for column in fields(self):
            value = getattr(self, column.name)
            row[column.name] = value.isoformat() if isinstance(value, datetime) else value
            if isinstance(value, Decimal):
                row[column.name] = format(value, "f")
        return row


def read_order(line: Mapping[str, object]) -> Order:
    """Return the order in a ledger line. Raises KeyError or ValueError if there is none."""
    row = {"account": EVERYBODY, **line}
    row = {column.name: row[column.name] for column in fields(Order)}
    for name in ("order_id", "venue", "account", "symbol", "client_order_id"):
        row[name] = str(row[name])
    for name in ("quantity", "filled"):
        row[name] = Decimal(str(row[name]))
    for name in ("price", "fill_price"):
        row[name] = None if row[name] is None else Decimal(str(row[name]))
    for name in ("created_at", "updated_at", "visible_at"):
        row[name] = datetime.fromisoformat(str(row[name]))
    return Order(**row)  # type: ignore[arg-type]  # every column was converted above


class Book:
    """All orders of all venues, indexed; rebuilt from the ledger's lines."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.prices = Prices()
        self.used: set[str] = set()  # tokens that a venue takes only once
        self.agents: dict[str, str] = {}  # a key that may act for an account, and that account
        self._orders: dict[str, Order] = {}
        self._index: dict[tuple[str, ...], list[str]] = {}
        self._number = 0
        for line in ledger.lines:
            if line.get("type") == "order":
                self.put(read_order(line))
            elif line.get("type") == "agent":
                self.agents[str(line["agent"])] = str(line["account"])
            elif line.get("once") and line.get("taken"):
                self.used.add(str(line["once"]))

    def put(self, order: Order) -> None:
        if order.order_id.isdigit():
            self._number = max(self._number, int(order.order_id))
        known = self._orders.get(order.order_id)
        self._orders[order.order_id] = order
        whose = (order.venue, order.account)
        keys: list[tuple[str, ...]] = [("client", *whose, order.client_order_id)]
        if known is None:
            keys += [("symbol", *whose, order.symbol), ("account", *whose)]
        elif known.client_order_id == order.client_order_id:
            return
        for key in keys:
            self._index.setdefault(key, []).append(order.order_id)

    def get(self, order_id: str) -> Order | None:
        return self._orders.get(order_id)

    def all(self) -> tuple[Order, ...]:
        return tuple(self._orders.values())

    def last_price(self, venue: str, symbol: str) -> Decimal | None:
        """Return the newest order's price in this market, whoever sent it."""
        priced = (one for one in reversed(self._orders.values()) if (one.venue, one.symbol) == (venue, symbol))
        return next((price for one in priced if (price := one.fill_price or one.price) is not None), None)

    def listed(self, *key: str) -> Iterator[Order]:
        """Yield the orders under a key, newest first."""
        return (self._orders[order_id] for order_id in reversed(self._index.get(key, ())))

    def appoint(self, agent: str, account: str) -> None:
        """Let a key act for an account from now on."""
        self.ledger.append([{"type": "agent", "agent": agent, "account": account}])
        self.agents[agent] = account

    def next_number(self, now: datetime) -> str:
        """Return a whole-number id that follows the clock, so that two exchanges without a common ledger share none."""
        self._number = max(self._number + 1, int(now.timestamp() * 1000))
        return str(self._number)


class Desk:
    """One account's view of the book during one request; a format says whose request it is."""

    def __init__(self, book: Book, venue: str, *, now: datetime, account: str = EVERYBODY) -> None:
        self.venue = venue
        self.account = account
        self.now = now
        self.hidden_until: datetime | None = None
        self.closed = False
        self.repeated = False  # the request carries a token that was used before
        self.changed: list[Order] = []
        self.book = book

    def quote(self, symbol: str, *, tick: Decimal = Decimal("0.01")) -> PracticeQuote | None:
        """Return the market's quote; `tick` is half of its spread."""
        last = self.book.last_price(self.venue, symbol)
        return self.book.prices.quote(symbol, self.now, last=last, tick=tick)

    def position(self, symbol: str) -> Decimal:
        """Return what this account holds: what it was given, and its fills."""
        filled = (one.filled if one.side == "buy" else -one.filled for one in self.shown(symbol))
        return self.book.prices.held(self.venue, self.account, symbol) + sum(filled, Decimal(0))

    def positions(self) -> dict[str, Decimal]:
        """Return every market in which this account holds something."""
        traded = dict.fromkeys(one.symbol for one in self.shown())
        bare = {symbol.replace("/", "").replace("-", "").upper() for symbol in traded}
        given = (one for one in self.book.prices.symbols_held(self.venue, self.account) if one not in bare)
        return {symbol: held for symbol in (*traded, *given) if (held := self.position(symbol))}

    def new_number(self) -> str:
        return self.book.next_number(self.now)

    def new_uuid(self) -> str:
        return str(uuid.uuid4())

    def place(self, draft: Draft, order_id: str) -> Order:
        """Book an order: market and immediate orders fill at once, all others rest."""
        fills = draft.order_type == "market" or draft.time_in_force in IMMEDIATE
        order = Order(
            order_id=order_id,
            venue=self.venue,
            account=self.account,
            client_order_id=draft.client_order_id,
            symbol=draft.symbol,
            side=draft.side,
            quantity=draft.quantity,
            order_type=draft.order_type,
            price=draft.price,
            time_in_force=draft.time_in_force,
            state="filled" if fills else "open",
            filled=draft.quantity if fills else Decimal(0),
            fill_price=(draft.price or draft.mark) if fills else None,
            created_at=self.now,
            updated_at=self.now,
            visible_at=self.hidden_until or self.now,
            wire=draft.wire,
        )
        return self._keep(order)

    def revise(self, order: Order, **changes: object) -> Order:
        changes.setdefault("updated_at", self.now)
        if self.hidden_until is not None:
            changes.setdefault("visible_at", self.hidden_until)
        return self._keep(replace(order, **changes))  # type: ignore[arg-type]  # callers name columns of Order

    def cancel(self, order: Order) -> Order:
        return self.revise(order, state="cancelled")

    def order(self, order_id: str) -> Order | None:
        """Return this account's order, visible or not."""
        order = self.book.get(order_id)
        own = order is not None and order.venue == self.venue and order.account in (self.account, EVERYBODY)
        return order if own else None

    def named(self, client_order_id: str) -> Iterator[Order]:
        """Yield every order that has this client id now, newest first, visible or not."""
        return (order for order in self._listed("client", client_order_id) if order.client_order_id == client_order_id)

    def shown(self, symbol: str | None = None) -> Iterator[Order]:
        """Yield the visible orders, newest first."""
        orders = self._listed("account") if symbol is None else self._listed("symbol", symbol)
        return (order for order in orders if self.shows(order))

    def shows(self, order: Order) -> bool:
        return order.visible_at <= self.now

    def shown_by_id(self, order_id: str) -> Order | None:
        order = self.order(order_id)
        return order if order is not None and self.shows(order) else None

    def shown_by_name(self, client_order_id: str) -> Order | None:
        return next((order for order in self.named(client_order_id) if self.shows(order)), None)

    def _listed(self, kind: str, *rest: str) -> Iterator[Order]:
        whose = dict.fromkeys((self.account, EVERYBODY))
        return chain.from_iterable(self.book.listed(kind, self.venue, account, *rest) for account in whose)

    def _keep(self, order: Order) -> Order:
        self.book.put(order)
        self.changed.append(order)
        return order
