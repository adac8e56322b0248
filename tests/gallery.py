"""Every state a person could name, each as a store, a stage and the keys that lead there. Renders nothing itself."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from textual.pilot import Pilot
from textual.widgets import Input

from backends.store import Unreachable
from console.config import Limits, StoreConfig
from console.screens.batch import BatchScreen
from console.services.batch import Batch
from console.services.outcome import Ended
from console.services.run import Kind, Run
from console.services.workplace import Verified, Workplace
from tests.scene import StillStage
from tests.stage import answer, app_of, config, ident, make_store, order, press, settled, until

Size = tuple[int, int]
Data = Literal["shift", "small", "empty"]
Play = Callable[[Pilot[Any]], Awaitable[None]]
S, M, L = (80, 24), (120, 40), (200, 60)
_KEY = re.compile(r"<[a-z+_]+>|.")
_NAMES = {
    "[": "left_square_bracket", "]": "right_square_bracket", "/": "slash", ":": "colon", "?": "question_mark",
    "!": "exclamation_mark", " ": "space", ">": "greater_than_sign", "-": "minus",
}  # fmt: skip


@dataclass(frozen=True)
class Scene:
    name: str
    play: Play
    sizes: tuple[Size, ...] = (S,)
    data: Data = "shift"
    stage: Mapping[str, Any] = field(default_factory=dict)

    def console(self, path: Path) -> StillStage:
        return StillStage(path, **self.stage)


def keys(text: str) -> Play:
    """`<enter>` and the like by name, everything else as it is typed."""

    async def play(pilot: Pilot[Any]) -> None:
        for token in _KEY.findall(text):
            key = token[1:-1] if len(token) > 1 else _NAMES.get(token, token)
            await pilot.press(key)
            await settled(pilot)
        await rested(pilot)

    return play


async def rested(pilot: Pilot[Any]) -> None:
    """The pane has read the entry under the cursor, which it does a moment after the cursor rests."""
    app = app_of(pilot)

    def is_read() -> bool:
        row, shown = app.queue.table.row, app.queue.pane.shown
        if app.place is None or row is None:
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
    Ended(ident(5), "accepted", "paper", "61e69015-8549-4bfd", "cid-5"),
    Ended(ident(6), "accepted", "paper", "7a1c02de-0d3e-4b17", "cid-6"),
    Ended(ident(7), "rejected", "paper", None, "cid-7", "HTTP 403: insufficient buying power"),
    Ended(ident(8), "accepted", "paper", "b2f40c9a-77d1-4e02", "cid-8"),
    Ended(ident(9), "unknown", "paper", None, "cid-9", "ReadTimeout: no answer in 10 s"),
    Ended(ident(10), "not_sent", "paper", None, "cid-10", "HTTP 429: too many requests"),
    Ended(ident(3), "refused", "paper", None, "cid-3", "stale: 95m old, limit 15m"),
    Ended(ident(2), "superseded", "paper", None, "cid-2", f"by {ident(8)}"),
)


async def _no_work(_: object) -> tuple[Ended, ...]:
    raise AssertionError("it is shown, never started")


def batch(
    landed: int, *, over: bool = False, stopping: bool = False, kind: Kind = "replay", away: bool = False
) -> Play:
    """A run as it stood at one moment; no thread carries it."""

    async def play(pilot: Pilot[Any]) -> None:
        app = app_of(pilot)
        run = Run(kind, "paper", 12, Batch(_no_work), ticks=lambda: 24.0, landed=list(LANDED[:landed]))
        run.over, run.stopping, run.ended = over, stopping, 24.0
        app.activity.run = run
        app.restand(running=None if over else run.word)
        if not away:
            app.show_batch()
            await until(pilot, lambda: isinstance(app.screen, BatchScreen) and app.screen.is_mounted)
            assert isinstance(app.screen, BatchScreen)
            app.screen.landed()
        await rested(pilot)

    return play


def standing(**changes: Any) -> Play:
    async def play(pilot: Pilot[Any]) -> None:
        app_of(pilot).restand(**changes)
        await rested(pilot)

    return play


async def back(pilot: Pilot[Any]) -> None:
    app_of(pilot).queue.tell_back()
    await rested(pilot)


async def three_came(pilot: Pilot[Any]) -> None:
    """The engine wrote, and the console noticed."""
    app = app_of(pilot)
    assert app.place is not None
    make_store(Path(app.place.setting.store.url), [order(n, minutes=0.2) for n in (40, 41, 42)])
    app.queue.changed()
    await until(pilot, lambda: app.queue.feed.fresh == 3)
    await rested(pilot)


async def broken(pilot: Pilot[Any]) -> None:
    app = app_of(pilot)
    assert app.place is not None

    async def verify() -> Verified:
        return Verified("", 4, "event 5 does not follow from event 4: it was changed")

    app.place.verify = verify  # type: ignore[method-assign]  # a store nobody could make by acting
    await press(pilot, "v")


async def refused(_: StoreConfig) -> Workplace:
    raise Unreachable("postgres db1/trading cannot be reached: is the server up, and are host and port right?")


STORES = {
    "prod-orders": StoreConfig("prod-orders", "postgresql://ops:hunter2@db1/trading", environment="live", mode="paper"),
    "staging": StoreConfig("staging", "postgresql://ops@db2/staging"),
    "research": StoreConfig("research", "/srv/research/orders.db"),
}
ATTACH = {"config": config(stores=STORES), "changes": {"store": None, "recent": ("/srv/lately/orders.db",)}}
BIG = config(limits=Limits(max_notional=Decimal(1000)))
TWO = config(limits=Limits(four_eyes_over=Decimal(1000)))
LIVE = {"mode": "live"}
nothing = keys("")
mark3 = keys("jjj   ")
tab = keys("<enter>")


def scenes() -> list[Scene]:
    return [*queue_scenes(), *entry_scenes(), *gate_scenes(), *replay_scenes(), *other_scenes()]


def queue_scenes() -> list[Scene]:
    return [
        Scene("empty", nothing, (S, M), "empty"),
        Scene("queue", keys("jj"), (S, M, L)),
        Scene("in-doubt-on-top", nothing, (S,)),
        Scene("filter-typing", keys("/venue:kal")),
        Scene("filtered", filtered("venue:kalshi age>30m"), (S, M)),
        Scene("filter-wrong", filtered("age>zebra")),
        Scene("nothing-matches", filtered("zebra")),
        Scene("settled-ones", filtered("state:dismissed,replayed")),
        Scene("marked", mark3, (S, M)),
        Scene("range", keys("jvjj")),
        Scene("all-marked", keys("a")),
        Scene("oldest-first", keys("s")),
        Scene("new-since-you-looked", then(keys("jj"), three_came), (S,)),
        Scene("pane-chosen", keys("j<tab>]")),
        Scene("command", keys(":them")),
        Scene("command-unknown", then(keys(":"), typed("frobnicate"))),
        Scene("read-only", keys("jj"), (S, M), stage={"read_only": True}),
        Scene("live", keys("jj"), (S, M), stage=LIVE),
        Scene("halted", then(keys("H"), typed("runaway strategy"))),
        Scene("store-lost", standing(lost="postgres db1/trading ended the connection or is not ready"), (S,)),
        Scene("store-back", back),
        Scene("too-small", keys("j"), ((60, 18), (40, 10))),
        Scene("too-small-to-act", keys("jD"), ((79, 24),)),
        Scene("light", keys("jjt"), (S, M)),
        Scene("contrast", keys("jjtt"), (S,)),
    ]


def entry_scenes() -> list[Scene]:
    return [
        Scene("entry-error", tab, (S, M)),
        Scene("entry-order", then(tab, keys("]")), (S, M)),
        Scene("entry-history", then(tab, keys("]]")), (S, M)),
        Scene("entry-audit", then(tab, keys("]]]"))),
        Scene("entry-notes", then(tab, keys("]]]]"))),
        Scene("entry-mismatch", keys("<enter>]"), data="small"),
        Scene("entry-live", keys("jj<enter>"), stage=LIVE),
        Scene("entry-read-only", keys("jj<enter>"), stage={"read_only": True}),
    ]


def gate_scenes() -> list[Scene]:
    return [
        Scene("dismiss-unseen", keys("jjD"), stage={"changes": {"dead_seconds": 3600.0}}),
        Scene("dismiss-reason", then(mark3, keys("D")), (S, M)),
        Scene("dismiss-note", then(mark3, keys("D9not our order"))),
        Scene("dismiss-count", then(mark3, keys("D6"))),
        Scene("dismiss-wrong", then(mark3, keys("D6"), typed("4"))),
        Scene("dismiss-live", then(mark3, keys("D6")), stage=LIVE),
        Scene("dismiss-left-out", then(keys("aD"))),
        Scene("dismissed", then(mark3, keys("D6"), typed("3"))),
        Scene("undone", then(mark3, keys("D6"), typed("3"), keys("z"))),
        Scene("restore", then(filtered("state:dismissed"), keys("U"))),
        Scene("halt", keys("Hrunaway")),
        Scene("resume", then(keys("H"), typed("runaway strategy"), keys("H"))),
        Scene("live-mode", keys("mli")),
        Scene("note", keys("jjNasked the desk")),
        Scene("approve", keys("P")),
        Scene("reconcile", keys("C"), (S,)),
    ]


def replay_scenes() -> list[Scene]:
    return [
        Scene("replay-paper", then(mark3, keys("R")), (S, M, L)),
        Scene("replay-live", then(mark3, keys("R")), (S, M), stage=LIVE),
        Scene("replay-wrong", then(mark3, keys("R"), typed("live 3"))),
        Scene("replay-rehearsal", then(mark3, keys("R")), stage={"environment": "live"}),
        Scene("replay-blocked", keys("aR"), (S, M), "small"),
        Scene("replay-many", keys("aR"), (S,)),
        Scene("replay-nothing", keys("R"), data="small"),
        Scene("replay-override", keys("jR<ctrl+o>notional"), data="small", stage={"config": BIG}),
        Scene("replay-second-person", then(keys("jR"), typed("live 1")), (S,), "small", LIVE | {"config": TWO}),
        Scene("batch-running", batch(5), (S, M)),
        Scene("batch-stopping", batch(5, stopping=True)),
        Scene("batch-away", batch(5, away=True)),
        Scene("batch-report", batch(8, over=True), (S, M)),
        Scene("quit-while-running", then(batch(5), keys("q"))),
    ]


def other_scenes() -> list[Scene]:
    return [
        Scene("attach", nothing, (S, M), stage=ATTACH),
        Scene("attach-typing", keys("G<enter>postgresql:"), stage=ATTACH),
        Scene("attach-refused", nothing, (S,), stage={"config": config(stores=STORES), "attaching": refused}),
        Scene("help", keys("?"), (S, M)),
        Scene("help-read-only", keys("?"), stage={"read_only": True}),
        Scene("palette", palette(), (S, M)),
        Scene("palette-search", palette("rep")),
        Scene("groups", keys("f"), (S, M)),
        Scene("audit", keys("A"), (S, M)),
        Scene("audit-verified", keys("Av"), (S,)),
        Scene("audit-broken", then(keys("A"), broken)),
        Scene("audit-empty", keys("A"), data="empty"),
    ]
