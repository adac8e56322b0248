"""For engines: a failed submit becomes an entry, and an entry is sent once more. Synchronous, beside any event loop.

Knows the sink, the store contract and the classification of errors; the venue is whatever the engine passes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, is_dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol, TypeVar

from backends import DeadLetteredOrder, DLQSink, new_dlq_id, open_store
from backends.records import ERROR_LIMIT, Actor, Why
from backends.store import Claim, Intent, Result, Store, Taken
from console import clock
from console.identity import current_actor
from console.services import payload
from console.services.category import classify
from venues import OrderAction, Prepared, parse_action

REJECTS = "horizon_order_rejects_total"
_LEASE_SECONDS = 300.0
_log = logging.getLogger("dlq_console.capture")
T = TypeVar("T")


class EngineVenue(Protocol):
    def submit(self, action: Any, /) -> Any: ...


class AuditLog(Protocol):
    def append(self, category: str, payload: Mapping[str, object], /) -> object: ...


class Metrics(Protocol):
    def inc(self, name: str, labels: Mapping[str, str], /) -> object: ...


def submit_or_dead_letter(
    venue: EngineVenue, action: Any, sink: DLQSink, audit: AuditLog | None = None, metrics: Metrics | None = None
) -> str | None:
    """The venue's order id; None where the submit failed and the order is now in the sink. The loop goes on."""
    try:
        return str(venue.submit(action))
    except Exception as problem:  # noqa: BLE001 - whatever a venue raises, the order must not be lost
        error = f"{type(problem).__name__}: {problem}"
    entry = dead_letter(venue, action, error)
    event = {"dlq_id": entry.dlq_id, "venue": entry.venue_name, "market_id": entry.market_id, "error": entry.error}
    try:
        sink.write(entry)
    except Exception:
        _quietly(lambda: audit and audit.append("OrderRejected", {**event, "lost": True, "action": entry.action_json}))
        raise
    _quietly(lambda: audit and audit.append("OrderRejected", event))
    _quietly(lambda: metrics and metrics.inc(REJECTS, {"layer": "venue_exception"}))
    return None


def _quietly(report: Callable[[], object]) -> None:
    try:
        report()
    except Exception:  # noqa: BLE001 - the engine's own reporting must not stop the engine
        _log.exception("an event of a dead-lettered order could not be reported; the entry itself is stored")


def dead_letter(venue: object, action: Any, error: str) -> DeadLetteredOrder:
    """The entry for an action of any shape: mapping, dataclass or plain object."""
    fields = _fields(action)
    price = fields.get("price")
    return DeadLetteredOrder(
        dlq_id=new_dlq_id(),
        captured_at=clock.now(),
        venue_name=_text(fields.get("venue_name") or getattr(venue, "name", None) or type(venue).__name__.lower())
        or "",
        account_id=_text(fields.get("account_id")),
        market_id=_text(fields.get("market_id") or fields.get("symbol")) or "",
        side=(_text(fields.get("side")) or "").lower(),
        quantity=float(str(fields.get("quantity") or 0)),
        order_type=(_text(fields.get("order_type")) or ("market" if price is None else "limit")).lower(),
        price=None if price is None else float(str(price)),
        client_order_id=_text(fields.get("client_order_id")),
        error=error[:ERROR_LIMIT],
        action_json=json.dumps(fields, default=_plain),
    )


def _fields(action: Any) -> dict[str, Any]:
    if isinstance(action, Mapping):
        return {str(key): value for key, value in action.items()}
    if is_dataclass(action) and not isinstance(action, type):
        return asdict(action)
    names = getattr(action, "__slots__", None) or vars(action)
    return {str(name): getattr(action, name) for name in names if not str(name).startswith("_")}


def _plain(value: object) -> object:
    match value:
        case Decimal():
            return str(value)
        case Enum():
            return value.value
        case datetime():
            return value.isoformat()
        case Mapping():
            return dict(value)
        case _:
            return str(value)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value.value if isinstance(value, Enum) else value)


def replay_order(dlq: DLQSink, dlq_id: str, venue: EngineVenue, audit_log: AuditLog | None = None) -> tuple[bool, str]:
    """Send one entry again through the engine's own venue: (ok, detail).

    On a SQL sink: claim → intent → submit → outcome, as the console does; an exception that may have been sent
    leaves the entry in doubt and the detail begins with "unknown:".
    """
    entry = dlq.get(dlq_id)
    if entry is None:
        return False, f"no such entry: {dlq_id}"
    if entry.dismissed:
        return False, "already dismissed"
    parsed = parse_action(asdict(entry), entry.action_json or None)
    if parsed.action is None:
        return False, "unparsable: " + "; ".join(f"{one.code}: {one.text}" for one in parsed.findings)
    target = getattr(dlq, "_dsn", None)
    if target is None:
        return _in_memory(dlq, entry, parsed.action, venue, audit_log)
    with _Own() as own:
        store = own.run(open_store(target(), table=dlq.table))  # type: ignore[attr-defined]  # SQL sinks have it
        try:
            return _recorded(own, store, parsed.action, entry, (venue, audit_log))
        finally:
            own.run(store.aclose())


