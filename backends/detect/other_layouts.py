"""Reports on a dead-letter table that others own (spelling, drift, rights), and finds the outbox for its replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.detect import postgres
from backends.detect.candidates import Attached, Candidate, CatalogColumn
from backends.layouts import integration, mask, outbox
from backends.layouts.columns import LayoutColumns, Options, resolve
from backends.layouts.orders import quoted
from backends.ledger.schema import SCHEMA
from backends.records import Finding, StoreInfo
from backends.store import ActRefused

_TABLES = f"""
SELECT n.nspname, c.relname,
  array_agg(a.attname::text ORDER BY a.attnum),
  array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum),
  array_agg(a.attnotnull AND NOT (a.atthasdef OR a.attidentity <> '') ORDER BY a.attnum),
  array_agg(has_schema_privilege(n.oid, 'usage') AND has_column_privilege(c.oid, a.attnum, 'insert')
            ORDER BY a.attnum),
  has_any_column_privilege(c.oid, 'insert'),
  (SELECT format('%I.%I', sn.nspname, s.relname) FROM pg_depend d JOIN pg_class s ON s.oid = d.objid
   JOIN pg_namespace sn ON sn.oid = s.relnamespace
   WHERE d.classid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.deptype IN ('a', 'i') AND s.relkind = 'S'
   LIMIT 1),
  EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
          AND (SELECT array_agg(x.attname::text ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY k(num, n)
               JOIN pg_attribute x ON x.attrelid = i.indrelid AND x.attnum = k.num) = ARRAY['queue', 'timer_id'])
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^(pg_|information_schema$|{SCHEMA}$)'
  AND (SELECT count(*) FROM pg_attribute x WHERE x.attrelid = c.oid AND NOT x.attisdropped
       AND x.attname = ANY(CAST(:anchors AS text[]))) = cardinality(CAST(:anchors AS text[]))
GROUP BY c.oid, n.oid, n.nspname, c.relname ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Outbox:
    schema: str
    name: str
    types: tuple[tuple[str, str], ...]  # (column, type)
    bare: tuple[str, ...]  # required columns without a default
    writable: tuple[str, ...]  # columns this role may insert
    is_writable: bool
    sequence: str | None
    guards_timers: bool  # (queue, timer_id) is unique

    @property
    def shown(self) -> str:
        return self.name if self.schema == "public" else f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.types)

    @property
    def copied(self) -> tuple[str, ...]:
        return tuple(name for name in outbox.COPIED if name in self.columns)

    @property
    def filled(self) -> tuple[str, ...]:
        return tuple(name for name in outbox.FILLED if name in self.bare)

    @property
    def drift(self) -> tuple[Finding, ...]:
        outbox_findings = [
            Finding("outbox-drift", f"the outbox {self.shown} has no column {name}: replay is refused")
            for name in outbox.OUTBOX_REQUIRED
            if name not in self.columns
        ]
        unknown = [name for name in self.bare if name not in (*outbox.COPIED, *outbox.FILLED)]
        outbox_findings += [
            Finding("outbox-drift", f"{self.shown}.{name} needs a value and has no default: replay is refused")
            for name in unknown
        ]
        if "timer_id" in self.columns and not self.guards_timers:
            text = (
                f"the outbox {self.shown} does not keep (queue, timer_id) unique: a replayed timer may be there twice"
            )
            outbox_findings.append(Finding("outbox-timers", text))
        return tuple(outbox_findings)

    def grants(self) -> tuple[str, ...]:
        columns = ", ".join((*self.copied, *self.filled))
        of_table = f"INSERT ({columns}), SELECT (id) ON {self.quoted}"
        return (of_table, f"USAGE ON SEQUENCE {self.sequence}") if self.sequence else (of_table,)


async def outboxes(connection: AsyncConnection) -> tuple[Outbox, ...]:
    result = await connection.execute(sa.text(_TABLES), {"anchors": list(outbox.OUTBOX_ANCHORS)})
    found = []
    for row in result.fetchall():
        schema, name, names, types, bare, writable, may_write, sequence, guards_timers = tuple(row)
        found.append(
            Outbox(
                schema=schema,
                name=name,
                types=tuple(zip(names, types, strict=True)),
                bare=tuple(column for column, yes in zip(names, bare, strict=True) if yes),
                writable=tuple(column for column, yes in zip(names, writable, strict=True) if yes),
                is_writable=may_write,
                sequence=sequence,
                guards_timers=guards_timers,
            )
        )
    return tuple(found)


def candidates(there: Sequence[Outbox], wanted: str | None) -> list[Outbox]:
    """The outboxes that the config may mean; all of them if it names none."""
    if wanted is None:
        return list(there)
    exact = [one for one in there if wanted in (one.shown, f"{one.schema}.{one.name}")]
    return exact or [one for one in there if wanted == one.name]


