"""Twenty seconds of triage on the demo's own entries, sent to a practice venue: filter, group, dismiss, replay, report.

Everything is real but the name that the frame gives the store.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from backends.records import StoreInfo
from console import clock
from console.app import ConsoleApp
from console.cli.demo import demo_entries
from console.screens.gates.gate import Gate
from console.services.session import SessionSettings, StoreSession
from console.settings.config import StoreConfig
from tests.support.app import Stage, answer, app_of, config, make_store, press, screen_text, settled, until
from tests.support.exchange import in_thread
from tests.support.snapshots.animation import Frame, animated, frame
from tests.support.snapshots.play import rested
from venues import Credentials

SIZE = (110, 30)
_QUOTES = {"AAPL": ("180.02", "180.05"), "MSFT": ("421.10", "421.16"), "QQQ": ("512.30", "512.34")}
_KEYS = {"/": "slash", " ": "space", ":": "colon"}


class DemoSession(StoreSession):
    @property
    def info(self) -> StoreInfo:
        return replace(super().info, label="sqlite orders.db")


@dataclass
class DemoStage(Stage):
    async def attach(self, settings: StoreConfig) -> StoreSession:
        setting = SessionSettings(
            config=self.config,
            store=settings,
            actor=self.actor,
            clock=self.clock,
            open=self.open,
            credentials=lambda: lambda _: Credentials({"api_key": "practice", "secret_key": "practice"}),
            cache=self.cache,
        )
        return await DemoSession.attach(setting)


class Storyboard:
    """Presses keys and keeps what the screen shows then."""

    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot
        self.app: ConsoleApp = app_of(pilot)
        self.frames: list[Frame] = []

    def keep(self, seconds: float, key: str, caption: str) -> None:
        self.frames.append(frame(self.app, seconds, key, caption))

    async def type(self, text: str) -> None:
        await press(self.pilot, *(_KEYS.get(one, one) for one in text))

    async def shows(self, text: str) -> None:
        await until(self.pilot, lambda: text in screen_text(self.app))
        await settled(self.pilot)


async def _narrow(story: Storyboard) -> None:
    await rested(story.pilot)
    story.keep(2.0, "", "sixteen dead orders, the newest first; the pane says what the error means")
    await story.type("/venue:alp")
    story.keep(1.2, "/", "type a filter; tab completes it")
    await answer(story.pilot, "aca")
    await rested(story.pilot)
    story.keep(1.6, "enter", "one venue is left, and the line above says how many match")


async def _groups(story: Storyboard) -> None:
    await press(story.pilot, "f")
    await rested(story.pilot)
    story.keep(2.2, "f", "like failures together: how many, since when, and whether they may have arrived")


async def _dismiss(story: Storyboard) -> None:
    while "access key expired" not in _title(story):
        await press(story.pilot, "j")
        await rested(story.pilot)
    story.keep(1.2, "j", "two orders whose keys had expired")
    await press(story.pilot, "D")
    await until(story.pilot, lambda: isinstance(story.app.screen, Gate) and "adding up" not in screen_text(story.app))
    await settled(story.pilot)
    story.keep(2.4, "D", "the gate says what is at stake; a reason by its key")
    await story.type("2")
    await story.type("2")
    story.keep(1.4, "2 2", "a reason, then the number of entries")
    await press(story.pilot, "enter")
    await rested(story.pilot)
    story.keep(1.2, "enter", "closed without being sent; z undoes it")


def _title(story: Storyboard) -> str:
    lines = screen_text(story.app).splitlines()
    return next((line for line in lines if "group:" in line), "")


async def _replay(story: Storyboard) -> None:
    await press(story.pilot, "escape")
    await rested(story.pilot)
    await press(story.pilot, "escape")
    await rested(story.pilot)
    await answer_filter(story, "account:main HTTP 429")
    await press(story.pilot, "a", "R")
    await story.shows("to send")
    story.keep(3.0, "a R", "what would go, where, for how much and what is held back; nothing is sent yet")


async def answer_filter(story: Storyboard, text: str) -> None:
    await press(story.pilot, "slash")
    await answer(story.pilot, text)
    await rested(story.pilot)


async def _report(story: Storyboard, count: str) -> None:
    await story.type(count)
    story.keep(0.8, count, "the number of orders sends them")
    await press(story.pilot, "enter")
    await until(story.pilot, lambda: story.app.activity.run is not None and story.app.activity.run.over)
    await settled(story.pilot)
    story.keep(3.0, "enter", "one test order first, then the rest; each row tells what became of it")


async def _play(stage: Stage) -> list[Frame]:
    app = stage.console()
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        story = Storyboard(pilot)
        await _narrow(story)
        await _groups(story)
        await _dismiss(story)
        await _replay(story)
        await _report(story, "3")
        return story.frames


def triage_svg() -> str:
    """The animation, made anew: a store in a folder that is gone afterwards, a venue in a thread."""
    with tempfile.TemporaryDirectory() as folder, in_thread() as venue:
        venue.hold("alpaca", "QQQ", 8)
        for market, bid, ask in (
            ("AAPL", "180.02", "180.05"),
            ("MSFT", "421.10", "421.16"),
            ("QQQ", "512.30", "512.34"),
        ):
            venue.quote(market, bid, ask)
        entries = sorted(demo_entries(clock.now()), key=lambda entry: entry.captured_at)
        stage = DemoStage(
            make_store(Path(folder) / "orders.db", entries),
            config=config(venue.url),
            clock=clock.now,
            store=StoreConfig(name="demo", url=str(Path(folder) / "orders.db")),
        )
        return animated(asyncio.run(_play(stage)), SIZE[0])
