"""Batches of messages and calls: across a switch of stores, and with an open breaker."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from backends import open_store
from console import clock
from console.services.replay.flow_control import OPEN_SECONDS, Breaker
from console.services.resend import provider as redelivery
from console.services.resend.delivery import Backoff
from console.services.resend.provider import Pulse
from console.settings.config import ProviderConfig, StoreConfig
from tests.support.app import (
    answer,
    app_of,
    config,
    ids,
    make_store,
    press,
    screen_text,
    settled,
    twelve,
    until,
)
from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.integration import IntegrationRig, entry_id
from tests.support.snapshots.layout_stores import LayoutStage

NOWHERE = Path("unused")


class Provider:
    """Answers with success after it is released."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def __call__(self, _: Received) -> Answer:
        await self.may_answer.wait()
        return reply(200, {"id": "ch_1"})


async def _over(pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: (run := app_of(pilot).activity.run) is not None and run.over)
    await settled(pilot)


async def _replay_all(pilot: Pilot[Any], count: int) -> None:
    await press(pilot, "a", "R")
    await until(pilot, lambda: f"type {count} to send again" in screen_text(app_of(pilot)))


async def _ended(target: str, *numbers: int) -> list[tuple[str, list[str | None]]]:
    """(state, outcomes) of each entry in the store."""
    store = await open_store(target)
    try:
        wanted = tuple(map(entry_id, numbers))
        found = await store.many(wanted)
        return [(found[one].state, [a.outcome for a in await store.attempts(one)]) for one in wanted]
    finally:
        await store.aclose()


def _ledger_of(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'console_%'")]


async def test_a_batch_goes_on_at_the_store_that_was_left(postgres_db: str, tmp_path: Path) -> None:
    rig, there = IntegrationRig(postgres_db), Provider()
    await rig.tables()
    await rig.failed(1, 2)
    path = make_store(tmp_path / "orders.db", twelve())
    stores = {"hub": StoreConfig("hub", postgres_db), "orders": StoreConfig("orders", str(path))}
    async with Loopback(there) as provider:
        stage = LayoutStage(path, target=postgres_db, name="hub", clock=clock.now, config=config(stores=stores))
        stage.providers = {"prov-1": ProviderConfig(provider.url)}
        app = stage.console()
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            await _replay_all(pilot, 2)
            await answer(pilot, "2")
            await until(pilot, lambda: provider.requests)
            await press(pilot, "escape", "colon")
            await answer(pilot, "store orders")
            await until(pilot, lambda: app.header_state.store == "orders" and app.header_state.counts is not None)
            await settled(pilot)
            assert len(ids(app)) == 12
            assert app.activity.has_batch
            there.may_answer.set()
            await _over(pilot)
            await press(pilot, "b")
            shown = screen_text(app)
            assert "on another store: hub" in shown
            assert shown.count(" accepted   POST /") == 2, "its rows stay in sight"
            await press(pilot, "escape")
            assert len(ids(app)) == 12
    assert len(provider.requests) == 2
    assert await _ended(postgres_db, 1, 2) == [("replayed", ["accepted"])] * 2
    assert _ledger_of(path) == []


async def test_a_provider_that_is_down_is_down_at_the_next_store_too(postgres_db: str, tmp_path: Path) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    await rig.failed(1, 2)
    path = make_store(tmp_path / "orders.db", twelve())
    stores = {"hub": StoreConfig("hub", postgres_db), "orders": StoreConfig("orders", str(path))}
    stage = LayoutStage(path, target=postgres_db, name="hub", clock=clock.now, config=config(stores=stores))
    stage.providers = {"prov-1": ProviderConfig("http://127.0.0.1:9")}
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert app.session is not None
        app.session._breakers["prov-1"] = Breaker("open", opened_at=time.monotonic())
        for store in ("orders", "hub"):
            await press(pilot, "colon")
            await answer(pilot, f"store {store}")
            await until(pilot, lambda: app.header_state.store == store and app.header_state.counts is not None)  # noqa: B023
            await settled(pilot)
        await _replay_all(pilot, 2)
        assert "prov-1: its breaker is open, the first try is held for" in screen_text(app)


class HeldTime:
    """A clock whose waits end when the test releases them, with their seconds passed."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.waits: list[float] = []
        self.may_pass = threading.Event()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.to_thread(self.may_pass.wait)
        self.now += seconds

    @property
    def pulse(self) -> Pulse:
        return Pulse(Backoff(self.sleep), lambda: self.now)


async def test_an_open_breaker_holds_a_batch_until_it_lets_a_try_through(
    postgres_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, there, held = IntegrationRig(postgres_db), Provider(), HeldTime(time.monotonic())
    there.may_answer.set()
    await rig.tables()
    await rig.failed(1, 2)
    monkeypatch.setattr(redelivery, "Pulse", lambda: held.pulse)
    async with Loopback(there) as provider:
        known = {"prov-1": ProviderConfig(provider.url)}
        app = LayoutStage(NOWHERE, target=postgres_db, clock=clock.now, providers=known).console()
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            assert app.session is not None
            breakers = app.session._breakers
            breakers["prov-1"] = Breaker("open", opened_at=held.now)  # the state after five failures in a row
            await _replay_all(pilot, 2)
            assert "prov-1: its breaker is open, the first try is held for" in screen_text(app)
            await answer(pilot, "2")
            await until(pilot, lambda: held.waits)
            assert app.activity.breakers()["Acme Pay"] == "open"
            assert app.activity.has_batch
            assert provider.requests == []
            held.may_pass.set()
            await _over(pilot)
            run = app.activity.run
            assert run is not None
            assert [one.outcome for one in run.landed] == ["accepted", "accepted"]
        assert held.waits == [OPEN_SECONDS]
        assert breakers["prov-1"].state == "closed"
    assert await _ended(postgres_db, 1, 2) == [("replayed", ["accepted"])] * 2
