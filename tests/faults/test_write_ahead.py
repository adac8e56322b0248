"""The intent is on disk before the venue hears a byte: as the kernel saw it, at the file descriptors."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.command import ROOT, Console
from tests.support.exchange import in_thread
from tests.support.orders import row, sqlite_store
from tests.support.session import ident

CALLS = "pwrite64,write,fsync,fdatasync,sendto"


@pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: nothing else sees the system calls"
)
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_the_intent_is_synced_before_the_first_byte_is_sent(tmp_path: Path, journal: str) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(1, captured_at=datetime.now(UTC), client_order_id="canary-1")])
    with closing(sqlite3.connect(target)) as connection:
        assert connection.execute(f"PRAGMA journal_mode = {journal}").fetchone() == (journal.lower(),)
    trace = tmp_path / "trace"
    with in_thread() as exchange:
        console = Console(tmp_path, target, exchange.url)
        strace = ["strace", "-f", "-y", "-s", "20000", "-e", f"trace={CALLS}", "-o", str(trace)]
        words = [*strace, *console.command("replay", ident(1), "--paper")]
        done = subprocess.run(words, capture_output=True, text=True, env=console.environ, cwd=ROOT, timeout=120)
        if "Operation not permitted" in done.stderr:
            pytest.skip("this machine does not let one process trace another")
        assert done.returncode == 0, done.stderr
        assert len(exchange.orders) == 1
    calls = _calls(trace.read_text(errors="replace"))
    store = re.compile(rf"<{re.escape(target)}(-wal)?>")
    posted = _first(calls, lambda call: call.startswith("sendto(") and "POST /v2/orders" in call)
    writes = [
        n for n, call in enumerate(calls) if call.startswith("pwrite64(") and store.search(call) and "canary-1" in call
    ]
    assert writes, "no write of the intent was seen"
    intent = writes[0]
    synced = _first(calls, lambda call: call.startswith(("fsync(", "fdatasync(")) and bool(store.search(call)), intent)
    assert intent < synced < posted
    # Nothing of the store is left unsynced when the request goes out.
    unsynced = [n for n in range(synced, posted) if calls[n].startswith("pwrite64(") and store.search(calls[n])]
    assert (
        unsynced == [] or _first(calls, lambda call: call.startswith(("fsync(", "fdatasync(")), unsynced[-1]) < posted
    )


def _calls(text: str) -> list[str]:
    """Whole calls in order of their beginning; a sync counts where it has ended."""
    calls: list[str] = []
    for line in text.splitlines():
        call = line.split(None, 1)[1] if " " in line else line
        if call.startswith("<... ") and ("fsync" in call or "fdatasync" in call):
            name = call.split()[1]
            begun = next(c for c in reversed(calls) if c.startswith("unfinished " + name))
            calls.append(begun.removeprefix("unfinished "))
        elif call.endswith("<unfinished ...>") and call.startswith(("fsync", "fdatasync")):
            calls.append("unfinished " + call)
        else:
            calls.append(call)
    return calls


def _first(calls: list[str], wanted: Callable[[str], bool], start: int = 0) -> int:
    return next(n for n in range(start, len(calls)) if wanted(calls[n]))
