"""Several hosts, session attributes, sockets and TLS, with real servers."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
from dlq_sink.libpq.connection import connect

from backends.store import StoreError, Unreachable
from backends.target import PostgresTarget, parse_target
from tests.support.commit_proxy import Proxy
from tests.support.fake_postgres import certificate
from tests.support.postgres import Postgres
from tests.support.postgres_kinds import StandbyPostgres, TLSPostgres, debian_binaries
from tests.support.talks import Talks

pytestmark = pytest.mark.xdist_group("targets")  # its servers start once
SECRET = "CANARY-pa55"
needs_tls = pytest.mark.skipif(debian_binaries() is None, reason="needs Debian's postgresql package: a server with TLS")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def primary() -> Iterator[Postgres]:
    server = Postgres(password=SECRET).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def standby() -> Iterator[Postgres]:
    server = StandbyPostgres(password=SECRET).start()
    yield server
    server.stop()


async def asked(text: str, sql: str, **told: str) -> tuple[Any, str]:
    """The answer of the server that was reached, and the label it then has."""
    target = parse_target(text)
    assert isinstance(target, PostgresTarget)
    connection = await connect(target, server_settings={**target.settings.server_settings, **told})
    try:
        return await connection.fetchval(sql), target.label
    finally:
        await connection.close()


RECOVERS = "SELECT pg_is_in_recovery()"


@pytest.mark.parametrize(
    ("attrs", "standby_first", "in_recovery"),
    [
        ("any", True, True),
        ("any", False, False),
        ("read-write", True, False),
        ("read-only", False, True),
        ("primary", True, False),
        ("standby", False, True),
        ("prefer-standby", False, True),
    ],
)
async def test_the_host_that_is_asked_for(
    primary: Postgres, standby: Postgres, attrs: str, standby_first: bool, in_recovery: bool
) -> None:
    order = (standby, primary) if standby_first else (primary, standby)
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in order)
    text = f"postgresql://postgres:{SECRET}@{hosts}/postgres?target_session_attrs={attrs}"
    for told in ({}, {"default_transaction_read_only": "on"}):
        found, label = await asked(text, RECOVERS, **told)
        assert found is in_recovery
        assert label == f"postgres 127.0.0.1:{(standby if in_recovery else primary).port}/postgres"
    assert await asked(text, "SHOW default_transaction_read_only", default_transaction_read_only="on") == ("on", label)


async def test_a_host_that_is_down_is_passed_over_and_prefer_standby_takes_a_primary(primary: Postgres) -> None:
    hosts = f"host=127.0.0.1,no-such-host.invalid,127.0.0.1 port=1,5432,{primary.port} user=postgres dbname=postgres"
    for attrs in ("any", "primary", "prefer-standby"):
        found, label = await asked(f"{hosts} password={SECRET} target_session_attrs={attrs}", RECOVERS)
        assert (found, label) == (False, f"postgres 127.0.0.1:{primary.port}/postgres")
    with pytest.raises(Unreachable, match="target_session_attrs"):
        await asked(
            f"host=127.0.0.1 port={primary.port} user=postgres password={SECRET} target_session_attrs=standby", RECOVERS
        )


async def test_each_host_gets_its_own_password_and_a_refused_login_ends_the_search(
    primary: Postgres, standby: Postgres, tmp_path: Path
) -> None:
    file = tmp_path / ".pgpass"
    file.write_text(f"*:{standby.port}:*:*:wrong\n*:{primary.port}:*:*:{SECRET}\n")
    file.chmod(0o600)
    down_first = f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{primary.port}/postgres"
    assert (await asked(down_first, RECOVERS))[0] is False
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asked(f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/postgres", RECOVERS)


async def test_what_the_string_says_reaches_the_server(primary: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"host=localhost hostaddr=127.0.0.1 port={primary.port} user=postgres password={SECRET} dbname=postgres"
    settings = "SELECT current_setting('application_name') || ' ' || current_setting('geqo_threshold')"
    found, label = await asked(f"{text} application_name=on-call options='-c geqo_threshold=77'", settings)
    assert (found, label) == ("on-call 77", f"postgres localhost(127.0.0.1):{primary.port}/postgres")
    monkeypatch.setenv("PGAPPNAME", "from-environ")
    monkeypatch.setenv("PGOPTIONS", "-c geqo_threshold=78")
    assert (await asked(text, settings))[0] == "from-environ 78"


async def test_keepalives_are_set_on_the_socket(primary: Postgres) -> None:
    target = parse_target(
        f"host=127.0.0.1 port={primary.port} user=postgres password={SECRET} keepalives_idle=33 keepalives_interval=7 "
        "keepalives_count=4 tcp_user_timeout=9000"
    )
    assert isinstance(target, PostgresTarget)
    connection = await connect(target, server_settings={})
    used = connection._transport.get_extra_info("socket")
    tcp = socket.IPPROTO_TCP
    assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert used.getsockopt(tcp, socket.TCP_KEEPIDLE) == 33
    assert used.getsockopt(tcp, socket.TCP_KEEPINTVL) == 7
    assert used.getsockopt(tcp, socket.TCP_KEEPCNT) == 4
    assert used.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == 9000
    await connection.close()


@pytest.mark.parametrize(
    ("methods", "works"),
    [("scram-sha-256", True), ("!password,!md5", True), ("md5", False), ("!scram-sha-256", False), ("none", False)],
)
async def test_require_auth(primary: Postgres, methods: str, works: bool) -> None:
    text = f"postgresql://postgres:{SECRET}@127.0.0.1:{primary.port}/postgres?require_auth={methods}"
    if works:
        assert (await asked(text, RECOVERS))[0] is False
        return
    with pytest.raises(Unreachable, match="which require_auth refuses"):
        await asked(text, RECOVERS)


@pytest.fixture(scope="module")
def with_tls() -> Iterator[TLSPostgres]:
    server = TLSPostgres(password=SECRET)
    server.start()
    yield server
    server.stop()


USES_TLS = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


@needs_tls
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("", None),
        ("sslmode=prefer", None),
        ("sslmode=allow", None),
        ("sslmode=require", None),
        ("sslmode=verify-ca sslrootcert=CERT", None),
        ("sslmode=verify-full sslrootcert=CERT", None),
        ("sslmode=verify-full sslrootcert=CERT host=localhost hostaddr=127.0.0.1", None),
        ("sslmode=verify-full sslrootcert=CERT ssl_min_protocol_version=TLSv1.3", None),
        ("sslmode=verify-full sslrootcert=CERT host=db1 hostaddr=127.0.0.1", "certificate does not verify"),
        ("sslmode=verify-ca sslrootcert=CERT host=db1 hostaddr=127.0.0.1", None),
        ("sslmode=verify-ca sslrootcert=OTHER", "certificate does not verify"),
        ("sslmode=require sslrootcert=OTHER", "certificate does not verify"),
        ("sslmode=verify-full", "sslrootcert=FILE"),
        ("sslmode=verify-full sslrootcert=/no/such/file", "cannot be read or used"),
        ("sslmode=verify-full sslrootcert=system", "certificate does not verify"),
        ("sslmode=disable", "no pg_hba.conf entry"),
    ],
)
async def test_tls(with_tls: TLSPostgres, tmp_path: Path, options: str, problem: str | None) -> None:
    files = {"CERT": str(with_tls.certificate), "OTHER": str(certificate(tmp_path, "localhost")[0])}
    for word, file in files.items():
        options = options.replace(word, file)
    text = f"host=127.0.0.1 port={with_tls.port} user=postgres password={SECRET} dbname=postgres {options}"
    if problem is None:
        assert (await asked(text, USES_TLS))[0] is True
        return
    with pytest.raises((StoreError, asyncpg.InvalidAuthorizationSpecificationError), match=problem):
        await asked(text, USES_TLS)


class _Counting(Proxy):
    """How many connections it took."""

    taken = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        await super()._serve(reader, writer)


@pytest.mark.parametrize("mode", ["", "?sslmode=prefer"])
async def test_a_server_without_tls_is_dialled_once_and_can_be_told_to_stop(primary: Postgres, mode: str) -> None:
    proxy = _Counting(f"postgresql://postgres:{SECRET}@127.0.0.1:{primary.port}/postgres")
    target = parse_target(await proxy.start() + mode)
    assert isinstance(target, PostgresTarget)
    connection = await connect(target, server_settings=target.settings.server_settings)
    try:
        assert not await connection.fetchval(USES_TLS)
        assert proxy.taken == 1
        # The driver asks the server on a connection of its own to end the statement; else it would go on for a minute.
        with pytest.raises(asyncio.TimeoutError):
            await connection.fetchval("SELECT pg_sleep(60)", timeout=0.2)
        assert await connection.fetchval("SELECT 1", timeout=30) == 1
        assert proxy.taken == 2
    finally:
        await connection.close()
        await proxy.stop()


@asynccontextmanager
async def relayed(path: str, port: int) -> AsyncIterator[None]:
    """A unix socket behind which a real server is: it listens on TCP alone."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while some := await reader.read(65536):
                    writer.write(some)
                    await writer.drain()
        finally:
            writer.close()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pipe(reader, far[1]), pipe(far[0], writer))

    talks = Talks()
    server = await asyncio.start_unix_server(talks.held_by(join), path)
    try:
        yield
    finally:
        await talks.end(server)


