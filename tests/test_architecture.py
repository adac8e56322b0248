"""House rules that a linter does not know: who may ask the time, print, load what; how long things may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("console", "backends", "venues")
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
LONGEST_MODULE = 500
LONGEST_FUNCTION = 40
MOST_PARAMETERS = 5


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(params=MODULES, ids=_name)
def module(request: pytest.FixtureRequest) -> tuple[str, ast.Module]:
    path: Path = request.param
    return _name(path), ast.parse(path.read_text())


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_a_module_is_one_noun_of_bounded_length(module: tuple[str, ast.Module]) -> None:
    name, tree = module
    lines = len((ROOT / name).read_text().splitlines())
    assert lines <= LONGEST_MODULE, f"{name} has {lines} lines"
    assert Path(name).stem not in {"utils", "helpers", "common", "manager", "base"}
    if tree.body:
        assert ast.get_docstring(tree), f"{name} does not say what it owns"


def test_functions_are_short_and_take_few_parameters(module: tuple[str, ast.Module]) -> None:
    name, tree = module
    for function in _functions(tree):
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= LONGEST_FUNCTION, f"{name}:{function.name} has {length} lines"
        positional = [arg for arg in function.args.args if arg.arg not in ("self", "cls")]
        assert len(positional) <= MOST_PARAMETERS, f"{name}:{function.name} takes {len(positional)} parameters"


def test_only_the_clock_asks_the_time_and_only_the_cli_prints(module: tuple[str, ast.Module]) -> None:
    name, tree = module
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in ("datetime.now", "datetime.utcnow", "datetime.datetime.now") and name.startswith("console/"):
            assert name == "console/clock.py", f"{name} asks for the time"
        if called == "print" or called in ("sys.exit", "exit"):
            allowed = ("console/cli/", "console/__main__.py", "venues/practice/__main__.py")
            assert name.startswith(allowed), f"{name} calls {called}"


def test_no_blind_except_without_a_reason(module: tuple[str, ast.Module]) -> None:
    name, tree = module
    source = (ROOT / name).read_text().splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = "" if node.type is None else ast.unparse(node.type)
            line = source[node.lineno - 1]
            if caught in ("", "Exception", "BaseException"):
                reraises = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
                assert reraises or "BLE001 -" in line, f"{name}:{node.lineno} catches everything without a reason"


def _loaded(code: str) -> set[str]:
    program = f"{code}\nimport sys\nprint(' '.join(sorted(name.partition('.')[0] for name in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split("\n")[-2].split())


def _full(code: str) -> set[str]:
    program = f"{code}\nimport sys\nprint(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split("\n")[-2].split())


def test_engines_never_load_textual() -> None:
    engine = "from backends import DLQSink, DeadLetteredOrder, InMemoryDLQ, SQLiteDLQ, PostgresDLQ\n"
    capture = "from console.services import replay_order, submit_or_dead_letter\n"
    assert not _loaded(engine + capture) & {"textual", "rich"}


def test_importing_the_packages_does_no_heavy_lifting() -> None:
    heavy = {"textual", "rich", "sqlalchemy", "httpx", "keyring", "ccxt", "asyncpg", "aiosqlite"}
    assert not _loaded("import backends, venues, console") & heavy


def test_a_headless_verb_loads_neither_textual_nor_a_venue(tmp_path: Path) -> None:
    store = tmp_path / "orders.db"
    runs = f"""
from console.cli.main import run
assert run(["init", "--db", {str(store)!r}]) == 0
assert run(["list", "--db", {str(store)!r}, "--json"]) == 0
assert run(["doctor", "--db", {str(store)!r}, "--read-only"]) == 0
"""
    loaded = _full(runs)
    assert not {"textual", "httpx", "keyring", "ccxt"} & loaded
    assert not {name for name in loaded if name in ("venues.http", "venues.alpaca.client", "venues.kalshi.client")}
