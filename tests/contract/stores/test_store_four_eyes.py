"""What a role that may act can and cannot do to four eyes, the halt and the evidence: each test is the attack."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from datetime import datetime, timedelta

import asyncpg
import pytest

from backends.ledger.examination import examine
from backends.ledger.roles import APPROVER, AUDITOR, OPERATOR, LedgerRole, make_sql, role_sql
from backends.records import Actor, Halt, Person
from backends.sql.store import SQLStore
from backends.store import ActRefused, Claim, ClaimRefused, Result
from console import clock
from console.services.triage.approvals import Approvals
from console.settings.second_person import SecondPerson
from tests.support.store import ACTOR, OTHER, PostgresRig, Rig, attempt_on, entry_of, events_of, pick, verdict, why

FIRST = "dlq_0000000000000000"
DOCUMENT = json.dumps({"mode": "live", "rows": [{"dlq_id": FIRST}]})


async def enforced(rig: PostgresRig, rows: int = 3) -> None:
    """A store whose ledger an owner made who does not act."""
    await rig.make(rows)
    await rig.sql("SELECT 1")
    async with rig.connect() as owner:
        await owner.execute(make_sql())


async def login(rig: PostgresRig, name: str, role: LedgerRole = OPERATOR) -> str:
    """A login role with the printed grants."""
    target = await rig.role(name)
    one = target.split("//")[1].split("@")[0]
    writes = ('SELECT, UPDATE (retry_count, dismissed) ON "public"."order_dlq"',)
    sql = role_sql(role, ('SELECT ON "public"."order_dlq"',), writes)
    async with rig.connect() as owner:
        await owner.execute(sql.partition(";\n")[2].replace(f"TO {role.name}", f'TO "{one}"'))
    return target


def approvals(store: SQLStore, actor: Actor) -> Approvals:
    return Approvals(store, actor, clock.now)


async def test_another_role_approves_and_the_same_one_cannot(postgres_store: PostgresRig) -> None:
    await enforced(postgres_store)
    ops = await postgres_store.open(target=await login(postgres_store, "ops"))
    second = await postgres_store.open(target=await login(postgres_store, "second", APPROVER))
    assert ops.info.advisory is None
    asker, same_role = approvals(ops, ACTOR), approvals(ops, OTHER)
    assert not await asker.given_or_asked("p", "one order", kind="replay", document=DOCUMENT)
    assert await same_role.approve("p") == "own", "another OS user of the same role"
    assert not await asker.given("p")
    assert await approvals(second, ACTOR).approve("p") == "approved", "another role of the same OS user"
    assert await asker.given("p")
    told = [json.loads(event.body) for event in await events_of(ops)]
    assert [one["kind"] for one in told] == ["ask-approval", "refused-approval", "approve"]
    assert told[0]["orders"] == [FIRST]
    assert told[0]["plan"] == told[2]["plan"] == "p"
    assert told[2]["asked_event"] == told[0]["seq"]
    assert (await examine(ops)).differences == ()


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE dlq_console.approval SET approved_by = 'x|boss', approved_at = extract(epoch FROM now()) + 3600",
        "UPDATE dlq_console.approval SET approved_event = 1",
        "INSERT INTO dlq_console.approval (plan_hash, asked_by, asked_at, summary) VALUES ('q', 'a|b', 1, 's')",
        "DELETE FROM dlq_console.approval",
        "DELETE FROM dlq_console.halt",
        "INSERT INTO dlq_console.halt VALUES (2, 'now', 'a', 'b')",
        "INSERT INTO dlq_console.audit VALUES (99, 'x', 'y')",
        "INSERT INTO dlq_console.audit_entry VALUES (-1, 1)",
        "INSERT INTO dlq_console.audit_bulk VALUES (1, -1)",
        "INSERT INTO dlq_console.note (source, entry_id, at, operator, text) VALUES ('a', 'b', 'c', 'd', 'e')",
        "TRUNCATE dlq_console.halt",
        "DELETE FROM dlq_console.attempt",
        """SELECT dlq_console.append_event('approve', '{"plan":"p"}', '{"os_user":"boss"}', NULL)""",
        """SELECT dlq_console.append_event('resume', '{"plan":"p"}', '{"os_user":"boss"}', '{-1}')""",
        """SELECT dlq_console.append_event('policy', '{"after":{}}', '{"os_user":"boss"}', NULL)""",
        """SELECT dlq_console.chain_event('approve', '{"a":1}', '{"a":1}', NULL, NULL, now())""",
        "CREATE FUNCTION dlq_console.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT $1 $$",
    ],
)
async def test_the_printed_grants_do_not_let_an_operator_write_evidence(
    postgres_store: PostgresRig, attack: str
) -> None:
    await enforced(postgres_store)
    target = await login(postgres_store, "ops")
    store = await postgres_store.open(target=target)
    await store.ask("p", "one order", ACTOR, why(), document=DOCUMENT)
    await store.halt(ACTOR, why(note="odd"))
    async with postgres_store.connect(target) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(attack)
    assert not await approvals(store, ACTOR).given("p")
    assert await store.halted() is not None
    assert (await examine(store)).differences == ()


async def test_what_an_operator_tells_cannot_stand_for_what_the_database_knows(postgres_store: PostgresRig) -> None:
    await enforced(postgres_store)
    target = await login(postgres_store, "ops")
    role = target.split("//")[1].split("@")[0]
    forged = {"kind": "approve", "seq": 900, "at": "2001-01-01T00:00:00+00:00", "v": 1}
    who = {"operator": "boss", "os_user": "boss", "db_role": "boss"}
    about = json.dumps({**forged, "who": who, "entries": []})
    async with postgres_store.connect(target) as connection:
        call = "SELECT dlq_console.append_event('view', $1, $2, '{-1,5}')"
        await connection.execute(call, about, json.dumps(who))
        for broken in ("{}", "[]", '{"a":1', '{"a":1}}', '{"a":1},"kind":"approve","z":{"b":1}', " {}", "null"):
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute(call, broken, json.dumps(who))
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute(call, about, broken)
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute("SELECT dlq_console.append_event($1, $2, $2, NULL)", 'x","y":"', about)
    store = await postgres_store.open()
    (event,) = await events_of(store)
    told = json.loads(event.body)
    assert (told["kind"], told["seq"], told["v"], told["who"]["db_role"]) == ("view", 1, 2, role)
    assert told["at"][:4] != "2001"
    assert await postgres_store.sql("SELECT mark FROM dlq_console.audit_entry") == [(5,)]
    assert (await verdict(store))[0] is None


async def test_a_role_set_by_alter_role_is_not_another_person(postgres_store: PostgresRig) -> None:
    await enforced(postgres_store)
    target = await login(postgres_store, "ops")
    other = await login(postgres_store, "second")
    role, become = (one.split("//")[1].split("@")[0] for one in (target, other))
    store = await postgres_store.open(target=target)
    await store.ask("p", "one order", ACTOR, why(), document=DOCUMENT)
    await postgres_store.sql(f'GRANT "{become}" TO "{role}"')
    await postgres_store.sql(f'ALTER ROLE "{role}" SET role = "{become}"')
    changed = await postgres_store.open(target=target)
    assert (changed.info.role, changed.info.login) == (become, role)
    assert await approvals(changed, OTHER).approve("p") == "own"
    assert not await approvals(store, ACTOR).given("p")
    assert json.loads((await events_of(store))[-1].body)["who"]["db_role"] == role


async def _forged(rig: Rig, store: SQLStore) -> None:
    """An approval row written behind the console's back, by somebody who may write the table."""
    await store.ask("p", "one order", ACTOR, why(), document=DOCUMENT)
    now = "extract(epoch FROM clock_timestamp())" if rig.on_postgres else "unixepoch('now')"
    await rig.sql(f"UPDATE {rig.ledger('approval')} SET approved_by = 'boss|boss', approved_at = {now} + 3600")


