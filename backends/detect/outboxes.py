"""Finds the outbox tables that could take a replay, and what they lack of what the package's own tables have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlq_sink.error import ActRefused

from backends.detect.asked import CatalogConnection
from backends.detect.postgres import COLUMN_TYPE, flags, told
from backends.layouts import outbox
from backends.layouts.orders import quoted
from backends.ledger.names import SCHEMA
from backends.store_info import Finding

_TABLES = f"""
SELECT n.nspname, c.relname,
  array_agg(a.attname::text ORDER BY a.attnum),
  array_agg({COLUMN_TYPE} ORDER BY a.attnum),
  {flags("a.attnotnull AND NOT (a.atthasdef OR a.attidentity <> '')")},
  {flags("has_schema_privilege(n.oid, 'usage') AND has_column_privilege(c.oid, a.attnum, 'insert')")},
  has_any_column_privilege(c.oid, 'insert'),
  (SELECT format('%I.%I', sn.nspname, s.relname) FROM pg_depend d JOIN pg_class s ON s.oid = d.objid
   JOIN pg_namespace sn ON sn.oid = s.relnamespace
   WHERE d.classid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.deptype IN ('a', 'i') AND s.relkind = 'S'
   LIMIT 1),
  EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
          AND (SELECT array_agg(x.attname::text ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY k(num, n)
               JOIN pg_attribute x ON x.attrelid = i.indrelid AND x.attnum = k.num) = ARRAY['queue', 'timer_id']),
  ARRAY(SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'),
  ARRAY(SELECT coalesce(pg_get_expr(i.indpred, i.indrelid), '') FROM pg_index i
        WHERE i.indrelid = c.oid AND i.indisvalid
        AND (SELECT array_agg(x.attname::text ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY k(num, n)
             JOIN pg_attribute x ON x.attrelid = i.indrelid AND x.attnum = k.num AND k.n <= 2)
            = ARRAY['queue', 'next_attempt_at'])
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type ty ON ty.oid = a.atttypid
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^(pg_|information_schema$|{SCHEMA}$)'
  AND (SELECT count(*) FROM pg_attribute x WHERE x.attrelid = c.oid AND NOT x.attisdropped
       AND x.attname = ANY(CAST($1 AS text[]))) = cardinality(CAST($1 AS text[]))
GROUP BY c.oid, n.oid, n.nspname, c.relname ORDER BY 1, 2
"""


_LEASE_CHECKS = {
    "acquired_token is null = acquired_at is null",
    "acquired_at is null = acquired_token is null",
}
# By which rows a broker looks for work, as faststream-outbox 0.17 and later index them.
_FETCHES = (
    ("no-fetch-index", "acquired_token is null", "free"),
    ("no-lease-index", "acquired_token is not null", "leased"),
)


def _plain(condition: str) -> str:
    """A condition as Postgres spells it, without brackets."""
    return " ".join(condition.lower().replace("(", " ").replace(")", " ").split())


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
    checks: tuple[str, ...] = ()  # its check constraints, plainly spelt
    fetched_by: tuple[str, ...] = ()  # predicates of its indexes on (queue, next_attempt_at), plainly spelt

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
        return (*outbox_findings, *self._missing())

    def _missing(self) -> list[Finding]:
        """What the package's own tables have, and brokers count on."""
        findings = []
        if not _LEASE_CHECKS & {*self.checks} and "acquired_at" in self.columns:
            text = (
                f"the outbox {self.shown} has no check that a lease is whole: a row with half of one is never fetched"
            )
            sql = f"ALTER TABLE {self.quoted} ADD CHECK ((acquired_token IS NULL) = (acquired_at IS NULL))"
            findings.append(Finding("no-lease-check", text, sql))
        for code, only, rows in _FETCHES:
            if not {"", only} & {*self.fetched_by} and "next_attempt_at" in self.columns:
                text = f"the outbox {self.shown} has no index for fetching {rows} rows: brokers read the whole table"
                sql = f"CREATE INDEX CONCURRENTLY ON {self.quoted} (queue, next_attempt_at, id) WHERE {only.upper()}"
                findings.append(Finding(code, text, sql))
        return findings

    def grants(self) -> tuple[str, ...]:
        columns = ", ".join((*self.copied, *self.filled))
        of_table = f"INSERT ({columns}), SELECT (id) ON {self.quoted}"
        return (of_table, f"USAGE ON SEQUENCE {self.sequence}") if self.sequence else (of_table,)


async def outboxes(connection: CatalogConnection) -> tuple[Outbox, ...]:
    result = await connection.exec_driver_sql(_TABLES, (list(outbox.OUTBOX_ANCHORS),))
    found = []
    for row in result.fetchall():
        schema, name, names, types, bare, writable, may_write, sequence, guards_timers, checks, fetched_by = tuple(row)
        found.append(
            Outbox(
                schema=schema,
                name=name,
                types=tuple(zip(names, types, strict=True)),
                bare=tuple(column for column, yes in zip(names, told(bare), strict=True) if yes),
                writable=tuple(column for column, yes in zip(names, told(writable), strict=True) if yes),
                is_writable=may_write,
                sequence=sequence,
                guards_timers=guards_timers,
                checks=tuple(_plain(one).removeprefix("check ") for one in checks),
                fetched_by=tuple(map(_plain, fetched_by)),
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
        raise ActRefused(
            f"several outboxes ({shown}): name the one that takes replays as outbox_table in the store's config"
        )
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
