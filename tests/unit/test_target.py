"""Targets as people write them; and that no message repeats what could be a password."""

from __future__ import annotations

from pathlib import Path

import pytest
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


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("postgresql://ops@db/trading", PostgresTarget("db", None, "ops", "trading")),
        ("postgres://ops@db:5433/trading", PostgresTarget("db", 5433, "ops", "trading")),
        ("postgresql+asyncpg://ops@db/trading", PostgresTarget("db", None, "ops", "trading")),
        ("postgresql:///trading", PostgresTarget(None, None, None, "trading")),
        ("postgresql://", PostgresTarget(None, None, None, None)),
        ("postgresql://ops:p%40ss%2Fw@db/trading", PostgresTarget("db", None, "ops", "trading", password="p@ss/w")),
        ("postgresql://ops:p@ss@db/trading", PostgresTarget("db", None, "ops", "trading", password="p@ss")),
        ("postgresql://ops:@db/trading", PostgresTarget("db", None, "ops", "trading", password="")),
        ("postgresql://o%20ps@db/trading", PostgresTarget("db", None, "o ps", "trading")),
        ("postgresql://ops@[::1]:5433/trading", PostgresTarget("[::1]", 5433, "ops", "trading")),
        ("postgresql:///trading?host=/run/pg&port=5433", PostgresTarget("/run/pg", 5433, None, "trading")),
        ("postgresql://db/?user=ops&dbname=trading", PostgresTarget("db", None, "ops", "trading")),
        (
            "postgresql://db/trading?sslmode=require",
            PostgresTarget("db", None, None, "trading", options=(("sslmode", "require"),)),
        ),
    ],
)
def test_dsns(text: str, target: PostgresTarget) -> None:
    assert parse_target(text) == target


def test_a_dsn_may_say_who_calls_and_how_long_it_waits() -> None:
    target = parse_target("postgresql://db/trading?connect_timeout=9&application_name=on-call")
    assert isinstance(target, PostgresTarget)
    assert (target.connect_seconds, target.dsn) == (9.0, "postgresql://db/trading?application_name=on-call")


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
        "postgresql://ops@db/x/y",
        "postgresql://ops@db/x?nonsense=1",
        "postgresql://ops@db/x?connect_timeout=soon",
        "postgresql://ops@db/x?connect_timeout=0",
        "postgresql://ops@db/x#y",
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
    assert parse_target("postgresql://ops:secret@db:5433/trading").label == "postgres db:5433/trading"
    assert parse_target("postgresql://ops:secret@db:5432/trading").label == "postgres db/trading"
    assert parse_target("postgresql://user%3Asecret@db").label == "postgres db"
    assert parse_target("postgresql:///trading").label == "postgres local/trading"
    assert parse_target("a.db").label == "sqlite a.db"
    assert "secret" not in repr(parse_target("postgresql://ops:secret@db/trading"))


def test_the_drivers_dsn_has_no_password() -> None:
    target = parse_target("postgresql://o%40ps:se%20cret@[::1]:5433/trading?sslmode=require&host=/run/pg")
    assert isinstance(target, PostgresTarget)
    assert target.dsn == "postgresql://o%40ps@/trading?sslmode=require&host=%2Frun%2Fpg&port=5433"
    assert target.password == "se cret"


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    for candidate in (text, f"postgresql://{text}", f"sqlite:///{text}", f"postgresql://ops:{text}@db/x"):
        try:
            said = parse_target(candidate).label
        except BadTarget as refused:
            said = str(refused)
        assert "\n" not in said
