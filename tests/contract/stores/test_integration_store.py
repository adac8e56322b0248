"""An integration hub's dead letters in their table: however it is spelt, with what may be written of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backends.records import Filter, Selection
from backends.sql.other.store import IntegrationStore
from backends.store import ActRefused, Claim, ClaimRefused, Intent, Result
from console.services.layout_fields import days_left, occurred_at, origin, request_line, stored_credentials
from tests.support.integration import BASE, CAMEL, FOLDED, SNAKE, IntegrationRig, entries, entry_id, failed_row
from tests.support.store import (
    ACTOR,
    EVERYTHING,
    OTHER,
    ids,
    only,
    recount,
    table_findings,
    verdict,
    walk,
    walk_back,
    why,
)

INTENT = Intent("live", "prov-1", "key-1", b"{}", "hash")


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    yield rig
    await rig.aclose()


@pytest.mark.parametrize("names", [CAMEL, SNAKE, FOLDED], ids=["camel", "snake", "folded"])
async def test_found_however_its_columns_are_spelt(rig: IntegrationRig, names: list[str]) -> None:
    rig.table = "calls_that_failed"
    await rig.tables(names)
    await rig.failed(1, 2, 3)
    store = await rig.store()
    assert (store.info.layout, store.info.table) == ("integration", "calls_that_failed")
    assert store.info.columns == tuple(names)
    assert [finding.code for finding in table_findings(store)] == ["no-created-index", "rows-stay"]
    (first,) = await entries(store, entry_id(1))
    assert first.names == tuple(names)
    assert (origin(first), request_line(first)) == ("Acme Pay", "POST /v1/charges?expand=1")
    assert days_left(first, BASE + timedelta(days=28)) == 3
    assert days_left(first, BASE + timedelta(days=40)) == 0
    claim = await store.claim(first.id, first.version, ACTOR, 30)
    assert isinstance(claim, Claim)
    await store.intend(claim, INTENT, ACTOR, why())
    assert await store.conclude(claim, Result("rejected", error="HTTP 500"), ACTOR, why())
    assert await rig.column("attempts", 1) == 7
    assert await rig.column("lastRetryAt", 1) is not None
    assert await rig.column("attempts", 2) == 6


@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_meet_every_entry_once_in_both_directions(rig: IntegrationRig, newest_first: bool) -> None:
    await rig.tables()
    await rig.failed(*(failed_row(n, createdAt=BASE + timedelta(seconds=n // 3)) for n in range(1, 12)))
    store = await rig.store()
    expected = [entry_id(n) for n in range(1, 12)]
    expected = expected[::-1] if newest_first else expected
    there = await walk(store, Filter(), limit=4, newest_first=newest_first)
    assert [one.id for one in there] == expected
    back = await walk_back(store, Filter(), there[-1], limit=3, newest_first=newest_first)
    assert [one.id for one in back] == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Filter(venue="prov-2"), [2]),
        (Filter(venue="Acme Pay"), [1, 3]),
        (Filter(account="tenant-3"), [3]),
        (Filter(since=BASE + timedelta(seconds=2)), [2, 3]),
        (Filter(until=BASE + timedelta(seconds=2)), [1]),
        (Filter(terms=("timeout",)), [3]),
        (Filter(terms=("CHARGES",)), []),
        (Filter(terms=(entry_id(2).upper(),)), [2]),
        (Filter(side="buy"), []),
    ],
)
async def test_provider_tenant_and_time_are_answered_by_the_store(
    rig: IntegrationRig, where: Filter, expected: list[int]
) -> None:
    await rig.tables()
    two = failed_row(2, providerId="prov-2", providerName="Other")
    await rig.failed(1, two, failed_row(3, tenantId="tenant-3", error="ReadTimeout: timeout"))
    store = await rig.store()
    assert await ids(store, where) == [entry_id(n) for n in expected]


async def test_what_its_owner_soft_deleted_is_not_open(rig: IntegrationRig) -> None:
    await rig.tables()
    await rig.failed(1, failed_row(2, deletedAt=BASE), 3)
    store = await rig.store()
    assert await ids(store, Filter()) == [entry_id(1), entry_id(3)]
    assert await ids(store, only("dismissed")) == [entry_id(2)]
    result = await store.restore(Selection.of(await entries(store, entry_id(2))), ACTOR, why())
    assert result.changed == ((entry_id(2), "its owner has deleted it: not ours to restore"),)
    assert dict((await store.counts(EVERYTHING)).by_state) == {"pending": 2, "dismissed": 1}


@pytest.mark.parametrize("column", ["isDeleted", "is_deleted", "deleted"])
async def test_a_soft_delete_mark_may_be_a_flag(rig: IntegrationRig, column: str) -> None:
    await rig.tables(soft_delete=False)
    await rig.sql(f'ALTER TABLE integration_dlq ADD COLUMN "{column}" boolean')
    await rig.failed(1, 2)
    await rig.sql(f'UPDATE integration_dlq SET "{column}" = true WHERE id = $1', failed_row(1)["id"])
    store = await rig.store(on_success="soft-delete")
    assert await ids(store, Filter()) == [entry_id(2)]
    await _accepted(store, 2)
    assert await rig.sql(f'SELECT "{column}" FROM integration_dlq WHERE id = $1', failed_row(2)["id"]) == [(True,)]


async def _accepted(store: IntegrationStore, number: int) -> None:
    (found,) = await entries(store, entry_id(number))
    claim = await store.claim(found.id, found.version, ACTOR, 30)
    assert isinstance(claim, Claim)
    await store.intend(claim, INTENT, ACTOR, why())
    assert await store.conclude(claim, Result("accepted"), ACTOR, why())


@pytest.mark.parametrize(
    ("options", "left"),
    [({"on_success": "keep"}, None), ({"on_success": "delete"}, "gone"), ({"on_success": "soft-delete"}, "marked")],
)
async def test_success_removes_as_the_config_says(
    rig: IntegrationRig, options: dict[str, Any], left: str | None
) -> None:
    await rig.tables()
    await rig.failed(1, 2)
    store = await rig.store(**options)
    await _accepted(store, 1)
    assert await ids(store, Filter()) == [entry_id(2)]
    deleted = await rig.column("deletedAt", 1)
    assert ("marked" if left == "marked" and deleted is not None else deleted) == left
    assert await rig.column("attempts", 1) in (6, "gone")
    assert dict((await store.counts(EVERYTHING)).by_state).get("replayed", 0) == (0 if left == "gone" else 1)
    assert [one.outcome for one in await store.attempts(entry_id(1))] == ["accepted"]
    assert (await verdict(store))[0] is None


async def test_a_retry_holds_its_entry(rig: IntegrationRig) -> None:
    await rig.tables()
    await rig.failed(1)
    store = await rig.store()
    (found,) = await entries(store, entry_id(1))
    claim = await store.claim(found.id, found.version, ACTOR, 30)
    assert isinstance(claim, Claim)
    taken = await store.claim(found.id, found.version, OTHER, 30)
    assert isinstance(taken, ClaimRefused)
    assert taken.code == "claimed"
    assert (await store.dismiss(Selection.of([found]), OTHER, why())).done == ()
    await store.intend(claim, INTENT, ACTOR, why())
    assert await ids(store, only("in_flight")) == await ids(store, Filter()) == [found.id]
    assert (await store.dismiss(Selection.of([found]), OTHER, why())).changed == ((found.id, "in flight"),)
    again = await store.claim(found.id, found.version, OTHER, 30)
    assert isinstance(again, ClaimRefused)
    assert again.code == "in-doubt"
    counted = (await store.counts(EVERYTHING)).by_state
    assert {state: count for state, count in counted.items() if count} == recount(await walk(store)) == {"in_flight": 1}


async def test_an_entry_that_others_moved_is_not_sent(rig: IntegrationRig) -> None:
    await rig.tables()
    await rig.failed(1)
    store = await rig.store()
    (seen,) = await entries(store, entry_id(1))
    await rig.sql('UPDATE integration_dlq SET attempts = attempts + 1, "lastRetryAt" = now()')
    taken = await store.claim(seen.id, seen.version, ACTOR, 30)
    assert isinstance(taken, ClaimRefused)
    assert taken.code == "changed"
    assert (await store.dismiss(Selection.of([seen]), ACTOR, why())).done == ()


async def test_stored_credentials_are_masked_and_named(rig: IntegrationRig) -> None:
    request = {
        "method": "POST",
        "path": "/v1/login?api_key=k-123456",
        "headers": {"authorization": "Bearer tok-987654", "X-Trace": "t"},
        "body": {"user": "ann", "password": "hunter2", "note": "token tok-abcdef99"},
    }
    await rig.tables()
    await rig.failed(failed_row(1, originalRequest=json.dumps(request), error="401 for Bearer tok-987654321"))
    store = await rig.store()
    named = next(finding for finding in store.info.findings if finding.code == "stored-credentials")
    assert "headers.authorization" in named.text
    (found,) = await entries(store, entry_id(1))
    page = await store.page(Filter(), limit=1)
    for secret in ("k-123456", "tok-987654", "hunter2", "tok-abcdef99"):
        assert secret not in repr(found) + repr(page) + repr(store.info)
    assert set(stored_credentials(found)) == {"headers.authorization", "body.password", "body.note", "path"}
    assert "hunter2" in str(await store.request(entry_id(1)))


@pytest.mark.parametrize(
    "options",
    [{"on_success": "keep"}, {"on_success": "delete"}, {"on_success": "soft-delete"}, {"on_dismiss": "delete"}],
)
async def test_the_least_privileges_are_enough(rig: IntegrationRig, options: dict[str, Any]) -> None:
    await rig.tables()
    await rig.failed(1, 2)
    least = await rig.role("least", "SELECT ON integration_dlq")
    first = await rig.store(target=least, **options)
    with pytest.raises(ActRefused, match="an owner would run") as refused:
        await first.note(entry_id(1), ACTOR, why(note="x"))
    for statement in str(refused.value).partition(":\n")[2].split(";\n"):
        await rig.sql(statement.rstrip(";"))
    store = await rig.store(target=least, **options)
    await _accepted(store, 1)
    (two,) = await entries(store, entry_id(2))
    claim = await store.claim(two.id, two.version, ACTOR, 30)
    assert isinstance(claim, Claim)
    await store.intend(claim, INTENT, ACTOR, why())
    assert await store.conclude(claim, Result("rejected", error="HTTP 400"), ACTOR, why())
    assert await rig.column("attempts", 2) == 7
    async with rig.connect(least) as connection:
        with pytest.raises(Exception, match="permission denied"):
            await connection.execute("UPDATE integration_dlq SET error = 'x'")


async def test_times_without_a_zone_are_utc(rig: IntegrationRig) -> None:
    """As the filters compare them, and as a failed retry writes them."""
    await rig.tables(soft_delete=False)
    await rig.sql('ALTER TABLE integration_dlq ALTER COLUMN "createdAt" TYPE timestamp(3)')
    await rig.sql(f"INSERT INTO integration_dlq VALUES ('{entry_id(1)}', 'p', 'P', '{{}}', 'x', 6, 't', '2026-04-18')")
    store = await rig.store(on_success="soft-delete")
    (found,) = await entries(store, entry_id(1))
    assert occurred_at(found) == datetime(2026, 4, 18, tzinfo=UTC)
    assert days_left(found, datetime(2026, 4, 19, tzinfo=UTC)) == 29
    assert (await store.counts(Filter())).oldest_pending == datetime(2026, 4, 18, tzinfo=UTC)
    assert await ids(store, Filter(since=datetime(2026, 4, 18, 1, tzinfo=UTC))) == []
    assert {one.code: one.text.rpartition(": ")[2] for one in table_findings(store)} == {
        "changed-type": "read as UTC",
        "no-created-index": "pages of a large store are slow",
        "no-soft-delete": "on_success = soft-delete cannot be done, replay is refused",
    }


async def test_times_kept_as_text_are_written_as_text(rig: IntegrationRig) -> None:
    await rig.tables()
    await rig.sql('ALTER TABLE integration_dlq ALTER COLUMN "lastRetryAt" TYPE text')
    await rig.failed(1)
    store = await rig.store()
    (found,) = await entries(store, entry_id(1))
    claim = await store.claim(found.id, found.version, ACTOR, 30)
    assert isinstance(claim, Claim)
    await store.intend(claim, INTENT, ACTOR, why())
    await store.conclude(claim, Result("rejected", error="x"), ACTOR, why())
    assert str(await rig.column("lastRetryAt", 1)).endswith("Z")
