"""Read-only is real: enforced at the connection, told apart from what the database enforces, harmless to engines."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from backends.records import Filter
from backends.sql.connection import Connection
from backends.sql.store import SQLStore
from backends.store import ActRefused, StoreError
from tests.support.store import ACTOR, PostgresRig, Rig, SQLiteRig, ids, order_row, pick, why

SQLITE_WRITES = [
    "INSERT INTO order_dlq (dlq_id) VALUES ('x')",
    "REPLACE INTO order_dlq (dlq_id) VALUES ('x')",
    "UPDATE order_dlq SET dismissed = 1",
    "DELETE FROM order_dlq",
    "CREATE TABLE x (a)",
    "CREATE TEMP TABLE x (a)",
    "CREATE INDEX x ON order_dlq (error)",
    "CREATE VIEW x AS SELECT 1",
    "CREATE TEMP VIEW x AS SELECT 1",
    "CREATE TRIGGER x AFTER INSERT ON order_dlq BEGIN SELECT 1; END",
    "CREATE TEMP TRIGGER x AFTER INSERT ON order_dlq BEGIN DELETE FROM order_dlq; END",
    "CREATE VIRTUAL TABLE x USING fts5(a)",
    "ALTER TABLE order_dlq ADD COLUMN x",
    "ALTER TABLE order_dlq RENAME TO x",
    "DROP TABLE order_dlq",
    "DROP TRIGGER order_dlq_worm_del",
    "DROP INDEX order_dlq_open",
    "REINDEX",
    "ANALYZE",
    "VACUUM",
    "VACUUM INTO '{folder}/copy.db'",
    "ATTACH '{file}' AS again",
    "ATTACH 'file:{file}?mode=rw' AS again",
    "ATTACH '{folder}/new.db' AS new",
    "ATTACH ':memory:' AS mem",
    "DETACH main",
    "SAVEPOINT x",
    "SELECT load_extension('x')",
    "PRAGMA query_only = OFF",
    "PRAGMA query_only(0)",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode(off)",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = 7",
    "PRAGMA schema_version = 7",
    "PRAGMA writable_schema = ON",
    "PRAGMA auto_vacuum = FULL",
    "PRAGMA incremental_vacuum",
    "PRAGMA optimize",
    "PRAGMA page_size = 512",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA synchronous = OFF",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA recursive_triggers = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store_directory = '{folder}'",
    "PRAGMA journal_size_limit = 0",
]
POSTGRES_WRITES = [
    "INSERT INTO public.order_dlq (dlq_id) VALUES ('x')",
    "UPDATE public.order_dlq SET dismissed = true",
    "DELETE FROM public.order_dlq",
    "TRUNCATE public.order_dlq",
    "SELECT 1 FROM public.order_dlq FOR UPDATE",
    "CREATE TABLE public.x (a int)",
    "CREATE TEMP TABLE x (a int)",
    "CREATE SCHEMA x",
    "ALTER TABLE public.order_dlq ADD x int",
    "DROP TABLE public.order_dlq",
    "GRANT ALL ON public.order_dlq TO public",
    "CREATE ROLE x",
    "COMMENT ON TABLE public.order_dlq IS 'x'",
]


async def attempt(store: SQLStore, statement: str) -> None:
    """Behind our own back: straight on the reading connection."""

    async def work(link: Connection) -> Any:
        return await (await link.core()).exec_driver_sql(statement)

    await store._quick.run(work)


@pytest.mark.parametrize("read_only", [True, False])
async def test_no_reading_connection_of_sqlite_writes(sqlite_store: SQLiteRig, read_only: bool) -> None:
    await sqlite_store.make(5)
    file = Path(sqlite_store.target)
    store = await sqlite_store.open(read_only=read_only)
    assert len(await ids(store)) == 5
    before = (hashlib.sha256(file.read_bytes()).hexdigest(), sorted(path.name for path in file.parent.iterdir()))
    for statement in SQLITE_WRITES:
        with pytest.raises(StoreError):
            await attempt(store, statement.format(file=file, folder=file.parent))
    assert len(await ids(store)) == 5
    after = (hashlib.sha256(file.read_bytes()).hexdigest(), sorted(path.name for path in file.parent.iterdir()))
    assert after == before
    assert (await sqlite_store.sql("PRAGMA journal_mode")) == [("wal",)]


async def test_the_reading_connections_of_postgres_refuse_to_write(postgres_store: PostgresRig) -> None:
    await postgres_store.make(5)
    before = await postgres_store.schema()
    store = await postgres_store.open(read_only=True)
    for statement in POSTGRES_WRITES:
        with pytest.raises(ActRefused, match="is read-only"):
            await attempt(store, statement)
    assert len(await ids(store)) == 5
    assert await postgres_store.schema() == before


async def test_a_read_only_attach_leaves_no_file_behind(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(5)
    file = Path(sqlite_store.target)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    store = await sqlite_store.open(read_only=True)
    assert len(await ids(store)) == 5
    await store.aclose()
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
    await sqlite_store.insert(order_row(9))


async def test_no_read_transaction_is_left_open(store_rig: Rig) -> None:
    """A reader that kept one open would keep the engine's WAL (or dead rows) from being cleaned up."""
    await store_rig.make(5)
    store = await store_rig.open()
    await ids(store)
    await store.counts(Filter())
    if isinstance(store_rig, PostgresRig):
        rows = await store_rig.sql(
            "SELECT state, xact_start FROM pg_stat_activity "
            "WHERE application_name = 'dlq-console' AND datname = current_database()"
        )
        assert rows
        assert set(rows) == {("idle", None)}
    else:
        assert await store_rig.sql("PRAGMA wal_checkpoint(TRUNCATE)") == [(0, 0, 0)]


