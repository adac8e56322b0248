"""An index beside a store under test: built, fed and read in this process, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from backends.index import BuildPace, Cache, IndexBuilder, IndexWriter, Reader
from backends.records import Filter
from backends.store import Store
from console.services.index.keeper import cache_of, labeller
from console.services.market.entry_value import worth_by
from console.services.stats.groups import Group, Groups
from console.services.triage.triage import Query, Triage
from tests.support.store import ACTOR, BASE, EVERYTHING

WORTH = worth_by({})
SMALL_STEPS = BuildPace(page=7, overlap=5, tick=0.0, least_check=0.0, check_share=1e9, patrol_share=1e9)


@dataclass
class Indexed:
    store: Store
    cache: Cache
    reader: Reader

    @contextmanager
    def feed(self, pace: BuildPace = SMALL_STEPS) -> Iterator[IndexBuilder]:
        with self.cache.writing() as connection:
            feed = IndexBuilder(self.store, IndexWriter(connection), labeller(WORTH), now=lambda: BASE, pace=pace)
            try:
                yield feed
            finally:
                feed.close()

    async def settle(self, *, thorough: bool = False, pace: BuildPace = SMALL_STEPS) -> bool:
        with self.feed(pace) as feed:
            return await feed.settle(thorough=thorough)

    def groups(self, now: datetime = BASE) -> Groups:
        return Groups(Triage(self.store, ACTOR, lambda: now, worth=WORTH), self.reader, lambda: now)

    async def seen(self, *, everything: bool = True) -> list[Group]:
        """The groups as the index has them."""
        view = await self.groups().view(everything=everything, whole=True)
        assert view.source == "index"
        return [plain(group) for group in view.groups]

    async def recount(self, *, everything: bool = True) -> list[Group]:
        """The groups as the store itself has them."""
        where = EVERYTHING if everything else Filter()
        return [plain(group) for group in (await self.groups().counted(Query(where))).groups]


def plain(group: Group) -> Group:
    """Without what only an index knows."""
    return replace(group, trend=(), new=None)


async def indexed(store: Store, folder: Path) -> Indexed:
    cache = await cache_of(store, folder / "cache")
    return Indexed(store, cache, Reader(cache))
