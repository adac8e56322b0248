"""Which table an engine writes to: chosen by its columns among those a catalog lists. Pure; runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backends.layouts import orders
from backends.store import BadTarget, NotADLQ


@dataclass(frozen=True, slots=True)
class Table:
    schema: str | None
    name: str
    types: Mapping[str, str]  # column → declared type
    pending: str  # "not dismissed" as SQL, in the form the layout's partial index can answer
    order: str  # what to sort by for insertion order

    @property
    def shown(self) -> str:
        """Says which one it is, whatever else the database holds."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        name = orders.quoted(self.name)
        return name if self.schema is None else f"{orders.quoted(self.schema)}.{name}"


def choose(tables: Sequence[Table], wanted: str | None, label: str) -> Table | None:
    """None: there is none yet."""
    if wanted == "":
        raise BadTarget("table= is empty: leave it out, or name a table")
    matching = [table for table in tables if table.types.keys() >= orders.ANCHORS]
    if wanted is not None:
        matching = [table for table in matching if wanted in (table.name, table.shown)]
    if not matching:
        return None
    if len(matching) > 1:
        names = ", ".join(sorted(table.shown for table in matching))
        raise BadTarget(f"{label} has several dead-letter queues: say which with table= ({names})")
    missing = [name for name in orders.COLUMNS if name not in matching[0].types]
    if missing:
        raise NotADLQ(f"{label}: {matching[0].shown} lacks {', '.join(missing)}: an entry cannot be kept there whole")
    return matching[0]


def pending(*, is_boolean: bool, is_required: bool) -> str:
    if is_boolean:
        return "NOT dismissed" if is_required else "dismissed IS NOT TRUE"
    return "dismissed = 0" if is_required else "(dismissed IS NULL OR dismissed <> 1)"


def taken(name: str, label: str) -> NotADLQ:
    return NotADLQ(f"{label} has another kind of table named {name}: choose a name for the entries with table=")
