"""Our own tables beside the store's: `console_*` in a SQLite file, schema `dlq_console` in Postgres."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateSchema, CreateTable

SCHEMA = "dlq_console"
VERSION = "1"


@dataclass(frozen=True, slots=True)
class Ledger:
    metadata: sa.MetaData
    meta: sa.Table
    attempt: sa.Table
    claim: sa.Table
    note: sa.Table
    halt: sa.Table
    approval: sa.Table
    audit: sa.Table
    audit_entry: sa.Table


@cache
def ledger(dialect: str) -> Ledger:
    on_postgres = dialect == "postgresql"
    metadata = sa.MetaData(schema=SCHEMA if on_postgres else None)

    def table(name: str, *items: sa.Column[object] | sa.Constraint | sa.Index, **kw: object) -> sa.Table:
        return sa.Table(name if on_postgres else f"console_{name}", metadata, *items, **kw)

    def text(name: str, *, nullable: bool = True) -> sa.Column[object]:
        return sa.Column(name, sa.Text, nullable=nullable)

    def entry() -> tuple[sa.Column[object], sa.Column[object]]:
        return text("source", nullable=False), text("entry_id", nullable=False)

    integer = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    meta = table("meta", sa.Column("key", sa.Text, primary_key=True), text("value", nullable=False))
    attempt = table(
        "attempt",
        sa.Column("id", integer, primary_key=True, autoincrement=True),
        *entry(),
        sa.Column("attempt_no", sa.Integer, nullable=False),
        text("mode", nullable=False),
        sa.Column("rehearsal", sa.Integer, nullable=False),
        text("venue", nullable=False),
        text("client_order_id", nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        text("payload_hash", nullable=False),
        text("started_at", nullable=False),
        text("operator", nullable=False),
        text("os_user", nullable=False),
        sa.Column("token", integer, nullable=False),
        text("state", nullable=False),
        # 1 while this attempt may be, or is, the entry's one venue order; else NULL. The unique index is the rule.
        sa.Column("holds", sa.Integer),
        text("venue_order_id"),
        text("error"),
        text("finished_at"),
        sa.UniqueConstraint("source", "entry_id", "attempt_no"),
        sa.UniqueConstraint("source", "entry_id", "holds"),
    )
    sa.Index(f"{attempt.name}_state", attempt.c.state)
    claim = table(
        "claim",
        sa.Column("token", integer, primary_key=True, autoincrement=True),
        *entry(),
        text("owner", nullable=False),
        sa.Column("claimed_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
        sa.Column("released", sa.Integer),
        sqlite_autoincrement=True,
    )
    sa.Index(
        f"{claim.name}_open",
        claim.c.source,
        claim.c.entry_id,
        unique=True,
        sqlite_where=claim.c.released.is_(None),
        postgresql_where=claim.c.released.is_(None),
    )
    note = table(
        "note",
        sa.Column("id", integer, primary_key=True, autoincrement=True),
        *entry(),
        text("at", nullable=False),
        text("operator", nullable=False),
        text("text", nullable=False),
    )
    sa.Index(f"{note.name}_of", note.c.source, note.c.entry_id)
    halt = table(
        "halt",
        sa.Column("id", sa.Integer, primary_key=True),
        text("since", nullable=False),
        text("operator", nullable=False),
        text("note", nullable=False),
    )
    approval = table(
        "approval",
        sa.Column("plan_hash", sa.Text, primary_key=True),
        text("asked_by", nullable=False),
        sa.Column("asked_at", sa.Float, nullable=False),
        text("summary", nullable=False),
        text("approved_by"),
        sa.Column("approved_at", sa.Float),
    )
    audit = table(
        "audit",
        sa.Column("seq", integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
    )
    audit_entry = table(
        "audit_entry",
        sa.Column("entry_id", sa.Text, primary_key=True),
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("seq", integer, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    return Ledger(metadata, meta, attempt, claim, note, halt, approval, audit, audit_entry)


def create_statements(dialect: str) -> tuple[str, ...]:
    """What makes the ledger; each is harmless where the thing is already there."""
    compiler = postgresql.dialect() if dialect == "postgresql" else sqlite.dialect()
    book = ledger(dialect)
    statements = []
    if dialect == "postgresql":
        statements.append(str(CreateSchema(SCHEMA, if_not_exists=True).compile(dialect=compiler)))
    for table in book.metadata.sorted_tables:
        statements.append(str(CreateTable(table, if_not_exists=True).compile(dialect=compiler)).strip())
        statements += [
            str(CreateIndex(index, if_not_exists=True).compile(dialect=compiler))
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
    statements += _postgres_worm(book) if dialect == "postgresql" else _sqlite_worm(book)
    return tuple(statements)


def _append_only(book: Ledger) -> tuple[tuple[sa.Table, bool], ...]:
    """(table, may some columns still be updated?): evidence that nobody may change."""
    return ((book.audit, False), (book.audit_entry, False), (book.note, False), (book.attempt, True))


_LATER = ("state", "holds", "venue_order_id", "error", "finished_at", "token")


def _sqlite_worm(book: Ledger) -> list[str]:
    statements = []
    for table, partly in _append_only(book):
        fixed = [column.name for column in table.columns if column.name not in _LATER]
        of = f" OF {', '.join(fixed)}" if partly else ""
        for name, event in (("upd", f"UPDATE{of}"), ("del", "DELETE")):
            statements.append(
                f"CREATE TRIGGER IF NOT EXISTS {table.name}_{name} BEFORE {event} ON {table.name}\n"
                f"BEGIN SELECT RAISE(ABORT, 'the console''s ledger is append-only'); END"
            )
    seq = book.audit.name
    statements.append(
        f"CREATE TRIGGER IF NOT EXISTS {seq}_ins BEFORE INSERT ON {seq}\n"
        f"WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM {seq})\n"
        f"BEGIN SELECT RAISE(ABORT, 'the audit chain has no gaps'); END"
    )
    return statements


def _postgres_worm(book: Ledger) -> list[str]:
    statements = [
        f"CREATE OR REPLACE FUNCTION {SCHEMA}.worm() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN\n"
        "  RAISE EXCEPTION 'the console''s ledger is append-only' "
        "USING errcode = 'integrity_constraint_violation'; END $$"
    ]
    for table, partly in _append_only(book):
        fixed = [column.name for column in table.columns if column.name not in _LATER]
        of = f" OF {', '.join(fixed)}" if partly else ""
        for name, event, each in (
            ("upd", f"UPDATE{of}", "ROW"),
            ("del", "DELETE", "ROW"),
            ("trunc", "TRUNCATE", "STATEMENT"),
        ):
            statements.append(
                f"CREATE OR REPLACE TRIGGER {table.name}_{name} BEFORE {event} ON {table.fullname}\n"
                f"FOR EACH {each} EXECUTE FUNCTION {SCHEMA}.worm()"
            )
    return statements
