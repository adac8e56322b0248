"""The statements that bring a ledger of an earlier version to this one, forward only, in one transaction. Runs nothing.

Every ledger of version 0.1 says it is of version 1, but there were several shapes of it, so the columns decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import sqlalchemy as sa
from sqlalchemy.engine.url import make_url
from sqlalchemy.schema import CreateColumn, CreateTable

from backends.ledger.audit_chain import mark
from backends.ledger.functions import CALLS, SIGNATURES
from backends.ledger.names import AUDIT_LOCK, GRANTS, SCHEMA, SWITCH_MARK, VERSION
from backends.ledger.schema import create_statements, ledger
from backends.ledger.shape import FUNCTION, LedgerShape

EVENT = "ledger-migrated"
MARK_FUNCTION = "dlq_mark"  # on SQLite the connection must offer it: (source, entry_id) → mark
_MOVING = "console_moving"
# A role that may use the second table may use the first, which earlier versions did not have.
_SAME_GRANTS = {"audit_bulk": "audit_entry", "breaker": "approval", "cleared": "note", "settled": "halt"}
# What only functions write; earlier versions let operators write it themselves.
_EVIDENCE = tuple(name for name, rights in GRANTS.items() if rights == "SELECT")


def bare(table: sa.Table) -> str:
    return table.name.removeprefix("console_")


def mark_of(source: object, entry_id: object) -> int:
    """For SQLite: what MARK_FUNCTION computes."""
    return mark(str(source), str(entry_id))


def migration_statements(shape: LedgerShape) -> tuple[str, ...]:
    """Everything but the audit event."""
    statements = list(_postgres(shape) if shape.dialect == "postgresql" else _sqlite(shape))
    book = ledger(shape.dialect)
    if not shape.has("approval", "asked_event"):
        statements.append(f"UPDATE {book.approval.fullname} SET state = 'lapsed'")
        statements.append(_switches(shape.dialect))
    statements.append(f"UPDATE {book.meta.fullname} SET value = '{VERSION}' WHERE key = 'schema_version'")
    return tuple(statements)


def _switches(dialect: str) -> str:
    """Indexes the events that set or lifted the halt, by which it is in force or not."""
    book = ledger(dialect)
    found = "position(convert_to('{}', 'UTF8') IN body) > 0"
    if dialect != "postgresql":
        found = "instr(body, CAST('{}' AS BLOB)) > 0"
    kinds = " OR ".join(found.format(f'"kind":"{kind}"') for kind in ("halt", "resume"))
    into = f"INSERT INTO {book.audit_entry.fullname} (mark, seq) SELECT {SWITCH_MARK}, seq"
    return f"{into} FROM {book.audit.fullname} WHERE {kinds}"


def _compiled(item: CreateColumn | CreateTable, dialect: str) -> str:
    return str(item.compile(dialect=make_url(f"{dialect}://").get_dialect()())).strip()


def _sqlite(shape: LedgerShape) -> Iterator[str]:
    """Rebuilds the tables that differ; nothing is renamed, as that would check everybody's views."""
    creating = create_statements(shape.dialect)
    for name in re.findall(r"CREATE TRIGGER IF NOT EXISTS (\w+)", "\n".join(creating)):
        yield f"DROP TRIGGER IF EXISTS {name}"
    for table in ledger(shape.dialect).metadata.sorted_tables:
        if not shape.has(bare(table)) or all(shape.has(bare(table), column.name) for column in table.columns):
            continue
        yield f"CREATE TABLE {_MOVING} AS SELECT * FROM {table.name}"
        yield f"DROP TABLE {table.name}"
        yield _compiled(CreateTable(table), shape.dialect)
        yield f"INSERT INTO {table.name} {_copied(table, shape)} FROM {_MOVING}"
        yield f"DROP TABLE {_MOVING}"
    yield from creating


def _copied(table: sa.Table, shape: LedgerShape) -> str:
    if bare(table) == "audit_entry":
        return f"(mark, seq) SELECT DISTINCT {MARK_FUNCTION}(source, entry_id), seq"
    common = ", ".join(column.name for column in table.columns if shape.has(bare(table), column.name))
    return f"({common}) SELECT {common}"


def _postgres(shape: LedgerShape) -> Iterator[str]:
    """Changes tables in place, which keeps everybody's grants."""
    book = ledger(shape.dialect)
    if not shape.has("audit_entry", "mark"):
        yield from _POSTGRES_MARKS
    for table in book.metadata.sorted_tables:
        missing = [column for column in table.columns if not shape.has(bare(table), column.name)]
        if shape.has(bare(table)) and bare(table) != "audit_entry" and missing:
            added = ", ".join(
                f"ADD COLUMN IF NOT EXISTS {_compiled(CreateColumn(column), shape.dialect)}" for column in missing
            )
            yield f"ALTER TABLE {table.fullname} {added}"
    if not shape.has("attempt", "account"):
        yield (
            f"ALTER TABLE {book.attempt.fullname} DROP CONSTRAINT IF EXISTS attempt_source_entry_id_holds_key, "
            "ADD CONSTRAINT attempt_source_entry_id_mode_holds_key UNIQUE (source, entry_id, mode, holds)"
        )
    yield from (one for one in create_statements(shape.dialect) if not one.startswith("CREATE SCHEMA"))
    yield from (_grants_like(new, old) for new, old in _SAME_GRANTS.items() if not shape.has(new))
    if not shape.has(FUNCTION, "append_event"):
        yield _FUNCTIONS_INSTEAD
    if not all(shape.has(FUNCTION, name) for name in SIGNATURES):
        yield _ONE_OWNER
    if not shape.has("policy"):
        yield _grants_like("policy", "meta", only="'SELECT'")


