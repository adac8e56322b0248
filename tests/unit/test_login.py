"""Passwords from libpq's file, by libpq's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.target import PostgresTarget, login

TARGET = PostgresTarget("db.example", 5433, "ops", "trading")


@pytest.fixture
def passfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PGPASSWORD", "PGUSER", "PGHOST", "PGPORT", "PGDATABASE"):
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
        ("too:few\n\ngarbage\ndb.example:5433:trading:ops:second", "second"),
        ("*:*:*:*:first\ndb.example:5433:trading:ops:second", "first"),
    ],
)
def test_a_line(passfile: Path, line: str, password: str) -> None:
    write(passfile, line + "\n")
    assert login(TARGET) == {"user": "ops", "password": password}


def test_what_others_may_read_is_not_used(passfile: Path) -> None:
    write(passfile, "*:*:*:*:secret", 0o644)
    assert login(TARGET)["password"] == ""


def test_no_file(passfile: Path) -> None:
    assert login(TARGET)["password"] == ""


def test_the_targets_own_password_and_the_environment_go_first(passfile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(passfile, "*:*:*:*:file")
    assert login(PostgresTarget(None, None, "ops", None, password="own"))["password"] == "own"
    monkeypatch.setenv("PGPASSWORD", "environment")
    assert login(TARGET)["password"] == "environment"


def test_a_socket_is_localhost_and_the_database_defaults_to_the_user(passfile: Path) -> None:
    write(passfile, "localhost:5432:ops:ops:secret")
    assert login(PostgresTarget("/run/postgresql", None, "ops", None))["password"] == "secret"
    assert login(PostgresTarget(None, None, "ops", None))["password"] == "secret"


def test_a_file_named_in_the_target(passfile: Path, tmp_path: Path) -> None:
    write(tmp_path / "mine", "*:*:*:*:mine")
    assert (
        login(PostgresTarget("h", None, "ops", None, options=(("passfile", str(tmp_path / "mine")),)))["password"]
        == "mine"
    )
