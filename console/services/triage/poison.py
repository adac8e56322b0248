"""Which entries fail again and again in the same way, by the errors of their tries. Knows no venue and no screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backends.records import OPEN_STATES, Entry, Filter, RowKey
from backends.store import Failures, Store
from console.services.errors.fingerprint import fingerprint
from console.services.layout_fields import stored_error, varying

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Poison:
    """An open entry that failed too often in one way; replaying it again would most likely fail again."""

    entry: Entry
    times: int
    title: str  # of the failure

    @property
    def text(self) -> str:
        return f"failed {self.times} times in the same way"


def poison_of(entry: Entry, failures: Failures, after: int) -> Poison | None:
    """The entry's own error counts once, until an accepted replay or a person cleared it.

    An engine's bare retry count does not count: nobody knows how those tries failed.
    """
    told = failures.errors if failures.is_cleared else (stored_error(entry), *failures.errors)
    masks = varying(entry)
    marks = [fingerprint(error, masks) for error in told]
    if not marks:
        return None
    mark, times = Counter(one.id for one in marks).most_common(1)[0]
    if times < after:
        return None
    return Poison(entry, times, next(one.title for one in marks if one.id == mark))


async def poisoned(store: Store, after: int, among: tuple[str, ...] | None = None) -> tuple[Poison, ...]:
    """Every open entry of the store that is poisoned now; `among`: no others can be, as the caller knows."""
    if after <= 1:  # an entry's own error is enough
        return await _of_all(store, after)
    failing = await store.failing(after - 1, among)
    return tuple((await _among(store, failing, after)).values())


async def poison_among(store: Store, entries: Sequence[Entry], after: int) -> dict[str, Poison]:
    """Those of these entries that are poisoned, by id."""
    open_ones = {entry.id: entry for entry in entries if entry.state in OPEN_STATES}
    failing = await store.failing(max(0, after - 1), tuple(open_ones))
    return await _among(store, failing, after, open_ones)


async def _among(
    store: Store, failing: Mapping[str, Failures], after: int, known: Mapping[str, Entry] | None = None
) -> dict[str, Poison]:
    """Cut errors are read whole: a traceback names its exception at the end."""
    wanted = [one for one in failing if known is None or known[one].clipped]
    entries = dict(known or {})
    for start in range(0, len(wanted), _PAGE):
        entries |= await store.many(tuple(wanted[start : start + _PAGE]))
    found = {
        one: poison_of(entries[one], failures, after)
        for one, failures in failing.items()
        if one in entries and entries[one].state in OPEN_STATES
    }
    return {one: poison for one, poison in found.items() if poison is not None}


async def _of_all(store: Store, after: int) -> tuple[Poison, ...]:
    found: list[Poison] = []
    place: RowKey | None = None
    while True:
        page = await store.page(Filter(), limit=_PAGE, after=place)
        found += (await poison_among(store, page.entries, after)).values()
        if not page.more:
            return tuple(found)
        place = page.entries[-1].row_key
