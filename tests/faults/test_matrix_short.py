"""A sample of the fault matrix in every test run; `make faults` runs all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.faults.cell import KINDS, VENUES, kind_scenes, scenes
from venues.practice import BEHAVIOURS

ROOT = Path(__file__).parents[2]


def test_a_sample_of_the_matrix_has_no_violation(postgres_dsn: str, tmp_path: Path) -> None:
    words = ["--cells", "36", "--workers", "1", "--dsn", postgres_dsn, "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.matrix", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["cells"], told["violations"]) == (36, 0)
    assert told["by_engine"] == {"sqlite": 18, "postgres": 18}
    assert set(told["by_kind"]) == {kind or "died" for kind in KINDS}
    assert told["struck"] >= 32  # a point that hangs on timing may once not be passed


def test_every_fault_that_can_strike_an_order_is_among_the_scenes() -> None:
    assert {name for name, it in BEHAVIOURS.items() if "new" in it.on} <= {scene.fault for scene in scenes()}


def test_a_restore_and_another_key_are_tried_at_every_venue() -> None:
    found = {(scene.kind, scene.venue) for scene in kind_scenes()}
    assert {(kind, venue) for kind in ("restored", "restored-here", "swapped", "late") for venue in VENUES} <= found
    assert {scene.own for scene in kind_scenes() if scene.kind == "restored"} == {True, False}
