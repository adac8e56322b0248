"""A rig around an integration hub's dead-letter table, and time that passes only when somebody waits."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from backends import open_store
from backends.records import Entry
from backends.sql.other.store import IntegrationStore
from console.services.replay.outcome import EntryOutcome
from console.services.resend.delivery import Backoff
from console.services.resend.provider import ProviderBatch, Providers, Pulse
from console.settings.config import ProviderConfig
from tests.support.http_server import Answer, Received
from tests.support.store import ACTOR, PostgresRig
from venues.credentials import Credentials

BASE = datetime(2026, 4, 18, 14, 32, 15, tzinfo=UTC)
SECRET = "Bearer s3cr3t-of-the-keyring"
REQUEST = {
    "method": "POST",
    "path": "/v1/charges?expand=1",
    "headers": {"Content-Type": "application/json", "X-Trace": "t-1"},
    "body": {"amount": 10, "currency": "eur"},
}
_COLUMNS = {
    "id": "uuid PRIMARY KEY",
    "providerId": "text NOT NULL",
    "providerName": "text",
    "originalRequest": "jsonb NOT NULL",
    "error": "text NOT NULL",
    "attempts": "int NOT NULL",
    "tenantId": "text",
    "createdAt": "timestamptz NOT NULL",
    "lastRetryAt": "timestamptz",
    "deletedAt": "timestamptz",
}
CAMEL = list(_COLUMNS)
SNAKE = [re.sub("([A-Z])", r"_\1", name).lower() for name in CAMEL]
FOLDED = [name.lower() for name in CAMEL]


def entry_id(number: int) -> str:
    return str(uuid.UUID(int=number))


def failed_row(number: int, **changes: object) -> dict[str, object]:
    """By the camelCase names."""
    row: dict[str, object] = {
        "id": uuid.UUID(int=number),
        "providerId": "prov-1",
        "providerName": "Acme Pay",
        "originalRequest": json.dumps(REQUEST),
        "error": "HTTP 503 after 6 attempts",
        "attempts": 6,
        "tenantId": "tenant-1",
        "createdAt": BASE + timedelta(seconds=number),
        "lastRetryAt": None,
    }
    return row | changes


@dataclass
class IntegrationRig(PostgresRig):
    names: list[str] = field(default_factory=lambda: CAMEL)
    opened: list[IntegrationStore] = field(default_factory=list)
    table: str = "integration_dlq"

    async def tables(self, names: list[str] | None = None, *, soft_delete: bool = True) -> None:
        self.names = names or CAMEL
        columns = [f'"{name}" {kind}' for name, kind in zip(self.names, _COLUMNS.values(), strict=True)]
        await self.sql(f"CREATE TABLE {self.table} ({', '.join(columns if soft_delete else columns[:-1])})")

    async def failed(self, *rows: Mapping[str, object] | int) -> list[str]:
        spelt = dict(zip(CAMEL, self.names, strict=True))
        made = []
        async with self.connect() as connection:
            for one in rows:
                row = failed_row(one) if isinstance(one, int) else one
                columns = ", ".join(f'"{spelt[name]}"' for name in row)
                marks = ", ".join(f"${n}" for n in range(1, len(row) + 1))
                await connection.execute(f"INSERT INTO {self.table} ({columns}) VALUES ({marks})", *row.values())
                made.append(str(row["id"]))
        return made

    async def store(self, *, target: str | None = None, read_only: bool = False, **options: Any) -> IntegrationStore:
        told = {"on_success": "keep"} | options
        opened = await open_store(target or self.target, read_only=read_only, options=told)
        store = cast("IntegrationStore", opened)
        self.opened.append(store)
        return store

    async def column(self, name: str, number: int) -> Any:
        spelt = dict(zip(CAMEL, self.names, strict=True))[name]
        rows = await self.sql(f'SELECT "{spelt}" FROM {self.table} WHERE "id" = $1', uuid.UUID(int=number))
        return rows[0][0] if rows else "gone"

    async def aclose(self) -> None:
        for store in self.opened:
            await store.aclose()


class Time:
    """Seconds pass by waiting alone; every wait is kept."""

    def __init__(self, spread: float = 0.0) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self._spread = spread

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    @property
    def pulse(self) -> Pulse:
        return Pulse(Backoff(self.sleep, lambda: self._spread), lambda: self.now)


def clock() -> datetime:
    return BASE + timedelta(hours=1)


def providers(url: str, *names: str, secret: str | None = SECRET, **settings: Any) -> Providers:
    known = {name: ProviderConfig(url, **settings) for name in names or ("prov-1",)}
    own = None if secret is None else Credentials({"authorization": secret})
    return Providers(known, lambda _, tenant: own if tenant is None else None)


def redelivery(store: IntegrationStore, there: Providers, time: Time | None = None) -> ProviderBatch:
    return ProviderBatch(store, there, ACTOR, clock, pulse=(time or Time()).pulse)


async def entries(store: IntegrationStore, *wanted: str) -> list[Entry]:
    found = await store.many(wanted)
    return [found[one] for one in wanted]


def answers(*script: Answer) -> Callable[[Received], Answer]:
    """One after the other; the last for ever."""
    left = list(script)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


async def resend(
    rig: IntegrationRig, url: str, *numbers: int, time: Time | None = None, **options: Any
) -> list[EntryOutcome]:
    store = rig.opened[0] if rig.opened else await rig.store(**options)
    there = providers(url)
    try:
        run = redelivery(store, there, time)
        return list(await run.run(await entries(store, *map(entry_id, numbers)), note="fixed"))
    finally:
        await there.aclose()
