"""Venues that write down whose key every request carried, and a console with the secrets of many accounts.

The servers run in a thread of their own; a desk is one store with a config and secrets, driven as a command or through
the session behind the screens.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from tests.support.account_keys import Owner, Witness, account_at
from tests.support.parity import Side
from tests.support.venue.polymarket import TOKEN, Polymarket, PolymarketExchange
from tests.support.venue.tws import Tws
from venues import Mode
from venues.practice import PracticeExchange
from venues.practice.book import Desk, Draft, Order
from venues.practice.faults import On
from venues.practice.format import Plan
from venues.practice.wire import WireRequest

Place = Literal["files", "keyring"]
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")
_ASKING = ("info",)  # hyperliquid asks by POST


@dataclass(frozen=True)
class Heard:
    """One request: what it was, and whose key it carried."""

    method: str
    path: str
    owners: frozenset[str]

    @property
    def changes(self) -> bool:
        return self.method in _CHANGES and self.path.strip("/") not in _ASKING


class _Watched(PracticeExchange):
    def watch(self, witness: Witness, heard: list[Heard]) -> None:
        self._witness, self._heard = witness, heard

    def handle(self, request: WireRequest) -> Plan:
        self._heard.append(Heard(request.method, request.path, self._witness.owners(request)))
        return super().handle(request)

    def book(self, venue: str, owner: Owner, draft: Draft, order_id: str) -> Order:
        desk = Desk(self._book, venue, now=datetime.now(UTC), account=account_at(owner))
        return desk.place(draft, order_id)


class _AnyKeys(Polymarket):
    """Polymarket where each API key has a secret of its own; the witness checks the signatures."""

    def _authentic(self, _: WireRequest) -> bool:
        return True


class _WatchedPolymarket(_Watched, PolymarketExchange):
    pass


class Venues:
    """Every venue of the matrix on loopback."""

    def __init__(self) -> None:
        self.witness = Witness()
        self.heard: list[Heard] = []
        self.exchange = _Watched(fsync=False)
        self.polymarket = _WatchedPolymarket(_AnyKeys(""))
        self.tws = Tws()
        for one in (self.exchange, self.polymarket):
            one.watch(self.witness, self.heard)

    def at(self, kind: str) -> _Watched:
        return self.polymarket if kind == "polymarket" else self.exchange

    def url(self, kind: str) -> str:
        return self.tws.url if kind == "ibkr" else self.at(kind).url

    def fault(self, kind: str, name: str, on: On) -> None:
        self.at(kind).fault("*", name, on=on, times=1)

    def orders(self, kind: str) -> dict[str, str]:
        """Order id → account."""
        return {order.order_id: order.account for order in self.at(kind).orders}

    def forget(self) -> None:
        self.heard.clear()
        self.tws.placed.clear()
        self.tws.logins = 0


@contextmanager
def venues() -> Iterator[Venues]:
    loop, ready, made = asyncio.new_event_loop(), threading.Event(), Venues()

    async def start() -> None:
        await made.exchange.start()
        await made.polymarket.start()
        await made.tws.__aenter__()

    async def stop() -> None:
        await made.tws.stop()
        await made.polymarket.stop()
        await made.exchange.stop()

    def run() -> None:
        loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(stop())
        loop.close()

    thread = threading.Thread(target=run, name="venues", daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)


# Orders that every venue takes.


def shape(kind: str, number: int) -> dict[str, Any]:
    """The columns of an order that this venue takes, unlike every other in quantity and client order id."""
    name = f"cid-{number}"
    match kind:
        case "alpaca":
            return {"market_id": "AAPL", "quantity": float(number), "price": 1.0, "client_order_id": name}
        case "kalshi":
            return {"market_id": f"KXT-{number}", "quantity": float(number), "price": 0.5, "client_order_id": name}
        case "ccxt:binance":
            return {"market_id": "DOGE/USDT", "quantity": 100.0 + number, "price": 0.1, "client_order_id": name}
        case "hyperliquid":
            cloid = f"0x{number:032x}"
            return {"market_id": "DOGE", "quantity": 1000.0 + number, "price": 0.1, "client_order_id": cloid}
        case "polymarket":
            return {"market_id": TOKEN, "quantity": 10.0 + number, "price": 0.5, "client_order_id": name}
        case _:
            market = "AAPL:STK:SMART:USD"
            return {"market_id": market, "quantity": float(number), "price": 1.0, "client_order_id": name}


def stand(there: Venues, owner: Owner, number: int, **other: object) -> str:
    """Let an order of this shape, or with other columns, stand in the owner's account; its venue order id."""
    kind, told = owner.kind, shape(owner.kind, number) | other
    market, name = str(told["market_id"]), str(told["client_order_id"])
    order_id = str(9_000_000 + number * 8 + len(str(owner)) % 8)
    wire: dict[str, object] = {}
    match kind:
        case "alpaca" | "kalshi":
            order_id = f"00000000-0000-4000-8000-{int(order_id):012d}"
            wire = {"subaccount": 0} if kind == "kalshi" else {"extended_hours": False}
        case "ccxt:binance":
            market, wire = market.replace("/", ""), {"type": "LIMIT"}
        case "hyperliquid":
            wire = {"tif": "Gtc", "reduceOnly": False}
        case _:
            order_id, name = f"0x{int(order_id):064x}", ""
    draft = Draft(
        client_order_id=name,
        symbol=market,
        side="buy",
        quantity=Decimal(str(told["quantity"])),
        order_type="limit",
        price=Decimal(str(told["price"])),
        time_in_force="GTC" if kind == "polymarket" else "gtc",
        wire=wire,
    )
    return there.at(kind).book(kind.removeprefix("ccxt:"), owner, draft, order_id).order_id


