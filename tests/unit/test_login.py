"""Passwords from libpq's file, by libpq's rules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backends.target import PostgresTarget, login, parse_target

TARGET = "host=db.example port=5433 user=ops dbname=trading"


def password_for(text: str) -> str:
    target = parse_target(text)
    assert isinstance(target, PostgresTarget)
    return login(target)["password"]


@pytest.fixture
def passfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PGPASSWORD", "PGUSER", "PGHOST", "PGPORT", "PGDATABASE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "pgpass"
    monkeypatch.setenv("PGPASSFILE", str(path))
    return path


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


@pytest.mark.parametrize(
    ("line", "password"),
    [
        ("db.example:5433:trading:ops:secret", "secret"),
        ("*:*:*:*:secret", "secret"),
        ("db.example:*:trading:ops:with:colons", "with:colons"),
        (r"db.example:5433:trading:ops:es\:ca\\ped", "es:ca\\ped"),
        ("db.example:5433:trading:ops:", ""),
        ("other:5433:trading:ops:secret", ""),
        ("db.example:5432:trading:ops:secret", ""),
        ("db.example:5433:other:ops:secret", ""),
        ("db.example:5433:trading:eve:secret", ""),
        ("db.example:5433:trading", ""),
        ("# db.example:5433:trading:ops:secret", ""),
        ("", ""),
        (r"db\.example:5433:trad\ing:ops:secret", "secret"),
        ("db.example:5433:trading:ops:secret\r", "secret"),
        ("db.example:5433:trading:ops: blank ", " blank "),
        ("db.example:5433:trading:ops:one\x0bline\x1cstill", "one\x0bline\x1cstill"),
        ("*:*:*:**:secret", ""),
        ("db.example :5433:trading:ops:secret", ""),
        ("too:few\n\ngarbage\ndb.example:5433:trading:ops:second", "second"),
        ("*:*:*:*:first\ndb.example:5433:trading:ops:second", "first"),
    ],
)
def test_a_line(passfile: Path, line: str, password: str) -> None:
    write(passfile, line + "\n")
    assert password_for(TARGET) == password


def test_what_others_may_read_is_not_used(passfile: Path) -> None:
    for mode in (0o644, 0o640, 0o604, 0o620):
        write(passfile, "*:*:*:*:secret", mode)
        assert password_for(TARGET) == ""


def test_no_file(passfile: Path) -> None:
    assert password_for(TARGET) == ""


def test_a_pipe_is_not_waited_for(passfile: Path) -> None:
    os.mkfifo(passfile, 0o600)
    assert password_for(TARGET) == ""


def test_string_service_and_environment_go_first(passfile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(passfile, "*:*:*:*:file")
    assert password_for(f"{TARGET} password=own") == "own"
    assert password_for(f"{TARGET} password=''") == "file", "as libpq: an empty password is none"
    monkeypatch.setenv("PGPASSWORD", "environment")
    assert password_for(TARGET) == "environment"
    services = passfile.with_name("services")
    services.write_text("[prod]\npassword=service\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    assert password_for(f"{TARGET} service=prod") == "service"
    assert password_for(f"{TARGET} service=prod password=own") == "own"


def test_a_default_socket_is_localhost_and_the_database_defaults_to_the_user(passfile: Path) -> None:
    write(passfile, "localhost:5432:ops:ops:secret")
    assert password_for("host=/run/postgresql user=ops") == "secret"
    assert password_for("user=ops") == "secret"
    assert password_for("host=/srv/pg user=ops") == "", "another folder goes by its own name"
    write(passfile, "/srv/pg:5432:ops:ops:secret")
    assert password_for("host=/srv/pg user=ops") == "secret"


def test_an_ipv6_host(passfile: Path) -> None:
    write(passfile, r"\:\:1:5432:*:*:secret")
    assert password_for("host=::1 user=ops") == "secret"
    assert password_for("postgresql://ops@[::1]/x") == "secret"


def test_each_host_has_its_own_password(passfile: Path) -> None:
    write(passfile, "a:*:*:*:for-a\nb:6001:*:*:for-b\n10.0.0.1:*:*:*:by-address\n")
    target = parse_target("host=a,b,c port=5432,6001,5432 user=ops")
    assert isinstance(target, PostgresTarget)
    assert [target.settings.kept_password(server) for server in target.settings.servers] == ["for-a", "for-b", ""]
    assert password_for("host=a hostaddr=10.0.0.1 user=ops") == "for-a", "the name decides where there is one"
    assert password_for("hostaddr=10.0.0.1 user=ops") == "by-address"


def test_a_file_named_in_the_target(passfile: Path, tmp_path: Path) -> None:
    write(tmp_path / "mine", "*:*:*:*:mine")
    assert password_for(f"{TARGET} passfile={tmp_path / 'mine'}") == "mine"
