"""`dlq serve` on a free port of loopback, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def serving(store: str, home: Path, *words: str, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """The whole address that it prints, its secret included."""
    with server(store, home, *words, environ=environ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


@contextmanager
def server(
    store: str, home: Path, *words: str, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "console", "serve", "--db", store, "--port", "0", *words]
    environment = os.environ | {"XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)} | dict(environ or {})
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)
