"""What a Postgres database says of a dead-letter queue that others own: spelling, drift, indexes, privileges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.detect import outboxes as outbox
from backends.detect import postgres
from backends.detect.candidates import Attached, Candidate, CatalogColumn
from backends.detect.outboxes import Outbox
from backends.layouts import columns as foreign
from backends.layouts import integration, mask
from backends.layouts.orders import quoted
from backends.options import Options
from backends.records import Finding, StoreInfo

_SAMPLE = 100  # rows looked at for stored credentials when attaching
_INTEGERS = ("bigint", "integer", "smallint")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherAttached(Attached):
    layout: foreign.LayoutColumns
    spelt: tuple[tuple[str, str], ...]  # (the layout's name, the table's own)
    outboxes: tuple[Outbox, ...] = ()
    options: Options = field(default_factory=Options)

    def actual(self, name: str) -> str | None:
        """What the table calls this column of the layout; None where it has none that can be read."""
        return dict(self.spelt).get(name)

    def part(self, name: str) -> CatalogColumn:
        return self.column(dict(self.spelt)[name])

    def sql(self, name: str) -> str:
        """The column as SQL, of a table that is called t."""
        return f"t.{quoted(dict(self.spelt)[name])}"

    @property
    def by_number(self) -> bool:
        return by_number(self.found, self.layout, dict(self.spelt))

    @property
    def soft_delete(self) -> tuple[str, str] | None:
        return integration.soft_delete(dict(self.spelt)) if self.layout.sends else None

    def with_options(self, options: Options) -> OtherAttached:
        """As the store's config wants it, with what stands against that."""
        findings = [] if self.layout.sends else outbox.findings(self.outboxes, options.outbox_table)
        if options.on_success == "soft-delete" and self.layout.sends and self.soft_delete is None:
            text = f"{self.found.shown} has no soft-delete column: on_success marks a replayed call in our ledger alone"
            findings.append(Finding("no-soft-delete", text))
        info = replace(self.info, findings=(*self.info.findings, *findings))
        return replace(self, info=info, options=options)

    def grants(self) -> tuple[str, ...]:
        table = self.found.quoted
        delete = self.options.delete_after_replay or self.options.on_success == "delete"
        read = f"SELECT{', DELETE' if delete else ''} ON {table}"
        if not self.layout.sends:
            there = outbox.candidates(self.outboxes, self.options.outbox_table)
            return (read, *(right for one in there for right in one.grants()))
        written = [actual for name in self.layout.seen if (actual := self.actual(name))]
        if self.soft_delete is not None and self.options.on_success == "soft-delete":
            written.append(self.soft_delete[1])
        return (read, f"UPDATE ({', '.join(map(quoted, written))}) ON {table}")


async def report(connection: AsyncConnection, label: str, found: Candidate, *, read_only: bool) -> OtherAttached:
    layout = found.foreign
    if layout is None:
        raise ValueError("an order table has a report of its own")
    spelt = foreign.resolve(layout, (column.name for column in found.columns))
    role, can_write = await postgres.rights(connection, found.quoted)
    there = () if layout.sends else await outbox.outboxes(connection)
    findings = [*drift(found, layout, spelt)]
    findings += await _index_holes(connection, found, layout, spelt)
    findings += await _credentials(connection, found, spelt) if layout.sends else []
    info = StoreInfo(
        label=label,
        dialect="postgresql",
        layout=layout.name,
        table=found.shown,
        columns=tuple(spelt.values()),
        order="id" if by_number(found, layout, spelt) else f"{spelt[layout.moment]}, id",
        read_only=read_only,
        read_only_enforced_by="client" if can_write or any(one.is_writable for one in there) else "database",
        role=role,
        findings=tuple(findings),
    )
    return OtherAttached(info, found, by_rowid=False, layout=layout, spelt=tuple(spelt.items()), outboxes=there)


def by_number(found: Candidate, layout: foreign.LayoutColumns, spelt: dict[str, str]) -> bool:
    """A number that only grows is the order of insertion, and its own index answers it."""
    column = found.column(spelt["id"])
    return not layout.sends and column is not None and column.type in _INTEGERS


def drift(found: Candidate, layout: foreign.LayoutColumns, spelt: dict[str, str]) -> list[Finding]:
    findings = [
        Finding("missing-column", f"{found.shown} has no column {name}: {effect}")
        for name, effect in layout.degraded.items()
        if name not in spelt
    ]
    for name, actual in spelt.items():
        column, expected = found.column(actual), layout.types[name]
        if column is not None and not column.type.startswith(expected):
            how = "read as UTC" if column.type.endswith("without time zone") else "read as stored"
            text = f"{found.shown}.{actual} is {column.type}, not {expected[0]}: {how}"
            findings.append(Finding("changed-type", text))
    if extra := sorted({column.name for column in found.columns} - set(spelt.values())):
        findings.append(Finding("extra-column", f"{found.shown} has further columns, left alone: {', '.join(extra)}"))
    if found.kind != "table":
        findings.append(Finding("view", f"{found.shown} is a view: it can be read, acts go to the table behind it"))
    return findings


async def _index_holes(
    connection: AsyncConnection, found: Candidate, layout: foreign.LayoutColumns, spelt: dict[str, str]
) -> list[Finding]:
    if found.kind != "table":
        return []
    indexes = await postgres.indexes_of(connection, found.quoted)
    leading = {names[0] for _, whole, names in indexes if whole and names}
    identity, moment = spelt["id"], spelt[layout.moment]
    findings = []
    if identity not in leading:
        text = f"{found.shown}.{identity} leads no index: finding an entry reads the whole table"
        sql = f"CREATE INDEX CONCURRENTLY ON {found.quoted} ({quoted(identity)})"
        findings.append(Finding("no-id-index", text, sql))
    if layout.sends and moment not in leading:
        text = f"{found.shown} has no index on {moment}: pages of a large store are slow"
        sql = f"CREATE INDEX CONCURRENTLY ON {found.quoted} ({quoted(moment)}, {quoted(identity)})"
        findings.append(Finding("no-created-index", text, sql))
    return findings


async def _credentials(connection: AsyncConnection, found: Candidate, spelt: dict[str, str]) -> list[Finding]:
    """A hub stores no credentials; where it did, they are masked here, and its owner should know."""
    column = quoted(spelt["originalRequest"])
    rows = await connection.execute(
        sa.text(f"SELECT CAST({column} AS text) FROM {found.quoted} LIMIT {_SAMPLE}".replace(":", "\\:"))
    )
    held = [fields for row in rows if (fields := mask.masked_fields(mask.masked_document(str(row[0] or ""))))]
    if not held:
        return []
    names = ", ".join(sorted({name for fields in held for name in fields}))
    text = f"{found.shown}.{spelt['originalRequest']} holds what looks like credentials ({names}): masked here"
    return [Finding("stored-credentials", text)]
