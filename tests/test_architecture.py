"""House rules that a linter does not know: who may ask the time, print, load what; how long things may be."""

from __future__ import annotations

import ast
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, settings

from backends.layouts import orders
from tests.support.terminal.console import Desk, fresh
from tests.support.terminal.entry import COLLECTING

ROOT = Path(__file__).parent.parent
PACKAGES = ("console", "backends", "venues", "dlq_sink")
MODULES = sorted(
    path for folder in (*map(ROOT.joinpath, PACKAGES[:3]), ROOT / "sink/dlq_sink") for path in folder.rglob("*.py")
)
MOST_MODULES_IN_A_FOLDER = 16
LONGEST_MODULE = 500
LONGEST_FUNCTION = 40
MOST_PARAMETERS = 5
MOST_MODULES_OF_A_READ = 132
MOST_MODULES_AT_FIRST_FRAME = 88  # the catalog and the ledger are read by the store's own modules
pytestmark = pytest.mark.xdist_group("architecture")  # one worker reads the modules once
Function = ast.FunctionDef | ast.AsyncFunctionDef
BANNED_NAMES = {"utils", "helpers", "common", "manager", "base", "foreign"}


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _trees() -> Iterator[tuple[str, ast.Module]]:
    return ((_name(path), _tree(path)) for path in MODULES)


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(_tree(path)))


def _functions() -> Iterator[tuple[str, Function]]:
    """Every function with the module it is in."""
    return ((_name(path), node) for path in MODULES for node in _nodes(path) if isinstance(node, Function))


def test_folders_hold_few_modules() -> None:
    counts = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    over = {_name(folder): count for folder, count in counts.items() if count > MOST_MODULES_IN_A_FOLDER}
    assert not over, f"more than {MOST_MODULES_IN_A_FOLDER} modules in a folder: {over}"


def test_modules_are_short() -> None:
    counts = {_name(path): len(path.read_text().splitlines()) for path in MODULES}
    over = {name: count for name, count in counts.items() if count > LONGEST_MODULE}
    assert not over, f"more than {LONGEST_MODULE} lines in a module: {over}"


def test_functions_are_short() -> None:
    over = {
        f"{name}:{function.name}": length
        for name, function in _functions()
        if (length := (function.end_lineno or 0) - function.lineno + 1) > LONGEST_FUNCTION
    }
    assert not over, f"more than {LONGEST_FUNCTION} lines in a function: {over}"


def test_public_classes_have_names_of_their_own() -> None:
    """The folders of the venues may repeat each other's names; none may repeat a name from elsewhere."""
    places: defaultdict[str, set[str]] = defaultdict(set)
    for module, tree in _trees():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module)
    twice = {name: sorted(paths) for name, paths in places.items() if not _is_defined_once(paths)}
    assert not twice, f"public classes of one name: {twice}"


def _is_defined_once(paths: set[str]) -> bool:
    if len(paths) == 1:
        return True
    folders = [PurePosixPath(path).parts[:-1] for path in paths]
    return all(parts[0] == "venues" and len(parts) == 2 for parts in folders) and len(set(folders)) == len(paths)


