"""Tables of another owner: other column types and rules keep an entry exactly, or get nothing."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from dlq_sink import BadEntry

from backends import (
    ActRefused,
    DuplicateEntry,
    PostgresDLQ,
    SQLiteDLQ,
)
from tests.support.sink import POSTGRES_DDL, SQLITE_DDL, entry, in_postgres, in_sqlite


@pytest.mark.parametrize(
    "change",
    [
        ("quantity REAL", "quantity TEXT"),
        ("quantity REAL", "quantity NUMERIC"),
        ("price REAL", "price VARCHAR(40)"),
        ("captured_at TEXT", "captured_at TIMESTAMP"),
        ("action_json TEXT", "action_json JSON"),
        ("dismissed INTEGER NOT NULL DEFAULT 0", "dismissed BOOLEAN"),
        ("dlq_id TEXT NOT NULL PRIMARY KEY", "dlq_id TEXT"),
        ("DEFAULT ''\n)", "DEFAULT ''\n) WITHOUT ROWID"),
        ("\n)", ",\n  extra TEXT\n)"),
    ],
)
def test_sqlite_tables_of_other_types_keep_values_exactly_too(tmp_path: Path, change: tuple[str, str]) -> None:
    assert change[0] in SQLITE_DDL
    path = tmp_path / "a.db"
    in_sqlite(path, SQLITE_DDL.replace(*change))
    _keeps_values(SQLiteDLQ(path))


@pytest.mark.parametrize(
    "change",
    [
        ("quantity double precision", "quantity numeric"),
        ("captured_at timestamptz", "captured_at text"),
        ("captured_at timestamptz", "captured_at varchar(40)"),
        ("action_json text NOT NULL DEFAULT ''", "action_json json NOT NULL"),
        ("dismissed boolean NOT NULL DEFAULT false", "dismissed boolean"),
        ("dismissed boolean NOT NULL DEFAULT false", "dismissed smallint"),
        ("dismissed boolean NOT NULL DEFAULT false", "dismissed integer NOT NULL"),
        ("retry_count integer NOT NULL DEFAULT 0", "retry_count bigint"),
        ("DEFAULT ''\n)", "DEFAULT '',\n  extra text)"),
    ],
)
def test_postgres_tables_of_other_types_keep_values_exactly_too(postgres_db: str, change: tuple[str, str]) -> None:
    assert change[0] in POSTGRES_DDL
    in_postgres(postgres_db, POSTGRES_DDL.replace(*change))
    _keeps_values(PostgresDLQ(postgres_db))


def _keeps_values(sink: SQLiteDLQ | PostgresDLQ) -> None:
    with closing(sink):
        first = entry(0, quantity=0.30000000000000004, price=1e-12, action_json='{"b": 1, "a": 0.1000}')
        second = entry(1, quantity=1.7976931348623157e308, price=None)
        for order in (first, second):
            sink.write(order)
        assert sink.list() == [first, second]
        with pytest.raises(DuplicateEntry):
            sink.write(first)
        assert sink.bump_retry(first.dlq_id) == 1
        assert sink.mark_dismissed(first.dlq_id) is True
        assert sink.depth() == 1
        assert [order.dismissed for order in sink.list(include_dismissed=True)] == [True, False]


@pytest.mark.parametrize(
    ("change", "changes", "column"),
    [
        (("client_order_id TEXT", "client_order_id STRING"), {"client_order_id": "0012"}, "client_order_id"),
        (("quantity REAL", "quantity INTEGER"), {"account_id": "1", "error": "x"}, None),
    ],
)
def test_a_sqlite_column_that_alters_a_value_gets_nothing(
    tmp_path: Path, change: tuple[str, str], changes: dict[str, Any], column: str | None
) -> None:
    path = tmp_path / "a.db"
    in_sqlite(path, SQLITE_DDL.replace(*change))
    with SQLiteDLQ(path) as sink:
        _alters(sink, changes, column)


@pytest.mark.parametrize(
    ("change", "changes", "column"),
    [
        (("quantity double precision", "quantity numeric(18,8)"), {"quantity": 1e-12}, "quantity"),
        (("price double precision", "price real"), {"price": 0.30000000000000004}, "price"),
        (
            ("action_json text NOT NULL DEFAULT ''", "action_json jsonb"),
            {"action_json": '{"a":1,"a":2}'},
            "action_json",
        ),
        (("captured_at timestamptz", "captured_at timestamp"), {}, "captured_at"),
        (("captured_at timestamptz", "captured_at timestamptz(3)"), {}, "captured_at"),
        (("market_id text", "market_id varchar(3)"), {}, "market_id"),
        (("action_json text NOT NULL DEFAULT ''", "action_json json"), {"action_json": "not json"}, "store a value"),
        (("quantity double precision", "quantity numeric"), {"quantity": 5e-324}, None),
    ],
)
def test_a_postgres_column_that_alters_a_value_gets_nothing(
    postgres_db: str, change: tuple[str, str], changes: dict[str, Any], column: str | None
) -> None:
    in_postgres(postgres_db, POSTGRES_DDL.replace(*change))
    with PostgresDLQ(postgres_db) as sink:
        _alters(sink, changes, column)


def _alters(sink: SQLiteDLQ | PostgresDLQ, changes: dict[str, Any], column: str | None) -> None:
    order = entry(**changes)
    if column is None:  # kept after all
        sink.write(order)
        assert sink.list() == [order]
        return
    with pytest.raises(BadEntry, match=column):
        sink.write(order)
    assert sink.get(order.dlq_id) is None
    assert sink.depth() == 0


def test_a_rule_of_the_owner_is_told_as_such(tmp_path: Path, postgres_db: str) -> None:
    path = tmp_path / "a.db"
    in_sqlite(path, SQLITE_DDL.replace("side TEXT NOT NULL", "side TEXT NOT NULL CHECK (side <> 'hold')"))
    in_postgres(postgres_db, POSTGRES_DDL.replace("client_order_id text", "client_order_id text UNIQUE"))
    with SQLiteDLQ(path) as sink, pytest.raises(ActRefused, match="a rule of the store"):
        sink.write(entry(side="hold"))
    with PostgresDLQ(postgres_db) as other:
        other.write(entry(1))
        with pytest.raises(ActRefused, match="breaks a rule"):
            other.write(entry(1))
        assert other.depth() == 1


def test_a_row_that_is_no_order_is_named_and_hurts_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    order = entry()
    with SQLiteDLQ(path) as sink:
        sink.write(order)
        values = "'{}', '{}', 'v', NULL, 'm', 'buy', {}, 'limit', NULL, NULL, {}, 0, 0, ''"
        for row in (
            values.format("dlq_naive", "2026-01-01T00:00:00", 1.0, "'e'"),
            values.format("dlq_number", "2026-01-01T00:00:00Z", "'many'", "'e'"),
            values.format("dlq_blob", "2026-01-01T00:00:00Z", 1.0, "x'00ff'"),
        ):
            in_sqlite(path, f"INSERT INTO order_dlq VALUES ({row})")
        for dlq_id, said in (("dlq_naive", "captured_at"), ("dlq_number", "quantity"), ("dlq_blob", "error")):
            with pytest.raises(BadEntry, match=f"{dlq_id}.*{said}"):
                sink.get(dlq_id)
        assert sink.get(order.dlq_id) == order
        assert sink.depth() == 4


def test_an_absent_action_reads_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    in_sqlite(path, SQLITE_DDL.replace("action_json TEXT NOT NULL", "action_json TEXT"))
    with SQLiteDLQ(path) as sink:
        order = entry(action_json="")
        in_sqlite(
            path,
            f"INSERT INTO failed VALUES ('{order.dlq_id}', '{order.captured_at.isoformat()}', 'alpaca', 'acct-1', "
            f"'AAPL', 'buy', 100, 'limit', 180.1, 'coid-0', '{order.error}', 0, 0, NULL)",
        )
        assert sink.list() == [order]


def test_text_that_is_no_utf_8_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SQLiteDLQ(path) as sink:
        in_sqlite(
            path,
            "INSERT INTO order_dlq VALUES ('dlq_raw', '2026-01-01T00:00:00Z', 'v', NULL, 'm', 'buy', 1, 'limit', NULL, "
            "NULL, CAST(x'c3' AS TEXT), 0, 0, '')",
        )
        found = sink.get("dlq_raw")
        assert found is not None
        assert found.error.encode("utf-8", "surrogateescape") == b"\xc3"
