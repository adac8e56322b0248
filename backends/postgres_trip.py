"""A read of Postgres in one trip: BEGIN, its settings, one statement and ROLLBACK go out together. Knows no table.

The server takes them as the separate messages they are, so nothing of a transaction is given up, only the waiting.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from dlq_sink.libpq.wire import OutgoingTransport

from backends.postgres_session import END_READING, PREPARED_BEGIN, is_pooled_connection

_MOST_STATEMENTS = 100  # that one session keeps prepared, as many as the driver keeps by itself


class SingleTrip:
    """The statements that a session has prepared, each under a safe search_path, and how they run again.

    A statement is resolved when it is prepared. So it is learned in a transaction that has begun, and only then runs
    in one trip.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._known: OrderedDict[str, Any] = OrderedDict()
        self._around: tuple[bytes, bytes] | None = None

    @classmethod
    def on(cls, driver: Any) -> SingleTrip | None:
        """None where a pooler answers, since its sessions keep no statement."""
        can = not is_pooled_connection(driver) and isinstance(driver._transport, OutgoingTransport)
        return cls(driver) if can else None

    def knows(self, text: str) -> bool:
        return text in self._known

    async def learn(self, text: str) -> Any:
        """The prepared statement; for who is in a transaction."""
        statement = self._known.get(text)
        if statement is None:
            statement = self._known[text] = await self._driver.prepare(text)
            if len(self._known) > _MOST_STATEMENTS:
                self._known.popitem(last=False)
        return statement

    async def fetch(self, text: str, values: Sequence[object]) -> list[Any]:
        self._known.move_to_end(text)
        around = self._around
        if around is None:
            # Named from now on: a server error ends this connection, and whatever else fails, it has got them.
            around, self._around = _framed(parse=True), _framed(parse=False)
        transport: OutgoingTransport = self._driver._transport
        transport.put(*around)
        try:
            found: list[Any] = await self._known[text].fetch(*values)
        finally:
            transport.put_no_more()
        return found


def _framed(*, parse: bool) -> tuple[bytes, bytes]:
    """What goes before and behind the statement."""
    texts = enumerate((*PREPARED_BEGIN, END_READING))
    runs = [_run(f"dlq_console_{n}", text if parse else None) for n, text in texts]
    return b"".join(runs[:-1]), runs[-1]


def _run(name: str, text: str | None) -> bytes:
    """Messages that run a prepared statement without values; with its text they prepare it first."""
    called = name.encode() + b"\0"
    parse = b"" if text is None else _message(b"P", called + text.encode() + b"\0\0\0")
    return parse + _message(b"B", b"\0" + called + bytes(6)) + _message(b"E", b"\0" + bytes(4))


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body
