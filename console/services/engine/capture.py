"""For engines: a failed submit becomes an entry. Synchronous, beside any event loop.

Knows the sink; the venue is whatever the engine passes. Never guesses: what an action does not say, its entry does not
say either, so that the console refuses it until somebody has looked.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol
from uuid import UUID

from backends import DeadLetteredOrder, DLQSink, new_dlq_id
from backends.layouts.mask import masked_error
from backends.records import ERROR_LIMIT
from console import clock
from console.services.engine.found_order import ORDER_IDS, told
from venues.orders import OrderAction
from venues.term_names import FIELD_OF, IN_PARAMS, IN_PARAMS_OF, PARAMS, fold, is_set

REJECTS = "horizon_order_rejects_total"
_FILLED_IN = ("venue_name", "market_id", "side", "quantity", "order_type")  # columns that are never without a value
_ASYNC_SUBMIT = "submit is async: submit_or_dead_letter needs a plain function; nothing was sent"
_log = logging.getLogger("dlq_console.capture")


class EngineVenue(Protocol):
    def submit(self, action: Any, /) -> Any: ...


class AuditLog(Protocol):
    def append(self, category: str, payload: Mapping[str, object], /) -> object: ...


class Metrics(Protocol):
    def inc(self, name: str, labels: Mapping[str, str], /) -> object: ...


def submit_or_dead_letter(
    venue: EngineVenue, action: Any, sink: DLQSink, audit: AuditLog | None = None, metrics: Metrics | None = None
) -> str | None:
    """The venue's order id; None where the submit failed and the order is now in the sink. The loop goes on.

    Raises only what the sink raises: an order that is neither placed nor kept must not pass in silence.
    """
    try:
        return order_id_of(_answered(venue.submit(action)))
    except Exception as problem:  # noqa: BLE001 - whatever a venue raises, the order must not be lost
        error = f"{type(problem).__name__}: {problem}"
    entry = dead_letter(venue, action, error)
    event = {"dlq_id": entry.dlq_id, "venue": entry.venue_name, "market_id": entry.market_id, "error": entry.error}
    quietly(lambda: metrics and metrics.inc(REJECTS, {"layer": "venue_exception"}))
    try:
        sink.write(entry)
    except Exception:
        quietly(lambda: audit and audit.append("OrderRejected", {**event, "lost": True, "action": entry.action_json}))
        raise
    quietly(lambda: audit and audit.append("OrderRejected", event))
    return None


def _answered(answer: object) -> object:
    """The answer itself. The promise of one is no order id; a coroutine that is closed has sent nothing."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise RuntimeError(_ASYNC_SUBMIT)
    if inspect.isawaitable(answer):
        raise RuntimeError("unknown outcome: submit returned the promise of an answer")
    return answer


def quietly(report: Callable[[], object]) -> None:
    try:
        report()
    except Exception:  # noqa: BLE001 - the engine's own reporting must not stop the engine
        _log.exception("an event of a dead-lettered order could not be reported; the entry itself is stored")


def dead_letter(venue: object, action: Any, error: str) -> DeadLetteredOrder:
    """The entry for an action of any shape: mapping, model, dataclass or plain object. Never fails: the last net."""
    fields = _fields(action)
    said = _said(fields)
    venue_name = said.get("venue_name") or getattr(venue, "name", None) or type(venue).__name__.lower()
    return DeadLetteredOrder(
        dlq_id=new_dlq_id(),
        captured_at=clock.now(),
        venue_name=_text(venue_name) or "",
        account_id=_text(said.get("account_id")),
        market_id=_text(said.get("market_id")) or "",
        side=(_text(said.get("side")) or "").lower(),
        quantity=_number(said.get("quantity")) or 0.0,
        order_type=(_text(said.get("order_type")) or "").lower(),
        price=_number(said.get("price")),
        client_order_id=_text(said.get("client_order_id")),
        error=masked_error(error)[:ERROR_LIMIT],
        action_json=_json(_stated(fields)),
    )


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are set, by neutral name, whichever name the action has for them."""
    found: dict[str, Any] = {}
    for key, held in fields.items():
        if (name := FIELD_OF.get(fold(key))) is not None and is_set(name, held):
            found.setdefault(name, held)
        if fold(key) == PARAMS and isinstance(held, Mapping):
            inner = {IN_PARAMS_OF.get(fold(str(one))): value for one, value in held.items()}
            found = {name: inner[name] for name in IN_PARAMS if is_set(name, inner.get(name))} | found
    return found


def _fields(action: Any) -> dict[str, Any]:
    if isinstance(action, Mapping):
        return {str(_bare(key)): value for key, value in action.items()}
    if isinstance(action, OrderAction):
        return _neutral(action)
    if (dumped := _dumped(action)) is not None:
        return dumped
    if is_dataclass(action) and not isinstance(action, type):
        names = [field.name for field in fields_of(action)]
    else:
        slots = (slot for kind in type(action).__mro__ for slot in _slots(kind))
        names = [*slots, *getattr(action, "__dict__", {}), *getattr(action, "_fields", ())]
    found = {name: getattr(action, name, None) for name in names if not name.startswith("_")}
    return found or {"action_text": str(action)}


def _neutral(action: OrderAction) -> dict[str, Any]:
    """An action that `replay_order` gave to the engine's venue, with its terms as keys of their own."""
    held = {one.name: getattr(action, one.name) for one in fields_of(action)}
    terms, extra = held.pop("terms").document(), held.pop("extra")
    return {"action": held.pop("verb"), **held, **terms, **extra}


def _dumped(model: Any) -> dict[str, Any] | None:
    """What a pydantic model says of itself, such as a request of alpaca-py."""
    dump = None if isinstance(model, type) else getattr(model, "model_dump", None)
    if not callable(dump):
        return None
    try:
        found = dump(mode="json")
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
        number = None if value is None else float(str(_bare(value)))
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
            return str(held)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(_bare(value))


def order_id_of(answer: object) -> str:
    """The venue's order id, from the id itself or from the order that the venue answered with."""
    text = _id_in(answer) or _id_in(told(answer, "order"))
    if not text:
        raise RuntimeError("unknown outcome: the venue answered without an order id")
    return text


def _id_in(answer: object) -> str:
    if found := _scalar(answer) or next((text for name in ORDER_IDS if (text := _scalar(told(answer, name)))), ""):
        return found
    # An engine's own type of id says in `__str__` what it is; the text of a record is only its repr.
    is_record = type(answer).__str__ is object.__str__ or hasattr(answer, "model_dump")
    return "" if is_record or answer is None or isinstance(answer, bool | BaseException) else str(answer).strip()


def _scalar(value: object) -> str:
    plain = isinstance(value, str | int | float | Decimal | UUID) and not isinstance(value, bool)
    return str(value).strip() if plain else ""
