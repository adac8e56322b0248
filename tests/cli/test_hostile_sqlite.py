"""A SQLite file whose schema is made to hang, fill or use the console ends with 5, soon and in little memory."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import DatabaseError

from backends import guarded_connection
from backends.engine import reader_engine, writer_engine
from backends.target import SQLiteTarget
from tests.cli.conftest import Dlq
from tests.support.bounded import ended
from tests.support.orders import row, sqlite_store

COUNTING = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ONE = "WITH n (i) AS (SELECT 1)"
LIST = "'[' || substr(replace(hex(zeroblob(5000)), '00', '1,'), 1, 9999) || ']'"
MANY = f"WITH n (i) AS (SELECT value FROM json_each({LIST}))"
VALUES = {
    "dlq_id": ("'d' || n.i", "TEXT NOT NULL"),
    "captured_at": ("'2026-04-18T14:32:15+00:00'", "TEXT"),
    "venue_name": ("'alpaca'", "TEXT"),
    "account_id": ("'main'", "TEXT"),
    "market_id": ("'AAPL'", "TEXT"),
    "side": ("'buy'", "TEXT"),
    "quantity": ("1.0", "REAL"),
    "order_type": ("'limit'", "TEXT"),
    "price": ("1.0", "REAL"),
    "client_order_id": ("'c'", "TEXT"),
    "error": ("'e'", "TEXT"),
    "retry_count": ("0", "INTEGER"),
    "dismissed": ("0", "INTEGER"),
    "action_json": ("''", "TEXT"),
}


def view(rows: str = "n", *, of: str = COUNTING, error: str = "'e'", where: str = "") -> list[str]:
    columns = ", ".join(f"{error if name == 'error' else one} AS {name}" for name, (one, _) in VALUES.items())
    return [f"CREATE VIEW order_dlq AS {of} SELECT {columns} FROM {rows} {where}"]


def generated(error: str) -> list[str]:
    """A table of one row whose error is computed as it is read; added last, as an INSERT computes it too."""
    held = {name: both for name, both in VALUES.items() if name != "error"}
    columns = ", ".join(f"{name} {kind}" for name, (_, kind) in held.items())
    values = ", ".join(one for one, _ in held.values()).replace("n.i", "1")
    return [
        f"CREATE TABLE order_dlq ({columns})",
        f"INSERT INTO order_dlq ({', '.join(held)}) VALUES ({values})",
        f"ALTER TABLE order_dlq ADD COLUMN error TEXT GENERATED ALWAYS AS ({error}) VIRTUAL",
    ]


def doubling(join: str) -> list[str]:
    steps = (f"CREATE VIEW v{n} AS {join.format(n - 1)}" for n in range(1, 40))
    return ["CREATE VIEW v0 AS SELECT 1 AS i", *steps, *view("v39 n", of="")]


def made(path: Path, statements: list[str]) -> str:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return str(path)


ATTACKS = {
    "endless": view(),
    "endless, each row once": view(of=COUNTING.replace("UNION ALL", "UNION")),
    "endless, and never a row": view(where="WHERE n.i < 0"),
    "10 to the 16th rows": view("n, n a, n b, n c", of=MANY),
    "a value of a gigabyte": generated("zeroblob(1000000000)"),
    "a value of 100 MB that is made again and again": generated("printf('%*c', 100000000, 'x')"),
    "wide letters": generated("printf('%*c', 100000000, 'x') || char(128512)"),
    "views of views": doubling("SELECT a.i FROM v{0} a, v{0} b"),
    "views beside views": doubling("SELECT i FROM v{0} UNION ALL SELECT i FROM v{0}"),
    "a function that loads a program": view(of=ONE, error="load_extension('./planted')"),
    "a function that reads files": view(of=ONE, error="readfile('/etc/hostname')"),
    "a table of another kind": [f"CREATE VIRTUAL TABLE order_dlq USING fts5 ({', '.join(VALUES)})"],
    "a view of itself": ["CREATE VIEW order_dlq AS SELECT * FROM order_dlq"],
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_schema_ends_with_five(tmp_path: Path, attack: str) -> None:
    code, out, said = ended("list", "--db", made(tmp_path / "x.db", ATTACKS[attack]), quiet=1.0)
    assert (code, out, said.count("\n")) == (5, "", 1), said


@pytest.mark.skipif("DLQ_DAMAGED" not in os.environ, reason="it waits as long as a person would: make faults")
@pytest.mark.parametrize(
    "verb", [("list",), ("groups",), ("metrics",), ("check",), ("doctor",), ("report", "--since", "8h")]
)
def test_an_endless_store_ends_within_twenty_seconds(tmp_path: Path, verb: tuple[str, ...]) -> None:
    assert ended(*verb, "--db", made(tmp_path / "x.db", view()))[0] == 5


def test_a_function_that_cannot_be_interrupted_is_left_alone(tmp_path: Path) -> None:
    """To look for a long text in a long text is one call of SQLite, which looks at no interrupt."""
    statements = generated("instr(hex(zeroblob(20000000)), hex(zeroblob(10000000)) || '1')")
    code, _, said = ended("list", "--db", made(tmp_path / "x.db", statements), quiet=1.0)
    assert (code, "no more rows" in said) == (5, True), said


async def test_rows_that_keep_coming_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row takes a while, all of them longer than the wait for one."""
    monkeypatch.setattr(guarded_connection, "QUIET_SECONDS", 2.0)
    connection = await guarded_connection.connected(f"file:{tmp_path / 'x.db'}", timeout=1.0, leaves=True)

    def slow(number: int) -> int:
        time.sleep(0.5)
        return number

    await connection.create_function("slow", 1, slow)
    rows = await connection.execute_fetchall("SELECT slow(value) FROM json_each('[1, 2, 3, 4, 5, 6]')")
    await connection.close()
    assert [number for (number,) in rows] == [1, 2, 3, 4, 5, 6]


