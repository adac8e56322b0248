"""dlq-sink alone: built from its folder, in an empty environment, beside a bot's own packages of our names."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import hatchling.build

ROOT = Path(__file__).parents[3]
BOT = """
import asyncio, sys
import backends, console, venues
from dlq_sink import DLQSink, DeadLetteredOrder, InMemoryDLQ, SQLiteDLQ, PostgresDLQ
from dlq_sink import submit_or_dead_letter, dead_letters, intent

try:
    PostgresDLQ("postgresql://127.0.0.1/engine")
except ImportError as missing:
    assert "pip install 'dlq-sink[postgres]'" in str(missing), missing
else:
    raise AssertionError("there is no driver")
assert backends.MINE and console.MINE and venues.MINE
sink = SQLiteDLQ("orders.db")

@dead_letters(sink, venue="alpaca", account="main", witness=True)
def submit(symbol, side, qty, type="market", client_order_id=None):
    raise ConnectionError("refused")

@dead_letters(sink, venue="alpaca", witness=True)
async def later(order):
    raise ConnectionError("refused")

submit("AAPL", "buy", 10)
asyncio.run(later({"symbol": "AAPL", "side": "buy", "qty": 10, "type": "market"}))
with intent(sink, {"symbol": "AAPL", "side": "buy", "qty": 10, "type": "market"}, venue="alpaca") as i:
    i.ok("ord_1")
kept = [(entry.market_id, entry.quantity, entry.order_type, bool(entry.client_order_id)) for entry in sink.list()]
assert kept == [("AAPL", 10, "market", True)] * 2, kept
sink.close()
others = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(*sorted(others - {"__main__", "backends", "console", "venues", "sitecustomize"}))
"""


def test_an_empty_environment_needs_no_other_package_and_a_bots_own_names_stay_its_own(tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(ROOT / "sink")
    try:
        wheel = tmp_path / hatchling.build.build_wheel(str(tmp_path))
    finally:
        os.chdir(before)
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = str(tmp_path / "venv/bin/python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "--quiet", "--no-index", str(wheel)], check=True, timeout=300)
    bot = tmp_path / "bot"
    for name in ("backends", "console", "venues"):
        (bot / name).mkdir(parents=True)
        (bot / name / "__init__.py").write_text("MINE = True\n")
    (bot / "bot.py").write_text(BOT)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-W", "error", "bot.py"], capture_output=True, text=True, cwd=bot, env=clean, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) - {"__future__"} == {"dlq_sink"}
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    assert {one.name.partition("-")[0] for one in site.iterdir()} == {"dlq_sink"}


def test_importing_it_loads_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import dlq_sink; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    assert set(done.stdout.split()) - {"__future__"} == {"dlq_sink"}


def test_the_consoles_wheel_contains_it_and_requires_nothing_for_it(tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        name = hatchling.build.build_wheel(str(tmp_path))
    finally:
        os.chdir(before)
    with zipfile.ZipFile(tmp_path / name) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(one for one in names if one.endswith("/METADATA"))).decode()
    assert {"dlq_sink/__init__.py", "dlq_sink/py.typed", "dlq_sink/witness/lease.py"} <= set(names)
    assert "dlq-sink" not in metadata.partition("\n\n")[0]
