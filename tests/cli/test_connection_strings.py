"""Connection strings through the command line: every form attaches, a bad one is exit 2 and one line, none is shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest

from backends.target import PostgresTarget, parse_target
from console.cli.context import Context, keeper_of, password_of
from console.cli.parser import build_parser
from console.cli.serve import console_command, console_environ
from console.settings.config import load_config
from console.settings.identity import current_actor
from tests.cli.conftest import Dlq
from tests.support.orders import postgres_store, row
from tests.unit.test_secrets import Windows

SECRET = "CANARY-pa55"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def place(postgres_db: str) -> tuple[int, str]:
    """Port and database of a store with one entry."""
    postgres_store(postgres_db, [row(1)])
    target = parse_target(postgres_db)
    assert isinstance(target, PostgresTarget)
    return target.settings.servers[0].port, target.settings.database


def test_every_form_attaches(dlq: Dlq, place: tuple[int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port, database = place
    (tmp_path / "services").write_text(f"[prod]\nhost=127.0.0.1\nport={port}\nuser=postgres\ndbname={database}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    for text in (
        f"host=127.0.0.1 port={port} user=postgres dbname={database} password={SECRET}",
        f"postgresql://postgres:{SECRET}@127.0.0.1:1,127.0.0.1:{port}/{database}?target_session_attrs=read-write",
        f"postgresql://postgres@127.0.0.1:{port}/{database}?gssencmode=disable&channel_binding=prefer&keepalives_idle=9",
        f"service=prod password={SECRET}",
        "postgresql:///?service=prod",
    ):
        ran = dlq("list", "--db", text, "--json")
        assert (ran.code, len(ran.rows)) == (0, 1), ran.err
        doctor = dlq("doctor", "--db", text)
        assert f"postgres 127.0.0.1:{port}/{database}" in doctor.out + doctor.err
        for verb in ("doctor", "metrics", "check", "report --since 8h", "groups", "audit verify"):
            seen = dlq(*verb.split(), "--db", text)
            assert SECRET not in seen.out + seen.err
    for name, value in {"HOST": "127.0.0.1", "PORT": str(port), "USER": "postgres", "DATABASE": database}.items():
        monkeypatch.setenv(f"PG{name}", value)
    assert len(dlq("list", "--db", "postgresql://", "--json").rows) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"host=db1 sslmod=require password={SECRET}", "did you mean sslmode?"),
        (f"postgresql://ops:{SECRET}@db1/x?gssencmode=require", "gssencmode=require is not supported here"),
        (f"postgresql://ops:{SECRET}@db1/x?channel_binding=require", "channel_binding=require is not supported"),
        (f"host=db1 password={SECRET} replication=database", "replication=database is not supported here"),
        (f"host=db1 password='{SECRET}", "a quote that is not closed"),
        (f"host=db1 password= {SECRET} {SECRET}", 'a word without "="'),
        (f"postgresql://ops:{SECRET}@db1:{SECRET}/x", "port is not between"),
        (f"postgresql://ops:/{SECRET}@db1/x", "cannot be read"),
        (f"service=none password={SECRET}", "service"),
    ],
)
def test_a_bad_string_is_exit_2_and_one_line(dlq: Dlq, text: str, said: str) -> None:
    for verb in (("list",), ("doctor", "--json"), ("init",)):
        ran = dlq(*verb, "--db", text)
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err
        assert ran.err.count("\n") == 1
        assert SECRET not in ran.err


def test_a_refused_login_does_not_repeat_it(dlq: Dlq, place: tuple[int, str]) -> None:
    port, _ = place
    for text in (
        f"postgresql://nobody-here:{SECRET}@127.0.0.1:{port}/x",
        f"host=127.0.0.1 port={port} user=nobody-here password={SECRET} dbname=x",
    ):
        ran = dlq("list", "--db", text)
        assert ran.code == 5
        assert SECRET not in ran.err


@pytest.mark.parametrize("text", [f"postgresql://ops:{SECRET}@db1/x", f"host=db1 password={SECRET}"])
def test_no_child_has_it_in_its_argument_list(text: str) -> None:
    for words in (["--db", text], ["serve", "--db", text]):
        args = build_parser().parse_args(words)
        context = Context(args, load_config(None, {}), current_actor(None))
        keeper = keeper_of(context, context.store_config.url)
        told = [*keeper._words, *(console_command(context) if "serve" in words else ())]
        assert not any(SECRET in word for word in told)
        assert keeper._environ["DLQ_DB"] == text, "it goes by the environment, which is its owner's alone"
        if "serve" in words:
            assert console_environ(context)["DLQ_DB"] == text
        assert SECRET not in repr(context.store_config) + context.store_config.name


@pytest.fixture
def vault() -> Iterator[Windows]:
    backend, before = Windows(), keyring.get_keyring()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("postgresql://ops@db1/x", {}, "from-keyring"),
        ("host=db1 user=ops", {}, "from-keyring"),
        ("host=db1 user=ops password=own", {}, None),
        ("host=db1 user=ops", {"PGPASSWORD": "environ"}, None),
        ("service=prod", {}, None),
    ],
)
def test_the_keyring_is_asked_after_the_environment_and_before_the_password_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    vault: Windows,
    url: str,
    environ: dict[str, str],
    expected: str | None,
) -> None:
    (tmp_path / "services").write_text("[prod]\nhost=db1\npassword=service\n")
    (tmp_path / ".pgpass").write_text("*:*:*:*:file\n")
    (tmp_path / ".pgpass").chmod(0o600)
    for name, value in {"PGSERVICEFILE": str(tmp_path / "services"), **environ}.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "config.toml"
    file.write_text(f'[stores.prod]\nurl = "{url}"\n')
    vault.set_password("dlq-console/store/prod", "password", "from-keyring")
    config = load_config(str(file), {})
    assert password_of(config.stores["prod"], config) == expected
    assert bool(vault.asked) is (expected is not None)