def test_modules_are_named_for_what_they_own() -> None:
    parts = {_name(path): set(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}
    banned = {name: sorted(words & BANNED_NAMES) for name, words in parts.items() if words & BANNED_NAMES}
    assert not banned, f"a name that says nothing: {banned}"


def test_modules_say_what_they_own() -> None:
    silent = [name for name, tree in _trees() if tree.body and not ast.get_docstring(tree)]
    assert not silent, f"modules without a docstring: {silent}"


def test_functions_take_few_parameters() -> None:
    over = {}
    for name, function in _functions():
        positional = [arg for arg in function.args.args if arg.arg not in ("self", "cls")]
        if len(positional) > MOST_PARAMETERS:
            over[f"{name}:{function.name}"] = len(positional)
    assert not over, f"more than {MOST_PARAMETERS} positional parameters: {over}"


def _calls() -> Iterator[tuple[str, str]]:
    """The calls that are judged: the module each is in, and what it calls."""
    for path in MODULES:
        for node in _nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                if called in ("now", "utcnow", "print", "exit"):
                    yield _name(path), ast.unparse(node.func)


def test_only_the_clock_asks_the_time() -> None:
    now = ("datetime.now", "datetime.utcnow", "datetime.datetime.now")
    asking = {name for name, called in _calls() if called in now and name.startswith("console/")}
    assert asking <= {"console/clock.py"}, f"these ask for the time: {asking}"


def test_only_the_cli_prints_and_exits() -> None:
    allowed = ("console/cli/", "console/__main__.py", "venues/practice/__main__.py")
    found = {call for call in _calls() if call[1] in ("print", "sys.exit", "exit") and not call[0].startswith(allowed)}
    assert not found, f"these print or exit: {found}"


def test_no_blind_except_without_a_reason() -> None:
    found = []
    for name, _ in _trees():
        source = (ROOT / name).read_text().splitlines()
        handlers = (node for node in _nodes(ROOT / name) if isinstance(node, ast.ExceptHandler))
        for node in handlers:
            caught = "" if node.type is None else ast.unparse(node.type)
            reraises = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
            explained = "BLE001 -" in source[node.lineno - 1]
            if caught in ("", "Exception", "BaseException") and not (reraises or explained):
                found.append(f"{name}:{node.lineno}")
    assert not found, f"these catch everything without a reason: {found}"


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


def test_an_attached_console_holds_neither_an_orm_nor_a_server() -> None:
    """Each would take megabytes for as long as the console is open."""
    attached = "import backends.sql.store, console.app, console.cli.console, console.services.session\n"
    loaded = _full(f"{attached}import console.services.index.keeper, console.services.index.status")
    assert "sqlalchemy.ext.asyncio.engine" in loaded
    assert not {"sqlalchemy.orm", "http.server", "console.cli.stats"} & loaded


def test_whoever_wants_the_orm_gets_it_beside_ours() -> None:
    ours = "from backends.async_engine import AsyncEngine as Ours\nimport sqlalchemy.ext.asyncio as package\n"
    theirs = "from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker\n"
    loaded = _full(f"{ours}{theirs}assert AsyncEngine is Ours\nassert package.AsyncSession is AsyncSession")
    assert "sqlalchemy.orm" in loaded


def test_a_read_of_sqlite_loads_no_other_driver_and_only_what_a_read_needs(tmp_path: Path) -> None:
    """What a read does not need costs every start of `dlq list` its time."""
    store = tmp_path / "orders.db"
    with closing(sqlite3.connect(store)) as connection:
        for statement in orders.sqlite_ddl(orders.DEFAULT_TABLE):
            connection.execute(statement)
    loaded = _full(
        f"from console.cli.main import run\nassert run(['list', '--limit', '5', '--db', {str(store)!r}]) == 0"
    )
    assert {"aiosqlite", "backends.sql.reads"} <= loaded
    other = {"asyncpg", "sqlalchemy.dialects.postgresql", "venues", "backends.ledger.examination"}
    other |= {"console.services.replay", "console.services.triage.advice", "sqlalchemy.orm"}
    assert not other & loaded, other & loaded
    ours = [name for name in loaded if name.partition(".")[0] in PACKAGES]
    assert len(ours) <= MOST_MODULES_OF_A_READ, f"{len(ours)} modules: {' '.join(sorted(ours))}"


_NOT_BEFORE_THE_FIRST_ROW = {
    "backends.records",
    "backends.store",
    "backends.criterion",
    "console.services.browse.filter_syntax",
    "console.services.errors.fingerprint",
    "console.services.triage.poison",
    "console.services.triage.triage",
}


def test_no_example_of_a_property_hangs_on_speed() -> None:
    """The first example of a test may import a vendor's whole SDK; on a busy machine any other may be as slow."""
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


def test_the_first_frame_loads_few_modules(tmp_path: Path) -> None:
    """Counts our own modules in a real terminal, at the moment the frame is about to be painted."""
    out = tmp_path / "modules.txt"
    desk = Desk.at(tmp_path, None, [fresh(n) for n in range(1, 4)])
    environ = {"DLQ_TEST_ENTRY": "first-frame", "DLQ_TEST_OUT": str(out)}
    with desk.open(module="tests.support.terminal.entry", environ=environ) as terminal:
        assert terminal.ended() == 0
    loaded = out.read_text().split("\n")
    ours = [name for name in loaded if name.partition(".")[0] in PACKAGES]
    assert "console.terminal.first_frame" in ours
    assert not {"asyncio", "concurrent.futures", "ssl"} & set(loaded), "a file's first rows need no event loop"
    assert not {"textual", "sqlalchemy"} & set(loaded)
    assert not {"socket", "difflib", "hashlib", "uuid", "shutil"} & set(loaded), "each takes a millisecond"
    assert not _NOT_BEFORE_THE_FIRST_ROW & set(ours), "each makes many classes, of which the first rows need none"
    assert COLLECTING not in loaded, "looking for garbage in what was just loaded delays the first rows"
    assert len(ours) <= MOST_MODULES_AT_FIRST_FRAME, f"{len(ours)} modules: {' '.join(ours)}"
