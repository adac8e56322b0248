"""What the name of a ccxt method says of an order, as data: each makes a create_order, edit_order or cancel_order.

An entry without it would be another order: the one of `create_reduce_only_order` could open a position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dlq_sink.terms import IN_PARAMS_OF, fold

_TYPES, _SIDES = ("limit", "market"), ("buy", "sell")
# What each name says beside its arguments.
_FIELDS: Mapping[str, Mapping[str, str]] = {
    **{f"create_{kind}_order": {"type": kind} for kind in _TYPES},
    **{f"create_{kind}_{side}_order": {"type": kind, "side": side} for kind in _TYPES for side in _SIDES},
    **{f"create_market_{side}_order_with_cost": {"type": "market", "side": side} for side in _SIDES},
    "create_market_order_with_cost": {"type": "market"},
    "create_stop_limit_order": {"type": "limit"},
    "create_stop_market_order": {"type": "market"},
    "create_post_only_order": {},
    "create_reduce_only_order": {},
    "create_order_with_take_profit_and_stop_loss": {},
    "edit_order": {"action": "replace"},
    "edit_order_with_client_order_id": {"action": "replace"},
    "edit_limit_order": {"action": "replace", "type": "limit"},
    **{f"edit_limit_{side}_order": {"action": "replace", "type": "limit", "side": side} for side in _SIDES},
    "cancel_order": {"action": "cancel"},
    "cancel_order_with_client_order_id": {"action": "cancel"},
}
_PARAMS: Mapping[str, Mapping[str, object]] = {
    "create_post_only_order": {"postOnly": True},
    "create_reduce_only_order": {"reduceOnly": True},
}
_EXITS = ("takeProfit", "stopLoss")  # prices of their own argument, and in `params` what else is said of them
_OF_EXIT = {"Type": "type", "PriceType": "priceType", "LimitPrice": "price", "Amount": "amount"}


def meaning_of(function: object) -> Callable[[Any], Any] | None:
    """What to make of the arguments of a bound ccxt method; None where they say all of it."""
    owner = getattr(function, "__self__", None)
    name = str(getattr(function, "__name__", "")).removesuffix("_ws")
    is_ccxt = any(kind.__module__.partition(".")[0] == "ccxt" for kind in type(owner).__mro__)
    if not is_ccxt or name not in _FIELDS:
        return None
    return lambda action: _meant(name, action) if isinstance(action, Mapping) else action


def _meant(name: str, action: Mapping[str, Any]) -> dict[str, Any]:
    fields, params = dict(action), dict(action.get("params") or {})
    says = _FIELDS[name]
    if says.get("action") == "cancel" and any(IN_PARAMS_OF.get(fold(key)) is None for key in params):
        return fields  # they may say which order is meant, and a cancel is sent without them: left to a person
    if "action" in says and "id" in fields:
        fields["venue_order_id"] = fields.pop("id")
    if name == "create_order_with_take_profit_and_stop_loss":
        params = {key: held for key, held in params.items() if key not in _said_of_exits()} | _exits(fields, params)
        fields = {key: held for key, held in fields.items() if key not in _EXITS}
    return {**fields, **says, "params": {**params, **_PARAMS.get(name, {})}}


def _exits(fields: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for side in _EXITS:
        told = {
            ours: params[side + theirs] for theirs, ours in _OF_EXIT.items() if params.get(side + theirs) is not None
        }
        if fields.get(side) is not None:
            found[side] = {"triggerPrice": fields[side], **told}
        elif told:
            found[side] = {**(params.get(side) or {}), **told}
    return found


def _said_of_exits() -> frozenset[str]:
    return frozenset(side + theirs for side in _EXITS for theirs in _OF_EXIT)
