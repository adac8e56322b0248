"""Damaged and hostile SQLite order stores, one for each number: the same number makes the same file."""

from __future__ import annotations

import io
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from console.cli.main import run
from tests.support.hostile_rows import texts
from tests.support.orders import CAPTURED, row, sqlite_store

FIRST = f"dlq_{1:016x}"
_COLUMNS = (
    *("dlq_id", "captured_at", "venue_name", "account_id", "market_id", "side", "quantity", "order_type", "price"),
    *("client_order_id", "error", "retry_count", "dismissed", "action_json"),
)
_DEEP = "[" * 200_000
_ACTIONS = (
    _DEEP,
    '{"a":' * 100_000,
    '{"quantity": 1e999999, "price": -1E+999999999}',
    '{"quantity": ' + "9" * 5_000 + "}",
    '{"action": "new", "action": "cancel", "side": "buy", "side": "sell"}',
    '{"price": NaN, "stop_price": Infinity}',
    '{"price": "\\ud800"}',
    '{"params": {"params": {"params": []}}, "legs": [[[[]]]]}',
    '{"expire_at": 1e400, "time_in_force": {"x": 1}, "order_key": [1]}',
    "\x00{}",
    '"' + "x" * 1_000_000,
)
_NUMBERS = (0, -1, 2**63 - 1, -(2**63), 1e308, -1e308, float("inf"), 5e-324, 253402300800, 0.1)
_ODD_TIMES = ("9999-12-31T23:59:59.999999+23:59", "0001-01-01T00:00:00-23:59", "2026-04-18", "1e400", "")
_SCHEMAS = (
    "CREATE TABLE order_dlq(",
    "CREATE TABLE order_dlq AS SELECT 1",
    "\x1b]0;owned\x07",
    "CREATE VIEW order_dlq AS SELECT * FROM order_dlq",
    "CREATE TRIGGER order_dlq AFTER INSERT ON order_dlq BEGIN SELECT load_extension('x'); END",
    "CREATE TABLE order_dlq (dlq_id, x GENERATED ALWAYS AS (x) VIRTUAL)",
    "CREATE INDEX order_dlq ON order_dlq (abs(dlq_id))",
    "",
)
_BAD_TEXT = (b"\xff\xfe", b"\xed\xa0\x80", b"cut\xe2\x80", b"\x00\xc2", b"\xc0\xaf" * 40)


def sound_store(path: Path, *, wal: bool, page_size: int) -> None:
    """A store with a ledger that knows several acts, closed."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute("VACUUM")
    sqlite_store(path, [row(n, error=f"HTTP 5{n:02d}", market_id=f"M{n % 4}") for n in range(1, 40)])
    ids = [f"dlq_{n:016x}" for n in range(30, 36)]
    for words in (("dismiss", *ids, "--reason", "test", "--yes"), ("restore", *ids[:2], "--yes")):
        assert ran(*words, "--db", str(path))[0] == 0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if not wal:
            connection.execute("PRAGMA journal_mode = DELETE")
        for name in ("note", "cleared", "halt", "approval", "breaker", "attempt", "claim"):
            _fill(connection, f"console_{name}")


def ran(*words: str) -> tuple[int, str, str]:
    """Exit code, output and messages of the command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(list(words))
    return code, out.getvalue(), err.getvalue()


class Damage:
    """Makes store number N from one of a few sound ones."""

    def __init__(self, folder: Path) -> None:
        self._sound = []
        for number, (wal, page_size) in enumerate(((True, 4096), (False, 512), (False, 4096))):
            path = folder / f"sound-{number}.db"
            sound_store(path, wal=wal, page_size=page_size)
            self._sound.append((path, page_size))

    def sound(self, path: Path) -> None:
        shutil.copyfile(self._sound[1][0], path)

    def bytes_of(self, number: int, raw: bytes) -> bytes:
        """Another file's bytes, damaged."""
        change = list(_BY_BYTES.values())[number % len(_BY_BYTES)]
        return bytes(change(bytearray(raw), random.Random(number), 4096))

    def make(self, number: int, path: Path) -> str:
        """Returns what was done to it."""
        chance = random.Random(number)
        sound, page_size = self._sound[number % len(self._sound)]
        for tail in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + tail).unlink(missing_ok=True)
        shutil.copyfile(sound, path)
        kind = KINDS[number % len(KINDS)]
        if kind in _BY_SQL:
            with closing(sqlite3.connect(path, isolation_level=None)) as connection, suppress(sqlite3.Error):
                _BY_SQL[kind](connection, chance)
            return kind
        raw = bytearray(path.read_bytes())
        path.write_bytes(_BY_BYTES[kind](raw, chance, page_size))
        return kind


