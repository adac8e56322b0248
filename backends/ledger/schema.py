"""The ledger's tables (`console_*` in SQLite, schema `dlq_console` in Postgres), their DDL, and states of attempts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.url import make_url
from sqlalchemy.schema import CreateIndex, CreateSchema, CreateTable, SchemaItem

from backends.ledger.functions import function_statements
from backends.ledger.names import SCHEMA
from backends.ledger.stored_type import check_types


@dataclass(frozen=True, slots=True)
class LedgerTables:
    metadata: sa.MetaData
    meta: sa.Table
    attempt: sa.Table
    claim: sa.Table
    note: sa.Table
    cleared: sa.Table  # whose failures up to an attempt a person has cleared
    halt: sa.Table
    approval: sa.Table
    breaker: sa.Table  # what the last sends told about each venue, account and mode
    audit: sa.Table
    audit_entry: sa.Table  # entry → events that name few
    audit_bulk: sa.Table  # event that names many → its entries
    settled: sa.Table  # settled entries of layouts that others own; only on Postgres
    policy: sa.Table  # the floor under everybody's limits: key → value as TOML


@cache
def ledger(dialect: str) -> LedgerTables:
    on_postgres = dialect == "postgresql"
    metadata = sa.MetaData(schema=SCHEMA if on_postgres else None)

    def table(name: str, *items: SchemaItem, **options: Any) -> sa.Table:
        return sa.Table(name if on_postgres else f"console_{name}", metadata, *items, **options)

    meta = table("meta", sa.Column("key", sa.Text, primary_key=True), _text("value", required=True))
    attempt = table("attempt", *_attempt_items())
    sa.Index(f"{attempt.name}_state", attempt.c.state)
    sa.Index(f"{attempt.name}_started", attempt.c.started_at)
    claim = table("claim", *_claim_items(), sqlite_autoincrement=True)
    # Only for the dialect in use: SQLAlchemy loads each one that an argument names.
    unreleased: dict[str, Any] = {f"{'postgresql' if on_postgres else 'sqlite'}_where": claim.c.released.is_(None)}
    sa.Index(f"{claim.name}_open", claim.c.source, claim.c.entry_id, unique=True, **unreleased)
    note = table("note", _number("id", primary_key=True), *_entry(), *_required("at", "operator", "text"))
    sa.Index(f"{note.name}_of", note.c.source, note.c.entry_id)
    cleared = table("cleared", *_cleared_items())
    sa.Index(f"{cleared.name}_of", cleared.c.source, cleared.c.entry_id)
    halt = table("halt", sa.Column("id", sa.Integer, primary_key=True), *_required("since", "operator", "note"))
    approval = table("approval", *_approval_items())
    breaker = table("breaker", *_breaker_items())
    audit = table("audit", _key("seq"), *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("body", "hash")))
    # Keeps a short number instead of the id, as a bulk act adds many rows; the event itself names the entries.
    audit_entry = table("audit_entry", _key("mark"), _key("seq"), sqlite_with_rowid=False)
    # Ordered by event: marks are random, and an index that began with them would be rewritten by each bulk act.
    audit_bulk = table("audit_bulk", _key("seq"), _key("mark"), sqlite_with_rowid=False)
    settled = sa.Table("settled", metadata if on_postgres else sa.MetaData(), *_settled_items())
    policy = table("policy", sa.Column("key", sa.Text, primary_key=True), _text("value", required=True))
    acts = (meta, attempt, claim, note, cleared, halt, approval, breaker)
    if not on_postgres:
        check_types(metadata)
    return LedgerTables(metadata, *acts, audit, audit_entry, audit_bulk, settled, policy)


def _text(name: str, *, required: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=not required)


def _required(*names: str) -> list[sa.Column[Any]]:
    return [_text(name, required=True) for name in names]


def _filled(name: str, value: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False, server_default=value)


def _number(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger().with_variant(sa.Integer, "sqlite"), **{"nullable": False, **options})


def _key(name: str) -> sa.Column[Any]:
    return _number(name, primary_key=True, autoincrement=False)


def _entry() -> list[sa.Column[Any]]:
    return _required("source", "entry_id")


def _attempt_items() -> list[SchemaItem]:
    return [
        _number("id", primary_key=True),
        *_entry(),
        sa.Column("attempt_no", sa.Integer, nullable=False),
        _text("mode", required=True),
        sa.Column("rehearsal", sa.Integer, nullable=False),
        *_required("venue", "client_order_id"),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        *_required("payload_hash", "started_at", "operator", "os_user"),
        _number("token"),
        _text("state", required=True),
        # 1 while this attempt is or may be the entry's one venue order of its mode, else NULL; unique.
        sa.Column("holds", sa.Integer),
        _text("venue_order_id"),
        _text("error"),
        _text("finished_at"),
        _text("account"),
        _text("key_digest"),
        _text("role"),  # that logged in, as Postgres says it
        _text("notional"),  # what the order was worth when it went, in `currency`; NULL: nobody could tell
        _text("currency"),
        sa.UniqueConstraint("source", "entry_id", "attempt_no"),
        sa.UniqueConstraint("source", "entry_id", "mode", "holds"),
    ]


def _claim_items() -> list[SchemaItem]:
    return [
        _number("token", primary_key=True),
        *_entry(),
        _text("owner", required=True),
        sa.Column("claimed_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
        sa.Column("released", sa.Integer),
    ]


def _approval_items() -> list[SchemaItem]:
    return [
        sa.Column("plan_hash", sa.Text, primary_key=True),
        _text("asked_by", required=True),
        sa.Column("asked_at", sa.Float, nullable=False),
        _text("summary", required=True),
        _text("approved_by"),
        sa.Column("approved_at", sa.Float),
        _filled("kind", "replay"),
        _filled("document", "{}"),  # what the second person approves, as JSON
        _filled("request", ""),  # what was asked for, to find an approved plan again
        _filled("state", "open"),  # or lapsed or withdrawn: nobody may use it any more
        # The events that count; what else stands here is for showing.
        _number("asked_event", nullable=True),
        _number("approved_event", nullable=True),
    ]


def _breaker_items() -> list[SchemaItem]:
    return [
        *(sa.Column(name, sa.Text, primary_key=True) for name in ("venue", "account", "mode")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("failures", "successes")),
        sa.Column("opened_at", sa.Float),
        sa.Column("updated_at", sa.Float, nullable=False),
    ]


def _cleared_items() -> list[SchemaItem]:
    return [
        _number("id", primary_key=True),
        *_entry(),
        sa.Column("upto", sa.Integer, nullable=False),  # the last attempt that no longer counts; 0: only its own error
        *_required("at", "operator"),
    ]


def _settled_items() -> list[SchemaItem]:
    return [
        # One row per entry enforces "handled at most once". `born` tells an entry from a later one with the same id.
        *(sa.Column(name, sa.Text, primary_key=True) for name in ("source", "entry_id", "born")),
        *_required("state", "at", "operation"),
    ]


@cache
def create_statements(dialect: str) -> tuple[str, ...]:
    """The statements that create the ledger; each does nothing if its object is already there."""
    compiler: sa.Dialect = make_url(f"{dialect}://").get_dialect()()
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
    statements += [*_postgres_worm(book), *function_statements()] if dialect == "postgresql" else _sqlite_worm(book)
    return tuple(statements)


def _append_only(book: LedgerTables) -> tuple[tuple[sa.Table, bool], ...]:
    """The tables that hold evidence, and whether some of their columns may be updated."""
    whole = (book.audit, book.audit_entry, book.audit_bulk, book.note, book.cleared)
    return (*((table, False) for table in whole), (book.attempt, True))


_LATER = ("state", "holds", "venue_order_id", "error", "finished_at", "token")


def _sqlite_worm(book: LedgerTables) -> list[str]:
    statements = []
    for table, partly in _append_only(book):
        fixed = [column.name for column in table.columns if column.name not in _LATER]
        of = f" OF {', '.join(fixed)}" if partly else ""
        for name, event in (("upd", f"UPDATE{of}"), ("del", "DELETE")):
            statements.append(
                f"CREATE TRIGGER IF NOT EXISTS {table.name}_{name} BEFORE {event} ON {table.name}\n"
                f"BEGIN SELECT RAISE(ABORT, 'the console''s ledger is append-only'); END"
            )
    seq, attempt, note, cleared = book.audit.name, book.attempt.name, book.note.name, book.cleared.name
    # INSERT OR REPLACE removes a row without firing DELETE triggers. In the audit's indexes it could only repeat a row.
    for table_name, wrong in (
        (seq, f"NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM {seq})"),
        (note, f"EXISTS (SELECT 1 FROM {note} WHERE id = NEW.id)"),
        (cleared, f"EXISTS (SELECT 1 FROM {cleared} WHERE id = NEW.id)"),
        (attempt, f"EXISTS (SELECT 1 FROM {attempt} o WHERE o.id = NEW.id OR {_SAME_ATTEMPT})"),
    ):
        statements.append(
            f"CREATE TRIGGER IF NOT EXISTS {table_name}_ins BEFORE INSERT ON {table_name}\nWHEN {wrong}\n"
            f"BEGIN SELECT RAISE(ABORT, 'the console''s ledger is append-only and has no gaps'); END"
        )
    return statements


_SAME_ATTEMPT = (
    "(o.source = NEW.source AND o.entry_id = NEW.entry_id "
    "AND (o.attempt_no = NEW.attempt_no OR (o.mode = NEW.mode AND o.holds = NEW.holds)))"
)


def _postgres_worm(book: LedgerTables) -> list[str]:
    statements = [
        f"CREATE OR REPLACE FUNCTION {SCHEMA}.worm() RETURNS trigger LANGUAGE plpgsql\n"
        "SET search_path = pg_catalog, pg_temp AS $$ BEGIN\n"
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
            statements.append(f"ALTER TABLE {table.fullname} ENABLE ALWAYS TRIGGER {table.name}_{name}")
    return statements
