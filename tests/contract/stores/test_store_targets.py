"""Bad targets: the right error, one clear line, nothing made, no password in sight."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import string
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from backends import engine, open_store
from backends.layouts import orders
from backends.records import Filter
from backends.store import BadTarget, NotADLQ, StoreError, Unreachable
from tests.support.postgres import Postgres
from tests.support.store import ACTOR, EVERYTHING, PostgresRig, SQLiteRig, pick, walk, why


async def refusal(target: str, **options: object) -> StoreError:
    with pytest.raises(StoreError) as refused:
        await open_store(target, **options)  # type: ignore[arg-type]  # read_only, table and password
    assert "\n" not in str(refused.value)
    assert "Traceback" not in str(refused.value)
    return refused.value


async def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    for read_only in (True, False):
        error = await refusal(str(tmp_path / "none.db"), read_only=read_only)
        assert isinstance(error, Unreachable)
        assert str(error).startswith(f"no such file: {tmp_path / 'none.db'}")
    assert isinstance(await refusal(str(tmp_path / "no" / "folder.db")), Unreachable)
    assert list(tmp_path.iterdir()) == []


async def test_what_is_no_database(tmp_path: Path) -> None:
    error = await refusal(str(tmp_path))
    assert isinstance(error, NotADLQ)
    assert str(error) == f"{tmp_path} is a directory, not a SQLite file"
    (tmp_path / "empty").touch()
    error = await refusal(str(tmp_path / "empty"))
    assert isinstance(error, NotADLQ)
    assert "is empty: dlq init" in str(error)
    (tmp_path / "text").write_text("hello " * 1000)
    assert str(await refusal(str(tmp_path / "text"))) == f"{tmp_path / 'text'} is not a SQLite database"
    (tmp_path / "stub").write_bytes(b"SQLite format 3\0" + b"\x10\x00\x01\x01")
    error = await refusal(str(tmp_path / "stub"))
    assert isinstance(error, Unreachable)
    assert "is damaged" in str(error)
    (tmp_path / "noise").write_bytes(b"SQLite format 3\0" + random.Random(1).randbytes(8000))
    assert isinstance(await refusal(str(tmp_path / "noise")), Unreachable | NotADLQ)
    os.mkfifo(tmp_path / "pipe")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert isinstance(await refusal(str(loop)), Unreachable)


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def held(file: str, journal: str) -> AsyncIterator[None]:
    """Another process has the file to itself meanwhile."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, file, journal, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert await process.stdout.readline() == b"held\n"
    try:
        yield
    finally:
        process.stdin.close()
        await process.wait()


async def test_locked_by_another_process(sqlite_store: SQLiteRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.1)
    await sqlite_store.make(3)
    store = await sqlite_store.open()
    selection = await pick(store, 0)
    async with held(sqlite_store.target, "WAL"):
        with pytest.raises(Unreachable, match="is locked by another program; try again in a moment"):
            await store.dismiss(selection, ACTOR, why())
        assert len((await store.page(EVERYTHING, limit=9)).entries) == 3, "a WAL store can still be read"
    assert (await store.dismiss(selection, ACTOR, why())).done == selection.ids


async def test_locked_while_attaching(sqlite_store: SQLiteRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.1)
    await sqlite_store.make(3)
    async with held(sqlite_store.target, "DELETE"):
        error = await refusal(sqlite_store.target)
    assert isinstance(error, Unreachable)
    assert "is locked by another program" in str(error)
    assert len((await (await sqlite_store.open()).page(Filter(), limit=9)).entries) == 3


