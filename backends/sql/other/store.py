"""Puts the stores of outbox and integration together from their reads, acts and claims. Postgres only."""

from __future__ import annotations

from datetime import datetime

from backends.detect.other_layouts import OtherAttached
from backends.engine import writer_engine
from backends.ledger.schema import ledger
from backends.records import Entry
from backends.sql.connection import Connection, ReadConnection
from backends.sql.other.acts import OtherActs
from backends.sql.other.claims import OtherClaims
from backends.sql.other.figures import FigureReads
from backends.sql.other.lineage import LineageReads
from backends.sql.other.reads import OtherReads
from backends.sql.other.requeue import RequeueStatements
from backends.sql.plan_reads import SQLPlanReads
from backends.sql.watch import SQLWatch
from backends.sql.writer import StoreWriter, close_store
from backends.store import ActRefused, OnSuccess
from backends.target import Target


class OtherStore(OtherReads, OtherActs, SQLPlanReads, OtherClaims, SQLWatch):
    """Its connections, as in the order layout's store: quick, slow, tolerant, watch."""

    def __init__(
        self,
        attached: OtherAttached,
        lanes: tuple[ReadConnection, ReadConnection, ReadConnection, ReadConnection],
        target: Target,
    ) -> None:
        book = ledger(attached.info.dialect)
        quick, slow, tolerant, watch = lanes
        self._lanes = lanes
        OtherReads.__init__(self, attached, book, (quick, slow, tolerant))
        writer = None
        if not attached.info.read_only:
            writer = StoreWriter(writer_engine(target), attached, book, first_id=self.store_id)
        OtherActs.__init__(self, attached, book, self, writer)
        OtherClaims.__init__(self, attached, book, self)
        SQLWatch.__init__(self, attached, watch)

    async def replayed_since(self, moment: datetime) -> tuple[Entry, ...]:
        """Entries replayed since then, as this store's ledger says, if their rows are still there."""
        attempt = self._book.attempt
        recent = (attempt.c.state == "accepted", attempt.c.finished_at >= moment.isoformat())
        attempts = await self._attempts(recent, attempt.c.id)
        return tuple((await self.many(tuple({one.entry_id for one in attempts}))).values())

    async def of_orders(self, keys: tuple[str, ...], markets: tuple[str, ...]) -> tuple[Entry, ...]:  # noqa: ARG002 - part of the contract
        """Messages and calls are no orders."""
        return ()

    async def aclose(self) -> None:
        await close_store(self._writer, self._lanes)


class OutboxStore(LineageReads, FigureReads, OtherStore, RequeueStatements):
    """Messages that failed for good; a replay is one transaction."""


class IntegrationStore(OtherStore):
    """Calls that failed for good; a replay sends a request, so an attempt holds its entry."""

    @property
    def after_success(self) -> OnSuccess | None:
        return self._table.options.on_success

    async def check_success(self) -> None:
        wanted = self._table.options.on_success
        if wanted is None:
            raise ActRefused(
                "on_success is not set for this store: nothing was sent. The config says what becomes of a row whose "
                'call was accepted: on_success = "delete", "soft-delete" or "keep" (it stays, and its hub may retry it)'
            )
        await self.check_row("on_success", None if wanted == "keep" else wanted, counts=True)

    async def unfinished(self, ids: tuple[str, ...]) -> dict[str, str]:
        attempt = self._book.attempt
        these = (attempt.c.entry_id.in_(ids),) if ids else ()
        owed = (attempt.c.state == "accepted", attempt.c.holds == 1, attempt.c.error.is_not(None), *these)
        return {one.entry_id: one.error or "" for one in await self._attempts(owed, attempt.c.id)}

    async def request(self, entry_id: str) -> str | None:
        here = f"{self._table.sql('id')} = CAST(CAST($1 AS text) AS {self._table.id_type})"
        sql = f"SELECT {self._table.text('originalRequest')} FROM {self._table.found.quoted} t WHERE {here}"

        async def work(link: Connection) -> str | None:
            found: str | None = await (await link.driver()).fetchval(sql, entry_id)
            return found

        return await self._quick.run(work)