_POSTGRES_MARKS = (
    f"DROP TRIGGER IF EXISTS audit_entry_upd ON {SCHEMA}.audit_entry",
    f"DROP TRIGGER IF EXISTS audit_entry_del ON {SCHEMA}.audit_entry",
    f"ALTER TABLE {SCHEMA}.audit_entry ADD COLUMN mark BIGINT",
    f"""CREATE FUNCTION {SCHEMA}.crc32_of(bytes bytea) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE crc bigint = 4294967295; BEGIN
  FOR n IN 0 .. length(bytes) - 1 LOOP
    crc = crc # get_byte(bytes, n);
    FOR bit IN 1 .. 8 LOOP crc = (crc >> 1) # (CASE WHEN crc & 1 = 1 THEN 3988292384 ELSE 0 END); END LOOP;
  END LOOP;
  RETURN crc # 4294967295; END $$""",
    f"UPDATE {SCHEMA}.audit_entry SET mark = {SCHEMA}.crc32_of("
    "convert_to(source, 'UTF8') || decode('00', 'hex') || convert_to(entry_id, 'UTF8'))",
    f"DROP FUNCTION {SCHEMA}.crc32_of(bytea)",
    f"DELETE FROM {SCHEMA}.audit_entry a USING {SCHEMA}.audit_entry b "
    "WHERE a.mark = b.mark AND a.seq = b.seq AND a.ctid > b.ctid",
    f"ALTER TABLE {SCHEMA}.audit_entry DROP CONSTRAINT audit_entry_pkey, DROP COLUMN entry_id, DROP COLUMN source, "
    "ADD CONSTRAINT audit_entry_pkey PRIMARY KEY (mark, seq)",
)


def _grants_like(new: str, old: str, only: str = "'SELECT', 'INSERT', 'UPDATE', 'DELETE'") -> str:
    return f"""DO $$ DECLARE g record; BEGIN
  FOR g IN SELECT a.privilege_type AS what, coalesce(quote_ident(r.rolname), 'PUBLIC') AS who FROM pg_class c
    CROSS JOIN aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.oid = CAST('{SCHEMA}.{old}' AS regclass) AND a.grantee <> c.relowner
    AND a.privilege_type IN ({only})
  LOOP EXECUTE format('GRANT %s ON {SCHEMA}.{new} TO %s', g.what, g.who); END LOOP; END $$"""


_CALLABLE = ", ".join(f"{SCHEMA}.{name}({SIGNATURES[name]})" for name in CALLS)
# Whoever could write evidence may now have it written, and no longer writes it.
_FUNCTIONS_INSTEAD = f"""DO $$ DECLARE g record; BEGIN
  FOR g IN SELECT c.relname AS kept, a.privilege_type AS what, coalesce(quote_ident(r.rolname), 'PUBLIC') AS who
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.relnamespace = CAST('{SCHEMA}' AS regnamespace) AND a.grantee <> c.relowner
    AND c.relname IN ({", ".join(f"'{name}'" for name in _EVIDENCE)})
    AND a.privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
  LOOP
    IF g.kept = 'audit' AND g.what = 'INSERT' THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION {_CALLABLE} TO %s', g.who);
    END IF;
    EXECUTE format('REVOKE %s ON {SCHEMA}.%I FROM %s', g.what, g.kept, g.who);
  END LOOP; END $$"""
# Functions act as their owner, so they should belong to whom the tables belong.
_ONE_OWNER = f"""DO $$ DECLARE f record; BEGIN
  FOR f IN SELECT CAST(p.oid AS regprocedure) AS made, quote_ident(r.rolname) AS owner FROM pg_proc p
    JOIN pg_class c ON c.oid = CAST('{SCHEMA}.audit' AS regclass) JOIN pg_roles r ON r.oid = c.relowner
    WHERE p.pronamespace = CAST('{SCHEMA}' AS regnamespace) AND p.proowner <> c.relowner
  LOOP EXECUTE format('ALTER FUNCTION %s OWNER TO %s', f.made, f.owner); END LOOP;
  EXCEPTION WHEN insufficient_privilege THEN NULL; END $$"""


def owner_statements(shape: LedgerShape) -> Iterable[str]:
    """What an owner of a Postgres ledger runs: the migration and its audit event, in one transaction."""
    yield "BEGIN"
    yield f"SELECT pg_advisory_xact_lock({AUDIT_LOCK})"
    yield _POSTGRES_EVENT
    yield from migration_statements(shape)
    yield "COMMIT"


_POSTGRES_EVENT = f"""DO $$ DECLARE n bigint; last bytea; was text; body bytea; BEGIN
  SELECT seq, hash INTO n, last FROM {SCHEMA}.audit ORDER BY seq DESC LIMIT 1;
  SELECT value INTO was FROM {SCHEMA}.meta WHERE key = 'schema_version';
  n = coalesce(n, 0) + 1;
  body = convert_to(CAST(json_build_object('v', 1, 'seq', n, 'kind', '{EVENT}', 'operation', 'migrate-by-owner',
    'at', to_char(timezone('UTC', now()), 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'), 'who', json_build_object(
    'operator', session_user, 'os_user', '', 'host', '', 'program', 'SQL', 'db_role', session_user), 'source', '',
    'reason', NULL, 'note', NULL, 'entries', json_build_array(), 'from', coalesce(was, '1'), 'to', '{VERSION}')
    AS text), 'UTF8');
  INSERT INTO {SCHEMA}.audit (seq, body, hash)
    VALUES (n, body, sha256(coalesce(last, decode(repeat('00', 32), 'hex')) || body)); END $$"""
