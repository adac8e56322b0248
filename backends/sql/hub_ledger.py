"""A store whose entries live behind an API, with the console's ledger in Postgres.

Knows no API: an `EntrySource` brings the entries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa

from backends.detect import Attached, Candidate
from backends.detect.foreign_code import described, foreign_calls
from backends.engine import reader_engine, writer_engine
from backends.filter_match import fits
from backends.index.rows import venue_of
from backends.ledger.names import shown_state
from backends.ledger.schema import ledger
from backends.records import (
    ActContext,
    Actor,
    ActResult,
    Counts,
    Entry,
    Filter,
    Page,
    RowKey,
    ScannedRows,
    Selection,
    State,
    StoreInfo,
    Version,
    parse_time,
)
from backends.sql.acts import describe
from backends.sql.claims import SendMode, SQLClaims
from backends.sql.connection import Connection, ReadConnection
from backends.sql.ledger_access import ledger_finding, with_roles
from backends.sql.plan_reads import SQLPlanReads
from backends.sql.watch import SQLWatch
from backends.sql.writer import StoreWriter, Transaction, close_store
from backends.store import Change, ClaimRefused, NotADLQ
from backends.target import PostgresTarget

_GIVE_UP = 3  # removals that fail in a row, before the rest is left as it is


class EntrySource(Protocol):
    """Brings the entries; raises store errors."""

    name: str
    columns: tuple[str, ...]

    @property
    def shortfall(self) -> str | None:
        """One line on what was left out since `every` began; None if nothing was."""

    async def every(self) -> tuple[Entry, ...]:
        """All entries, oldest first, as pending."""

    async def one(self, entry_id: str) -> Entry | None: ...

    @property
    def removes(self) -> bool:
        """Whether a dismissal also removes the entry there. Raises ActRefused where it cannot do what is asked."""

    async def remove(self, entry_id: str) -> str | None:
        """Remove an entry whose dismissal the ledger holds. Returns why it may still be there; never raises."""

    def changes(self) -> AsyncIterator[Change]: ...

    async def aclose(self) -> None: ...


class RemoteAttached(Attached):
    """Attached to a source without a table."""

    __slots__ = ()

    def grants(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class _Known:
    """What the ledger knows about the source's entries."""

    held: dict[str, str]
    settled: dict[tuple[str, str], str]

    def state(self, entry: Entry) -> State:
        return shown_state(self.held.get(entry.id) or self.settled.get((entry.id, born(entry))) or entry.state)


def born(entry: Entry) -> str:
    return str(entry.row_key[0])


