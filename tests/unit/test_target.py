"""Targets as people write them; and that no message repeats what could be a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from dlq_sink.libpq.keyword import KEYWORDS
from hypothesis import given
from hypothesis import strategies as st

from backends.store import BadTarget
from backends.target import PostgresTarget, SQLiteTarget, parse_target


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("dlq.db", "dlq.db"),
        ("./a b/dlq.db", "a b/dlq.db"),
        ("/var/lib/dlq.db", "/var/lib/dlq.db"),
        ("sqlite:///dlq.db", "dlq.db"),
        ("sqlite:////var/lib/dlq.db", "/var/lib/dlq.db"),
        ("sqlite+aiosqlite:///dlq.db", "dlq.db"),
        ("SQLite:///a%20b.db", "a b.db"),
        ("C:weird@name", None),
        ("postgres/store.db", "postgres/store.db"),
        ("order@desk.db", "order@desk.db"),
    ],
)
def test_paths(text: str, path: str | None) -> None:
    if path is None:
        with pytest.raises(BadTarget):
            parse_target(text)
    else:
        assert parse_target(text) == SQLiteTarget(Path(path))


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ops")
    assert parse_target("~/dlq.db") == SQLiteTarget(Path("/home/ops/dlq.db"))
    with pytest.raises(BadTarget, match="no such user"):
        parse_target("~nobody-of-that-name/dlq.db")


def test_a_file_that_looks_like_a_dsn_but_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b@c").touch()
    assert parse_target("a:b@c") == SQLiteTarget(Path("a:b@c"))


def test_immutable() -> None:
    assert parse_target("sqlite:////x.db?immutable=1") == SQLiteTarget(Path("/x.db"), immutable=True)
    for wrong in (
        "sqlite:///x.db?mode=rw",
        "sqlite:///x.db?immutable=0",
        "sqlite:///x.db?immutable",
        "sqlite://x.db",
        "sqlite:///",
    ):
        with pytest.raises(BadTarget):
            parse_target(wrong)


def postgres(text: str, **environ: str) -> PostgresTarget:
    target = parse_target(text, {"HOME": "/nowhere", **environ})
    assert isinstance(target, PostgresTarget)
    return target


@pytest.mark.parametrize(
    ("text", "servers", "user", "database", "password"),
    [
        ("postgresql://ops@db/trading", "db", "ops", "trading", None),
        ("postgres://ops@db:5433/trading", "db:5433", "ops", "trading", None),
        ("postgresql+asyncpg://ops@db/trading", "db", "ops", "trading", None),
        ("postgresql:///trading", "localhost", "me", "trading", None),
        ("postgresql://", "localhost", "me", "me", None),
        ("postgresql://ops:p%40ss%2Fw@db/trading", "db", "ops", "trading", "p@ss/w"),
        ("postgresql://ops:p@ss@db/trading", "db", "ops", "trading", "p@ss"),
        ("postgresql://ops:p?s#s@db/trading", "db", "ops", "trading", "p?s#s"),
        ("postgresql://ops:@db/trading", "db", "ops", "trading", None),
        ("postgresql://o%20ps@db/trading", "db", "o ps", "trading", None),
        ("postgresql://ops@[::1]:5433/trading", "[::1]:5433", "ops", "trading", None),
        ("postgresql:///trading?host=/run/pg&port=5433", "/run/pg:5433", "me", "trading", None),
        ("postgresql://%2Frun%2Fpg/trading", "/run/pg", "me", "trading", None),
        ("postgresql://db/?user=ops&dbname=trading", "db", "ops", "trading", None),
        ("postgresql://ops@a:1,b,[::1]:3/x?sslmode=require", "a:1,b,[::1]:3", "ops", "x", None),
        ("host=a,b port=5433 dbname=x user=ops password=pw", "a:5433,b:5433", "ops", "x", "pw"),
        ("dbname = 'my db' user=o\\ ps password='it\\'s'", "localhost", "o ps", "my db", "it's"),
        ("host=db1 hostaddr=10.0.0.1 dbname=x user=ops", "db1(10.0.0.1)", "ops", "x", None),
        ("hostaddr=10.0.0.1 user=ops", "10.0.0.1", "ops", "ops", None),
        ("host=@pg user=ops", "@pg", "ops", "ops", None),
    ],
)
def test_connection_strings(text: str, servers: str, user: str, database: str, password: str | None) -> None:
    target = postgres(text, PGUSER="me")
    assert ",".join(server.shown for server in target.settings.servers) == servers
    assert (target.user, target.settings.database, target.password) == (user, database, password)


def test_a_string_may_say_who_calls_and_how_long_it_waits() -> None:
    target = postgres("postgresql://db/trading?connect_timeout=9&application_name=on-call")
    assert target.settings.connect_seconds == 9.0
    assert target.settings.server_settings == {"application_name": "on-call"}
    assert target.dsn == "postgresql://db/trading?connect_timeout=9&application_name=on-call"
    assert postgres("connect_timeout=0").settings.connect_seconds is None, "as libpq: without end"


def test_words_are_a_connection_string_even_if_a_file_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that somebody put into the working directory must not stand in for the database."""
    monkeypatch.chdir(tmp_path)
    for name in ("service=prod", "host=db1 dbname=x", "run=5.db"):
        (tmp_path / name).touch()
    assert isinstance(parse_target("host=db1 dbname=x"), PostgresTarget)
    with pytest.raises(BadTarget, match="service"):
        parse_target("service=prod")
    assert parse_target("run=5.db") == SQLiteTarget(Path("run=5.db"))


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("host=db sslmod=require", "sslmode"),
        ("postgresql://db/x?aplication_name=y", "application_name"),
        ("hots=db1 dbname=x", "host"),
    ],
)
def test_an_unknown_keyword_names_the_nearest(text: str, near: str) -> None:
    with pytest.raises(BadTarget, match=f"unknown keyword; did you mean {near}\\?$"):
        parse_target(text)


