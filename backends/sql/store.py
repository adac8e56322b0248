"""Opens a store and puts it together from reads, acts, claims and watch on one set of connections."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from backends.detect import Attached
from backends.detect.detection import detect
from backends.engine import reader_engine, writer_engine
from backends.layouts.columns import Options
from backends.ledger.schema import ledger
from backends.records import Finding
from backends.sql.acts import SQLActs
from backends.sql.connection import Connection, ReadConnection
from backends.sql.intent.reads import IntentReads
from backends.sql.intent.settlement import IntentClaims
from backends.sql.ledger_access import ledger_finding, rows_left_finding, with_roles
from backends.sql.reads import SQLReads
from backends.sql.watch import SQLWatch
from backends.sql.writer import StoreWriter, close_store
from backends.sqlite_file import FileChangeProbe, check_file
from backends.store import Unreachable
from backends.target import SQLiteTarget, Target

if TYPE_CHECKING:
    from backends.sql.other.store import OtherStore


_POOLED = Finding(
    "pooler",
    "a pooler such as pgbouncer stands before the server: changes are polled for, since it forwards no notifications",
    "-- attach the server itself to hear of changes at once; everything else works alike",
)


class SQLStore(IntentReads, IntentClaims, SQLWatch):
    """Its connections: quick (keys), slow (counts, scans; may be the same), tolerant (odd values), watch (changes)."""

    def __init__(
        self,
        attached: Attached,
        lanes: tuple[ReadConnection, ReadConnection, ReadConnection, ReadConnection],
        target: Target,
    ) -> None:
        book = ledger(attached.info.dialect)
        quick, slow, tolerant, watch = lanes
        self._lanes = lanes
        check = _Same(target)
        SQLReads.__init__(self, attached, book, (quick, slow, tolerant))
        writer = None
        if not attached.info.read_only:
            writer = StoreWriter(writer_engine(target), attached, book, first_id=self.store_id, check=check)
        SQLActs.__init__(self, attached, book, self, writer)
        IntentClaims.__init__(self, attached, book, self)
        still = partial(FileChangeProbe, target.path) if isinstance(target, SQLiteTarget) else lambda: lambda: False
        SQLWatch.__init__(self, attached, watch, check=check, still=still)

    def _take(self, attached: Attached) -> None:
        super()._take(attached)
        if self._writer is not None:
            self._writer.take(attached)

    async def aclose(self) -> None:
        await close_store(self._writer, self._lanes)


class _Same:
    """Raises if another file is now at the path: acts on the attached one would be lost unnoticed."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._seen = target.found_file() if isinstance(target, SQLiteTarget) else None

    def __call__(self) -> None:
        if isinstance(self._target, SQLiteTarget) and self._target.found_file() != self._seen:
            raise Unreachable(f"{self._target.label} was replaced or removed since it was attached: attach again")


async def open_sql_store(
    target: Target, *, read_only: bool, table: str | None, options: Options, one_reader: bool = False
) -> SQLStore | OtherStore:
    if isinstance(target, SQLiteTarget):
        check_file(target)
        read_only = read_only or target.immutable

    def lane(*, tolerant: bool = False) -> ReadConnection:
        return ReadConnection(reader_engine(target, read_only=read_only, tolerant=tolerant), target.label)

    quick, tolerant, watch = lane(), lane(tolerant=True), lane()
    slow = quick if one_reader else lane()

    async def attach(link: Connection) -> Attached:
        attached = await detect(await link.core(), target, table, read_only=read_only)
        if link.is_pooled:
            attached = replace(attached.with_finding(_POOLED), channel=None)
        for look_for in (ledger_finding, rows_left_finding):
            if (finding := await look_for(await link.core(), attached)) is not None:
                attached = attached.with_finding(finding)
        return await with_roles(await link.core(), attached)

    lanes = quick, slow, tolerant, watch
    try:
        attached = await quick.run(attach)
        if attached.found.other_layout is not None:
            return _other_store(attached, lanes, target, options)
        return SQLStore(attached, lanes, target)
    except BaseException:
        await close_store(None, lanes)
        raise


def _other_store(
    attached: Attached,
    lanes: tuple[ReadConnection, ReadConnection, ReadConnection, ReadConnection],
    target: Target,
    options: Options,
) -> OtherStore:
    """Imports these stores only when one is attached, so that an order store opens faster."""
    from backends.detect.other_layouts import OtherAttached
    from backends.sql.other.store import IntegrationStore, OutboxStore

    assert isinstance(attached, OtherAttached)
    kind = IntegrationStore if attached.layout.sends else OutboxStore
    return kind(attached.with_options(options), lanes, target)
