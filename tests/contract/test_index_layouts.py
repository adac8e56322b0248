"""The index over other layouts, where rows come and go: dead letters of an outbox, failed calls of a hub."""

from __future__ import annotations

from pathlib import Path

from backends.records import Filter
from backends.store import Store
from console.services.browse.search import Search
from tests.support.index import Indexed, indexed
from tests.support.integration import IntegrationRig, failed_row
from tests.support.outbox import OutboxRig, dead_row


async def found(index: Indexed, term: str) -> list[str]:
    got = await Search(index.store, index.reader).find(Filter(terms=(term,)), budget=30.0)
    assert got.complete
    return [entry.id for entry in got.entries]


async def agreed(index: Indexed) -> bool:
    assert await index.settle()
    for everything in (True, False):
        assert await index.seen(everything=everything) == await index.recount(everything=everything)
    return True


async def test_dead_letters_of_an_outbox(postgres_db: str, tmp_path: Path) -> None:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    ids = await rig.dead(*(dead_row(n, queue="fills" if n % 5 == 0 else "orders") for n in range(20)))
    store: Store = await rig.store(read_only=True)
    index = await indexed(store, tmp_path)
    assert await agreed(index)
    (group,) = await index.seen()
    assert (group.count, group.retries, group.venues) == (20, 60, {"orders": 16, "fills": 4})
    assert await found(index, "order 7 is bad") == [ids[7]]
    assert await found(index, ids[13]) == [ids[14], ids[13]], "the error of one names 14, and 14 is the id of the other"
    await rig.sql(f"DELETE FROM outbox_dlq WHERE id IN ({ids[0]}, {ids[7]}, {ids[19]})")
    more = await rig.dead(dead_row(30, last_exception="KeyError('venue')"))
    assert await agreed(index)
    assert [group.count for group in await index.seen()] == [17, 1]
    assert await found(index, "order 7 is bad") == []
    assert await found(index, "keyerror") == more
    await index.reader.aclose()
    await rig.aclose()


async def test_failed_calls_of_a_hub(postgres_db: str, tmp_path: Path) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    rows = [failed_row(n, error=f"HTTP 503 after {n} attempts") for n in range(11)]
    ids = await rig.failed(*rows, failed_row(11, error="HTTP 503 after 11 attempts", providerName=None))
    store: Store = await rig.store(read_only=True)
    index = await indexed(store, tmp_path)
    assert await agreed(index)
    (group,) = await index.seen()
    assert (group.count, group.retries, group.venues) == (12, 72, {"Acme Pay": 11, "prov-1": 1})
    assert group.accounts == {"tenant-1": 12}
    await rig.sql(f"DELETE FROM integration_dlq WHERE id = '{ids[4]}'")
    assert await agreed(index)
    assert await found(index, "after 4 att") == []
    assert await found(index, "after 5 att") == [ids[5]]
    await index.reader.aclose()
    await rig.aclose()
