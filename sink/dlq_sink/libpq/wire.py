"""Stands between the driver and the socket: who is at the other end, what a login asks for, how long an answer is.

The driver can neither be told which logins to refuse nor be handed a socket, but it opens its sockets on a loop it is
given. It knows no SQL and reads no password.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Literal

from dlq_sink.error import Unreachable
from dlq_sink.libpq.unix_socket import peer_uid

# Of an authentication request: https://www.postgresql.org/docs/current/protocol-message-formats.html
_OK = 0
_METHODS = {3: "password", 5: "md5", 7: "gss", 9: "sspi", 10: "scram-sha-256"}
# What may come next. The driver does not survive a step of a login that has not begun.
_NEXT = {None: frozenset({_OK, *_METHODS}), 7: {8, _OK}, 8: {8, _OK}, 9: {8, _OK}, 10: {11}, 11: {12}}
_SIZES = {_OK: 9, 3: 9, 5: 13}  # of the whole message, where it is fixed
_LONGEST = 30_000  # no message before the end of a login is longer
_HEAD = 5
# Until the server is ready for a query: anything else, or an odd length, would keep the driver busy for ever.
_KINDS = frozenset({b"R", b"S", b"K", b"N", b"E", b"Z", b"v"})
# What follows the head of each: the driver fails on a field without an end.
_BODIES = {
    # A pooler repeats the encoding as the driver said it, in quotes.
    b"S": re.compile(
        rb"(?i:client_encoding\0(?:utf-?8|'utf-?8'|unicode|sql_ascii)\0|(?!client_encoding\0)[^\0]*\0[^\0]*\0)"
    ),
    b"K": re.compile(rb".{8,}", re.DOTALL),
    b"N": re.compile(rb"(?:[^\0]+\0)*\0"),
    b"E": re.compile(rb"(?:[^\0]+\0)*\0"),
    b"Z": re.compile(rb"[ITE]"),
}
# The driver takes for granted that it is told, and leaves half a connection behind where it cannot be read.
_VERSION = re.compile(rb"server_version\0[ -/:-~]*[0-9]{1,6}(?![0-9])[ -~]*\0")

# Of an answer. A text with one letter of four bytes takes four for each of its letters once it is read.
LONGEST_MESSAGE = 110_000_000  # as of a value in SQLite
LONGEST_ANSWER = 160_000_000
_WIDEST_MESSAGE = 27_000_000
_WIDE = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")
_LONGEST_NUMBER = 1000
_ORDINARY = 16_384  # bytes of a row
_HEADER = struct.Struct("!BI")
_ROW, _ANSWERED = ord("D"), frozenset(b"CsZE")
_BIND, _SYNC = b"B", b"S" + struct.pack("!I", 4)
# An error of class "program limit exceeded", and that the server is ready again.
_FIELDS = b"SERROR\0VERROR\0C54000\0Mthe answer is oversized\0\0"
_OVERSIZED = b"E" + struct.pack("!I", 4 + len(_FIELDS)) + _FIELDS + b"Z" + struct.pack("!I", 5) + b"E"


class LoginWatch:
    """What a connection must be before it gets a byte, and which requests are answered. Keeps the first problem."""

    def __init__(
        self,
        label: str,
        *,
        peers: frozenset[int] | None = None,
        methods: frozenset[str] | None = None,
        cleartext: bool = True,
    ) -> None:
        self._label = label
        self._peers = peers
        self._methods = methods
        self._cleartext = cleartext
        self.problem: Unreachable | None = None

    def check_peer(self, connected: socket.socket | None) -> bool:
        if self._peers is None or connected is None or connected.family != socket.AF_UNIX:
            return True
        if peer_uid(connected) in self._peers:
            return True
        self.problem = Unreachable(
            f"{self._label}: the socket belongs to another OS user than expected; nothing was sent. "
            "Name its folder (host=/folder) if it is the right one"
        )
        return False

    def keep_odd(self) -> None:
        if self.problem is None:
            self.problem = Unreachable(f"{self._label} does not speak the Postgres protocol")

    def check_request(self, code: int, *, asked_before: bool) -> bool:
        """Whether the server's request may be answered."""
        method = "none" if code == _OK and not asked_before else _METHODS.get(code)
        if method is None:
            return True  # a later step of a method that was let through
        if method == "password" and not self._cleartext:
            self.problem = Unreachable(
                f"{self._label} asks for the password in clear text without sslmode=; it was not sent. Say sslmode= "
                "(verify-full to be sure of the server) or let the server use scram-sha-256"
            )
        elif self._methods is not None and method not in self._methods:
            self.problem = Unreachable(f"{self._label} asks for a login by {method}, which require_auth refuses")
        return self.problem is None


