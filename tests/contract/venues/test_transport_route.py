"""The transport's connections, and all that cannot lead it elsewhere: cookies, proxies, redirects."""

from __future__ import annotations

import asyncio
import logging
import traceback

import pytest

from tests.support.http_server import Loopback, never, reply
from tests.support.venue.transport import CANARY, KEYS, TIMEOUT, ok, sent
from venues.http import Reply, Transport


async def test_a_cancelled_look_up_is_cancelled_and_shows_no_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Loopback(never) as server:
        transport = Transport(server.url, 5.0)
        task = asyncio.create_task(transport.ask("GET", "/v2/account", headers=KEYS))
        await server.arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        await transport.aclose()
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    text = "".join(shown.format())
    assert "headers = Headers(X-Key)" in text  # the locals are really shown
    assert CANARY not in text + caplog.text + repr(caught.value.__context__)


async def test_orders_have_connections_of_their_own_and_look_ups_share() -> None:
    async with Loopback(ok) as server:
        transport = Transport(server.url, TIMEOUT)
        for _ in range(3):
            await transport.ask("GET", "/look")
        assert server.connections == 1
        for _ in range(3):
            await transport.request("POST", "/order")
        assert server.connections == 4
        await transport.aclose()


async def test_no_cookie_is_kept() -> None:
    async with Loopback(lambda _: reply(200, {}, Set_Cookie="mode=live; Path=/")) as server:
        transport = Transport(server.url, TIMEOUT)
        await transport.ask("GET", "/")
        await transport.ask("GET", "/")
        await transport.aclose()
    assert all("cookie" not in request.headers for request in server.requests)


# The environment and the other end cannot lead it elsewhere


async def test_proxies_of_the_environment_see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Loopback(ok) as proxy, Loopback(ok) as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.lower(), proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        transport = Transport(server.url, TIMEOUT)
        assert isinstance(await transport.request("POST", "/"), Reply)
        assert isinstance(await transport.ask("GET", "/"), Reply)
        await transport.aclose()
    assert proxy.connections == 0
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    async with Loopback(ok) as elsewhere, Loopback(lambda _: reply(status, Location=elsewhere.url)) as server:
        result = await sent(server.url)
    assert isinstance(result, Reply)
    assert result.status == status
    assert elsewhere.connections == 0
    assert len(server.requests) == 1
