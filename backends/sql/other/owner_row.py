"""What may be done to a row that somebody else owns: count a retry, mark it as deleted, delete it. Runs nothing.

Also says which rights that takes, so that they are asked for before anything is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from backends.detect.other_layouts import OtherAttached
from backends.layouts.orders import quoted
from backends.sql.acts import verbatim
from backends.sql.other.select import Select
from backends.sql.postgres_columns import EQ, PLUS
from backends.store import ActRefused

Removal = Literal["delete", "soft-delete"]
TEXTS = sa.ARRAY(sa.Text)
# What an owner's row is picked by, under any search_path.
_LISTS = ", ".join(f"pg_catalog.unnest(CAST(:{name} AS pg_catalog.text[]))" for name in ("ids", "stamps"))
PICKS = f"ROWS FROM ({_LISTS}) AS p(id, stamp)"
# A row that another session holds must not stop everybody who waits for the chain's lock.
IMPATIENT = sa.text("SET LOCAL lock_timeout = '2s'")
LEFT = {"delete": "the row is not deleted yet", "soft-delete": "the row is not marked as deleted yet"}
REMOVED = {"delete": {"deleted": True}, "soft-delete": {"soft_deleted": True}}


def statement(sql: str, **types: Any) -> sa.TextClause:
    return sa.text(sql).bindparams(*(sa.bindparam(name, type_=kind) for name, kind in types.items()))


@dataclass(frozen=True, slots=True)
class OwnerRow:
    table: OtherAttached

    def removal(self, how: Removal) -> sa.TextClause:
        """Removes the rows :ids, each only as it was seen where :stamps has its version; returns their ids."""
        select = Select(self.table, with_ledger=True)
        this = f"{verbatim(self.table.sql('id'))} {EQ} CAST(p.id AS {self.table.id_type})"
        as_seen = f"(p.stamp IS NULL OR ({verbatim(select.stamp)}) {EQ} p.stamp)"
        picked = f"{PICKS} WHERE {this} AND {as_seen} RETURNING {verbatim(select.identity)}"
        name, mark = verbatim(self.table.found.quoted), self.table.soft_delete
        if how == "soft-delete" and mark is not None:
            sets = verbatim(f"{quoted(mark[1])} = {self._this_moment(mark[0])}")
            return sa.text(f"UPDATE {name} t SET {sets} FROM {picked}")
        return sa.text(f"DELETE FROM {name} t USING {picked}")

    def remains(self, how: Removal) -> sa.TextClause:
        """Selects the row :id if it is still there, and still open where it is only marked."""
        is_open = verbatim(Select(self.table, with_ledger=True).is_open)
        return self.this("SELECT 1 FROM", tail=f" AND {is_open}" if how == "soft-delete" else "")

    def counted(self) -> sa.TextClause:
        """Counts a failed retry of the row :id; returns the count."""
        values = {"attempts": f"coalesce({quoted(self.table.actual('attempts') or '')}, 0) {PLUS} 1"}
        if self.table.actual("lastRetryAt"):
            values["lastRetryAt"] = self._this_moment("lastRetryAt")
        sets = ", ".join(f"{quoted(self.table.actual(name) or '')} = {value}" for name, value in values.items())
        return self.this(
            "UPDATE", sets=f" SET {verbatim(sets)}", tail=f" RETURNING {verbatim(self.table.text('attempts'))}"
        )

    def this(self, verb: str, *, sets: str = "", tail: str = "") -> sa.TextClause:
        here = f"{verbatim(self.table.sql('id'))} {EQ} CAST(CAST(:id AS pg_catalog.text) AS {self.table.id_type})"
        return sa.text(f"{verb} {verbatim(self.table.found.quoted)} t{sets} WHERE {here}{tail}")

    def possible(self, key: str, how: Removal) -> None:
        """Raises ActRefused where the table has no column for what the config asks."""
        if how == "soft-delete" and self.table.soft_delete is None:
            shown = self.table.found.shown
            raise ActRefused(f'{shown} has no soft-delete column: {key} is "delete" or "keep" here; nothing was done')

    def rights(self, how: Removal | None, *, counts: bool) -> dict[str, str]:
        """Each right that is needed as a grant, with the SQL condition that it is there."""
        name = "'" + self.table.found.quoted.replace("'", "''") + "'"
        needed = {}
        if how == "delete":
            needed[f"DELETE ON {self.table.found.quoted}"] = f"has_table_privilege({name}, 'DELETE')"
        mark = self.table.soft_delete
        written = [actual for one in self.table.layout.seen if counts and (actual := self.table.actual(one))]
        written += [mark[1]] if how == "soft-delete" and mark is not None else []
        for column in written:
            text = "'" + column.replace("'", "''") + "'"
            grant = f"UPDATE ({quoted(column)}) ON {self.table.found.quoted}"
            needed[grant] = f"has_column_privilege({name}, {text}, 'UPDATE')"
        return needed

    def refusal(self, missing: list[str]) -> ActRefused:
        """What an owner would run for the rights that are missing."""
        role = quoted(self.table.info.role)
        grants = ";\n".join(f"GRANT {right} TO {role}" for right in missing)
        what = f"this role may not write to {self.table.found.shown} what its config asks, so nothing was done"
        return ActRefused(f"{what}; an owner would run:\n{grants};")

    def _this_moment(self, name: str) -> str:
        """The current time in the column's type; true for a flag."""
        declared = self.table.part(name).type
        if declared.startswith("boolean"):
            return "true"
        if declared.startswith("timestamp with time zone"):
            return "pg_catalog.now()"
        utc = "pg_catalog.timezone('UTC', pg_catalog.now())"
        if declared.startswith(("timestamp", "date")):
            return utc
        return f"""pg_catalog.to_char({utc}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
