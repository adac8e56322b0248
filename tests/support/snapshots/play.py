"""How a scene is played: keys and answers, and states that no key leads to. Knows no scene."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from backends.records import Selection
from backends.store import ActRefused, Unreachable
from console.screens.batch import BatchScreen
from console.screens.groups import GroupsScreen
from console.services.replay.background_run import BackgroundRun, Kind, RunProgress, RunScope
from console.services.replay.flow_control import Wait
from console.services.replay.outcome import EntryOutcome
from console.services.session import StoreSession, Verified
from console.services.triage.triage import Done
from console.settings.config import StoreConfig
from tests.support.app import answer, app_of, ident, make_store, order, press, screen_text, settled, until

Play = Callable[[Pilot[Any]], Awaitable[None]]
_KEY = re.compile(r"<[a-z+_]+>|.")
_NAMES = {
    "[": "left_square_bracket", "]": "right_square_bracket", "/": "slash", ":": "colon", "?": "question_mark",
    "!": "exclamation_mark", " ": "space", ">": "greater_than_sign", "-": "minus",
}  # fmt: skip


def keys(text: str) -> Play:
    """`<enter>` and the like by name, everything else as it is typed."""

    async def play(pilot: Pilot[Any]) -> None:
        for token in _KEY.findall(text):
            key = token[1:-1] if len(token) > 1 else _NAMES.get(token, token)
            if token.isupper():
                await rested(pilot)  # an act may leave an event, which a pane that reads later would count
            await pilot.press(key)
            await settled(pilot)
        await rested(pilot)

    return play


async def rested(pilot: Pilot[Any]) -> None:
    """What is under the cursor has been read, which begins a moment after the cursor rests."""
    app = app_of(pilot)

    def is_read() -> bool:
        if isinstance(app.screen, GroupsScreen):
            return "reading where" not in screen_text(app)
        row, shown = app.queue.table.row, app.queue.pane.shown
        if app.session is None or row is None:
            return True
        return shown is not None and shown.history is not None and shown.row.entry.id == row.entry.id

    await settled(pilot)
    await until(pilot, is_read)
    await settled(pilot)


def then(*plays: Play) -> Play:
    async def play(pilot: Pilot[Any]) -> None:
        for one in plays:
            await one(pilot)

    return play


def typed(text: str) -> Play:
    """An answer, handed over."""

    async def play(pilot: Pilot[Any]) -> None:
        await answer(pilot, text)
        await rested(pilot)

    return play


def filtered(text: str) -> Play:
    return then(keys("/"), typed(text))


async def still(pilot: Pilot[Any]) -> None:
    """The palette's own cursor would blink."""
    await until(pilot, lambda: app_of(pilot).screen.query(Input))
    app_of(pilot).screen.query_one(Input).cursor_blink = False
    await settled(pilot)


def palette(text: str = "") -> Play:
    return then(keys("<ctrl+p>"), still, keys(text))


LANDED = (
    EntryOutcome(ident(5), "accepted", "paper", "61e69015-8549-4bfd", "cid-5", account="PA3X7K2M9Q1"),
    EntryOutcome(ident(6), "accepted", "paper", "7a1c02de-0d3e-4b17", "cid-6"),
    EntryOutcome(ident(7), "rejected", "paper", None, "cid-7", "HTTP 403: insufficient buying power"),
    EntryOutcome(ident(8), "accepted", "paper", "b2f40c9a-77d1-4e02", "cid-8"),
    EntryOutcome(ident(9), "unknown", "paper", None, "cid-9", "ReadTimeout: no answer in 10 s"),
    EntryOutcome(ident(10), "not_sent", "paper", None, "cid-10", "HTTP 429: too many requests"),
    EntryOutcome(ident(3), "refused", "paper", None, "cid-3", "stale: 95m old, limit 15m"),
    EntryOutcome(ident(2), "superseded", "paper", None, "cid-2", f"by {ident(8)}"),
)

UNSENT = tuple(
    EntryOutcome(ident(n), "skipped", "paper", None, f"cid-{n}", "stopped: nothing was sent") for n in range(10, 16)
)
SCOPE = RunScope(
    going=tuple(map(ident, range(5, 16))),
    beneath=(ident(2),),
    held=(ident(3),),
    chosen=Selection(tuple((ident(n), (0, 0)) for n in (2, 3, *range(5, 16)))),
)


async def _no_work(_: object) -> tuple[EntryOutcome, ...]:
    raise AssertionError("it is shown, never started")


def batch(
    landed: int,
    *,
    over: bool = False,
    stopping: bool = False,
    kind: Kind = "replay",
    away: bool = False,
    waits: str = "",
    mode: str = "paper",
    rehearsal: bool = False,
) -> Play:
    """A run as it stood at one moment; no thread carries it."""

    async def play(pilot: Pilot[Any]) -> None:
        app = app_of(pilot)
        work = BackgroundRun(_no_work, ticks=lambda: 24.0)
        run = RunProgress(kind, mode, landed, work, ticks=lambda: 24.0, landed=list(LANDED[:landed]))
        run.over, run.stopping, run.ended = over, stopping, 24.0
        if kind == "replay":
            run.landed += UNSENT if over and stopping else ()
            ended = tuple(one.entry_id for one in run.landed if one.entry_id in SCOPE.going)
            run.scope = replace(SCOPE, rehearsal=rehearsal, going=ended if over else SCOPE.going)
        run.batch.handle.wait_for("alpaca main", Wait(9.0, waits) if waits else None)
        app.activity.take(run)
        app.update_header(running=None if over else run.word, waiting=app.activity.waiting)
        if not away:
            app.show_batch()
            await until(pilot, lambda: isinstance(app.screen, BatchScreen) and app.screen.is_mounted)
            await until(pilot, lambda: bool(run.entries))  # its rows name orders, which it reads after it opened
        await rested(pilot)

    return play


def header_state(**changes: Any) -> Play:
    async def play(pilot: Pilot[Any]) -> None:
        app_of(pilot).update_header(**changes)
        await rested(pilot)

    return play


async def back(pilot: Pilot[Any]) -> None:
    app_of(pilot).queue.tell_back()
    await rested(pilot)


async def three_came(pilot: Pilot[Any]) -> None:
    """The engine wrote, and the console noticed."""
    app = app_of(pilot)
    assert app.session is not None
    make_store(Path(app.session.setting.store.url), [order(n, minutes=0.2) for n in (40, 41, 42)])
    app.queue.changed()
    await until(pilot, lambda: app.queue.loader.fresh == 3)
    await rested(pilot)


async def broken(pilot: Pilot[Any]) -> None:
    app = app_of(pilot)
    assert app.session is not None

    async def verify() -> Verified:
        return Verified("", 4, "event 5 does not follow from event 4: it was changed")

    app.session.verify = verify  # type: ignore[method-assign]  # a store nobody could make by acting
    await press(pilot, "v")


async def failing_dismiss(pilot: Pilot[Any]) -> None:
    session = app_of(pilot).session
    assert session is not None

    async def dismiss(*_: Any, **__: Any) -> Done:
        raise ActRefused(
            "postgres db1/trading: the role ops may not create the console's tables; an owner runs:\n\n"
            "CREATE SCHEMA dlq_console;\nGRANT USAGE, CREATE ON SCHEMA dlq_console TO ops;"
        )

    session.triage.dismiss = dismiss  # type: ignore[method-assign]  # a role nobody has on SQLite


async def refused(_: StoreConfig) -> StoreSession:
    raise Unreachable("postgres db1/trading cannot be reached: is the server up, and are host and port right?")
