"""What the catalog's readers need of a connection: SQLAlchemy's has it, and a bare driver's in two lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class CatalogConnection(Protocol):
    """Runs one statement in the driver's own spelling of parameters: `$1` on Postgres, `?` on SQLite."""

    async def exec_driver_sql(self, statement: str, parameters: Any = None, /) -> Any: ...


class BareRows:
    """The rows of an answer that a bare driver fetched whole, with the few words by which a catalog is read."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self._rows = rows

    def fetchall(self) -> Sequence[Sequence[Any]]:
        return self._rows

    def scalar(self) -> Any:
        return self._rows[0][0] if self._rows else None
