"""The index process beside the console: progress, alerts and the health screen."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from backends import PostgresDLQ, SQLiteDLQ
from backends.records import Counts
from backends.store import Result
from console import clock
from console.render.line import plain, width
from console.render.status import HeaderState, alert_words, status
from console.screens.health import HealthScreen
from console.services.index.keeper import IndexProcess, IndexSupervisor
from console.services.stats.alerts import Alert
from console.settings.config import Alerts, StoreConfig
from tests.screens.test_groups_screen import index
from tests.support.app import Stage, answer, config, ident, ids, press, screen_text, settled, twelve, until
from tests.support.store import attempt_on

ROOT = Path(__file__).parent.parent.parent


class Kept:
    """Starts `dlq index` with an environment of its own and keeps the processes."""

    def __init__(self, folder: Path, target: str) -> None:
        self.environ = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "DLQ_DB": target,
        }  # fmt: skip
        self.made: list[IndexProcess] = []

    def __call__(self, _: StoreConfig) -> IndexProcess:
        # A nice process would wait too long on a busy machine.
        self.made.append(IndexProcess((), self.environ, nice=0))
        return self.made[-1]


class KeptStage(Stage):
    @property
    def cache(self) -> Path:
        return self.path.parent / "dlq-console"  # the folder that the process itself uses


@pytest.fixture(params=["sqlite", "postgres"])
def kept_stage(request: pytest.FixtureRequest, tmp_path: Path) -> KeptStage:
    path = tmp_path / "orders.db"
    target = str(path) if request.param == "sqlite" else str(request.getfixturevalue("postgres_db"))
    with SQLiteDLQ(path) if request.param == "sqlite" else PostgresDLQ(target) as sink:
        for entry in twelve():
            sink.write(entry)
    return KeptStage(path, store=StoreConfig(name="prod-orders", url=target), watch=True)


async def test_the_console_keeps_an_index_and_takes_its_process_along(kept_stage: KeptStage) -> None:
    keep = Kept(kept_stage.path.parent, kept_stage.store_config.url)
    kept_stage.changes = {"keep": keep}
    app = kept_stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: keep.made and keep.made[0].running)
        pid = keep.made[0].pid
        assert pid is not None
        assert app.session is not None
        index_status = await app.session.index_status()
        await until(pilot, lambda: index_status.is_trusted and index_status.health is not None)
        await until(pilot, lambda: "alert: oldest at alpaca" in screen_text(app))
        await press(pilot, "i")
        await until(pilot, lambda: "TOP GROUPS" in screen_text(app))
    assert len(keep.made) == 1
    assert not keep.made[0].running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_the_process_gives_way_and_this_one_does_not(stage: Stage) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    keeper = IndexProcess((), Kept(stage.path.parent, str(stage.path)).environ)
    await keeper.start()
    try:
        assert keeper.pid is not None
        assert os.getpriority(os.PRIO_PROCESS, keeper.pid) == min(19, before + 10)
        if (shared := Path(f"/proc/{keeper.pid}/autogroup")).exists():
            assert shared.read_text().split()[-1] == str(min(19, before + 10))  # against an engine in another session
    finally:
        await keeper.stop()
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


async def test_a_second_console_uses_the_index_of_the_first(kept_stage: KeptStage) -> None:
    keep = Kept(kept_stage.path.parent, kept_stage.store_config.url)
    first, second = await kept_stage.attach(kept_stage.store_config), await kept_stage.attach(kept_stage.store_config)
    one = IndexSupervisor(first, lambda: keep(kept_stage.store_config), lambda: None)
    other = IndexSupervisor(second, lambda: keep(kept_stage.store_config), lambda: None)
    try:
        async with asyncio.timeout(60):
            while (said := await one.look()) is None or said["indexing"] is not None:
                await asyncio.sleep(0.05)
        assert await other.look() is not None
        assert (await second.index_status()).is_trusted
        assert len(keep.made) == 1
    finally:
        await one.aclose()
        await first.aclose()
        await second.aclose()


async def test_where_nothing_may_be_changed_no_index_is_built(kept_stage: KeptStage) -> None:
    keep = Kept(kept_stage.path.parent, kept_stage.store_config.url)
    kept_stage.changes, kept_stage.read_only = {"keep": keep}, True
    app = kept_stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "alert: oldest at alpaca" in screen_text(app))  # counted instead
        await press(pilot, "i")
        await until(pilot, lambda: "nothing to draw" in screen_text(app))
    assert keep.made == []
    assert not kept_stage.cache.exists()


async def test_an_index_that_is_behind_is_not_believed_until_it_is_kept(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await index(pilot)
        assert app.session is not None
        index_status = await app.session.index_status()
        assert index_status.is_trusted
        with SQLiteDLQ(stage.path) as sink:
            sink.write(replace(twelve()[0], dlq_id=ident(70)))
        await index_status.look()
        assert not index_status.is_trusted
        await press(pilot, "f")
        assert "13 entries, all counted" in screen_text(app)


async def test_health_is_a_picture_beside_its_numbers(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await index(pilot)
        await press(pilot, "i")
        assert isinstance(app.screen, HealthScreen)
        shown = screen_text(app)
        for word in ("DEPTH", "now 12 open", "█", "transient", "alpaca", "TOP GROUPS", "HTTP 429 after #", "3h10m"):
            assert word in shown
        await press(pilot, "f")
        assert "8 groups" in screen_text(app)


async def test_saved_views_are_commands_and_in_the_palette(stage: Stage) -> None:
    stage.config = config(views={"slow-down": "429", "old": "age>1h"})
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "colon")
        await answer(pilot, "view slow-down")
        assert ids(app) == [ident(n) for n in (11, 9, 8, 1)]
        await press(pilot, "ctrl+p", *"view", "space", *"old")
        await until(pilot, lambda: "view old" in screen_text(app))
        await press(pilot, "enter")
        await until(pilot, lambda: ids(app) == [ident(0)])


RAISED = (
    Alert("in-doubt", "1 entry is in doubt", severe=True, brief="reconcile 1 in doubt"),
    Alert("depth", "120 open at alpaca, the limit is 100", "alpaca", brief="120 open at alpaca"),
    Alert("oldest", "the oldest at [red]alpaca waits", brief="\x1b[31malpaca waits 2h"),
)


def test_one_alert_at_a_time_and_how_many_more() -> None:
    assert plain(alert_words(RAISED, 60)) == "alert: 120 open at alpaca +2"
    assert plain(alert_words(RAISED[:1], 60)) == "alert: reconcile 1 in doubt"
    assert plain(alert_words((), 60)) == ""
    assert "\x1b" not in plain(alert_words(RAISED[2:], 60))
    for room in range(9, 40):
        words = alert_words(RAISED, room)
        assert width(words) <= room
        assert plain(words).endswith(" +2") if room >= 24 else plain(words) == "3 alerts"


@pytest.mark.parametrize("size", range(48, 80))
def test_an_alert_is_cut_once_or_told_as_a_number(size: int) -> None:
    shown = HeaderState("prod", "sqlite prod", "ann", counts=Counts({"pending": 12, "in_doubt": 0}, None))
    told = plain(status(shown._replace(alerts=RAISED[1:2]), clock.now(), size))
    assert told.count("…") <= 1
    assert "alert" in told


async def test_the_totals_alone_raise_what_they_can(stage: Stage) -> None:
    stage.config = replace(stage.config, alerts=Alerts(depth=3))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert app.session is not None
        index_status = await app.session.index_status()
        assert {alert.rule for alert in await index_status.alerts(app.header_state.counts)} == {"depth", "oldest"}
        assert {alert.rule for alert in await index_status.alerts(None)} == set()
        assert app.header_state.counts is not None
        many = replace(app.header_state.counts, by_state={"pending": 10**6, "in_doubt": 2})
        assert {alert.rule for alert in await index_status.alerts(many)} == {"in-doubt", "oldest"}
        for _ in range(2):  # with its own error, three failures of one kind
            await attempt_on(app.session.store, 1, Result("rejected", error=twelve()[1].error))
        more = replace(app.header_state.counts, by_state={"pending": 10**6})
        (poison,) = [alert for alert in await index_status.alerts(more) if alert.rule == "poison"]
        assert (poison.subject, poison.brief) == (twelve()[1].venue_name, f"1 poisoned at {twelve()[1].venue_name}")
