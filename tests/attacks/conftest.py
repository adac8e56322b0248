"""The command, real stores and a practice exchange for attacks from outside; nothing of the product is imported.

DLQ_COMMAND is the command under attack, such as the `dlq` of another version; without it, the one of this tree.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support import forked_command

GIVEN = os.environ.get("DLQ_COMMAND")
_BESIDE = Path(sys.executable).with_name("dlq")
OWN = [str(_BESIDE)] if _BESIDE.exists() else [sys.executable, "-P", "-m", "console"]
COMMAND = shlex.split(GIVEN) if GIVEN else OWN
SECRET = "CANARY-pa55"
FIRST = "dlq_0000000000000001"
SECONDS = 20.0


@dataclass(frozen=True)
class Ran:
    code: int | None  # None: it did not end
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def outcomes(self) -> list[str]:
        return [row["outcome"] for row in self.rows]


@dataclass
class Desk:
    """One person's folder, which is also where the commands run."""

    folder: Path
    config: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        places = {f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in ("CONFIG", "CACHE", "STATE")}
        return {**kept, **places, "HOME": str(self.folder), **self.extra}

    def words(self, *given: str) -> list[str]:
        if not self.config:
            return list(given)
        path = self.folder / "config.toml"
        path.write_text(self.config)
        path.chmod(0o600)
        return [*given, "--config", str(path)]

    def __call__(self, *given: str, timeout: float = SECONDS * 3, new: bool = False) -> Ran:
        """`new`: an interpreter of its own, also where the product of this tree is at hand."""
        words = self.words(*given)
        try:
            if GIVEN or new:
                done = subprocess.run(
                    [*COMMAND, *words],
                    cwd=self.folder,
                    env=self.environ,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=timeout,
                    check=False,
                )
                return Ran(done.returncode, done.stdout, done.stderr)
            return Ran(*forked_command.ran(words, self.environ, cwd=self.folder, timeout=timeout))
        except subprocess.TimeoutExpired:
            return Ran(None, "", "")

    @contextmanager
    def started(self, *given: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        command = [*COMMAND, *self.words(*given)]
        with subprocess.Popen(command, text=True, env=self.environ, cwd=self.folder, **pipes) as process:
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()

    def trading(self, url: str, target: str, **limits: object) -> None:
        """A config with one venue, and its credentials."""
        secrets = self.folder / "secrets"
        secrets.mkdir(mode=0o700, exist_ok=True)
        for mode in ("paper", "live"):
            for name in ("api_key", "secret_key"):
                (secrets / f"alpaca.{mode}.{name}").write_text("practice")
                (secrets / f"alpaca.{mode}.{name}").chmod(0o600)
        lines = [f"credentials_dir = {json.dumps(str(secrets))}", "[stores.desk]", f"url = {json.dumps(target)}"]
        lines += [
            "[venues.alpaca]",
            f'paper_endpoint = "{url}"',
            f'live_endpoint = "{url}"',
            "visibility_seconds = 0.3",
        ]
        lines += ['default_account = "main"']
        lines += ["[limits]", *(f"{name} = {json.dumps(value)}" for name, value in limits.items())]
        self.config = "\n".join(lines) + "\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def sql(target: str, statement: str, *given: object) -> list[tuple[Any, ...]]:
    """Past the console. `console_` begins the names of the ledger's tables."""
    if not target.startswith("postgresql"):
        with closing(sqlite3.connect(target, isolation_level=None)) as connection:
            return [tuple(row) for row in connection.execute(statement, given)]

    async def run() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(target)
        try:
            changed = statement.replace("console_", "dlq_console.")
            for number in range(1, len(given) + 1):
                changed = changed.replace("?", f"${number}", 1)
            return [tuple(row) for row in await connection.fetch(changed, *given)]
        finally:
            await connection.close()

    return asyncio.run(run())


def add(target: str, number: int = 1, **given: object) -> str:
    """One failed order, as an engine writes it."""
    row: dict[str, Any] = {
        "dlq_id": f"dlq_{number:016x}",
        "captured_at": datetime.now(UTC),
        "venue_name": "alpaca",
        "account_id": "main",
        "market_id": "AAPL",
        "side": "buy",
        "quantity": 1.0,
        "order_type": "limit",
        "price": 10.0,
        "client_order_id": f"cid-{number}",
        "error": "RuntimeError: HTTP 429 after 3 attempts",
        "retry_count": 0,
        "dismissed": False,
        "action_json": "",
        **given,
    }
    if not target.startswith("postgresql"):
        row |= {"captured_at": row["captured_at"].isoformat(), "dismissed": 0}
    sql(target, f"INSERT INTO order_dlq ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", *row.values())
    return str(row["dlq_id"])


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, desk: Desk) -> str:
    """An empty order store."""
    at = str(desk.folder / "orders.db") if request.param == "sqlite" else request.getfixturevalue("postgres_db")
    assert desk("init", "--db", at).code == 0
    return str(at)


@pytest.fixture
def sqlite_target(desk: Desk) -> str:
    at = str(desk.folder / "orders.db")
    assert desk("init", "--db", at).code == 0
    return at


@pytest.fixture
def postgres_target(desk: Desk, postgres_db: str) -> str:
    assert desk("init", "--db", postgres_db).code == 0
    return postgres_db


@pytest.fixture(scope="session")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the command's own practice exchange."""
    with Desk(tmp_path_factory.mktemp("exchange")).started("practice", stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().split()[-1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def connected(port: int, process: subprocess.Popen[str]) -> socket.socket:
    """A connection to a server that is starting."""
    until = time.monotonic() + SECONDS * 3
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        except OSError:
            assert process.poll() is None, "it has ended"
            assert time.monotonic() < until, "it never listened"
            time.sleep(0.05)
