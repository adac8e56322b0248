"""A target as a person writes it (path, URL, DSN) → what to open. Never lets a password out, not even in an error."""

from __future__ import annotations

import getpass
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from backends.store import BadTarget

_HOST = re.compile(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]")
_KEEP = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "target_session_attrs")
_DSN_HELP = "expected postgresql://user@host:port/database (percent-encode special characters of a password)"


@dataclass(frozen=True, slots=True)
class SQLiteTarget:
    path: Path
    immutable: bool = False

    @property
    def label(self) -> str:
        return f"sqlite {self.path}"


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    host: str | None
    port: int | None
    user: str | None
    database: str | None
    options: tuple[tuple[str, str], ...] = ()
    password: str | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        host = self.host or "local"
        where = f"{host}:{self.port}" if self.port not in (None, 5432) else host
        return f"postgres {where}/{self.database or self.user or getpass.getuser()}"

    @property
    def dsn(self) -> str:
        """For the driver, without the password."""
        pairs = dict(self.options)
        if self.host and self.host.startswith("/"):
            pairs["host"] = self.host
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        host = "" if self.host is None or self.host.startswith("/") else self.host
        port = f":{self.port}" if self.port and host else ""
        if self.port and not host:
            pairs["port"] = str(self.port)
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in pairs.items())
        return f"postgresql://{user}{host}{port}/{quote(self.database or '', safe='')}" + (f"?{query}" if query else "")


Target = SQLiteTarget | PostgresTarget


def parse_target(text: str) -> Target:
    """Raises BadTarget, whose message never repeats what could be a password."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _path(text)
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise BadTarget("the target holds control characters")
    match scheme.lower().split("+")[0]:
        case "sqlite":
            return _sqlite(rest)
        case "postgresql" | "postgres":
            return _postgres(rest)
        case _:
            raise BadTarget("unknown kind of target: give a path, sqlite:///path or postgresql://user@host/db")


def _path(text: str) -> SQLiteTarget:
    if not text or "\0" in text:
        raise BadTarget("the target is empty: give --db a path, a URL or the name of a store in the config")
    if re.search(r":[^/]*@", text) and not Path(text).exists():
        raise BadTarget(f"that looks like a DSN without its scheme: {_DSN_HELP}")
    return SQLiteTarget(Path(text).expanduser())


def _sqlite(rest: str) -> SQLiteTarget:
    path, _, query = rest.partition("?")
    if not path.startswith("/") or len(path) < 2:
        raise BadTarget("a SQLite URL is sqlite:///relative/path or sqlite:////absolute/path")
    options = dict(parse_qsl(query))
    unknown = set(options) - {"immutable"}
    if unknown:
        raise BadTarget("a SQLite URL takes no other option than immutable=1")
    name = unquote(path[1:])
    if "\0" in name:
        raise BadTarget("the path of the SQLite URL holds a NUL")
    return SQLiteTarget(Path(name), immutable=options.get("immutable") == "1")


def _postgres(rest: str) -> PostgresTarget:
    try:
        parts = urlsplit(f"postgresql://{rest}")
    except ValueError:
        raise BadTarget(f"the DSN cannot be read: {_DSN_HELP}") from None
    bare, _, query = rest.partition("?")
    if "@" in parts.path or "@" in parts.query or "#" in rest or "?" in query:
        raise BadTarget(f"the DSN cannot be read: {_DSN_HELP}")
    userinfo, _, hostport = parts.netloc.rpartition("@")
    host, port = _host_port(hostport)
    user, colon, password = userinfo.partition(":")
    database = unquote(parts.path.lstrip("/")) or None
    if database and ("/" in database or ":" in database or any(c.isspace() for c in database)):
        raise BadTarget(f"the DSN cannot be read: {_DSN_HELP}")
    pairs = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = [key for key in pairs if key not in (*_KEEP, "host", "port", "user", "password", "dbname")]
    if unknown:
        raise BadTarget(f"the DSN has an option that is not known here; known: {', '.join(_KEEP)}")
    if "port" in pairs and port is None:
        host, port = _host_port(f"{host or ''}:{pairs['port']}")
    return PostgresTarget(
        host=pairs.get("host") or host,
        port=port,
        user=unquote(user) or pairs.get("user"),
        database=pairs.get("dbname") or database,
        options=tuple((key, value) for key, value in pairs.items() if key in _KEEP),
        password=unquote(password) if colon else pairs.get("password"),
    )


def _host_port(text: str) -> tuple[str | None, int | None]:
    match = re.fullmatch(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(:(?P<port>[0-9]*))?", text)
    if match is None or not (match["host"] == "" or _HOST.fullmatch(match["host"])):
        raise BadTarget(f"the DSN's host or port cannot be read: {_DSN_HELP}")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:
        raise BadTarget("the DSN's port is not between 1 and 65535")
    return match["host"] or None, port
