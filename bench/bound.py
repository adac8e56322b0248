"""Every bound that a bench holds the product to, once: the figure, what it is measured beside, how much at most.
Knows nothing of how it is measured; `docs/figures.md` and `python -m bench --list` are made of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Bound:
    figure: str
    most: float
    peer: str = ""  # what it is divided by, in the same run; none where the bound is a quantity
    unit: str = ""  # of a quantity

    @property
    def spelled(self) -> str:
        return f"{self.most:.3g} × {self.peer}" if self.peer else f"{self.most:g} {self.unit}".strip()


# By `bench.name`: the part before the dot is the module of bench/ that measures it.
BOUNDS: Final[dict[str, Bound]] = {
    "stores.page-sqlite": Bound("SQLite: a page of 200", 3, "the bare driver"),
    "stores.page-postgres": Bound("Postgres: a page of 200", 3, "the bare driver"),
    "stores.growth": Bound("a page of a large store", 1.5, "of 1,000 rows"),
    "stores.stream-memory": Bound("`list --json`: most memory, large store", 1.3, "of 1,000 rows"),
    "stores.audit": Bound("`audit verify`", 3, "bare sha256"),
    "stores.notice": Bound("a foreign write is noticed, slowest of 20", 250, unit="ms"),
    "stores.notice-polling": Bound("a foreign write is noticed by polling, slowest of 20", 500, unit="ms"),
    "bulk.dismiss": Bound("dismiss half the rows with evidence, nobody else writes", 1.5, "one raw UPDATE"),
    "bulk.engine-failures": Bound("failed writes of that engine", 0),
    "bulk.engine-wait": Bound("p99 of that engine's writes", 250, unit="ms"),
    "layouts.list": Bound("`dlq list`", 1.25, "the same on orders"),
    "layouts.page": Bound("a page of 200 messages or calls", 3, "the bare driver"),
    "layouts.counts": Bound("the counts", 1, "1 s a million rows, at least 0.2 s"),
    "filters.page": Bound("a page that an index can answer", 1.5, "bare SQL"),
    "filters.told": Bound("how far it looked is told", 300, unit="ms"),
    "filters.newest": Bound("matches among the newest 10,000", 1000, unit="ms"),
    "replay.batch": Bound("100 accepted orders, looked up, no rate limit", 1, unit="s"),
    "replay.outside": Bound("share of time outside store and venue", 20, unit="%"),
    "replay.rate": Bound("time over what a rate limit allows", 5, unit="%"),
    "replay.plan": Bound("a large plan", 1.5, "ten of a tenth"),
    "replay.looks": Bound("plan of 50 orders in 10 markets", 1, "1.5 plans + a look each"),
    "index.build": Bound("the index built: the clock", 1 / 3, "version 0.1"),
    "index.build-cpu": Bound("the index built: processor time", 1 / 3, "version 0.1"),
    "index.groups": Bound("its groups complete: the clock", 1 / 4, "version 0.1, whole"),
    "index.first": Bound("its first groups: the clock", 0.1, "version 0.1, whole"),
    "index.memory": Bound("memory of the keeper, at its largest", 70, unit="MB"),
    "index.night": Bound("catching up with 50,000 new and 10,000 acts: processor time", 10, unit="s"),
    "index.night-clock": Bound("catching up with 50,000 new and 10,000 acts: the clock", 10, unit="s"),
    "triage.engine-failures": Bound("failed writes of an engine beside the keeper", 0),
    "triage.upkeep": Bound("the keeper's share of a core at 50 rows a second", 5, unit="%"),
    "triage.groups": Bound("first view of the groups, median of 7", 100, unit="ms"),
    "triage.groups-share": Bound("first view of the groups of a million", 0.01, "counted from the entries"),
    "triage.search": Bound("search, p95", 100, unit="ms"),
    "verbs.list": Bound("`dlq list --limit 5`", 1.3, "bare imports"),
    "verbs.judge": Bound("group and category of an error", 1 / 8, "version 0.1"),
    "verbs.judge-other": Bound("runs that judged into other groups than version 0.1", 0),
    "verbs.check": Bound("`dlq check` without an index", 0.25, "version 0.1"),
    "verbs.metrics": Bound("`dlq metrics` without an index", 0.25, "version 0.1"),
    "verbs.groups": Bound("`dlq groups` without an index", 0.5, "version 0.1"),
    "verbs.report": Bound("`dlq report` without an index", 0.5, "version 0.1"),
    "verbs.memory": Bound("most memory of these verbs", 150, unit="MB"),
    "verbs.indexed": Bound("with an index, beyond start-up", 0.3, unit="s"),
    "screen.first-row": Bound("exec → first row", 1, "an empty Textual app"),
    "screen.first-row-shapes": Bound("exec → first row, other shapes of store", 1.5, "an empty Textual app"),
    "screen.first-row-peer": Bound("exec → first row", 0.8, "VisiData"),
    "screen.first-row-growth": Bound("exec → first row", 1.1, "of 1,000 rows"),
    "screen.keys": Bound("a key → last paint, median", 0.4, "VisiData"),
    "screen.busy": Bound("a key → paint in a batch, beside an engine, p99", 50, unit="ms"),
    "screen.busy-idle": Bound("batches that sent nothing meanwhile", 0),
    "screen.indexing": Bound("a key → paint while the index is built, p99", 50, unit="ms"),
    "screen.memory-growth": Bound("resident memory", 1.15, "of 1,000 rows"),
    "screen.memory": Bound("resident memory", 2.5, "an empty Textual app"),
    "screen.idle": Bound("idle: processor time a second", 5, unit="ms"),
    "screen.idle-bytes": Bound("idle: bytes to the terminal", 0, unit="B"),
    "sink.import": Bound("`python -c 'import dlq_sink'`", 1.5, "import sqlite3"),
    "sink.witness": Bound("witness of one order", 1.3, "one synced commit"),
    "sink.failures": Bound("failed writes beside a busy console", 0),
    "sink.console-failures": Bound("what that console failed to do", 0),
    "sink.p90": Bound("SQLite: p90 of a write beside a busy console", 1.5, "alone"),
    "sink.longest": Bound("SQLite: the longest write beside a busy console", 50, "one synced commit"),
    "sink.p99": Bound("Postgres: p99 of a write beside a busy console", 1.5, "alone"),
}
BENCHES: Final = tuple(dict.fromkeys(key.partition(".")[0] for key in BOUNDS))
# A share of a time that grows with the store says nothing on a small one.
SMALLEST: Final = {"triage.groups-share": 1_000_000}


def of_bench(name: str) -> tuple[str, ...]:
    return tuple(key for key in BOUNDS if key.startswith(f"{name}."))


def page() -> str:
    """The table of docs/figures.md."""
    rows = [f"| {one.figure} | {one.spelled} | `bench.{key.partition('.')[0]}` |" for key, one in BOUNDS.items()]
    return "\n".join(["| figure | at most | measured by |", "|---|---|---|", *rows])
