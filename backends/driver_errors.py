"""Recognises what SQLAlchemy, asyncpg and sqlite3 raise about a store and turns it into store errors.

Does not load asyncpg: whoever reads SQLite needs none of it, and only who has loaded it can get its errors.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dlq_sink.error_codes import is_lost_state, oversized, postgres_error, sqlite_error, sqlstate
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from backends.store import StoreError, Unreachable

# SQLite says with a MemoryError that its own limit is reached.
_ALWAYS = (SQLAlchemyError, sqlite3.Error, MemoryError, OSError)
Errors = tuple[type[BaseException], ...]


def driver_errors() -> Errors:
    """What the drivers raise that are loaded, for an `except`."""
    return (*_ALWAYS, *_asyncpg("PostgresError", "InterfaceError", "InternalClientError"))


def _asyncpg(*names: str) -> Errors:
    driver = sys.modules.get("asyncpg")
    return () if driver is None else tuple(getattr(driver, name) for name in names)


@contextmanager
def store_errors(label: str) -> Iterator[None]:
    """Raise a store error of one clear line for whatever a driver raises inside."""
    try:
        yield
    except driver_errors() as problem:
        raise translate(problem, label) from None


def is_lost(problem: BaseException) -> bool:
    """The connection is gone; the store itself may be back on the next try."""
    if isinstance(problem, DBAPIError):
        if problem.connection_invalidated:
            return True
        problem = _cause(problem)
    if isinstance(problem, _asyncpg("ClientConfigurationError")):
        return False
    # asyncpg raises an error of its own kind where a session is killed in the middle of a query.
    gone = isinstance(problem, (OSError, *_asyncpg("InterfaceError", "InternalClientError")))
    return gone or is_lost_state(sqlstate(problem))


def is_conflict(problem: BaseException) -> bool:
    """A standby cancelled the query, since the primary had removed what it was reading: another try may do."""
    if isinstance(problem, DBAPIError):
        problem = _cause(problem)
    return sqlstate(problem) == "40001"


def is_denied(problem: BaseException) -> bool:
    """Postgres: the role lacks a privilege that an owner could grant."""
    if isinstance(problem, DBAPIError):
        problem = _cause(problem)
    return sqlstate(problem) == "42501"


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
        return sqlite_error(problem, label)
    if isinstance(problem, MemoryError):
        return oversized(label)
    if isinstance(problem, SQLAlchemyError):
        return Unreachable(f"{label} answered with an error ({type(problem).__name__})")
    return postgres_error(problem, label)