class _Before(asyncio.Protocol):
    """Stands before the driver's protocol and leaves to it what is no data."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def eof_received(self) -> bool | None:
        return bool(self.inner.eof_received()) if hasattr(self.inner, "eof_received") else None

    def connection_lost(self, exc: Exception | None) -> None:
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()


class LoginGuard(_Before):
    """Passes the server's messages on one by one until the login is over, then an `AnswerGuard` takes its place."""

    def __init__(self, inner: Any, watch: LoginWatch) -> None:
        super().__init__(inner)
        self._watch = watch
        self._transport: Any = None
        self.outgoing: Any = None  # what the driver writes to
        self._waiting = b""
        self._last: int | None = None  # the request before this one
        self._has_version = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self.outgoing = OutgoingTransport(transport)
        if self._watch.check_peer(transport.get_extra_info("socket")):
            self.inner.connection_made(self.outgoing)
        else:
            self._transport.abort()

    def watch_begun(self, transport: Any) -> None:
        """The driver has begun on this transport already."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        while len(self._waiting) >= _HEAD:
            kind, size = self._waiting[:1], int.from_bytes(self._waiting[1:_HEAD], "big") + 1
            if kind not in _KINDS or not _HEAD <= size <= _LONGEST:
                self._refuse()
                return
            if len(self._waiting) < size:
                return
            message, self._waiting = self._waiting[:size], self._waiting[size:]
            if kind in b"NE":
                message = _as_utf8(message)  # a server tells its errors in its own encoding until it knows ours
            if kind in _BODIES and not _is_whole(kind, message):
                self._refuse()
                return
            if kind == b"R" and not self._pass_request(message):
                return
            self._has_version |= kind == b"S" and _VERSION.match(message, _HEAD) is not None
            if kind == b"Z" and not self._has_version:
                self._refuse()
                return
            self.inner.data_received(message)
            if kind == b"Z":
                self._step_aside()
                return

    def _pass_request(self, message: bytes) -> bool:
        code, size = _code(message), len(message)
        expected = code in _NEXT.get(self._last, {_OK}) and size == _SIZES.get(code, max(size, 9))
        if not expected or not self._watch.check_request(code, asked_before=self._last is not None):
            self._refuse()
            return False
        self._last = code
        return True

    def _refuse(self) -> None:
        """What it says is not passed on."""
        self._watch.keep_odd()
        self._transport.abort()

    def _step_aside(self) -> None:
        rest, self._waiting = self._waiting, b""
        guard = AnswerGuard(self.inner, self._transport)
        self._transport.set_protocol(guard)
        if rest:
            guard.data_received(rest)


def _is_whole(kind: bytes, message: bytes) -> bool:
    if _BODIES[kind].fullmatch(message, _HEAD) is None:
        return False
    return kind == b"K" or message[_HEAD:].decode("utf-8", "replace").encode() == message[_HEAD:]


def _as_utf8(message: bytes) -> bytes:
    text = message[_HEAD:].decode("utf-8", "replace").encode()
    return message[:1] + struct.pack("!I", len(text) + 4) + text


def _code(message: bytes) -> int:
    return int.from_bytes(message[_HEAD : _HEAD + 4], "big")


class AnswerGuard(_Before):
    """Ends a connection whose answer would take too much memory, before the driver begins to keep it.

    A message is judged by its length, which comes first. The driver is told of an error as the server would tell it.
    """

    def __init__(self, inner: Any, transport: Any) -> None:
        super().__init__(inner)
        self._transport = transport
        self._head = b""  # the beginning of a message, too short to tell its length
        self._rest = 0  # bytes still to come of the message under way
        self._answer = 0  # bytes of rows since the answer began
        self._long: list[bytes] = []  # parts of a long message, which is judged once more when it is whole
        self._missing = 0  # bytes of it
        self._ended = False

    def data_received(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        if self._missing and data:
            self._long.append(data[: self._missing])
            data = data[self._missing :]
            self._missing -= len(self._long[-1])
            if self._missing:
                return
            self._pass_long()
        if data and not self._ended:
            self._walk(data)

    def _walk(self, data: bytes) -> None:
        at, last, answer, header = self._rest, len(data) - _HEAD, self._answer, _HEADER.unpack_from
        while at <= last:
            begun = at
            kind, length = header(data, at)
            while kind == _ROW and _HEAD - 1 <= length <= _ORDINARY:  # nearly all of a page's: little is asked of them
                at += length + 1
                if at > last:
                    break
                kind, length = header(data, at)
            answer += at - begun
            if answer > LONGEST_ANSWER:
                self._refuse(data[:begun])
                return
            if at > last:
                break
            if kind == _ROW:
                answer += length
            elif kind in _ANSWERED:
                answer = 0
            if not _HEAD - 1 <= length <= LONGEST_MESSAGE or answer > LONGEST_ANSWER:
                self._refuse(data[:at])
                return
            if length > _WIDEST_MESSAGE:
                self._rest, self._missing, self._answer = 0, length + 1, answer
                if at:
                    self.inner.data_received(data[:at])
                self.data_received(data[at:])
                return
            at += length + 1
        end, self._answer = last + _HEAD, answer
        if at < end:
            self._head, data = data[at:], data[:at]
        self._rest = max(0, at - end)
        if data:
            self.inner.data_received(data)

    def _pass_long(self) -> None:
        message, self._long = b"".join(self._long), []
        if _is_wide(message):
            self._refuse(b"")
        else:
            self.inner.data_received(message)

    def _refuse(self, before: bytes) -> None:
        self._ended = True
        self.inner.data_received(before + _OVERSIZED)
        self._transport.abort()


def _is_wide(message: bytes) -> bool:
    """Whether a long value has a letter of four bytes. Short ones may be numbers, whose bytes only look like it."""
    at, end = _HEAD + 2, len(message)
    while at + 4 <= end:
        size = max(0, int.from_bytes(message[at : at + 4], "big", signed=True))
        if size > _LONGEST_NUMBER and _WIDE.search(message, at + 4, at + 4 + size):
            return True
        at += 4 + size
    return False


class OutgoingTransport:
    """A transport that can put messages of ours around the one that the driver is about to write.

    Between them is no other Sync, so that the server takes all as one, and leaves out the rest once one of them fails.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._around: tuple[bytes, bytes] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def put(self, before: bytes, after: bytes) -> None:
        """Around the one statement that the driver runs until `put_no_more`; all else that it writes is refused."""
        self._around = before, after

    def put_no_more(self) -> None:
        self._around = None

    def write(self, data: Any) -> None:
        if self._around is not None:
            data = self._put_around(bytes(data))
        self._transport.write(data)

    def _put_around(self, data: bytes) -> bytes:
        assert self._around is not None
        before, after = self._around
        if not before or not data.startswith(_BIND) or not data.endswith(_SYNC):
            raise ConnectionError("the driver writes something else than one statement")
        self._around = b"", b""  # used up
        return b"".join((before, data[: -len(_SYNC)], after, _SYNC))