@pytest.mark.parametrize("page", [1, 2, 5, 9])
async def test_a_corrupt_page(sqlite_store: SQLiteRig, page: int) -> None:
    await sqlite_store.make(400)
    file = Path(sqlite_store.target)
    content = bytearray(file.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    start = (page - 1) * size + (100 if page == 1 else 0)
    content[start : page * size] = b"\xa5" * (page * size - start)
    file.write_bytes(content)
    with pytest.raises(Unreachable, match=r"is damaged: restore it from a backup \([^\n]*$"):
        await read_all(sqlite_store)


async def read_all(rig: SQLiteRig) -> None:
    store = await rig.open()
    await walk(store, limit=200)


async def test_a_file_replaced_under_an_open_console(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(3)
    store = await sqlite_store.open()
    selection = await pick(store, 0)
    Path(sqlite_store.target).replace(sqlite_store.target + ".old")
    for note in ("removed", "replaced"):
        with pytest.raises(Unreachable, match="was replaced or removed since it was attached"):
            await store.dismiss(selection, ACTOR, why(note=note))
        sqlite3.connect(sqlite_store.target).close()
        Path(sqlite_store.target).touch()


async def test_tables_changed_under_an_open_console(postgres_store: PostgresRig) -> None:
    await postgres_store.make(2)
    store = await postgres_store.open()
    await store.page(Filter(), limit=5)
    await postgres_store.sql("ALTER TABLE order_dlq RENAME TO moved")
    with pytest.raises(NotADLQ, match="changed its tables since it was attached: attach again"):
        await store.page(Filter(), limit=5)


async def test_postgres_down() -> None:
    error = await refusal("postgresql://ops@127.0.0.1:1/trading")
    assert isinstance(error, Unreachable)
    assert (
        str(error) == "postgres 127.0.0.1:1/trading cannot be reached: is the server up, and are host and port right?"
    )
    assert isinstance(await refusal("postgresql://ops@no-such-host.invalid/trading"), Unreachable)
    assert isinstance(await refusal("postgresql:///trading?host=/nowhere"), Unreachable)


async def test_no_such_database(postgres_dsn: str) -> None:
    error = await refusal(postgres_dsn.replace("{db}", "nothing_here"))
    assert isinstance(error, Unreachable)
    assert str(error).endswith("there is no such database")


async def test_no_queue_in_postgres(postgres_db: str) -> None:
    assert isinstance(await refusal(postgres_db), NotADLQ)


PASSWORD = "s3cr3t/with@odd:chars %41"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Postgres]:
    """A server that asks for a password."""
    server = Postgres(password=PASSWORD).start()
    yield server
    server.stop()


async def test_wrong_and_right_passwords(guarded: Postgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    plain = guarded.dsn("postgres")
    for target, options in (
        (plain, {}),
        (plain, {"password": "hunter2"}),
        (plain.replace("postgres@", "postgres:hunter2@"), {}),
        (plain + "?password=hunter2", {}),
        (plain.replace("postgres@", "nobody:hunter2@"), {}),
    ):
        error = await refusal(target, **options)
        assert isinstance(error, Unreachable)
        assert "refused the login: check the user, the password (DSN, keyring or .pgpass)" in str(error)
        assert "hunter2" not in str(error)
    encoded = plain.replace("postgres@", f"postgres:{quote(PASSWORD, safe='')}@")
    assert isinstance(await refusal(encoded), NotADLQ), "the login works"
    assert isinstance(await refusal(plain, password=PASSWORD), NotADLQ)
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"127.0.0.1:*:*:postgres:{PASSWORD.replace(':', chr(92) + ':')}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    assert isinstance(await refusal(plain), NotADLQ)


async def test_no_secret_in_anything_printable(guarded: Postgres) -> None:
    connection = await asyncpg.connect(guarded.dsn("postgres"), password=PASSWORD)
    for statement in orders.postgres_ddl("order_dlq"):
        await connection.execute(statement)
    store = await open_store(guarded.dsn("postgres"), password=PASSWORD)
    try:
        page = await store.page(Filter(), limit=5)
        shown = " ".join(map(repr, (store, store.info, page, vars(store))))
        assert PASSWORD not in shown
        assert quote(PASSWORD, safe="") not in shown
    finally:
        await store.aclose()
        await connection.execute("DROP TABLE order_dlq")
        await connection.close()


def odd_password(dice: random.Random) -> str:
    length = dice.randrange(8, 24)
    return "".join(
        dice.choice(string.ascii_letters + string.digits + "@:/?#[]%&= ;\\'\"+^~`|<>{}äß\t") for _ in range(length)
    )


def malformed_dsn(dice: random.Random, password: str) -> str:
    return dice.choice(
        [
            "postgresql://ops:{p}@127.0.0.1:1/db",
            "postgresql://ops:{p}@127.0.0.1:1:2/db",
            "postgresql://ops:{p}@127.0.0.1:port/db",
            "postgresql://ops:{p}@127.0.0.1:99999/db",
            "postgresql://ops:{p}@[::1/db",
            "postgresql://ops:{p}@ho st/db",
            "postgresql://ops:{p}@",
            "postgresql://ops:{p}",
            "postgresql://:{p}@/db",
            "postgresql://ops:{p}@127.0.0.1:1/d b?sslmode=never",
            "postgresql://ops@127.0.0.1:1/db?password={p}",
            "postgresql://ops@127.0.0.1:1/db?pasword={p}",
            "postgresql://ops@127.0.0.1:1/db?sslmode={p}",
            "postgresql://ops@127.0.0.1:1/db#{p}",
            "postgresql:/ops:{p}@127.0.0.1:1/db",
            "postgresql:ops:{p}@127.0.0.1:1/db",
            "postgres//ops:{p}@127.0.0.1:1/db",
            "postgre://ops:{p}@127.0.0.1:1/db",
            "ops:{p}@127.0.0.1:1/db",
            "host=127.0.0.1 port=1 user=ops password={p} dbname=db",
            "password='{p}' host=127.0.0.1",
            "postgresql://ops:{p}@127.0.0.1:1,127.0.0.1:2/db",
            "POSTGRESQL://ops:{p}@127.0.0.1:1/db",
            " postgresql://ops:{p}@127.0.0.1:1/db",
            "sqlite://ops:{p}@127.0.0.1/db",
            "postgresql+psycopg://ops:{p}@127.0.0.1:1/db",
        ]
    ).replace("{p}", password)


@pytest.mark.parametrize("seed", range(200))
async def test_a_fuzzed_dsn_never_shows_its_password(seed: int) -> None:
    dice = random.Random(seed)
    password = odd_password(dice)
    text = malformed_dsn(dice, password)
    error = await refusal(text)
    assert isinstance(error, BadTarget | Unreachable)
    half = len(password) // 2
    for secret in (password, password[:half], password[half:]):
        assert secret not in str(error), text
        assert secret not in repr(error), text
