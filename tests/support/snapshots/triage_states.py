"""The scenes of triage at scale: groups, search, alerts, health, with an index that is built on the spot."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from backends.index import BuildPace, IndexBuilder, IndexWriter
from console.render.line import plain
from console.screens.groups import GroupsScreen
from console.services.index.keeper import IndexJob, cache_of, labeller
from console.services.index.status import IndexStatus
from console.services.market.entry_value import worth_by
from console.services.stats.alerts import Alert
from tests.support.app import NOW, app_of, config, make_store, order, screen_text, settled, until
from tests.support.snapshots.play import filtered, header_state, keys, palette, rested, then, typed
from tests.support.snapshots.states import L, M, S, Scene

VIEWS = config(views={"kalshi-old": "venue:kalshi age>30m", "rate-limits": "429 !timeout"})
RAISED = (
    Alert("in-doubt", "1 entry is in doubt: the venue may hold the order; reconcile it", severe=True),
    Alert("depth", "1,204 open at alpaca, the limit is 100", "alpaca", brief="1,204 open at alpaca"),
    Alert("dominance", "62% of 1,300 open are of one kind: transient", "transient", brief="transient is 62%"),
)


async def insight_of(pilot: Pilot[Any]) -> IndexStatus:
    session = app_of(pilot).session
    assert session is not None
    return await session.index_status()


async def indexed(pilot: Pilot[Any]) -> None:
    """Built in this process, up to now."""
    session = app_of(pilot).session
    assert session is not None
    await IndexJob(session.store, lambda: NOW, folder=session.setting.cache).build()
    await (await insight_of(pilot)).look()


async def partly_indexed(pilot: Pilot[Any]) -> None:
    """As far as a build has got after its first page."""
    session = app_of(pilot).session
    assert session is not None
    cache = await cache_of(session.store, session.setting.cache)
    index_status = await insight_of(pilot)
    with cache.writing() as connection:
        loader = IndexBuilder(
            session.store,
            IndexWriter(connection),
            labeller(worth_by({})),
            now=lambda: NOW,
            pace=BuildPace(page=18, tick=0.0),
        )
        await loader.step()  # the newest page; the next would file all others
        loader.close()
    await index_status.look(kept=True)


async def watched_for_hours(pilot: Pilot[Any]) -> None:
    """The depth as it would have been seen, minute by minute."""
    session = app_of(pilot).session
    assert session is not None
    path = (await cache_of(session.store, session.setting.cache)).path
    last = int(NOW.timestamp()) // 60
    rows = [(last - at, max(0, 31 - at // 9 + (at % 50) // 6), int(at < 90), 40) for at in range(400)]
    venues = [(last - at, venue, depth) for at in range(1, 10) for venue, depth in (("alpaca", 9), ("kalshi", 9 + at))]
    with sqlite3.connect(path) as connection:
        connection.executemany("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?)", rows[::-1])
        named = "INSERT INTO venue_depth SELECT ?, n, ? FROM name WHERE text = ?"
        connection.executemany(named, [(at, depth, venue) for at, venue, depth in venues])
    connection.close()


async def looked(pilot: Pilot[Any]) -> None:
    """Every group was seen, then four more came, one of them of a kind of its own."""
    index_status, session = await insight_of(pilot), app_of(pilot).session
    assert session is not None
    view = await index_status.groups.view()
    await index_status.groups.looked(tuple(group.fingerprint for group in view.groups))
    more = [order(40, minutes=0.3), order(41, minutes=0.2), order(42, minutes=0.2, error="closed")]
    make_store(Path(session.setting.store.url), [*more, order(43, minutes=0.1, error="KeyError: 'strategy'")])
    await indexed(pilot)


async def hundreds(pilot: Pilot[Any]) -> None:
    """More than one step of a search covers, where a step has no time at all."""
    app = app_of(pilot)
    assert app.session is not None
    store = Path(app.session.setting.store.url)
    make_store(store, [order(n, minutes=0.5, error="funds" if n % 60 == 0 else "429") for n in range(100, 400)])
    (await insight_of(pilot)).budget = 0.0
    app.queue.changed()
    await rested(pilot)


async def written(pilot: Pilot[Any]) -> None:
    """The note has reached the ledger and come back."""
    app = app_of(pilot)
    await until(pilot, lambda: isinstance(app.screen, GroupsScreen) and "venue says" in screen_text(app))
    await rested(pilot)


async def found(pilot: Pilot[Any]) -> None:
    """What is typed has been searched for."""
    app = app_of(pilot)
    await until(pilot, lambda: "searched" in plain(app.queue.noticed))
    await settled(pilot)


async def reported(pilot: Pilot[Any]) -> None:
    """The shift report has been made."""
    await until(pilot, lambda: "Shift report: " in screen_text(app_of(pilot)))
    await settled(pilot)


def triage_scenes() -> list[Scene]:
    noted = then(keys("jN"), typed("venue says fixed by 16:00; replay then"), written)
    return [
        Scene("groups-indexed", then(indexed, looked, keys("f")), (S, M)),
        Scene("groups-marked", then(indexed, keys("f"), keys("ss  ")), (S, M, L)),
        Scene("groups-note", then(indexed, keys("f"), noted), (S, M)),
        Scene("groups-filtered", then(filtered("venue:kalshi"), keys("f")), (S,)),
        Scene("groups-indexing", then(partly_indexed, header_state(indexing=43), keys("f")), (S, M)),
        Scene("groups-dismiss", then(indexed, keys("f"), keys("D")), (S,)),
        Scene("groups-replay", then(indexed, keys("f"), keys("jR")), (S, M)),
        Scene("groups-read-only", then(keys("f")), (S,), stage={"read_only": True}),
        Scene("search-typing", then(keys("/buying"), found), (S, M)),
        Scene("search-partial", then(hundreds, keys("/buying"), found), (S, M)),
        Scene("search-absent", then(keys("/zebra"), found), (S,)),
        Scene("indexing", header_state(indexing=43), (S, M)),
        Scene("alerts", header_state(alerts=RAISED), (S, M)),
        Scene("alert-in-doubt", header_state(alerts=RAISED[:1]), (S,)),
        Scene("health", then(indexed, watched_for_hours, keys("i")), (S, M, L)),
        Scene("health-first", then(indexed, keys("i")), (S, M)),
        Scene("shift-report", then(indexed, keys("ir"), reported), (S, M)),
        Scene("health-below", then(indexed, watched_for_hours, keys("iG")), (S,)),
        Scene("health-no-index", keys("i"), (S,)),
        Scene("palette-view", palette("view"), (S,), stage={"config": VIEWS}),
    ]
