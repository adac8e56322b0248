"""Every state of the console a person could name, set up from fixed data: for snapshots and for the pictures.

Nothing here waits for time, a venue or a random number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from backends.records import Selection, Why
from backends.store import Claim, Intent, Result, Store, Unreachable
from console.config import Config, Limits, StoreConfig
from console.screens.batch import BatchScreen
from console.services.batch import Batch
from console.services.command import read_command
from console.services.guards import Facts, VenueFacts
from console.services.outcome import Ended
from console.services.plan import ReplayPlan, plan
from console.services.run import Run
from console.services.workplace import Mode, Workplace
from tests.stage import ANN, NOW, Stage, answer, app_of, ident, make_store, order, press, settled, twelve, until

Act = Callable[[Pilot[Any]], Awaitable[None]]
WAVE = ("accepted", "accepted", "rejected", "unknown", "not_sent")


@dataclass(frozen=True)
class Scene:
    name: str
    act: Act
    prepare: Callable[[Store], Awaitable[None]] | None = None
    entries: Callable[[], list[Any]] = twelve
    changes: tuple[tuple[str, Any], ...] = ()
    sizes: tuple[tuple[int, int], ...] = ((80, 24), (120, 40))

    async def stage(self, folder: Path) -> Stage:
        """In the working directory: its path is on the screen."""
        make_store(folder / "orders.db", self.entries())
        stage = Stage(Path("orders.db"), config=_config())
        for name, value in self.changes:
            setattr(stage, name, value)
        if stage.attaching is None:
            stage.attaching = lambda settings: _attach(stage, settings)
        if self.prepare is not None:
            store = await stage.open()
            await self.prepare(store)
            await store.aclose()
        return stage


def _config() -> Config:
    return Config(limits=Limits(max_notional=Decimal(5000)))


class Rehearsed(Workplace):
    """Plans without a venue, at the address a real one would have."""

    async def plan(self, selection: Selection, mode: Mode, overrides: frozenset[str] = frozenset()) -> ReplayPlan:
        found, _ = await self.triage.chosen(selection.ids)
        entries = [found[entry_id] for entry_id in selection.ids]
        host = "api.alpaca.markets" if mode == "live" else "paper-api.alpaca.markets"
        facts = Facts(
            mode=mode,
            at=NOW,
            limits=self.setting.config.limits,
            venues={"alpaca": VenueFacts("alpaca", host=host, rate_per_minute=200, has_lookup=True)},
            commands={entry.id: read_command(entry, venue=None) for entry in entries},
            states={entry.id: entry.state for entry in entries},
            overrides=overrides,
        )
        return plan(entries, facts)


async def _attach(stage: Stage, settings: StoreConfig) -> Workplace:
    made = await stage.attach(settings)
    return Rehearsed(made.setting, made.store)


def _why(number: int, reason: str, note: str | None = None) -> Why:
    return Why(at=NOW, operation=f"op-{number}", reason=reason, note=note)


async def _attempt(store: Store, number: int, outcome: Any, *, order_id: str | None = None, error: str = "") -> None:
    entry = await store.get(ident(number))
    assert entry is not None
    claim = await store.claim(entry.id, entry.version, ANN, 60.0)
    assert isinstance(claim, Claim)
    intent = Intent("paper", "alpaca", f"cid-{number}", b"{}", f"hash-{number}")
    await store.intend(claim, intent, ANN, _why(number, "replay"))
    result = Result(outcome, order_id, error or None)
    assert await store.conclude(claim, result, ANN, _why(number, "replay"))


async def _in_doubt(store: Store) -> None:
    await _attempt(store, 4, "unknown", error="ReadTimeout: no answer in 10 s")
    await _attempt(store, 7, "unknown", error="the answer broke off")


async def _told(store: Store) -> None:
    """An entry with a story: refused twice in different ways, dismissed and restored, with a note."""
    await _attempt(store, 11, "rejected", error="40310000: insufficient buying power")
    await _attempt(store, 11, "not_sent", error="HTTP 429, retry after 2 s")
    entry = await store.get(ident(11))
    assert entry is not None
    await store.dismiss(Selection.of([entry]), ANN, _why(20, "market-closed"))
    entry = await store.get(ident(11))
    assert entry is not None
    await store.restore(Selection.of([entry]), ANN, _why(21, "restored", "undo"))
    await store.note(ident(11), ANN, _why(22, "note", "asked the desk: wait for the open"))


async def _dismissed(store: Store) -> None:
    entries = [entry for n in (9, 10, 11) if (entry := await store.get(ident(n)))]
    await store.dismiss(Selection.of(entries), ANN, _why(1, "stale"))


async def _halted(store: Store) -> None:
    await store.halt(ANN, _why(1, "halt", "runaway strategy"))


def _broken() -> list[Any]:
    bad = order(3, minutes=3, action_json='{"quantity": 1, "quantity": 10}')
    big = order(5, minutes=2, quantity=900.0, price=180.0)
    return [order(1, minutes=41), order(2, minutes=4), bad, big]


def keys(*names: str) -> Act:
    async def act(pilot: Pilot[Any]) -> None:
        await press(pilot, *names)

    return act


def typing(*steps: tuple[tuple[str, ...], str]) -> Act:
    """Keys, then a text handed over with Enter; several times."""

    async def act(pilot: Pilot[Any]) -> None:
        for names, text in steps:
            await press(pilot, *names)
            if text:
                await answer(pilot, text)

    return act


def planned(*names: str, then: str = "") -> Act:
    async def act(pilot: Pilot[Any]) -> None:
        await press(pilot, *names)
        app = app_of(pilot)
        await until(pilot, lambda: getattr(app.screen, "_step", "") in ("answer", "stuck"))
        await settled(pilot)
        if then:
            await answer(pilot, then)

    return act


def _never(*_: Any) -> Any:
    raise AssertionError("a scene runs nothing")


def batch(*, over: bool) -> Act:
    async def act(pilot: Pilot[Any]) -> None:
        app = app_of(pilot)
        run = Run("replay", "paper", 12, Batch(_never), ticks=lambda: 0.0)
        run.began, run.ended, run.over = -21.0, 0.0, over
        words = WAVE if over else WAVE[:3]
        run.landed = [
            Ended(
                ident(n),
                words[n % len(words)],  # type: ignore[arg-type]  # words of WAVE
                "paper",
                f"order-{n}" if words[n % len(words)] == "accepted" else None,
                f"cid-{n}",
                None if words[n % len(words)] == "accepted" else "40310000: insufficient buying power",
            )
            for n in range(12 if over else 5)
        ]
        app.activity.run = run
        app.restand(running=None if over else run.word)
        await app.push_screen(BatchScreen())
        await settled(pilot)

    return act


async def _news(pilot: Pilot[Any]) -> None:
    app = app_of(pilot)
    await press(pilot, "j", "j")
    app.queue.feed.fresh = 14
    app.queue.table.seen = (9,)
    app.queue.table.refresh()
    app.queue.show_filter()
    await settled(pilot)


async def _lost(pilot: Pilot[Any]) -> None:
    app_of(pilot).restand(lost="sqlite orders.db: disk I/O error")
    await settled(pilot)


async def _busy_quit(pilot: Pilot[Any]) -> None:
    app = app_of(pilot)
    await batch(over=False)(pilot)
    await press(pilot, "q")
    assert app.screen


async def _palette(pilot: Pilot[Any]) -> None:
    await pilot.press("ctrl+p")
    await pilot.pause()
    await pilot.press(*"re")
    await until(pilot, lambda: len(app_of(pilot).screen.query("OptionList")) > 0)
    await pilot.pause(0.5)  # the palette gathers its hits for a while and says nothing when it is done


async def _refuse(_: StoreConfig) -> Workplace:
    raise Unreachable("postgres db1/trading does not answer: is the server up, and is the address right?")


async def _stuck(pilot: Pilot[Any]) -> None:
    app = app_of(pilot)
    await until(pilot, lambda: not app.standing.attaching)
    await settled(pilot)


LIVE = (("store", StoreConfig(name="prod-orders", url="orders.db", mode="live")),)
ATTACH = (("changes", {"store": None, "recent": ("/srv/bot/orders.db", "postgresql://ops@db2/desk")}),)
STORES = {
    "prod-orders": StoreConfig("prod-orders", "postgresql://ops@db1/trading", environment="live", mode="paper"),
    "research": StoreConfig("research", "/srv/research/dlq.db"),
}
nothing = keys()

SCENES = (
    Scene("empty", nothing, entries=list),
    Scene("loaded", nothing),
    Scene("filtered", typing((("slash",), "venue:alpaca age>8m !timeout"))),
    Scene("filter-typing", keys("slash", "a", "g", "e")),
    Scene("no-match", typing((("slash",), "nowhere"))),
    Scene("marked", keys("space", "space", "j", "space")),
    Scene("range", keys("j", "v", "j", "j", "j")),
    Scene("new-since", _news),
    Scene("in-doubt", nothing, prepare=_in_doubt),
    Scene("pane-history", keys("right_square_bracket", "right_square_bracket"), prepare=_told),
    Scene("entry-error", keys("enter"), prepare=_told),
    Scene("entry-order", keys("enter", "right_square_bracket"), prepare=_told),
    Scene("entry-history", keys("enter", "right_square_bracket", "right_square_bracket"), prepare=_told),
    Scene("entry-audit", keys("enter", "left_square_bracket", "left_square_bracket"), prepare=_told),
    Scene("entry-notes", keys("enter", "left_square_bracket"), prepare=_told),
    Scene("gate-dismiss", keys("space", "space", "D")),
    Scene("gate-dismiss-wrong", typing((("space", "space", "D", "6"), "3"))),
    Scene("gate-dismiss-other", keys("D", "9", "w", "h", "y")),
    Scene("gate-dismiss-live", keys("a", "D", "1"), changes=LIVE),
    Scene("dismissed", typing((("space", "space", "D", "1"), "2"))),
    Scene("gate-replay-paper", planned("a", "R")),
    Scene("gate-replay-live", planned("a", "R"), changes=LIVE),
    Scene("gate-replay-wrong", planned("a", "R", then="12"), changes=LIVE),
    Scene("gate-replay-blocked", planned("j", "R"), entries=_broken),
    Scene("gate-replay-mixed", planned("a", "R"), entries=_broken),
    Scene(
        "gate-replay-second",
        typing(
            (("a", "R"), ""),
        ),
        entries=_broken,
        changes=LIVE,
    ),
    Scene("gate-restore", typing((("slash",), "state:dismissed"), (("a", "U"), "")), prepare=_dismissed),
    Scene("gate-halt", keys("H")),
    Scene("gate-resume", keys("H"), prepare=_halted),
    Scene("gate-live", keys("m")),
    Scene("gate-reconcile", keys("C"), prepare=_in_doubt),
    Scene("gate-quit", _busy_quit),
    Scene("halted", nothing, prepare=_halted),
    Scene("live", nothing, changes=LIVE),
    Scene("batch-running", batch(over=False)),
    Scene("batch-report", batch(over=True)),
    Scene("groups", keys("f")),
    Scene("audit", keys("A"), prepare=_told),
    Scene("audit-verified", keys("A", "v"), prepare=_told),
    Scene("read-only", nothing, changes=(("read_only", True),)),
    Scene("read-only-help", keys("question_mark"), changes=(("read_only", True),)),
    Scene("store-lost", _lost),
    Scene("store-refused", _stuck, changes=(("attaching", _refuse),)),
    Scene("attach", nothing, changes=(*ATTACH, ("config", replace(_config(), stores=STORES)))),
    Scene("help", keys("question_mark")),
    Scene("palette", _palette),
    Scene("light", keys("space", "t"), prepare=_in_doubt),
    Scene("contrast", keys("space", "t", "t"), prepare=_in_doubt),
    Scene("too-small", keys("D"), sizes=((72, 20),)),
    Scene("tiny", nothing, sizes=((34, 8),)),
    Scene("wide", keys("j"), prepare=_in_doubt, sizes=((200, 60),)),
)
