"""A driver's error → a store error of one clear line without secrets. Knows codes, imports no driver but sqlite3."""

from __future__ import annotations

import sqlite3

from backends.sink.contract import BadEntry
from backends.store import ActRefused, NotADLQ, StoreError, Unreachable


def sqlite_fault(problem: sqlite3.Error, label: str) -> StoreError:
    name = str(getattr(problem, "sqlite_errorname", None) or "")
    match name.split("_")[1:2]:
        case ["BUSY"] | ["LOCKED"]:
            return Unreachable(f"{label} is locked by another program; nothing was written")
        case ["NOTADB"]:
            return NotADLQ(f"{label} is not a SQLite database")
        case ["CORRUPT"]:
            return Unreachable(f"{label} is damaged: restore it from a backup")
        case ["CONSTRAINT"]:
            return ActRefused(f"{label} refused the change: a rule of the store forbids it")
        case ["READONLY"] | ["PERM"] | ["AUTH"]:
            return ActRefused(f"{label} cannot be written by this user")
        case ["FULL"]:
            return Unreachable(f"{label}: the disk is full; nothing was written")
        case ["CANTOPEN"] | ["IOERR"]:
            return Unreachable(f"{label} cannot be opened: check the path, its permissions and the disk")
        case ["TOOBIG"]:
            return BadEntry(f"{label} cannot store a value of this size; nothing was written")
        case _:
            return Unreachable(f"{label} answered with an error ({name or type(problem).__name__})")


def postgres_fault(problem: BaseException, label: str) -> StoreError:
    state = str(getattr(problem, "sqlstate", None) or "")
    match state[:2], state:
        case "28", _:
            return Unreachable(f"{label} refused the login: check the user, the password (or .pgpass) and pg_hba")
        case _, "42501":
            return ActRefused(f"{label}: this role has no privilege for that")
        case _, "3D000":
            return Unreachable(f"{label}: there is no such database")
        case _, "3F000":
            return NotADLQ(f"{label}: there is no such schema")
        case _, "42P01":
            return NotADLQ(f"{label}: the table of the entries is gone")
        case _, "25006":
            return ActRefused(f"{label} is read-only")
        case "22", _:
            return BadEntry(
                f"{label} cannot store a value of this entry ({type(problem).__name__}); nothing was written"
            )
        case "23", _:
            return ActRefused(f"{label} refused the change: a rule of the store forbids it")
        case _, "55P03" | "57014":
            return Unreachable(f"{label} is locked by another session or too slow; nothing was written")
        case "08" | "57" | "53", _:
            return Unreachable(f"{label} ended the connection or is not ready")
    if isinstance(problem, ValueError):
        return Unreachable(f"{label}: the connection's settings cannot be used ({type(problem).__name__})")
    if not state:
        return Unreachable(f"{label} cannot be reached: is the server up, and are host and port right?")
    return Unreachable(f"{label} answered with an error ({type(problem).__name__} {state})")
