"""What an act leaves in the row of another owner: asked for before anything is sent, never a reason to send again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa

from backends.records import Filter, Selection
from backends.sql.other.store import IntegrationStore
from backends.store import ActRefused, Result
from console.services.replay import attempt as record
from console.services.replay.outcome import EntryOutcome
from console.services.resend.orphans import OrphanedCalls
from tests.support.http_server import Loopback, reply
from tests.support.integration import IntegrationRig, clock, entries, entry_id, providers, redelivery
from tests.support.store import ACTOR, INTENT, events_of, ids, only, verdict, why

KEEPS = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
RAISES = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.001)


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    await rig.failed(1, 2)
    yield rig
    await rig.aclose()


async def resend(store: IntegrationStore, url: str, *numbers: int) -> list[EntryOutcome]:
    there = providers(url)
    try:
        return list(await redelivery(store, there).run(await entries(store, *map(entry_id, numbers))))
    finally:
        await there.aclose()


async def _may_act(rig: IntegrationRig, role: str, **options: Any) -> None:
    """Everything in the ledger, and of the table what `keep` needs."""
    poor = await rig.store(target=role, **options)
    with pytest.raises(ActRefused) as refused:
        await poor.note(entry_id(1), ACTOR, why(note="x"))
    for statement in str(refused.value).partition(":\n")[2].split(";\n"):
        if "integration_dlq" not in statement:
            await rig.sql(statement.rstrip(";"))


@pytest.mark.parametrize(
    ("on_success", "grant"),
    [("delete", 'DELETE ON "public"."integration_dlq"'), ("soft-delete", 'UPDATE ("deletedAt")')],
)
async def test_the_right_that_success_needs_is_asked_for_before_the_send(
    rig: IntegrationRig, on_success: str, grant: str
) -> None:
    role = await rig.role("poor", "SELECT ON integration_dlq", 'UPDATE (attempts, "lastRetryAt") ON integration_dlq')
    await _may_act(rig, role)
    store = await rig.store(target=role, on_success=on_success)
    async with Loopback(lambda _: reply(200)) as server:
        (ended,) = await resend(store, server.url, 1)
        assert (ended.outcome, server.requests) == ("refused", [])
        sql = (ended.detail or "").partition("an owner would run:\n")[2]
        assert grant in sql
        await rig.sql(sql.rstrip(";"))
        (ended,) = await resend(store, server.url, 1)
    assert (ended.outcome, len(server.requests)) == ("accepted", 1)
    assert await store.unfinished(()) == {}


async def test_a_failure_that_cannot_be_counted_is_refused_before_the_send(rig: IntegrationRig) -> None:
    role = await rig.role("poor", "SELECT ON integration_dlq")
    await _may_act(rig, role)
    store = await rig.store(target=role)
    async with Loopback(lambda _: reply(500)) as server:
        (ended,) = await resend(store, server.url, 1)
    assert (ended.outcome, server.requests, "GRANT UPDATE" in (ended.detail or "")) == ("refused", [], True)


async def test_without_on_success_nothing_is_sent(rig: IntegrationRig) -> None:
    store = await rig.store(on_success=None)
    async with Loopback(lambda _: reply(200)) as server:
        (ended,) = await resend(store, server.url, 1)
    assert (ended.outcome, server.requests, "on_success" in (ended.detail or "")) == ("refused", [], True)
    assert "no-on-success" in [one.code for one in store.info.findings]


async def _fence(rig: IntegrationRig, how: str) -> None:
    match how:
        case "foreign key":
            await rig.sql("CREATE TABLE ticket (call uuid REFERENCES integration_dlq)")
            await rig.sql("INSERT INTO ticket SELECT id FROM integration_dlq")
        case "deferred key":
            await rig.sql("CREATE TABLE ticket (call uuid REFERENCES integration_dlq DEFERRABLE INITIALLY DEFERRED)")
            await rig.sql("INSERT INTO ticket SELECT id FROM integration_dlq")
        case _:
            body = KEEPS if how == "trigger keeps" else RAISES
            await rig.sql(f"CREATE FUNCTION fence() {body}")
            await rig.sql("CREATE TRIGGER fence BEFORE DELETE ON integration_dlq FOR EACH ROW EXECUTE FUNCTION fence()")


FENCES = ("foreign key", "deferred key", "trigger keeps", "trigger raises")


@pytest.mark.parametrize("how", FENCES)
async def test_a_yes_is_accepted_whatever_becomes_of_the_row(rig: IntegrationRig, how: str) -> None:
    await _fence(rig, how)
    store = await rig.store(on_success="delete")
    async with Loopback(lambda _: reply(200)) as server:
        (ended,) = await resend(store, server.url, 1)
        assert ended.outcome == "accepted"
        assert "the row is not deleted yet" in (ended.detail or "")
        (attempt,) = await store.attempts(entry_id(1))
        assert (attempt.outcome, "not deleted yet" in (attempt.error or "")) == ("accepted", True)
        orphans = OrphanedCalls(store, ACTOR, clock)
        assert [one.outcome for one in await orphans.run(())] == ["skipped"]
        assert await ids(store, Filter()) == [entry_id(2)]
        assert [one.outcome for one in await resend(store, server.url, 1)] == ["skipped"]
        assert len(server.requests) == 1
    assert "rows-left" in [one.code for one in (await rig.store(on_success="delete")).info.findings]
    await rig.sql("DROP TABLE IF EXISTS ticket")
    await rig.sql("DROP FUNCTION IF EXISTS fence CASCADE")
    assert [(one.entry_id, one.outcome) for one in await orphans.run((entry_id(1),))] == [(entry_id(1), "accepted")]
    assert await rig.column("attempts", 1) == "gone"
    (attempt,) = await store.attempts(entry_id(1))
    assert (attempt.outcome, attempt.error) == ("accepted", None)
    assert await orphans.run(()) == ()
    assert "rows-left" not in [one.code for one in (await rig.store(on_success="delete")).info.findings]
    assert (await verdict(store))[0] is None


async def test_a_row_that_another_session_holds_holds_nobody_up(
    rig: IntegrationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.sql.other.claims.IMPATIENT", sa.text("SET LOCAL lock_timeout = '20ms'"))
    store = await rig.store(on_success="delete")
    async with rig.connect() as other, other.transaction(), Loopback(lambda _: reply(200)) as server:
        seen = await entries(store, entry_id(1))

        async def hold(*_: object) -> None:
            await other.execute("SELECT 1 FROM integration_dlq FOR KEY SHARE")

        there = providers(server.url)
        send = there.client(there.at(seen[0])).send

        async def held(*given: Any) -> Any:
            answer = await send(*given)
            await hold()
            return answer

        there.client(there.at(seen[0])).send = held  # type: ignore[method-assign,assignment]
        (ended,) = await redelivery(store, there).run(seen)
        await there.aclose()
    assert (ended.outcome, "locked by another session" in (ended.detail or "")) == ("accepted", True)


async def test_a_retry_that_cannot_be_counted_is_recorded_all_the_same(rig: IntegrationRig) -> None:
    await rig.sql("ALTER TABLE integration_dlq ADD CHECK (attempts < 7)")
    store = await rig.store()
    async with Loopback(lambda _: reply(400)) as server:
        (ended,) = await resend(store, server.url, 1)
    assert (ended.outcome, [one.outcome for one in await store.attempts(entry_id(1))]) == ("rejected", ["rejected"])
    assert await ids(store, only("pending")) == [entry_id(1), entry_id(2)]
    told = json.loads((await events_of(store))[-1].body)["after"]
    assert "not counted" in told["row"]


async def test_a_person_s_yes_is_done_with_the_row_too(rig: IntegrationRig) -> None:
    store = await rig.store(on_success="soft-delete")
    async with Loopback(lambda _: reply(400)) as server:
        await resend(store, server.url, 2)
    (seen,) = await entries(store, entry_id(1))
    claim: Any = await store.claim(seen.id, seen.version, ACTOR, 60)
    attempt: Any = await store.intend(claim, INTENT, ACTOR, why())
    assert await store.settle(attempt, Result("accepted", evidence="settled by ann"), ACTOR, why())
    assert await rig.column("deletedAt", 1) is not None


@pytest.mark.parametrize(("on_dismiss", "left"), [("keep", None), ("delete", "gone"), ("soft-delete", "marked")])
async def test_dismissing_does_with_the_row_what_the_config_says(
    rig: IntegrationRig, on_dismiss: str, left: str | None
) -> None:
    store = await rig.store(on_dismiss=on_dismiss)
    chosen = Selection.of(await entries(store, entry_id(1)))
    assert (await store.dismiss(chosen, ACTOR, why())).done == (entry_id(1),)
    there = await rig.column("deletedAt", 1)
    assert (there if there in (None, "gone") else "marked") == left
    assert await ids(store, Filter()) == [entry_id(2)]
    restored = await store.restore(chosen, ACTOR, why())
    assert restored.done == ((entry_id(1),) if left is None else ())
    assert (await verdict(store))[0] is None


@pytest.mark.parametrize("how", FENCES)
async def test_a_row_that_stays_is_not_dismissed_and_takes_no_other_with_it(rig: IntegrationRig, how: str) -> None:
    await rig.failed(3)
    await _fence(rig, how)
    if "key" in how:
        await rig.sql(f"DELETE FROM ticket WHERE call <> '{entry_id(2)}'")
    else:
        await rig.sql("DROP TRIGGER fence ON integration_dlq")
        of = f"FOR EACH ROW WHEN (OLD.id = '{entry_id(2)}') EXECUTE FUNCTION fence()"
        await rig.sql(f"CREATE TRIGGER fence BEFORE DELETE ON integration_dlq {of}")
    store = await rig.store(on_dismiss="delete")
    result = await store.dismiss(Selection.of(await entries(store, *map(entry_id, (1, 2, 3)))), ACTOR, why())
    assert result.done == (entry_id(1), entry_id(3))
    ((stayed, said),) = result.changed
    assert (stayed, said.startswith("not dismissed, its row stays: ")) == (entry_id(2), True)
    assert await ids(store, Filter()) == [entry_id(2)]


async def test_the_right_that_a_dismissal_needs_is_asked_for_first(rig: IntegrationRig) -> None:
    role = await rig.role("poor", "SELECT ON integration_dlq")
    await _may_act(rig, role)
    store = await rig.store(target=role, on_dismiss="delete")
    chosen = Selection.of(await entries(store, entry_id(1)))
    with pytest.raises(ActRefused, match="GRANT DELETE"):
        await store.dismiss(chosen, ACTOR, why())
    assert await ids(store, Filter()) == [entry_id(1), entry_id(2)]


async def test_what_the_table_cannot_do_is_refused(rig: IntegrationRig) -> None:
    await rig.sql('ALTER TABLE integration_dlq DROP COLUMN "deletedAt"')
    store = await rig.store(on_success="soft-delete", on_dismiss="soft-delete")
    assert [one.code for one in store.info.findings].count("no-soft-delete") == 2
    async with Loopback(lambda _: reply(200)) as server:
        (ended,) = await resend(store, server.url, 1)
    assert (ended.outcome, server.requests) == ("refused", [])
    with pytest.raises(ActRefused, match="no soft-delete column"):
        await store.dismiss(Selection.of(await entries(store, entry_id(1))), ACTOR, why())
