"""Somebody else listens where the server should be: he learns no password, and at a planted socket not a byte."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dlq_sink.libpq import connection, tls
from dlq_sink.libpq.tls import mode_for
from dlq_sink.libpq.unix_socket import default_sockets, trusted_owners

from backends import open_store
from backends.store import StoreError, Unreachable
from tests.support.fake_postgres import FakePostgres, tls_server
from tests.support.other_user import needs_root

SECRET = "CANARY-pa55"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


async def refusal(target: str) -> str:
    with pytest.raises(StoreError) as refused:
        await open_store(target)
    assert "\n" not in str(refused.value)
    assert SECRET not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("server_tls", [False, True])
async def test_without_sslmode_the_password_itself_is_not_sent(tmp_path: Path, server_tls: bool) -> None:
    """Not inside of TLS either: nobody has verified who is at the other end."""
    async with FakePostgres(tls=tls_server(tmp_path, "localhost") if server_tls else None).on_port() as fake:
        said = await refusal(f"postgresql://ops:{SECRET}@127.0.0.1:{fake.port}/x")
        assert "asks for the password in clear text" in said
        assert "sslmode=" in said
        assert b"ops" in fake.received, "it was talked to"
        assert SECRET.encode() not in fake.received


async def test_a_said_sslmode_takes_the_servers_word() -> None:
    """As libpq does: an LDAP or PAM login needs the password itself."""
    async with FakePostgres().on_port() as fake:
        await refusal(f"postgresql://ops:{SECRET}@127.0.0.1:{fake.port}/x?sslmode=disable&connect_timeout=1")
        assert SECRET.encode() in fake.received


@pytest.mark.parametrize(
    "options", ["sslmode=require", "sslmode=verify-ca&sslrootcert=CERT", "sslmode=verify-full&sslrootcert=CERT"]
)
async def test_a_server_without_tls_learns_nothing_where_tls_must_be(tmp_path: Path, options: str) -> None:
    tls_server(tmp_path, "localhost")
    async with FakePostgres().on_port() as fake:
        given = options.replace("CERT", str(tmp_path / "server.crt"))
        said = await refusal(f"postgresql://ops:{SECRET}@127.0.0.1:{fake.port}/x?{given}")
        assert f"does not offer TLS, which {options.partition('&')[0]} asks for" in said
        assert (fake.received, fake.raw) == (b"", 8), "the question for TLS, and no more"


@pytest.mark.parametrize("server_tls", [False, True])
async def test_a_host_that_is_not_loopback_needs_tls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server_tls: bool
) -> None:
    """No traffic may leave this machine, so one of its own addresses counts as another's here."""
    monkeypatch.setattr(tls, "is_loopback", lambda _: False)
    async with FakePostgres(tls=tls_server(tmp_path, "localhost") if server_tls else None).on_port() as fake:
        said = await refusal(f"postgresql://ops:{SECRET}@127.0.0.1:{fake.port}/x")
        if server_tls:
            assert "asks for the password in clear text" in said
            assert fake.raw == 8, "all but the question for TLS went through it"
        else:
            assert "does not offer TLS, and a host that is not loopback needs it" in said
            assert "sslmode=disable" in said
            assert (fake.received, fake.raw) == (b"", 8)
        assert SECRET.encode() not in fake.received
        fake.received = b""
        for variable in ("disable", "prefer", "allow"):
            monkeypatch.setenv("PGSSLMODE", variable)
            await refusal(f"postgresql://ops:{SECRET}@127.0.0.1:{fake.port}/x?connect_timeout=1")
        assert SECRET.encode() in fake.received, "somebody said so"


@pytest.mark.parametrize(
    ("address", "mode"),
    [
        ("127.0.0.1", "prefer"),
        ("127.9.9.9", "prefer"),
        ("::1", "prefer"),
        ("::ffff:127.0.0.1", "prefer"),
        ("10.0.0.1", "require"),
        ("192.168.1.1", "require"),
        ("::ffff:10.0.0.1", "require"),
        ("fe80::1%eth0", "require"),
        ("0.0.0.0", "require"),
        ("::", "require"),
        ("localhost", "require"),  # a name is never taken for the machine itself
        ("127.0.0.1.example", "require"),
    ],
)
def test_which_addresses_need_tls(address: str, mode: str) -> None:
    assert mode_for(None, address) == mode
    assert mode_for("disable", address) == "disable"
    assert mode_for("verify-full", address) == "verify-full"


