"""Gives an order that has none a client order id, where the order can carry it to the venue.

An id that is recorded and not sent would make a look-up prove an order absent that stands at the venue: so an order
that cannot carry one is given none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from copy import copy
from secrets import token_hex
from typing import Any

from dlq_sink.capture.request import fields_in, said_in
from dlq_sink.terms import FIELD_OF, PARAMS, fold

_FIELD = "client_order_id"
_IN_CALL = frozenset({"amount", PARAMS})  # names that only ccxt's calls have


def new_client_id(venue: str) -> str:
    """At most 18 letters and digits, which every venue takes; hyperliquid takes 16 bytes in hex and nothing else."""
    return f"0x{token_hex(16)}" if "hyperliquid" in venue.lower() else f"dq{token_hex(8)}"


def client_id_of(action: Any) -> str | None:
    return client_id_in(said_in(fields_in(action)))


def client_id_in(said: Mapping[str, Any]) -> str | None:
    found = said.get(_FIELD)
    return None if found is None else str(found)


def needs_id(said: Mapping[str, Any]) -> bool:
    """A new order without one; what aims at another order has that order's. Takes what the order says."""
    return _FIELD not in said and str(said.get("action", "new")).lower() == "new"


def put(action: Any, client_id: str) -> Callable[[], object] | None:
    """Write the id into the order itself; what takes it out again, or None where it cannot carry one."""
    if isinstance(action, MutableMapping):
        return _put_into(action, client_id)
    name = _attribute(action)
    if name is None:
        return None
    before = getattr(action, name, None)
    try:
        setattr(action, name, client_id)
    except Exception:  # noqa: BLE001 - a frozen order of any make says so in its own way
        return None
    return lambda: setattr(action, name, before)


def with_id(action: Any, client_id: str) -> Any | None:
    """A copy of the order that has the id; None where it cannot carry one."""
    if isinstance(action, Mapping):
        made = dict(action)
        _put_into(made, client_id)
        return made
    name = _attribute(action)
    if name is None:
        return None
    try:
        return _copied(action, name, client_id)
    except Exception:  # noqa: BLE001 - a model that refuses the id is sent without one
        return None


def _copied(action: Any, name: str, client_id: str) -> Any:
    if callable(getattr(action, "model_copy", None)):
        return action.model_copy(update={name: client_id})
    made = copy(action)
    object.__setattr__(made, name, client_id)  # a frozen dataclass: the copy is ours alone
    return made


def _put_into(action: MutableMapping[Any, Any], client_id: str) -> Callable[[], object]:
    key: str
    held: object
    if {fold(str(key)) for key in action} & _IN_CALL:
        key, held = "params", {**(action.get("params") or {}), "clientOrderId": client_id}
    else:
        own = [key for key in action if FIELD_OF.get(fold(str(key))) == _FIELD]
        camel = any(not str(key).islower() and "_" not in str(key) and str(key)[:1].islower() for key in action)
        key, held = own[0] if own else "clientOrderId" if camel else _FIELD, client_id
    if key in action:
        before = action[key]
        action[key] = held
        return lambda: action.__setitem__(key, before)
    action[key] = held
    return lambda: action.pop(key, None)


def _attribute(action: Any) -> str | None:
    """The name that the order's own type has for it."""
    if isinstance(action, Mapping) or action is None:
        return None
    kind = type(action)
    names = (*getattr(kind, "model_fields", ()), *getattr(kind, "__dataclass_fields__", ()), *vars_of(action))
    return next((name for name in names if FIELD_OF.get(fold(name)) == _FIELD), None)


def vars_of(action: Any) -> tuple[str, ...]:
    slots = getattr(type(action), "__slots__", ())
    return (*getattr(action, "__dict__", ()), *((slots,) if isinstance(slots, str) else slots))