def _in_memory(
    dlq: DLQSink, entry: DeadLetteredOrder, action: OrderAction, venue: EngineVenue, audit_log: AuditLog | None
) -> tuple[bool, str]:
    try:
        order_id = _order_id(venue.submit(action))
    except Exception as problem:  # noqa: BLE001 - any failure of a venue is an outcome here
        dlq.bump_retry(entry.dlq_id)
        return False, _failure(problem)[1]
    dlq.mark_dismissed(entry.dlq_id)
    _annotate(audit_log, entry.dlq_id, order_id)
    return True, order_id


def _recorded(
    own: _Own,
    store: Store,
    action: OrderAction,
    entry: DeadLetteredOrder,
    engine: tuple[EngineVenue, AuditLog | None],
) -> tuple[bool, str]:
    venue, audit_log = engine
    actor = current_actor(None)
    claim, action = own.run(_begin(store, actor, action, entry, mode=_mode(venue)))
    if isinstance(claim, Taken):
        return False, f"{claim.code}: {claim.why}"
    try:
        order_id = _order_id(venue.submit(action))
        result, detail = Result("accepted", order_id, evidence="the engine's venue answered"), order_id
    except Exception as problem:  # noqa: BLE001 - any failure of a venue is an outcome here
        outcome, detail = _failure(problem)
        result = Result("unknown" if outcome == "unknown" else "rejected", error=detail, evidence=detail)
    own.run(store.conclude(claim, result, actor, _why()))
    if result.outcome == "accepted":
        _annotate(audit_log, entry.dlq_id, detail)
    return result.outcome == "accepted", detail


async def _begin(
    store: Store, actor: Actor, action: OrderAction, entry: DeadLetteredOrder, *, mode: str
) -> tuple[Claim | Taken, OrderAction]:
    found = await store.get(entry.dlq_id)
    if found is None:
        return Taken(entry.dlq_id, "no such entry", "gone"), action
    if not action.client_order_id:
        seed = f"{await store.store_id()}\n{entry.dlq_id}"
        action = replace(action, client_order_id=hashlib.sha256(seed.encode()).hexdigest()[:32])
    claim = await store.claim(entry.dlq_id, found.version, actor, _LEASE_SECONDS)
    if isinstance(claim, Taken):
        return claim, action
    # The engine's venue makes the bytes; what is kept is enough to look the order up.
    request = Prepared(action.verb, action.client_order_id or "", "", "", b"", action)
    intent = Intent(
        mode=mode,
        venue=entry.venue_name,
        client_order_id=request.client_order_id,
        payload=payload.encode(request),
        payload_hash=hashlib.sha256(payload.encode(request)).hexdigest(),
        detail="by the engine's own venue",
    )
    attempt = await store.intend(claim, intent, actor, _why())
    return (attempt if isinstance(attempt, Taken) else claim), action


def _mode(venue: object) -> str:
    """Paper only where the engine's venue says so itself."""
    said = getattr(venue, "mode", None)
    return "paper" if said == "paper" or getattr(venue, "paper", None) is True else "live"


def _order_id(answer: object) -> str:
    text = "" if answer is None else str(answer).strip()
    if not text:
        raise RuntimeError("unknown outcome: the venue answered without an order id")
    return text


def _failure(problem: Exception) -> tuple[str, str]:
    """("unknown" | "rejected", detail): could this have reached the venue?"""
    error = f"{type(problem).__name__}: {problem}"[:ERROR_LIMIT]
    return ("unknown", f"unknown: {error}") if classify(error).reach == "maybe" else ("rejected", error)


def _annotate(audit_log: AuditLog | None, dlq_id: str, order_id: str) -> None:
    if audit_log is not None:
        event = {"dlq_id": dlq_id, "venue_order_id": order_id, "text": f"replayed {dlq_id} -> venue order {order_id}"}
        _quietly(lambda: audit_log.append("Annotation", event))


def _why() -> Why:
    return Why(at=clock.now(), operation=uuid.uuid4().hex, reason="replay_order")


class _Own:
    """A loop on a thread of its own, so that a synchronous call works beside a running loop."""

    def __enter__(self) -> _Own:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="dlq-replay-order", daemon=True)
        self._thread.start()
        return self

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