class RemoteStore(SQLPlanReads, SQLClaims, SQLWatch):
    def __init__(
        self,
        attached: Attached,
        source: EntrySource,
        lanes: tuple[ReadConnection, ReadConnection],
        target: PostgresTarget,
    ) -> None:
        book = ledger("postgresql")
        quick, slow = lanes
        self._lanes = lanes
        self._source = source
        self._snapshot: tuple[Entry, ...] = ()
        SQLPlanReads.__init__(self, attached, book, (quick, slow, quick))
        self._writer = None
        if not attached.info.read_only:
            self._writer = StoreWriter(writer_engine(target), attached, book, first_id=self.store_id)
        SQLClaims.__init__(self, attached, book, self)

    @property
    def source(self) -> EntrySource:
        return self._source

    @property
    def shortfall(self) -> str | None:
        return self._source.shortfall

    @property
    def info(self) -> StoreInfo:
        return self._attached.info

    async def page(
        self,
        where: Filter,
        *,
        limit: int,
        after: RowKey | None = None,
        before: RowKey | None = None,
        newest_first: bool = False,
    ) -> Page:
        """The first page reads the source; later pages use that snapshot, so that no entry is missed or repeated."""
        if after is None and before is None:
            self._snapshot = await self._source.every()
        entries = await self._matching(self._snapshot, where)
        ordered = entries[::-1] if newest_first else entries
        if before is not None:
            ordered = [one for one in ordered if (one.row_key > before if newest_first else one.row_key < before)]
            return Page(tuple(ordered[-limit:]), len(ordered) > limit)
        if after is not None:
            ordered = [one for one in ordered if (one.row_key < after if newest_first else one.row_key > after)]
        return Page(tuple(ordered[:limit]), len(ordered) > limit)

    async def _matching(self, entries: Iterable[Entry], where: Filter) -> list[Entry]:
        known = await self._known()
        stated = [replace(entry, state=known.state(entry)) for entry in entries]
        return [entry for entry in stated if fits(entry, where)]

    async def scan(
        self, where: Filter, *, most: int, after: RowKey | None = None, newest_first: bool = True
    ) -> ScannedRows:
        page = await self.page(Filter(states=where.states), limit=most, after=after, newest_first=newest_first)
        reached = page.entries[-1].row_key if page.entries else after
        found = tuple(one for one in page.entries if fits(one, where))
        return ScannedRows(found, reached, len(page.entries), page.more)

    async def get(self, entry_id: str) -> Entry | None:
        found = await self._source.one(entry_id)
        return None if found is None else replace(found, state=(await self._known()).state(found))

    async def many(self, ids: tuple[str, ...]) -> dict[str, Entry]:
        found = {entry_id: await self.get(entry_id) for entry_id in ids}
        return {entry_id: entry for entry_id, entry in found.items() if entry is not None}

    async def counts(self, where: Filter) -> Counts:
        entries = await self._matching(await self._source.every(), where)
        tally: dict[State, int] = {}
        for entry in entries:
            tally[entry.state] = tally.get(entry.state, 0) + 1
        oldest = next((born(entry) for entry in entries if entry.state == "pending"), None)
        return Counts(tally, parse_time(oldest))

    async def origins(self) -> frozenset[str]:
        return frozenset(map(venue_of, await self._source.every()))

    async def replayed_since(self, moment: datetime) -> tuple[Entry, ...]:  # noqa: ARG002 - part of the contract
        """The source no longer has what succeeded."""
        return ()

    async def of_orders(self, keys: tuple[str, ...], markets: tuple[str, ...]) -> tuple[Entry, ...]:  # noqa: ARG002 - part of the contract
        """Calls are no orders."""
        return ()

    async def _known(self) -> _Known:
        attempt, settled = self._book.attempt, self._book.settled
        mine = attempt.c.source == self._attached.found.shown
        held = await self._ledger_rows(sa.select(attempt.c.entry_id, attempt.c.state).where(mine, attempt.c.holds == 1))
        done = await self._ledger_rows(
            sa.select(settled.c.entry_id, settled.c.born, settled.c.state).where(
                settled.c.source == self._attached.found.shown
            )
        )
        return _Known({row[0]: row[1] for row in held}, {(row[0], row[1]): row[2] for row in done})

    async def _first_row(self) -> Sequence[Any]:
        return (self._source.name,)

    async def dismiss(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        removes = self._source.removes
        now = await self.many(selection.ids)
        free = {entry_id: now[entry_id] for entry_id, seen in selection.picks if _is_free(now.get(entry_id), seen)}
        if not removes:
            return await self._told(selection, await self._dismissed(free, actor, why))
        return await self._removed(selection, free, actor, why)

    async def _removed(self, selection: Selection, free: dict[str, Entry], actor: Actor, why: ActContext) -> ActResult:
        """One entry after the other: the ledger holds each dismissal first, and takes it back where it stays."""
        done: list[str] = []
        left: dict[str, str] = {}
        in_a_row = 0
        for entry_id, entry in free.items():
            if in_a_row >= _GIVE_UP:
                left[entry_id] = f"not dismissed: {self._source.name} removes nothing now"
                continue
            if not await self._dismissed({entry_id: entry}, actor, why):
                continue
            problem = await self._source.remove(entry_id)
            in_a_row = 0 if problem is None else in_a_row + 1
            if problem is None:
                done.append(entry_id)
            else:
                left[entry_id] = f"not dismissed, it could not be removed: {problem}"
            await self._told_of_removal(entry_id, problem, actor, why)
        rest = Selection(tuple(one for one in selection.picks if one[0] not in left))
        told = await self._told(rest, done)
        return ActResult(told.done, (*told.changed, *left.items()))

    async def _told_of_removal(self, entry_id: str, problem: str | None, actor: Actor, why: ActContext) -> None:
        settled = self._book.settled

        async def work(tx: Transaction) -> None:
            if problem is None:
                detail: dict[str, object] = {"entries": [entry_id], "after": {"deleted": True}}
                await tx.audit("row", (entry_id,), actor, why, detail=detail)
                return
            this = (settled.c.source == tx.source, settled.c.entry_id == entry_id, settled.c.state == "dismissed")
            await tx.execute(sa.delete(settled).where(*this))
            await tx.audit("restore", (entry_id,), actor, why, detail={"entries": [entry_id], "left": problem})

        await self.writing.run(work)

    async def _dismissed(self, free: dict[str, Entry], actor: Actor, why: ActContext) -> list[str]:
        """Record the dismissals of entries that are still free. Returns their ids."""
        settled = self._book.settled

        async def work(tx: Transaction) -> list[str]:
            done = []
            for entry_id, entry in free.items():
                if await self._obstacle(tx, entry_id, entry.version) is None:
                    row = {"source": tx.source, "entry_id": entry_id, "born": born(entry), "state": "dismissed"}
                    await tx.execute(settled.insert(), {**row, "at": why.at.isoformat(), "operation": why.operation})
                    done.append(entry_id)
            if done:
                await tx.audit("dismiss", done, actor, why)
            return done

        return await self.writing.run(work)

    async def restore(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        settled = self._book.settled
        there = tuple(await self.many(selection.ids))  # what is gone from the source cannot come back

        async def work(tx: Transaction) -> list[str]:
            mine = (settled.c.source == tx.source, settled.c.state == "dismissed")
            these = sa.delete(settled).where(*mine, settled.c.entry_id.in_(there)).returning(settled.c.entry_id)
            done = [str(row[0]) for row in await tx.execute(these)]
            if done:
                await tx.audit("restore", done, actor, why)
            return done

        return await self._told(selection, await self.writing.run(work))

    async def _told(self, selection: Selection, done: list[str]) -> ActResult:
        missed = tuple(entry_id for entry_id in selection.ids if entry_id not in done)
        now = await self.many(missed)
        return ActResult(tuple(done), tuple((entry_id, describe(now.get(entry_id))) for entry_id in missed))

    async def _obstacle(
        self,
        tx: Transaction,
        entry_id: str,
        version: Version,  # noqa: ARG002 - the caller compared it with the source
        asked: SendMode | None = None,  # noqa: ARG002 - there are no modes
        *,
        lock: bool = False,  # noqa: ARG002 - there is no row to lock
    ) -> ClaimRefused | None:
        """Asks only the ledger: an API call must not hold the chain's lock."""
        attempt, settled = self._book.attempt, self._book.settled
        if await tx.is_halted():
            return ClaimRefused(entry_id, "halt is set on this store", "halt")
        mine = (attempt.c.source == tx.source, attempt.c.entry_id == entry_id, attempt.c.holds == 1)
        held = (await tx.execute(sa.select(attempt.c.state).where(*mine))).scalar()
        if held is not None:
            accepted = held == "accepted"
            why = "already replayed" if accepted else "in doubt: reconcile first"
            return ClaimRefused(entry_id, why, "settled" if accepted else "in-doubt")
        done = (settled.c.source == tx.source, settled.c.entry_id == entry_id)
        if (await tx.execute(sa.select(settled.c.state).where(*done))).first() is not None:
            return ClaimRefused(entry_id, "dismissed meanwhile", "settled")
        return None

    async def _mark(self, *_: object, **__: object) -> dict[str, object]:
        return {}  # the source counts its retries itself

    def changes(self) -> AsyncIterator[Change]:
        return self._source.changes()

    async def aclose(self) -> None:
        await close_store(self._writer, self._lanes)
        await self._source.aclose()


def _is_free(entry: Entry | None, seen: Version) -> bool:
    return entry is not None and entry.state == "pending" and entry.version == seen


async def open_remote(
    target: PostgresTarget, source: EntrySource, *, read_only: bool, one_reader: bool = False
) -> RemoteStore:
    def lane() -> ReadConnection:
        return ReadConnection(reader_engine(target, read_only=read_only), target.label)

    quick = lane()
    slow = quick if one_reader else lane()

    async def attach(link: Connection) -> Attached:
        if calls := await foreign_calls(await link.core(), ()):
            raise NotADLQ(f"{target.label}: looking at the ledger would run code of another role: {described(calls)}")
        role = str(await link.scalar("SELECT current_user"))
        info = StoreInfo(
            label=f"{source.name}, ledger in {target.label}",
            dialect="postgresql",
            layout="integration",
            table=source.name,
            columns=source.columns,
            order="createdAt, id",
            read_only=read_only,
            read_only_enforced_by="client",
            role=role,
        )
        attached = RemoteAttached(info, Candidate(None, source.name, "table", ()), by_rowid=False)
        finding = await ledger_finding(await link.core(), attached)
        return await with_roles(await link.core(), attached if finding is None else attached.with_finding(finding))

    try:
        return RemoteStore(await quick.run(attach), source, (quick, slow), target)
    except BaseException:
        await close_store(None, (quick, slow))
        await source.aclose()
        raise