async def test_no_connection_reaches_another_file(tmp_path: Path) -> None:
    target = SQLiteTarget(Path(sqlite_store(tmp_path / "orders.db", [row(1)])))
    for engine in (reader_engine(target, read_only=True), writer_engine(target)):
        async with engine.connect() as connection:
            raw = (await connection.get_raw_connection()).driver_connection
            assert raw is not None
            for word in (
                f"ATTACH '{tmp_path / 'other.db'}' AS o",
                "PRAGMA writable_schema = ON",
                "PRAGMA trusted_schema = ON",
            ):
                with pytest.raises(sqlite3.Error):
                    await raw.execute(word)
            assert not (tmp_path / "other.db").exists()
        await engine.dispose()


def test_a_planted_trigger_calls_nothing_of_ours(dlq: Dlq, tmp_path: Path) -> None:
    """The owner's trigger runs by an act, as for the engine, but only with functions that do no harm."""
    store = sqlite_store(tmp_path / "orders.db", [row(1)])
    for number, (body, code) in enumerate(
        {"load_extension('x')": 5, "dlq_julianday('now')": 5, "upper('x')": 0}.items()
    ):
        trigger = f"CREATE TRIGGER t{number} AFTER UPDATE ON order_dlq BEGIN SELECT {body}; END"
        made(Path(store), [trigger])
        assert dlq("dismiss", f"dlq_{1:016x}", "--reason", "test", "--yes", "--db", store).code == code, body
        made(Path(store), [f"DROP TRIGGER t{number}"])


def test_an_endless_trigger_ends_the_act_and_changes_nothing(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path / "orders.db", [row(1)])
    endless = f"SELECT count(*) FROM ({COUNTING} SELECT * FROM n)"
    made(Path(store), [f"CREATE TRIGGER t AFTER UPDATE ON order_dlq BEGIN {endless}; END"])
    code, _, said = ended("dismiss", f"dlq_{1:016x}", "--reason", "test", "--yes", "--db", store, quiet=1.0)
    assert code == 5, said
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT dismissed FROM order_dlq").fetchone() == (0,)


