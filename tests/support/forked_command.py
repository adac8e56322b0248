"""Runs `dlq` in a process of its own, forked from one that has already imported the product.

Importing it costs a second of processor time, and the suite starts it more than a thousand times. What depends on
the start itself (imports, `-P`, arguments of the interpreter) is tested with a whole new interpreter.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from multiprocessing import reduction
from pathlib import Path
from threading import Thread
from typing import Any

# Neither keyring nor Textual: they read the environment when they are imported. What keyring needs is harmless.
_PRELOADED = (
    "console.__main__",
    "console.cli.main",
    "console.cli.parser",
    "console.cli.context",
    "console.cli.browse",
    "console.cli.triage",
    "console.cli.replay",
    "console.cli.stats",
    "console.cli.results",
    "backends.sql.store",
    "venues.http",
    "sqlalchemy.ext.asyncio",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "aiosqlite",
    "asyncpg",
    "httpx",
    "httpcore",
    "anyio._backends._asyncio",
    "h2.connection",
    "console.cli.usage.verb",
    "console.services.replay.batch",
    "venues.alpaca.client",
    "importlib_metadata",
    "jaraco.classes.properties",
    "jaraco.context",
    "jaraco.functools",
)
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(_PRELOADED))


def ran(
    words: Sequence[str],
    environ: Mapping[str, str],
    *,
    cwd: Path,
    stdin: str = "",
    user: int | None = None,
    timeout: float = 60,
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `dlq WORDS`. Raises TimeoutExpired."""
    with tempfile.TemporaryDirectory(prefix="dlq-ran-") as folder:
        files = [Path(folder, name) for name in ("in", "out", "err")]
        for file, text in zip(files, (stdin, "", ""), strict=True):
            file.write_text(text, "utf-8")
        process = _context.Process(target=_child, args=(list(words), dict(environ), str(cwd), files, user))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(words), timeout)
        return process.exitcode, files[1].read_text("utf-8"), files[2].read_text("utf-8")


class Started:
    """A running `dlq WORDS`, used as a Popen with text: where no file is given for its output, there is a pipe."""

    def __init__(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        *,
        cwd: Path,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        takes_terminal: bool = False,
    ) -> None:
        """`takes_terminal`: its standard input is a terminal, which becomes its own."""
        given = os.open(os.devnull, os.O_RDONLY) if stdin == subprocess.DEVNULL else os.dup(stdin)
        (out, self.stdout), (err, self.stderr) = _output(stdout), _output(stderr)
        theirs = (given, out, err)
        self._process = _context.Process(
            target=_child,
            args=(list(words), dict(environ), str(cwd), [_Handed(one) for one in theirs], None, takes_terminal),
        )
        self._process.start()
        for one in theirs:
            os.close(one)
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("dlq", timeout or 0)
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What is left of its output, read at the same time, once it has ended."""
        told: dict[str, str] = {}
        pipes = {name: pipe for name, pipe in (("out", self.stdout), ("err", self.stderr)) if pipe is not None}
        readers = [Thread(target=_drain, args=(told, name, pipe), daemon=True) for name, pipe in pipes.items()]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return told.get("out", ""), told.get("err", "")

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """As a Popen: its pipes are closed, and it is waited for. Where the test failed, it is ended first."""
        if kind is not None:
            self.kill()
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self._process.join()


def _output(given: int) -> tuple[int, TextIOWrapper | None]:
    """The child's end, and ours where it is a pipe."""
    if given != subprocess.PIPE:
        return os.dup(given), None
    reading, writing = os.pipe()
    return writing, os.fdopen(reading, encoding="utf-8")


def _drain(told: dict[str, str], name: str, pipe: TextIOWrapper) -> None:
    with pipe:
        told[name] = pipe.read()


@dataclass(frozen=True)
class _Handed:
    """An open file that is handed to the forked process."""

    number: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _taken, (reduction.DupFd(self.number),)


def _taken(handed: Any) -> int:
    return int(handed.detach())


def _child(
    words: list[str],
    environ: dict[str, str],
    cwd: str,
    files: Sequence[Path | int],
    user: int | None,
    takes_terminal: bool = False,
) -> None:
    for number, (file, flags) in enumerate(zip(files, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)):
        opened = file if isinstance(file, int) else os.open(file, flags)
        os.dup2(opened, number)
        os.close(opened)
    if takes_terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    _reopen("stdin", 0, "r", "strict")
    _reopen("stdout", 1, "w", "strict")
    _reopen("stderr", 2, "w", "backslashreplace")
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    if user is not None:
        os.setreuid(user, user)
    sys.argv = ["dlq", *words]
    from console.__main__ import main

    main()


def _reopen(name: str, number: int, way: str, errors: str) -> None:
    """As an interpreter does when it starts; `number` stays open to the end."""
    stream = open(number, way, buffering=1 if number == 2 else -1, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)
