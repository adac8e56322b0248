"""For engines: an entry is sent once more through the engine's own venue. Synchronous, beside any event loop.

Knows the sink, the store contract and the classification of errors; the venue is whatever the engine passes.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import uuid
from collections.abc import Coroutine
from dataclasses import asdict, replace
from typing import Any, TypeVar

from backends import DeadLetteredOrder, DLQSink, open_store
from backends.records import ERROR_LIMIT, ActContext, Actor
from backends.store import Claim, ClaimRefused, Intent, Result, Store, StoreError
from console.services.engine.capture import AuditLog, EngineVenue, order_id_of, quietly
from console.services.errors.category import classify
from console.services.replay import payload
from console.settings.identity import current_actor
from venues import OrderAction, Prepared, parse_action

_LEASE_SECONDS = 300.0
_RECORD_TRIES = 20
_RECORD_SECONDS = 0.5
T = TypeVar("T")


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
    actor = current_actor(None)
    try:
        claim, action = own.run(_begin(store, actor, action, entry, mode=_mode(venue)))
    except StoreError as problem:
        return False, f"not sent: {problem}"
    if isinstance(claim, ClaimRefused):
        return False, f"{claim.code}: {claim.why}"
    try:
        order_id = order_id_of(venue.submit(action))
        result, detail = Result("accepted", order_id, evidence="the engine's venue answered"), order_id
    except Exception as problem:  # noqa: BLE001 - any failure of a venue is an outcome here
        outcome, detail = _failure(problem)
        result = Result("unknown" if outcome == "unknown" else "rejected", error=detail, evidence=detail)
    if unrecorded := own.run(_conclude(store, claim, result, actor)):
        return False, f"unknown: the venue's answer ({detail}) could not be recorded: {unrecorded}"
    if result.outcome == "accepted":
        _annotate(audit_log, entry.dlq_id, detail)
    return result.outcome == "accepted", detail


async def _conclude(store: Store, claim: Claim, result: Result, actor: Actor) -> str | None:
    """Why it could not be recorded, after waiting for a store that is away for a moment."""
    for remaining in reversed(range(_RECORD_TRIES)):
        try:
            await store.conclude(claim, result, actor, await _why(store))
        except StoreError as problem:
            if not remaining:
                return str(problem)
            await asyncio.sleep(_RECORD_SECONDS)
        else:
            return None
    raise AssertionError("the last try returns")


async def _begin(
    store: Store, actor: Actor, action: OrderAction, entry: DeadLetteredOrder, *, mode: str
) -> tuple[Claim | ClaimRefused, OrderAction]:
    found = await store.get(entry.dlq_id)
    if found is None:
        return ClaimRefused(entry.dlq_id, "no such entry", "gone"), action
    if not action.client_order_id:
        seed = f"{await store.store_id()}\n{entry.dlq_id}"
        action = replace(action, client_order_id=hashlib.sha256(seed.encode()).hexdigest()[:32])
    claim = await store.claim(entry.dlq_id, found.version, actor, _LEASE_SECONDS)
    if isinstance(claim, ClaimRefused):
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
    try:
        attempt = await store.intend(claim, intent, actor, await _why(store))
    except StoreError:
        await store.release(claim)
        raise
    if isinstance(attempt, ClaimRefused):
        await store.release(claim)
        return attempt, action
    return claim, action


def _mode(venue: object) -> str:
    """Paper only where the engine's venue says so itself."""
    said = getattr(venue, "mode", None)
    return "paper" if said == "paper" or getattr(venue, "paper", None) is True else "live"


def _failure(problem: Exception) -> tuple[str, str]:
    """("unknown" | "rejected", detail): could this have reached the venue?"""
    error = f"{type(problem).__name__}: {problem}"[:ERROR_LIMIT]
    return ("unknown", f"unknown: {error}") if classify(error).reach == "maybe" else ("rejected", error)


def _annotate(audit_log: AuditLog | None, dlq_id: str, order_id: str) -> None:
    if audit_log is not None:
        event = {"dlq_id": dlq_id, "venue_order_id": order_id, "text": f"replayed {dlq_id} -> venue order {order_id}"}
        quietly(lambda: audit_log.append("Annotation", event))


async def _why(store: Store) -> ActContext:
    """By the store's clock, as whoever reconciles compares it with that one."""
    return ActContext(at=await store.clock(), operation=uuid.uuid4().hex, reason="replay_order")


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
