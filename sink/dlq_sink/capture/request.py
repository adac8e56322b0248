"""Reads an engine's order, whatever its shape, by its own names and terms, into an entry.

Never guesses: what an order does not say, its entry does not say either, so that the console refuses it until somebody
has looked. Knows no sink and no venue.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any

from dlq_sink.mask import masked_error
from dlq_sink.record import ERROR_LIMIT, DeadLetteredOrder, new_dlq_id
from dlq_sink.terms import FIELD_OF, IN_PARAMS, IN_PARAMS_OF, PARAMS, fold, is_set
from dlq_sink.values import storable

_PLAIN = frozenset({type(None), bool, int, float, str})  # JSON's own
_FILLED_IN = ("venue_name", "market_id", "side", "quantity", "order_type")  # columns that are never without a value


def dead_letter(
    venue: object, action: Any, error: str, *, account: str | None = None, dlq_id: str | None = None
) -> DeadLetteredOrder:
    """The entry for an action of any shape: mapping, model, dataclass or plain object. Never fails: the last net."""
    fields = fields_in(action)
    return entry_for(venue, fields, said_in(fields), error, account=account, dlq_id=dlq_id)


def entry_for(
    venue: object,
    fields: Mapping[str, Any],
    said: Mapping[str, Any],
    error: str,
    *,
    account: str | None,
    dlq_id: str | None,
) -> DeadLetteredOrder:
    """The same for an action that was read before: `said_in(fields_in(action))`."""
    return DeadLetteredOrder(
        dlq_id=dlq_id or new_dlq_id(),
        captured_at=datetime.now(UTC),
        venue_name=_column(said.get("venue_name")) or storable(venue_name(venue)),
        account_id=_column(said.get("account_id")) or _column(account),
        market_id=_column(said.get("market_id")) or "",
        side=(_column(said.get("side")) or "").lower(),
        quantity=_number(said.get("quantity")) or 0.0,
        order_type=(_column(said.get("order_type")) or "").lower(),
        price=_number(said.get("price")),
        client_order_id=_column(said.get("client_order_id")),
        error=stored_error(error),
        action_json=_json(_stated(fields)),
    )


def stored_error(text: str) -> str:
    """As every store can hold it: a venue's odd answer must not keep the order itself from being written."""
    return storable(masked_error(text))[:ERROR_LIMIT]


def venue_name(venue: object) -> str:
    if isinstance(venue, str):
        return venue
    return _text(getattr(venue, "name", None)) or type(venue).__name__.lower()


def said_in(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are set, by neutral name, whichever name the action has for them."""
    found: dict[str, Any] = {}
    for key, held in fields.items():
        folded = fold(key)
        if (name := FIELD_OF.get(folded)) is not None and is_set(name, held):
            found.setdefault(name, held)
        if folded == PARAMS and isinstance(held, Mapping):
            inner = {IN_PARAMS_OF.get(fold(str(one))): value for one, value in held.items()}
            found = {name: inner[name] for name in IN_PARAMS if is_set(name, inner.get(name))} | found
    return found


def fields_in(action: Any) -> dict[str, Any]:
    if isinstance(action, Mapping):
        return {key if type(key) is str else str(_bare(key)): value for key, value in action.items()}
    if _is_neutral(action):
        return _neutral(action)
    if (dumped := _dumped(action)) is not None:
        return dumped
    if is_dataclass(action) and not isinstance(action, type):
        names = [field.name for field in fields_of(action)]
    else:
        slots = (slot for kind in type(action).__mro__ for slot in _slots(kind))
        names = [*slots, *getattr(action, "__dict__", {}), *getattr(type(action), "_fields", ())]
    found = {name: getattr(action, name, None) for name in names if not name.startswith("_")}
    return found or {"action_text": text_of(action)}


def _is_neutral(action: Any) -> bool:
    """Whether it is an action of the console's own, with typed terms."""
    return is_dataclass(action) and hasattr(action, "verb") and hasattr(getattr(action, "terms", None), "document")


def _neutral(action: Any) -> dict[str, Any]:
    """An action that `replay_order` gave to the engine's venue, with its terms as keys of their own."""
    held = {one.name: getattr(action, one.name) for one in fields_of(action)}
    terms, extra = held.pop("terms").document(), held.pop("extra")
    return {"action": held.pop("verb"), **held, **terms, **extra}


def _dumped(model: Any) -> dict[str, Any] | None:
    """What a pydantic model says of itself, such as a request of alpaca-py."""
    if isinstance(model, type):
        return None
    try:
        dump = getattr(model, "model_dump", None)
        found = dump(mode="json") if callable(dump) else None
    except Exception:  # noqa: BLE001 - a model that cannot dump itself still has its attributes
        return None
    return {str(key): held for key, held in found.items()} if isinstance(found, Mapping) else None


def _stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty in the action and filled in for its column: the two would contradict each other."""
    return {key: held for key, held in fields.items() if FIELD_OF.get(fold(key)) not in _FILLED_IN or _text(held)}


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _number(value: object) -> float | None:
    """As the layout's column holds it; what is no number stays in the action's own JSON."""
    try:
        number = None if value is None else float(text_of(_bare(value)))
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None


def _json(fields: Mapping[str, Any]) -> str:
    try:
        return json.dumps(_plain(fields))
    except (TypeError, ValueError, RecursionError):
        return json.dumps({name: _text(value) for name, value in fields.items()})


def _bare(value: object) -> object:
    while isinstance(value, Enum):
        value = value.value
    return value


def _plain(value: object) -> object:
    """The value as JSON can hold it, with its own names."""
    if type(value) in _PLAIN:
        return value
    match _bare(value):
        case None | bool() | int() | float() | str() as held:
            return held
        case date() as moment:
            return moment.isoformat()
        case Mapping() as held:
            return {str(_bare(key)): _plain(one) for key, one in held.items()}
        case list() | tuple() | set() | frozenset() as held:
            return [_plain(one) for one in held]
        case held if (dumped := _dumped(held)) is not None:
            return _plain(dumped)
        case held if is_dataclass(held) and not isinstance(held, type):
            return {one.name: _plain(getattr(held, one.name)) for one in fields_of(held)}
        case held:
            return text_of(held)


def _text(value: object) -> str | None:
    if value is None or type(value) is str:
        return value
    return text_of(_bare(value))


def text_of(value: object) -> str:
    """Of an error or a value of any make; one that cannot say itself is named by its type."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever its own code raises, the order must not be lost
        return object.__repr__(value)


def _column(value: object) -> str | None:
    """Text that every store can hold; where that is other text, the action's own disagrees, and stops a replay."""
    return None if (text := _text(value)) is None else storable(text)
