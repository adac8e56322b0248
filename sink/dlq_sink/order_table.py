"""The order layout: its fourteen columns, which of them may be written, and its DDL with the guarding triggers."""

from __future__ import annotations

NAME = "orders"
ANCHORS = frozenset({"dlq_id", "action_json", "dismissed"})
INTENT_MARKS = frozenset({"lease_until", "resolved_at"})  # a table that also has these holds intents, not entries
COLUMNS = (
    "dlq_id",
    "captured_at",
    "venue_name",
    "account_id",
    "market_id",
    "side",
    "quantity",
    "order_type",
    "price",
    "client_order_id",
    "error",
    "retry_count",
    "dismissed",
    "action_json",
)
REQUIRED = ANCHORS | {"captured_at", "venue_name", "market_id", "side", "quantity", "error"}
WRITTEN = ("retry_count", "dismissed")  # no other column is ever written
IDENTITY = tuple(name for name in COLUMNS if name not in WRITTEN)
DEGRADED = {
    "account_id": "accounts are not shown",
    "order_type": "the order type comes from the action alone",
    "price": "the price comes from the action alone",
    "client_order_id": "no look-up by the entry's own order id",
    "retry_count": "retries are counted in the ledger alone",
}
DEFAULT_TABLE = "order_dlq"


_TEXT = ("text", "character varying", "varchar")
# Expected beginnings of a column's type; findings name the first.
POSTGRES_TYPES = {
    **dict.fromkeys(COLUMNS, _TEXT),
    "captured_at": ("timestamp with time zone",),
    "quantity": ("double precision",),
    "price": ("double precision",),
    "retry_count": ("integer", "bigint", "smallint"),
    "dismissed": ("boolean",),
}
SQLITE_AFFINITIES = {
    **dict.fromkeys(COLUMNS, ("text",)),
    "quantity": ("real", "numeric"),
    "price": ("real", "numeric"),
    "retry_count": ("integer", "numeric"),
    "dismissed": ("integer", "numeric"),
}


def sqlite_affinity(declared: str) -> str:
    """The affinity of a declared type, by https://sqlite.org/datatype3.html, section 3.1."""
    for affinity, marks in (("integer", ("int",)), ("text", ("char", "clob", "text")), ("blob", ("blob",))):
        if any(mark in declared for mark in marks):
            return affinity
    if not declared:
        return "blob"
    return "real" if any(mark in declared for mark in ("real", "floa", "doub")) else "numeric"


def sqlite_ddl(table: str) -> tuple[str, ...]:
    t = quoted(table)
    return (
        f"CREATE TABLE {t} (\n"
        "  dlq_id TEXT NOT NULL PRIMARY KEY,\n  captured_at TEXT NOT NULL,\n  venue_name TEXT NOT NULL,\n"
        "  account_id TEXT,\n  market_id TEXT NOT NULL,\n  side TEXT NOT NULL,\n  quantity REAL NOT NULL,\n"
        "  order_type TEXT NOT NULL,\n  price REAL,\n  client_order_id TEXT,\n  error TEXT NOT NULL,\n"
        "  retry_count INTEGER NOT NULL DEFAULT 0,\n  dismissed INTEGER NOT NULL DEFAULT 0,\n"
        "  action_json TEXT NOT NULL DEFAULT ''\n)",
        sqlite_index(table),
        *(sqlite_trigger(table, kind) for kind in ("update", "delete", "replace")),
    )


def sqlite_index(table: str) -> str:
    return f"CREATE INDEX {named(table, '_open')} ON {quoted(table)} (dismissed) WHERE dismissed = 0"


def sqlite_trigger(
    table: str, kind: str, *, columns: tuple[str, ...] = IDENTITY, rowid: bool = True, mark: str = "worm"
) -> str:
    """`mark` tells the triggers that `dlq init` makes from those that a finding suggests for another's table."""
    t = quoted(table)
    match kind:
        case "update":
            # UPDATE OR REPLACE of a rowid removes the row that had it without firing DELETE triggers.
            guarded = (*columns, "rowid", "_rowid_", "oid") if rowid else columns
            return (
                f"CREATE TRIGGER {named(table, f'_{mark}_upd')} BEFORE UPDATE OF {', '.join(guarded)} ON {t}\n"
                "BEGIN SELECT RAISE(ABORT, 'WORM: this column cannot be changed'); END"
            )
        case "delete":
            return (
                f"CREATE TRIGGER {named(table, f'_{mark}_del')} BEFORE DELETE ON {t}\n"
                "BEGIN SELECT RAISE(ABORT, 'WORM: entries cannot be deleted'); END"
            )
        case _:
            # INSERT OR REPLACE removes the old row without firing DELETE triggers.
            same = "dlq_id = NEW.dlq_id OR rowid = NEW.rowid" if rowid else "dlq_id = NEW.dlq_id"
            return (
                f"CREATE TRIGGER {named(table, f'_{mark}_ins')} BEFORE INSERT ON {t}\n"
                f"WHEN EXISTS (SELECT 1 FROM {t} WHERE {same})\n"
                "BEGIN SELECT RAISE(ABORT, 'WORM: entries cannot be replaced'); END"
            )


