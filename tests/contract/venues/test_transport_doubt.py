"""The transport once a byte has left: one request, one deadline, never "not sent"; and cancellation."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable

import pytest

from tests.support.http_server import Answer, Loopback, Received, never, reply
from tests.support.talks import Talks
from tests.support.venue.transport import TIMEOUT, sent
from venues import Unknown
from venues.http import MAX_REPLY, Reply, Result


def _hang_up(_: Received) -> Answer:
    return None


def _short(_: Received) -> Answer:
    return b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}"


def _noise(_: Received) -> Answer:
    return b"\x00\x01 not http\r\n\r\n"


def _long(_: Received) -> Answer:
    return reply(200, b" " * (MAX_REPLY + 1))


def _bomb(_: Received) -> Answer:
    return reply(200, gzip.compress(b"{}" + b" " * 5_000_000), Content_Encoding="gzip")


@pytest.mark.parametrize("handler", [_hang_up, _short, _noise, _long, never])
async def test_after_the_first_byte_no_failure_is_not_sent(handler: Callable[[Received], Answer]) -> None:
    began = time.monotonic()
    async with Loopback(handler) as server:
        assert isinstance(await sent(server.url), Unknown)
        assert time.monotonic() - began < TIMEOUT + 30
    assert len(server.requests) == 1


async def test_a_compressed_answer_is_not_unpacked() -> None:
    async with Loopback(_bomb) as server:
        result = await sent(server.url)
    assert isinstance(result, Reply)
    assert len(result.body) < 100_000
    assert result.json() is None


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"])
async def test_the_deadline_holds_against_a_trickle(first: bytes) -> None:
    """A byte now and then resets every per-read timeout; the deadline is over all of it."""
    stop = asyncio.Event()

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(first)
        while not stop.is_set():
            writer.write(b"H")
            try:
                await writer.drain()
                async with asyncio.timeout(0.02):
                    await stop.wait()
            except TimeoutError:
                continue
            except ConnectionError:
                break

    talks = Talks()
    server = await asyncio.start_server(talks.held_by(trickle), "127.0.0.1", 0)
    try:
        began = time.monotonic()
        result = await sent(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert time.monotonic() - began < TIMEOUT + 30
        stop.set()
    finally:
        await talks.end(server)
    assert isinstance(result, Unknown)


async def test_cancelled_after_a_byte_left_is_unknown_and_the_task_can_tell() -> None:
    told = 0

    async def caller(url: str) -> Result:
        nonlocal told
        result = await sent(url, timeout=5.0)
        task = asyncio.current_task()
        assert task is not None
        told = task.cancelling()
        return result

    async with Loopback(never) as server:
        task = asyncio.create_task(caller(server.url))
        await server.arrived.wait()
        task.cancel()
        assert isinstance(await task, Unknown)
    assert told == 1
    assert len(server.requests) == 1


async def test_cancelled_again_while_it_ends_is_still_an_outcome() -> None:
    async with Loopback(never) as server:
        task = asyncio.create_task(sent(server.url, timeout=5.0))
        await server.arrived.wait()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        assert isinstance(await task, Unknown)


async def test_a_callers_own_timeout_gets_the_outcome() -> None:
    async def run_out(server: Loopback, limit: asyncio.Timeout) -> None:
        await server.arrived.wait()
        limit.reschedule(0.0)

    async with Loopback(never) as server, asyncio.TaskGroup() as group:
        async with asyncio.timeout(None) as limit:
            group.create_task(run_out(server, limit))
            result = await sent(server.url, timeout=60.0)
    assert isinstance(result, Unknown)
    assert len(server.requests) == 1


async def test_a_shielded_request_runs_to_its_answer() -> None:
    go = asyncio.Event()

    async def wait(_: Received) -> Answer:
        await go.wait()
        return reply(200, {})

    async with Loopback(wait) as server:
        request = asyncio.create_task(sent(server.url, timeout=5.0))

        async def caller() -> Result:
            return await asyncio.shield(request)

        waiting = asyncio.create_task(caller())
        await server.arrived.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go.set()
        assert isinstance(await request, Reply)
