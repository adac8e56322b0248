"""The statements of a send, built once: they run some fifteen times for every order. Decides nothing.

Where a value is told to one it is named `given_…`: SQLAlchemy keeps the bare names of columns to itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import sqlalchemy as sa

from backends.detect import Attached
from backends.ledger.schema import LedgerTables
from backends.sql.flip import POSTGRES_NOW, SQLITE_NOW
from backends.sql.order_select import OrderSelect
from backends.sql.query import PreparedQuery

_ATTEMPT = (
    "source", "entry_id", "attempt_no", "mode", "rehearsal", "venue", "client_order_id", "payload", "payload_hash",
    "started_at", "operator", "os_user", "token", "state", "holds",
)  # fmt: skip
_END = ("state", "holds", "venue_order_id", "error", "finished_at")


def given(name: str, kind: Any = sa.Text) -> Any:
    return sa.bindparam(f"given_{name}", type_=kind)


class SendStatements:
    def __init__(self, attached: Attached, book: LedgerTables) -> None:
        self._attached = attached
        self._book = book
        self._on_postgres = attached.info.dialect == "postgresql"
        self.moment: Any = sa.literal_column(POSTGRES_NOW if self._on_postgres else SQLITE_NOW, sa.Float)

    @cached_property
    def halted(self) -> PreparedQuery:
        return self._made(sa.select(self._book.halt.c.id))

    @cached_property
    def holding(self) -> PreparedQuery:
        """The state of the attempt that holds the entry."""
        attempt = self._book.attempt
        return self._made(sa.select(attempt.c.state).where(*self._this(attempt), attempt.c.holds == sa.text("1")))

    @cached_property
    def release_expired(self) -> PreparedQuery:
        claim = self._book.claim
        past = claim.c.expires_at <= self.moment
        return self._made(sa.update(claim).where(*self._mine, past).values(released=sa.text("1")))

    @cached_property
    def claimant(self) -> PreparedQuery:
        return self._made(sa.select(self._book.claim.c.owner).where(*self._mine))

    @cached_property
    def claim(self) -> PreparedQuery:
        claim = self._book.claim
        values = {"source": given("source"), "entry_id": given("entry_id"), "owner": given("owner")}
        times = {"claimed_at": self.moment, "expires_at": self.moment + given("lease", sa.Float)}
        return self._made(claim.insert().values(**values, **times).returning(claim.c.token))

    @cached_property
    def lease(self) -> PreparedQuery:
        claim = self._book.claim
        mine = (claim.c.token == given("token", sa.BigInteger), claim.c.released.is_(None))
        return self._made(sa.select(claim.c.expires_at).where(*mine, claim.c.expires_at > self.moment))

    @cached_property
    def release(self) -> PreparedQuery:
        claim = self._book.claim
        mine = (claim.c.token == given("token", sa.BigInteger), claim.c.released.is_(None))
        return self._made(sa.update(claim).where(*mine).values(released=sa.text("1")))

    @cached_property
    def last_attempt(self) -> PreparedQuery:
        attempt = self._book.attempt
        last = sa.func.coalesce(sa.func.max(attempt.c.attempt_no), sa.text("0"))
        return self._made(sa.select(last).where(*self._this(attempt)))

    @cached_property
    def attempt(self) -> PreparedQuery:
        attempt = self._book.attempt
        values = {name: given(name, attempt.c[name].type) for name in _ATTEMPT}
        return self._made(attempt.insert().values(**values))

    @cached_property
    def submitting(self) -> PreparedQuery:
        """The attempt that this claim has sent and nobody has concluded."""
        attempt = self._book.attempt
        mine = (attempt.c.token == given("token", sa.BigInteger), attempt.c.state == sa.text("'submitting'"))
        return self._made(sa.select(attempt).where(*mine, *self._this(attempt)))

    @cached_property
    def end(self) -> PreparedQuery:
        attempt = self._book.attempt
        values = {name: given(name, attempt.c[name].type) for name in _END}
        return self._made(sa.update(attempt).where(attempt.c.id == given("id", sa.BigInteger)).values(**values))

    @cached_property
    def entry(self) -> PreparedQuery:
        """Is it open, and the columns by which it was known."""
        return self._made(self._entry())

    @cached_property
    def locked_entry(self) -> PreparedQuery:
        return self._made(self._entry().with_for_update() if self._on_postgres else self._entry())

    @cached_property
    def dismissed(self) -> PreparedQuery:
        boolean = self._on_postgres and self._attached.column("dismissed").type.startswith("bool")
        yes = sa.true() if boolean else sa.literal_column("1")
        shape = self._shape
        return self._made(sa.update(shape.table).where(self._here, shape.pending()).values(dismissed=yes))

    @cached_property
    def bumped(self) -> PreparedQuery:
        table = self._shape.table
        more = sa.func.coalesce(table.c.retry_count, sa.literal_column("0")) + sa.literal_column("1")
        counts = [] if self._on_postgres else [sa.func.typeof(table.c.retry_count) != sa.text("'text'")]
        bump = sa.update(table).where(self._here, *counts).values(retry_count=more)
        return self._made(bump.returning(table.c.retry_count))

    @cached_property
    def _shape(self) -> OrderSelect:
        return OrderSelect(self._attached, with_ledger=True)

    @property
    def _here(self) -> Any:
        identity: sa.ColumnElement[Any] = sa.literal_column(self._shape.order.identity)
        return identity == given("entry_id")

    def _entry(self) -> sa.Select[Any]:
        names = [name for name in ("retry_count", "dismissed") if name in self._attached.info.columns]
        columns = (self._shape.table.c[name] for name in names)
        return sa.select(self._shape.pending(), *columns).where(self._here)

    @property
    def _mine(self) -> tuple[Any, ...]:
        """The claim on this entry that nobody has released."""
        return (*self._this(self._book.claim), self._book.claim.c.released.is_(None))

    def _this(self, table: sa.Table) -> tuple[Any, Any]:
        return table.c.source == given("source"), table.c.entry_id == given("entry_id")

    def _made(self, statement: Any) -> PreparedQuery:
        return PreparedQuery.of(statement, on_postgres=self._on_postgres)
