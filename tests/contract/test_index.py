"""The index against its store, on both engines: whatever happens to either, the summary equals a recount."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from backends.index import BuildPace, Cache, IndexBuilder, IndexUnavailable, IndexWriter, Reader
from backends.index.rows import IndexedEntry, Label, spell, unspell
from backends.index.writer import IndexBatch
from backends.layouts.roles import roles
from backends.records import Selection
from backends.store import Result
from console.services.index.keeper import is_current, labeller
from console.services.stats import tally
from console.settings.config import Config
from tests.support.index import SMALL_STEPS, WORTH, Indexed, indexed, plain
from tests.support.store import ACTOR, BASE, PostgresRig, Rig, SQLiteRig, attempt_on, order_row, pick, sqlite_rig, why

ERRORS = (
    "RuntimeError: HTTP 429 after {n} attempts",
    "TimeoutError: no answer to {c} within {n} s",
    'APIError: {{"code":40310000,"message":"insufficient buying power","buying_power":"{n}"}}',
    "RiskRejected: order notional {n} exceeds the limit for account {a}",
    "ValueError: bad price {n}",
)
VENUES = ("alpaca", "kalshi", "binance")
SEEDS = min(40, int(os.environ.get("DLQ_EXAMPLES", "4")))  # `make faults` tries forty


def a_row(number: int, rng: random.Random) -> dict[str, object]:
    account = rng.choice(("main", "hedge", None))
    error = rng.choice(ERRORS).format(n=rng.randint(1, 9999), c=f"c-{number}", a=account)
    return order_row(
        number,
        captured_at=BASE + timedelta(seconds=number + rng.choice((0, 0, 0, -400, 9000))),
        venue_name=rng.choice(VENUES),
        account_id=account,
        market_id=rng.choice(("AAPL", "BTC/USDT", "KXBTC")),
        quantity=rng.choice((1.5, 0.1, 1e-12, 300.0)),
        price=rng.choice((None, 180.25, 0.1, 99999.99)),
        error=error,
        retry_count=rng.choice((0, 0, 1, 4)),
        dismissed=rng.random() < 0.15,
    )


@pytest.fixture(params=["sqlite", "postgresql"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made: Rig
    if request.param == "sqlite":
        made = sqlite_rig(tmp_path)
    else:
        made = PostgresRig(request.getfixturevalue("postgres_db"))
    yield made
    await made.aclose()


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SQLiteRig]:
    made = sqlite_rig(tmp_path)
    yield made
    await made.aclose()


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # type: ignore[misc]  # a coroutine function
            await asyncio.sleep(0.02)


async def agrees(index: Indexed) -> None:
    for everything in (True, False):
        assert await index.seen(everything=everything) == await index.recount(everything=everything)
    counted = await tally.counted(index.store, BASE, Config())
    from_index = await tally.indexed(index.store, index.reader, BASE, Config())
    brief = [replace(group, accounts={}, markets={}) for group in counted.groups]
    groups = tuple(map(plain, from_index.groups))
    assert replace(from_index, groups=groups, depths=()) == replace(counted, groups=tuple(brief))


async def test_a_build_equals_a_recount(rig: Rig, tmp_path: Path) -> None:
    rng = random.Random(1)
    await rig.make([a_row(number, rng) for number in range(60)])
    index = await indexed(await rig.open(read_only=True), tmp_path)
    assert await index.settle()
    await agrees(index)
    progress = await index.reader.progress()
    assert progress is not None
    assert progress.complete
    assert (progress.filed, progress.searchable, progress.share) == (60, 60, 1.0)
    await index.reader.aclose()


async def test_the_newest_come_first_and_progress_is_told(rig: Rig, tmp_path: Path) -> None:
    await rig.make(30)
    index = await indexed(await rig.open(read_only=True), tmp_path)
    with index.feed() as feed:
        assert await index.reader.progress() is not None
        await feed.step()
        assert await index.reader.known([f"dlq_{number:016x}" for number in range(30)]) == {
            f"dlq_{number:016x}" for number in range(23, 30)
        }
        shares = []
        while await feed._urgent():
            progress = await index.reader.progress()
            assert progress is not None
            shares.append(progress.share)
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert shares[-1] == 1.0
    await index.reader.aclose()


async def by_others(rig: Rig, action: str, numbers: list[int]) -> None:
    """What an engine's own tool does, past every console."""
    change = {
        "dismiss": f"dismissed = {rig.flag(True)}",
        "restore": f"dismissed = {rig.flag(False)}",
        "retry": "retry_count = retry_count + 1",
    }[action]
    ids = ", ".join(f"'dlq_{number:016x}'" for number in numbers)
    await rig.sql(f"UPDATE order_dlq SET {change} WHERE dlq_id IN ({ids})")


