"""A store and a sink give the same error for the same code of the database."""

from __future__ import annotations

import sqlite3

import asyncpg
import pytest
from dlq_sink import BadEntry
from dlq_sink.error_codes import postgres_error, sqlite_error
from sqlalchemy.exc import DBAPIError

from backends.driver_errors import translate
from backends.store import ActRefused, BadTarget, NotADLQ, StoreError, Unreachable

POSTGRES: dict[str, type[StoreError]] = {
    "08006": Unreachable,
    "22P02": BadEntry,
    "23505": ActRefused,
    "25006": ActRefused,
    "28P01": Unreachable,
    "3D000": Unreachable,
    "3F000": NotADLQ,
    "40P01": Unreachable,
    "42501": ActRefused,
    "42703": NotADLQ,
    "42P01": NotADLQ,
    "53300": Unreachable,
    "55P03": Unreachable,
    "57014": Unreachable,
    "57P01": Unreachable,
    "XX000": Unreachable,
}
SQLITE: dict[str, type[StoreError]] = {
    "SQLITE_BUSY_SNAPSHOT": Unreachable,
    "SQLITE_CANTOPEN": Unreachable,
    "SQLITE_CONSTRAINT_TRIGGER": ActRefused,
    "SQLITE_CORRUPT": Unreachable,
    "SQLITE_FULL": Unreachable,
    "SQLITE_NOTADB": NotADLQ,
    "SQLITE_READONLY_DBMOVED": ActRefused,
    "SQLITE_TOOBIG": BadEntry,
    "SQLITE_MISMATCH": Unreachable,
}


def wrapped(problem: Exception) -> DBAPIError:
    """As SQLAlchemy hands a driver's error on."""
    return DBAPIError("SELECT 1", None, problem)


@pytest.mark.parametrize(("state", "kind"), POSTGRES.items())
def test_a_sqlstate_means_the_same_to_a_store_and_a_sink(state: str, kind: type[StoreError]) -> None:
    problem = asyncpg.PostgresError.new({"C": state, "M": "hunter2"})
    sink, store = postgres_error(problem, "db"), translate(wrapped(problem), "db")
    assert type(sink) is type(store) is kind
    assert str(sink) == str(store)
    assert "hunter2" not in str(sink)


@pytest.mark.parametrize(("name", "kind"), SQLITE.items())
def test_a_sqlite_code_means_the_same_to_a_store_and_a_sink(name: str, kind: type[StoreError]) -> None:
    problem = sqlite3.OperationalError("hunter2")
    problem.sqlite_errorname = name
    sink, store = sqlite_error(problem, "db"), translate(wrapped(problem), "db")
    assert type(sink) is type(store) is kind
    assert str(sink) == str(store)
    assert "hunter2" not in str(sink)


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (asyncpg.ClientConfigurationError("sslrootcert"), BadTarget),
        (TimeoutError(), Unreachable),
        (ConnectionRefusedError(), Unreachable),
        (asyncpg.InterfaceError("connection is closed"), Unreachable),
    ],
)
def test_a_failure_without_a_code_means_the_same_to_a_store_and_a_sink(
    problem: Exception, kind: type[StoreError]
) -> None:
    sink, store = postgres_error(problem, "db"), translate(problem, "db")
    assert type(sink) is type(store) is kind
    assert str(sink) == str(store)
