"""Screen states that are kept neither as picture nor as text, at every size: legible all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.snapshots import legible
from tests.support.snapshots.play import batch, filtered, keys, rested, then, typed
from tests.support.snapshots.states import BIG, LIVE, S, Scene, mark3
from tests.support.snapshots.states import TWO as OVER
from tests.support.snapshots.triage_states import VIEWS, indexed, reported

ASKED = then(keys("jR"), typed("live 1"), keys("<escape>P"))
BULK = then(mark3, keys("D6"), typed("3"))
FEW = LIVE | {"config": OVER}
STATES = [
    Scene("export", keys("x")),
    Scene("audit-export", keys("Ax")),
    Scene("replay-row", then(mark3, keys("R<up><enter>"))),
    Scene("replay-override-note", keys("jR<ctrl+o>notional<enter>"), data="small", stage={"config": BIG}),
    Scene("approvals", ASKED, data="small", stage=FEW),
    Scene("approvals-gate", then(ASKED, keys("<enter>")), data="small", stage=FEW),
    Scene("event-entries", then(BULK, keys("A<enter>"))),
    Scene("help-end", keys("?G")),
    Scene("help-live", keys("?"), stage=LIVE),
    Scene("groups-live", keys("f"), stage=LIVE),
    Scene("groups-note-gate", keys("fN")),
    Scene("health-live", then(indexed, keys("i")), stage=LIVE),
    Scene("shift-report-end", then(indexed, keys("ir"), reported, keys("G"))),
    Scene("report-row", then(batch(8, over=True), keys("<enter>"))),
    Scene("report-live-reconcile", batch(5, over=True, kind="reconcile", mode="live"), stage=LIVE),
    Scene("settle-live", keys("S"), stage=LIVE),
    Scene("restored", then(filtered("state:dismissed"), keys("U"), typed("1"))),
    Scene("command-view", then(keys(":"), typed("view nope")), stage={"config": VIEWS}),
    Scene("command-sort", then(keys(":"), typed("sort nope"))),
    Scene("stores", keys("o")),
    Scene("wrong-id", then(keys(":"), typed("open dlq_nope"))),
]


@pytest.mark.parametrize("scene", STATES, ids=lambda scene: scene.name)
def test_every_state_is_legible_at_every_size(
    scene: Scene, store: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = legible.Wrong()

    async def play(pilot: object) -> None:
        await then(rested, scene.play, wrong.look())(pilot)  # type: ignore[arg-type]
        app.exit()

    app = scene.console(store(scene.data)).console()
    app.run(headless=True, auto_pilot=play, size=S)
    assert not wrong.found, wrong.found
