"""A TWS on loopback: enough of its socket protocol (server version 178) for a client to log in, order and look.

Keeps every placeOrder message it got. What the next one leads to is said by name; see `ANSWERS`.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.support.talks import Talks

VERSION = 178
CONTRACT = slice(2, 14)  # of a placeOrder message
NAMES = {
    "action": 16,
    "quantity": 17,
    "type": 18,
    "limit": 19,
    "aux": 20,
    "tif": 21,
    "oca_group": 22,
    "account": 23,
    "reference": 26,
    "transmit": 27,
    "parent": 28,
    "outside_rth": 33,
    "good_till": 38,
    "oca_type": 46,
    "trailing_percent": 69,
}


@dataclass(frozen=True, slots=True)
class Booked:
    order_id: str
    perm_id: int
    client_id: str
    contract: tuple[str, ...]
    fields: dict[str, str]
    status: str = "Submitted"
    filled: str = "0"


@dataclass(frozen=True, slots=True)
class Listed:
    """A contract that the gateway knows. Its data: 1 live, 2 frozen, 3 delayed, 0 none at all."""

    number: int
    symbol: str
    kind: str = "STK"
    exchange: str = "SMART"
    currency: str = "USD"
    month: str = ""
    local: str = ""
    multiplier: str = ""
    magnifier: str = "1"
    data: int = 1
    bid: str = "180.2"
    ask: str = "180.3"

    def fits(self, question: list[str]) -> bool:
        """Whether a question about contracts, as its twelve fields, means this one."""
        number, symbol, kind, month, _, _, _, exchange, _, currency, local, _ = question
        if number not in ("", "0"):
            return number == str(self.number) and exchange in ("", self.exchange)
        asked = ((symbol, self.symbol), (kind, self.kind), (exchange, self.exchange), (currency, self.currency))
        local_fits = not local or local == self.local
        return all(one in ("", other) for one, other in asked) and self.month.startswith(month) and local_fits


AAPL = Listed(265598, "AAPL")


class Tws:
    """`async with Tws() as gateway`: `gateway.url`, `gateway.placed` (messages), `gateway.orders` (booked)."""

    def __init__(self, accounts: str = "DU1234567") -> None:
        self.accounts = accounts
        self.placed: list[list[str]] = []
        self.orders: list[Booked] = []
        self.listed: list[Listed] = [AAPL]
        self.positions: list[tuple[str, Listed, str]] = []  # account, contract, size
        self.questions: list[list[str]] = []  # about contracts
        self.looks = 0
        self.logins = 0
        self.mute = False  # takes connections, says nothing
        self.deaf_to: set[str] = set()  # message numbers that are not answered
        self.next = "accept"
        self.heard = asyncio.Event()
        self.url = ""
        self._server: asyncio.Server | None = None
        self._talks = Talks()

    async def __aenter__(self) -> Tws:
        self._server = await asyncio.start_server(self._talks.held_by(self._talk), "127.0.0.1", 0)
        self.url = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        assert self._server is not None
        await self._talks.end(self._server)

    def booked(self, reference: str) -> list[Booked]:
        return [order for order in self.orders if order.fields["reference"] == reference]

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(*fields: object) -> None:
            writer.write(frame(*fields))

        await reader.readexactly(4)
        await _message(reader)
        self.logins += 1
        if self.mute:
            await asyncio.Event().wait()
        say(VERSION, "20261116 02:00:00 UTC")
        client_id = ""
        while True:
            fields = (await _message(reader)).decode().split("\0")[:-1]
            if fields[0] == "71":
                client_id = fields[2]
            if fields[0] == "3":
                self.placed.append(fields)
                self.heard.set()
                if not ANSWERS[self.next](self, _order(fields, client_id), say):
                    return
            elif fields[0] not in self.deaf_to:
                self._reply(fields, say)
            await writer.drain()

    def _reply(self, fields: list[str], say: Callable[..., None]) -> None:
        live = [order for order in self.orders if order.status == "Submitted"]
        done = [order for order in self.orders if order.status in ("Filled", "Cancelled")]
        match fields[0]:
            case "71":
                say(15, 1, self.accounts)
                say(9, 1, 1)
            case "61":
                for account, one, size in self.positions:
                    say(61, 3, account, one.number, *_named(one), one.currency, one.local, one.symbol, size, "0")
                say(62, 1)
            case "9":
                self.questions.append(fields)
                self._tell_contracts(fields, say)
            case "1":
                self._tell_quote(fields, say)
            case "49":
                say(49, 1, 1_794_795_000)
            case "16":
                self.looks += 1
                for order in live:
                    say(*open_order(order))
                    say(*status(order, order.status))
                say(53, 1)
            case "99":
                for order in done:
                    say(*completed_order(order))
                say(102)
            case "7":
                for order in self.orders:
                    if order.status == "Executed":
                        say(*execution(order, fields[2]))
                say(55, 1, fields[2])

    def _tell_contracts(self, fields: list[str], say: Callable[..., None]) -> None:
        request, found = fields[2], [one for one in self.listed if one.fits(fields[3:15])]
        for one in found:
            head = [one.symbol, one.kind, one.month, "0", "", one.exchange, one.currency, one.local, "", one.symbol]
            about = [one.multiplier, "", one.exchange, one.magnifier, "0", "long", "", *[""] * 9, "0"]
            say(10, request, *head, one.number, "0.01", *about, *[""] * 6, "1", "1", "1")
        if found:
            say(52, 1, request)
        else:
            say(4, 2, request, 200, "No security definition has been found for the request", "")

    def _tell_quote(self, fields: list[str], say: Callable[..., None]) -> None:
        request = fields[2]
        one = next((one for one in self.listed if one.fits(fields[3:15])), None)
        if one is None or not one.data:
            say(4, 2, request, 354, "Requested market data is not subscribed.", "")
            return
        say(58, 1, request, one.data)
        late = 65 if one.data > 2 else 0  # delayed prices have numbers of their own
        for number, price in ((1, one.bid), (2, one.ask)):
            say(1, 6, request, number + late, price, "100" if price != "-1" else "0", "0")
        say(57, 1, request)

    def book(self, order: Booked, **changes: str) -> Booked:
        booked = replace(order, perm_id=700_000_001 + len(self.orders), **changes)  # type: ignore[arg-type]  # only str fields change
        self.orders.append(booked)
        return booked


def _named(one: Listed) -> list[object]:
    return [one.symbol, one.kind, one.month, "0", "", one.multiplier, one.exchange]


def frame(*fields: object) -> bytes:
    body = "".join(f"{field}\0" for field in fields).encode()
    return struct.pack(">I", len(body)) + body


async def _message(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">I", await reader.readexactly(4))
    return await reader.readexactly(length)


def _order(message: list[str], client_id: str) -> Booked:
    fields = {name: message[index] for name, index in NAMES.items()}
    return Booked(message[1], 0, client_id, tuple(message[CONTRACT]), fields)


# What TWS says of orders. Blank fields are those that a plain stock order leaves empty.


def _contract(order: Booked) -> list[str]:
    con_id, symbol, kind, expiry, strike, right, multiplier, exchange, _, currency, local, trading = order.contract
    return [con_id, symbol, kind, expiry, strike, right, multiplier, exchange, currency, local, trading]


def _main(order: Booked) -> list[str]:
    told = order.fields
    return [
        told["action"],
        told["quantity"],
        told["type"],
        told["limit"],
        told["aux"],
        told["tif"],
        told["oca_group"],
        told["account"],
        "",
        "0",
    ]


def _blanks(count: int, **told: str) -> list[str]:
    """Empty fields, but for those at the numbers that are named `at_N`."""
    return [told.get(f"at_{number}", "") for number in range(count)]


def open_order(order: Booked) -> list[object]:
    told = order.fields
    head = ["5", order.order_id, *_contract(order), *_main(order), told["reference"]]
    head += [order.client_id, str(order.perm_id), told["outside_rth"], "0", "0", "", "", "", "", ""]
    middle = _blanks(29, at_1=told["good_till"], at_19=told["oca_type"], at_23=told["parent"])
    trail = _blanks(7, at_3=told["trailing_percent"])
    legs = ["0", "0", "0"]
    algo = ["0", "", "", "0", "0", ""]
    state = ["0", "0", order.status, *[""] * 14, "0", "0"]
    return [*head, *middle, *trail, *legs, *[""] * 3, "", *algo, *state, "0", *[""] * 16, "", "", "", *[""] * 5]


def completed_order(order: Booked) -> list[object]:
    told = order.fields
    head = ["101", *_contract(order), *_main(order), told["reference"], str(order.perm_id)]
    head += [told["outside_rth"], "0", "0", "", "", "", ""]
    middle = _blanks(23, at_1=told["good_till"], at_17=told["oca_type"])
    trail = _blanks(5, at_3=told["trailing_percent"])
    algo = ["", "", "0", "0", ""]
    state = ["0", order.status, "0", "0", "0"]
    tail = ["", "", "", "0", "0", "", order.filled, "", "0", "", "0", "0", "", "", ""]
    return [*head, *middle, *trail, "0", "0", "0", *[""] * 3, "", *algo, *state, *tail, *[""] * 5]


def execution(order: Booked, request: str) -> list[object]:
    side = {"BUY": "BOT", "SELL": "SLD"}[order.fields["action"]]
    told = [f"0001.{order.perm_id}", "20261116 02:00:00 UTC", order.fields["account"], "SMART", side]
    told += [order.filled, order.fields["limit"], str(order.perm_id), order.client_id, "0", order.filled]
    told += [order.fields["limit"], order.fields["reference"], "", "", "", "0", "0"]
    return ["11", request, order.order_id, *_contract(order), *told]


def status(order: Booked, word: str, *, filled: str = "0", perm_id: int | None = None) -> list[object]:
    left = "0" if filled != "0" else order.fields["quantity"]
    number = order.perm_id if perm_id is None else perm_id
    return ["3", order.order_id, word, filled, left, "0", number, "0", "0", order.client_id, "", "0"]


Say = Callable[..., None]


def _accept(tws: Tws, order: Booked, say: Say) -> bool:
    booked = tws.book(order)
    say(*open_order(booked))
    say(*status(booked, "Submitted"))
    return True


def _fill(tws: Tws, order: Booked, say: Say) -> bool:
    booked = tws.book(order, status="Filled", filled=order.fields["quantity"])
    say(*status(booked, "Filled", filled=booked.filled))
    return True


def _error(code: int, text: str) -> Callable[[Tws, Booked, Say], bool]:
    def answer(_: Tws, order: Booked, say: Say) -> bool:
        say(4, 2, order.order_id, code, text, "")
        return True

    return answer


def _warn_then_accept(tws: Tws, order: Booked, say: Say) -> bool:
    say(4, 2, order.order_id, 399, "Order Message: will not be placed at the exchange until 2026-11-16 09:30", "")
    return _accept(tws, order, say)


def _book_silently(tws: Tws, order: Booked, _: Say) -> bool:
    tws.book(order)
    return True


def _book_and_hang_up(tws: Tws, order: Booked, _: Say) -> bool:
    tws.book(order)
    return False


def _garbage(tws: Tws, order: Booked, say: Say) -> bool:
    tws.book(order)
    say(5, "this", "is", "not", "an", "order")
    say("what?")
    return True


def _said(word: str, *, known: bool) -> Callable[[Tws, Booked, Say], bool]:
    def answer(tws: Tws, order: Booked, say: Say) -> bool:
        booked = tws.book(order)
        say(*status(booked, word, perm_id=None if known else 0))
        return True

    return answer


def _cancel(tws: Tws, order: Booked, say: Say) -> bool:
    """An immediate order that found nothing: taken, then cancelled by the exchange."""
    booked = tws.book(order, status="Cancelled")
    say(*status(booked, "PendingSubmit"))
    say(4, 2, order.order_id, 202, "Order Canceled - reason:", "")
    return True


ANSWERS: dict[str, Callable[[Tws, Booked, Say], bool]] = {
    "accept": _accept,
    "fill": _fill,
    "warn_then_accept": _warn_then_accept,
    "cancel": _cancel,
    "reject_201": _error(201, "Order rejected - reason:INSUFFICIENT FUNDS"),
    "refuse_321": _error(321, "Error validating request: The API interface is currently in Read-Only mode."),
    "refuse_110": _error(110, "The price does not conform to the minimum price variation for this contract."),
    "refuse_200": _error(200, "No security definition has been found for the request"),
    "refuse_103": _error(103, "Duplicate order id"),
    "server_error_322": _error(322, "Error processing request"),
    "silence": lambda *_: True,
    "book_silently": _book_silently,
    "hang_up": lambda *_: False,
    "book_and_hang_up": _book_and_hang_up,
    "garbage": _garbage,
    "no_perm_id": _said("Submitted", known=False),
    "pending": _said("PendingSubmit", known=True),
    "inactive": _said("Inactive", known=True),
}
