"""The ledger's tables and columns as a database has them, and how they compare with this version's. Asks nobody."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from backends.ledger.names import VERSION

CORE = ("approval", "attempt", "audit", "audit_entry", "claim", "halt", "meta", "note")  # in every version
FUNCTION = "function()"  # no table can have this name: a shape lists the ledger's functions as its columns


@dataclass(frozen=True, slots=True)
class LedgerShape:
    """The ledger's tables as they are: (table, column), without prefix or schema."""

    dialect: str
    columns: frozenset[tuple[str, str]] = frozenset()

    def has(self, table: str, column: str | None = None) -> bool:
        return any(name == table and column in (None, there) for name, there in self.columns)

    @property
    def exists(self) -> bool:
        return any(table in CORE for table, _ in self.columns)

    @property
    def is_whole(self) -> bool:
        """Every table that all versions have is there."""
        return {table for table, _ in self.columns}.issuperset(CORE)

    @property
    def is_current(self) -> bool:
        return self.columns >= _current(self.dialect)


@cache
def _current(dialect: str) -> frozenset[tuple[str, str]]:
    from backends.ledger.functions import SIGNATURES
    from backends.ledger.schema import ledger  # needs SQLAlchemy, which the first page does without

    tables = ledger(dialect).metadata.sorted_tables
    made = {(table.name.removeprefix("console_"), column.name) for table in tables for column in table.columns}
    return frozenset(made | ({(FUNCTION, name) for name in SIGNATURES} if dialect == "postgresql" else set()))


def is_newer(version: object) -> bool:
    return version is not None and (not str(version).isdecimal() or int(str(version)) > int(VERSION))


def is_older(version: object, shape: LedgerShape) -> bool:
    if is_newer(version):
        return False
    return not shape.is_current or (version is not None and int(str(version)) < int(VERSION))
