"""A server that breaks the rules of a login neither hangs nor crashes the driver, with and without TLS."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from backends import open_store
from backends.store import StoreError
from tests.support.fake_postgres import FakePostgres, message, request, tls_server

SECRET = "CANARY-pa55"
SCRAM = request(10, b"SCRAM-SHA-256\0\0")
VERSION = message(b"S", b"server_version\0" + b"15.1\0")
READY = message(b"Z", b"I")
BROKEN = {
    # A step of a login that has not begun: the driver has nothing to go on with.
    "a step before the first": request(11, b"r=x,s=eA==,i=4096"),
    "the last step before the first": request(12, b"v=eA=="),
    "the end in the middle of SCRAM": SCRAM + request(0),
    "the beginning twice": SCRAM + SCRAM,
    "a token of GSSAPI that nobody asked for": request(8, b"x"),
    "a method that does not exist": request(99),
    "a request without a code": message(b"R"),
    "a salt that is too short": request(5, b"ab"),
    # A kind or a length that is not of a login: the driver would wait for the rest, or go round for ever.
    "a row before the login": message(b"D", b"\0\1\0\0\0\1x"),
    "a copy before the login": request(0) + message(b"W", b"\0\0\0"),
    "no kind at all": request(0) + message(b"\0"),
    "a length of nothing": b"R\0\0\0\0",
    "a length of less than itself": b"S\0\0\0\3",
    "a negative length": b"S\xff\xff\xff\xff",
    "a length of two gigabytes": b"S\x7f\xff\xff\xff",
    "a web server": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    # A field without its end, on which the driver fails.
    "a notice without an end": message(b"N", b"Mhello"),
    "an error without an end": message(b"E", b"SFATAL\0C28000\0Mno\0"),
    "a setting without a value": request(0) + message(b"S", b"server_version"),
    "a setting that is no text": request(0) + message(b"S", b"TimeZone\0" + b"\xff\0") + VERSION + READY,
    "an encoding that is none": request(0) + message(b"S", b"client_encoding\0" + b"nonsense\0") + VERSION + READY,
    "a key of one byte": request(0) + message(b"K", b"x"),
    "ready for nothing known": request(0) + VERSION + message(b"Z", b""),
    # Ready without having told its version, which the driver takes for granted.
    "no version": request(0) + READY,
    "a version that is none": request(0) + message(b"S", b"server_version\0" + b"\xff\0") + READY,
}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("broken", BROKEN)
async def test_a_login_against_the_rules_is_refused_at_once(tmp_path: Path, broken: str, tls: bool) -> None:
    """Without a guard before the driver each of these hung until the time was over, or raised an error of a bug."""
    async with FakePostgres(
        tls=tls_server(tmp_path, "localhost") if tls else None, says=BROKEN[broken]
    ).on_port() as fake:
        with pytest.raises(StoreError) as refused:
            # Far less than the time for a login, after which anything would end.
            async with asyncio.timeout(20):
                await open_store(f"postgresql://ops:{SECRET}@127.0.0.1:{fake.port}/x?connect_timeout=60")
        assert b"ops" in fake.received, "it was talked to"
        assert SECRET.encode() not in fake.received
    assert str(refused.value).endswith(" does not speak the Postgres protocol")
    assert SECRET not in str(refused.value)


async def test_a_server_that_stops_in_the_middle_ends_with_the_time_for_a_login() -> None:
    async with FakePostgres(says=request(0) + VERSION[:-3]).on_port() as fake:
        with pytest.raises(StoreError, match="in time"):
            await open_store(f"postgresql://ops@127.0.0.1:{fake.port}/x?connect_timeout=2")


async def test_an_encoding_that_a_pooler_repeats_in_quotes_is_taken() -> None:
    """pgbouncer sends back what the driver asked for, letter by letter."""
    encoding = message(b"S", b"client_encoding\0" + b"'utf-8'\0")
    async with FakePostgres(says=request(0) + encoding + VERSION + READY).on_port() as fake:
        opening = asyncio.ensure_future(open_store(f"postgresql://ops@127.0.0.1:{fake.port}/x?connect_timeout=60"))
        async with asyncio.timeout(60):
            while b"BEGIN" not in fake.received and not opening.done():
                await asyncio.sleep(0)
        opening.cancel()  # it still waits for an answer, until the server goes
    with pytest.raises(asyncio.CancelledError):
        await opening
