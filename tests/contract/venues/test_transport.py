"""The transport: a whole answer, and what provably never left."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.http_server import Loopback, full_port, reply, settle
from tests.support.venue.transport import CANARY, KEYS, TIMEOUT, ok, sent
from venues import NotSent
from venues.http import Headers, Reply, Transport


@pytest.fixture
def full() -> Iterator[str]:
    with full_port() as url:
        yield url


async def test_an_answer_comes_back_whole() -> None:
    body = b'{"n": 1.10, "big": 123456789012345678901234567890}'
    async with Loopback(lambda _: reply(201, body, Date="Mon, 16 Nov 2026 01:02:03 GMT", X_Y="z")) as server:
        result = await sent(server.url)
    assert isinstance(result, Reply)
    assert (result.status, result.headers["x-y"], result.body) == (201, "z", body)
    assert {name: str(value) for name, value in (result.json() or {}).items()} == {
        "n": "1.10",
        "big": "123456789012345678901234567890",
    }
    assert result.date() == dt.datetime(2026, 11, 16, 1, 2, 3, tzinfo=dt.UTC)


async def test_what_is_on_the_wire() -> None:
    async with Loopback(ok) as server:
        transport = Transport(server.url, TIMEOUT)
        await transport.request("POST", "/a:b/c%2Fd", headers=KEYS, body=b'{"q":1}', params={"t": "a b&c"})
    (request,) = server.requests
    assert (request.method, request.path, request.params) == ("POST", "/a:b/c%2Fd", {"t": "a b&c"})
    assert request.body == b'{"q":1}'
    assert request.headers == {
        "host": server.url.removeprefix("http://"),
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "dlq-console",
        "content-type": "application/json",
        "content-length": "7",
        "connection": "close",
        "x-key": CANARY,
    }


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"<html>", b'{"a":', b'{"a":NaN}', b'{"a":1,"a":2}', b"[" * 100_000, b"\xff"]
)
async def test_a_body_that_is_not_one_json_object(body: bytes) -> None:
    assert Reply(200, {}, body).json() is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "Mon, 16 Nov 2026 01:02:13 GMT", "date": "Mon, 16 Nov 2026 01:02:03 GMT"}, 10.0),
        ({"x-ratelimit-reset": "1794790933", "date": "Mon, 16 Nov 2026 01:02:03 GMT"}, 10.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "1e99"}, 86_400.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert Reply(429, headers, b"").retry_after() == seconds


# What never left


async def test_a_refused_connection_is_not_sent() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert isinstance(await sent(f"http://127.0.0.1:{port}"), NotSent)


async def test_a_name_that_does_not_resolve_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_name(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)  # a real resolver would be asked over the network
    result = await sent("https://venue.invalid", timeout=5.0)
    assert isinstance(result, NotSent)
    assert "Name or service not known" in result.why


async def test_a_connection_that_is_not_taken_is_not_sent(full: str) -> None:
    began = time.monotonic()
    assert isinstance(await sent(full), NotSent)
    assert time.monotonic() - began < TIMEOUT + 30


async def test_tls_spoken_to_something_else_is_not_sent() -> None:
    async with Loopback(ok) as server:
        assert isinstance(await sent(server.url.replace("http:", "https:")), NotSent)
    assert server.requests == []


async def test_a_certificate_nobody_vouches_for_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority = _self_signed(tmp_path)
    context.load_cert_chain(authority)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))  # the environment cannot vouch for it either
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    async with Loopback(ok, tls=context) as server:
        assert isinstance(await sent(server.url), NotSent)
    assert server.requests == []
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("value", ["", "a\r\nX-Evil: 1", "a\nb", "kéy", "\x00", " a"])
async def test_a_key_that_cannot_be_a_header_is_not_sent(value: str) -> None:
    async with Loopback(ok) as server:
        result = await Transport(server.url, TIMEOUT).request("POST", "/", headers=Headers({"X-Key": value}))
    assert isinstance(result, NotSent)
    assert server.connections == 0
    assert not value.strip() or value not in result.why


async def test_cancelled_before_a_byte_left_is_not_sent(full: str) -> None:
    task = asyncio.create_task(sent(full, timeout=5.0))
    await settle()
    task.cancel()
    assert isinstance(await task, NotSent)


def _self_signed(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
