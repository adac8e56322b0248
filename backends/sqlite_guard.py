"""Opens SQLite files that somebody else made: limits, settings, and what a reader and a writer may do. No asyncio."""

from __future__ import annotations

import sqlite3
import sys

_MOST_MEMORY = 360_000_000  # of SQLite in this process
_LONGEST_VALUE = 110_000_000
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 2_000_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 10_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_SETTINGS = (
    "PRAGMA trusted_schema = OFF",  # views, triggers and generated columns call only functions that do no harm
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",  # a file that is cut off while it is mapped would end the process
    f"PRAGMA hard_heap_limit = {_MOST_MEMORY}",
)
_CATALOG_PRAGMAS = ("table_xinfo", "table_info", "table_list", "index_list", "index_info", "index_xinfo")
# A table-valued function declares its table on first use; `only_reading` would refuse that as a write.
PRIME = "SELECT 1 FROM " + ", ".join([f"pragma_{name}('x')" for name in _CATALOG_PRAGMAS] + ["json_each('[]') LIMIT 0"])
_ASKING_PRAGMAS = frozenset({"data_version", "journal_mode", "query_only", "synchronous", "foreign_keys"})
# These only read, even with an argument; SQLAlchemy resets read_uncommitted on close, and it affects only reads.
_HARMLESS_PRAGMAS = frozenset({*_CATALOG_PRAGMAS, "database_list", "read_uncommitted"})


def connect(uri: str, *, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout)
    try:
        for limit, most in _LIMITS.items():
            connection.setlimit(limit, most)
        for setting in _SETTINGS:
            connection.execute(setting).close()
        if sys.version_info >= (3, 12):  # before that, `only_acting` forbids what it would
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, False)
    except BaseException:
        connection.close()
        raise
    return connection


def keep_bytes(raw: bytes) -> str:
    """The text of a column that need not be UTF-8, without losing a byte."""
    return raw.decode("utf-8", "surrogateescape")


def only_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Decides what a reading connection may do; SQLite calls it while it prepares a statement."""
    match action:
        case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_READ | sqlite3.SQLITE_RECURSIVE | sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_FUNCTION if second != "load_extension":
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_PRAGMA if first in _HARMLESS_PRAGMAS or (first in _ASKING_PRAGMAS and second is None):
            return sqlite3.SQLITE_OK
        case _:
            return sqlite3.SQLITE_DENY


def only_acting(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """What a writing connection may not do, nor a trigger that runs by its writes: reach another file or the schema."""
    match action:
        case sqlite3.SQLITE_ATTACH | sqlite3.SQLITE_DETACH:
            return sqlite3.SQLITE_DENY
        case sqlite3.SQLITE_FUNCTION if second == "load_extension":
            return sqlite3.SQLITE_DENY
        case sqlite3.SQLITE_PRAGMA if (first, second) == ("wal_checkpoint", "PASSIVE"):
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_PRAGMA:
            return only_reading(action, first, second)
        case _:
            return sqlite3.SQLITE_OK