PLANT = """
import os, socket, sys
path, uid, got = sys.argv[1], int(sys.argv[2]), b""
if uid: os.setgroups([]); os.setgid(uid); os.setuid(uid)
listening = socket.socket(socket.AF_UNIX)
listening.bind(path); listening.listen()
os.chmod(path, 0o777)
print("ready", flush=True)
while True:
    link, _ = listening.accept()
    link.settimeout(2)
    try:
        print(link.recv(1000).hex() or "none", flush=True)
    except TimeoutError:
        print("silent", flush=True)
    link.close()
"""
OTHER = 65534


@pytest.fixture
def planted() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A socket of another user in the world-writable folder where Postgres puts its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    path = Path(f"/tmp/.s.PGSQL.{port}")
    thief = subprocess.Popen(
        [sys.executable, "-c", PLANT, str(path), str(OTHER)], stdout=subprocess.PIPE, text=True, cwd="/"
    )
    assert thief.stdout is not None
    assert thief.stdout.readline() == "ready\n"
    yield port, thief
    thief.kill()
    thief.wait()
    thief.stdout.close()
    path.unlink(missing_ok=True)


@needs_root
async def test_a_planted_socket_gets_no_byte(planted: tuple[int, subprocess.Popen[str]]) -> None:
    port, thief = planted
    assert default_sockets(port) == ([], ["/tmp"])
    for target in (f"postgresql://ops:{SECRET}@:{port}/x", f"port={port} user=ops password={SECRET} dbname=x"):
        said = await refusal(target)
        assert "the socket in /tmp belongs to another OS user and was not used" in said
        assert "host=/tmp" in said
    # Named, it is used. What it then tells is the first it ever got.
    await refusal(f"host=/tmp port={port} user=ops password={SECRET} dbname=x connect_timeout=1")
    assert thief.stdout is not None
    first = bytes.fromhex(thief.stdout.readline())
    assert b"ops" in first
    assert SECRET.encode() not in first


@needs_root
async def test_a_socket_swapped_after_the_look_gets_no_byte(
    planted: tuple[int, subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the file is one check; who really listens, by the kernel's word, is the other."""
    port, thief = planted
    monkeypatch.setattr(connection, "default_sockets", lambda _: (["/tmp"], []))
    with pytest.raises(Unreachable, match="belongs to another OS user than expected; nothing was sent"):
        await open_store(f"postgresql://ops:{SECRET}@:{port}/x")
    assert thief.stdout is not None
    assert thief.stdout.readline() == "none\n"


@needs_root
def test_whose_sockets_are_trusted(tmp_path: Path) -> None:
    me, server, other = 4001, 4002, 4003
    path = tmp_path / "s"
    path.touch()
    for owner, mode, of_socket, trusted in (
        (server, 0o2775, server, {me, 0, server}),
        (server, 0o2777, server, {me, 0}),
        (0, 0o755, server, {me, 0, server}),
        (0, 0o1777, server, {me, 0}),
        (0, 0o1777, me, {me, 0}),
        (other, 0o755, server, {me, 0, other}),
    ):
        os.chown(tmp_path, owner, owner)
        tmp_path.chmod(mode)
        os.chown(path, of_socket, of_socket)
        assert trusted_owners(path, me) == trusted


async def test_requirepeer(tmp_path: Path) -> None:
    async with FakePostgres().on_socket(tmp_path / ".s.PGSQL.5432") as fake:
        name = "nobody" if os.geteuid() == 0 else "root"
        said = await refusal(f"host={tmp_path} user=ops password={SECRET} requirepeer={name}")
        assert "belongs to another OS user than expected" in said
        assert fake.raw == 0
        assert "does not exist" in await refusal(f"host={tmp_path} user=ops requirepeer=no-such-user-here")
