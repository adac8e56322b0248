"""A program in a real terminal, timed: when bytes come, how many, what the process costs. No emulator in between."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parent.parent
COLUMNS, ROWS = 120, 40
_ESCAPE = re.compile(rb"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|P[^\x1b]*\x1b\\|[@-Z\\-_])")
_PATIENCE = 60.0
_FRAME_GAP = 0.06  # seconds of silence after which what comes is another frame
_TICKS = os.sysconf("SC_CLK_TCK")


class Timed:
    """Started at once; every moment is counted from just before the exec."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        settings = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=settings | dict(environ),
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Timed:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.master)

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def read(self, patience: float) -> bytes:
        """What comes next; nothing where nothing comes in time."""
        if not select.select([self.master], [], [], max(0.0, patience))[0]:
            return b""
        try:
            return os.read(self.master, 1 << 20)
        except OSError as problem:
            raise SystemExit(f"{self.process.args!r} ended") from problem

    def until(self, wanted: bytes) -> float:
        """Seconds until this is written, escapes left out."""
        seen = bytearray()
        end = time.perf_counter() + _PATIENCE
        while time.perf_counter() < end:
            seen += self.read(end - time.perf_counter())
            at = time.perf_counter()
            if re.search(wanted, _ESCAPE.sub(b"", bytes(seen))):
                return at - self.began
        raise SystemExit(f"{self.process.args!r} never showed {wanted!r}")

    def settle(self, quiet: float, most: float = _PATIENCE) -> None:
        """Reads until nothing came for `quiet` seconds."""
        end = time.perf_counter() + most
        while time.perf_counter() < end and self.read(quiet):
            pass

    def paint(self, key: bytes, quiet: float = 0.15) -> tuple[float, float]:
        """Milliseconds from a key to the end of its first frame, and to the last byte it caused."""
        began = at = time.perf_counter()
        self.press(key)
        frame, last, end = None, began, began + 5
        while time.perf_counter() < end and self.read(quiet):
            at = time.perf_counter()
            if frame is None and last > began and at - last > _FRAME_GAP:
                frame = last
            last = at
        return ((frame or last) - began) * 1000, (last - began) * 1000

    def shown(self, key: bytes, pattern: re.Pattern[bytes], before: bytes) -> tuple[float, bytes]:
        """Milliseconds from a key until something else than `before` is written where the pattern looks."""
        began = time.perf_counter()
        self.press(key)
        seen = bytearray()
        while time.perf_counter() - began < _PATIENCE:
            seen += self.read(1.0)
            for found in reversed(pattern.findall(_ESCAPE.sub(b"", bytes(seen)))):
                if found != before:
                    return (time.perf_counter() - began) * 1000, found
        raise SystemExit(f"{key!r} changed nothing in {_PATIENCE:g} s")

    @property
    def resident(self) -> float:
        """MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def busy(self) -> float:
        """Milliseconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / _TICKS
