"""An integration hub through its own API: its entries as a store's, and its retries followed until they end.

A retry is only queued by the hub. Its end shows in the entry: gone = it succeeded, counted up = it failed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeVar

from backends.layouts.mask import masked_document, masked_text
from backends.records import Entry, Filter, readable
from backends.store import BadTarget, Change, OnSuccess, Store, StoreError, Unreachable
from backends.target import PostgresTarget, parse_target
from console.services.browse.filter_match import fits
from console.services.layout_fields import INTEGRATION
from venues.client import VenueError
from venues.credentials import Credentials
from venues.integration.hub import COLUMNS, MOST, Failed, Hub

T = TypeVar("T")
MOST_PAGES = 100  # of a hundred entries: what is looked at, at most
_POLL_SECONDS = 5.0


class HubSource:
    """Entries of a hub, credentials masked."""

    def __init__(self, hub: Hub, *, deletes: bool = False) -> None:
        """`deletes`: what is dismissed here is deleted there."""
        self.name = f"hub {hub.host}"
        self.columns: tuple[str, ...] = COLUMNS
        self.hub = hub
        self.shortfall: str | None = None
        self._deletes = deletes

    async def every(self) -> tuple[Entry, ...]:
        found: dict[str, Entry] = {}
        total = 0
        for number in range(1, MOST_PAGES + 1):
            page = await _answered(self.hub.list(page=number, limit=MOST))
            found |= {item.id: entry_of(item) for item in page.items}
            total = page.total
            if not page.items or number * MOST >= page.total:
                break
        most = MOST_PAGES * MOST
        self.shortfall = f"only {most:,} of the hub's {total:,} entries are looked at" if total > most else None
        return tuple(sorted(found.values(), key=lambda entry: entry.row_key))

    async def one(self, entry_id: str) -> Entry | None:
        found = await _answered(self.hub.get(entry_id))
        return None if found is None or found.id != entry_id else entry_of(found)

    def fits(self, entry: Entry, where: Filter) -> bool:
        return fits(entry, where)

    async def dismissed(self, ids: Iterable[str]) -> None:
        for entry_id in ids if self._deletes else ():
            await _answered(self.hub.delete(entry_id))

    async def changes(self) -> AsyncIterator[Change]:
        """Asked for now and then; a hub tells nobody."""
        seen: object = None
        lost = False
        while True:
            try:
                page = await _answered(self.hub.list(page=1, limit=MOST))
                mark = (page.total, [(item.id, item.attempts, item.last_retry_at) for item in page.items])
                if lost or mark != seen:
                    yield Change("back" if lost else "changed")
                seen, lost = mark, False
            except StoreError as problem:
                if not lost:
                    yield Change("lost", str(problem))
                lost = True
            await asyncio.sleep(_POLL_SECONDS)

    async def aclose(self) -> None:
        await self.hub.aclose()


@dataclass(frozen=True, slots=True)
class HubStore:
    """What the config says of a store that is a hub; `ledger` is the Postgres database of our own tables."""

    url: str
    ledger: str
    password: str | None = field(default=None, repr=False)
    on_dismiss: OnSuccess = "keep"


async def open_hub(settings: HubStore, token: Credentials | None, *, read_only: bool) -> Store:
    """Raises BadTarget where it cannot be reached as the config has it."""
    from backends.sql.hub_ledger import open_remote

    if token is None:
        where = "service dlq-console/hub/<store>, item token"
        raise BadTarget(f"the hub's token is not set: put it into the keyring, {where}")
    target = parse_target(settings.ledger)
    if not isinstance(target, PostgresTarget):
        raise BadTarget("a store with a hub_url needs a Postgres url: the console's ledger is kept there")
    if target.password is None and settings.password is not None:
        target = replace(target, password=settings.password)
    try:
        hub = Hub(settings.url, token)
    except VenueError as problem:
        raise BadTarget(f"hub_url: {problem}") from None
    return await open_remote(target, HubSource(hub, deletes=settings.on_dismiss == "delete"), read_only=read_only)


def hub_of(store: Store) -> Hub | None:
    """The hub behind a store, where there is one."""
    source = getattr(store, "source", None)
    return source.hub if isinstance(source, HubSource) else None


async def _answered(asking: Awaitable[T]) -> T:
    try:
        return await asking
    except VenueError as problem:
        raise Unreachable(str(problem)) from None


def entry_of(item: Failed) -> Entry:
    values = tuple(_stored(name, item.columns.get(name)) for name in COLUMNS)
    created = readable(item.columns.get("createdAt") or "")
    version = (f"{item.attempts}|{item.last_retry_at}",)
    return Entry(INTEGRATION, item.id, "pending", version, (created, item.id), COLUMNS, values)


def _stored(name: str, value: object) -> object:
    match value:
        case str() if name == "originalRequest":
            return masked_document(value)
        case str() if name == "error":
            return masked_text(value)
        case Decimal() if value == value.to_integral_value():
            return int(value)
        case _:
            return value
