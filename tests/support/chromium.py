"""A real browser for tests: headless Chromium, told what to do over its debugging socket; sees what its page gets."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pyte

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 60.0
WIDTH, HEIGHT = 1100, 700
_CODES = {"Enter": (13, "\r"), "Escape": (27, ""), "ArrowDown": (40, "")}


class Page:
    """One page; `text` is what an emulator makes of the bytes that the page got over its websocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._screen = pyte.Screen(200, 60)
        self._stream = pyte.ByteStream(self._screen)
        self.faults: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    async def tell(self, method: str, **given: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": given})
        async with asyncio.timeout(PATIENCE):
            while (heard := await self._hear()).get("id") != number:
                pass
        return dict(heard["result"])

    async def until(self, wanted: str) -> None:
        """Until the page has been sent this, seen as a person sees it."""
        if not await self._sees(wanted, PATIENCE):
            raise AssertionError(f"no {wanted!r} in\n{self.text}")

    async def insist(self, key: str, wanted: str) -> None:
        """Press it until it counts: a gate takes no key at first."""
        for _ in range(10):
            await self.press(key)
            if await self._sees(wanted, 3.0):
                return
        raise AssertionError(f"no {wanted!r} in\n{self.text}")

    async def _sees(self, wanted: str, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not re.search(wanted, self.text):
                    await self._hear()
        except TimeoutError:
            return False
        return True

    async def press(self, *keys: str) -> None:
        for key in keys:
            code, text = _CODES.get(key) or (ord(key.upper()) if key.isalnum() else 0, key)
            given = {"key": key, "windowsVirtualKeyCode": code, "text": text}
            await self.tell("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **given)
            await self.tell("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    async def focus(self) -> None:
        """As a person does who clicks into the page."""
        for kind in ("mousePressed", "mouseReleased"):
            given = {"x": WIDTH // 2, "y": HEIGHT // 2, "button": "left", "clickCount": 1}
            await self.tell("Input.dispatchMouseEvent", type=kind, **given)

    async def picture(self) -> bytes:
        return base64.b64decode((await self.tell("Page.captureScreenshot", format="png"))["data"])

    async def _hear(self) -> dict[str, Any]:
        heard = dict(await self._socket.receive_json())
        match heard.get("method"):
            case "Network.webSocketFrameReceived":
                frame = heard["params"]["response"]
                if frame["opcode"] == 2:
                    self._stream.feed(base64.b64decode(frame["payloadData"]))
            case "Runtime.exceptionThrown":
                self.faults.append(json.dumps(heard["params"]["exceptionDetails"])[:300])
        return heard


@asynccontextmanager
async def browsing(url: str, profile: Path) -> AsyncIterator[Page]:
    assert PROGRAM is not None
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    words += ["--disable-background-networking", "--remote-debugging-port=0", f"--window-size={WIDTH},{HEIGHT}"]
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *words, f"--user-data-dir={profile}", "about:blank", stderr=asyncio.subprocess.PIPE
    )
    try:
        port = await _port(process)
        async with aiohttp.ClientSession() as session:
            async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
                target = await answer.json()
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Network", "Runtime", "Page"):
                    await page.tell(f"{domain}.enable")
                await page.tell("Page.navigate", url=url)
                yield page
    finally:
        process.terminate()
        await process.wait()


async def _port(process: asyncio.subprocess.Process) -> int:
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        while said := await process.stderr.readline():
            if found := re.search(rb"DevTools listening on ws://127\.0\.0\.1:(\d+)/", said):
                return int(found[1])
    raise AssertionError("Chromium did not start")
