"""Reports on a dead-letter table that others own: spelling, drift, indexes, rights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from backends.detect import postgres
from backends.detect.asked import CatalogConnection
from backends.detect.candidates import Attached, Candidate, CatalogColumn
from backends.detect.foreign_code import foreign_calls
from backends.detect.outboxes import Outbox, candidates, outbox_findings, outboxes
from backends.layouts import integration, mask
from backends.layouts.columns import LayoutColumns, Options, resolve
from backends.layouts.orders import quoted
from backends.sql.postgres_columns import spelled, type_name
from backends.store_info import Finding, StoreInfo

_SAMPLE = 100  # rows searched for stored credentials when attaching
_INTEGERS = ("bigint", "integer", "smallint")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherAttached(Attached):
    layout: LayoutColumns
    spelt: tuple[tuple[str, str], ...]  # (the layout's name, the table's own)
    outboxes: tuple[Outbox, ...] = ()
    options: Options = field(default_factory=Options)
    reads_outboxes: bool = True  # counting their rows runs nobody's code
    indexes: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)  # as `postgres.indexes_of` tells them
    ids_repeat: bool = False  # nothing keeps the id alone unique, as in a table partitioned by time

    def actual(self, name: str) -> str | None:
        """The table's name for this column of the layout; None if it has none or the role may not read it."""
        return dict(self.spelt).get(name)

    def part(self, name: str) -> CatalogColumn:
        return self.column(dict(self.spelt)[name])

    def sql(self, name: str) -> str:
        """The column as SQL, with the table aliased as t."""
        return f"t.{quoted(dict(self.spelt)[name])}"

    def text(self, name: str) -> str:
        """The column's text as SQL; NULL where the table has no such column."""
        return spelled(self.sql(name), self.part(name).type) if self.actual(name) else "CAST(NULL AS pg_catalog.text)"

    @property
    def id_type(self) -> str:
        return type_name(self.part("id").type)

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


async def bare(connection: CatalogConnection, label: str, found: Candidate, *, read_only: bool) -> OtherAttached:
    """The table without a report on it; asks the catalog for its indexes alone."""
    layout = found.other_layout
    if layout is None:
        raise ValueError("an order table has a report of its own")
    spelt = resolve(layout, (column.name for column in found.columns))
    indexes = await postgres.indexes_of(connection, found.quoted) if found.kind == "table" else []
    ids_repeat = not layout.sends and not any(unique and names == [spelt["id"]] for unique, _, names, _ in indexes)
    info = StoreInfo(
        label=label,
        dialect="postgresql",
        layout=layout.name,
        table=found.shown,
        columns=tuple(spelt.values()),
        order=_order(spelt[layout.moment], by_number=by_number(found, layout, spelt), ids_repeat=ids_repeat),
        read_only=read_only,
        read_only_enforced_by="client",
        role="",
    )
    own = tuple(spelt.items())
    return OtherAttached(
        info, found, by_rowid=False, layout=layout, spelt=own, ids_repeat=ids_repeat, indexes=tuple(indexes)
    )


async def report(
    connection: CatalogConnection, label: str, found: Candidate, *, read_only: bool, look: bool
) -> OtherAttached:
    """`look`: whether rows may be read."""
    made = await bare(connection, label, found, read_only=read_only)
    layout, spelt = made.layout, dict(made.spelt)
    role, can_write = await postgres.rights(connection, found.quoted)
    there = () if layout.sends else await outboxes(connection)
    findings = [*drift(found, layout, spelt)]
    if found.kind == "table":
        partitioned = await postgres.is_partitioned(connection, found.quoted)
        findings += index_holes(found, layout, spelt, made.indexes, partitioned=partitioned)
    findings += [_repeats(found, spelt[layout.moment])] if made.ids_repeat and found.kind == "table" else []
    findings += await _credentials(connection, found, spelt) if layout.sends and look else []
    runs = await foreign_calls(connection, [one.quoted for one in there]) if there else ()
    by: Literal["client", "database"] = "client" if can_write or any(one.is_writable for one in there) else "database"
    info = replace(made.info, read_only_enforced_by=by, role=role, findings=tuple(findings))
    return replace(made, info=info, outboxes=there, reads_outboxes=not runs)


def _order(moment: str, *, by_number: bool, ids_repeat: bool) -> str:
    if not by_number:
        return f"{moment}, id"
    return f"id, {moment}" if ids_repeat else "id"


def _repeats(found: Candidate, moment: str) -> Finding:
    text = f"{found.shown}: the id alone is not unique; rows that share one are entries ID@{moment}, as lists show them"
    return Finding("ids-may-repeat", text)


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


def index_holes(
    found: Candidate,
    layout: LayoutColumns,
    spelt: dict[str, str],
    indexes: Sequence[tuple[Any, ...]],
    *,
    partitioned: bool,
) -> list[Finding]:
    leading = {names[0] for _, whole, names, _ in indexes if whole and names}
    identity, moment = spelt["id"], spelt[layout.moment]
    how = "" if partitioned else " CONCURRENTLY"  # Postgres makes no index of a partitioned table concurrently
    findings = []
    if identity not in leading:
        text = f"{found.shown}.{identity} is not the first column of any index: finding an entry reads the whole table"
        sql = f"CREATE INDEX{how} ON {found.quoted} ({quoted(identity)})"
        findings.append(Finding("no-id-index", text, sql))
    if layout.sends and moment not in leading:
        text = f"{found.shown} has no index on {moment}: pages of a large store are slow"
        sql = f"CREATE INDEX CONCURRENTLY ON {found.quoted} ({quoted(moment)}, {quoted(identity)})"
        findings.append(Finding("no-created-index", text, sql))
    by_queue = [] if layout.sends else [spelt[layout.origin[0]], moment]
    if by_queue and not any(whole and names and names[:2] == by_queue for _, whole, names, _ in indexes):
        text = f"{found.shown} has no index on ({', '.join(by_queue)}): one queue's entries are found by reading all"
        sql = f"CREATE INDEX{how} ON {found.quoted} ({', '.join(map(quoted, by_queue))})"
        findings.append(Finding("no-queue-index", text, sql))
    return findings


async def _credentials(connection: CatalogConnection, found: Candidate, spelt: dict[str, str]) -> list[Finding]:
    """A finding if stored requests hold credentials: they are masked here, but the owner should know."""
    kind = next(column.type for column in found.columns if column.name == spelt["originalRequest"])
    text = spelled(quoted(spelt["originalRequest"]), kind)
    sample = await connection.exec_driver_sql(f"SELECT {text} FROM {found.quoted} LIMIT {_SAMPLE}")
    rows = sample.fetchall()
    held = [fields for row in rows if (fields := mask.masked_fields(mask.masked_document(str(row[0] or ""))))]
    if not held:
        return []
    names = ", ".join(sorted({name for fields in held for name in fields}))
    text = f"{found.shown}.{spelt['originalRequest']} holds what looks like credentials ({names}): masked here"
    return [Finding("stored-credentials", text)]
