"""A terminal for tests: a real pty with a screen behind it. Waiting is on what is shown; every byte is kept."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pyte

from tests.support.forked_command import Started

ROOT = Path(__file__).parents[3]
PATIENCE = float(os.environ.get("DLQ_PATIENCE", "60"))
_CHUNK = 65536
# pyte draws the `u` of these two: they are for keyboards, not for the screen.
_NOT_FOR_PYTE = (b"\x1b[<u", b"\x1b[>1u")
KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "pgdn": "\x1b[6~",
    "pgup": "\x1b[5~",
    "down": "\x1b[B",
    "up": "\x1b[A",
    "tab": "\t",
}


class Size(NamedTuple):
    columns: int = 80
    rows: int = 24


USUAL = Size()


class Terminal:
    """One program in one terminal. Reads only when told to wait, so that not reading is a test of its own."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], size: Size = USUAL, *, is_forked: bool = False
    ) -> None:
        """`is_forked`: the command is `dlq WORDS`, of which only the words are given; none of its screens."""
        self.master, slave = pty.openpty()
        self._slave_name = os.ttyname(slave)
        self.raw = bytearray()
        self._screen = pyte.Screen(size.columns, size.rows)
        self._stream = pyte.ByteStream(self._screen)
        self.resize(size)
        self.modes = termios.tcgetattr(slave)
        env = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", **environ}
        self.process = _forked(command, env, slave) if is_forked else _started(command, env, slave)
        self._slave = slave  # kept open: what was written last can still be read, the modes still be asked

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        self.hang_up()
        if kind is not None:
            print(self.text)

    def hang_up(self) -> None:
        """The window is closed."""
        for number in (self._slave, self.master):
            if number >= 0:
                os.close(number)
        self._slave = self.master = -1

    def resize(self, size: Size) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
        self._screen.resize(size.rows, size.columns)

    @property
    def text(self) -> str:
        """Cell by cell: pyte's own `display` fails on the half of a wide character whose other half was overwritten."""
        rows, columns = range(self._screen.lines), range(self._screen.columns)
        return "\n".join("".join(self._screen.buffer[y][x].data for x in columns).rstrip() for y in rows)

    def is_restored(self) -> bool:
        """Echo and line mode are as they were before the program."""
        return termios.tcgetattr(self._slave) == self.modes

    def read(self, seconds: float = 0.0) -> bool:
        """Takes what has come, waiting at most so long for the first of it."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            chunk = os.read(self.master, _CHUNK)
        except OSError:  # the other end is gone
            return False
        self.raw += chunk
        for word in _NOT_FOR_PYTE:
            chunk = chunk.replace(word, b"")
        self._stream.feed(chunk)
        return True

    def settle(self, seconds: float = 0.3) -> None:
        """Reads until nothing has come for so long."""
        until = time.monotonic() + PATIENCE
        while self.read(seconds):
            assert time.monotonic() < until, f"it never rests\n{self.text}"

    def pump(self, seconds: float) -> None:
        """Reads for so long: how a pace is kept."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read(left)

    def type(self, text: str | bytes, *, read: bool = True) -> None:
        """Every byte of it, reading meanwhile what comes back unless told not to."""
        data = text.encode() if isinstance(text, str) else text
        until = time.monotonic() + PATIENCE
        while data:
            assert time.monotonic() < until, "the program takes no keys"
            if read:
                self.read()
            if select.select([], [self.master], [], 0.05)[1]:
                data = data[os.write(self.master, data[:512]) :]

    def press(self, *names: str) -> None:
        """Keys by name or as they are, each in a write of its own."""
        for name in names:
            self.type(KEYS.get(name, name))

    def until(self, condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}\n{self.text}"
            assert self.process.poll() is None or self.read(), f"it ended before: {what}\n{self.text}"
            self.read(0.05)

    def shows(self, *words: str) -> None:
        """Waits until all of them are on the screen."""
        self.until(lambda: all(word in self.text for word in words), f"shows {words}")

    def hides(self, word: str) -> None:
        self.until(lambda: word not in self.text, f"no longer shows {word!r}")

    def back(self, word: str) -> None:
        """Esc, and what was there is gone: a key right behind an esc would be another key."""
        self.press("esc")
        self.hides(word)

    def opened(self, *words: str) -> None:
        """Waits until a gate with these words takes keys: its cursor is there."""
        self.shows(*words, "esc cancels", "▏")

    def ended(self, seconds: float = PATIENCE) -> int:
        """Its exit code, with all it wrote read."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end\n{self.text}"
            if self.master < 0:
                return self.process.wait(seconds)
            self.read(0.05)
        while self.master >= 0 and self.read():
            pass
        return self.process.wait(seconds)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def click(column: int, row: int, button: int = 0) -> str:
    """Pressed and let go at a cell, counted from 1."""
    return f"\x1b[<{button};{column};{row}M\x1b[<{button};{column};{row}m"


def pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
    """For what no terminal shows: a file, a venue, a store."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        select.select([], [], [], 0.02)


def _forked(words: Sequence[str], env: Mapping[str, str], slave: int) -> Started | subprocess.Popen[bytes]:
    return Started(words, env, cwd=ROOT, stdin=slave, stdout=slave, stderr=slave, takes_terminal=True)


def _started(command: Sequence[str], env: Mapping[str, str], slave: int) -> Started | subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ROOT,
        env=env,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
