"""dlq serve: the page over HTTP, and the console itself over its websocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from tests.cli.conftest import Dlq
from tests.support.orders import row, sqlite_store
from tests.support.serve import serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    store = sqlite_store(tmp_path / "orders.db", [row(1, market_id="SERVED", captured_at=datetime.now(UTC))])
    with serving(store, tmp_path) as url:
        yield url


async def _page(url: str) -> str:
    async with aiohttp.ClientSession() as session:
        for _ in range(200):
            try:
                async with session.get(url) as answer:
                    return await answer.text()
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)  # the server says its address just before it listens
    raise AssertionError("nobody listens")


async def _shows(url: str, wanted: bytes) -> bool:
    """Does the console draw this text into the page's terminal?"""
    seen = b""
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{url}/ws?width=100&height=30") as page:
        await page.send_str(json.dumps(["resize", {"width": 100, "height": 30}]))
        async with asyncio.timeout(60):
            async for message in page:
                if message.type == aiohttp.WSMsgType.BINARY:
                    seen += message.data
                if wanted in seen:
                    return True
    return False


async def test_a_browser_gets_the_console(served: str) -> None:
    assert "dlq-console" in await _page(served)
    assert await _shows(served, b"SERVED")


def test_a_bad_port_is_one_line(dlq: Dlq) -> None:
    ran = dlq("serve", "--db", "x", "--port", "0")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
