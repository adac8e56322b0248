"""Loopback connections: reads requests and delivers answers, late, in pieces or not at all if the plan says so.

Must not know orders, venues or faults by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import assert_never

from venues.practice.format import Plan
from venues.practice.wire import MAX_HEAD, MessageError, WireReply, WireRequest, encode, read_request

HOST = "127.0.0.1"
RESET_PAUSE = 0.05  # seconds; lets the client read the first half before the reset discards it
ABORT = struct.pack("ii", 1, 0)  # SO_LINGER with zero seconds, so that close() sends RST


class Server:
    def __init__(self, handle: Callable[[WireRequest], Plan], clock: Callable[[], datetime]) -> None:
        self._handle = handle
        self._clock = clock
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self._let_go = asyncio.Event()
        self.url = ""

    async def start(self, port: int) -> None:
        self._server = await asyncio.start_server(self._connected, HOST, port, limit=MAX_HEAD)
        self.url = f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        talks = tuple(self._talks)
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def let_go(self) -> None:
        """Every answer that is kept back goes out now."""
        self._let_go.set()
        self._let_go = asyncio.Event()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)
        talk.add_done_callback(lambda _: writer.close())  # itself it closes nothing if it never began

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader)) is not None:
                plan = self._handle(request)
                if plan.wait:
                    await _wait(self._let_go, plan.wait)
                if not await deliver(plan, writer, keep_alive=request.keep_alive):
                    break
        except MessageError as error:
            head, body = encode(WireReply(error.status, {"message": str(error)}), self._clock(), keep_alive=False)
            writer.write(head + body)
        except ConnectionError:
            pass  # the client has closed; its request is in the ledger
        finally:
            await hang_up(writer)


async def deliver(plan: Plan, writer: asyncio.StreamWriter, *, keep_alive: bool) -> bool:
    """Deliver the answer; return whether the connection can carry another request."""
    head, body = encode(plan.reply, plan.date, keep_alive=keep_alive)
    match plan.delivery:
        case "whole":
            writer.write(head + body)
            await writer.drain()
            return keep_alive
        case "drip":
            await _drip(writer, head, seconds=plan.drip)
            writer.write(body)
            await writer.drain()
            return keep_alive
        case "reset":
            writer.write(head + body[: len(body) // 2])
            await writer.drain()
            await asyncio.sleep(RESET_PAUSE)
            with contextlib.suppress(OSError):  # the client has closed already
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            writer.transport.abort()
            return False
        case "none":
            return False
        case never:
            assert_never(never)


async def _wait(let_go: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(let_go.wait(), seconds)


async def _drip(writer: asyncio.StreamWriter, head: bytes, *, seconds: float) -> None:
    """Send byte by byte, so that a timeout that restarts with every byte never ends the wait."""
    for byte in head:
        writer.write(bytes((byte,)))
        await writer.drain()
        await asyncio.sleep(seconds / len(head))


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):  # the client closed first
        await writer.wait_closed()
