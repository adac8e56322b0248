"""The cells of the fault matrix: every point a replay passes, under every fault of the venue, by every way to die.

Points are not listed here: a run that dies nowhere writes down those it passed, for each fault and engine anew.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.support.orders import row
from venues.practice import BEHAVIOURS

KILLS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
SECONDS = 0.6  # of faults that take time: longer than the client waits
HOUSE = "alpaca"
OTHERS = ("kalshi", "ccxt:binance", "hyperliquid")
_LOOK_UP_FAULTS = ("http_500", "http_429", "http_404", "accept_then_drop", "garbage_200", "delay", "redirect_307")
_SAMPLE = ("", "accept_then_drop", "drop_before_accept", "booked_500", "late_booking", "http_429", "reject")
_SQL_SAMPLE = ("", "accept_then_drop", "drop_before_accept")


@dataclass(frozen=True, order=True)
class Scene:
    """What the venue does. `before`: the engine's own submit had arrived (`placed`), unseen by a look-up (`hidden`)."""

    venue: str = HOUSE
    fault: str = ""
    on: str = "new"
    before: str = ""

    def __str__(self) -> str:
        on = "@lookup" if self.on == "lookup" else ""
        return f"{self.venue}/{self.fault or 'ok'}{on}{self.before and '+' + self.before}"


@dataclass(frozen=True, order=True)
class Cell:
    scene: Scene
    engine: str
    point: str
    kill: int

    def __str__(self) -> str:
        return f"{self.engine} {self.scene} {signal.Signals(self.kill).name} at {self.point}"


def scenes() -> list[Scene]:
    new = [Scene(fault=name) for name, behaviour in BEHAVIOURS.items() if "new" in behaviour.on]
    asked = [Scene(fault=name, on="lookup") for name in _LOOK_UP_FAULTS]
    earlier = [Scene(before="placed"), Scene(before="hidden", fault="http_404", on="lookup")]
    return [Scene(), *new, *asked, *earlier]


def other_scenes() -> list[Scene]:
    return [Scene(venue=venue, fault=fault) for venue in OTHERS for fault in _SAMPLE]


def cells(scene: Scene, engine: str, points: Iterable[str]) -> list[Cell]:
    """Steps by every signal; statements and commits, which no signal can stop in between, by kill -9 alone."""
    passed = list(dict.fromkeys(points))
    steps = [point for point in passed if "-" not in point or point.startswith(("looked", "on-", "given"))]
    inner = [point for point in passed if point not in steps]
    kills = KILLS if scene.venue == HOUSE else KILLS[:1]
    made = [Cell(scene, engine, point, kill) for point in steps for kill in kills]
    if scene.venue == HOUSE and scene.on == "new" and not scene.before and scene.fault in _SQL_SAMPLE:
        made += [Cell(scene, engine, point, signal.SIGKILL) for point in inner]
    return made


def sampled(every: Sequence[Cell], count: int | None, seed: int) -> list[Cell]:
    return list(every) if count is None else random.Random(seed).sample(list(every), min(count, len(every)))


def order(number: int, venue: str) -> dict[str, Any]:
    """An entry unlike any other in market and quantity, which the venue would take."""
    shape: dict[str, Any] = {"market_id": f"T{number}", "quantity": float(number), "price": 1.0}
    match venue:
        case "kalshi":
            shape = {"market_id": f"KXT-{number}", "quantity": float(number), "price": 0.5}
        case "ccxt:binance":
            shape = {"market_id": "DOGE/USDT", "quantity": 100.0 + number, "price": 0.1}
        case "hyperliquid":
            shape = {"market_id": "DOGE", "quantity": 1000.0 + number, "price": 0.1}
            shape["client_order_id"] = f"0x{number:032x}"
    return row(number, captured_at=datetime.now(UTC), venue_name=venue, **shape)
