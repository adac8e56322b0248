"""A shift's worth of messages and calls that never changes, on Postgres, and a console in which nothing moves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from backends import open_store
from backends.layouts.columns import read_options
from backends.records import ActContext, Entry, Selection
from backends.sql.other.store import OutboxStore
from backends.store import Claim, Intent, Requeued, Result, Store
from console.services.resend.hub_source import HubStore, open_hub
from console.services.resend.plan import ResendTools
from console.services.session import SessionSettings, StoreSession
from console.settings.config import ProviderConfig, StoreConfig
from tests.support.app import ANN, NOW
from tests.support.integration import IntegrationRig, entry_id, failed_row
from tests.support.outbox import OutboxRig, dead_row
from tests.support.snapshots.order_store import StillStage, StillWorkplace
from tests.support.store import set_event_times
from tests.support.venue.hub import TOKEN
from venues.credentials import Credentials

PROVIDERS = {
    "prov-1": ProviderConfig("https://api.acme-pay.example"),
    "prov-2": ProviderConfig("https://hooks.globex.example/v2"),
}
LEAK = {"content-type": "application/json", "correlation_id": "c-9", "authorization": "Bearer s3cr3t-of-a-handler"}
CALL = {"method": "POST", "path": "/v1/charges", "headers": {"Content-Type": "application/json"}}


def _message(number: int, minutes: float, error: str | None, **given: object) -> dict[str, object]:
    failed = NOW - timedelta(minutes=minutes)
    made = {"created_at": failed - timedelta(seconds=95), "failed_at": failed, "last_exception": error}
    return dead_row(number) | made | given


def messages() -> list[dict[str, object]]:
    bill = {"queue": "payments"}
    order = {"order_id": "ord-7781", "market": "AAPL", "quantity": "100", "price": "180.25", "tags": ["gtc", "hedge"]}
    return [
        _message(1, 2900, "TimeoutError('no answer from ledger-svc in 30 s')", queue="audit-mail"),
        _message(2, 190, "TimeoutError('no answer from ledger-svc in 30 s')", **bill, failure_reason="max_deliveries"),
        _message(3, 64, "ValidationError: 1 validation error for Payment: amount must be > 0", **bill),
        _message(4, 41, None, **bill, failure_reason="rejected", deliveries_count=1),
        _message(5, 14, "UnicodeDecodeError('utf-8', ...)", payload=bytes(range(128, 200)), headers=None),
        _message(6, 12, "KeyError('instrument')", payload=b"plain words, no JSON at all"),
        _message(7, 9, "ConnectionRefusedError(111, 'Connect call failed')", payload=json.dumps(order).encode()),
        _message(8, 4, "ConnectionRefusedError(111, 'Connect call failed')", deliveries_count=12),
        _message(9, 2, "ValueError('no such instrument: XAPL')", headers=json.dumps(LEAK), timer_id="daily-roll"),
    ]


def _call(number: int, minutes: float, error: str, **given: object) -> dict[str, object]:
    return failed_row(number) | {"createdAt": NOW - timedelta(minutes=minutes), "error": error} | given


def calls() -> list[dict[str, object]]:
    globex = {"providerId": "prov-2", "providerName": "Globex Hooks", "tenantId": "tenant-7"}
    leak = CALL | {"headers": {"X-Api-Key": "sk_live_9988776655443322"}, "body": {"amount": 12, "password": "hunter2"}}
    put = {"method": "PUT", "path": "/hooks/ord-7781?attempt=2", "headers": {}, "body": "plain words"}
    return [
        _call(1, 42000, "HTTP 503 after 6 attempts"),
        _call(2, 9000, "HTTP 502 after 6 attempts", **globex, originalRequest=json.dumps(put)),
        _call(3, 300, "ReadTimeout: no answer in 10 s, 6 attempts", tenantId="tenant-2"),
        _call(4, 60, "ReadTimeout: no answer in 10 s, 6 attempts", **globex, originalRequest=json.dumps(put)),
        _call(5, 30, "HTTP 503 after 6 attempts"),
        _call(6, 12, "HTTP 500 after 6 attempts", providerId="prov-9", providerName="Initech"),
        _call(7, 3, "HTTP 503 after 6 attempts", originalRequest=json.dumps(leak)),
    ]


def _why(ago: float, reason: str | None, note: str | None = None) -> ActContext:
    at = NOW - timedelta(minutes=ago)
    return ActContext(at=at, operation=f"{int(ago * 10):032x}", reason=reason, note=note)


async def _entry(store: Store, wanted: str) -> Entry:
    found = await store.get(wanted)
    assert found is not None
    return found


async def fill_outbox(target: str) -> None:
    """Nine messages; the oldest is replayed, the next dismissed, the newest has a note."""
    rig = OutboxRig(target)
    await rig.tables()
    await rig.dead(*messages())
    store = await open_store(target)
    assert isinstance(store, OutboxStore)
    try:
        done = await store.requeue("1", (await _entry(store, "1")).version, ANN, _why(8, "replay"))
        assert isinstance(done, Requeued)
        await store.dismiss(Selection.of([await _entry(store, "2")]), ANN, _why(6, "stale"))
        noted = _why(1, None, "the instrument was renamed: ask research")
        await store.note("9", ANN, noted)
        # The database tells the time of an act; a picture needs one that stays.
        await rig.sql("ALTER TABLE dlq_console.note DISABLE TRIGGER ALL")
        await rig.sql(f"UPDATE dlq_console.note SET at = '{noted.at.isoformat()}'")
        await set_event_times(target, lambda operation: _why(int(operation, 16) / 10, None).at)
    finally:
        await store.aclose()


async def fill_integration(target: str) -> None:
    """Seven calls; one was retried in vain, one is in doubt, one was dismissed."""
    rig = IntegrationRig(target)
    await rig.tables()
    await rig.failed(*calls())
    store = await open_store(target)
    try:
        await _retry(store, 5, Result("rejected", error="HTTP 400: card expired", counts=True), ago=20)
        await _retry(store, 4, Result("unknown", error="its end was not recorded"), ago=15)
        await store.dismiss(Selection.of([await _entry(store, entry_id(2))]), ANN, _why(6, "handled-at-venue"))
    finally:
        await store.aclose()
    tried = f'UPDATE {rig.table} SET "lastRetryAt" = $1 WHERE "lastRetryAt" IS NOT NULL'
    await rig.sql(tried, NOW - timedelta(minutes=19))


async def _retry(store: Store, number: int, result: Result, *, ago: float) -> None:
    entry = await _entry(store, entry_id(number))
    claim = await store.claim(entry.id, entry.version, ANN, 60.0)
    assert isinstance(claim, Claim)
    key = f"0f8fad5b-d9cb-469f-a165-7086728950{number:02d}"
    intent = Intent("live", "prov-1", key, b"{}", f"{number:064x}", detail="to api.acme-pay.example")
    await store.intend(claim, intent, ANN, _why(ago, "replay"))
    await store.conclude(claim, result, ANN, _why(ago - 0.2, "replay"))
    await store.release(claim)


@dataclass
class LayoutStage(StillStage):
    """A console on a store of another layout; `providers` is what the config says of them."""

    target: str = ""
    providers: dict[str, ProviderConfig] = field(default_factory=lambda: dict(PROVIDERS))
    secret: str | None = None
    options: dict[str, Any] = field(default_factory=lambda: {"on_success": "keep"})
    hub_url: str | None = None  # the store is this hub; its ledger is in `target`

    @property
    def store_config(self) -> StoreConfig:
        options = read_options(self.options)
        return StoreConfig(
            self.name,
            self.target,
            mode=self.mode,
            environment=self.environment,
            options=options,
            hub_url=self.hub_url,
        )

    async def attach(self, settings: StoreConfig) -> StoreSession:
        async def open_it() -> Store:
            if settings.hub_url is not None:
                hub = HubStore(settings.hub_url, settings.url, on_dismiss=settings.options.on_dismiss)
                return await open_hub(hub, Credentials({"token": TOKEN}), read_only=self.read_only)
            return await open_store(settings.url, read_only=self.read_only, options=self.options)

        def tools() -> ResendTools:
            known = None if self.secret is None else Credentials({"authorization": self.secret})
            return ResendTools(self.actor, self.clock, self.providers, lambda _, tenant: None if tenant else known)

        setting = SessionSettings(
            config=self.config,
            store=settings,
            actor=self.actor,
            clock=self.clock,
            open=open_it,
            credentials=lambda: lambda *_: Credentials({}),
            tools=tools,
        )
        return await StillWorkplace.attach(setting)
