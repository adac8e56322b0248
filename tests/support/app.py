"""Runs the console in a test: a real store, fixed data, a fixed clock, and ways to wait without sleeping."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from textual._context import active_app
from textual.pilot import Pilot

from backends import DeadLetteredOrder, SQLiteDLQ, open_store
from backends.first_page import read_first_page
from backends.records import Actor
from backends.store import Store
from backends.target import parse_target
from console.app import ConsoleApp
from console.app_setup import AppSetup
from console.keymap import remapped
from console.render.line import plain
from console.screens.frame import FramedScreen
from console.screens.gates.gate import Gate
from console.services.session import SessionSettings, StoreSession
from console.settings.config import Config, StoreConfig, VenueConfig
from console.widgets.canvas import Canvas
from tests.support.idle import wait_by_events
from venues import Credentials, SecretSet

wait_by_events()

NOW = datetime(2026, 4, 18, 15, 0, 0, tzinfo=UTC)
ANN = Actor("oncall", "ann", "desk1", "dlq-console test")
_PATIENCE = 300.0

ERRORS = {
    "429": "RuntimeError: HTTP 429 after 3 attempts",
    "timeout": "ReadTimeout: no answer in 10 s",
    "reset": "ConnectionResetError: [Errno 104] Connection reset by peer",
    "refused": "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 443)",
    "funds": 'APIError: {"code":40310000,"message":"insufficient buying power"}',
    "auth": 'APIError: {"code":40110000,"message":"request is not authorized: access key expired"}',
    "closed": "RuntimeError: market is closed",
    "schema": "ValidationError: 1 validation error for OrderRequest: limit_price must be a number",
}
_MARKETS = ("AAPL", "MSFT", "SPY", "NVDA", "AMD", "TSLA", "GOOG", "AMZN")


def ident(number: int) -> str:
    return f"dlq_{number:016x}"


def order(
    number: int, *, minutes: float = 3.0, error: str = "429", tif: str = "gtc", **given: Any
) -> DeadLetteredOrder:
    """One dead order whose action agrees with its columns."""
    fields: dict[str, Any] = {
        "dlq_id": ident(number),
        "captured_at": NOW - timedelta(minutes=minutes),
        "venue_name": "alpaca",
        "account_id": "main",
        "market_id": _MARKETS[number % len(_MARKETS)],
        "side": "buy" if number % 3 else "sell",
        "quantity": float(10 + number),
        "order_type": "limit",
        "price": 100.0 + number / 4,
        "client_order_id": f"cid-{number}",
        "error": ERRORS.get(error, error),
    }
    fields |= given
    if "action_json" not in fields:
        kept = {name: fields[name] for name in ("market_id", "side", "quantity")}
        price = {} if fields["price"] is None else {"price": fields["price"]}
        fields["action_json"] = json.dumps(kept | price | {"time_in_force": tif})
    if fields["price"] is None:
        fields["order_type"] = "market"
    return DeadLetteredOrder(**fields)


def twelve() -> list[DeadLetteredOrder]:
    """Twelve orders with every kind of failure, oldest first."""
    kinds = ("schema", "429", "auth", "closed", "timeout", "funds", "reset", "refused", "429", "429", "timeout", "429")
    minutes = (190, 41, 14, 13, 12, 9, 8, 7, 5, 4, 3, 2)
    return [order(n, minutes=minutes[n], error=kinds[n]) for n in range(12)]


def make_store(path: Path, entries: Iterable[DeadLetteredOrder]) -> Path:
    with SQLiteDLQ(path) as sink:
        for entry in entries:
            sink.write(entry)
    return path


def config(url: str | None = None, **changes: Any) -> Config:
    """A config, with a practice venue where a URL is given."""
    alpaca = VenueConfig(paper_endpoint=url, live_endpoint=url, timeout=60.0, visibility_seconds=0.5)
    venues = {"alpaca": replace(alpaca, default_account="main")}
    return replace(Config(venues=venues if url else {}), **changes)


@dataclass
class Stage:
    """The parts of a console in a test; `console()` makes one."""

    path: Path
    config: Config = field(default_factory=config)
    clock: Callable[[], datetime] = lambda: NOW
    read_only: bool = False
    actor: Actor = ANN
    watch: bool = False
    first_page: bool = False
    store: StoreConfig | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    attaching: Callable[[StoreConfig], Any] | None = None
    credentials: Callable[[SecretSet], Credentials] = lambda _: Credentials(
        {"api_key": "practice", "secret_key": "practice"}
    )

    @property
    def cache(self) -> Path:
        """The folder of indexes, which is never the operator's own."""
        return self.path.parent / "cache"

    @property
    def store_config(self) -> StoreConfig:
        return self.store or StoreConfig(name="prod-orders", url=str(self.path))

    async def open(self) -> Store:
        return await open_store(self.store_config.url, read_only=self.read_only)

    async def attach(self, settings: StoreConfig) -> StoreSession:
        async def open_it() -> Store:
            return await open_store(settings.url, read_only=self.read_only)

        setting = SessionSettings(
            config=self.config,
            store=settings,
            actor=self.actor,
            clock=self.clock,
            open=open_it,
            credentials=lambda: self.credentials,
            cache=self.cache,
        )
        return await StoreSession.attach(setting)

    def setup(self) -> AppSetup:
        made = AppSetup(
            config=self.config,
            actor=self.actor,
            clock=self.clock,
            attach=self.attaching or self.attach,
            store=self.store_config,
            read_only=self.read_only,
            keys=remapped(self.config.keymap),
            dead_seconds=0.0,
            watch=self.watch,
        )
        if self.first_page:
            from backends.first_page.page import ComingPage

            coming = ComingPage()
            coming.set_result(read_first_page(parse_target(self.store_config.url), limit=120))
            made = replace(made, first_page=coming)
        return replace(made, **self.changes)

    def console(self) -> ConsoleApp:
        return ConsoleApp(self.setup())


