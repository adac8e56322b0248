"""The pages about the systems we serve are true: tests and differences exist, and the tables are those of the code."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from backends.records import StoreInfo
from console.cli import context, main
from console.services.replay.guards import BLOCKS, OVERRIDABLE
from console.services.stats.alerts import RULES
from console.services.stats.metrics import Family, Numbers, families
from console.services.stats.own_metrics import own_families
from console.services.stats.report import ShiftActivity
from console.services.stats.tally import Tally, VenueTally
from console.services.stats.trend import DepthTrend, DepthTrends
from console.settings.config import REASONS, Alerts, Limits
from console.settings.reasons import reasons_for
from tests.support.outbox import OutboxRig
from tests.support.promql import rules
from tests.support.store import BASE

ROOT = Path(__file__).parents[2]
SYSTEMS = (ROOT / "docs" / "systems.md").read_text("utf-8")
DIFFERENCES = (ROOT / "docs" / "differences.md").read_text("utf-8")
OPERATIONS = "\n".join(
    (ROOT / "docs" / name).read_text("utf-8") for name in ("operations.md", "monitoring.md", "runbook.md")
)
INFO = StoreInfo("sqlite x.db", "sqlite", "orders", "order_dlq", (), "rowid", False, "client", "")
_INTERRUPTED = 130


def cells(text: str) -> Iterator[list[str]]:
    """The rows of every table, without its head."""
    lines = text.splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        if not line.startswith("|") or set(line) <= set("|-"):
            continue
        if before.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def anchor(heading: str) -> str:
    """As a heading is linked to on the usual forges."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@cache
def names_in(path: Path) -> frozenset[str]:
    """The tests of a file; those of a class as `Class::test`."""
    body = ast.parse(path.read_text("utf-8")).body
    inside = [f"{one.name}::{name}" for one in body if isinstance(one, ast.ClassDef) for name in _functions(one.body)]
    return frozenset({*_functions(body), *inside})


def _functions(body: Iterable[ast.stmt]) -> set[str]:
    made = (node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {name for name in made if name.startswith("test_")}


def problems(systems: str, differences: str) -> list[str]:
    """What is not true of the page about the promises."""
    anchors = {anchor(heading) for heading in re.findall(r"^### (.*)$", differences, re.MULTILINE)}
    linked: set[str] = set()
    found: list[str] = []
    for row in cells(systems):
        named = re.fullmatch(r"`(tests/[\w/]+\.py)::([\w:]+)`", row[-1])
        if len(row) != 3 or named is None:
            found.append(f"no test: {row}")
            continue
        path = ROOT / named[1]
        if not path.is_file() or named[2] not in names_in(path):
            found.append(f"no such test: {row[-1]}")
        link = re.fullmatch(r"\[differently\]\(differences\.md#([\w-]+)\)", row[1])
        if link is not None:
            linked.add(link[1])
        elif row[1] != "kept":
            found.append(f"neither kept nor differently: {row}")
    found += [f"no such difference: {one}" for one in sorted(linked - anchors)]
    return found + [f"a difference that no promise leads to: {one}" for one in sorted(anchors - linked)]


def test_every_promise_has_its_test_and_every_difference_its_promise() -> None:
    assert problems(SYSTEMS, DIFFERENCES) == []
    assert len(re.findall(r"^## ", SYSTEMS, re.MULTILINE)) == 5
    assert len(list(cells(SYSTEMS))) >= 100


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("::test_every_sink_is_a_dlq_sink", "::test_every_sink_is_a_sink", "no such test"),
        ("tests/contract/sinks/test_sinks.py", "tests/contract/sinks/test_sink.py", "no such test"),
        ("`tests/contract/sinks/test_sinks.py::test_every_sink_is_a_dlq_sink`", "see the tests", "no test"),
        ("| kept |", "| of course |", "neither kept nor differently"),
        ("#exits-go-first-in-a-batch", "#exits-first", "no such difference"),
        ("[differently](differences.md#exits-go-first-in-a-batch)", "kept", "a difference that no promise leads to"),
    ],
)
def test_a_page_that_is_wrong_is_found_out(old: str, new: str, said: str) -> None:
    assert old in SYSTEMS
    found = problems(SYSTEMS.replace(old, new), DIFFERENCES)
    assert any(one.startswith(said) for one in found), found


