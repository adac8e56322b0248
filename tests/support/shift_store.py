"""A store with a shift behind it: entries of several kinds, people who replayed, dismissed, took back, halted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from backends.records import ActContext
from backends.store import Result, Store
from tests.support.store import ACTOR, BASE, INTENT, OTHER, Rig, attempt_on, order_row, pick

BEGAN = BASE + timedelta(hours=1)
LIMIT, REFUSED = "RuntimeError: HTTP 429 after {} attempts", "RiskRejected: notional {} exceeds the limit"


def at(minutes: float, reason: str | None = None, note: str | None = None) -> ActContext:
    return ActContext(BEGAN + timedelta(minutes=minutes), f"op-{minutes}", reason, note)


def captured(minutes: float) -> datetime:
    return BEGAN + timedelta(minutes=minutes)


def rows() -> list[dict[str, object]]:
    """Four from before the shift, sixteen from it."""
    made = [order_row(n, error=REFUSED.format(n)) for n in range(4)]
    made += [order_row(n, error=LIMIT.format(n), captured_at=captured(n)) for n in range(4, 16)]
    made += [
        order_row(n, error=REFUSED.format(n), captured_at=captured(n), venue_name='ka"l\\s\nhi|*x*')
        for n in range(16, 20)
    ]
    return made


async def shift(rig: Rig) -> Store:
    """→ 14 pending, 1 in doubt, 2 replayed, 3 dismissed."""
    await rig.make(rows())
    store = await rig.open()
    await store.dismiss(await pick(store, 0), ACTOR, at(-30, "stale"))  # before the shift
    await store.dismiss(await pick(store, 1, 2, 3), ACTOR, at(1, "market-closed"))
    await store.restore(await pick(store, 3), OTHER, at(2, "restored", "was still wanted"))
    await attempt_on(store, 4, Result("accepted", "ord_1"))
    live = replace(INTENT, mode="live", client_order_id="cid-5")
    await attempt_on(store, 5, Result("rejected", error="no"), live)
    await attempt_on(store, 6, Result("unknown"), replace(INTENT, client_order_id="cid-6"))
    await attempt_on(store, 7, Result("unknown"), replace(INTENT, client_order_id="cid-7"))
    (_, settled) = await store.open_attempts()
    assert await store.settle(settled, Result("accepted", "ord_7"), OTHER, at(4))
    await store.halt(OTHER, at(5, note="venue is down | *really*"))
    await store.resume(OTHER, at(6, note="venue is back"))
    await store.record("refused-replay", (str(order_row(6)["dlq_id"]),), ACTOR, at(7, "refused", "in doubt"))
    await store.note("group:abc", ACTOR, at(8, note="known"))
    return store