class _AskingTransport(OutgoingTransport):
    """One on which TLS is asked for; it puts the guard before the protocol that the driver sets on it afterwards."""

    def __init__(self, transport: Any, watch: LoginWatch) -> None:
        super().__init__(transport)
        self.bare = transport
        self._watch = watch

    def set_protocol(self, protocol: Any) -> None:
        guard = LoginGuard(protocol, self._watch)
        guard.watch_begun(self.bare)
        self.bare.set_protocol(guard)


Asks = Literal["no", "preferred", "required"]  # for TLS


class DialLoop:
    """The running loop, except that it opens connections to one server under the eyes of a watch."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        watch: LoginWatch,
        *,
        path: str | None,
        tls: Asks,
        options: Options,
    ) -> None:
        self._loop = loop
        self._watch = watch
        self._path = path
        self._tls = tls
        self._options = options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, factory: Callable[[], Any], *address: Any, **how: Any) -> tuple[Any, Any]:
        """With TLS the driver first asks whether the server has it, in another protocol, which needs no guard."""
        if self._tls != "no" and "ssl" not in how:
            bare, protocol = await self._loop.create_connection(lambda: self._asking(factory()), *address, **how)
            transport: Any = _AskingTransport(bare, self._watch)
        else:
            guard = LoginGuard(factory(), self._watch)
            await self._loop.create_connection(lambda: guard, *address, **how)
            transport, protocol = guard.outgoing, guard.inner
        _set_options(transport.get_extra_info("socket"), self._options)
        return transport, protocol

    def _asking(self, protocol: Any) -> Any:
        """Where the server has no TLS, the driver goes on without it on the same connection, or gives up."""
        protocol.ssl_is_advisory = self._tls == "preferred"
        return protocol

    async def create_unix_connection(self, factory: Callable[[], Any], _path: str) -> tuple[Any, Any]:
        """Not to the path it gives: the driver has no way to spell an abstract socket."""
        guard = LoginGuard(factory(), self._watch)
        await self._loop.create_unix_connection(lambda: guard, self._path)
        if self._watch.problem is not None:
            raise ConnectionError
        return guard.outgoing, guard.inner

    async def start_tls(self, transport: Any, protocol: Any, context: Any, **how: Any) -> Any:
        made = await self._loop.start_tls(transport.bare, protocol, context, **how)
        return None if made is None else _AskingTransport(made, self._watch)


Options = Mapping[tuple[int, int], int]  # (level, name) of a socket option → its value


def socket_options(values: Mapping[str, str]) -> Options:
    """The keepalives of a connection string, as far as this system has them."""
    tcp, level = socket.IPPROTO_TCP, socket.SOL_SOCKET
    asked = {key: int(values[key]) for key in values if key.startswith("keepalives") or key == "tcp_user_timeout"}
    on = asked.get("keepalives", 1)
    options = {(level, socket.SO_KEEPALIVE): int(on != 0)}
    names = {"idle": "TCP_KEEPIDLE", "interval": "TCP_KEEPINTVL", "count": "TCP_KEEPCNT"}
    for key, name in names.items():
        if on and asked.get(f"keepalives_{key}", 0) > 0 and hasattr(socket, name):
            options[tcp, getattr(socket, name)] = asked[f"keepalives_{key}"]
    if asked.get("tcp_user_timeout", 0) > 0 and hasattr(socket, "TCP_USER_TIMEOUT"):
        options[tcp, socket.TCP_USER_TIMEOUT] = asked["tcp_user_timeout"]
    return options


def _set_options(connected: socket.socket, options: Options) -> None:
    for (level, name), value in options.items():
        connected.setsockopt(level, name, value)
