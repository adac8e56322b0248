"""Reads what a service file says of `service=NAME`: PGSERVICEFILE, else ~/.pg_service.conf, else the system's file."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from dlq_sink.error import BadTarget
from dlq_sink.libpq.keyword import KEYWORDS

_FILE = "pg_service.conf"
_SYSTEM = ("/etc/postgresql-common", "/etc/sysconfig/pgsql")
_LARGEST = 1_000_000


def service_pairs(name: str, named_file: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Raises BadTarget where no file has that service, or where its lines cannot be read."""
    if named_file:
        found = _section(name, Path(named_file), must_exist=True)
    else:
        found = next((pairs for path in _places(environ) if (pairs := _section(name, path)) is not None), None)
    if found is None:
        raise BadTarget("the service of the DSN is in no service file: check PGSERVICEFILE")
    return found


def _places(environ: Mapping[str, str]) -> Iterable[Path]:
    home = environ.get("HOME")
    yield (Path(home) if home else Path.home()) / f".{_FILE}"
    system = environ.get("PGSYSCONFDIR")
    yield from (Path(folder) / _FILE for folder in ([system] if system else _SYSTEM))


def _section(name: str, path: Path, *, must_exist: bool = False) -> dict[str, str] | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe is to wait for its other end
            raise FileNotFoundError
        with path.open("rb") as file:
            lines = file.read(_LARGEST).decode("utf-8", "replace").split("\n")
    except OSError:
        if must_exist:
            raise BadTarget("the service file named by PGSERVICEFILE or servicefile cannot be read") from None
        return None
    pairs: dict[str, str] | None = None
    for number, raw in enumerate(lines, 1):
        line = raw.strip(" \t\r\f\v")
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            if pairs is not None:
                break
            pairs = {} if line.startswith(f"[{name}]") else None
        elif pairs is not None:
            key, value = _pair(line, number)
            pairs.setdefault(key, value)  # the first one counts
    return pairs


def _pair(line: str, number: int) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if line.startswith("ldap"):
        raise BadTarget(f"line {number} of the service file asks LDAP, which is not supported here")
    if key in ("service", "servicefile"):
        raise BadTarget(f"line {number} of the service file names another service, which is not possible")
    if not equals or key not in KEYWORDS:
        raise BadTarget(f"line {number} of the service file cannot be read: expected keyword=value without blanks")
    return key, value
