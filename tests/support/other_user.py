"""Running a piece of Python as another OS user: rights of files are only real for somebody who is not root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ENGINE, CONSOLE = 65534, 65533  # the first is `nobody`; the second need not have a name

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# Everything is imported while root still may read it.
_PRELUDE = """
import asyncio, json, os, sqlite3, sys
import backends.sql.store
from backends import StoreError, open_store
from backends.records import Filter
uid = int(sys.argv[1])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
def say(value): print(json.dumps(value))
"""


def run_as(uid: int, code: str, *args: object) -> Any:
    """Runs the code (it has `say(value)` and `sys.argv[2:]`) and returns what it said last."""
    script = _PRELUDE + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(uid), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


ATTACH = """
async def main():
    try:
        store = await open_store(sys.argv[2], read_only=True)
    except StoreError as refused:
        say({"refused": type(refused).__name__, "text": str(refused)})
        return
    page = await store.page(Filter(), limit=50)
    info = store.info
    await store.aclose()
    say({"rows": len(page.entries), "by": info.read_only_enforced_by, "codes": [f.code for f in info.findings]})
asyncio.run(main())
"""
