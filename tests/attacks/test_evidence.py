"""One person does not become two, limits are the owner's, and what was done cannot be hidden."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.attacks.conftest import COMMAND, FIRST, SECONDS, Desk, Ran, add, sql

LIVE = ("replay", FIRST, "--live", "--yes", "--json", "--db", "desk")
PAPER = ("replay", FIRST, "--paper", "--yes", "--json", "--db", "desk")


def asked(desk: Desk, exchange: str, target: str) -> str:
    """A plan over four_eyes_over waits for a second person; its hash."""
    add(target)
    desk.trading(exchange, target, four_eyes_over=1)
    ran = desk(*LIVE)
    assert ran.code == 4, ran
    found = re.findall(r"\b(?:plan|approve) ([0-9a-f]{8,})", ran.out + ran.err)
    assert found, ran
    return str(found[-1])


def is_sent(ran: Ran) -> bool:
    return "accepted" in ran.out


def test_one_person_in_a_namespace_of_their_own_approves_nothing(desk: Desk, exchange: str, sqlite_target: str) -> None:
    mapped = ["unshare", "--user", "--map-user=1"]
    if not shutil.which("unshare") or subprocess.run([*mapped, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    plan = asked(desk, exchange, sqlite_target)
    for words in (("approve", plan, "--yes"), ("approve", plan)):
        command = [*mapped, *COMMAND, *desk.words(*words, "--db", "desk")]
        subprocess.run(command, env=desk.environ, cwd=desk.folder, stdin=subprocess.DEVNULL, check=False)
    assert not is_sent(desk(*LIVE))


def test_one_person_under_another_roles_name_approves_nothing(desk: Desk, exchange: str, postgres_target: str) -> None:
    """The role that acts can be set for every login; the role that logged in cannot."""
    name = postgres_target.rpartition("/")[2]
    ops, boss = f"ops_{name}", f"boss_{name}"
    for role in (ops, boss):
        sql(postgres_target, f'CREATE ROLE "{role}" LOGIN SUPERUSER')
    asking = postgres_target.replace("//postgres@", f"//{ops}@")
    plan = asked(desk, exchange, asking)
    sql(postgres_target, f'ALTER ROLE "{ops}" IN DATABASE "{name}" SET role = "{boss}"')
    for words in (("approve", plan, "--yes"), ("approve", plan)):
        desk(*words, "--db", "desk")
    sql(postgres_target, f'ALTER ROLE "{ops}" IN DATABASE "{name}" RESET role')
    assert not is_sent(desk(*LIVE))


def test_a_plan_in_parts_needs_a_second_person_too(desk: Desk, exchange: str, target: str) -> None:
    """Each part is below the limit, and all of them together are above it."""
    name = target.rpartition("/")[2]  # the exchange is one for all, and knows the orders of the other store
    ids = [add(target, n, quantity=float(n), client_order_id=f"{name}-{n}") for n in (1, 2, 3)]
    desk.trading(exchange, target, four_eyes_over=50)
    sent = [desk("replay", one, "--live", "--yes", "--json", "--db", "desk") for one in ids]
    assert is_sent(sent[0])
    assert not is_sent(sent[2])


def test_an_approval_written_into_the_table_counts_for_nothing(desk: Desk, exchange: str, target: str) -> None:
    """With a time to come, so that its age is below every limit."""
    asked(desk, exchange, target)
    now = "extract(epoch FROM clock_timestamp())" if target.startswith("postgresql") else "unixepoch('now')"
    sql(target, f"UPDATE console_approval SET approved_by = 'boss|boss', approved_at = {now} + 3600")
    assert not is_sent(desk(*LIVE))


def test_an_own_config_lifts_no_limit_of_the_owner(desk: Desk, exchange: str, target: str) -> None:
    add(target)
    assert desk("policy", "set", "max_notional=1", "--db", target).code == 0
    desk.trading(exchange, target, max_notional=10**9, four_eyes_over=10**9)
    assert desk(*PAPER).outcomes == ["refused"]


def test_a_halt_whose_row_is_deleted_is_still_a_halt(desk: Desk, exchange: str, target: str) -> None:
    add(target)
    desk.trading(exchange, target)
    assert desk("halt", "--note", "odd", "--db", "desk").code == 0
    sql(target, "DELETE FROM console_halt")
    assert not is_sent(desk(*PAPER))


def test_an_order_that_was_accepted_cannot_be_made_a_rejected_one(desk: Desk, exchange: str, target: str) -> None:
    add(target)
    desk.trading(exchange, target)
    assert is_sent(desk(*PAPER))
    assert desk("audit", "verify", "--db", "desk").code == 0
    sql(target, "UPDATE console_attempt SET state = 'rejected', holds = NULL")
    assert desk("audit", "verify", "--db", "desk").code == 1


def test_who_cannot_read_the_ledger_is_told_no_all_clear(desk: Desk, postgres_target: str) -> None:
    add(postgres_target)
    add(postgres_target, 2)
    assert desk("dismiss", "dlq_0000000000000002", "--reason", "test", "--yes", "--db", postgres_target).code == 0
    sql(
        postgres_target,
        "INSERT INTO console_attempt (source, entry_id, attempt_no, mode, rehearsal, venue, client_order_id, payload, "
        "payload_hash, started_at, operator, os_user, token, state, holds) VALUES ('public.order_dlq', ?, 1, 'live', "
        "0, 'alpaca', 'c', '', 'h', 'now', 'ann', 'ann', 1, 'in_doubt', 1)",
        FIRST,
    )
    role = f"monitor_{postgres_target.rpartition('/')[2]}"
    sql(postgres_target, f'CREATE ROLE "{role}" LOGIN')
    sql(postgres_target, f'GRANT SELECT ON order_dlq TO "{role}"')
    monitor = postgres_target.replace("//postgres@", f"//{role}@")
    desk.config = '[alerts]\ndepth = 1000\noldest = "9h"\ndominance = 1.0\n'
    assert desk("check", "--db", monitor, timeout=SECONDS).code not in (0, None)
    assert not re.search(r"^dlq_in_doubt\S* 0", desk("metrics", "--db", monitor).out, re.MULTILINE)
    assert "Nothing" not in desk("report", "--db", monitor).out
