"""Where a sink writes: the layout it makes, the table it finds by its columns, and what it refuses to write to."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from backends import (
    ActRefused,
    BadTarget,
    DuplicateEntry,
    NotADLQ,
    PostgresDLQ,
    SQLiteDLQ,
    StoreError,
    Unreachable,
    open_store,
)
from backends.layouts import orders
from backends.records import Filter
from tests.support.sink import POSTGRES_DDL, SQLITE_DDL, START, Kind, entry, in_postgres, in_sqlite, opened, with_parts


def in_place(place: tuple[Kind, str], statement: str) -> list[Any]:
    kind, target = place
    return in_sqlite(Path(target), statement) if kind == "sqlite" else in_postgres(target, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE order_dlq SET quantity = 999",
        "UPDATE order_dlq SET error = ''",
        "UPDATE order_dlq SET dlq_id = 'dlq_x'",
        "DELETE FROM order_dlq",
    ],
)
def test_the_layout_it_makes_is_worm(place: tuple[Kind, str], statement: str) -> None:
    order = entry()
    with closing(opened(*place)) as sink:
        sink.write(order)
        with pytest.raises((sqlite3.IntegrityError, asyncpg.IntegrityConstraintViolationError), match="WORM"):
            in_place(place, statement)
        assert sink.list() == [order]


def test_the_layout_it_makes_cannot_be_replaced_or_truncated(place: tuple[Kind, str]) -> None:
    statement = "TRUNCATE order_dlq"
    if place[0] == "sqlite":
        statement = (
            "INSERT OR REPLACE INTO order_dlq SELECT dlq_id, captured_at, venue_name, account_id, market_id, side, "
            "999, order_type, price, client_order_id, error, retry_count, dismissed, action_json FROM order_dlq"
        )
    order = entry()
    with closing(opened(*place)) as sink:
        sink.write(order)
        with pytest.raises((sqlite3.IntegrityError, asyncpg.IntegrityConstraintViolationError), match="WORM"):
            in_place(place, statement)
        assert sink.list() == [order]


def test_it_makes_nothing_but_the_layout(place: tuple[Kind, str]) -> None:
    with closing(opened(*place)) as sink:
        sink.write(entry())
        sink.bump_retry(sink.list()[0].dlq_id)
    listing = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if place[0] == "postgres":
        listing = "SELECT tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information_schema)'"
    assert [tuple(row) for row in in_place(place, listing)] == [("order_dlq",)]


async def test_its_url_and_table_name_the_same_entries_to_a_store(place: tuple[Kind, str]) -> None:
    order = entry()
    sink: Any = opened(*place)
    with closing(sink):
        sink.write(order)
        for target in (sink.url, sink._dsn()):
            store = await open_store(target, table=sink.table)
            try:
                page = await store.page(Filter(), limit=10)
            finally:
                await store.aclose()
            assert [found.id for found in page.entries] == [order.dlq_id]


def test_times_are_stored_in_utc_as_text_in_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SQLiteDLQ(path) as sink:
        sink.write(entry(captured_at=START.astimezone(timezone(timedelta(hours=5, minutes=30)))))
    assert in_sqlite(path, "SELECT captured_at FROM order_dlq") == [("2026-04-18T14:32:15.123456+00:00",)]


def test_a_sqlite_sink_takes_a_path_a_string_or_a_url(tmp_path: Path) -> None:
    path = tmp_path / "odd name #1?.db"
    with SQLiteDLQ(path) as sink:
        sink.write(entry())
        url = sink.url
    for target in (str(path), url):
        with SQLiteDLQ(target) as again:
            assert again.depth() == 1
    assert sorted(found.name for found in tmp_path.iterdir()) == ["odd name #1?.db"]


def test_an_existing_table_is_found_by_its_columns(tmp_path: Path, postgres_db: str) -> None:
    path = tmp_path / "a.db"
    in_sqlite(path, SQLITE_DDL, "CREATE TABLE trades (id INTEGER)")
    in_postgres(postgres_db, "CREATE SCHEMA ops", orders.postgres_ddl("failed", "ops")[0], "CREATE TABLE t (id int)")
    for sink, table in ((SQLiteDLQ(path), "failed"), (PostgresDLQ(postgres_db), "ops.failed")):
        with closing(sink):
            order = entry()
            sink.write(order)
            assert (sink.table, sink.list()) == (table, [order])
            with pytest.raises(DuplicateEntry):
                sink.write(order)
    assert in_sqlite(path, "PRAGMA journal_mode") == [("delete",)]  # the owner's choice stays
    assert len(in_postgres(postgres_db, "SELECT 1 FROM ops.failed")) == 1


def test_the_layout_is_added_to_a_database_that_holds_other_things(tmp_path: Path, postgres_db: str) -> None:
    path = tmp_path / "a.db"
    in_sqlite(path, "CREATE TABLE trades (id INTEGER)", "INSERT INTO trades VALUES (1)")
    in_postgres(postgres_db, "CREATE TABLE trades (id int)", "CREATE SCHEMA ops")
    with SQLiteDLQ(path, table="failed") as sink, PostgresDLQ(postgres_db, table="ops.failed") as other:
        assert (sink.table, other.table) == ("failed", "ops.failed")
        sink.write(entry())
        other.write(entry())
        assert sink.depth() == other.depth() == 1
    assert in_sqlite(path, "SELECT * FROM trades") == [(1,)]


def test_two_queues_need_a_name(tmp_path: Path, postgres_db: str) -> None:
    path = tmp_path / "a.db"
    in_sqlite(path, SQLITE_DDL, orders.sqlite_ddl("other")[0])
    in_postgres(postgres_db, POSTGRES_DDL, "CREATE SCHEMA ops", orders.postgres_ddl("failed", "ops")[0])
    with pytest.raises(BadTarget, match=r"table= \(failed, other\)"):
        SQLiteDLQ(path)
    with pytest.raises(BadTarget, match=r"table= \(ops.failed, public.failed\)"):
        PostgresDLQ(postgres_db)
    with pytest.raises(BadTarget, match="several"):
        PostgresDLQ(postgres_db, table="failed")
    with SQLiteDLQ(path, table="other") as sink, PostgresDLQ(postgres_db, table="public.failed") as other:
        assert (sink.table, other.table) == ("other", "public.failed")


def _no_key(ddl: str) -> str:
    return ddl.replace("PRIMARY KEY", "")


@pytest.mark.parametrize(
    ("ddl", "table", "said"),
    [
        ("CREATE TABLE order_dlq (id INTEGER)", None, "another kind of table named order_dlq"),
        (SQLITE_DDL.replace("  price REAL,\n", ""), None, "failed lacks price"),
        ("CREATE TABLE a (id INTEGER)", "", "empty"),
        ("CREATE TABLE a (id INTEGER)", "console_x", "cannot be the name"),
    ],
)
def test_a_sqlite_file_without_room_for_entries_is_refused(
    tmp_path: Path, ddl: str, table: str | None, said: str
) -> None:
    path = tmp_path / "a.db"
    in_sqlite(path, ddl)
    before = path.read_bytes()
    with pytest.raises((NotADLQ, BadTarget), match=said):
        SQLiteDLQ(path, table=table)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("ddl", "table", "said"),
    [
        ("CREATE TABLE order_dlq (id int)", None, "another kind of table named order_dlq"),
        (POSTGRES_DDL.replace("  price double precision,\n", ""), None, "public.failed lacks price"),
        (_no_key(POSTGRES_DDL), None, "not keep dlq_id unique.*CREATE UNIQUE INDEX"),
        ("CREATE TABLE a (id int)", "nowhere.failed", "no such schema"),
    ],
)
def test_a_database_without_room_for_entries_is_refused(
    postgres_db: str, ddl: str, table: str | None, said: str
) -> None:
    in_postgres(postgres_db, ddl)
    listing = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    before = in_postgres(postgres_db, listing)
    with pytest.raises(NotADLQ, match=said):
        PostgresDLQ(postgres_db, table=table)
    assert in_postgres(postgres_db, listing) == before


def _not_a_database(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    path.write_text("not a database at all, but long enough to hold a header of one hundred bytes" * 3)
    return path


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda tmp: SQLiteDLQ(tmp), NotADLQ, "is a directory"),
        (lambda tmp: SQLiteDLQ(tmp / "no" / "a.db"), Unreachable, "no directory"),
        (lambda tmp: SQLiteDLQ(_not_a_database(tmp)), NotADLQ, "not a SQLite database"),
        (lambda _: SQLiteDLQ(":memory:"), BadTarget, "InMemoryDLQ"),
        (lambda _: SQLiteDLQ("postgresql://u:hunter2@127.0.0.1/db"), BadTarget, "PostgresDLQ"),
        (lambda tmp: SQLiteDLQ(f"sqlite:///{tmp}/a.db?immutable=1"), BadTarget, "immutable"),
        (lambda tmp: PostgresDLQ(str(tmp)), BadTarget, "SQLiteDLQ"),
        (lambda _: PostgresDLQ("postgresql://u:hunter2@127.0.0.1:1/db"), Unreachable, "cannot be reached"),
        (lambda _: PostgresDLQ("postgresql://u:hunter2@:x/db"), BadTarget, "DSN"),
    ],
)
def test_bad_targets_are_one_clear_line(
    tmp_path: Path, make: Callable[[Path], object], error: type[StoreError], said: str
) -> None:
    with pytest.raises(error, match=said) as refusal:
        make(tmp_path)
    assert "\n" not in str(refusal.value)
    assert "hunter2" not in f"{refusal.value!r} {refusal.value.__cause__!r}"


def test_a_database_that_does_not_exist_is_unreachable(postgres_db: str) -> None:
    with pytest.raises(Unreachable, match="no such database"):
        PostgresDLQ(re.sub(r"/[^/]*$", "/nowhere", postgres_db))


def test_a_timeout_must_be_positive(postgres_db: str) -> None:
    with pytest.raises(ValueError, match="timeout"):
        PostgresDLQ(postgres_db, timeout=0)


def test_a_password_is_in_no_name_of_the_sink(postgres_db: str) -> None:
    in_postgres(postgres_db, "CREATE ROLE dlq_sink_owner SUPERUSER LOGIN PASSWORD 'hunter2'")
    try:
        _hides_password(with_parts(postgres_db, login="dlq_sink_owner:hunter2"))
    finally:
        in_postgres(postgres_db, "DROP OWNED BY dlq_sink_owner", "DROP ROLE dlq_sink_owner")


def _hides_password(dsn: str) -> None:
    with PostgresDLQ(dsn) as sink:
        assert "hunter2" not in f"{sink!r} {sink} {sink.url} {sink.table}"
        assert "hunter2" in sink._dsn()


def test_a_role_that_may_not_create_is_told_what_helps(postgres_db: str) -> None:
    role = "dlq_sink_guest"
    in_postgres(postgres_db, f"CREATE ROLE {role} LOGIN PASSWORD 'guest'", "REVOKE CREATE ON SCHEMA public FROM public")
    try:
        _works_as_guest(postgres_db, role)
    finally:
        in_postgres(postgres_db, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def _works_as_guest(postgres_db: str, role: str) -> None:
    guest = with_parts(postgres_db, login=f"{role}:guest")
    with pytest.raises(ActRefused, match="dlq init"):
        PostgresDLQ(guest)
    with PostgresDLQ(postgres_db) as owner:
        owner.write(entry())
    in_postgres(postgres_db, f"GRANT SELECT ON order_dlq TO {role}")
    with PostgresDLQ(guest) as sink:
        assert sink.depth() == 1
        with pytest.raises(ActRefused, match="no privilege"):
            sink.write(entry(1))
        in_postgres(postgres_db, f"GRANT INSERT, UPDATE (retry_count, dismissed) ON order_dlq TO {role}")
        order = entry(2)
        sink.write(order)
        assert sink.bump_retry(order.dlq_id) == 1
        assert sink.mark_dismissed(order.dlq_id) is True


def test_a_table_that_went_away_is_told_as_such(postgres_db: str) -> None:
    with PostgresDLQ(postgres_db) as sink:
        in_postgres(postgres_db, "DROP TABLE order_dlq")
        with pytest.raises(NotADLQ, match="changed its tables"):
            sink.write(entry())
