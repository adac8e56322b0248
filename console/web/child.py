"""One console process behind one page: passes keys in and drawings out, and ends with its page.

Speaks what Textual's web driver speaks: packets of a type, a length and a body. What else a console might ask of the
browser (open an address, deliver a file) is not passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence

_PRELUDE = b"__GANGLION__\n"
_PRELUDE_LINES = 10
_MOST_COLUMNS, _MOST_ROWS = 1000, 500
_LARGEST_PACKET = 16_000_000
_LEAVE_SECONDS = 10.0


class ConsoleProcess:
    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(
        cls, command: Sequence[str], environ: Mapping[str, str], *, width: int, height: int
    ) -> ConsoleProcess:
        """Raises OSError where no process can be started."""
        size = {"COLUMNS": str(_within(width, _MOST_COLUMNS)), "ROWS": str(_within(height, _MOST_ROWS))}
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={**environ, **_TERMINAL, **size}
        )
        return cls(process)

    async def draw(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Pass on what the console draws, until it ends."""
        out = self._process.stdout
        assert out is not None, "it is a pipe"
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for _ in range(_PRELUDE_LINES):
                if await out.readuntil(b"\n") == _PRELUDE:
                    break
            else:
                return
            while True:
                kind, size = await out.readexactly(1), int.from_bytes(await out.readexactly(4), "big")
                if size > _LARGEST_PACKET:
                    return
                body = await out.readexactly(size)
                if kind == b"D":
                    await send(body)
                elif kind == b"M" and _kind(body) == "exit":
                    return

    async def take(self, text: str) -> str | None:
        """Pass on what the page says. Returns what to answer; ignores what is no message of a page."""
        try:
            match json.loads(text):
                case ["stdin", str(typed)]:
                    await self._write(b"D", typed.encode("utf-8", "ignore"))
                case ["resize", {"width": int(width), "height": int(height)}]:
                    size = {"width": _within(width, _MOST_COLUMNS), "height": _within(height, _MOST_ROWS)}
                    await self._tell({"type": "resize", **size})
                case ["focus" | "blur" as kind, *_]:
                    await self._tell({"type": kind})
                case ["ping", data]:
                    return json.dumps(["pong", data])
        except (ValueError, RecursionError):
            return None
        return None

    async def end(self) -> None:
        """Ask the console to leave; after a while end it."""
        with contextlib.suppress(ConnectionError, RuntimeError):
            await self._tell({"type": "quit"})
        for stronger in (self._process.terminate, self._process.kill):
            try:
                await asyncio.wait_for(self._process.wait(), _LEAVE_SECONDS)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    stronger()
        await self._process.wait()

    async def _tell(self, meta: Mapping[str, object]) -> None:
        await self._write(b"M", json.dumps(meta).encode())

    async def _write(self, kind: bytes, body: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None, "it is a pipe"
        pipe.write(kind + len(body).to_bytes(4, "big") + body)
        with contextlib.suppress(ConnectionError):  # it has ended: `draw` notices
            await pipe.drain()


_TERMINAL = {
    "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver",
    "TEXTUAL_COLOR_SYSTEM": "truecolor",
    "COLORTERM": "truecolor",
    "TERM": "xterm-256color",
    "TERM_PROGRAM": "textual",
}


def _within(asked: int, most: int) -> int:
    return max(1, min(asked, most))


def _kind(body: bytes) -> object:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return told.get("type") if isinstance(told, dict) else None
