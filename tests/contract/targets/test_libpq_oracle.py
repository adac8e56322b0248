"""How psql's own library reads a connection string, where it is installed, against how we read it."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from pathlib import Path

import pytest
from dlq_sink.libpq.conninfo import parse_uri, parse_words

from backends.store import BadTarget
from backends.target import PostgresTarget, parse_target

_FOUND = ctypes.util.find_library("pq")
pytestmark = pytest.mark.skipif(_FOUND is None, reason="needs libpq (Debian's libpq5)")


class Option(ctypes.Structure):
    _fields_ = [
        ("keyword", ctypes.c_char_p),
        ("envvar", ctypes.c_char_p),
        ("compiled", ctypes.c_char_p),
        ("val", ctypes.c_char_p),
        ("label", ctypes.c_char_p),
        ("dispchar", ctypes.c_char_p),
        ("dispsize", ctypes.c_int),
    ]


@pytest.fixture(scope="module")
def libpq() -> ctypes.CDLL:
    library = ctypes.CDLL(_FOUND)
    for name in ("PQconninfoParse", "PQconninfo"):
        getattr(library, name).restype = ctypes.POINTER(Option)
    library.PQconnectStart.restype = ctypes.c_void_p
    library.PQerrorMessage.restype = ctypes.c_char_p
    for name in ("PQerrorMessage", "PQfinish", "PQconninfo", "PQconninfoFree"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    return library


def values(options: ctypes._Pointer[Option]) -> dict[str, str]:
    """Of a list of options that ends with one without a keyword."""
    found: dict[str, str] = {}
    at = 0
    while options and options[at].keyword is not None:
        if (value := options[at].val) is not None:
            found[options[at].keyword.decode()] = value.decode()
        at += 1
    return found


WORDS = [
    "host=db1",
    "host=db1 port=5433 dbname=trading user=ops password=secret",
    "host = db1   port =5433",
    "  host=db1  ",
    "host=db1\tport=5433\ndbname=x",
    "dbname='my db'",
    "dbname=''",
    "password='it\\'s' user=o\\ ps",
    "password='back\\\\slash'",
    "password=a\\'b",
    "password=a'b",
    "password=a=b",
    "password=a&b#c@d/e",
    "host=a,b,c port=1,2,3",
    "host=a hostaddr=10.0.0.1",
    "host=/run/postgresql",
    "host=@abstract",
    "host=::1",
    "host=a host=b",
    "service=",
    "sslmode=verify-full sslrootcert=/x sslcert=/y sslkey=/z sslcrl=/c sslcrldir=/d sslsni=0",
    "application_name=a fallback_application_name=b connect_timeout=9 client_encoding=auto",
    "options='-c geqo=off -c statement_timeout=5s'",
    "keepalives=1 keepalives_idle=1 keepalives_interval=2 keepalives_count=3 tcp_user_timeout=4",
    "gssencmode=disable channel_binding=prefer krbsrvname=x",
    "target_session_attrs=prefer-standby requirepeer=x passfile=/p",
    "ssl_min_protocol_version=TLSv1.2 ssl_max_protocol_version=TLSv1.3 sslpassword=x sslcompression=0",
    "replication=database",
    "",
    "host",
    "host db1",
    "host=db1 port",
    "host='db1",
    "host='db1\\",
    "=x",
    "host=db1 =x",
    "nonsense=1",
    "Host=db1",
    "host=db1 sslmod=x",
    "host='a'port=1",
    "host=\\",
    "host=a\\",
    "host= port=5",
]
URIS = [
    "",
    "/",
    "/trading",
    "db1",
    "db1/trading",
    "db1:5433/trading",
    "db1:/trading",
    ":5433",
    "ops@",
    "ops@/trading",
    "ops@db1",
    "ops:secret@db1:5433/trading",
    "ops:@db1",
    ":secret@db1",
    "@db1",
    ":@",
    "o%20ps:p%40%2F%3a@db1/my%20db",
    "ops:p?q#r@db1",
    "a,b,c",
    "a:1,b:2,c:3/x",
    "a,b:2/x",
    "a:1,b/x",
    ",b",
    "[::1]",
    "[::1]:5433/x",
    "[::1],[fe80::1]:2",
    "ops@[::1]/x",
    "%2Frun%2Fpg/x",
    "db1/a/b",
    "db1?sslmode=require",
    "db1/x?sslmode=require&connect_timeout=9",
    "/x?host=/run/pg&port=5433",
    "a/x?host=b",
    "db1/x?user=ops&password=se%26cret&dbname=y",
    "db1/x?ssl=true",
    "db1/x?application_name=a+b",
    "db1/x?application_name=a@b",
    "db1/x?options=-c%20geqo%3Doff",
    "db1/x?target_session_attrs=read-write",
    "db1/x?",
    "db1/x?host=",
    "db1/x?%73slmode=require",
    "db1/x?sslmode",
    "db1/x?sslmode=a=b",
    "db1/x?nonsense=1",
    "db1/x?ssl=false",
    "db1/%",
    "db1/%4",
    "db1/%zz",
    "db1/%00",
    "[::1",
    "[]",
    "[::1]x",
    "db1/x?&sslmode=require",
    "db1/x?sslmode=require&&port=1",
]


def test_the_table_is_long_enough() -> None:
    assert len(WORDS) + len(URIS) >= 60


@pytest.mark.parametrize("text", [*WORDS, *(f"postgresql://{rest}" for rest in URIS)])
def test_a_string_is_read_as_libpq_reads_it(libpq: ctypes.CDLL, text: str) -> None:
    problem = ctypes.c_char_p()
    options = libpq.PQconninfoParse(text.encode(), ctypes.byref(problem))
    theirs = values(options) if options else None
    try:
        ours = parse_uri(text.removeprefix("postgresql://")) if "://" in text else parse_words(text)
    except BadTarget:
        ours = None
    assert ours == theirs, problem.value


RESOLVED = [
    ("host=127.0.0.1 port=1 user=ops", {}),
    ("postgresql://127.0.0.1:1", {"PGUSER": "me", "PGDATABASE": "trading"}),
    ("postgresql://", {"PGHOST": "127.0.0.1", "PGPORT": "1", "PGUSER": "me"}),
    ("dbname=x", {"PGHOST": "127.0.0.1", "PGPORT": "1", "PGUSER": "me", "PGAPPNAME": "a", "PGOPTIONS": "-c geqo=off"}),
    ("service=prod", {"PGUSER": "me", "PGHOST": "127.0.0.9"}),
    ("service=prod port=2", {"PGUSER": "me", "PGPORT": "3"}),
    ("postgresql:///x?service=prod", {"PGUSER": "me"}),
    ("postgresql://", {"PGSERVICE": "prod", "PGUSER": "me"}),
    ("host=127.0.0.1 port=1", {"PGUSER": "me", "PGSSLMODE": "disable", "PGCONNECT_TIMEOUT": "7"}),
    ("host=127.0.0.1 port=1 sslmode=allow", {"PGUSER": "me", "PGSSLMODE": "disable"}),
    ("host=127.0.0.1 port=''", {"PGUSER": "me", "PGPORT": "1"}),
    ("host=127.0.0.1 port=1 dbname=''", {"PGUSER": "me", "PGDATABASE": "no"}),
    ("hostaddr=127.0.0.1 port=1", {"PGUSER": "me", "PGHOST": "db1"}),
    ("host=127.0.0.1 port=1", {"PGUSER": "me", "PGTARGETSESSIONATTRS": "read-write", "PGPASSWORD": "pw"}),
    ("service=none", {"PGUSER": "me"}),
    ("host=127.0.0.1,127.0.0.2 port=1,2,3", {"PGUSER": "me"}),
    ("host=127.0.0.1 hostaddr=127.0.0.1,127.0.0.2 port=1", {"PGUSER": "me"}),
    ("host=127.0.0.1 port=1 sslmode=maybe", {"PGUSER": "me"}),
    ("host=127.0.0.1 port=1 target_session_attrs=leader", {"PGUSER": "me"}),
    ("host=127.0.0.1 port=99999", {"PGUSER": "me"}),
    ("host=127.0.0.1 port=x", {"PGUSER": "me"}),
]
COMPARED = ("user", "dbname", "password", "sslmode", "application_name", "options", "target_session_attrs")


@pytest.mark.parametrize(("text", "environ"), RESOLVED)
def test_what_a_string_leaves_out_comes_from_where_libpq_takes_it(
    libpq: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, environ: dict[str, str]
) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    (tmp_path / "services").write_text("[prod]\nhost=127.0.0.1\nport=1\ndbname=from-service\npassword=kept\n")
    for name, value in {"PGSERVICEFILE": str(tmp_path / "services"), "HOME": str(tmp_path), **environ}.items():
        monkeypatch.setenv(name, value)
    link = libpq.PQconnectStart(text.encode())
    theirs = values(libpq.PQconninfo(link))
    message = libpq.PQerrorMessage(link).decode()
    libpq.PQfinish(link)
    try:
        target = parse_target(text)
    except BadTarget:
        assert message, "libpq has no objection"
        assert "connection to server" not in message, "libpq went on to connect"
        return
    assert not message or "connection to server" in message
    assert isinstance(target, PostgresTarget)
    ours = {**target.settings.values, "user": target.user, "dbname": target.settings.database}
    ours["password"] = target.password or ""
    default = {"sslmode": "prefer", "target_session_attrs": "any"}
    for name in COMPARED:
        assert (ours.get(name) or default.get(name, "")) == (theirs.get(name) or default.get(name, "")), name
    assert ",".join(str(server.port) for server in target.settings.servers) == (theirs["port"] or "5432")
