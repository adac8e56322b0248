"""The password file of libpq (.pgpass), read by libpq's rules: asyncpg's own reader leaves the escapes in.

Knows no database; a password found here goes nowhere but to the driver.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from backends.target import PostgresTarget

_FIELD = re.compile(r"((?:\\.|[^:\\])*)(?::|$)")


def password_for(target: PostgresTarget) -> str | None:
    """What the file says for this target; None where it says nothing, or where PGPASSWORD goes before it."""
    if target.password is not None or os.environ.get("PGPASSWORD") is not None:
        return target.password
    host = target.host or os.environ.get("PGHOST") or "localhost"
    user = target.user or os.environ.get("PGUSER") or Path.home().name
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
    return None


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
