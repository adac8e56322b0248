"""Empty databases of one Postgres server, each used by one test at a time and emptied afterwards.

Creating a database costs more than most of the tests that need one. A database that does not look like a new one after
it was emptied is dropped instead.
"""

from __future__ import annotations

import uuid
from typing import Any

from tests.support.owner_session import end_session, in_session_apart, keep_session

_END_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_SCHEMAS = r"""
SELECT quote_ident(nspname) FROM pg_namespace
WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
"""
_ROLES = r"SELECT quote_ident(rolname) FROM pg_roles WHERE right(rolname, length($1) + 1) = '_' || $1"
_NEW_PUBLIC = """
CREATE SCHEMA public AUTHORIZATION pg_database_owner;
GRANT USAGE ON SCHEMA public TO PUBLIC;
COMMENT ON SCHEMA public IS 'standard public schema'
"""
# Whatever a test may change in a database beside the schemas in it.
_LOOK = """
SELECT concat_ws('; ',
  (SELECT string_agg(nspname || ' ' || nspowner || coalesce(nspacl::text, ''), ', ' ORDER BY nspname)
     FROM pg_namespace WHERE nspname NOT LIKE 'pg_toast%' AND nspname NOT LIKE 'pg_temp%'),
  (SELECT concat(datdba, datacl, datallowconn, datconnlimit) FROM pg_database WHERE datname = current_database()),
  (SELECT count(*) FROM pg_db_role_setting AS s JOIN pg_database AS d ON d.oid = s.setdatabase
     WHERE d.datname = current_database()),
  (SELECT count(*) FROM pg_class WHERE oid >= 16384),
  (SELECT count(*) FROM pg_type WHERE oid >= 16384),
  (SELECT count(*) FROM pg_proc WHERE oid >= 16384),
  (SELECT count(*) FROM pg_cast WHERE oid >= 16384),
  (SELECT count(*) FROM pg_extension),
  (SELECT count(*) FROM pg_event_trigger),
  (SELECT count(*) FROM pg_publication),
  (SELECT count(*) FROM pg_default_acl),
  (SELECT count(*) FROM pg_largeobject_metadata),
  (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()))
"""


class Databases:
    """`dsn` has {db} where the name of a database goes."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._spare: list[str] = []
        self._new_look = ""

    def take(self) -> str:
        """Names an empty database."""
        return self._spare.pop() if self._spare else self._create()

    def give_back(self, name: str) -> None:
        """Empties it for the next test; roles named `…_<database>` go with what was in it."""
        if in_session_apart(self.address(name), lambda connection: _empty(connection, name)) == self._new_look:
            self._spare.append(name)
        else:
            self._drop(name)

    def close(self) -> None:
        """Drops what is spare: the server may be one that outlives the tests."""
        while self._spare:
            self._drop(self._spare.pop())
        end_session(self.address("postgres"))

    def address(self, name: str) -> str:
        return self._dsn.replace("{db}", name)

    def _create(self) -> str:
        name = f"t_{uuid.uuid4().hex[:12]}"
        self._ask("postgres", f'CREATE DATABASE "{name}"')
        if not self._new_look:
            self._new_look = self._ask(name, _LOOK)
        return name

    def _drop(self, name: str) -> None:
        end_session(self.address(name))
        self._ask("postgres", f'DROP DATABASE "{name}" WITH (FORCE)')

    def _ask(self, database: str, statement: str) -> str:
        keep_session(self.address(database))
        return str(in_session_apart(self.address(database), lambda connection: connection.fetchval(statement)))


async def _empty(connection: Any, name: str) -> str:
    """Returns how the database looks then."""
    await connection.execute(_END_OTHERS)
    schemas = [row[0] for row in await connection.fetch(_SCHEMAS)]
    await connection.execute(f"DROP SCHEMA {', '.join(schemas)} CASCADE;{_NEW_PUBLIC}")
    for row in await connection.fetch(_ROLES, name):
        await connection.execute(f"DROP OWNED BY {row[0]} CASCADE; DROP ROLE {row[0]}")
    return str(await connection.fetchval(_LOOK))
