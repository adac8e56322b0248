"""The one table from a database's error codes to store errors, used by the stores and by the sinks.

Loads no driver but sqlite3, and repeats no message of a driver: such a message may hold secrets.
"""

from __future__ import annotations

import sqlite3

from dlq_sink.error import ActRefused, BadEntry, BadTarget, NotADLQ, StoreError, Unreachable

_Said = tuple[type[StoreError], str]  # {label} is the store, {code} the code itself

_RULE: _Said = (ActRefused, "{label} refused the change: a rule of the store forbids it")
_CHANGED: _Said = (NotADLQ, "{label} changed its tables since it was attached: attach again")
_LOCKED: _Said = (Unreachable, "{label} is locked by another session; nothing was written, try again")
_VALUE: _Said = (BadEntry, "{label} cannot read or store a value ({code}); nothing was written")
_OVERSIZED: _Said = (
    Unreachable,
    "{label} is oversized or damaged: one of its values takes more memory than is allowed",
)
_ENDED: _Said = (Unreachable, "{label} ended the connection or is not ready")

# A whole SQLSTATE wins over its class, which is the first two characters.
_SQLSTATES: dict[str, _Said] = {
    "08": _ENDED,
    "22": _VALUE,
    "23": _RULE,
    "25006": (ActRefused, "{label} is read-only"),
    "28": (
        Unreachable,
        "{label} refused the login: check the user, the password (DSN, keyring or .pgpass) and pg_hba",
    ),
    "3D000": (Unreachable, "{label}: there is no such database"),
    "3F000": (NotADLQ, "{label}: there is no such schema"),
    "40P01": _LOCKED,
    "42501": (ActRefused, "{label}: this role has no privilege for that"),
    "42703": _CHANGED,
    "42804": _CHANGED,
    "42883": _CHANGED,
    "42P01": _CHANGED,
    "53": (Unreachable, "{label} has no resources left (connections, memory or disk)"),
    "54": _OVERSIZED,  # of our own, too: see libpq/wire.py
    "55P03": _LOCKED,
    "57": _ENDED,
    "57014": (Unreachable, "{label} took too long to answer; nothing was written"),
}

_BUSY: _Said = (Unreachable, "{label} is locked by another program; try again in a moment")
_UNWRITABLE: _Said = (ActRefused, "{label} cannot be written by this user")
_UNOPENED: _Said = (Unreachable, "{label} cannot be opened: check the path, its permissions and the disk")

_UNFINISHED: _Said = (
    Unreachable,
    "{label} was left in the middle of a write, which a reader may not undo: start its engine, or drop --read-only",
)

# The word behind "SQLITE_"; extended codes such as SQLITE_BUSY_SNAPSHOT share it.
_SQLITE: dict[str, _Said] = {
    "AUTH": _UNWRITABLE,
    "BUSY": _BUSY,
    "CANTOPEN": _UNOPENED,
    "CONSTRAINT": _RULE,
    "CORRUPT": (
        Unreachable,
        "{label} is damaged: restore it from a backup (sqlite3 FILE 'pragma integrity_check' says more)",
    ),
    "FULL": (Unreachable, "{label}: the disk is full; nothing was written"),
    "INTERRUPT": (
        Unreachable,
        "{label} returned no more rows for too long: it may be an endless view, or lack an index; nothing was written",
    ),
    "IOERR": _UNOPENED,
    "LOCKED": _BUSY,
    "NOMEM": _OVERSIZED,
    "NOTADB": (NotADLQ, "{label} is not a SQLite database"),
    "PERM": _UNWRITABLE,
    "PROTOCOL": _BUSY,
    "READONLY": _UNWRITABLE,
    "READONLY_RECOVERY": _UNFINISHED,
    "READONLY_ROLLBACK": _UNFINISHED,
    "TOOBIG": _VALUE,
}


def sqlstate(problem: BaseException) -> str:
    """The SQLSTATE that a server gave; "" where the driver failed without one."""
    return str(getattr(problem, "sqlstate", None) or "")


def is_lost_state(state: str) -> bool:
    """The server ended the connection, or is starting or shutting down."""
    return state.startswith(("08", "57P"))


def postgres_error(problem: BaseException, label: str) -> StoreError:
    if state := sqlstate(problem):
        return _error(_SQLSTATES.get(state) or _SQLSTATES.get(state[:2]), label, state)
    # A certificate that does not verify is a ValueError, too, but about the server and not about the DSN.
    if isinstance(problem, ValueError) and not isinstance(problem, OSError):
        return BadTarget(f"{label}: an option of the DSN cannot be used (check sslmode and the files it names)")
    if isinstance(problem, TimeoutError):
        return Unreachable(f"{label} did not answer in time")
    return Unreachable(f"{label} cannot be reached: is the server up, and are host and port right?")


def sqlite_error(problem: sqlite3.Error, label: str) -> StoreError:
    name = str(getattr(problem, "sqlite_errorname", None) or "")
    if name == "SQLITE_ERROR" and "no such" in str(problem):
        return _error(_CHANGED, label, name)
    _, _, rest = name.partition("_")
    said = _SQLITE.get(rest) or _SQLITE.get(rest.partition("_")[0])
    return _error(said, label, name or type(problem).__name__)


def oversized(label: str) -> StoreError:
    return _error(_OVERSIZED, label, "")


def _error(said: _Said | None, label: str, code: str) -> StoreError:
    kind, text = said or (Unreachable, "{label} answered with an error ({code})")
    return kind(text.format(label=label, code=code))