@pytest.mark.parametrize(
    ("pair", "possible"),
    [
        ("gssencmode=disable", True),
        ("gssencmode=prefer", True),
        ("gssencmode=require", False),
        ("channel_binding=disable", True),
        ("channel_binding=prefer", True),
        ("channel_binding=require", False),
        ("replication=false", True),
        ("replication=database", False),
        ("oauth_issuer=x", False),
        ("keepalives=1", True),
        ("keepalives_idle=30", True),
        ("keepalives_interval=5", True),
        ("keepalives_count=3", True),
        ("tcp_user_timeout=9000", True),
        ("client_encoding=auto", True),
        ("sslcrl=/x", True),
        ("sslcompression=0", True),
        ("target_session_attrs=prefer-standby", True),
        ("load_balance_hosts=random", True),
        ("require_auth=!password,!md5", True),
    ],
)
def test_what_the_driver_cannot_do_says_so(pair: str, possible: bool) -> None:
    if possible:
        assert pair.partition("=")[0] in postgres(f"host=db {pair}").settings.values
        return
    with pytest.raises(BadTarget, match=f"^{pair.partition('=')[0]}.* is not supported here"):
        parse_target(f"host=db {pair}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mysql://ops@db/x",
        "postgresql://ops@db:0/x",
        "postgresql://ops@db:65536/x",
        "postgresql://ops@db:a/x",
        "postgresql://ops@d b/x",
        "postgresql://ops@a..b/x",
        "postgresql://ops@" + "a" * 64 + ".example/x",
        "postgresql://ops@db/x?nonsense=1",
        "postgresql://ops@db/x?connect_timeout=soon",
        "postgresql://ops@db/x#y",
        "postgresql://ops@db/x?sslmode",
        "postgresql://ops@db/x?sslmode=a=b",
        "postgresql://ops@db/x?sslmode=maybe",
        "postgresql://ops@db/x?target_session_attrs=leader",
        "postgresql://ops@[::1/x",
        "postgresql://ops@[]/x",
        "postgresql://ops@[::1]x/x",
        "postgresql://ops@[::x]/x",
        "postgresql://ops:pa/ss@db/x",
        "postgresql://ops@db/x%4",
        "postgresql://ops@db/x%zz",
        "postgresql://ops@a,b/x?port=1,2,3",
        "host=a,b hostaddr=10.0.0.1",
        "hostaddr=db1",
        "host=db user",
        "host='db",
        "host=d@b",
        "keepalives_idle=soon",
        "sslmode=disable sslnegotiation=direct",
        "sslrootcert=system sslmode=require",
        "require_auth=password,!md5",
        "postgresql://ops@db/x%00y",
        "postgresql://o%0Aps@db/x",
        "postgresql://ops@db/x\n",
        "dlq\ndb",
        "dlq\0.db",
        "postgresql://\udcff@db/x",
        "sqlite:///a%00b",
    ],
)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(BadTarget) as refused:
        parse_target(text)
    assert "\n" not in str(refused.value)


def test_labels_say_where_but_nothing_secret() -> None:
    assert postgres("postgresql://ops:secret@db:5433/trading").label == "postgres db:5433/trading"
    assert postgres("postgresql://ops:secret@db:5432/trading").label == "postgres db/trading"
    assert postgres("postgresql://user%3Asecret@db").label == "postgres db"
    assert postgres("postgresql:///trading").label == "postgres localhost/trading"
    assert postgres("postgresql:///trading", PGHOST="db1", PGPORT="6000").label == "postgres db1:6000/trading"
    assert postgres("postgresql://", PGHOST="db1", PGDATABASE="trading").label == "postgres db1/trading"
    assert postgres("host=a,b dbname=x").label == "postgres a,b/x"
    assert postgres("host=/run/pg dbname=x").label == "postgres /run/pg/x"
    assert parse_target("a.db").label == "sqlite a.db"
    assert "secret" not in repr(postgres("postgresql://ops:secret@db/trading"))
    assert "secret" not in repr(postgres("host=db sslpassword=secret"))