def _flips(raw: bytearray, chance: random.Random, _: int) -> bytearray:
    for _ in range(chance.choice((1, 4, 40, 400))):
        raw[chance.randrange(100, len(raw))] ^= 1 << chance.randrange(8)
    return raw


def _cut(raw: bytearray, chance: random.Random, size: int) -> bytearray:
    pages = len(raw) // size
    left = chance.randrange(len(raw)) if chance.random() < 0.5 else chance.randrange(pages) * size
    return raw[:left]


def _swap(raw: bytearray, chance: random.Random, size: int) -> bytearray:
    for _ in range(chance.choice((1, 5))):
        one, other = (chance.randrange(1, len(raw) // size) * size for _ in range(2))
        raw[one : one + size], raw[other : other + size] = raw[other : other + size], raw[one : one + size]
    return raw


def _header(raw: bytearray, chance: random.Random, _: int) -> bytearray:
    at = chance.choice((*range(16, 24), 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 92, 96))
    raw[at : at + 4] = chance.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", chance.randbytes(4), b"\0\0\0\3", b"\2\2\0\1"))
    return raw


def _varint(raw: bytearray, chance: random.Random, size: int) -> bytearray:
    """A cell that says it is huge, at a place where a cell begins."""
    for _ in range(chance.choice((1, 3))):
        page = chance.randrange(1, len(raw) // size) * size
        if raw[page] not in (2, 5, 10, 13):
            continue
        cells = int.from_bytes(raw[page + 3 : page + 5], "big")
        if cells:
            told = page + (12 if raw[page] in (2, 5) else 8) + 2 * chance.randrange(cells)
            at = page + int.from_bytes(raw[told : told + 2], "big")
            huge = chance.choice((b"\xff" * 9, b"\x87\xff\xff\xff\x7f", b"\x90\x80\x80\x80\x00"))
            raw[at : at + len(huge)] = huge
    return raw


def _blank(raw: bytearray, chance: random.Random, size: int) -> bytearray:
    page = chance.randrange(1, len(raw) // size) * size
    raw[page : page + size] = chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size)))
    return raw


def _open(connection: sqlite3.Connection) -> list[str]:
    """Drops every trigger, as whoever owns the file can. Returns the ledger's tables."""
    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in named:
        connection.execute(f'DROP TRIGGER "{name}"')
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'console\\_%' ESCAPE '\\'"
    return [name for (name,) in connection.execute(tables)]


def _bad_text(connection: sqlite3.Connection, chance: random.Random) -> None:
    _open(connection)
    for name in chance.sample(_COLUMNS, chance.choice((1, 4))):
        held = chance.choice(_BAD_TEXT)
        connection.execute(
            f"UPDATE OR IGNORE order_dlq SET {name} = CAST(? AS TEXT) WHERE rowid % ? = 0",
            (held, chance.choice((1, 2, 39))),
        )


def _odd(chance: random.Random) -> object:
    deep = (lambda: chance.choice(_ACTIONS), lambda: chance.choice(_NUMBERS), lambda: chance.choice(_ODD_TIMES))
    plain = (lambda: None, lambda: chance.randbytes(9), lambda: "", lambda: "x" * 300_000)
    hostile = _hostile[chance.randrange(len(_hostile))]
    return chance.choice((*deep, *plain, lambda: hostile))()


def _wrong_types(connection: sqlite3.Connection, chance: random.Random) -> None:
    _open(connection)
    for name in chance.sample(_COLUMNS, chance.choice((1, 3, 14))):
        some = chance.choice((1, 2, 39))
        with suppress(sqlite3.Error):
            connection.execute(f"UPDATE OR IGNORE order_dlq SET {name} = ? WHERE rowid % ? = 0", (_odd(chance), some))


def _actions(connection: sqlite3.Connection, chance: random.Random) -> None:
    _open(connection)
    for number in range(1, 12):
        values = (chance.choice(_ACTIONS), chance.choice((*_NUMBERS, None)), chance.choice(_ODD_TIMES), number)
        connection.execute(
            "UPDATE order_dlq SET action_json = ?, quantity = ?, captured_at = ? WHERE rowid = ?", values
        )


def _schema(connection: sqlite3.Connection, chance: random.Random) -> None:
    _open(connection)
    connection.execute("PRAGMA writable_schema = ON")
    which = chance.choice(("order_dlq", "console_audit", "console_attempt", "console_meta", "sqlite_stat1"))
    changed = chance.choice(("sql", "sql", "name", "tbl_name", "type", "rootpage"))
    value: object = chance.choice(_SCHEMAS) if changed == "sql" else _odd(chance)
    if changed == "rootpage":
        value = chance.choice((0, 1, 2, 10**6, -1, 2**62))
    connection.execute(f"UPDATE sqlite_master SET {changed} = ? WHERE name = ?", (value, which))


def _ledger(connection: sqlite3.Connection, chance: random.Random) -> None:
    tables = _open(connection)
    for table in chance.sample(tables, chance.choice((1, 2, len(tables)))):
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        for name in chance.sample(columns, chance.choice((1, len(columns)))):
            if (table, name) == ("console_meta", "key"):
                continue
            held = chance.choice((_odd(chance), chance.choice(_BODIES)))
            with suppress(sqlite3.Error):
                connection.execute(f"UPDATE OR IGNORE {table} SET {name} = ?", (held,))


def _tables(connection: sqlite3.Connection, chance: random.Random) -> None:
    """A ledger's table is gone, is another one, or is a view."""
    tables = _open(connection)
    name = chance.choice(tables)
    connection.execute(f"DROP TABLE {name}")
    made = (
        f"CREATE TABLE {name} (x)",
        f"CREATE VIEW {name} AS WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50) SELECT * FROM n",
        f"CREATE VIEW {name} AS SELECT * FROM {name}",
        f"CREATE VIRTUAL TABLE {name} USING fts5 (x)",
        "SELECT 1",
    )
    connection.execute(chance.choice(made))


_BODIES = (
    *(b"", b"null", b"[]", b"{}", b"\xff", b"{" * 100_000, b"[" * 200_000, b'{"kind": 1e999999}', b'{"entries": 1}'),
    b'{"kind": "dismiss", "at": 5, "who": [], "source": "order_dlq", "entries": [[[]], null, 3], "note": {}}',
    b'{"kind": "halt", "at": "\\ud800", "who": {"operator": {"a": 1}}, "reason": ["\\u001b]0;x\\u0007"]}',
    b'{"kind": "outcome", "at": "9999-12-31T23:59:59Z", "entries": ["dlq_0000000000000001"], "attempt": "x"}',
)
_source = texts()
_hostile = [next(_source).decode("utf-8", "replace") for _ in range(60)]


def _fill(connection: sqlite3.Connection, table: str) -> None:
    """One row with something in every column, where its rules let it in."""
    columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    told = {"entry_id": FIRST, "mode": "paper", "state": "rejected", "payload": b"{}", "venue": "alpaca", "error": "no"}
    told |= {name: CAPTURED.isoformat() for name in ("started_at", "finished_at", "at", "since")}
    values = [told.get(name, "order_dlq" if "TEXT" in kind else 1) for _, name, kind, *_ in columns]
    names = ", ".join(f'"{name}"' for _, name, *_ in columns)
    with suppress(sqlite3.Error):
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", values)


_BY_BYTES: dict[str, Callable[[bytearray, random.Random, int], bytearray]] = {
    "flipped bits": _flips,
    "cut off": _cut,
    "swapped pages": _swap,
    "edited header": _header,
    "huge cells": _varint,
    "blank page": _blank,
}
_BY_SQL: dict[str, Callable[[sqlite3.Connection, random.Random], None]] = {
    "bytes that are no text": _bad_text,
    "wrong types": _wrong_types,
    "hostile actions": _actions,
    "hostile schema": _schema,
    "hostile ledger": _ledger,
    "other tables": _tables,
}
KINDS = (*_BY_BYTES, *_BY_SQL)
