"""Who logs in to Postgres, and with which password: the target's, PGPASSWORD, or libpq's password file (.pgpass).

The file is read by libpq's rules; asyncpg's own reader leaves escapes in and fails on lines it does not expect.
"""

from __future__ import annotations

import getpass
import os
import re
import stat
from pathlib import Path

from backends.store import BadTarget
from backends.target import PostgresTarget

_FIELD = re.compile(r"((?:\\.|[^:\\])*)(?::|$)")


def login(target: PostgresTarget) -> dict[str, str]:
    """`user` and `password` for the driver. Without any password an empty one, so that the driver looks no further."""
    user = target.user or os.environ.get("PGUSER") or _os_user()
    password = target.password if target.password is not None else os.environ.get("PGPASSWORD")
    return {"user": user, "password": _from_file(target, user) if password is None else password}


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise BadTarget("the DSN names no user, and the OS user of this process has no name") from None


def _from_file(target: PostgresTarget, user: str) -> str:
    host = target.host or os.environ.get("PGHOST") or "localhost"
    wanted = (
        "localhost" if host.startswith("/") else host.strip("[]"),
        str(target.port or os.environ.get("PGPORT") or 5432),
        target.database or os.environ.get("PGDATABASE") or user,
        user,
    )
    for line in _lines(target):
        fields, password = _split(line)
        if len(fields) == 4 and all(given in ("*", asked) for given, asked in zip(fields, wanted, strict=True)):
            return password
    return ""


def _lines(target: PostgresTarget) -> list[str]:
    named = dict(target.options).get("passfile") or os.environ.get("PGPASSFILE")
    path = Path(named) if named else Path.home() / ".pgpass"
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) or mode & (stat.S_IRWXG | stat.S_IRWXO):
            return []  # as libpq: what others may read is no secret
        return path.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []


def _split(line: str) -> tuple[list[str], str]:
    """The first four fields, and the rest of the line as the password."""
    if not line or line.startswith("#"):
        return [], ""
    fields: list[str] = []
    position = 0
    while len(fields) < 4 and (match := _FIELD.match(line, position)) and match.end() < len(line):
        fields.append(_plain(match[1]))
        position = match.end()
    return fields, _plain(line[position:])


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