def postgres_ddl(table: str, schema: str = "public") -> tuple[str, ...]:
    t = f"{quoted(schema)}.{quoted(table)}"
    return (
        f"CREATE TABLE {t} (\n"
        "  dlq_id text PRIMARY KEY,\n  captured_at timestamptz NOT NULL,\n  venue_name text NOT NULL,\n"
        "  account_id text,\n  market_id text NOT NULL,\n  side text NOT NULL,\n  quantity double precision NOT NULL,\n"
        "  order_type text NOT NULL,\n  price double precision,\n  client_order_id text,\n  error text NOT NULL,\n"
        "  retry_count integer NOT NULL DEFAULT 0,\n  dismissed boolean NOT NULL DEFAULT false,\n"
        "  action_json text NOT NULL DEFAULT ''\n)",
        postgres_index(table, schema),
        f"CREATE INDEX {named(table, '_open')} ON {t} (captured_at, dlq_id) WHERE NOT dismissed",
        *postgres_worm(table, schema),
        *postgres_notify(table, schema),
    )


def postgres_index(table: str, schema: str = "public") -> str:
    return f"CREATE INDEX {named(table, '_captured')} ON {quoted(schema)}.{quoted(table)} (captured_at, dlq_id)"


OWN_PATH = "SET search_path = pg_catalog, pg_temp"  # whoever writes, the function finds the server's own


def postgres_worm(
    table: str, schema: str = "public", *, columns: tuple[str, ...] = IDENTITY, mark: str = "worm"
) -> tuple[str, ...]:
    t = f"{quoted(schema)}.{quoted(table)}"
    function = f"{quoted(schema)}.{named(table, f'_{mark}')}"
    old = ", ".join(f"old.{name}" for name in columns)
    new = ", ".join(f"new.{name}" for name in columns)
    names = {kind: named(table, f"_{mark}_{kind}") for kind in ("upd", "del", "trunc")}
    return (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql {OWN_PATH} AS $$ BEGIN\n"
        "  RAISE EXCEPTION 'WORM: % on % is forbidden', tg_op, tg_table_name "
        "USING errcode = 'integrity_constraint_violation'; END $$",
        f"CREATE OR REPLACE TRIGGER {names['upd']} BEFORE UPDATE ON {t} FOR EACH ROW\n"
        f"  WHEN (({old}) IS DISTINCT FROM ({new})) EXECUTE FUNCTION {function}()",
        f"CREATE OR REPLACE TRIGGER {names['del']} BEFORE DELETE ON {t} FOR EACH ROW EXECUTE FUNCTION {function}()",
        f"CREATE OR REPLACE TRIGGER {names['trunc']} BEFORE TRUNCATE ON {t} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
        *(f"ALTER TABLE {t} ENABLE ALWAYS TRIGGER {name}" for name in names.values()),
    )


def postgres_notify(table: str, schema: str = "public") -> tuple[str, ...]:
    """Sends one NOTIFY per statement, so that a console hears of a change at once; it carries no ids."""
    t = f"{quoted(schema)}.{quoted(table)}"
    function = f"{quoted(schema)}.{named(table, '_notify')}"
    channel = _fitted("", f"dlq_{table}").replace("'", "''")
    return (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql {OWN_PATH} AS $$ BEGIN\n"
        f"  PERFORM pg_notify('{channel}', ''); RETURN NULL; END $$",
        f"CREATE TRIGGER {named(table, '_notify')} AFTER INSERT OR UPDATE ON {t} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
    )


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def named(table: str, tail: str) -> str:
    """Shorten the table's part, since Postgres silently cuts a name at 63 bytes and the tail keeps names distinct."""
    return quoted(_fitted(tail, table))


def _fitted(tail: str, name: str) -> str:
    return name.encode()[: 63 - len(tail)].decode(errors="ignore") + tail
