"""The time matrix: what an order waits for × what happens meanwhile × the face it is sent from, in moved time.

In each cell the moment passes during the wait, and nothing may be sent; in its counterpart the same wait ends in time,
and the order goes. `python -m tests.faults.time_matrix` runs every cell and prints its figures; exit 1 on a violation.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backends import open_store
from backends.records import ActContext, Selection
from console.cli import main as command_line
from console.services.replay.background_run import BackgroundRun, Work
from console.services.replay.outcome import EntryOutcome
from console.services.replay.preflight import ReplayRequest
from console.services.session import Mode, StoreSession
from tests.support.moved_time import BusyVenue, Hooks, MovedTime, move_time
from tests.support.orders import row, sqlite_store
from tests.support.parity import Side, apart
from tests.support.session import ANN, BOB, ident
from tests.support.venue.in_process import READY
from venues import Prepared

# What is waited for, and the seconds by which the wall clock moves meanwhile.
WAITS = {
    "confirmation": 90.0,
    "second-person": 90.0,
    "retry-after": 90.0,
    "overslept": 270.0,  # a wait of 90 s that took longer
    "breaker": 30.0,
    "suspended-begun": 90.0,
    "suspended-look-up": 90.0,
    "suspended-cleared": 90.0,
    "suspended-intended": 90.0,
}
EVENTS = ("stale", "session-close", "stated", "halt", "max-notional", "stale-after")
FACES = ("command", "session")
_SAID = 90.0  # what a venue asks to wait
_OLD = 60.0  # seconds since the capture, where its age is not what ends it
_STALE_AFTER = 600.0
_BATCH = {"retry-after": 2, "overslept": 2, "breaker": 6}  # the last one is the order that waits
_ANNOUNCED = ("retry-after", "breaker")  # a wait that is known to be too long is not begun
_TIMED = ("stale", "session-close", "stated")
_POINTS = {"suspended-begun": "begun", "suspended-cleared": "cleared", "suspended-intended": "intended"}


@dataclass(frozen=True, order=True)
class TimeCell:
    wait: str
    event: str
    face: str
    over: bool  # the moment passes during the wait

    def __str__(self) -> str:
        return f"{self.wait} {self.event} {self.face} {'over' if self.over else 'in-time'}"

    @property
    def numbers(self) -> range:
        return range(1, _BATCH.get(self.wait, 1) + 1)

    @property
    def left(self) -> float:
        """Seconds from the beginning to the moment."""
        return WAITS[self.wait] * (0.5 if self.over else 2.0)

    @property
    def mode(self) -> Mode:
        """The prompt of a single entry asks in live only."""
        return "live" if self.wait == "confirmation" else "paper"


def cells() -> list[TimeCell]:
    return [TimeCell(*one, over) for one in _kinds() for over in (True, False)]


def _kinds() -> Iterator[tuple[str, str, str]]:
    for wait in WAITS:
        for event in EVENTS:
            yield from ((wait, event, face) for face in FACES)


@dataclass(frozen=True)
class Ended:
    code: int | None  # of a command
    rows: tuple[tuple[str, str], ...]  # (entry, outcome)
    said: str = ""


class Ground:
    """One store, one venue and a clock, in which one cell is run."""

    def __init__(self, cell: TimeCell, folder: Path) -> None:
        self.cell = cell
        self.time = MovedTime()
        self.venue = BusyVenue(mode=cell.mode, readiness=self._readiness())
        self.happened = False
        self.answers = 1  # to the prompt
        target = sqlite_store(folder / "orders.db", [self._row(number) for number in cell.numbers])
        self.side = Side(folder, target, sections=self._limits())
        self.path = self.side.config()
        if cell.wait in ("retry-after", "overslept"):
            self.venue.retry_after = [_SAID]
        if cell.wait == "breaker":
            self.venue.lookups = ["fail"] * 5
        if cell.wait == "suspended-look-up":
            self.venue.before_lookup = self._looked_up

    @property
    def target(self) -> str:
        """The entry that waits."""
        return ident(self.cell.numbers[-1])

    def hooks(self) -> Hooks:
        return Hooks(self._waited, self._reached)

    def happen(self) -> None:
        """The wait, once: time passes, and somebody does something meanwhile."""
        if self.happened:
            return
        self.happened = True
        self.time.suspend(WAITS[self.cell.wait])
        if self.cell.wait == "second-person":
            apart(self._approve())
        over = self.cell.over
        match self.cell.event:
            case "halt" if over:
                apart(self._halt())
            case "max-notional":
                self._rewrite(max_notional=5 if over else 100_000)
            case "stale-after":
                self._rewrite(stale_after="30s" if over else "9m")

    def _waited(self, seconds: float) -> None:
        self.time.ticks += seconds
        self.happen()

    def _reached(self, point: str) -> None:
        if _POINTS.get(self.cell.wait) == point:
            self.happen()

    async def _looked_up(self, _: Prepared) -> None:
        self.happen()

    def _row(self, number: int) -> dict[str, Any]:
        cell, now = self.cell, self.time.wall
        age = _STALE_AFTER - cell.left if cell.event == "stale" else _OLD
        quantity = float(number)
        action: dict[str, object] = {"market_id": "AAPL", "side": "buy", "quantity": quantity, "price": 10.0}
        action["time_in_force"] = "day" if cell.event == "session-close" else "gtc"
        if cell.event == "stated":
            action["expiration_time"] = int((now + timedelta(seconds=cell.left)).timestamp())
        shape = {"quantity": quantity, "price": 10.0, "action_json": json.dumps(action), "venue_name": "fake"}
        return row(number, captured_at=now - timedelta(seconds=age), account_id=None, **shape)

    def _readiness(self) -> Any:
        if self.cell.event != "session-close":
            return READY
        return replace(READY, session_close=(self.time.wall + timedelta(seconds=self.cell.left)).isoformat())

    def _limits(self, **changed: object) -> str:
        limits: dict[str, object] = {"stale_after": f"{_STALE_AFTER:.0f}s", "plan_seconds": 60, "max_notional": 50_000}
        if self.cell.wait == "second-person":
            limits["four_eyes_over"] = 1
        return "\n".join(["[limits]", *(f"{name} = {json.dumps(value)}" for name, value in (limits | changed).items())])

    def _rewrite(self, **limits: object) -> None:
        self.side = replace(self.side, sections=self._limits(**limits))
        self.side.config()

    async def _halt(self) -> None:
        store = await open_store(self.side.target)
        try:
            await store.halt(BOB, ActContext(self.time.wall, "op", "test", "because"))
        finally:
            await store.aclose()

    async def _approve(self) -> None:
        place = await self.side.attach(BOB)
        try:
            await place.approve(self.side.asked())
        finally:
            await place.aclose()

    async def left_behind(self) -> tuple[str, object, bool]:
        """(state, retry count, whether a claim is left) of the entry that waited."""
        store = await open_store(self.side.target)
        try:
            entry = await store.get(self.target)
            assert entry is not None
            return entry.state, entry.get("retry_count"), bool(await store.live_claims((self.target,)))
        finally:
            await store.aclose()


# As a command.


class _Typist(io.StringIO):
    """A terminal at which somebody takes their time, and answers a number of times."""

    def __init__(self, ground: Ground) -> None:
        super().__init__()
        self._ground = ground
        self._answers = ["live 1\n"] * ground.answers

    def isatty(self) -> bool:
        return True

    def readline(self, *_: Any) -> str:  # type: ignore[override]  # as of a text stream
        self._ground.happen()
        return self._answers.pop() if self._answers else ""


def by_command(ground: Ground, patch: pytest.MonkeyPatch) -> Ended:
    cell = ground.cell
    prompted = cell.wait == "confirmation"
    patch.setattr(command_line, "current_actor", lambda _: ANN)
    patch.setattr(sys, "stdin", _Typist(ground) if prompted else io.StringIO())
    words = ["replay", *map(ident, cell.numbers), f"--{cell.mode}", "--json", *([] if prompted else ["--yes"])]
    ended = _ran(ground, words)
    if cell.wait == "second-person":
        if ended.code != 4 or "plan " not in ended.said:
            raise AssertionError(f"nobody was asked to approve: {ended}")
        ground.happen()
        ended = _ran(ground, words)
    return ended


def _ran(ground: Ground, words: Sequence[str]) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = command_line.run([*words, "--db", "desk", "--config", str(ground.path)])
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    return Ended(code, tuple((row["dlq_id"], row["outcome"]) for row in rows), err.getvalue())


# Through the session, as the gate uses it.


def by_session(ground: Ground) -> Ended:
    return asyncio.run(_gated(ground))


async def _gated(ground: Ground) -> Ended:
    cell = ground.cell
    place = await ground.side.attach(ANN)
    try:
        ids = tuple(map(ident, cell.numbers))
        found, _ = await place.triage.chosen(ids)
        selection, request = Selection.of([found[one] for one in ids]), ReplayRequest(cell.mode, single=len(ids) == 1)
        shown = await place.plan(selection, request)
        if cell.wait == "second-person" and await place.is_approved(shown):
            raise AssertionError("nobody was asked to approve")
        if cell.wait in ("confirmation", "second-person"):
            ground.happen()
        renewal = await place.renewed(shown, selection, request)
        told = _rows(renewal.lost)
        if not renewal.is_same or not renewal.plan.count or not await place.is_approved(renewal.plan):
            return Ended(None, told)  # the gate shows the new plan and asks anew
        return Ended(None, told + _rows(await _run(place, renewal.plan)))
    finally:
        await place.aclose()


def _rows(ended: Sequence[EntryOutcome]) -> tuple[tuple[str, str], ...]:
    return tuple((one.entry_id, one.outcome) for one in ended)


async def _run(place: StoreSession, plan: Any) -> tuple[EntryOutcome, ...]:
    work: Work = place.replay_work(plan, None)
    return await asyncio.to_thread(BackgroundRun(work).start().join)


# The cell, and what must hold of it.


def run_cell(cell: TimeCell, folder: Path) -> list[str]:
    """What is wrong in this cell."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DLQ_DB", "DLQ_CONFIG", "CREDENTIALS_DIRECTORY"):
            patch.delenv(name, raising=False)
        ground = Ground(cell, folder)
        move_time(patch, ground.time, ground.venue, ground.hooks())
        ended = by_command(ground, patch) if cell.face == "command" else by_session(ground)
        left = apart(ground.left_behind())
    return [f"{cell}: {problem}" for problem in judge(ground, ended, left)]


