"""The intent table: the order's columns, who owns the intent and until when, how it ended; its DDL and triggers."""

from __future__ import annotations

from dlq_sink import order_table as orders
from dlq_sink.error import NotADLQ
from dlq_sink.order_table import named, quoted

TAIL = "_intent"  # behind the name of the table of entries, in the same schema
OWN_COLUMNS = ("owner", "host", "lease_until", "resolved_at", "venue_order_id")
COLUMNS = (*orders.COLUMNS, *OWN_COLUMNS)
WRITTEN = ("lease_until", "owner", "resolved_at", "venue_order_id")  # no other column is ever written
FIXED = tuple(name for name in COLUMNS if name not in WRITTEN)
LEASE_SECONDS = 30.0  # without a renewal its owner counts as gone
KEPT_SECONDS = 86_400.0  # that a resolved intent is kept
_LONGEST_NAME = 63  # bytes, in Postgres


def intent_name(table: str, label: str) -> str:
    name = table + TAIL
    if len(name.encode()) > _LONGEST_NAME:
        raise NotADLQ(f"{label}: {name} is too long for the name of a table: rename {table}, or do without a witness")
    return name


def sqlite_ddl(table: str) -> tuple[str, ...]:
    """`table` is the intent table's own name."""
    t = quoted(table)
    guarded = ", ".join((*FIXED, "rowid", "_rowid_", "oid"))
    return (
        f"CREATE TABLE {t} (\n"
        "  dlq_id TEXT NOT NULL PRIMARY KEY,\n  captured_at TEXT NOT NULL,\n  venue_name TEXT NOT NULL,\n"
        "  account_id TEXT,\n  market_id TEXT NOT NULL,\n  side TEXT NOT NULL,\n  quantity REAL NOT NULL,\n"
        "  order_type TEXT NOT NULL,\n  price REAL,\n  client_order_id TEXT,\n  error TEXT NOT NULL,\n"
        "  retry_count INTEGER NOT NULL DEFAULT 0,\n  dismissed INTEGER NOT NULL DEFAULT 0,\n"
        "  action_json TEXT NOT NULL DEFAULT '',\n  owner TEXT NOT NULL,\n  host TEXT NOT NULL,\n"
        "  lease_until TEXT NOT NULL,\n  resolved_at TEXT,\n  venue_order_id TEXT\n)",
        f"CREATE INDEX {named(table, '_open')} ON {t} (lease_until) WHERE resolved_at IS NULL",
        f"CREATE TRIGGER {named(table, '_worm_upd')} BEFORE UPDATE OF {guarded} ON {t}\n"
        "BEGIN SELECT RAISE(ABORT, 'WORM: this column cannot be changed'); END",
        f"CREATE TRIGGER {named(table, '_worm_del')} BEFORE DELETE ON {t} WHEN OLD.resolved_at IS NULL\n"
        "BEGIN SELECT RAISE(ABORT, 'WORM: an open intent cannot be deleted'); END",
        orders.sqlite_trigger(table, "replace"),
    )


def postgres_ddl(table: str, schema: str) -> tuple[str, ...]:
    """`table` is the intent table's own name."""
    t = f"{quoted(schema)}.{quoted(table)}"
    function = f"{quoted(schema)}.{named(table, '_worm')}"
    old, new = (", ".join(f"{row}.{name}" for name in FIXED) for row in ("old", "new"))
    names = {kind: named(table, f"_worm_{kind}") for kind in ("upd", "del", "trunc")}
    return (
        f"CREATE TABLE {t} (\n"
        "  dlq_id text PRIMARY KEY,\n  captured_at timestamptz NOT NULL,\n  venue_name text NOT NULL,\n"
        "  account_id text,\n  market_id text NOT NULL,\n  side text NOT NULL,\n  quantity double precision NOT NULL,\n"
        "  order_type text NOT NULL,\n  price double precision,\n  client_order_id text,\n  error text NOT NULL,\n"
        "  retry_count integer NOT NULL DEFAULT 0,\n  dismissed boolean NOT NULL DEFAULT false,\n"
        "  action_json text NOT NULL DEFAULT '',\n  owner text NOT NULL,\n  host text NOT NULL,\n"
        "  lease_until timestamptz NOT NULL,\n  resolved_at timestamptz,\n  venue_order_id text\n)",
        f"CREATE INDEX {named(table, '_open')} ON {t} (lease_until) WHERE resolved_at IS NULL",
        f"CREATE INDEX {named(table, '_resolved')} ON {t} (resolved_at) WHERE resolved_at IS NOT NULL",
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql {orders.OWN_PATH} AS $$ BEGIN\n"
        "  RAISE EXCEPTION 'WORM: % on % is forbidden', tg_op, tg_table_name "
        "USING errcode = 'integrity_constraint_violation'; END $$",
        f"CREATE TRIGGER {names['upd']} BEFORE UPDATE ON {t} FOR EACH ROW\n"
        f"  WHEN (({old}) IS DISTINCT FROM ({new})) EXECUTE FUNCTION {function}()",
        f"CREATE TRIGGER {names['del']} BEFORE DELETE ON {t} FOR EACH ROW\n"
        f"  WHEN (old.resolved_at IS NULL) EXECUTE FUNCTION {function}()",
        f"CREATE TRIGGER {names['trunc']} BEFORE TRUNCATE ON {t} FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
        *(f"ALTER TABLE {t} ENABLE ALWAYS TRIGGER {name}" for name in names.values()),
    )
