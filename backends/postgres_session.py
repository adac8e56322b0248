"""How every transaction on Postgres begins, and what stands between us and the server. Knows no table.

Nothing is set for the whole session: a pooler such as pgbouncer hands the server to others between two transactions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

STATEMENT_SECONDS = 14  # a query that returns nothing for so long is given up, well before 20 seconds are over
ANSWER_SECONDS = 16.0  # for a server that does not even do that
# Fixed, so that the spelling of times does not depend on the server's settings. A pooler takes these when a session
# starts, and no others: everything else is set by each transaction.
SPELLING = {"application_name": "dlq-console", "TimeZone": "UTC", "DateStyle": "ISO"}
# Under it every function, operator and type that a statement names is the server's own; temporary objects come last.
_SAFE = ("search_path", "pg_catalog, pg_temp")
SAFE_PATH = f"SET LOCAL {_SAFE[0]} = {_SAFE[1]}"
# The role's own path: the owner's triggers must run as they do for the engine.
OWN_PATH = "SET LOCAL search_path TO DEFAULT"
# constraint_exclusion makes the planner compute the constant parts of CHECK constraints, which may call functions.
_SPELLED = (
    ("standard_conforming_strings", "on"),
    ("constraint_exclusion", "off"),
    ("idle_in_transaction_session_timeout", "60000"),
)
_READING = (*_SPELLED, ("statement_timeout", str(STATEMENT_SECONDS * 1000)))
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"


def _set_local(settings: Iterable[tuple[str, str]]) -> str:
    return "; ".join(f"SET LOCAL {name} = {value}" for name, value in settings)


BEGIN_READING = f"{_BEGIN}; {SAFE_PATH}; {_set_local(_READING)}"
# The same in two statements, as each takes time of the server. The second gives no row and names no operator, since it
# is resolved under a search_path that may be another's.
PREPARED_BEGIN = (
    _BEGIN,
    "SELECT WHERE "
    + " OR ".join(f"pg_catalog.set_config('{name}', '{value}', true) IS NULL" for name, value in (_SAFE, *_READING)),
)
# Whatever a function may have set for the session ends with the transaction.
END_READING = "ROLLBACK"
_SERVER_PID = "SELECT pg_catalog.pg_backend_pid()"


def writing(lock_seconds: float) -> str:
    """For a transaction that has begun."""
    patience = f"SET LOCAL lock_timeout = {int(lock_seconds * 1000)}"
    return f"{SAFE_PATH}; {_set_local(_SPELLED)}; SET LOCAL synchronous_commit = on; {patience}"


def is_pooled_connection(driver: object) -> bool:
    """Whether it is a `PooledConnection`; found without loading asyncpg, which SQLite does not need."""
    return getattr(type(driver), "is_pooled", False) is True


async def has_pooler(connection: Any) -> bool:
    """Whether a pooler answered: its session is not the server's."""
    await connection.execute(BEGIN_READING)
    try:
        # Without a name, since a named statement would stay in a session that others get.
        asked = await connection.prepare(_SERVER_PID, name="")
        return bool(await asked.fetchval() != connection.get_server_pid())
    finally:
        await connection.execute(END_READING)