async def test_a_forged_approval_row_counts_for_nothing(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await _forged(store_rig, store)
    asker = approvals(store, ACTOR)
    assert not await asker.given("p")
    await store_rig.sql(f"UPDATE {store_rig.ledger('approval')} SET approved_event = asked_event")
    assert not await asker.given("p")
    assert any("approved_by is boss|boss" in one for one in (await examine(store)).differences)


async def test_an_approval_is_of_the_document_that_was_asked_for(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await store.ask("p", "one order", ACTOR, why(), document=DOCUMENT)
    assert await store.approve("p", OTHER, why())
    assert await approvals(store, ACTOR).given("p"), "advisory: another OS user will do"
    await store_rig.sql(f"UPDATE {store_rig.ledger('approval')} SET document = '{{}}'")
    assert not await approvals(store, ACTOR).given("p")
    assert "document" in "".join((await examine(store)).differences)


async def test_one_person_in_a_namespace_of_their_own_stays_one(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    mapped = Actor("bob", "daemon", ACTOR.host, "dlq", uid=1, foreign_namespace=True)
    await store.ask("p", "one order", ACTOR, why(), document=DOCUMENT)
    assert await approvals(store, mapped).approve("p") == "own"
    assert await store.approve("p", mapped, why()), "even if its event were written"
    kept = await store.approval("p")
    assert kept is not None
    assert kept.approved == Person("daemon", kept.asked.role, ACTOR.host, 1, foreign_namespace=True)
    assert not await approvals(store, ACTOR).given("p")
    assert await Approvals(store, ACTOR, clock.now, lambda: SecondPerson(allow_userns=True)).given("p")


async def test_deleting_the_halt_lifts_nothing(store_rig: Rig) -> None:
    await store_rig.make(2)
    store = await store_rig.open()
    await store.halt(ACTOR, why(note="odd"))
    before = await store.halted()
    assert isinstance(before, Halt)
    await store_rig.sql(f"DELETE FROM {store_rig.ledger('halt')}")
    assert await store.halted() == before
    entry = await entry_of(store)
    refused = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert isinstance(refused, ClaimRefused)
    assert refused.code == "halt"
    (difference,) = (await examine(store)).differences
    assert "the table has lost it" in difference
    await store.resume(ACTOR, why(note="well again"))
    assert await store.halted() is None
    assert isinstance(await store.claim(entry.id, entry.version, ACTOR, 30), Claim)
    assert (await examine(store)).differences == ()
    await store_rig.sql(f"INSERT INTO {store_rig.ledger('halt')} VALUES (1, 'x', 'y', 'z')")
    assert await store.halted() is None, "a planted row sets nothing"
    assert "lifted" in "".join((await examine(store)).differences)


RESUME = "SELECT dlq_console.lift_halt($1, $2)"
ASK = "SELECT dlq_console.ask_approval('r', 's', $1, 'd', '', 'ann', $2, $2)"
APPROVE = "SELECT dlq_console.approve_plan('r', $1, 'ann', $2, $2)"
TOLD = """{"who":{"os_user":"boss","db_role":"boss"},"kind":"approve","approved_event":1}"""


async def _halted_live(rig: PostgresRig, **policy: str) -> tuple[SQLStore, str, str]:
    """A live store that is halted, and the logins of an operator and of a second one."""
    await enforced(rig)
    await (await rig.open()).set_policy({"environment": '"live"', **policy}, ACTOR, why())
    ops, second = await login(rig, "ops"), await login(rig, "second")
    store = await rig.open(target=ops)
    await store.halt(ACTOR, why(note="odd"))
    return store, ops, second


async def _tell(rig: PostgresRig, target: str, statement: str, *given: object) -> None:
    async with rig.connect(target) as connection:
        await connection.execute(statement, *given)


async def test_an_operator_cannot_lift_the_halt_of_a_live_store_by_sql(postgres_store: PostgresRig) -> None:
    store, ops, second = await _halted_live(postgres_store)

    async def refused() -> None:
        with pytest.raises(asyncpg.CheckViolationError):
            await _tell(postgres_store, ops, RESUME, TOLD, TOLD)
        assert await store.halted() is not None

    await refused()
    await _tell(postgres_store, ops, ASK, "resume", TOLD)
    await refused()
    await _tell(postgres_store, ops, APPROVE, "approve", TOLD)  # becomes an event of a refused approval
    await refused()
    await _tell(postgres_store, ops, APPROVE, "self-approved", TOLD)  # the policy has no delay
    await refused()
    with pytest.raises(ActRefused):
        await store.resume(ACTOR, why(note="well again"))
    await _tell(postgres_store, second, APPROVE, "approve", TOLD)
    await _tell(postgres_store, ops, RESUME, TOLD, TOLD)
    assert await store.halted() is None
    resumed = json.loads((await events_of(store))[-1].body)
    assert (resumed["kind"], resumed["approved_event"]) == ("resume", resumed["seq"] - 1)
    await store.halt(ACTOR, why(note="odd again"))
    await refused()
    assert (await examine(store)).differences == ()


async def test_what_two_agreed_to_otherwise_lifts_no_halt(postgres_store: PostgresRig) -> None:
    store, ops, second = await _halted_live(postgres_store)
    await _tell(postgres_store, ops, ASK, "replay", TOLD)
    await _tell(postgres_store, second, APPROVE, "approve", TOLD)
    with pytest.raises(asyncpg.CheckViolationError):
        await _tell(postgres_store, ops, RESUME, TOLD, TOLD)
    for asked_for in ("settle", "resume"):  # the approval of the same plan is not one of something else
        await _tell(postgres_store, ops, ASK, asked_for, TOLD)
        with pytest.raises(asyncpg.CheckViolationError):
            await _tell(postgres_store, ops, RESUME, TOLD, TOLD)
    assert await store.halted() is not None


@pytest.mark.parametrize("age", [-60, 290, 310])
async def test_an_agreement_to_resume_counts_for_five_minutes(postgres_store: PostgresRig, age: int) -> None:
    store, ops, second = await _halted_live(postgres_store)
    await _tell(postgres_store, ops, ASK, "resume", TOLD)
    await _tell(postgres_store, second, APPROVE, "approve", TOLD)
    agreed = await postgres_store.sql(f"SELECT dlq_console.resume_agreed(clock_timestamp() + interval '{age} seconds')")
    assert (agreed[0][0] is not None) == (0 <= age <= 300)
    assert await store.halted() is not None


@pytest.mark.parametrize(("delay", "waited", "lifts"), [("60s", 61, True), ("60s", 59, False), ("2m", 119, False)])
async def test_the_asker_alone_waits_for_the_policys_delay(
    postgres_store: PostgresRig, delay: str, waited: int, lifts: bool
) -> None:
    store, ops, _ = await _halted_live(postgres_store, second_person=f'"delay {delay}"')
    await _tell(postgres_store, ops, ASK, "resume", TOLD)
    # As if it had been asked earlier: only the owner can say so.
    async with postgres_store.connect() as owner:
        await owner.execute("ALTER TABLE dlq_console.audit DISABLE TRIGGER ALL")
        ((asked, body),) = await owner.fetch("SELECT seq, body FROM dlq_console.audit ORDER BY seq DESC LIMIT 1")
        told = json.loads(body)
        earlier = datetime.fromisoformat(told["at"]) - timedelta(seconds=waited)
        moved = body.replace(told["at"].encode(), earlier.isoformat().encode())
        await owner.execute("UPDATE dlq_console.audit SET body = $1 WHERE seq = $2", moved, asked)
    await _tell(postgres_store, ops, APPROVE, "self-approved", TOLD)
    if lifts:
        await _tell(postgres_store, ops, RESUME, TOLD, TOLD)
    else:
        with pytest.raises(asyncpg.CheckViolationError):
            await _tell(postgres_store, ops, RESUME, TOLD, TOLD)
    assert (await store.halted() is None) == lifts


async def test_an_attempt_is_of_the_role_that_logged_in_whatever_it_says(postgres_store: PostgresRig) -> None:
    """What a role sent in the last hour counts towards its limit."""
    await enforced(postgres_store)
    ops = await login(postgres_store, "ops")
    await _tell(
        postgres_store,
        ops,
        "INSERT INTO dlq_console.attempt (source, entry_id, attempt_no, mode, rehearsal, venue, client_order_id, "
        "payload, payload_hash, started_at, operator, os_user, token, state, role) VALUES ('public.order_dlq', "
        "'x', 1, 'live', 0, 'alpaca', 'c', '', 'h', 'now', 'boss', 'boss', 1, 'accepted', 'boss')",
    )
    ((role,),) = await postgres_store.sql("SELECT role FROM dlq_console.attempt")
    assert role == ops.split("//")[1].split("@")[0]
    (named,) = (await examine(await postgres_store.open())).differences
    assert "attempt 1 of x: the chain does not know it" in named


CHANGES: dict[str, tuple[str, str]] = {
    "an accepted attempt set to rejected": (
        "UPDATE {attempt} SET state = 'rejected', holds = NULL WHERE state = 'accepted'",
        f"attempt 1 of {FIRST}: state is rejected, the chain says accepted",
    ),
    "holds taken away": (
        "UPDATE {attempt} SET holds = NULL WHERE state = 'accepted'",
        f"attempt 1 of {FIRST}: holds is none, the chain says 1",
    ),
    "an attempt in doubt closed": (
        "UPDATE {attempt} SET state = 'absent', holds = NULL WHERE state = 'in_doubt'",
        "state is absent, the chain says in_doubt",
    ),
    "an attempt in doubt set free": ("UPDATE {attempt} SET holds = NULL WHERE state = 'in_doubt'", "holds is none"),
    "another venue order": (
        "UPDATE {attempt} SET venue_order_id = 'x' WHERE state = 'accepted'",
        "venue_order_id is x",
    ),
    "a planted attempt": (
        "INSERT INTO {attempt} (id, source, entry_id, attempt_no, mode, rehearsal, venue, client_order_id, payload, "
        "payload_hash, started_at, operator, os_user, token, state) "
        "SELECT 99, source, entry_id, 7, mode, 1, venue, client_order_id, payload, payload_hash, "
        "started_at, operator, os_user, token, 'rejected' FROM {attempt} "
        "WHERE state = 'accepted'",
        f"attempt 7 of {FIRST}: the chain does not know it",
    ),
    "an attempt removed": (
        "DELETE FROM {attempt} WHERE state = 'accepted'",
        f"attempt 1 of {FIRST}: the table has lost it; the chain says accepted",
    ),
    "an attempt in doubt removed": (
        "DELETE FROM {attempt} WHERE state = 'in_doubt'",
        "the table has lost it; the chain says in_doubt",
    ),
    "another error": (
        "UPDATE {attempt} SET error = 'yes' WHERE state = 'rejected'",
        "error is yes, the chain says no",
    ),
    "a planted note": (
        "INSERT INTO {note} (id, source, entry_id, at, operator, text) VALUES (99, 'order_dlq', 'x', 'y', 'boss', 'z')",
        "note on x by boss: the chain does not know it",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_verify_names_what_differs_from_the_chain(store_rig: Rig, name: str) -> None:
    await store_rig.make(4)
    store = await store_rig.open()
    await attempt_on(store, 0, Result("accepted", "v"))
    await attempt_on(store, 1, Result("unknown"))
    await attempt_on(store, 2, Result("rejected", error="no"))
    await attempt_on(store, 3)
    await store.note(FIRST, ACTOR, why(note="seen"))
    assert (await examine(store)).differences == ()
    change, told = CHANGES[name]
    if change.startswith("DELETE"):  # as only an owner can
        trigger = "attempt_del ON dlq_console.attempt" if store_rig.on_postgres else "console_attempt_del"
        await store_rig.sql(f"DROP TRIGGER {trigger}")
    await store_rig.sql(change.format(attempt=store_rig.ledger("attempt"), note=store_rig.ledger("note")))
    seen = await examine(store)
    assert seen.problem is None
    assert len(seen.differences) == 1, seen.differences
    assert told in seen.differences[0]


async def test_the_roles_do_what_their_names_say(postgres_store: PostgresRig) -> None:
    await enforced(postgres_store)
    targets = {role.name: await login(postgres_store, role.name, role) for role in (OPERATOR, APPROVER, AUDITOR)}
    ops = await postgres_store.open(target=targets["dlq_operator"])
    await attempt_on(ops, 0, Result("accepted", "v"))
    assert (await ops.dismiss(await pick(ops, 1), ACTOR, why())).done
    await ops.ask("p", "one order", ACTOR, why(), document=DOCUMENT)
    for name in ("dlq_approver", "dlq_auditor"):
        store = await postgres_store.open(target=targets[name])
        assert (await entry_of(store)).state == "replayed"
        assert (await examine(store)).differences == ()
        for act in _acts(store):
            with pytest.raises(ActRefused, match="this role may not do that"):
                await act
        with pytest.raises(ActRefused):
            await store.dismiss(await pick(store, 2), ACTOR, why())
        if name == "dlq_auditor":
            assert store.info.read_only_enforced_by == "database"
            with pytest.raises(ActRefused):
                await store.approve("p", OTHER, why())
        else:
            assert await store.approve("p", OTHER, why())
    assert await approvals(ops, ACTOR).given("p")
    assert (await examine(ops)).differences == ()


def _acts(store: SQLStore) -> list[Awaitable[object]]:
    return [
        store.halt(ACTOR, why()),
        store.resume(ACTOR, why()),
        store.note(FIRST, ACTOR, why(note="n")),
        store.record("view", (), ACTOR, why()),
        store.ask("q", "s", ACTOR, why()),
    ]
