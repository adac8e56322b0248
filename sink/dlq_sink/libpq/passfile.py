"""Looks a password up in libpq's password file, by libpq's rules."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlq_sink.values import is_encodable

_LARGEST = 4_000_000


def password_from(file: str | None, wanted: Sequence[tuple[str, ...]], environ: Mapping[str, str]) -> str | None:
    """Of the first line that matches host, port, database and user; `wanted` may spell the host in several ways."""
    home = environ.get("HOME")
    path = Path(file) if file else (Path(home) if home else Path.home()) / ".pgpass"
    for line in _lines(path):
        for asked in wanted:
            if (password := _match(line, asked)) is not None:
                return password if is_encodable(password) else None
    return None


def _lines(path: Path) -> list[str]:
    try:
        mode = path.stat().st_mode  # before opening: to open a pipe is to wait for its other end
        if not stat.S_ISREG(mode) or mode & (stat.S_IRWXG | stat.S_IRWXO):
            return []  # like libpq, ignore a file that others may read
        with path.open("rb") as file:
            text = file.read(_LARGEST).decode("utf-8", "surrogateescape")
    except OSError:
        return []
    return [line.rstrip("\r") for line in text.split("\n") if line and not line.startswith("#")]


def _match(line: str, asked: tuple[str, ...]) -> str | None:
    at = 0
    for field in asked:
        end = _after(line, at, field)
        if end is None:
            return None
        at = end
    return re.sub(r"\\(.)", r"\1", line[at:], flags=re.S)


def _after(line: str, at: int, field: str) -> int | None:
    """Where the next field begins, if this one is `*` or the text asked for."""
    if line.startswith("*:", at):
        return at + 2
    for one in field:
        at += line[at : at + 1] == "\\"
        if line[at : at + 1] != one:
            return None
        at += 1
    return at + 1 if line[at : at + 1] == ":" else None
