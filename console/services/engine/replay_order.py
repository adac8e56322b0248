"""Lets an engine send an entry again through its own venue. Synchronous; works beside a running event loop.

Uses the sink, the store, the attempt lifecycle and the classification of errors; the engine passes the venue.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Coroutine
from dataclasses import asdict, replace
from typing import Any, TypeVar

from backends import DeadLetteredOrder, DLQSink, open_store
from backends.records import ERROR_LIMIT
from backends.store import Intent, Result, Store, StoreError
from console.services.engine.capture import AuditLog, EngineVenue, order_id_of, quietly
from console.services.errors.category import classify
from console.services.evidence import payload
from console.services.replay.attempt import AttemptLedger, HeldClaim, Lease
from console.services.replay.outcome import EntryOutcome
from console.settings.identity import current_actor
from venues import OrderAction, Prepared, parse_action

_LEASE = Lease(300.0, sending=120.0)
T = TypeVar("T")


def replay_order(dlq: DLQSink, dlq_id: str, venue: EngineVenue, audit_log: AuditLog | None = None) -> tuple[bool, str]:
    """Send one entry again through the engine's own venue: (ok, detail).

    A SQL sink records the attempt as the console does. When the submit fails but may have reached the venue, the entry
    stays in doubt and the detail begins with "unknown:".
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
        try:
            store = own.run(open_store(target(), table=dlq.table))  # type: ignore[attr-defined]  # SQL sinks have it
        except StoreError as problem:
            return False, f"not sent: {problem}"
        try:
            return _recorded(own, store, parsed.action, entry, (venue, audit_log))
        finally:
            own.run(store.aclose())


def _in_memory(
    dlq: DLQSink, entry: DeadLetteredOrder, action: OrderAction, venue: EngineVenue, audit_log: AuditLog | None
) -> tuple[bool, str]:
    try:
        order_id = order_id_of(venue.submit(action))
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
    ledger = AttemptLedger(store, current_actor(None), reason="replay_order")
    try:
        begun = own.run(_begin(store, ledger, action, entry, mode=_mode(venue)))
    except StoreError as problem:
        return False, f"not sent: {problem}"
    if isinstance(begun, EntryOutcome):
        return False, begun.detail or begun.outcome
    held, action = begun
    result = _submitted(venue, action)  # on the engine's own thread
    told = EntryOutcome(entry.dlq_id, result.outcome, None, result.venue_order_id, action.client_order_id, result.error)
    ended = own.run(ledger.conclude(held, result, told))
    if ended.outcome == "accepted":
        order_id = ended.venue_order_id or ""
        _annotate(audit_log, entry.dlq_id, order_id)
        return True, order_id
    detail = ended.detail or ended.outcome
    return False, f"unknown: {detail}" if ended.outcome == "unknown" and ended != told else detail


def _submitted(venue: EngineVenue, action: OrderAction) -> Result:
    try:
        order_id = order_id_of(venue.submit(action))
    except Exception as problem:  # noqa: BLE001 - any failure of a venue is an outcome here
        outcome, detail = _failure(problem)
        return Result("unknown" if outcome == "unknown" else "rejected", error=detail, evidence=detail)
    return Result("accepted", order_id, evidence="the engine's venue answered")


async def _begin(
    store: Store, ledger: AttemptLedger, action: OrderAction, entry: DeadLetteredOrder, *, mode: str
) -> tuple[HeldClaim, OrderAction] | EntryOutcome:
    found = await store.get(entry.dlq_id)
    if found is None:
        return EntryOutcome(entry.dlq_id, "skipped", None, detail="no such entry")

    async def prepare() -> tuple[Intent, OrderAction]:
        named = action
        if not named.client_order_id:
            seed = f"{await store.store_id()}\n{entry.dlq_id}"
            named = replace(named, client_order_id=hashlib.sha256(seed.encode()).hexdigest()[:32])
        return _intent(named, entry.venue_name, mode), named

    try:
        return await ledger.begin(entry.dlq_id, found.version, _LEASE, prepare)
    finally:
        await ledger.settle_up()


def _intent(action: OrderAction, venue: str, mode: str) -> Intent:
    """The engine's venue makes the bytes itself; the ledger keeps what a look-up of the order needs."""
    request = Prepared(action.verb, action.client_order_id or "", "", "", b"", action)
    kept = payload.encode(request)
    return Intent(
        mode=mode,
        venue=venue,
        client_order_id=request.client_order_id,
        payload=kept,
        payload_hash=hashlib.sha256(kept).hexdigest(),
        detail="by the engine's own venue",
    )


def _mode(venue: object) -> str:
    """Paper only when the engine's venue says so itself."""
    said = getattr(venue, "mode", None)
    return "paper" if said == "paper" or getattr(venue, "paper", None) is True else "live"


def _failure(problem: Exception) -> tuple[str, str]:
    """("unknown" | "rejected", detail): unknown when the order may have reached the venue."""
    error = f"{type(problem).__name__}: {problem}"[:ERROR_LIMIT]
    return ("unknown", f"unknown: {error}") if classify(error).reach == "maybe" else ("rejected", error)


def _annotate(audit_log: AuditLog | None, dlq_id: str, order_id: str) -> None:
    if audit_log is not None:
        event = {"dlq_id": dlq_id, "venue_order_id": order_id, "text": f"replayed {dlq_id} -> venue order {order_id}"}
        quietly(lambda: audit_log.append("Annotation", event))


class _Own:
    """An event loop on its own thread, so that a synchronous call works beside a running loop."""

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
