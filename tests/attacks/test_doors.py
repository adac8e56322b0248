"""Whoever is near the console — a web page, another user, a planted file, an impostor — gets nothing of it."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from tests.attacks.conftest import COMMAND, GIVEN, SECONDS, SECRET, Desk, add, connected, free_port
from tests.support.fake_postgres import FakePostgres
from tests.support.terminal.pty import Terminal

OTHER_USER = 65534
IN_FOLDER = ("sh", "-c", 'cd "$0" && exec "$@"')


def console(desk: Desk, *words: str) -> Terminal:
    return Terminal([*IN_FOLDER, str(desk.folder), *COMMAND, *desk.words(*words)], desk.environ)


async def test_a_page_that_only_knows_the_port_gets_no_console(desk: Desk, sqlite_target: str) -> None:
    port = free_port()
    with desk.started("serve", "--db", sqlite_target, "--port", str(port), stdout=subprocess.DEVNULL) as server:
        (await asyncio.to_thread(connected, port, server)).close()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(SECONDS * 3)) as session:
            async with session.get(f"http://127.0.0.1:{port}/", allow_redirects=False) as page:
                assert page.status == 403
            for host, origin in (("evil.example", "https://evil.example"), (f"127.0.0.1:{port}", "null")):
                with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                    await session.ws_connect(f"ws://127.0.0.1:{port}/ws", headers={"Host": host, "Origin": origin})
                assert refused.value.status in (403, 421)


async def test_a_page_of_ours_is_in_no_frame_and_loads_nothing_from_elsewhere(desk: Desk, sqlite_target: str) -> None:
    """Whatever is answered forbids frames, and what names another host is not loaded."""
    with desk.started("serve", "--db", sqlite_target, "--port", str(port := free_port())) as server:
        assert server.stdout is not None
        (await asyncio.to_thread(connected, port, server)).close()
        address = f"http://127.0.0.1:{port}/"
        if not GIVEN:
            address = (await asyncio.to_thread(server.stdout.readline)).strip()
        jar = aiohttp.CookieJar(unsafe=True)
        async with (
            aiohttp.ClientSession(cookie_jar=jar, timeout=aiohttp.ClientTimeout(SECONDS * 3)) as session,
            session.get(address) as page,
        ):
            assert page.status == 200
            text = await page.text()
            assert page.headers["X-Frame-Options"] == "DENY"
            assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//(?!127\.0\.0\.1)""", text)


def test_what_serve_prints_tells_no_password(desk: Desk, postgres_target: str) -> None:
    given = postgres_target.replace("postgres@", f"postgres:{SECRET}@")
    port = free_port()
    desk.extra = {"PYTHONUNBUFFERED": "1", "COLUMNS": "500"}
    with desk.started("serve", "--db", given, "--port", str(port)) as server:
        connected(port, server).close()
        server.terminate()
        out, err = server.communicate(timeout=SECONDS * 3)
    assert SECRET not in out + err


def test_a_planted_module_does_not_run_beside_the_console(desk: Desk, sqlite_target: str) -> None:
    """The console keeps its index by a process of its own, which starts in the same folder."""
    add(sqlite_target, market_id="SHOWN")
    ran = desk.folder / "ran"
    for name in ("console/__main__.py", "console/__init__.py", "tomllib.py"):
        path = desk.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    kept = desk.folder / "cache"
    with console(desk, "--db", sqlite_target) as terminal:
        terminal.shows("SHOWN")
        terminal.until(lambda: ran.exists() or any(kept.rglob("*.db")), "its index, or the planted module")
        terminal.settle()
    assert not ran.exists()


async def test_a_server_that_asks_for_the_password_itself_does_not_get_it(desk: Desk) -> None:
    async with FakePostgres().on_port() as fake:
        at = f"postgresql://ops:{SECRET}@127.0.0.1:{fake.port}/x"
        ran = await asyncio.to_thread(desk, "list", "--db", at, timeout=SECONDS)
        assert b"ops" in fake.received, "it was talked to"
        assert SECRET.encode() not in fake.received
        assert SECRET not in ran.out + ran.err


