"""Parses a target (path, URL or DSN) into what to open. Never shows a password, not even in an error."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote

from dlq_sink.error import BadTarget
from dlq_sink.values import is_encodable, readable

if TYPE_CHECKING:
    from dlq_sink.libpq.settings import ConnectionSettings, ServerAddress

_HOST = re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FIRST_WORD = re.compile(r"\s*([A-Za-z_]+)\s*=")
_LIKE_A_DSN = re.compile(r":.*@|^\s*postgres(ql)?\s*(:|//)|\b(password|passwd|host|dbname|user)\s*=", re.S | re.I)


@dataclass(frozen=True, slots=True)
class SQLiteTarget:
    path: Path
    immutable: bool = False

    @property
    def label(self) -> str:
        return f"sqlite {readable(str(self.path))}"

    def found_file(self) -> tuple[int, int] | None:
        """Tells the file from one that later replaces it at the same path; None if there is none."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 - for every write of an engine; Path.stat costs more
        except OSError:
            return None
        return status.st_dev, status.st_ino


class ReachedServer:
    """Which server of a target a connection was last made to."""

    def __init__(self) -> None:
        self.server: ServerAddress | None = None


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    said: tuple[tuple[str, str], ...]  # what the string itself says, without secrets
    settings: ConnectionSettings
    password: str | None = field(default=None, repr=False)
    route: ReachedServer = field(default_factory=ReachedServer, repr=False, compare=False)

    @property
    def user(self) -> str:
        return self.settings.user

    @property
    def label(self) -> str:
        """Names the server that was reached; before that, all that may be."""
        return self.label_of(*([self.route.server] if self.route.server else self.settings.servers))

    def label_of(self, *servers: ServerAddress) -> str:
        where = readable(",".join(server.shown for server in servers))
        return f"postgres {where}" + (f"/{readable(self.settings.database)}" if self.settings.names_database else "")

    @property
    def dsn(self) -> str:
        """The same target as a URI, without its password."""
        said = dict(self.said)
        user = f"{quote(said.pop('user'), safe='')}@" if "user" in said else ""
        host, port = said.get("host", ""), said.get("port", "")
        where = ""
        if _HOST.fullmatch(host) and re.fullmatch("[0-9]*", port):
            where = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
            said = {key: value for key, value in said.items() if key not in ("host", "port")}
        path = f"/{quote(said.pop('dbname', ''), safe='')}"
        query = "&".join(f"{key}={quote(value, safe='/,')}" for key, value in said.items())
        return f"postgresql://{user}{where}{path}" + (f"?{query}" if query else "")


Target = SQLiteTarget | PostgresTarget


def parse_target(text: str, environ: Mapping[str, str] | None = None) -> Target:
    """Raises BadTarget, whose message never repeats what could be a password."""
    if _is_words(text):
        return _postgres(text, environ, as_words=True)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _path(text)
    match scheme.lower().split("+")[0]:
        case "sqlite":
            _check_text(text)
            return _sqlite(rest)
        case "postgresql" | "postgres":
            return _postgres(rest, environ)
        case _:
            raise BadTarget("unknown kind of target: give a path, sqlite:///path or postgresql://user@host/db")


def _check_text(text: str) -> None:
    if _CONTROL.search(text) or not is_encodable(text):
        raise BadTarget("the target holds control characters or is not Unicode")


def _is_words(text: str) -> bool:
    """`host=db1 dbname=x`. A known keyword decides, so that no file of that name in the working directory can."""
    first = _FIRST_WORD.match(text)
    if first is None:
        return False
    from dlq_sink.libpq.keyword import KEYWORDS, nearest  # what reads connection strings is not needed for a file

    return first[1] in KEYWORDS or (nearest(first[1]) is not None and not _is_there(Path(text)))


def _path(text: str) -> SQLiteTarget:
    if not text:
        raise BadTarget("the target is empty: give --db a path, a URL or the name of a store in the config")
    if _CONTROL.search(text):
        raise BadTarget("the target holds control characters")
    # A "no such file" would repeat the text, which may hold a password.
    if _LIKE_A_DSN.search(text) and not _is_there(Path(text)):
        from dlq_sink.libpq.conninfo import URI_HELP

        raise BadTarget(f"that looks like a DSN, but cannot be read as one: {URI_HELP}")
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


def _postgres(text: str, environ: Mapping[str, str] | None, *, as_words: bool = False) -> PostgresTarget:
    from dlq_sink.libpq.conninfo import parse_uri, parse_words
    from dlq_sink.libpq.keyword import SECRETS
    from dlq_sink.libpq.settings import resolved

    _check_text(text)
    said = parse_words(text) if as_words else parse_uri(text)
    settings, password = resolved(said, os.environ if environ is None else environ)
    kept = tuple((key, value) for key, value in said.items() if key not in SECRETS)
    return PostgresTarget(kept, settings, password)


def login(target: PostgresTarget) -> dict[str, str]:
    """User and password for the target's first server; an empty password if there is none."""
    settings = target.settings
    return {"user": settings.user, "password": target.password or settings.kept_password(settings.servers[0])}
