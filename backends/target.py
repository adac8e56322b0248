"""Parses a target (path, URL or DSN) into what to open. Never shows a password, not even in an error."""

from __future__ import annotations

import getpass
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from backends.store import BadTarget
from backends.values import is_encodable, readable

_HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LIKE_A_DSN = re.compile(r":.*@|^\s*postgres(ql)?\s*(:|//)|\b(password|passwd|host|dbname|user)\s*=", re.S | re.I)
_KEEP = (
    "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "target_session_attrs", "application_name",
    "connect_timeout",
)  # fmt: skip
_CONNECT_SECONDS = 5.0
_DSN_HELP = "expected postgresql://user@host:port/database (percent-encode special characters of a password)"


@dataclass(frozen=True, slots=True)
class SQLiteTarget:
    path: Path
    immutable: bool = False

    @property
    def label(self) -> str:
        return f"sqlite {readable(str(self.path))}"


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
        return f"postgres {where}/{self.database}" if self.database else f"postgres {where}"

    @property
    def connect_seconds(self) -> float:
        return float(dict(self.options).get("connect_timeout", _CONNECT_SECONDS))

    @property
    def dsn(self) -> str:
        """For the driver, without the password."""
        pairs = {key: value for key, value in self.options if key != "connect_timeout"}
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
    if _CONTROL.search(text) or not is_encodable(text):
        raise BadTarget("the target holds control characters or is not Unicode")
    match scheme.lower().split("+")[0]:
        case "sqlite":
            return _sqlite(rest)
        case "postgresql" | "postgres":
            return _postgres(rest)
        case _:
            raise BadTarget("unknown kind of target: give a path, sqlite:///path or postgresql://user@host/db")


def _path(text: str) -> SQLiteTarget:
    if not text:
        raise BadTarget("the target is empty: give --db a path, a URL or the name of a store in the config")
    if _CONTROL.search(text):
        raise BadTarget("the target holds control characters")
    # A "no such file" would repeat the text, which may hold a password.
    if _LIKE_A_DSN.search(text) and not _is_there(Path(text)):
        raise BadTarget(f"that looks like a DSN, but cannot be read as one: {_DSN_HELP}")
    try:
        return SQLiteTarget(Path(text).expanduser())
    except RuntimeError:
        raise BadTarget("the path begins with ~, but there is no such user or home directory") from None


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _sqlite(rest: str) -> SQLiteTarget:
    path, _, query = rest.partition("?")
    if not path.startswith("/") or len(path) < 2:
        raise BadTarget("a SQLite URL is sqlite:///relative/path or sqlite:////absolute/path")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if options and options != {"immutable": "1"}:
        raise BadTarget("a SQLite URL takes no other option than immutable=1")
    name = unquote(path[1:])
    if _CONTROL.search(name):
        raise BadTarget("the path of the SQLite URL holds control characters")
    return SQLiteTarget(Path(name), immutable=bool(options))


def _postgres(rest: str) -> PostgresTarget:
    try:
        parts = urlsplit(f"postgresql://{rest}")
    except ValueError:
        raise _unreadable() from None
    if "@" in parts.path or "@" in parts.query or "#" in rest or "?" in parts.query:
        raise _unreadable()
    userinfo, _, hostport = parts.netloc.rpartition("@")
    host, port = _host_port(hostport)
    user, colon, password = userinfo.partition(":")
    pairs = dict(parse_qsl(parts.query, keep_blank_values=True))
    if any(key not in (*_KEEP, "host", "port", "user", "password", "dbname") for key in pairs):
        raise BadTarget(f"the DSN has an option that is not known here; known: {', '.join(_KEEP)}")
    if not re.fullmatch(r"[1-9][0-9]{0,2}", pairs.get("connect_timeout", "1")):
        raise BadTarget("connect_timeout of the DSN must be whole seconds, 1 to 999")
    if "port" in pairs and port is None:
        _, port = _host_port(f":{pairs['port']}")
    if "host" in pairs and not pairs["host"].startswith("/"):
        host, _ = _host_port(pairs["host"])
    elif "host" in pairs:
        host = pairs["host"]
    database = pairs.get("dbname") or unquote(parts.path.removeprefix("/")) or None
    if database and re.search(r"[/:@\s]", database):
        raise _unreadable()
    target = PostgresTarget(
        host=host,
        port=port,
        user=unquote(user) or pairs.get("user"),
        database=database,
        options=tuple((key, value) for key, value in pairs.items() if key in _KEEP),
        password=unquote(password) if colon else pairs.get("password"),
    )
    if any(_CONTROL.search(value or "") for value in (target.host, target.user, target.database, target.password)):
        raise BadTarget("a part of the DSN holds control characters")
    return target


def _unreadable() -> BadTarget:
    return BadTarget(f"the DSN cannot be read: {_DSN_HELP}")


def _host_port(text: str) -> tuple[str | None, int | None]:
    match = re.fullmatch(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(:(?P<port>[0-9]{0,5}))?", text)
    if match is None or not (match["host"] == "" or _HOST.fullmatch(match["host"])):
        raise BadTarget(f"the DSN's host or port cannot be read: {_DSN_HELP}")
    labels = [] if match["host"].startswith("[") else match["host"].removesuffix(".").split(".")
    if match["host"] and any(not 0 < len(label) < 64 for label in labels):
        raise BadTarget("the DSN's host name has an empty or too long part")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:
        raise BadTarget("the DSN's port is not between 1 and 65535")
    return match["host"] or None, port


_FIELD = re.compile(r"((?:\\.|[^:\\])*)(?::|$)")


def login(target: PostgresTarget) -> dict[str, str]:
    """User and password for the driver; an empty password if there is none, so that the driver searches for none."""
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
            return []  # like libpq, ignore a file that others may read
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
