"""What the drivers raise about a store → store errors of one clear line.

Repeats no message of theirs: they may hold secrets.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from backends.store import ActRefused, BadTarget, StoreError, Unreachable

# asyncpg calls it an error of its own where a session is killed in the middle of being asked.
_GONE = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
DRIVER_ERRORS = (SQLAlchemyError, sqlite3.Error, asyncpg.PostgresError, *_GONE)


@contextmanager
def store_errors(label: str) -> Iterator[None]:
    """Whatever the drivers raise about the store becomes a store error of one clear line."""
    try:
        yield
    except DRIVER_ERRORS as problem:
        raise translate(problem, label) from None


def is_lost(problem: BaseException) -> bool:
    """The connection is gone; the store itself may be back on the next try."""
    if isinstance(problem, DBAPIError):
        if problem.connection_invalidated:
            return True
        problem = _cause(problem)
    if isinstance(problem, asyncpg.ClientConfigurationError):
        return False
    state = str(getattr(problem, "sqlstate", None) or "")
    return isinstance(problem, _GONE) or state.startswith(("08", "57P"))


def is_denied(problem: BaseException) -> bool:
    """Postgres: the role lacks a privilege that an owner could grant."""
    if isinstance(problem, DBAPIError):
        problem = _cause(problem)
    return getattr(problem, "sqlstate", None) == "42501"


def is_undecodable(problem: BaseException) -> bool:
    """SQLite holds text that is not UTF-8 where text was read."""
    if isinstance(problem, DBAPIError):
        problem = _cause(problem)
    return isinstance(problem, sqlite3.OperationalError) and "decode to utf-8" in str(problem).lower()


def _cause(problem: DBAPIError) -> BaseException:
    original: BaseException = problem.orig or problem
    return original.__cause__ or original


def translate(problem: BaseException, label: str) -> StoreError:
    if isinstance(problem, DBAPIError):
        problem = _cause(problem)
    if isinstance(problem, sqlite3.Error):
        return _sqlite(problem, label)
    if isinstance(problem, asyncpg.ClientConfigurationError):
        return BadTarget(f"{label}: an option of the DSN cannot be used (check sslmode and the files it names)")
    if state := str(getattr(problem, "sqlstate", None) or ""):
        return _postgres(state, label)
    if isinstance(problem, TimeoutError):
        return Unreachable(f"{label} did not answer in time")
    if isinstance(problem, _GONE):
        return Unreachable(f"{label} cannot be reached: is the server up, and are host and port right?")
    return Unreachable(f"{label} answered with an error ({type(problem).__name__})")


def _postgres(state: str, label: str) -> StoreError:
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
        case _, "55P03" | "40P01":
            return Unreachable(f"{label} is locked by another session; try again")
        case _, "57014":
            return Unreachable(f"{label} took too long to answer")
        case "53", _:
            return Unreachable(f"{label} has no resources left (connections, memory or disk)")
        case "08" | "57", _:
            return Unreachable(f"{label} ended the connection or is not ready")
        case _, "42P01" | "42703" | "42804" | "42883":
            return Unreachable(f"{label} changed its tables since it was attached: attach again")
        case _:
            return Unreachable(f"{label} answered with an error ({state})")


def _sqlite(problem: sqlite3.Error, label: str) -> StoreError:
    name = str(getattr(problem, "sqlite_errorname", None) or "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
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
    if name == "SQLITE_ERROR" and "no such" in str(problem):
        return Unreachable(f"{label} changed its tables since it was attached: attach again")
    return Unreachable(f"{label} answered with an error ({name or type(problem).__name__})")