async def until(pilot: Pilot[Any], condition: Callable[[], object], what: str = "") -> None:
    """Wait until the condition holds; fail after a time limit."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE
    wait = 0.005
    while not condition():
        assert loop.time() < deadline, what or _unsettled(app_of(pilot))
        await _pause(pilot, wait)
        wait = min(0.05, wait * 1.5)  # to look is work too


async def _pause(pilot: Pilot[Any], seconds: float | None = None) -> None:
    """Where a test has two consoles, a screen takes the one that was opened last for its own, and is not painted."""
    of = active_app.set(pilot.app)
    try:
        await pilot.pause(seconds)
    finally:
        active_app.reset(of)


def _unsettled(app: ConsoleApp) -> str:
    """What there is, and what is still going on."""
    running = [f"{worker.group}: {worker.name} {worker.state.name}" for worker in app.workers]
    dirty = [type(one).__name__ for one in app.screen._dirty_widgets]
    return f"did not come true; running {running}; to be painted {dirty}; on screen:\n{screen_text(app)}"


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until no read and no act is running and the screen is painted."""
    app = app_of(pilot)
    await until(pilot, lambda: app.session is not None or not isinstance(app.screen, FramedScreen) or is_stuck(app))
    await _pause(pilot)
    await until(pilot, lambda: not [worker for worker in app.workers if worker.group != "watch"])
    await _pause(pilot)
    await until(pilot, lambda: is_painted(app))


def is_painted(app: ConsoleApp) -> bool:
    """Whether nothing waits for the next frame. A gate takes no answer before it has been painted."""
    screen = app.screen
    waiting = screen._layout_required or screen._repaint_required or screen._dirty_widgets or screen._callbacks
    unseen = isinstance(screen, Gate) and screen._open_from == float("inf")
    return screen.is_mounted and not waiting and not unseen


def is_stuck(app: ConsoleApp) -> bool:
    """Whether the console waits for the operator to choose a store."""
    return app.setup.store is None or not app.header_state.attaching


def app_of(pilot: Pilot[Any]) -> ConsoleApp:
    app = pilot.app
    assert isinstance(app, ConsoleApp)
    return app


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one by one and wait after each."""
    for key in keys:
        await pilot.press(key)
        await settled(pilot)


async def answer(pilot: Pilot[Any], text: str) -> None:
    """Type an answer into a gate or a line, then Enter."""
    for character in text:
        await pilot.press("space" if character == " " else character)
    await pilot.press("enter")
    await settled(pilot)


def screen_text(app: ConsoleApp) -> str:
    """The text of the screen, line by line."""
    width, height = app.size
    strips = app.screen._compositor.render_strips(app.size)
    return (
        "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips[:height])
        + f"\n[{width}x{height}]"
    )


def notice(app: ConsoleApp) -> str:
    return plain(app.screen.noticed) if isinstance(app.screen, FramedScreen) else ""


def gate_message(app: ConsoleApp) -> str:
    assert isinstance(app.screen, Gate)
    return _lines(app, "#gate-message")


def _lines(app: ConsoleApp, selector: str) -> str:
    return "\n".join(plain(cells) for cells in app.screen.query_one(selector, Canvas).lines)


def ids(app: ConsoleApp) -> list[str]:
    """Ids of the entries in the queue's window, in order."""
    return [spot.entry.id for spot in app.queue.table.window.spots]


def current(app: ConsoleApp) -> str | None:
    spot = app.queue.table.window.current
    return spot.entry.id if spot else None


def on_queue(app: ConsoleApp) -> bool:
    return app.screen is app.queue


def in_gate(app: ConsoleApp) -> bool:
    return isinstance(app.screen, Gate)


def typed(app: ConsoleApp) -> str:
    """The text of the gate's answer line."""
    return app.screen.typed if isinstance(app.screen, Gate) else ""
