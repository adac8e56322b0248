"""Moving many entries in one transaction: the change, and the event that names each with its values before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import sqlalchemy as sa

from backends.detect import Attached
from backends.records import ActContext, Actor, Selection, readable
from backends.sql import flip
from backends.sql.transaction import Transaction
from backends.store import ActRefused, StoreError


class SomeMoved(StoreError):
    """Fewer moved than were asked for, and it was not asked which."""


@dataclass(frozen=True)
class Move:
    """One selection, dismissed or restored; where it is tried again, everything but the transaction is the same."""

    attached: Attached
    selection: Selection
    statement: sa.TextClause
    kind: str
    actor: Actor
    why: ActContext

    async def whole(self, tx: Transaction) -> tuple[list[str], bool]:
        """SQLite counts what moves while the event that says so is composed: mostly it is all of them."""
        before = tx.driver.total_changes
        moving = asyncio.ensure_future(tx.rows(flip.counting(self.statement), self._asked))
        try:
            event = await tx.compose(self.kind, self.ids, self.actor, self.why, detail=self._detail(self.ids))
        finally:
            await moving
        if tx.driver.total_changes - before != len(self.ids):
            raise SomeMoved
        await tx.append(event)
        return self.ids, tx.contended

    async def part(self, tx: Transaction) -> tuple[list[str], bool]:
        """What can be moved, by its names."""
        done = [str(row[0]) for row in await tx.execute(self.statement, self._asked)]
        if len(done) != len(set(done)):
            raise ActRefused("the store holds several rows of one dlq_id: nothing was changed")
        if done:
            await tx.audit(self.kind, done, self.actor, self.why, detail=self._detail(done))
        return done, tx.contended

    @cached_property
    def ids(self) -> list[str]:
        return list(dict(self.selection.picks))

    @cached_property
    def _asked(self) -> dict[str, object]:
        return flip.arguments(self.selection, self.attached)

    def _detail(self, done: Sequence[str]) -> dict[str, object]:
        seen = dict(self.selection.picks)
        # Versions repeat, entries do not: each version is spelled once.
        spelled = {version: [_plain(value) for value in version] for version in set(seen.values())}
        columns = [name for name in ("dlq_id", "retry_count", "dismissed") if name in self.attached.info.columns]
        entries = [[entry_id, *spelled[seen[entry_id]]] for entry_id in done]
        return {"entries": entries, "before": columns, "after": {"dismissed": self.kind == "dismiss"}}


def _plain(value: object) -> object:
    """As the audit names it: what JSON has no word for, as text."""
    if isinstance(value, bool):
        return int(value)
    return value if value is None or isinstance(value, (int, str)) else readable(value)