def test_what_is_no_file_is_no_store(dlq: Dlq, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(tmp_path / "socket"))
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
        (tmp_path / "piped").symlink_to(tmp_path / "pipe")
        for name in ("pipe", "socket", "loop", "nowhere", "piped", "."):
            for verb in (("list",), ("doctor",), ("halt",)):
                ran = dlq(*verb, "--db", str(tmp_path / name))
                assert (ran.code, ran.err.count("\n")) == (5, 1), (name, ran)
    for device in ("/dev/zero", "/dev/null", "/dev/full"):
        assert dlq("list", "--db", device).code == 5, device


def test_a_huge_file_with_a_sound_beginning(tmp_path: Path, dlq: Dlq) -> None:
    store = sqlite_store(tmp_path / "orders.db", [row(1)])
    os.truncate(store, 1 << 40)
    assert dlq("list", "--db", store).code in (0, 5)


def unfinished(store: Path) -> bytes:
    """Leaves a journal that would write 0xff over the second page. Returns the store as it is."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    held = store.read_bytes()
    numbers = (1, 0, len(held) // 4096, 512, 4096)  # records, nonce, pages, sector, page size
    header = bytes.fromhex("d9d505f920a163d7") + b"".join(number.to_bytes(4, "big") for number in numbers)
    journal = header.ljust(512, b"\0") + (2).to_bytes(4, "big") + b"\xff" * 4100
    store.with_name(f"{store.name}-journal").write_bytes(journal)
    return held


def test_an_unfinished_write_is_not_undone_by_looking(dlq: Dlq, tmp_path: Path) -> None:
    store = Path(sqlite_store(tmp_path / "orders.db", [row(1)]))
    before = unfinished(store)
    ran = dlq("list", "--read-only", "--db", str(store))
    assert (ran.code, "middle of a write" in ran.err, store.read_bytes() == before) == (5, True, True), ran


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_journal_of_another_user_is_refused(dlq: Dlq, tmp_path: Path) -> None:
    """In a folder that others may write, anybody could leave one."""
    store = Path(sqlite_store(tmp_path / "orders.db", [row(1)]))
    before = unfinished(store)
    os.chown(f"{store}-journal", 65534, 65534)
    for words in (("list",), ("halt",), ("list", "--read-only")):
        ran = dlq(*words, "--db", str(store))
        assert (ran.code, "remove it" in ran.err, store.read_bytes() == before) == (5, True, True), ran
    Path(f"{store}-journal").unlink()
    for tail in ("-journal", "-wal"):
        beside = Path(f"{store}{tail}")
        beside.symlink_to(tmp_path / "victim")
        assert dlq("list", "--db", str(store)).code == 5, tail
        beside.unlink()


async def test_a_failed_opening_leaves_no_lock(tmp_path: Path) -> None:
    """Whoever attaches again and again to a damaged file must not run out of handles."""
    path = tmp_path / "x.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    for _ in range(5):
        engine = reader_engine(SQLiteTarget(path), read_only=True)
        with pytest.raises(DatabaseError):
            async with engine.connect():
                pass
        await engine.dispose()
    held = [one.resolve() for one in Path("/proc/self/fd").iterdir()]
    assert path.resolve() not in held


BROKEN_INDEX = "UPDATE sqlite_master SET name = CAST(? AS TEXT), sql = 'CREATE INDEX broken(' WHERE name = 'mine'"


def test_a_message_of_sqlite_that_is_no_text(dlq: Dlq, tmp_path: Path) -> None:
    """SQLite names the index whose definition it cannot read; its name is no UTF-8, so that the message is none."""
    store = sqlite_store(tmp_path / "orders.db", [row(1)])
    made(Path(store), ["CREATE INDEX mine ON order_dlq (market_id)"])
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(BROKEN_INDEX, (b"mine\xff\xfe",))
        connection.commit()
    for words in (("list",), ("show", f"dlq_{1:016x}"), ("doctor",), ("halt",)):
        ran = dlq(*words, "--db", store)
        assert (ran.code, len(ran.err.splitlines())) == (5, 1), (words, ran)
