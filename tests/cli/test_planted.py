"""Nothing that lies in the working directory runs: not in the console, and not in the processes it starts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from console.own_program import OWN_PROGRAM

CONSOLE = Path(__file__).parents[2] / "console"


@pytest.mark.parametrize(
    "planted", ["console/__main__.py", "console/__init__.py", "tomllib.py", "sqlalchemy.py", "asyncio.py"]
)
def test_a_planted_module_does_not_run_in_our_processes(tmp_path: Path, planted: str) -> None:
    path = tmp_path / planted
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    store = tmp_path / "orders.db"
    for words in (("--version",), ("init", "--db", str(store)), ("list", "--db", str(store), "--json")):
        ran = subprocess.run(
            [*OWN_PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert (ran.returncode, (tmp_path / "ran").exists()) == (0, False), ran.stderr


def test_every_process_of_ours_is_started_so() -> None:
    starts = [path.name for path in CONSOLE.rglob("*.py") if re.search(r"sys\.executable", path.read_text("utf-8"))]
    assert starts == ["own_program.py"]
