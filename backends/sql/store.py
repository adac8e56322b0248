"""A store over SQLAlchemy Core: reads, acts, claims and watch on one attached table, behind one set of connections."""

from __future__ import annotations

from backends.detect import Attached, detect
from backends.engine import check_file, reader_engine, writer_engine
from backends.ledger.schema import ledger
from backends.sql.acts import SQLActs
from backends.sql.claims import SQLClaims
from backends.sql.reads import SQLReads
from backends.sql.session import Lane, Writer
from backends.sql.watch import SQLWatch
from backends.target import SQLiteTarget, Target


class SQLStore(SQLReads, SQLActs, SQLClaims, SQLWatch):
    """Lanes: quick (keys), slow (counts, scans), tolerant (undecodable text), watch (its own data_version)."""

    def __init__(self, attached: Attached, lanes: tuple[Lane, Lane, Lane, Lane], target: Target | None) -> None:
        book = ledger(attached.info.dialect)
        quick, slow, tolerant, watch = lanes
        self._lanes = lanes
        SQLReads.__init__(self, attached, book, (quick, slow, tolerant))
        writer = None if target is None else Writer(writer_engine(target), attached, book, self.store_id)
        SQLActs.__init__(self, attached, book, self, writer)
        SQLClaims.__init__(self, attached, book, self)
        SQLWatch.__init__(self, attached, watch)

    async def aclose(self) -> None:
        for lane in self._lanes:
            await lane.aclose()
        if self._writer is not None:
            await self._writer.aclose()


async def open_sql_store(target: Target, *, read_only: bool, table: str | None) -> SQLStore:
    if isinstance(target, SQLiteTarget):
        check_file(target, read_only=read_only)
        read_only = read_only or target.immutable
    lanes = tuple(
        Lane(reader_engine(target, read_only=read_only, tolerant=tolerant), target.label)
        for tolerant in (False, False, True, False)
    )
    quick, slow, tolerant_lane, watch = lanes
    try:
        attached = await quick.run(lambda connection: detect(connection, target, table, read_only=read_only))
    except BaseException:
        for lane in lanes:
            await lane.aclose()
        raise
    return SQLStore(attached, (quick, slow, tolerant_lane, watch), None if read_only else target)