def test_the_label_names_the_server_that_was_reached() -> None:
    target = postgres("host=a,b dbname=x")
    target.route.server = target.settings.servers[1]
    assert target.label == "postgres b/x"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://o%40ps:se%20cret@[::1]:5433/trading?sslmode=require",
        "postgresql://ops@a:1,b:2/x?target_session_attrs=read-write",
        "host=/run/pg dbname='my db' user=ops password=secret application_name='a & b'",
        "postgresql:///x?host=@pg&options=-c%20geqo%3Doff",
        "postgresql://",
        "hostaddr=127.0.0.1 sslpassword=secret",
    ],
)
def test_the_address_without_its_password_names_the_same_target(text: str) -> None:
    target = postgres(text)
    again = postgres(target.dsn)
    assert (again.settings.servers, again.settings.user) == (target.settings.servers, target.settings.user)
    assert again.dsn == target.dsn
    assert "cret" not in target.dsn


def test_string_then_service_then_environment_then_default(tmp_path: Path) -> None:
    file = tmp_path / "services"
    file.write_text(
        "# ours\n[other]\nhost=no\n\n[prod]\nhost=db-service\nport=6001\npassword=pw\nhost=second\n[x]\nuser=no\n"
    )
    environ = {"PGSERVICEFILE": str(file), "PGHOST": "db-environ", "PGUSER": "me", "PGPORT": "1", "PGPASSWORD": "no"}
    target = postgres("service=prod port=6002", **environ)
    assert (target.label, target.user, target.password) == ("postgres db-service:6002", "me", "pw")
    assert target.dsn == "postgresql:///?service=prod&port=6002"
    assert postgres("postgresql://", **environ, PGSERVICE="prod").label == "postgres db-service:6001"
    assert postgres("postgresql:///?service=prod", **environ).label == "postgres db-service:6001"
    assert postgres("postgresql://", **environ).label == "postgres db-environ:1"
    assert postgres("host='' port=''", **environ).label == "postgres localhost", "empty is said: the default"
    (tmp_path / ".pg_service.conf").write_text("[home]\nhost=db-home\n")
    assert postgres("service=home", HOME=str(tmp_path)).label == "postgres db-home"
    (tmp_path / "pg_service.conf").write_text("[system]\nhost=db-system\n")
    assert postgres("service=system", PGSYSCONFDIR=str(tmp_path)).label == "postgres db-system"


@pytest.mark.parametrize(
    "lines",
    ["", "[other]\nhost=x", "[prod]\nnonsense", "[prod]\nhost = x", "[prod]\nservice=x", "[prod]\nldap://x/y"],
)
def test_a_service_that_cannot_be_read(tmp_path: Path, lines: str) -> None:
    file = tmp_path / "services"
    file.write_text(lines)
    with pytest.raises(BadTarget, match="service"):
        postgres("service=prod", PGSERVICEFILE=str(file))
    with pytest.raises(BadTarget, match="service"):
        postgres("service=prod", PGSERVICEFILE=str(tmp_path / "none"))


def test_every_variable_of_libpq_counts() -> None:
    for name, variable in KEYWORDS.items():
        given = {"port": "6000", "connect_timeout": "7", "hostaddr": "127.0.0.1", "sslmode": "require"}
        if not variable or name in ("service", "servicefile", "password", "user", "dbname", "host"):
            continue
        target = postgres("postgresql://", **{variable: given.get(name, "")})
        if name in ("sslmode", "connect_timeout"):
            assert target.settings.values[name] == given[name]
    for variable, word in (("PGSSLMODE", "maybe"), ("PGPORT", "x"), ("PGTARGETSESSIONATTRS", "leader")):
        with pytest.raises(BadTarget):
            postgres("postgresql://", **{variable: word})


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    for candidate in (
        text,
        f"postgresql://{text}",
        f"sqlite:///{text}",
        f"postgresql://ops:{text}@db/x",
        f"host={text}",
    ):
        try:
            said = parse_target(candidate).label
        except BadTarget as refused:
            said = str(refused)
        assert "\n" not in said


_ODD = st.text(st.sampled_from("aZ09 @/:?#&='\\%,[]-_.\n\t"), max_size=6)


@given(_ODD, _ODD, st.sampled_from(["uri", "words", "query"]))
def test_no_error_repeats_what_could_be_a_password(before: str, behind: str, kind: str) -> None:
    password = f"{before}CANARY{behind}"
    for text in {
        "uri": (f"postgresql://ops:{password}@db/x", f"postgres:ops:{password}@db", f"mysql://ops:{password}@db/x"),
        "words": (f"host=db password={password}", f"password = '{password}", f"hots=db pasword={password}"),
        "query": (f"postgresql://db/x?password={password}", f"postgresql://db/x?pasword={password}"),
    }[kind]:
        try:
            target = parse_target(text, {})
            assert isinstance(target, PostgresTarget)
            shown = target.label + target.dsn + repr(target)
        except BadTarget as refused:
            shown = str(refused)
        assert "CANARY" not in shown
