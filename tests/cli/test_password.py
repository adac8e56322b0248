"""A store's password comes from the keyring or .pgpass, is never on the command line, and is never printed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import keyring
import pytest

import backends
from console.cli.console import attach
from console.cli.context import Context
from console.cli.parser import build_parser
from console.settings.config import load_config
from console.settings.identity import current_actor
from tests.cli.conftest import Dlq
from tests.support.orders import postgres_store, row
from tests.unit.test_secrets import Windows


@pytest.fixture
def vault() -> Iterator[Windows]:
    backend = Windows()
    before = keyring.get_keyring()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


async def _run(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    await connection.close()


@pytest.mark.parametrize("item", ["password", "postgres"])
def test_the_keyring_is_asked_for_a_store_of_the_config(
    dlq: Dlq, postgres_db: str, tmp_path: Path, vault: Windows, item: str
) -> None:
    postgres_store(postgres_db, [row(1)])
    config = tmp_path / "config.toml"
    config.write_text(f'[stores.prod]\nurl = "{postgres_db}"\n')
    vault.set_password("dlq-console/store/prod", item, "CANARY-pa55")
    ran = dlq("list", "--db", "prod", "--config", str(config), "--json")
    assert len(ran.rows) == 1
    assert ("dlq-console/store/prod", item) in vault.asked
    assert "CANARY" not in ran.out + ran.err


def test_a_password_in_the_target_is_never_shown(dlq: Dlq, postgres_db: str) -> None:
    asyncio.run(_run(postgres_db, "SELECT 1"))
    with_password = postgres_db.replace("postgres@", "postgres:CANARY-pa55@")
    for words in (
        ("list",),
        ("doctor",),
        ("doctor", "--json"),
        ("dismiss", "dlq_x", "--reason", "test"),
        ("init",),
        ("list",),
    ):
        ran = dlq(*words, "--db", with_password)
        assert "CANARY" not in ran.out + ran.err
    down = with_password.replace("127.0.0.1:", "127.0.0.1:1")
    assert "CANARY" not in dlq("list", "--db", down).err


@pytest.mark.parametrize("item", ["password", "postgres"])
async def test_the_console_asks_the_keyring_as_the_command_line_does(
    postgres_db: str, tmp_path: Path, vault: Windows, monkeypatch: pytest.MonkeyPatch, item: str
) -> None:
    """Under `password` or the user's name, and never on the thread that answers keys."""
    await asyncio.to_thread(postgres_store, postgres_db, [row(1)])
    config = tmp_path / "config.toml"
    config.write_text(f'[stores.prod]\nurl = "{postgres_db}"\n')
    vault.set_password("dlq-console/store/prod", item, "CANARY-pa55")
    threads: list[threading.Thread] = []
    given: list[str | None] = []
    ask, opening = vault.get_password, backends.open_store

    def asked(service: str, username: str) -> str | None:
        threads.append(threading.current_thread())
        return ask(service, username)

    async def opened(target: str, **how: Any) -> Any:
        given.append(how["password"])
        return await opening(target, **how)

    monkeypatch.setattr(vault, "get_password", asked)
    monkeypatch.setattr("console.cli.context.open_store", opened)
    args = build_parser().parse_args(["--db", "prod", "--config", str(config)])
    context = Context(args, load_config(str(config), {}), current_actor(None))
    place = await attach(context, context.store_config)
    await place.aclose()
    assert given == ["CANARY-pa55"]
    assert threading.main_thread() not in threads
