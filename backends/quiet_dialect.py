"""SQLAlchemy's dialect of Postgres, made to ask the server nothing by itself, and a connection through a pooler.

Knows no table. Loads asyncpg, so nobody imports it who reads SQLite.
"""

from __future__ import annotations

from typing import Any

import asyncpg
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

from backends.postgres_session import is_pooled_connection

DIALECT_URL = "postgresql+dlqasyncpg://"


class PooledConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg brings no types
    """A connection through a pooler: it keeps no statement, listens to nothing, and knows no process of the server."""

    is_pooled = True


class QuietDialect(PGDialect_asyncpg):
    """Asks the server nothing when it connects: that would run before a safe search_path is set."""

    supports_statement_cache = True
    default_isolation_level = "READ COMMITTED"

    def initialize(self, connection: Any) -> None:
        version = connection.connection.driver_connection.get_server_version()
        self.server_version_info = (version.major, version.minor)
        self._backslash_escapes = False  # every transaction sets standard_conforming_strings

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        adapted = super().connect(*args, **kwargs)
        if is_pooled_connection(adapted.driver_connection):
            adapted._prepared_statement_cache = None  # SQLAlchemy takes the size only before it connects
        return adapted


registry.register("postgresql.dlqasyncpg", __name__, QuietDialect.__name__)