async def test_a_unix_socket_by_its_folder(primary: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with relayed(f"{tmp_path}/.s.PGSQL.5432", primary.port):
        rest = f"user=postgres password={SECRET} dbname=postgres"
        for text in (
            f"host={tmp_path} {rest}",
            f"postgresql://postgres:{SECRET}@{quote(str(tmp_path), safe='')}/postgres",
        ):
            assert await asked(text, RECOVERS) == (False, f"postgres {tmp_path}/postgres")
        monkeypatch.setenv("PGHOST", str(tmp_path))
        assert await asked(rest, RECOVERS) == (False, f"postgres {tmp_path}/postgres")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract sockets")
async def test_an_abstract_socket(primary: Postgres) -> None:
    async with relayed(f"\0dlq-{primary.port}/.s.PGSQL.5432", primary.port):
        text = f"host=@dlq-{primary.port} user=postgres password={SECRET} dbname=postgres"
        assert await asked(text, RECOVERS) == (False, f"postgres @dlq-{primary.port}/postgres")


async def test_without_a_host_an_own_socket_is_used_and_named(primary: Postgres) -> None:
    """In the folder where everybody may put one, a socket of this user's own is trusted."""
    async with relayed(f"/tmp/.s.PGSQL.{primary.port}", primary.port):
        text = f"postgresql://postgres:{SECRET}@:{primary.port}/postgres"
        assert await asked(text, RECOVERS) == (False, f"postgres /tmp:{primary.port}/postgres")
    Path(f"/tmp/.s.PGSQL.{primary.port}").unlink(missing_ok=True)
    found, label = await asked(text, RECOVERS)
    assert (found, label) == (False, f"postgres localhost:{primary.port}/postgres"), "then by TCP"
