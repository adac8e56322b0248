"""An integration hub through its own API: its entries as a store's, and its retries followed until they end.

A retry is only queued by the hub. Its end shows in the entry: gone = it succeeded, counted up = it failed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeVar

from backends.layouts.mask import masked_document, masked_text
from backends.records import Entry, readable
from backends.store import ActRefused, BadTarget, Change, OnSuccess, Store, StoreError, Unreachable
from backends.target import PostgresTarget, parse_target
from console.services.layout_fields import INTEGRATION
from console.services.resend.hub_list import HubLook, Sleep, whole_list
from console.settings.secret_names import hub_set
from console.settings.secret_remedies import secret_missing
from venues.client import VenueError
from venues.credentials import Credentials
from venues.integration.hub import COLUMNS, MOST, Failed, Hub, HubError, NotFound

T = TypeVar("T")
_POLL_SECONDS = 5.0
_DELETE_WAITS = (0.5, 2.0)  # seconds before each further try; deleting twice does no harm
_LONGEST_WAIT = 10.0


class HubSource:
    """Entries of a hub, credentials masked."""

    def __init__(self, hub: Hub, *, on_dismiss: OnSuccess = "keep", sleep: Sleep = asyncio.sleep) -> None:
        """`on_dismiss`: what happens at the hub to an entry that is dismissed here."""
        self.name = f"hub {hub.host}"
        self.columns: tuple[str, ...] = COLUMNS
        self.hub = hub
        self._unlisted: str | None = None  # what the list left out
        self._untold: set[str] = set()  # entries whose requests were asked for, and that the hub does not tell
        self._on_dismiss = on_dismiss
        self._sleep = sleep

    @property
    def shortfall(self) -> str | None:
        told = [self._unlisted] if self._unlisted else []
        if self._untold:
            one = len(self._untold) == 1
            which = "request of 1 entry is" if one else f"requests of {len(self._untold):,} entries are"
            told.append(f"the {which} missing: the hub does not give {'it' if one else 'them'}")
        return "; ".join(told) or None

    async def every(self) -> tuple[Entry, ...]:
        there = await _answered(whole_list(self.hub, self._sleep))
        self._unlisted, self._untold = there.shortfall, set()
        return tuple(sorted(map(entry_of, there.items.values()), key=lambda entry: entry.row_key))

    async def one(self, entry_id: str) -> Entry | None:
        try:
            found = entry_of(await self.hub.get(entry_id))
            if found.clipped:
                self._untold.add(entry_id)
            return replace(found, clipped=False)
        except NotFound:
            return None  # not shown; whether it is gone is asked where that counts
        except VenueError as problem:
            raise Unreachable(str(problem)) from None

    @property
    def removes(self) -> bool:
        if self._on_dismiss == "soft-delete":
            raise ActRefused(
                'on_dismiss = "soft-delete": a hub can only delete; say "delete" or "keep". Nothing was done'
            )
        return self._on_dismiss == "delete"

    async def remove(self, entry_id: str) -> str | None:
        for wait in (*_DELETE_WAITS, None):
            try:
                await self.hub.delete(entry_id)
                return None
            except NotFound as problem:
                try:
                    gone = await HubLook(self.hub, self._sleep).listed(entry_id) is None
                except HubError as doubt:
                    return str(doubt)
                return None if gone else f"{problem}, though its list has the entry"
            except HubError as problem:
                if wait is None:
                    return str(problem)
                await self._sleep(max(wait, min(problem.wait or 0.0, _LONGEST_WAIT)))
        raise AssertionError("the last try returns")

    async def changes(self) -> AsyncIterator[Change]:
        """Asked for now and then; a hub tells nobody."""
        seen: object = None
        lost = False
        while True:
            try:
                page = await _answered(self.hub.list(page=1, limit=MOST))
                mark = (page.total, [(item.id, item.mark) for item in page.items])
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
    name: str = "NAME"  # of the store in the config


async def open_hub(
    settings: HubStore,
    token: Credentials | None,
    *,
    read_only: bool,
    renewed: Callable[[], Credentials | None] = lambda: None,
    one_reader: bool = False,
) -> Store:
    """Raises BadTarget where it cannot be reached as the config has it. `renewed` reads the token once more."""
    from backends.sql.hub_ledger import open_remote

    if token is None:
        raise BadTarget(f"the hub's token is not set: {secret_missing(hub_set(settings.name), 'token')}")
    target = parse_target(settings.ledger)
    if not isinstance(target, PostgresTarget):
        raise BadTarget("a store with a hub_url needs a Postgres url: the console's ledger is kept there")
    if target.password is None and settings.password is not None:
        target = replace(target, password=settings.password)
    try:
        hub = Hub(settings.url, token, renewed=renewed)
    except VenueError as problem:
        raise BadTarget(f"hub_url: {problem}") from None
    source = HubSource(hub, on_dismiss=settings.on_dismiss)
    return await open_remote(target, source, read_only=read_only, one_reader=one_reader)


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
    told = item.columns.get("originalRequest") is not None
    return Entry(INTEGRATION, item.id, "pending", (item.mark,), (created, item.id), COLUMNS, values, clipped=not told)


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