async def killed_somewhere(index: Indexed, rng: random.Random) -> None:
    """Feeds for a while, then dies within a statement, as a killed process does: uncommitted."""
    with index.cache.writing() as connection, suppress(IndexUnavailable):
        feed = IndexBuilder(index.store, IndexWriter(connection), labeller(WORTH), now=lambda: BASE, pace=SMALL_STEPS)
        left = rng.randint(20, 6000)

        def dies() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        try:
            connection.set_progress_handler(dies, 10)
            for _ in range(rng.randint(1, 12)):
                await feed.step()
        finally:
            connection.set_progress_handler(None, 0)
            feed.close()


async def happens(rig: Rig, index: Indexed, rng: random.Random, count: int) -> int:
    """One thing that may happen to a store or its index. → how many rows there are now."""
    some = rng.sample(range(count), min(count, rng.randint(1, 6)))
    match rng.choice(("insert", "insert", "dismiss", "restore", "retry", "console", "doubt", "kill", "kill", "feed")):
        case "insert":
            more = rng.randint(1, 30)
            await rig.fill([a_row(number, rng) for number in range(count, count + more)])
            return count + more
        case "console":
            chosen = await pick(index.store, *some)
            act = rng.choice((index.store.dismiss, index.store.restore))
            await act(chosen, ACTOR, why("console"))
        case "doubt":
            entry = await index.store.get(f"dlq_{some[0]:016x}")
            if entry is not None and entry.state == "pending":
                await attempt_on(index.store, some[0], Result(rng.choice(("accepted", "unknown", "rejected"))))
        case "kill":
            await killed_somewhere(index, rng)
        case "feed":
            await index.settle()
        case action:
            await by_others(rig, action, some)
    return count


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_the_summary_equals_a_recount_after_anything(rig: Rig, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(0, 50)
    await rig.make([a_row(number, rng) for number in range(count)])
    index = await indexed(await rig.open(), tmp_path)
    if count == 0:
        await index.settle()
        await rig.fill([a_row(0, rng)])
        count = 1
    for _ in range(25):
        count = await happens(rig, index, rng, count)
    assert await index.settle(thorough=True)
    await agrees(index)
    await index.reader.aclose()


@pytest.mark.parametrize("action", ["dismiss", "restore"])
async def test_changes_by_others_are_noticed_by_the_counts_alone(rig: Rig, tmp_path: Path, action: str) -> None:
    rng = random.Random(5)
    await rig.make([{**a_row(number, rng), "dismissed": action == "restore"} for number in range(80)])
    index = await indexed(await rig.open(), tmp_path)
    await index.settle()
    await by_others(rig, action, [3, 40, 41, 79])
    assert await index.settle()
    await agrees(index)
    await index.reader.aclose()


async def test_a_swap_that_no_count_shows_is_found_by_the_patrol(rig: Rig, tmp_path: Path) -> None:
    await rig.make([order_row(number, dismissed=number == 0) for number in range(20)])
    index = await indexed(await rig.open(), tmp_path)
    with index.feed() as feed:
        await feed.settle()
        await by_others(rig, "dismiss", [19])
        await by_others(rig, "restore", [0])
        await by_others(rig, "retry", [5])
        feed.hear()
        while await feed.step():
            pass
    await agrees(index)
    await index.reader.aclose()


async def test_a_swap_behind_the_patrols_back_is_found_by_the_next_one(sqlite: SQLiteRig, tmp_path: Path) -> None:
    await sqlite.make([order_row(number, dismissed=number == 28) for number in range(30)])
    index = await indexed(await sqlite.open(), tmp_path)
    with index.feed() as feed:
        await feed.settle()
        feed.hear()
        for _ in range(5):  # catches up, checks, and patrols the newest
            assert await feed.step()
        await by_others(sqlite, "dismiss", [29])
        await by_others(sqlite, "restore", [28])
        feed.hear()
        while await feed.step():
            pass
    await agrees(index)
    await index.reader.aclose()


async def test_current_means_that_counting_would_say_the_same(sqlite: SQLiteRig, tmp_path: Path) -> None:
    await sqlite.make(12)
    store = await sqlite.open()
    index = await indexed(store, tmp_path)
    assert not await is_current(store, await index.reader.progress())

    async def current() -> bool:
        return await is_current(store, await index.reader.progress())

    await index.settle()
    assert await current()
    await by_others(sqlite, "dismiss", [3])
    assert not await current()  # the counts say so
    await index.settle()
    assert await current()
    await store.dismiss(await pick(store, 5), ACTOR, why())
    await store.restore(await pick(store, 3), ACTOR, why())
    assert not await current()  # only the audit chain says so
    await index.settle()
    assert await current()
    await sqlite.sql('DROP TRIGGER "order_dlq_worm_del"')
    await sqlite.sql("DELETE FROM order_dlq WHERE rowid = 1")
    await sqlite.fill([order_row(99)])
    assert not await current()  # only the newest row says so
    await index.reader.aclose()


async def test_a_row_that_sorts_before_others_is_not_missed(rig: Rig, tmp_path: Path) -> None:
    await rig.make(40)
    index = await indexed(await rig.open(), tmp_path)
    await index.settle()
    await rig.fill([order_row(40, captured_at=BASE + timedelta(seconds=37, milliseconds=500))])
    await rig.fill([order_row(41, captured_at=BASE - timedelta(days=3))])
    assert await index.settle()
    await agrees(index)
    await index.reader.aclose()


async def test_many_at_once_are_followed_in_order(rig: Rig, tmp_path: Path) -> None:
    await rig.make(3)
    index = await indexed(await rig.open(), tmp_path)
    await index.settle()
    await rig.fill([order_row(number) for number in range(3, 140)])
    assert await index.settle()
    found = await index.reader.members((await index.seen())[0].fingerprint, frozenset({"pending"}))
    assert found == [f"dlq_{number:016x}" for number in range(140)]
    await index.reader.aclose()


async def test_rows_that_are_gone_leave_the_summary(sqlite: SQLiteRig, tmp_path: Path) -> None:
    await sqlite.make(30)
    index = await indexed(await sqlite.open(), tmp_path)
    await index.settle()
    await sqlite.sql('DROP TRIGGER "order_dlq_worm_del"')
    await sqlite.sql("DELETE FROM order_dlq WHERE rowid IN (2, 9, 30)")
    assert await index.settle()
    await agrees(index)
    await index.reader.aclose()


async def test_what_consoles_do_is_followed_by_the_audit_chain(rig: Rig, tmp_path: Path) -> None:
    await rig.make(12)
    store = await rig.open()
    index = await indexed(store, tmp_path)
    await index.settle()
    await store.dismiss(await pick(store, 1, 2), ACTOR, why())
    await attempt_on(store, 5, Result("unknown"))
    with index.feed() as feed:
        await feed.step()
        progress = await index.reader.progress()
        assert progress is not None
        assert (progress.states["dismissed"], progress.states["in_doubt"]) == (2, 1)
    await store.restore(Selection.of(list((await store.many((f"dlq_{1:016x}",))).values())), ACTOR, why())
    await index.settle()
    await agrees(index)
    await index.reader.aclose()


async def test_a_running_feed_hears_of_new_rows(rig: Rig, tmp_path: Path) -> None:
    await rig.make(5)
    index = await indexed(await rig.open(), tmp_path)

    async def holds(count: int) -> bool:
        progress = await index.reader.progress()
        return progress is not None and progress.complete and sum(progress.states.values()) == count

    with index.feed(BuildPace(tick=0.05)) as feed:
        running = asyncio.create_task(feed.run())
        try:
            await until(lambda: holds(5))
            await rig.fill([order_row(number) for number in range(5, 9)])
            await until(lambda: holds(9))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert len(await index.reader.snapshots(BASE - timedelta(hours=1))) == 1
    await index.reader.aclose()


async def test_the_store_is_only_read(sqlite: SQLiteRig, tmp_path: Path) -> None:
    await sqlite.make(50)
    await sqlite.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    before = hashlib.sha256(Path(sqlite.target).read_bytes()).hexdigest()
    index = await indexed(await sqlite.open(read_only=True), tmp_path)
    await index.settle(thorough=True)
    await index.reader.aclose()
    assert hashlib.sha256(Path(sqlite.target).read_bytes()).hexdigest() == before
    assert {row[1] for row in await sqlite.schema()} & {"meta", "entry", "text"} == set()


async def test_only_its_owner_can_read_the_file(sqlite: SQLiteRig, tmp_path: Path) -> None:
    await sqlite.make(3)
    index = await indexed(await sqlite.open(), tmp_path)
    with index.feed() as feed:
        await feed.settle()
        kept = list(index.cache.folder.iterdir())
        assert {path.suffix for path in kept} >= {".db", ".lock", ".db-wal"}
        assert {oct(path.stat().st_mode & 0o777) for path in kept} == {"0o600"}
    assert oct(index.cache.folder.stat().st_mode & 0o777) == "0o700"
    await index.reader.aclose()


async def test_there_is_one_writer(sqlite: SQLiteRig, tmp_path: Path) -> None:
    await sqlite.make(3)
    index = await indexed(await sqlite.open(), tmp_path)
    with index.feed(), pytest.raises(IndexUnavailable, match="another console keeps"), index.cache.writing():
        pass
    assert await index.settle()
    await index.reader.aclose()


@pytest.mark.parametrize("damage", ["version", "garbage", "empty", "cut"])
async def test_another_version_or_a_broken_file_is_made_again(sqlite: SQLiteRig, tmp_path: Path, damage: str) -> None:
    await sqlite.make(9)
    index = await indexed(await sqlite.open(), tmp_path)
    await index.settle()
    path = index.cache.path
    match damage:
        case "version":
            index = replace(index, cache=replace(index.cache, version="other"))
            index.reader = Reader(index.cache)
        case "garbage":
            path.write_bytes(b"not a database at all" * 1000)
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(path.read_bytes()[:6000])
    assert damage == "cut" or await index.reader.progress() is None
    with suppress(IndexUnavailable):  # a cut file opens, and fails when it is read
        await index.settle()
    assert await index.settle()
    await agrees(index)
    await index.reader.aclose()


async def test_a_reader_follows_a_file_that_was_made_again(sqlite: SQLiteRig, tmp_path: Path) -> None:
    await sqlite.make(9)
    index = await indexed(await sqlite.open(), tmp_path)
    await index.settle()
    assert len(await index.seen()) == 1
    index.cache.remove()
    assert await index.reader.progress() is None
    await index.settle()
    await agrees(index)
    await index.reader.aclose()


async def test_a_folder_that_cannot_be_made_is_said(sqlite: SQLiteRig, tmp_path: Path) -> None:
    await sqlite.make(1)
    store = await sqlite.open()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(IndexUnavailable, match="cannot be used"):
        await (await indexed(store, tmp_path / "file")).settle()


async def test_odd_values_are_filed(sqlite: SQLiteRig, tmp_path: Path) -> None:
    odd: list[dict[str, object]] = [
        order_row(0, error="\x00 NUL \x1b[31m", price=float("inf")),
        order_row(1, captured_at="not a time", market_id="\u2019\u202e"),
        order_row(2, captured_at="2026-04-18 14:00:00", quantity="many"),
        order_row(3, retry_count=2**62, error="x" * 300_000 + " needle-at-the-end"),
        order_row(4, retry_count="three", account_id=b"\xff\xfe"),
        order_row(5, quantity=1e300, price=1e300),
    ]
    await sqlite.make(odd)
    await sqlite.sql("UPDATE order_dlq SET dismissed = 1 WHERE rowid = 1")
    await sqlite.sql(
        "INSERT INTO order_dlq SELECT 'dlq_bad', captured_at, venue_name, account_id, CAST(x'ff41' AS TEXT), side, "
        "quantity, order_type, price, client_order_id, CAST(x'c328fe' AS TEXT), 0, 0, action_json "
        "FROM order_dlq WHERE rowid = 5"
    )
    index = await indexed(await sqlite.open(), tmp_path)
    assert await index.settle(thorough=True)
    await agrees(index)
    await index.reader.aclose()


async def test_two_rows_of_one_id_are_said_and_never_loop(sqlite: SQLiteRig, tmp_path: Path) -> None:
    columns = (await sqlite_columns(sqlite)).replace("PRIMARY KEY", "")
    await sqlite.sql(columns)
    await sqlite.fill([order_row(1), order_row(1), order_row(2)])
    index = await indexed(await sqlite.open(), tmp_path)
    assert not await index.settle()
    assert [group.count for group in await index.seen()] == [2]
    await index.reader.aclose()


def test_an_entry_that_moved_while_the_build_read_it_is_filed_once(tmp_path: Path) -> None:
    """Its id is looked for by an index only once all are filed."""
    label = Label("f", "title", "transient")
    first = IndexedEntry("dlq_1", "pending", label, "alpaca", "main", "AAPL", 0, 1, Decimal(5), "/USD alpaca")
    other = first._replace(id="dlq_2")
    cache = Cache.of(tmp_path, store_id="a", label="sqlite /x", table="t", version="1")
    with cache.writing() as connection:
        writer = IndexWriter(connection)
        writer.apply(IndexBatch(below=[first, other]))
        writer.apply(IndexBatch(below=[first._replace(retries=3)], meta={"built": "1"}))
        assert connection.execute("SELECT id, retries FROM entry ORDER BY id").fetchall() == [
            ("dlq_1", 0),
            ("dlq_2", 0),
        ]
        assert connection.execute("SELECT count, retries, unpriced FROM summary").fetchall() == [(2, 0, 0)]
        assert writer.known(["dlq_1"])["dlq_1"].retries == 0
        with pytest.raises(sqlite3.IntegrityError):
            writer.apply(IndexBatch(below=[first]))


async def sqlite_columns(rig: SQLiteRig) -> str:
    return rig.ddl("order_dlq")[0]


@pytest.mark.parametrize(
    "place", [None, (5,), (BASE, "dlq_1"), (None, "x"), (1.5, b"\xff"), ("2026-04-18", "\udcff"), (True, "")]
)
def test_a_place_can_be_spelled_and_read_back(place: tuple[object, ...] | None) -> None:
    assert unspell(spell(place)) == place
    assert json.loads(spell(place)) is None or place is not None


def test_other_layouts_have_their_own_columns() -> None:
    outbox = roles("outbox", ("id", "queue", "payload", "deliveries_count", "failed_at", "last_exception"))
    assert (outbox.moment, outbox.venue, outbox.retries) == ("failed_at", "queue", "deliveries_count")
    hub = roles("integration", ("id", "provider_id", "tenant_id", "attempts", "created_at", "error"))
    assert (hub.moment, hub.venue, hub.account, hub.retries) == ("created_at", "provider_id", "tenant_id", "attempts")
    orders = roles("orders", ("dlq_id", "captured_at", "venue_name", "error"))
    assert (orders.moment, orders.venue, orders.account) == ("captured_at", "venue_name", "")
    assert orders.searched == ("error", "dlq_id")


def test_a_cache_is_named_after_its_store(tmp_path: Path) -> None:
    one = Cache.of(tmp_path, store_id="a", label="sqlite /x", table="t", version="1")
    others = [
        Cache.of(tmp_path, store_id="b", label="sqlite /x", table="t", version="1"),
        Cache.of(tmp_path, store_id="a", label="sqlite /y", table="t", version="1"),
        Cache.of(tmp_path, store_id="a", label="sqlite /x", table="u", version="1"),
    ]
    assert len({cache.path for cache in (one, *others)}) == 4
    assert sqlite3.sqlite_version_info >= (3, 34)  # trigram
