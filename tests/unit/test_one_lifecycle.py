"""Under console/ only the attempt ledger claims entries, commits intents, concludes attempts and releases claims."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "console/services/replay/attempt.py"
STEPS = frozenset({"claim", "intend", "conclude", "release"})
OTHERS = sorted(path for path in (ROOT / "console").rglob("*.py") if path != LEDGER)


def steps(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, receiver, step) of every mention of a lifecycle step: a call, or a method that is passed on."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in STEPS:
            yield node.lineno, ast.unparse(node.value).rpartition(".")[2].lstrip("_"), node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            names = [one.value for one in node.args if isinstance(one, ast.Constant)]
            yield from ((node.lineno, "getattr", str(name)) for name in names if name in STEPS)


def foreign(source: str) -> list[tuple[int, str, str]]:
    return [one for one in steps(source) if one[1] != "ledger"]


def renamed(source: str) -> list[str]:
    """What is called a ledger without being made as one."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            names = {ast.unparse(one).rpartition(".")[2].lstrip("_") for one in node.targets}
            value = ast.unparse(node.value)
            if "ledger" in names and not value.startswith("AttemptLedger(") and value != "ledger":
                found.append(value)
    return found


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_only_the_attempt_ledger_takes_the_steps_of_a_lifecycle(path: Path) -> None:
    source = path.read_text()
    assert foreign(source) == []
    if any(True for _ in steps(source)):
        assert renamed(source) == []


def test_the_ledger_takes_each_step_at_the_store() -> None:
    assert {step for _, receiver, step in steps(LEDGER.read_text()) if receiver == "store"} == STEPS


@pytest.mark.parametrize(
    "source",
    [
        "await self._store.claim(entry_id, version, actor, 60)",
        "await store.intend(claim, intent, actor, why)",
        "await work.store.conclude(claim, result, actor, why)",
        "give_back = store.release",
        "getattr(store, 'release')(claim)",
    ],
)
def test_a_step_outside_the_ledger_is_found(source: str) -> None:
    assert len(foreign(source)) == 1


def test_a_store_that_is_called_a_ledger_is_found() -> None:
    assert foreign("await ledger.claim(entry_id, version, lease)") == []
    assert renamed("self._ledger = store") == ["store"]
    assert renamed("ledger = AttemptLedger(store, actor)\nself._ledger = ledger") == []