def part(name: str) -> str:
    return OPERATIONS.split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0]


def table(name: str) -> list[list[str]]:
    return list(cells(part(name)))


def told(name: str) -> dict[str, str]:
    """First cell → second cell, without their marks."""
    return {row[0].strip("`"): row[1].strip("`") for row in table(name)}


def shown(default: object) -> str:
    match default:
        case None:
            return "none"
        case timedelta():
            return f"{default // timedelta(minutes=1)}m"
        case Decimal():
            return f"{default:f}"
        case tuple():
            return str(list(default))
        case _:
            return str(default)


@pytest.mark.parametrize(("name", "settings"), [("limits", Limits()), ("alerts", Alerts())])
def test_the_settings_are_those_of_the_config(name: str, settings: Limits | Alerts) -> None:
    assert told(name) == {key: shown(getattr(settings, key)) for key in settings.__dataclass_fields__}
    assert [row[0].strip("`") for row in table(name)] == list(settings.__dataclass_fields__)


def test_the_rules_of_check_are_all_there() -> None:
    assert tuple(told("rules")) == RULES


def test_the_exit_codes_are_those_in_use() -> None:
    own = (context.DONE, context.REJECTED, context.USAGE, context.IN_DOUBT, context.NOT_ACTED, context.UNREACHABLE)
    last = (main._CRASHED, main._NO_OUTPUT, _INTERRUPTED, main._NO_READER)
    assert [int(code) for code in told("exits")] == [*own, *last]


def test_the_reasons_are_those_of_the_gates() -> None:
    for layout, codes in table("reasons"):
        assert tuple(re.findall(r"`([a-z-]+)`", codes)) == reasons_for(layout, REASONS)
    assert list(told("reasons")) == ["orders", "outbox", "integration"]


def test_the_guards_are_told_as_they_are() -> None:
    said = {row[0].strip("`"): row[2] for row in table("guards")}
    assert said == {**dict.fromkeys(BLOCKS, "never"), **dict.fromkeys(OVERRIDABLE, "with a note")}


def lines(rows: Iterable[Iterable[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def marked(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def test_the_panels_are_those_of_the_dashboard() -> None:
    board = json.loads((ROOT / "grafana" / "dashboard.json").read_text("utf-8"))
    expressions = {panel["title"]: " ".join(one["expr"] for one in panel["targets"]) for panel in board["panels"]}
    of_each = {title: re.findall(r"\b(?:horizon_)?dlq_[a-z_]+", text) for title, text in expressions.items()}
    assert lines(table("panels")) == lines((title, marked(dict.fromkeys(names))) for title, names in of_each.items())


def test_the_rules_are_those_of_the_rule_file() -> None:
    found = rules(ROOT / "grafana" / "alerts.yml")
    expected = ((f"`{rule['alert']}`", rule["severity"], f"`{rule['expr']}`") for rule in found)
    assert lines(table("grafana-rules")) == lines(expected)


def emitted() -> list[Family]:
    """Every family, with a sample of each that has any."""
    venue = VenueTally(1, 1, BASE, average_age=timedelta(1), categories={"schema": 1}, retries=1)
    counted = Tally(BASE, {"pending": 1}, {"alpaca": venue}, {"schema": 1}, (), 1, (0,) * 10)
    trend = DepthTrend((1,))
    trends = DepthTrends(trend, {"alpaca": trend})
    return list(families(Numbers(INFO, counted, ShiftActivity("t"), (), False, REASONS, trends)))


def metric_lines(found: Iterable[Family]) -> str:
    rows = ((f"`{one.name}`", one.kind, marked(one.samples[0][0]) or "–", one.text) for one in found)
    return lines(rows)


def test_the_metrics_are_those_that_are_told() -> None:
    found = emitted()
    assert [family.name for family in found if not family.samples] == []
    assert lines(table("metrics")) == metric_lines(found)


async def test_the_metrics_of_an_outbox_are_those_that_are_told(postgres_db: str) -> None:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    await rig.dead(1)
    await rig.sql("INSERT INTO outbox (queue, payload) VALUES ('orders', '')")
    found = await own_families(await rig.store())
    await rig.aclose()
    assert [family.name for family in found if not family.samples] == []
    assert lines(table("outbox-metrics")) == metric_lines(found)
