"""A target → connections: readers that cannot write, one writer that begins IMMEDIATE; driver errors → store errors."""

from __future__ import annotations

import asyncio
import os
import pwd
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiosqlite
import asyncpg
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from backends.store import ActRefused, NotADLQ, StoreError, Unreachable
from backends.target import PostgresTarget, SQLiteTarget, Target

BUSY_SECONDS = 5.0
CONNECT_SECONDS = 5.0
_HEADER = b"SQLite format 3\0"
_PRIME = "SELECT 1 FROM " + ", ".join(
    [f"pragma_{name}('x')" for name in ("table_xinfo", "table_info", "table_list", "index_list", "index_info")]
    + ["json_each('[]') LIMIT 0"]
)
_READ_PRAGMAS = frozenset(
    {"query_only", "data_version", "table_xinfo", "table_info", "index_list", "index_xinfo", "table_list"}
    | {
        "journal_mode",
        "user_version",
        "busy_timeout",
        "page_count",
        "schema_version",
        "quick_check",
        "database_list",
    }
    | {"read_uncommitted", "index_info"}
)


def reader_engine(target: Target, *, read_only: bool, tolerant: bool = False) -> AsyncEngine:
    """Autocommit; refuses to write. `tolerant` keeps undecodable text as escapes instead of failing."""
    if isinstance(target, SQLiteTarget):

        async def sqlite() -> aiosqlite.Connection:
            connection = await _sqlite(target, "ro" if read_only else "rw")
            # A table-valued function declares its table on first use, which the authorizer would take for a write.
            await connection.execute(_PRIME)
            await connection.execute("PRAGMA query_only = ON")
            await connection.set_authorizer(_only_reading)
            if tolerant:
                connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
            return connection

        return _engine("sqlite+aiosqlite://", sqlite)

    async def postgres() -> Any:
        return await _postgres(target, {"default_transaction_read_only": "on"})

    return _engine("postgresql+asyncpg://", postgres)