def judge(ground: Ground, ended: Ended, left: tuple[str, object, bool]) -> Iterator[str]:
    cell, (state, retries, claimed) = ground.cell, left
    outcome = " and ".join(word for entry, word in ended.rows if entry == ground.target)
    posts = sum(one.action.quantity == cell.numbers[-1] for one in ground.venue.posts)
    if not ground.happened and not (cell.over and cell.wait in _ANNOUNCED and cell.event in _TIMED):
        yield "nothing was waited for"
    if claimed or retries != 0:
        yield f"left with retry count {retries}{', claimed' if claimed else ''}"
    if not cell.over:
        if (posts, outcome, state) != (1, "accepted", "replayed"):
            yield f"in time, but {posts} were sent: {outcome}, {state}; {ended.said}"
        return
    if posts:
        yield f"{posts} were sent after the moment"
    if (state, outcome) != ("pending", "not_sent"):
        yield f"ended {outcome}, {state}; {ended.said}"
    if ended.code not in (None, 4):
        yield f"exit code {ended.code}"


@dataclass
class Figures:
    cells: int = 0
    sent_in_time: int = 0
    violations: list[str] = field(default_factory=list)


def run_all(every: Sequence[TimeCell]) -> Figures:
    figures = Figures()
    for cell in every:
        with tempfile.TemporaryDirectory() as folder:
            found = run_cell(cell, Path(folder))
        figures.cells += 1
        figures.sent_in_time += not cell.over and not found
        figures.violations += found
    return figures


def main() -> int:
    figures = run_all(cells())
    print("\n".join(figures.violations), file=sys.stderr)
    shown = {"cells": figures.cells, "sent_in_time": figures.sent_in_time, "violations": len(figures.violations)}
    print(json.dumps(shown))
    return 1 if figures.violations else 0


if __name__ == "__main__":
    sys.exit(main())
