"""The wrong changes themselves: each still fits the code, and the run of one sees what it has to see."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.faults.mutants import MUTATIONS, ROOT, Tree, figures, mutated
from tests.faults.mutants_data import Mutation

COVERED = {
    **dict.fromkeys(("attempt", "submit", "batch", "still_fit", "moment", "guards"), "console/services/replay"),
    **dict.fromkeys(("plan", "preflight", "command", "venue_pool", "flow_control"), "console/services/replay"),
    **dict.fromkeys(("absence", "ask_first", "lookup_verdict", "reconcile"), "console/services/evidence"),
    **dict.fromkeys(("settle", "ask", "payload"), "console/services/evidence"),
    "claims": "backends/sql",
    "secrets": "console/settings",
    "http": "venues",
    "answers": "venues/alpaca",
    "own_venue": "console/services/engine",
}


@pytest.mark.parametrize("path", sorted({one.path for one in MUTATIONS}))
def test_each_change_fits_its_file_once_and_compiles(path: str) -> None:
    for one in MUTATIONS:
        if one.path == path:
            ast.parse(mutated(ROOT, one))


@pytest.mark.parametrize("place", sorted({test for one in MUTATIONS for test in one.tests}))
def test_each_test_that_must_see_one_is_there(place: str) -> None:
    file, _, name = place.partition("::")
    assert f"def {name}" in (ROOT / file).read_text()


def test_there_are_enough_of_them_with_names_of_their_own() -> None:
    assert len(MUTATIONS) == len({one.name for one in MUTATIONS}) >= 90
    assert {f"{folder}/{name}.py" for name, folder in COVERED.items()} <= {one.path for one in MUTATIONS}
    assert all(one.old != one.new and one.tests for one in MUTATIONS)


def test_an_old_text_that_is_not_there_once_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("a = 1\nb = 1\n")
    for old in ("c = 1", "= 1"):
        with pytest.raises(ValueError, match="times in code"):
            mutated(tmp_path, Mutation("one", "code.py", old, "", ("tests",)))


def test_one_is_killed_in_a_copy_and_the_copy_is_right_again(tmp_path: Path) -> None:
    tree, path = Tree(tmp_path.resolve()), "console/services/replay/flow_control.py"
    tree.check()
    tests = ("tests/services/test_flow_control.py",)
    wrong = Mutation("six failures", path, "or failures >= FAILURES:", "or failures > FAILURES:", tests)
    harmless = Mutation("a comment", path, "or failures >= FAILURES:", "or failures >= FAILURES:  # five", tests)
    ended = [tree.tried(wrong), tree.tried(harmless)]
    assert [one.word for one in ended] == ["killed", "survived"]
    assert (tree.root / path).read_text() == (ROOT / path).read_text()
    assert figures(ended, 1.0)["survivors"] == ["a comment"]
