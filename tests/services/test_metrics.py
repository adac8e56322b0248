"""Metrics as Prometheus reads them, over HTTP too; the rules and the dashboard speak of what there is."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backends.layouts.orders import quoted
from backends.records import StoreInfo
from backends.store import OutboxFigures, QueueLoad, Result
from console.cli import stats as exporter
from console.cli.context import Context
from console.cli.parser import build_parser
from console.services.index.keeper import reader_of
from console.services.stats import tally
from console.services.stats.alerts import RULES, alerts
from console.services.stats.metrics import Family, Numbers, escape, families, render
from console.services.stats.own_metrics import outbox_families
from console.services.stats.report import ShiftActivity
from console.services.stats.tally import Tally, VenueTally
from console.services.stats.trend import DepthTrend, DepthTrends
from console.settings.config import REASONS, Alerts, Config
from tests.support.forked_command import Started
from tests.support.index import indexed
from tests.support.orders import row, sqlite_store
from tests.support.promql import Prometheus, rules
from tests.support.shift_store import BEGAN, shift
from tests.support.store import ACTOR, BASE, PostgresRig, Rig, attempt_on, order_row, sqlite_rig

ROOT = Path(__file__).parent.parent.parent
NOW = BEGAN + timedelta(hours=1)
ODD = 'ka"l\\s\nhi|*x*'
INFO = StoreInfo("sqlite x.db", "sqlite", "orders", "order_dlq", (), "rowid", False, "client", "")


def read(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made: Rig = (
        sqlite_rig(tmp_path) if request.param == "sqlite" else PostgresRig(request.getfixturevalue("postgres_db"))
    )
    yield made
    await made.aclose()


async def test_a_prometheus_parser_reads_every_number(rig: Rig, tmp_path: Path) -> None:
    store = await shift(rig)
    activity = ShiftActivity(store.info.table)
    async for block in store.audit():
        activity.feed(block)
    counted = await tally.counted(store, NOW, Config())
    text = render(Numbers(store.info, counted, activity, alerts(counted, Alerts()), False, REASONS))
    found = read(text)
    assert found["dlq_depth"] == {(("venue", "alpaca"),): 11, (("venue", ODD),): 4}
    assert found["horizon_dlq_depth"] == found["dlq_depth"]
    assert found["dlq_entries"] == {
        (("state", "pending"),): 14,
        (("state", "in_flight"),): 0,
        (("state", "in_doubt"),): 1,
        (("state", "replayed"),): 2,
        (("state", "dismissed"),): 3,
    }
    assert found["dlq_in_doubt"][("venue", "alpaca"),] == 1
    assert found["dlq_open_by_category"][("category", "transient"),] == 10
    assert found["dlq_open_by_category"][("category", "business"),] == 5
    assert found["dlq_open_by_category"][("category", "schema"),] == 0
    assert found["dlq_replays_total"][("mode", "paper"), ("outcome", "accepted")] == 1
    assert found["dlq_replays_total"][("mode", "live"), ("outcome", "rejected")] == 1
    assert found["dlq_replays_total"][("mode", "paper"), ("outcome", "unknown")] == 2
    assert found["dlq_reconciles_total"][("mode", "paper"), ("outcome", "accepted")] == 1
    assert found["dlq_dismissals_total"][("reason", "market-closed"),] == 3
    assert found["dlq_dismissals_total"][("reason", "stale"),] == 1
    assert found["dlq_restores_total"][()] == 1
    assert found["dlq_captured_total"][()] == 20
    assert found["dlq_oldest_age_seconds"][("venue", ODD),] == 44 * 60
    assert found["dlq_alert"][("rule", "in-doubt"),] == 1
    assert found["dlq_store_info"][("layout", "orders"), ("store", store.info.label), ("table", store.info.table)] == 1
    index = await indexed(store, tmp_path)
    await index.settle()
    from_index = await tally.indexed(store, index.reader, NOW, Config())
    assert render(Numbers(store.info, from_index, activity, alerts(from_index, Alerts()), False, REASONS)) == text
    await index.reader.aclose()


@pytest.mark.parametrize("value", ["plain", 'quote " back \\ line\nend', "\\n", "\udcff\x00\x1b", "é✓", "\r\n"])
def test_any_label_survives_the_parser(value: str) -> None:
    line = f'm{{v="{escape(value)}"}} 1\n'
    assert line.count("\n") == 1
    (family,) = text_string_to_metric_families(f"# TYPE m gauge\n{line}")
    read_back = family.samples[0].labels["v"]
    assert read_back == value or not value.isprintable()


def scraped(minute: int, **changes: object) -> str:
    """An hour that gets worse; each minute is a scrape."""
    quiet = Tally(BASE + timedelta(minutes=minute), {"pending": 5}, {}, {}, (), 0, (0,) * 10)
    halted = bool(changes.pop("halted", False))
    venues: Any = changes.pop("trends", {})
    back, expired = cast("tuple[int, int]", changes.pop("outbox", (0, 0)))
    own = outbox_families(OutboxFigures({}, (QueueLoad("orders", 3, 2, expired, 1.0),)), back)
    given = replace(quiet, **changes)  # type: ignore[arg-type]  # fields of a tally
    trends = DepthTrends(trend(given.open), venues)
    return render(Numbers(INFO, given, ShiftActivity("order_dlq"), (), halted, REASONS, trends, own))


def trend(*levels: int) -> DepthTrend:
    return DepthTrend(levels)


def firing(prometheus: Prometheus, minute: int) -> dict[str, int]:
    found = rules(ROOT / "grafana" / "alerts.yml")
    fired = {rule["alert"]: len(prometheus.fires(rule["expr"], minute)) for rule in found}
    return {name: count for name, count in fired.items() if count}


def test_the_rules_fire_when_they_should_and_only_then() -> None:
    prometheus = Prometheus()
    assert firing(prometheus, 0) == {"DLQMetricsGone": 1}
    old = VenueTally(100, 0, BASE - timedelta(minutes=31))
    fresh = VenueTally(99, 0, BASE)
    rises, falls, small = trend(*[10] * 9, 20), trend(*[20] * 9, 10), trend(*[0] * 9, 9)
    ten, nine = VenueTally(10, 0, BASE), VenueTally(9, 0, BASE)
    cases: dict[int, tuple[dict[str, object], dict[str, int]]] = {
        1: ({}, {}),
        2: ({"venues": {"a": old, "b": fresh}}, {"DLQDepth": 1, "DLQOldest": 1}),
        3: ({"venues": {"a": VenueTally(1, 1, BASE), "b": fresh}}, {"DLQInDoubt": 1}),
        4: ({"states": {"pending": 21}, "categories": {"schema": 11, "business": 10}}, {"DLQDominance": 1}),
        5: ({"states": {"pending": 19}, "categories": {"schema": 10, "business": 9}}, {}),
        6: ({"states": {"pending": 22}, "categories": {"schema": 11, "business": 11}}, {}),
        7: ({"halted": True}, {"DLQHalted": 1}),
        8: ({"venues": {"a": replace(fresh, poisoned=1), "b": fresh}}, {"DLQPoison": 1}),
        9: ({"venues": {"a": replace(fresh, over_age=10), "b": replace(fresh, over_age=9)}}, {"DLQOverAge": 1}),
        10: ({"venues": {"a": ten, "b": ten}, "trends": {"a": rises, "b": falls}}, {"DLQRising": 1}),
        11: ({"venues": {"a": nine, "b": ten}, "trends": {"a": small, "b": trend(*[10] * 10)}}, {}),
        12: ({"venues": {"a": VenueTally(9, 1, BASE, poisoned=1)}, "is_readable": False}, {"DLQLedgerUnreadable": 1}),
        13: ({"outbox": (9, 0)}, {}),
        14: ({"outbox": (10, 1)}, {"DLQCameBack": 1, "DLQOutboxLeasesExpire": 1}),
    }
    for minute, (changes, expected) in cases.items():
        prometheus.scrape(minute, scraped(minute, **changes))
        assert firing(prometheus, minute) == expected, minute


@pytest.mark.parametrize(("earlier", "later", "fires"), [(20, 24, True), (20, 23, False), (0, 10, True), (0, 9, False)])
def test_the_arrival_rule_compares_five_minutes_with_five(earlier: int, later: int, fires: bool) -> None:
    prometheus = Prometheus()
    for minute, total in ((0, 100), (5, 100 + earlier), (10, 100 + earlier + later)):
        prometheus.scrape(minute, scraped(minute, states={"dismissed": total}))
    assert ("DLQArrivalRate" in firing(prometheus, 10)) is fires


def test_the_rules_have_the_limits_of_the_config() -> None:
    found = {rule["alert"]: rule for rule in rules(ROOT / "grafana" / "alerts.yml")}
    limits = Alerts()
    assert found["DLQDepth"]["expr"] == f"dlq_depth >= {limits.depth}"
    assert found["DLQOldest"]["expr"] == f"dlq_oldest_age_seconds >= {limits.oldest.total_seconds():.0f}"
    assert found["DLQDominance"]["expr"] == f"dlq_category_share > {limits.dominance} and dlq_open_by_category > 10"
    assert all({"alert", "expr", "severity", "summary", "description"} <= rule.keys() for rule in found.values())


def _told() -> set[str]:
    empty = Tally(BASE, {}, {}, {}, (), 0, ())
    own = outbox_families(OutboxFigures({}, ()), 0)
    numbers = Numbers(INFO, empty, ShiftActivity("t"), (), False, REASONS, more=own)
    return {family.name for family in families(numbers)}


def test_there_is_a_rule_for_each_rule_of_check() -> None:
    found = {rule["alert"] for rule in rules(ROOT / "grafana" / "alerts.yml")}
    named = {"in-doubt": "DLQInDoubt", "depth": "DLQDepth", "oldest": "DLQOldest", "dominance": "DLQDominance"}
    named |= {"poison": "DLQPoison", "arrivals": "DLQArrivalRate", "ledger-unreadable": "DLQLedgerUnreadable"}
    assert set(named) == set(RULES)
    assert set(named.values()) <= found


def test_the_dashboard_shows_only_what_is_told() -> None:
    board = json.loads((ROOT / "grafana" / "dashboard.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for text in expressions for name in re.findall(r"\b(?:horizon_)?dlq_[a-z_]+", text)}
    assert named <= _told()
    elsewhere = {"horizon_dlq_depth", "dlq_reconciles_total", "dlq_restores_total", "dlq_store_info"}
    elsewhere |= {"dlq_outbox_readable", "dlq_outbox_oldest_lease_seconds"}
    assert named == _told() - elsewhere
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


async def test_listen_serves_what_changes(tmp_path: Path) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(n) for n in range(3)])
    with Started(["metrics", "--db", target, "--listen", "0"], os.environ, cwd=ROOT) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", url)

        def get(path: str = "") -> tuple[str, str]:
            with urlopen(url + path, timeout=20) as answer:
                return answer.read().decode(), answer.headers["Content-Type"]

        text, kind = await asyncio.to_thread(get)
        assert kind.startswith("text/plain; version=0.0.4")
        assert read(text)["dlq_depth"] == {(("venue", "alpaca"),): 3}
        with pytest.raises(HTTPError, match="404"):
            await asyncio.to_thread(get, "/other")
        head = await asyncio.to_thread(urlopen, Request(url, method="HEAD"), timeout=20)
        assert (head.status, int(head.headers["Content-Length"]) > 0, head.read()) == (200, True, b"")
        with pytest.raises(HTTPError, match="405"):
            await asyncio.to_thread(urlopen, Request(url, data=b"x"), timeout=20)
        rig = sqlite_rig(tmp_path)
        rig.target = target
        await rig.sql("UPDATE order_dlq SET dismissed = 1 WHERE rowid = 1")
        async with asyncio.timeout(20):
            while read((await asyncio.to_thread(get))[0])["dlq_open"] != {(): 2}:
                await asyncio.sleep(0.1)
        server.terminate()


async def test_a_file_that_was_replaced_is_not_told_of(tmp_path: Path) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(n) for n in range(3)])
    context = Context(build_parser().parse_args(["metrics", "--db", target, "--listen", "0"]), Config(), ACTOR)
    async with context.store() as store:
        reader = await reader_of(store)
        told = exporter.Exporter(context, store, reader)
        (tmp_path / "orders.db").rename(tmp_path / "moved.db")
        with pytest.raises(exporter.NotReady, match="replaced or removed"):
            await told.text()
        (tmp_path / "moved.db").rename(tmp_path / "orders.db")
        assert read(await told.text())["dlq_open"] == {(): 3}
        await told.aclose()
        await reader.aclose()


async def test_a_ledger_that_comes_later_is_noticed_and_so_is_the_right_to_read_it(
    postgres_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = PostgresRig(postgres_db)
    await rig.make(2)
    target = await rig.role("auditor", "SELECT ON order_dlq")
    context = Context(build_parser().parse_args(["metrics", "--db", target, "--listen", "0"]), Config(), ACTOR)
    monkeypatch.setattr(exporter, "_KEPT_SECONDS", 0.0)
    monkeypatch.setattr(exporter, "_LEDGER_SECONDS", 0.0)
    async with context.store() as store:
        reader = await reader_of(store)
        told = exporter.Exporter(context, store, reader)
        try:
            assert read(await told.text())["dlq_ledger_readable"] == {(): 1}, "there is none"
            owner = await rig.open()
            await attempt_on(owner, 0, Result("unknown"))
            for _ in range(2):  # with its own error, three failures of one kind
                await attempt_on(owner, 1, Result("rejected", error=str(order_row(1)["error"])))
            found = read(await told.text())
            assert found["dlq_ledger_readable"] == {(): 0}
            assert not {"dlq_in_doubt", "dlq_poisoned"} & set(found)
            role = quoted(f"auditor_{postgres_db.rpartition('/')[2]}")
            for right in ("USAGE ON SCHEMA dlq_console", "SELECT ON ALL TABLES IN SCHEMA dlq_console"):
                await rig.sql(f"GRANT {right} TO {role}")
            found = read(await told.text())
            assert found["dlq_ledger_readable"] == {(): 1}
            assert found["dlq_in_doubt"] == found["dlq_poisoned"] == {(("venue", "alpaca"),): 1}
        finally:
            await told.aclose()
            await reader.aclose()
    await rig.aclose()


async def test_a_large_store_is_told_from_the_index_that_is_kept_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(n) for n in range(30)])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(exporter, "SMALL", 0)
    args = build_parser().parse_args(["metrics", "--db", target, "--listen", "0"])
    context = Context(args, Config(), ACTOR)
    async with context.store() as store:
        reader = await reader_of(store)
        told = exporter.Exporter(context, store, reader)
        try:
            with pytest.raises(exporter.NotReady, match="being built"):
                await told.text()
            async with asyncio.timeout(600):  # who keeps an index gives way to everything else
                while True:
                    try:
                        text = await told.text()
                        break
                    except exporter.NotReady:
                        await asyncio.sleep(0.1)
        finally:
            await told.aclose()
            await reader.aclose()
    assert read(text)["dlq_depth"] == {(("venue", "alpaca"),): 30}


def test_what_only_a_layout_has_comes_last() -> None:
    own = Family("dlq_own", "gauge", "Its own.", (({"queue": "a"}, 2.0),))
    counted = Tally(BASE, {"pending": 3}, {}, {}, (), 0, (0,) * 10)
    text = render(Numbers(INFO, counted, ShiftActivity("t"), (), False, REASONS, more=(own,)))
    assert text.endswith('# HELP dlq_own Its own.\n# TYPE dlq_own gauge\ndlq_own{queue="a"} 2\n')


def test_of_a_table_of_others_only_the_ledger_knows_what_is_open() -> None:
    venues = {"Acme": VenueTally(3, 0, BASE, average_age=timedelta(hours=1), by_retries=(3, 0, 0, 0, 0, 0))}
    blind = Tally(BASE, {"pending": 3}, venues, {"schema": 3}, (), 0, (0,) * 10, is_readable=False)
    info = replace(INFO, layout="outbox")
    found = read(render(Numbers(info, blind, ShiftActivity("t"), alerts(blind, Alerts()), False, REASONS)))
    assert set(found) == {"dlq_captured_total", "dlq_ledger_readable", "dlq_alert", "dlq_store_info"}
    assert found["dlq_ledger_readable"] == {(): 0}
    assert found["dlq_alert"][("rule", "ledger-unreadable"),] == 1


@pytest.mark.parametrize(("layout", "label"), [("orders", "venue"), ("outbox", "queue"), ("integration", "provider")])
def test_a_layout_s_own_word_is_the_label(layout: str, label: str) -> None:
    counted = Tally(BASE, {"pending": 3}, {"Acme": VenueTally(3, 1, BASE)}, {}, (), 0, (0,) * 10)
    found = read(render(Numbers(replace(INFO, layout=layout), counted, ShiftActivity("t"), (), False, REASONS)))
    alone = ("depth", "in_doubt", "oldest_age_seconds", "over_age_limit", "retries_average", "poisoned")
    for name in alone:
        assert list(found[f"dlq_{name}"]) == [((label, "Acme"),)]
    for name in ("depth_by_category", "depth_by_retries"):
        assert all((label, "Acme") in labels for labels in found[f"dlq_{name}"])
