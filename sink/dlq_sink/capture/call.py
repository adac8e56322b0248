"""Finds the order in the arguments of a bot's own submit function, and passes a client order id on with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from dlq_sink.capture.request import fields_in, said_in
from dlq_sink.terms import FIELD_OF, PARAMS, TERM_OF, fold
from dlq_sink.witness.client_id import needs_id, new_client_id, with_id

_OWNERS = ("self", "cls")
_OF_OTHER_ORDERS = frozenset({"id", "ids", "orderid", "orderids", "orders", "clientorderids"})
_PLAIN = (str, int, float, Decimal, UUID, date, Enum, Mapping, list, tuple, set, frozenset)


@dataclass(slots=True)
class OrderCall:
    """One call: what it orders, and the arguments to send it with."""

    action: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    bound: inspect.BoundArguments | None = None
    name: str | None = None  # the parameter that is the order; None: the parameters themselves say it

    @property
    def is_sent(self) -> bool:
        """Whether the action itself is an argument; else it only tells what the arguments say."""
        return any(held is self.action for held in (*self.args, *self.kwargs.values()))

    def give_id(self, venue: str) -> None:
        """A client order id for an order that has none, if this call can carry one to the venue."""
        if self.bound is None or not needs_id(said_in(fields_in(self.action))):
            return
        given = new_client_id(venue)
        if self.name is not None:
            made = with_id(self.action, given)
            if made is None:
                return
            self.action = self.bound.arguments[self.name] = made
        elif not self._spell(given):
            return
        self.args, self.kwargs = self.bound.args, self.bound.kwargs

    def _spell(self, given: str) -> bool:
        assert self.bound is not None
        for name in self.bound.arguments:
            if FIELD_OF.get(fold(name)) == "client_order_id":
                self.bound.arguments[name] = given
                self.action = {**self.action, name: given}
                return True
        for name, held in self.bound.arguments.items():
            if fold(name) == PARAMS and (held is None or isinstance(held, Mapping)) and self._is_one_order:
                self.bound.arguments[name] = {**(held or {}), "clientOrderId": given}
                self.action = {**self.action, name: {**(self.action.get(name) or {}), "clientOrderId": given}}
                return True
        return False

    @property
    def _is_one_order(self) -> bool:
        """Not a call for several orders, or for another one: there an id would name an order, and a wrong one."""
        names = {fold(str(name)) for name in self.action}
        said = {FIELD_OF.get(name) or TERM_OF.get(name) for name in names}
        return bool(said & {"side", "quantity", "notional"}) and not names & _OF_OTHER_ORDERS


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # written in C, and tells nothing
        return None


def read_call(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any], order: str | None = None
) -> OrderCall:
    """`order` names the parameter that is the order, where that is not plain."""
    if signature is None:
        return OrderCall(_only(args, kwargs), args, kwargs)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return OrderCall(_only(args, kwargs), args, kwargs)  # the call itself says what is wrong with it
    bound.apply_defaults()
    told = _told(bound, signature)
    if order is not None and order in told:
        return OrderCall(told[order], bound.args, bound.kwargs, bound, order)
    known = {FIELD_OF.get(fold(name)) for name in told}
    if len([name for name in told if _is_known(name)]) > 1 and known & {"market_id", "quantity", "side"}:
        return OrderCall({name: held for name, held in told.items() if _is_data(held)}, args, kwargs, bound)
    named = [name for name in told if name in bound.arguments]
    orders = [name for name in named if len(told) == 1 or _says_an_order(told[name])]
    if len(orders) == 1:
        return OrderCall(told[orders[0]], bound.args, bound.kwargs, bound, orders[0])
    return OrderCall({name: held for name, held in told.items() if _is_data(held)}, args, kwargs, bound)


def _told(bound: inspect.BoundArguments, signature: inspect.Signature) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, held in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            told |= held
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            told |= {name: list(held)} if held else {}
        elif name not in _OWNERS:
            told[name] = held
    return told


def _only(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if len(args) == 1 and not kwargs:
        return args[0]
    return {**({"args": list(args)} if args else {}), **kwargs}


def _is_known(name: str) -> bool:
    return fold(name) in FIELD_OF or fold(name) in TERM_OF or fold(name) == PARAMS


def _is_data(held: Any) -> bool:
    """Not a client, a session or a callback, which say nothing of the order."""
    return held is None or isinstance(held, _PLAIN) or is_dataclass(held) or hasattr(held, "model_dump")


def _says_an_order(held: Any) -> bool:
    if held is None or isinstance(held, str | int | float | Decimal):
        return False
    said = said_in(fields_in(held))
    return "side" in said and bool(said.keys() & {"market_id", "quantity"})
