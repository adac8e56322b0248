"""Listening to a store's changes, one word at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from backends.sql.store import SQLStore
from backends.store import Change


class Ear:
    """What `changes()` says, one word at a time, each within a generous bound."""

    def __init__(self, store: SQLStore) -> None:
        self._changes = store.changes()

    async def next(self, seconds: float = 20) -> Change:
        async with asyncio.timeout(seconds):
            return await anext(self._changes)

    async def until(self, kind: str) -> Change:
        while (change := await self.next()).kind != kind:
            pass
        return change

    async def nothing(self, seconds: float) -> None:
        with pytest.raises(TimeoutError):
            await self.next(seconds)

    async def aclose(self) -> None:
        await self._changes.aclose()  # type: ignore[attr-defined]  # it is an async generator


@asynccontextmanager
async def listening(store: SQLStore) -> AsyncIterator[Ear]:
    ear = Ear(store)
    assert (await ear.next()).kind == "changed", "the first word: what came before is not known"
    yield ear
    await ear.aclose()
