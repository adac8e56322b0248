"""Looking at a Postgres store runs nobody's code, whatever another role planted there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from backends import open_store
from backends.records import Filter
from backends.store import RunsForeignCode
from tests.support.hostile_catalog import ROWS, TRAPS, HostileCatalog, Trap
from tests.support.store import EVERYTHING


@pytest.fixture
async def catalog(postgres_db: str) -> AsyncIterator[HostileCatalog]:
    made = HostileCatalog(postgres_db)
    await made.prepare()
    yield made
    await made.restore()


async def looked(target: str) -> int:
    """Reads everything that verbs and screens read. Returns how many entries there are."""
    store = await open_store(target, read_only=True, table="order_dlq")
    try:
        page = await store.page(EVERYTHING, limit=100)
        await store.page(Filter(terms=("429", "überall"), venue="alpaca"), limit=100)
        await store.page(EVERYTHING, limit=1, after=page.entries[0].row_key)
        for entry in page.entries[:1]:
            await store.get(entry.id)
            await store.attempts(entry.id)
            await store.events(entry.id)
        await store.counts(EVERYTHING)
        await store.origins()
        await store.store_id()
        await store.halted()
        await store.clock()
        return len(page.entries)
    finally:
        await store.aclose()


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
async def test_no_planted_function_runs(catalog: HostileCatalog, trap: Trap) -> None:
    await catalog.plant([trap])
    if trap.refused:
        with pytest.raises(RunsForeignCode, match="would run code of another role") as refused:
            await looked(catalog.looking)
        assert "foreign-code" in {finding.code for finding in refused.value.info.findings}
    else:
        assert await looked(catalog.looking) == ROWS
    assert await catalog.calls() == {}


async def test_the_witness_tells_of_a_call(catalog: HostileCatalog) -> None:
    """Without this the test above could not fail."""
    await catalog.plant([trap for trap in TRAPS if trap.name == "octet_length"])
    await catalog.tell("SELECT evil.octet_length('x'::varchar)")
    assert await catalog.calls() == {"octet_length": 1}


@pytest.mark.parametrize("name", ["view", "query in a view"])
async def test_a_superuser_is_told_too(catalog: HostileCatalog, name: str) -> None:
    await catalog.plant([trap for trap in TRAPS if trap.name == name])
    with pytest.raises(RunsForeignCode):
        await looked(catalog.admin)
    assert await catalog.calls() == {}
