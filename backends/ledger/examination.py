"""Verifies the chain and compares the ledger's tables with it, block by block. Reads a store; writes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from backends.ledger.audit_chain import Head, Verifier
from backends.ledger.comparison import (
    APPROVAL,
    ATTEMPT,
    NOTE,
    ChainRecord,
    Row,
    approval_differences,
    attempt_difference,
    halt_difference,
    in_part,
    is_open,
    policy_differences,
)
from backends.ledger.names import SWITCH_MARK
from backends.records import Chained
from backends.store import Store

_TRIES = 5  # looks at a store in which somebody acts meanwhile
_PART = 100_000  # attempts or notes that are named in one walk of the chain
MOST_NAMED = 20


class Examined(NamedTuple):
    head: Head
    problem: str | None  # of the chain itself
    differences: tuple[str, ...] = ()  # between the tables and the chain
    busy: bool = False  # somebody acted all the while, so that the tables could not be compared


class _Seen(NamedTuple):
    named: list[str]
    attempts: bool  # what is done with differs
    notes: bool


async def examine(
    store: Store, expected: Head | None = None, progress: Callable[[int], None] = lambda _: None
) -> Examined:
    """`progress` is told how many events are verified."""
    verifier, record = Verifier(expected), ChainRecord()
    for _ in range(_TRIES):
        async for block in store.chain(verifier.head.count):
            if not await asyncio.to_thread(_fed, verifier, record, block):
                return Examined(verifier.head, verifier.finish())
            progress(verifier.head.count)
        if problem := verifier.finish():
            return Examined(verifier.head, problem)
        seen = await _compared(store, record)
        if not (seen.named or seen.attempts or seen.notes):
            return Examined(verifier.head, None)
        if await store.event_hash(verifier.head.count + 1) is None:
            named = [*seen.named, *(await _named(store, record) if seen.attempts or seen.notes else ())]
            return Examined(verifier.head, None, tuple(named[:MOST_NAMED]))
    return Examined(verifier.head, None, busy=True)


def _fed(verifier: Verifier, record: ChainRecord, block: Sequence[Chained]) -> bool:
    if not verifier.feed(block):
        return False
    record.feed(block)
    return True


async def _compared(store: Store, record: ChainRecord) -> _Seen:
    named = list(record.odd)
    left, total, count = dict(record.open), 0, 0
    async for rows in store.kept("attempt", ATTEMPT):
        for row in map(tuple, rows):
            if is_open(row):
                said = left.pop(row[:3], None)
                if row != said:
                    named.append(attempt_difference(row, said))
            else:
                total += hash(row)
                count += 1
    # An attempt that the chain leaves open and that the table has ended is named with what is done.
    attempts = bool(left) or (total, count) != (record.done_sum, record.done_count)
    total = count = 0
    async for rows in store.kept("note", NOTE):
        total += sum(hash(tuple(row)) for row in rows)
        count += len(rows)
    notes = (total, count) != (record.notes_sum, record.notes_count)
    return _Seen(named + await _few(store, record), attempts, notes)


async def _few(store: Store, record: ChainRecord) -> list[str]:
    """The differences in what is never much."""
    named: list[str] = []
    if store.keeps("approval", "asked_event"):
        asked = [tuple(row) async for rows in store.kept("approval", APPROVAL) for row in rows]
        named += approval_differences(asked, record)
        marked = [row[0] async for rows in store.kept("audit_entry", ("seq",), mark=SWITCH_MARK) for row in rows]
        if marked != record.switches:
            named.append("the index of halts and resumes differs from the chain")
    halts = [tuple(row) async for rows in store.kept("halt", ("since", "operator", "note")) for row in rows]
    if difference := halt_difference(halts, record.halt):
        named.append(difference)
    if store.keeps("policy"):
        policy = {str(row[0]): str(row[1]) async for rows in store.kept("policy", ("key", "value")) for row in rows}
        named += policy_differences(policy, record.policy)
    return named


async def _named(store: Store, whole: ChainRecord) -> list[str]:
    """Walks chain and tables once for each part, so that memory stays bounded."""
    parts = max(whole.done_count, whole.notes_count) // _PART + 1
    named: list[str] = []
    for number in range(parts):
        part = (number, parts)
        record = ChainRecord(part)
        async for block in store.chain():
            await asyncio.to_thread(record.feed, block)
        said: dict[Row, Row] = {**{k: row for k, row in record.open.items() if in_part(k, part)}, **record.done}
        async for rows in store.kept("attempt", ATTEMPT):
            mine = [(row, said.pop(row[:3], None)) for row in map(tuple, rows) if in_part(row[:3], part)]
            named += [attempt_difference(row, want) for row, want in mine if row != want and not is_open(row)]
        named += [attempt_difference(None, row) for row in said.values()]
        notes: Counter[Row] = Counter()
        async for rows in store.kept("note", NOTE):
            notes.update(row for row in map(tuple, rows) if in_part(row, part))
        named += [f"note on {row[1]} by {row[3]}: the chain does not know it" for row in notes - record.notes]
        named += [f"note on {row[1]} by {row[3]}: the table has lost it" for row in record.notes - notes]
        if len(named) >= MOST_NAMED:
            break
    return named
