"""A server that only looks like Postgres: asks for a password in the way it is told, and keeps all it receives."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.talks import Talks

CLEARTEXT = struct.pack("!cii", b"R", 8, 3)
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", 4 + len(body)) + body


def request(code: int, more: bytes = b"") -> bytes:
    """Of an authentication."""
    return message(b"R", struct.pack("!i", code) + more)


class FakePostgres:
    """`received` is what came after TLS, if there was any; `raw` counts every byte of every connection.

    `says` is its answer to a login, after which it stays silent and keeps the connection.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, says: bytes = CLEARTEXT) -> None:
        self._tls = tls
        self._says = says
        self.received = b""
        self.raw = 0
        self.port = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):  # a client that does not trust it breaks off
            first = await reader.readexactly(8)
            self.raw += len(first)
            if first == _SSL_REQUEST:
                writer.write(b"S" if self._tls else b"N")
                await writer.drain()
                if self._tls:
                    await writer.start_tls(self._tls)
                first = await reader.readexactly(8)
            size, _ = struct.unpack("!ii", first)
            self.received += first + await reader.readexactly(size - 8)
            writer.write(self._says)
            await writer.drain()
            while more := await reader.read(1000):
                self.received += more

    @asynccontextmanager
    async def on_port(self) -> AsyncIterator[FakePostgres]:
        talks = Talks()
        server = await asyncio.start_server(talks.held_by(self.talk), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            await talks.end(server)

    @asynccontextmanager
    async def on_socket(self, path: Path | str) -> AsyncIterator[FakePostgres]:
        talks = Talks()
        server = await asyncio.start_unix_server(talks.held_by(self.talk), path)
        try:
            yield self
        finally:
            await talks.end(server)


def certificate(folder: Path, *names: str) -> tuple[Path, Path]:
    """A self-signed certificate for these names and addresses, and its key: files that only their owner can read."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([_name(one) for one in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "server.crt", folder / "server.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    for file in files:
        file.chmod(0o600)
    return files


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def tls_server(folder: Path, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder, *names))
    return context