_PLANT = """
import os, socket, sys
path, uid = sys.argv[1], int(sys.argv[2])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
listening = socket.socket(socket.AF_UNIX)
listening.bind(path); listening.listen()
os.chmod(path, 0o777)
print("ready", flush=True)
while True:
    link, _ = listening.accept()
    print(link.recv(1000).hex(), flush=True)
    link.close()
"""


@pytest.fixture
def planted() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A socket of another user in the folder for everybody where Postgres puts its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    port = free_port()
    path = Path(f"/tmp/.s.PGSQL.{port}")
    words = [sys.executable, "-c", _PLANT, str(path), str(OTHER_USER)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/") as thief:
        assert thief.stdout is not None
        assert thief.stdout.readline() == "ready\n"
        try:
            yield port, thief
        finally:
            thief.kill()
            path.unlink(missing_ok=True)


def test_a_socket_planted_by_another_user_hears_nothing(desk: Desk, planted: tuple[int, subprocess.Popen[str]]) -> None:
    port, thief = planted
    assert desk("list", "--db", f"postgresql://ops:{SECRET}@:{port}/x", timeout=SECONDS).code == 5
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(f"/tmp/.s.PGSQL.{port}")
        own.send(b"\1")
    assert thief.stdout is not None
    assert thief.stdout.readline() == "01\n", "what it heard first is what this test said"


def test_no_password_stands_on_the_screen(desk: Desk, postgres_target: str) -> None:
    add(postgres_target, market_id="SHOWN")
    with console(desk, "--db", postgres_target.replace("postgres@", f"postgres:{SECRET}@")) as terminal:
        terminal.shows("SHOWN")
        terminal.settle()
        assert SECRET not in terminal.text
        assert SECRET.encode() not in terminal.raw


def test_an_export_writes_into_no_file_that_lies_there(desk: Desk, sqlite_target: str) -> None:
    """Its name can be guessed, so every name of the next minutes is planted."""
    add(sqlite_target, market_id="SHOWN")
    victim = desk.folder / "victim"
    victim.write_text("mine\n")
    with console(desk, "--db", sqlite_target) as terminal:
        terminal.shows("SHOWN")
        now = datetime.now(UTC)
        for second in range(-5, 300):
            at = (now + timedelta(seconds=second)).strftime("%Y%m%dT%H%M%SZ")
            (desk.folder / f"dlq-entries-{at}.jsonl").symlink_to(victim)
        until = time.monotonic() + SECONDS * 3
        while victim.read_text() == "mine\n" and not _own_files(desk.folder):
            assert time.monotonic() < until, "no export"
            terminal.press("x")  # a console that is still starting does not take it
            terminal.settle()
    assert victim.read_text() == "mine\n"


def _own_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("dlq-entries-*") if not path.is_symlink()]


def test_clients_that_say_little_are_let_go(desk: Desk, sqlite_target: str) -> None:
    """Each byte begins a new wait where only the single read has a limit."""
    port = free_port()
    with desk.started("metrics", "--db", sqlite_target, "--listen", f"127.0.0.1:{port}") as server:
        clients = [connected(port, server) for _ in range(20)]
        until = time.monotonic() + SECONDS
        while left := [one for one in clients if _is_open(one)]:
            assert time.monotonic() < until, f"{len(left)} are still held"
            for client in left:
                with suppress(OSError):
                    client.send(b"G")
            time.sleep(0.2)
        for client in clients:
            client.close()


def _is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_a_process_that_knows_secrets_leaves_no_core(desk: Desk, sqlite_target: str) -> None:
    port = free_port()
    with desk.started("metrics", "--db", sqlite_target, "--listen", f"127.0.0.1:{port}") as server:
        connected(port, server).close()
        limits = Path(f"/proc/{server.pid}/limits")
        if not limits.exists():
            pytest.skip("this system tells no limits of a process")
        (told,) = [line for line in limits.read_text().splitlines() if line.startswith("Max core file size")]
    assert told.split()[4:6] == ["0", "0"]
