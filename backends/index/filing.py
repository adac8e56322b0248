"""Entries into the index: new ones are labelled and filed, known ones brought up to date. Decides nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from backends.index.file import IndexUnavailable
from backends.index.rows import Labeller, file_entry, retries_of
from backends.index.search_text import searchable
from backends.index.summary import Filed
from backends.index.thread import Thread
from backends.index.writer import IndexBatch, IndexWriter
from backends.records import STATES, Entry, Filter, State
from backends.store import Reads, Watch

T = TypeVar("T")
EVERYTHING = Filter(states=frozenset(STATES))


class IndexSource(Reads, Watch, Protocol):
    """What the index needs of a store: it never acts."""


@dataclass(frozen=True, slots=True)
class BuildPace:
    """How much at a time, and what share of a core looking twice may cost."""

    page: int = 1000
    overlap: int = 200  # rows that are read again where later ones may sort before earlier ones
    tick: float = 2.0  # seconds between two looks for what is new while something always is
    check_share: float = 0.01
    patrol_share: float = 0.005
    least_check: float = 2.0  # seconds


class Filing:
    def __init__(self, store: IndexSource, writer: IndexWriter, label: Labeller, pace: BuildPace) -> None:
        self.store = store
        self.pace = pace
        self._writer = writer
        self._label = label
        self._thread = Thread("index")

    def close(self) -> None:
        self._thread.close()

    async def meta(self) -> dict[str, str]:
        return await self._run(self._writer.meta)

    async def states(self) -> dict[State, int]:
        return await self._run(self._writer.states)

    async def known(self, ids: Sequence[str]) -> dict[str, Filed]:
        return await self._run(lambda: self._writer.known(ids))

    async def block(self, below: int, limit: int) -> list[tuple[int, str]]:
        return await self._run(lambda: self._writer.block(below, limit))

    async def apply(self, batch: IndexBatch) -> dict[State, int]:
        return await self._run(lambda: self._writer.apply(batch))

    async def snapshot(self, minute: int, *, keep: int) -> None:
        await self._run(lambda: self._writer.snapshot(minute, keep=keep))

    async def put(
        self, entries: Sequence[Entry], *, below: bool = False, meta: Mapping[str, str] | None = None
    ) -> dict[State, int]:
        """In the order in which they came, or newest first where they belong `below` all that is filed."""
        known = await self.known([entry.id for entry in entries])
        fresh = {entry.id: entry for entry in entries if entry.id not in known}
        whole = [(await self.store.get(one.id) or one) if one.clipped else one for one in fresh.values()]
        changed = _changed(entries, known)
        if not whole and not changed and not meta:
            return {}

        def write() -> dict[State, int]:
            marks = [file_entry(entry, self._label(entry)) for entry in whole]
            if below:
                return self._writer.apply(IndexBatch(below=marks, states=changed, meta=meta))
            above = [(mark, searchable(entry)) for mark, entry in zip(marks, whole, strict=True)]
            return self._writer.apply(IndexBatch(above=above, states=changed, meta=meta))

        return await self._run(write)

    async def compare(self, ids: Sequence[str]) -> dict[State, int]:
        """These as they are now; what is no longer there is dropped, what was never filed is left alone."""
        found = await self.store.many(tuple(ids))
        known = await self.known(ids)
        missing = [one for one in known if one not in found and await self.store.get(one) is None]
        changed = _changed(tuple(found.values()), known)
        if not changed and not missing:
            return {}
        return await self.apply(IndexBatch(states=changed, gone=[known[one] for one in missing]))

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await self._thread.run(work)
        except sqlite3.Error as problem:
            raise IndexUnavailable(f"the index cannot be written: {problem}") from problem


def _changed(entries: Sequence[Entry], known: Mapping[str, Filed]) -> list[tuple[Filed, State, int]]:
    seen = {entry.id: entry for entry in entries if entry.id in known}
    return [
        (known[entry.id], entry.state, retries_of(entry))
        for entry in seen.values()
        if (STATES[known[entry.id].state], known[entry.id].retries) != (entry.state, retries_of(entry))
    ]