def chosen(there: Sequence[Outbox], wanted: str | None) -> Outbox:
    """The outbox that the config names, else the only one. Raises ActRefused with the reason."""
    names = ", ".join(one.shown for one in there) or "none"
    fitting = candidates(there, wanted)
    if wanted is not None and not fitting:
        raise ActRefused(f"outbox_table = {wanted}: there is no such outbox; tables with an outbox's columns: {names}")
    if not fitting:
        raise ActRefused("no table has an outbox's columns: nothing can take a replay")
    if len(fitting) > 1:
        shown = ", ".join(one.shown for one in fitting)
        raise ActRefused(f"several outboxes ({shown}): say which takes a replay by outbox_table in the store's config")
    if refused := [finding.text for finding in fitting[0].drift if finding.code == "outbox-drift"]:
        raise ActRefused(refused[0])
    return fitting[0]


def outbox_findings(there: Sequence[Outbox], wanted: str | None) -> list[Finding]:
    """What an operator must know before the first replay."""
    fitting = candidates(there, wanted)
    if not fitting:
        what = "no table has an outbox's columns" if wanted is None else f"outbox_table = {wanted}: no such outbox"
        return [Finding("no-outbox", f"{what}: replay is refused")]
    if len(fitting) > 1:
        names = ", ".join(one.shown for one in fitting)
        return [Finding("several-outboxes", f"outboxes {names}: outbox_table in the config says which takes a replay")]
    return list(fitting[0].drift)


_SAMPLE = 100  # rows searched for stored credentials when attaching
_INTEGERS = ("bigint", "integer", "smallint")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherAttached(Attached):
    layout: LayoutColumns
    spelt: tuple[tuple[str, str], ...]  # (the layout's name, the table's own)
    outboxes: tuple[Outbox, ...] = ()
    options: Options = field(default_factory=Options)

    def actual(self, name: str) -> str | None:
        """The table's name for this column of the layout; None if it has none or the role may not read it."""
        return dict(self.spelt).get(name)

    def part(self, name: str) -> CatalogColumn:
        return self.column(dict(self.spelt)[name])

    def sql(self, name: str) -> str:
        """The column as SQL, with the table aliased as t."""
        return f"t.{quoted(dict(self.spelt)[name])}"

    @property
    def by_number(self) -> bool:
        return by_number(self.found, self.layout, dict(self.spelt))

    @property
    def soft_delete(self) -> tuple[str, str] | None:
        return integration.soft_delete(dict(self.spelt)) if self.layout.sends else None

    def with_options(self, options: Options) -> OtherAttached:
        """With the options of the store's config, and findings where the store cannot follow them."""
        findings = [] if self.layout.sends else outbox_findings(self.outboxes, options.outbox_table)
        findings += self._row_findings(options) if self.layout.sends else []
        info = replace(self.info, findings=(*self.info.findings, *findings))
        return replace(self, info=info, options=options)

    def _row_findings(self, options: Options) -> list[Finding]:
        """What an operator must know of the rows of handled calls before the first act."""
        findings = []
        shown = self.found.shown
        if options.on_success is None:
            text = f"{shown}: on_success (delete, soft-delete or keep) is not in the store's config: replay is refused"
            findings.append(Finding("no-on-success", text))
        if options.on_success == "keep":
            text = f"{shown}: on_success = keep: rows of accepted calls stay live for their hub, which may retry them"
            findings.append(Finding("rows-stay", text))
        for key, wanted, refused in (
            ("on_success", options.on_success, "replay"),
            ("on_dismiss", options.on_dismiss, "dismiss"),
        ):
            if wanted == "soft-delete" and self.soft_delete is None:
                text = f"{shown} has no soft-delete column: {key} = soft-delete cannot be done, {refused} is refused"
                findings.append(Finding("no-soft-delete", text))
        return findings

    def grants(self) -> tuple[str, ...]:
        table = self.found.quoted
        row_acts = (self.options.on_success, self.options.on_dismiss)
        delete = self.options.delete_after_replay or "delete" in row_acts
        read = f"SELECT{', DELETE' if delete else ''} ON {table}"
        if not self.layout.sends:
            there = candidates(self.outboxes, self.options.outbox_table)
            return (read, *(right for one in there for right in one.grants()))
        written = [actual for name in self.layout.seen if (actual := self.actual(name))]
        if self.soft_delete is not None and "soft-delete" in row_acts:
            written.append(self.soft_delete[1])
        return (read, f"UPDATE ({', '.join(map(quoted, written))}) ON {table}")


async def report(connection: AsyncConnection, label: str, found: Candidate, *, read_only: bool) -> OtherAttached:
    layout = found.other_layout
    if layout is None:
        raise ValueError("an order table has a report of its own")
    spelt = resolve(layout, (column.name for column in found.columns))
    role, can_write = await postgres.rights(connection, found.quoted)
    there = () if layout.sends else await outboxes(connection)
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


def by_number(found: Candidate, layout: LayoutColumns, spelt: dict[str, str]) -> bool:
    """Whether an indexed number that only grows gives the order of insertion."""
    column = found.column(spelt["id"])
    return not layout.sends and column is not None and column.type in _INTEGERS


def drift(found: Candidate, layout: LayoutColumns, spelt: dict[str, str]) -> list[Finding]:
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
    connection: AsyncConnection, found: Candidate, layout: LayoutColumns, spelt: dict[str, str]
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
    """A finding if stored requests hold credentials: they are masked here, but the owner should know."""
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