async def test_immutable_is_read_only(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(2)
    store = await sqlite_store.open(target=f"sqlite:///{sqlite_store.target}?immutable=1")
    assert store.info.read_only is True
    assert "immutable" in {finding.code for finding in store.info.findings}
    with pytest.raises(ActRefused, match="attached read-only"):
        await store.dismiss(await pick(store, 0), ACTOR, why())


PRIVILEGES = {
    "insert": "INSERT ON order_dlq",
    "update": "UPDATE ON order_dlq",
    "one column": "UPDATE (dismissed) ON order_dlq",
    "insert a column": "INSERT (error) ON order_dlq",
    "delete": "DELETE ON order_dlq",
    "truncate": "TRUNCATE ON order_dlq",
    "trigger": "TRIGGER ON order_dlq",
    "create in the schema": "CREATE ON SCHEMA public",
    "create in the database": 'CREATE ON DATABASE "{db}"',
    "write everything": "pg_write_all_data",
    "write files": "pg_write_server_files",
    "run programs": "pg_execute_server_program",
    "owner": "postgres",
    "ledger": "INSERT ON dlq_console.note",
}


async def test_a_role_that_can_only_select_is_enforced_by_the_database(postgres_store: PostgresRig) -> None:
    await postgres_store.make(2)
    assert (await postgres_store.open(read_only=True)).info.read_only_enforced_by == "client"
    auditor = await postgres_store.role("auditor", "SELECT ON order_dlq", "pg_read_all_data", "pg_monitor")
    for read_only in (True, False):
        store = await postgres_store.open(target=auditor, read_only=read_only)
        assert store.info.read_only_enforced_by == "database"
        assert store.info.role.startswith("auditor_")


@pytest.mark.parametrize("privilege", PRIVILEGES)
async def test_each_further_privilege_is_only_client_side(postgres_store: PostgresRig, privilege: str) -> None:
    await postgres_store.make(2)
    await (await postgres_store.open()).note("x", ACTOR, why(note="makes the ledger"))
    grant = PRIVILEGES[privilege].format(db=postgres_store.target.rpartition("/")[2])
    role = await postgres_store.role("more", "SELECT ON order_dlq", grant)
    store = await postgres_store.open(target=role, read_only=True)
    assert store.info.read_only_enforced_by == "client"


async def test_a_role_that_could_become_a_writer_is_only_client_side(postgres_store: PostgresRig) -> None:
    await postgres_store.make(2)
    database = postgres_store.target.rpartition("/")[2]
    await postgres_store.role("writer", "UPDATE ON order_dlq")
    role = await postgres_store.role("sleeper", "SELECT ON order_dlq")
    await postgres_store.sql(f'ALTER ROLE "sleeper_{database}" NOINHERIT')
    await postgres_store.sql(f'GRANT "writer_{database}" TO "sleeper_{database}"')
    assert (await postgres_store.open(target=role)).info.read_only_enforced_by == "client"