# The console.


def encoded(text: str, keep: str = "") -> str:
    """A part of a secret's name, as the contract says."""
    plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-" + keep
    return "".join(chr(byte) if chr(byte) in plain else f"%{byte:02X}" for byte in text.encode())


@dataclass(frozen=True)
class Secret:
    """One field of one set, and where it is kept."""

    venue: str
    account: str | None
    mode: Mode
    field: str
    value: str
    place: Place

    @property
    def file(self) -> str:
        parts = [self.venue, *([self.account] if self.account else []), self.mode]
        return ".".join([*map(encoded, parts), self.field])

    @property
    def item(self) -> str:
        parts = [encoded(self.venue, ":."), *([encoded(self.account)] if self.account else []), self.mode]
        return f"dlq-console/{'/'.join(parts)}|{self.field}"


@dataclass
class AccountDesk:
    """One store with its config and secrets; both can be changed while it is open."""

    folder: Path
    target: str
    venues: dict[str, dict[str, Any]] = field(default_factory=dict)  # name → settings; `accounts` is a table
    secrets: list[Secret] = field(default_factory=list)

    @property
    def side(self) -> Side:
        return Side(self.folder, self.target, sections=self._sections())

    @property
    def vault(self) -> Path:
        return self.folder / "vault.json"

    def put(self, kept: Iterable[Secret]) -> None:
        """These secrets and no others."""
        self.secrets = list(kept)
        for old in (self.folder / "secrets").glob("*"):
            old.unlink()
        files = {one.file: one.value for one in self.secrets if one.place == "files"}
        self.vault.write_text(json.dumps({one.item: one.value for one in self.secrets if one.place == "keyring"}))
        replace(self.side, secrets=files).config()

    def _sections(self) -> str:
        lines: list[str] = []
        for name, settings in self.venues.items():
            plain = {key: value for key, value in settings.items() if key != "accounts"}
            lines += [f"[venues.{json.dumps(name)}]", *_pairs(plain)]
            for account, told in settings.get("accounts", {}).items():
                lines += [f"[venues.{json.dumps(name)}.accounts.{json.dumps(account)}]", *_pairs(told)]
        return "\n".join(lines)


def _pairs(table: dict[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in table.items()]
