"""The checker is tested, too: each planted bug is found, and a console without one is not accused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.mutant import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    """In a process of its own: it forks, which a test runner with threads must not."""
    words = [sys.executable, "-m", "tests.faults.mutant"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.xdist_group("mutants")
@pytest.mark.parametrize("name", [name for name in MUTANTS if not name.startswith("none")])
def test_a_planted_bug_is_found(told: dict[str, list[str]], name: str) -> None:
    assert told[name]


@pytest.mark.xdist_group("mutants")
@pytest.mark.parametrize("name", [name for name in MUTANTS if name.startswith("none")])
def test_a_console_without_one_is_not_accused(told: dict[str, list[str]], name: str) -> None:
    assert told[name] == []


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) > 15