def writer_engine(target: Target) -> AsyncEngine:
    """Transactions take the write lock at once and are durable when they return."""
    if isinstance(target, SQLiteTarget):

        async def sqlite() -> aiosqlite.Connection:
            connection = await _sqlite(target, "rw")
            await connection.execute("PRAGMA synchronous = FULL")
            await connection.execute("PRAGMA foreign_keys = OFF")
            return connection

        engine = _engine("sqlite+aiosqlite://", sqlite)

        @sa.event.listens_for(engine.sync_engine, "begin")
        def _immediately(connection: sa.Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        return engine

    async def postgres() -> Any:
        settings = {
            "synchronous_commit": "on",
            "lock_timeout": f"{int(BUSY_SECONDS * 1000)}",
            "idle_in_transaction_session_timeout": "60000",
        }
        return await _postgres(target, settings)

    return _engine("postgresql+asyncpg://", postgres)


def _engine(url: str, creator: Callable[[], Awaitable[Any]]) -> AsyncEngine:
    return create_async_engine(
        url,
        async_creator=creator,
        poolclass=sa.AsyncAdaptedQueuePool,
        pool_size=1,
        max_overflow=0,
        pool_reset_on_return=None,
    )


async def _sqlite(target: SQLiteTarget, mode: str) -> aiosqlite.Connection:
    tail = "immutable=1" if target.immutable else f"mode={mode}"
    uri = f"file:{quote(str(target.path.absolute()))}?{tail}"
    # aiosqlite's worker must not keep a finished process alive.
    connecting = aiosqlite.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    thread = getattr(connecting, "_thread", None)
    if thread is not None:
        thread.daemon = True
    return await connecting


async def _postgres(target: PostgresTarget, settings: dict[str, str]) -> Any:
    return await asyncpg.connect(
        dsn=target.dsn,
        password=target.password,
        timeout=CONNECT_SECONDS,
        server_settings={"application_name": "dlq-console", **settings},
    )


def _only_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    match action:
        case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_READ | sqlite3.SQLITE_FUNCTION | sqlite3.SQLITE_RECURSIVE:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_PRAGMA if first in _READ_PRAGMAS and (first != "query_only" or second in (None, "ON")):
            return sqlite3.SQLITE_OK
        case _:
            return sqlite3.SQLITE_DENY


def check_file(target: SQLiteTarget, *, read_only: bool) -> None:
    """What must hold before SQLite may touch the file: it is one, and opening it cannot hurt its engine."""
    path = target.path
    try:
        status = path.stat()
        with path.open("rb") as handle:
            header = handle.read(100)
    except FileNotFoundError:
        raise Unreachable(f"no such file: {path} (dlq init --db {path} would make a store there)") from None
    except IsADirectoryError:
        raise NotADLQ(f"{path} is a directory, not a SQLite file") from None
    except PermissionError:
        raise Unreachable(f"no permission to read {path}") from None
    except OSError as problem:
        raise Unreachable(f"cannot read {path}: {problem.strerror}") from None
    if not header:
        raise NotADLQ(f"{path} is empty: dlq init --db {path} makes a store there")
    if not header.startswith(_HEADER):
        raise NotADLQ(f"{path} is not a SQLite database")
    if target.immutable or header[18] != 2:
        return
    _check_wal(path, status, read_only=read_only)


def _check_wal(path: Path, status: os.stat_result, *, read_only: bool) -> None:
    if Path(f"{path}-shm").exists():
        return
    uid = os.geteuid()
    if uid not in (0, status.st_uid):
        raise Unreachable(
            f"{path} is a closed WAL store of user {_user(status.st_uid)}: opening it as {_user(uid)} would leave files "
            f"that its engine cannot write. Run as {_user(status.st_uid)}, start the engine first, or, while the engine "
            f"is stopped, attach a copy or sqlite:///{path}?immutable=1"
        )
    if not os.access(path.absolute().parent, os.W_OK):
        raise Unreachable(
            f"{path} is a closed WAL store in a directory that cannot be written: SQLite cannot open it. "
            f"Start the engine first, or, while the engine is stopped, attach a copy or sqlite:///{path}?immutable=1"
        )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


@contextmanager
def store_errors(label: str) -> Iterator[None]:
    """Whatever the drivers raise about the store becomes a store error of one clear line."""
    try:
        yield
    except StoreError:
        raise
    except (
        SQLAlchemyError,
        sqlite3.Error,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        OSError,
    ) as problem:
        raise translate(problem, label) from None
    except TimeoutError:
        raise Unreachable(f"{label} did not answer in time") from None


def is_lost(problem: BaseException) -> bool:
    """The connection is gone; the store itself may be back on the next try."""
    if isinstance(problem, DBAPIError):
        if problem.connection_invalidated:
            return True
        problem = _cause(problem)
    return isinstance(problem, (asyncpg.InterfaceError, OSError)) or str(getattr(problem, "sqlstate", ""))[:2] in (
        "08",
        "57",
    )


def _cause(problem: DBAPIError) -> BaseException:
    original: BaseException = problem.orig or problem
    return original.__cause__ or original


def translate(problem: BaseException, label: str) -> StoreError:
    if isinstance(problem, DBAPIError):
        problem = _cause(problem)
    if isinstance(problem, sqlite3.Error):
        return _sqlite_error(problem, label)
    state = str(getattr(problem, "sqlstate", "") or "")
    match state[:2], state:
        case "28", _:
            return Unreachable(
                f"{label} refused the login: check the user, the password (keyring or .pgpass) and pg_hba"
            )
        case _, "42501":
            return ActRefused(f"{label}: this role has no privilege for that")
        case _, "3D000":
            return Unreachable(f"{label}: there is no such database")
        case _, "25006":
            return ActRefused(f"{label} is read-only")
        case "23", _:
            return ActRefused(f"{label} refused the change: a rule of the store forbids it")
        case _, "55P03":
            return Unreachable(f"{label} is locked by another session; try again")
        case "08" | "57" | "53", _:
            return Unreachable(f"{label} ended the connection or is not ready")
    if isinstance(problem, (OSError, asyncio.TimeoutError, asyncpg.InterfaceError)) and not state:
        return Unreachable(f"{label} cannot be reached: is the server up, and are host and port right?")
    return Unreachable(f"{label} answered with an error ({type(problem).__name__} {state})".replace(" )", ")"))


def _sqlite_error(problem: sqlite3.Error, label: str) -> StoreError:
    name = str(getattr(problem, "sqlite_errorname", None) or "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Unreachable(f"{label} is locked by another program; try again in a moment")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return Unreachable(
            f"{label} is damaged: restore it from a backup (sqlite3 FILE 'pragma integrity_check' says more)"
        )
    if name.startswith("SQLITE_CONSTRAINT"):
        return ActRefused(f"{label} refused the change: a rule of the store forbids it")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return ActRefused(f"{label} cannot be written by this user")
    if name.startswith("SQLITE_FULL"):
        return Unreachable(f"{label}: the disk is full; nothing was changed")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR")):
        return Unreachable(f"{label} cannot be opened: check permissions and the disk")
    return Unreachable(f"{label} answered with an error ({name or type(problem).__name__})")
