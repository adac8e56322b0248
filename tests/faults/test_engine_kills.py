"""kill -9 of an engine with a witness: no order at the exchange is lost, none is doubled.

`DLQ_KILLS` is the number of kills an engine; the suite itself makes do with fifty on each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("DLQ_KILLS", "50"))
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_every_order_at_the_exchange_is_accounted_for(
    request: pytest.FixtureRequest, tmp_path: Path, where: str
) -> None:
    target = str(tmp_path / "orders.db") if where == "sqlite" else request.getfixturevalue("postgres_db")
    words = ["--kills", str(KILLS), "--minutes", "5", "--target", target, "--folder", str(tmp_path)]
    done = subprocess.run(  # a process of its own: forking this one would take its threads' locks along
        [sys.executable, "-m", "tests.faults.engine_kills", *words],
        capture_output=True, text=True, cwd=ROOT, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.split()
    assert int(said[0]) > 0
    assert int(said[2]) > 0
    assert int(said[said.index("noted") - 1]) > 0, "no engine lived until it noted an order"
