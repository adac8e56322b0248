"""The table of bounds: what docs, benches and `python -m bench` make of it. Measures nothing."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from bench import bound
from bench.bound import BENCHES, BOUNDS
from bench.figure import Figure

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (.+) \| (.+) \| `bench\.(\w+)` \|$", re.MULTILINE)


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def keys_named_in(name: str) -> list[re.Pattern[str]]:
    """What a bench's source quotes that begins with its own name and a dot; a hole of an f-string is any word."""
    tree = ast.parse((ROOT / "bench" / f"{name}.py").read_text())
    holed = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(part) for node in holed for part in node.values}
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in inside]
    texts = [
        *("".join(map(_pattern, node.values)) for node in holed),
        *(_pattern(node) for node in plain if isinstance(node.value, str)),
    ]
    return [re.compile(text) for text in texts if re.fullmatch(rf"{name}\\\.\S+", text)]


def _pattern(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else "[a-z0-9]+"


def whole(tmp_path: Path, *, left_out: str = "", over: str = "", ended: tuple[str, ...] = BENCHES) -> Path:
    """What a run leaves in which every bound is met exactly, but for one."""
    figures = [
        Figure(key, one.most + 1e-6 if key == over else one.most, rows=1_000_000)
        for key, one in BOUNDS.items()
        if key != left_out
    ]
    lines = [{"figure": asdict(figure)} for figure in figures] + [{"ended": name} for name in ended]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_page_lists_every_bound_as_it_is_held() -> None:
    told = ROW.findall((ROOT / "docs" / "figures.md").read_text())
    assert told == [(one.figure, one.spelled, key.partition(".")[0]) for key, one in BOUNDS.items()]


def test_what_was_promised_is_what_is_held() -> None:
    promised = {
        "bulk.dismiss": 1.5, "verbs.list": 1.3, "verbs.check": 0.25, "verbs.metrics": 0.25, "verbs.groups": 0.5,
        "verbs.report": 0.5, "verbs.indexed": 0.3, "verbs.judge": 1 / 8, "index.build": 1 / 3, "index.groups": 1 / 4,
        "index.memory": 70, "index.night": 10, "index.night-clock": 10, "filters.page": 1.5, "filters.told": 300,
        "filters.newest": 1000, "sink.witness": 1.3, "sink.import": 1.5, "sink.p99": 1.5, "sink.p90": 1.5,
        "sink.longest": 50, "sink.failures": 0,
    }  # fmt: skip
    assert {key: BOUNDS[key].most for key in promised} == promised


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_names_its_own_bounds_and_no_others(name: str) -> None:
    named = keys_named_in(name)
    mine = bound.of_bench(name)
    assert [key for key in mine if not any(one.fullmatch(key) for one in named)] == []
    assert [one.pattern for one in named if not any(one.fullmatch(key) for key in mine)] == []


def test_the_list_names_a_bench_for_each_bound() -> None:
    lines = bench("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [f"bench.{key.partition('.')[0]}" for key in BOUNDS]
    assert all(one.figure in line and one.spelled in line for one, line in zip(BOUNDS.values(), lines, strict=True))


def test_a_run_within_every_bound_ends_well(tmp_path: Path) -> None:
    done = bench("--table", str(whole(tmp_path)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(BOUNDS)} of {len(BOUNDS)} figures met, 0 MISSED; 0 bounds not measured" in done.stdout


def test_one_missed_bound_ends_the_run_with_an_error(tmp_path: Path) -> None:
    done = bench("--table", str(whole(tmp_path, over="bulk.dismiss")))
    assert done.returncode == 1
    missed = [line for line in done.stdout.splitlines() if line.endswith("MISSED")]
    assert len(missed) == 1
    assert BOUNDS["bulk.dismiss"].figure in missed[0]


def test_a_bound_that_was_not_measured_ends_the_run_with_an_error(tmp_path: Path) -> None:
    done = bench("--table", str(whole(tmp_path, left_out="index.build")))
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if "NOT MEASURED" in line and "the index built" in line]


def test_a_bench_that_broke_off_ends_the_run_with_an_error(tmp_path: Path) -> None:
    done = bench("--table", str(whole(tmp_path, ended=BENCHES[1:])))
    assert done.returncode == 1
    assert f"bench.{BENCHES[0]} did not come to its end" in done.stdout


def test_a_share_of_a_million_is_not_judged_on_a_small_store() -> None:
    assert Figure("triage.groups-share", 1.0, rows=40_000).verdict == "too small"
    assert Figure("triage.groups-share", 1.0, rows=1_000_000).verdict == "MISSED"


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_takes_the_same_two_options(name: str) -> None:
    source = ast.parse((ROOT / "bench" / f"{name}.py").read_text())
    called = [
        node.func.id for node in ast.walk(source) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert "options" in called
    assert "finish" in called
