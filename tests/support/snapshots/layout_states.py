"""Scenes of stores whose entries are no orders, each as a layout, a stage and the keys that lead there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from console.screens.batch import BatchScreen
from console.services.replay.background_run import BackgroundRun, RunProgress
from console.services.replay.outcome import EntryOutcome
from tests.support.app import app_of, until
from tests.support.integration import entry_id
from tests.support.snapshots.layout_stores import LayoutStage, fill_integration, fill_outbox
from tests.support.snapshots.play import Play, filtered, keys, rested, then, typed
from tests.support.snapshots.states import M, S, Size

Fill = Callable[[str], Awaitable[None]]
BOTH = (S, M)
DELETES = {"options": {"on_success": "delete", "on_dismiss": "delete"}}


@dataclass(frozen=True)
class LayoutScene:
    name: str
    fill: Fill
    play: Play
    sizes: tuple[Size, ...] = BOTH
    stage: Mapping[str, Any] = field(default_factory=dict)

    def console(self, target: str) -> LayoutStage:
        return LayoutStage(Path("unused"), target=target, **({"name": "prod-events"} | dict(self.stage)))


SENT = (
    EntryOutcome("9", "accepted", None, "18", "c-9", "in outbox for orders"),
    EntryOutcome("8", "accepted", None, "19", "c-8", "in outbox for orders"),
    EntryOutcome("5", "refused", None, detail="conflict: a live row of the outbox has this queue and timer_id"),
)
CALLED = (
    EntryOutcome(entry_id(7), "accepted", None, None, "0f8fad5b", "HTTP 200 after 1 try"),
    EntryOutcome(entry_id(5), "rejected", None, None, "7c9e6679", "HTTP 400: card expired"),
    EntryOutcome(entry_id(3), "not_sent", None, None, "3f333df6", "HTTP 429, retry after 30 s"),
    EntryOutcome(entry_id(1), "skipped", None, detail="breaker open: nothing was sent"),
)


async def _no_work(_: object) -> tuple[EntryOutcome, ...]:
    raise AssertionError("it is shown, never started")


def report(landed: tuple[EntryOutcome, ...]) -> Play:
    """A batch as it had ended; no thread carries it."""

    async def play(pilot: Pilot[Any]) -> None:
        app = app_of(pilot)
        run = RunProgress(
            "replay", "real", len(landed), BackgroundRun(_no_work), ticks=lambda: 2.0, landed=list(landed)
        )
        run.over, run.ended, run.store = True, 2.0, app.header_state.store
        app.activity.take(run)
        app.show_batch()
        await until(pilot, lambda: isinstance(app.screen, BatchScreen) and app.screen.is_mounted)
        assert isinstance(app.screen, BatchScreen)
        app.screen.header_changed()
        await rested(pilot)

    return play


def scenes() -> list[LayoutScene]:
    return [*_outbox(), *_integration()]


def _outbox() -> list[LayoutScene]:
    return [
        LayoutScene("outbox", fill_outbox, keys("j")),
        LayoutScene("outbox-settled", fill_outbox, filtered("state:dismissed,replayed"), (S,)),
        LayoutScene("outbox-error", fill_outbox, keys("<enter>")),
        LayoutScene("outbox-payload", fill_outbox, keys("jj<enter>]")),
        LayoutScene("outbox-hex", fill_outbox, keys("jjjj<enter>]"), (S,)),
        LayoutScene("outbox-headers", fill_outbox, keys("<enter>]]")),
        LayoutScene("outbox-history", fill_outbox, then(filtered("state:replayed"), keys("<enter>]]]")), (S,)),
        LayoutScene("outbox-gate", fill_outbox, keys("aR")),
        LayoutScene("outbox-gate-live", fill_outbox, keys("aR"), (S,), {"mode": "live"}),
        LayoutScene("outbox-wrong", fill_outbox, then(keys("aR"), typed("6")), (S,)),
        LayoutScene("outbox-dismiss", fill_outbox, keys("D"), (S,)),
        LayoutScene("outbox-groups", fill_outbox, keys("f"), (M,)),
        LayoutScene("outbox-report", fill_outbox, report(SENT)),
        LayoutScene("outbox-mode", fill_outbox, keys("mli"), (S,)),
        LayoutScene("outbox-read-only", fill_outbox, keys("j"), (S,), {"read_only": True}),
    ]


def _integration() -> list[LayoutScene]:
    return [
        LayoutScene("integration", fill_integration, keys("j")),
        LayoutScene("integration-provider", fill_integration, filtered("provider:prov-1"), (S,)),
        LayoutScene("integration-error", fill_integration, keys("j<enter>")),
        LayoutScene("integration-request", fill_integration, keys("j<enter>]")),
        LayoutScene("integration-history", fill_integration, keys("jjj<enter>]]"), (S,)),
        LayoutScene("integration-gate", fill_integration, keys("aR")),
        LayoutScene("integration-gate-deletes", fill_integration, keys("aR"), (S,), DELETES),
        LayoutScene("integration-dismiss", fill_integration, keys("aD"), (S,)),
        LayoutScene("integration-dismiss-deletes", fill_integration, keys("jD"), (S,), DELETES),
        LayoutScene("integration-groups", fill_integration, keys("f")),
        LayoutScene("integration-help", fill_integration, keys("?"), (M,)),
        LayoutScene("integration-settle", fill_integration, keys("S"), (S,)),
        LayoutScene("integration-report", fill_integration, report(CALLED)),
    ]
