"""`dlq serve` on a free port of loopback, as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def serving(store: str, home: Path) -> Iterator[str]:
    """The address; nobody may listen there yet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "console", "serve", "--db", store, "--port", str(port)]
    environment = os.environ | {"XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        process.wait(30)
