"""Reads a hub's whole list page by page, though it changes meanwhile, and tells whether an entry is gone from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from venues.integration.hub import MOST, Failed, FailedPage, Hub, HubError, NotFound

MOST_PAGES = 100  # of a hundred entries: what is looked at, at most
_PASSES = 4
_BUSY_TRIES = 3
_LONGEST_WAIT = 10.0  # seconds for one page of a busy hub
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HubList:
    """Entries by their ids; `shortfall` is one line on what may be missing, None if nothing is."""

    items: dict[str, Failed]
    shortfall: str | None = None


async def whole_list(hub: Hub, sleep: Sleep = asyncio.sleep) -> HubList:
    """Read the list until two readings agree: between two pages an entry may move to a page that was read already.

    Where they never agree, all that was seen is returned and the shortfall says so. Raises HubError.
    """
    seen: dict[str, Failed] = {}
    last: dict[str, Failed] | None = None
    for _ in range(_PASSES):
        items, total, pages = await _pass(hub, sleep)
        seen |= items
        if total > MOST_PAGES * MOST:
            return HubList(items, f"only {MOST_PAGES * MOST:,} of the hub's {total:,} entries are looked at")
        if (pages == 1 or (last is not None and last.keys() == items.keys())) and len(items) == total:
            return HubList(items)
        last = items
    return HubList(seen, "the hub's list changed while it was read: entries may be missing, look again")


async def _pass(hub: Hub, sleep: Sleep) -> tuple[dict[str, Failed], int, int]:
    items: dict[str, Failed] = {}
    number, total = 0, 0
    while number < MOST_PAGES:
        number += 1
        page = await _page(hub, number, sleep)
        items |= {item.id: item for item in page.items}
        total = page.total
        if not page.items or number * MOST >= total:
            break
    return items, total, number


async def _page(hub: Hub, number: int, sleep: Sleep) -> FailedPage:
    for remaining in reversed(range(_BUSY_TRIES)):
        try:
            return await hub.list(page=number, limit=MOST)
        except HubError as problem:
            if problem.wait is None or not remaining:
                raise
            await sleep(min(problem.wait, _LONGEST_WAIT))
    raise AssertionError("the last try returns or raises")


class HubLook:
    """One look at a hub: reads its list once at most, and only where an entry is not found."""

    def __init__(self, hub: Hub, sleep: Sleep = asyncio.sleep) -> None:
        self._hub = hub
        self._sleep = sleep
        self._list: HubList | None = None

    async def find(self, entry_id: str) -> Failed | None:
        """The entry; None only where the hub answers 404 and its own list does not have it. Raises HubError."""
        try:
            return await self._hub.get(entry_id)
        except NotFound:
            return await self.listed(entry_id)

    async def listed(self, entry_id: str) -> Failed | None:
        """The entry as the hub's list has it; None if the whole list does not. Raises HubError."""
        if self._list is None:
            self._list = await whole_list(self._hub, self._sleep)
        found = self._list.items.get(entry_id)
        if found is None and self._list.shortfall is not None:
            raise HubError(f"{self._hub.host}: HTTP 404, but {self._list.shortfall}")
        return found
