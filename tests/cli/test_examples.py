"""Every example of the table of verbs is run as it is printed, in one story, on both engines."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from console.cli.usage.verb import VERBS
from tests.cli.conftest import Dlq, Ran
from tests.support.command import KEYRING
from tests.support.exchange import Exchange, in_thread
from tests.support.forked_command import ran as forked
from tests.support.orders import add_sqlite, row

KEYS = "api_key=practice\nsecret_key=practice\n"
# They serve until Ctrl-C or make a store of their own; each has tests of its own.
ELSEWHERE = {"practice", "serve", "demo"}
# The verbs in the order in which one shift could use them, and how each of their examples ends in this story.
STORY = """
init 0 | completions 0 0 0 | help 0 0 | secrets 0 0 0 | policy 0 0 | doctor 0 | list 0 0 0 | show 0 | groups 0 0
dismiss 0 0 | restore 0 0 | index 0 | replay 4 3 4 | approve 0 4 | ask 0 | settle 4 | reconcile 0 | halt 0 | resume 4
check 1 | metrics 0 | report 0 | export 0 | archive 0 0 | audit 0 0
"""
PARTS = [part.split() for part in re.split(r"[|\n]", STORY.strip())]
TOLD = {name: [int(code) for code in codes] for name, *codes in PARTS}


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    return str(tmp_path / "o.db") if request.param == "sqlite" else str(request.getfixturevalue("postgres_db"))


def order(number: int, age: timedelta = timedelta(seconds=5), **given: object) -> dict[str, Any]:
    told = {"captured_at": datetime.now(UTC) - age, "quantity": float(number), "price": 18.0}
    return row(number, **(told | given))


def rows() -> list[dict[str, Any]]:
    """What the examples speak of: one that is stale, three that may go again, twelve of kalshi."""
    aged = timedelta(days=2)
    named = [order(0xD0, aged, error="insufficient buying power"), order(0xD5, market_id="DROP")]
    return [*named, order(0xD6), order(0xD7)] + [
        order(n, aged, venue_name="kalshi", market_id="KXRAIN-DEMO", price=0.4) for n in range(1, 13)
    ]


def add(target: str, given: list[dict[str, Any]]) -> None:
    if not target.startswith("postgresql"):
        with closing(sqlite3.connect(target)) as connection:
            add_sqlite(connection, given)
            connection.commit()
        return

    async def insert() -> None:
        connection = await asyncpg.connect(target)
        try:
            for one in given:
                marks = ", ".join(f"${n}" for n in range(1, len(one) + 1))
                await connection.execute(f"INSERT INTO order_dlq ({', '.join(one)}) VALUES ({marks})", *one.values())
        finally:
            await connection.close()

    asyncio.run(insert())


@dataclass
class Reader:
    """Somebody who types the examples, with the stores that they name in the config."""

    dlq: Dlq
    folder: Path
    environ: dict[str, str]
    plan: str = ""

    def types(self, line: str) -> Ran:
        """The line without what only a shell or a terminal does: a pipe, a prompt, an endless service."""
        line = line.removeprefix('eval "$(').removesuffix(')"')
        words = shlex.split(re.split(r" (?:\||\|\||>) ", line)[0])[1:]
        words = [self.plan if word == "3f9a1c02" else word for word in words]
        match words[0]:
            case "secrets":
                return Ran(*forked(words, self.environ, cwd=self.folder, stdin=KEYS))
            case "replay" if "--live" in words:
                words.append("--yes")
            case "metrics":
                words = words[: words.index("--listen")]
        ran = self.dlq(*words)
        if told := re.search(r"\bplan ([0-9a-f]{8,})", ran.err):
            self.plan = told[1]
        return ran


@pytest.fixture
def reader(dlq: Dlq, tmp_path: Path, target: str, exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> Reader:
    secrets, folder = tmp_path / "secrets", tmp_path / "desk"
    secrets.mkdir(mode=0o700)
    folder.mkdir()
    for name in ("api_key", "secret_key"):
        (secrets / f"alpaca.main.live.{name}").write_text("practice")
        (secrets / f"alpaca.main.live.{name}").chmod(0o600)
        (secrets / f"alpaca.main.paper.{name}").write_text("practice")
        (secrets / f"alpaca.main.paper.{name}").chmod(0o600)
    url = json.dumps(target)
    config = tmp_path / "config.toml"
    venue = f'[venues.alpaca]\npaper_endpoint = "{exchange.url}"\nlive_endpoint = "{exchange.url}"\n'
    stores = f'[stores.prod]\nurl = {url}\nenvironment = "live"\n[stores."orders.db"]\nurl = {url}\n'
    config.write_text(f"credentials_dir = {json.dumps(str(secrets))}\n{stores}{venue}")
    for name, value in {"DLQ_CONFIG": str(config), "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    vault = {"PYTHON_KEYRING_BACKEND": KEYRING, "DLQ_TEST_VAULT": str(tmp_path / "vault.json")}
    bare = tmp_path / "keyring.toml"
    bare.write_text(venue)
    return Reader(dlq, folder, {**vault, "DLQ_CONFIG": str(bare), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def test_the_story_has_every_example() -> None:
    assert {name: len(codes) for name, codes in TOLD.items()} == {
        name: len(usage.examples) for name, usage in VERBS.items() if name not in ELSEWHERE
    }


def test_every_example_does_what_it_says(reader: Reader, target: str) -> None:
    for name, codes in TOLD.items():
        for example, code in zip(VERBS[name].examples, codes, strict=True):
            ran = reader.types(example.line)
            assert ran.code == code, (example.line, ran)
            assert "Traceback" not in ran.err
        if name == "init":
            add(target, rows())
