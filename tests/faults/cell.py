"""The cells of the fault matrix: every point a replay passes, under every fault of the venue, by every way to die.

Points are not listed here: a run that dies nowhere writes down those it passed, for each fault and engine anew.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tests.support.orders import row
from venues.practice import BEHAVIOURS

KILLS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
SECONDS = 0.6  # of faults that take time: longer than the client waits
HOUSE = "alpaca"
OTHERS = ("kalshi", "ccxt:binance", "hyperliquid")
VENUES = (HOUSE, *OTHERS)
FORGETFUL = "kalshi"  # a client id is free again as soon as its order has ended
_LOOK_UP_FAULTS = ("http_500", "http_429", "http_404", "accept_then_drop", "garbage_200", "delay", "redirect_307")
_SAMPLE = ("", "accept_then_drop", "drop_before_accept", "booked_500", "late_booking", "http_429", "reject")
_SQL_SAMPLE = ("", "accept_then_drop", "drop_before_accept")
_LOST_FAULTS = ("", "accept_then_drop", "drop_before_accept", "booked_500", "late_booking")
_SWAPPED_FAULTS = ("", "accept_then_drop", "drop_before_accept")
# What happens to a cell besides its death. restored: before the next replay the store is what it was before the first,
# and another machine replays (restored-here: the same, which remembers). swapped: another key under the same account
# when it is reconciled. late: asked for at once, before the venue shows it. twice: two orders under its one id.
KINDS = ("", "restored", "restored-here", "swapped", "late", "twice")
RESTORED = ("restored", "restored-here")


@dataclass(frozen=True, order=True)
class Scene:
    """What the venue does. `before`: the engine's own submit had arrived (`placed`, or `twice`), unseen by a look-up
    (`hidden`). `own`: the entry has a client order id of its own."""

    venue: str = HOUSE
    fault: str = ""
    on: str = "new"
    before: str = ""
    kind: str = ""
    own: bool = True

    def __str__(self) -> str:
        on = "@lookup" if self.on == "lookup" else ""
        more = "".join(f"+{word}" for word in (self.before, self.kind, "" if self.own else "no-id") if word)
        return f"{self.venue}/{self.fault or 'ok'}{on}{more}"

    @property
    def plain(self) -> Scene:
        """The scene whose replay passes the same points."""
        return replace(self, kind="", own=True)


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


def kind_scenes() -> list[Scene]:
    """Those in which something happens between the send and the next look, at venues of every kind of dedup."""
    ids = (True, False)
    lost = [Scene(venue, fault, kind="restored", own=own) for venue in VENUES for own in ids for fault in _LOST_FAULTS]
    here = [
        Scene(venue, fault, kind="restored-here", own=own)
        for venue in VENUES
        for own in ids
        for fault in ("", "accept_then_drop")
    ]
    swapped = [Scene(venue, fault, kind="swapped") for venue in VENUES for fault in _SWAPPED_FAULTS]
    late = [Scene(venue, fault, kind="late") for venue in VENUES for fault in ("late_visibility", "accept_then_drop")]
    twice = [
        Scene(FORGETFUL, fault, on="lookup", before="twice", kind="twice") for fault in ("", "http_429", "http_500")
    ]
    return [*lost, *here, *swapped, *late, *twice]


def cells(scene: Scene, engine: str, points: Iterable[str]) -> list[Cell]:
    """Steps by every signal; statements and commits, which no signal can stop in between, by kill -9 alone."""
    passed = list(dict.fromkeys(points))
    steps = [point for point in passed if "-" not in point or point.startswith(("looked", "on-", "given"))]
    inner = [point for point in passed if point not in steps]
    made = [Cell(scene, engine, point, kill) for point in steps for kill in KILLS]
    if scene == Scene(fault=scene.fault) and scene.fault in _SQL_SAMPLE:
        made += [Cell(scene, engine, point, signal.SIGKILL) for point in inner]
    return made


def sampled(every: Sequence[Cell], count: int | None, seed: int) -> list[Cell]:
    return list(every) if count is None else random.Random(seed).sample(list(every), min(count, len(every)))


def order(number: int, venue: str, *, own: bool = True) -> dict[str, Any]:
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
    if not own:
        shape["client_order_id"] = None
    return row(number, captured_at=datetime.now(UTC), venue_name=venue, **shape)
