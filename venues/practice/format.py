"""The interface between a venue's format and the exchange, and what a fault makes of an answer.

Must not know a venue by name, nor a socket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Protocol, assert_never

from venues.practice.book import Desk, Order
from venues.practice.faults import Behaviour, Delivery, Kind
from venues.practice.wire import WireReply, WireRequest, decimal, plain

STRANGER = "somebody-elses-order"


@dataclass(frozen=True, slots=True)
class Call:
    """One request, understood. Nothing happens before `act`, which does it and returns the venue's answer."""

    kind: Kind
    act: Callable[[Desk], WireReply]
    symbol: str | None = None
    client_order_id: str | None = None
    once: str | None = None  # a token that the venue takes only once


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer and how to deliver it."""

    reply: WireReply
    date: datetime
    delivery: Delivery = "whole"
    wait: float = 0.0
    drip: float = 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """What an answer may hold besides the venue's own words."""

    now: datetime
    seconds: float = 0.0
    decoy: str = ""  # the target of a redirect


class Format(Protocol):
    name: str
    ids: frozenset[str]  # the keys of its order ids in answers
    client_ids: frozenset[str]
    quantities: frozenset[str]
    stranger: str  # a client id that nobody sent

    def route(self, request: WireRequest, desk: Desk) -> Call | None:
        """Return the call and tell the desk whose it is; None if the path is not this venue's."""

    def error(self, status: int, moment: Moment, /) -> WireReply:
        """Return the venue's body for a status; with 429, `moment.seconds` says when to come back."""

    def refusal(self, call: Call, /) -> WireReply:
        """Refuse a well-formed order for lack of money."""


def answer(form: Format, call: Call, *, own: WireReply, behaviour: Behaviour, moment: Moment) -> WireReply:
    """Return what the behaviour makes of the venue's own answer."""
    match behaviour.answer:
        case "own":
            reply = own
        case "error":
            reply = form.error(behaviour.status, moment)
        case "gateway" | "proxy":
            reply = page(behaviour.status)
        case "garbage":
            reply = WireReply(200, raw=b'<<<{"order": accepted')
        case "empty":
            reply = WireReply(200, raw=b"")
        case "no_id":
            reply = altered(own, form.ids, change=lambda _: None)
        case "wrong_id":
            reply = altered(own, form.client_ids, change=lambda _: form.stranger)
        case "refusal":
            reply = form.refusal(call)
        case "redirect":
            reply = WireReply(behaviour.status, raw=b"", headers={"Location": moment.decoy})
        case "different":
            reply = altered(own, form.quantities, change=doubled)
        case never:
            assert_never(never)
    return replace(reply, raw=reply.body[: len(reply.body) // 2]) if behaviour.cuts else reply


def on_order(kind: Kind, order: Order | None, *, act: Callable[[Desk], WireReply]) -> Call:
    """Return a call about one order, whose symbol decides which fault applies; `order` is None if there is none."""
    return Call(kind, act) if order is None else Call(kind, act, order.symbol, order.client_order_id)


def says(reply: WireReply) -> Callable[[Desk], WireReply]:
    """Return an `act` that gives this answer without the book."""
    return lambda _: reply


def page(status: int) -> WireReply:
    """Return an HTML error page, as a proxy between client and venue sends it."""
    title = f"{status} {HTTPStatus(status).phrase}"
    body = f"<html><head><title>{title}</title></head><body><center><h1>{title}</h1></center></body></html>\n"
    return WireReply(status, raw=body.encode(), content_type="text/html")


def altered(reply: WireReply, keys: frozenset[str], *, change: Callable[[object], object]) -> WireReply:
    """Change the values under these keys at any depth; leave out those that `change` turns into None."""

    def walk(value: object) -> object:
        if isinstance(value, list):
            return [walk(item) for item in value]
        if not isinstance(value, dict):
            return value
        pairs = ((key, change(item) if key in keys else walk(item)) for key, item in value.items())
        return {key: item for key, item in pairs if key not in keys or item is not None}

    return reply if reply.raw is not None else replace(reply, payload=walk(reply.payload))


def doubled(value: object) -> object:
    number = decimal(value)
    return value if number is None else plain(number * 2)
