"""Every state a person could name, each as a store, a stage and the keys that lead there. Renders nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from console.services.store_glance import StoreGlance
from console.settings.config import Limits, StoreConfig
from tests.support.app import config
from tests.support.snapshots.order_store import StillStage
from tests.support.snapshots.play import (
    Play,
    back,
    batch,
    broken,
    failing_dismiss,
    filtered,
    header_state,
    keys,
    palette,
    refused,
    then,
    three_came,
    typed,
)

Size = tuple[int, int]
Data = Literal["shift", "small", "outage", "empty"]
S, M, L = (80, 24), (120, 40), (200, 60)


@dataclass(frozen=True)
class Scene:
    name: str
    play: Play
    sizes: tuple[Size, ...] = (S,)
    data: Data = "shift"
    stage: Mapping[str, Any] = field(default_factory=dict)
    no_color: bool = False

    def console(self, path: Path) -> StillStage:
        return StillStage(path, **self.stage)


STORES = {
    "prod-orders": StoreConfig("prod-orders", "postgresql://ops:hunter2@db1/trading", environment="live", mode="paper"),
    "staging": StoreConfig("staging", "postgresql://ops@db2/staging"),
    "research": StoreConfig("research", "/srv/research/orders.db"),
}
SEEN = {
    "prod-orders": StoreGlance(1204, 2),
    "staging": StoreGlance(problem="no answer in 4 s"),
    "research": StoreGlance(31, None),
}


async def _seen(store: StoreConfig) -> StoreGlance:
    return SEEN[store.name]


_CONFIG = "/home/ops/.config/dlq-console/config.toml"
ATTACH = {
    "config": config(stores=STORES),
    "changes": {"store": None, "recent": ("/srv/lately/orders.db",), "glance": _seen, "config_path": (_CONFIG, True)},
}
FIRST_RUN = {"changes": {"store": None, "offers_demo": True, "config_path": (_CONFIG, False)}}
BIG = config(limits=Limits(max_notional=Decimal(1000)))
TWO = config(limits=Limits(four_eyes_over=Decimal(1000)))
LIVE = {"mode": "live"}
nothing = keys("")
mark3 = keys("jjj   ")
tab = keys("<enter>")


def scenes() -> list[Scene]:
    from tests.support.snapshots.triage_states import triage_scenes

    return [
        *queue_scenes(), *entry_scenes(), *gate_scenes(), *replay_scenes(), *other_scenes(), *triage_scenes()
    ]  # fmt: skip


def queue_scenes() -> list[Scene]:
    return [
        Scene("empty", nothing, (S, M), "empty"),
        Scene("queue", keys("jj"), (S, M, L)),
        Scene("outage", keys("jjj"), (S, M, L), "outage"),
        Scene("by-value", keys("ss"), (S, M), "outage"),
        Scene("live-wide", keys("jj"), (L,), stage=LIVE),
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
        Scene("store-lost", header_state(lost="postgres db1/trading ended the connection or is not ready"), (S,)),
        Scene("store-back", back),
        Scene("too-small", keys("j"), ((60, 18), (40, 10))),
        Scene("too-small-to-act", keys("jD"), ((79, 24),)),
        Scene("light", keys("jjt"), (S, M)),
        Scene("contrast", keys("jjtt"), (S,)),
        Scene("no-color", mark3, (S, M), no_color=True),
        Scene("unknown-field", filtered("error:timeout")),
    ]


def entry_scenes() -> list[Scene]:
    return [
        Scene("entry-error", tab, (S, M)),
        Scene("entry-order", then(tab, keys("]")), (S, M)),
        Scene("entry-history", then(tab, keys("]]")), (S, M)),
        Scene("entry-audit", then(tab, keys("]]]"))),
        Scene("entry-notes", then(tab, keys("]]]]"))),
        Scene("entry-wide", keys("jjj<enter>"), (S, M, L), "outage"),
        Scene("entry-dismissed", then(filtered("state:dismissed"), keys("<enter>")), (S, M)),
        Scene("entry-replayed", then(filtered("state:replayed"), keys("<enter>")), (S, M)),
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
        Scene("reconcile", batch(5, over=True, kind="reconcile"), (S,)),
        Scene("ask", keys("jjC"), (S, M)),
        Scene("ask-several", then(keys("jjj     "), keys("C")), (S, M)),
        Scene("settle", keys("S"), (S, M)),
        Scene("settle-word", then(keys("S1"), typed("61e69015-8549-4bfd"), typed("seen on the broker's page")), (S, M)),
        Scene("settle-otherwise", then(keys("S2"), typed("the desk has no such order"), typed("settle"))),
        Scene("settle-second-person", then(keys("S1<enter>"), typed("seen on the broker's page"), typed("settle"))),
        Scene("settle-nothing", keys("S"), data="small"),
        Scene("dismiss-light", then(mark3, keys("tD6")), (S, M)),
        Scene("dismiss-contrast", then(mark3, keys("ttD6")), (S, M)),
        Scene("dismiss-no-color", then(mark3, keys("D6")), (S, M), no_color=True),
        Scene("dismiss-failed", then(mark3, failing_dismiss, keys("D6"), typed("3")), (S, M)),
    ]


def replay_scenes() -> list[Scene]:
    return [
        Scene("replay-paper", then(mark3, keys("R")), (S, M, L)),
        Scene("replay-live", then(mark3, keys("R")), (S, M), stage=LIVE),
        Scene("replay-live-light", then(mark3, keys("tR")), (S, M), stage=LIVE),
        Scene("replay-live-contrast", then(mark3, keys("ttR")), (S, M), stage=LIVE),
        Scene("replay-live-no-color", then(mark3, keys("R")), (S, M), stage=LIVE, no_color=True),
        Scene("replay-wrong", then(mark3, keys("R"), typed("live 3"))),
        Scene("replay-rehearsal", then(mark3, keys("R")), stage={"environment": "live"}),
        Scene("replay-blocked", keys("aR"), (S, M), "small"),
        Scene("replay-many", keys("aR"), (S,)),
        Scene("replay-nothing", keys("R"), data="small"),
        Scene("replay-override", keys("jR<ctrl+o>notional"), data="small", stage={"config": BIG}),
        Scene("replay-second-person", then(keys("jR"), typed("live 1")), (S,), "small", LIVE | {"config": TWO}),
        Scene("batch-running", batch(5), (S, M)),
        Scene("batch-stopping", batch(5, stopping=True)),
        Scene("batch-waiting", batch(5, waits="it asked to slow down"), (S, M)),
        Scene("batch-away", batch(5, away=True)),
        Scene("batch-report", batch(8, over=True), (S, M)),
        Scene("batch-stopped", batch(5, over=True, stopping=True), (S, M, L)),
        Scene("batch-live", then(keys("m"), typed("live"), batch(5, over=True, stopping=True, mode="live")), (S, M)),
        Scene("batch-rehearsal", batch(4, over=True, rehearsal=True)),
        Scene("quit-while-running", then(batch(5), keys("q"))),
    ]


def other_scenes() -> list[Scene]:
    return [
        Scene("first-run", nothing, (S, M), stage=FIRST_RUN),
        Scene("attach", nothing, (S, M), stage=ATTACH),
        Scene("attach-typing", keys("G<enter>postgresql:"), stage=ATTACH),
        Scene("attach-refused", nothing, (S,), stage={"config": config(stores=STORES), "attaching": refused}),
        Scene("help", keys("?"), (S, M, L)),
        Scene("help-read-only", keys("?"), stage={"read_only": True}),
        Scene("palette", palette(), (S, M)),
        Scene("palette-search", palette("rep")),
        Scene("groups", keys("f"), (S, M)),
        Scene("audit", keys("A"), (S, M, L)),
        Scene("audit-filtered", then(keys("A/"), typed("operator:bob kind:dismiss,note")), (S, M)),
        Scene("audit-filter-wrong", then(keys("A/"), typed("oparator:bob"))),
        Scene("audit-live", then(keys("m"), typed("live"), keys("Ajjj"))),
        Scene("audit-verified", keys("Av"), (S,)),
        Scene("audit-broken", then(keys("A"), broken)),
        Scene("audit-empty", keys("A"), data="empty"),
    ]
