"""For engines: a failed submit becomes an entry. Synchronous, beside any event loop.

Knows the sink; the venue is whatever the engine passes.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from dataclasses import fields as fields_of
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from backends import DeadLetteredOrder, DLQSink, new_dlq_id
from backends.records import ERROR_LIMIT
from console import clock

REJECTS = "horizon_order_rejects_total"
_FILLED_IN = ("venue_name", "market_id", "side", "quantity", "order_type")  # columns that are never without a value
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
        return order_id_of(venue.submit(action))
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


def quietly(report: Callable[[], object]) -> None:
    try:
        report()
    except Exception:  # noqa: BLE001 - the engine's own reporting must not stop the engine
        _log.exception("an event of a dead-lettered order could not be reported; the entry itself is stored")


def dead_letter(venue: object, action: Any, error: str) -> DeadLetteredOrder:
    """The entry for an action of any shape: mapping, dataclass or plain object. Never fails: it is the last net."""
    fields = _fields(action)
    price = _number(fields.get("price"))
    venue_name = fields.get("venue_name") or getattr(venue, "name", None) or type(venue).__name__.lower()
    return DeadLetteredOrder(
        dlq_id=new_dlq_id(),
        captured_at=clock.now(),
        venue_name=_text(venue_name) or "",
        account_id=_text(fields.get("account_id")),
        market_id=_text(fields.get("market_id") or fields.get("symbol")) or "",
        side=(_text(fields.get("side")) or "").lower(),
        quantity=_number(fields.get("quantity")) or 0.0,
        order_type=(_text(fields.get("order_type")) or ("market" if price is None else "limit")).lower(),
        price=price,
        client_order_id=_text(fields.get("client_order_id")),
        error=error[:ERROR_LIMIT],
        action_json=_json(_stated(fields)),
    )


def _fields(action: Any) -> dict[str, Any]:
    if isinstance(action, Mapping):
        return {str(key): value for key, value in action.items()}
    if is_dataclass(action) and not isinstance(action, type):
        names = [field.name for field in fields_of(action)]
    else:
        slots = (slot for kind in type(action).__mro__ for slot in _slots(kind))
        names = [*slots, *getattr(action, "__dict__", {}), *getattr(action, "_fields", ())]
    found = {name: getattr(action, name, None) for name in names if not name.startswith("_")}
    return found or {"action_text": str(action)}


def _stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty in the action and filled in for its column: the two would contradict each other."""
    return {name: held for name, held in fields.items() if name not in _FILLED_IN or _text(held)}


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
        return json.dumps(fields, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({name: _text(value) for name, value in fields.items()})


def _bare(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _plain(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case datetime():
            return value.isoformat()
        case Mapping():
            return dict(value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        case _:
            return str(value)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(_bare(value))


def order_id_of(answer: object) -> str:
    text = "" if answer is None else str(answer).strip()
    if not text:
        raise RuntimeError("unknown outcome: the venue answered without an order id")
    return text
