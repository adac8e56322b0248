"""Doctor's SQL really run by an owner on a fresh database, and every verb as operator, approver and auditor."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.command import Console, Ran
from tests.support.exchange import Exchange, in_thread
from tests.support.orders import postgres_store, row
from tests.support.session import ident

GROUPS = ("dlq_operator", "dlq_approver", "dlq_auditor")
MISSING = (  # another test of this server may have left one
    "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{0}') "
    "THEN CREATE ROLE {0} NOLOGIN; END IF; END $$"
)


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


def sql(target: str, *statements: str) -> None:
    async def told() -> None:
        connection = await asyncpg.connect(target)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(told())


@pytest.fixture
def desk(tmp_path: Path, postgres_db: str, exchange: Exchange) -> Iterator[Callable[[str], Console]]:
    """A console as a login role of that name; the store is a fresh database."""
    fresh = datetime.now(UTC) - timedelta(seconds=5)
    rows = [row(n, captured_at=fresh, quantity=float(n), price=18.0) for n in range(1, 6)]
    postgres_store(postgres_db, rows)
    name = postgres_db.rpartition("/")[2]

    def at(login: str) -> Console:
        folder = tmp_path / login
        folder.mkdir(exist_ok=True)
        target = postgres_db.replace("postgres@", f"{login}_{name}@")
        return Console(folder, target, exchange.url, limits={"four_eyes_over": 60}, store={"environment": "live"})

    yield at
    sql(postgres_db, *(f"DROP OWNED BY {group} CASCADE; DROP ROLE {group}" for group in GROUPS))


def plan_of(ran: Ran) -> str:
    found = re.search(r"plan ([0-9a-f]{16})", ran.err)
    assert found, ran.err
    return found[1]


def test_what_doctor_prints_makes_three_roles_that_do_what_they_say(
    desk: Callable[[str], Console], postgres_db: str, exchange: Exchange
) -> None:
    name = postgres_db.rpartition("/")[2]
    logins = {login: f"{login}_{name}" for login in ("looker", "ops", "boss", "audits")}
    sql(postgres_db, *(f"CREATE ROLE {role} LOGIN" for role in logins.values()))
    sql(postgres_db, f"GRANT SELECT ON order_dlq TO {logins['looker']}")
    told = desk("looker").inline("doctor", "--json").row
    assert list(told["grants"]) == ["owner", "operator", "approver", "auditor"], "before anything was tried"
    assert "advisory" not in {one["code"] for one in told["findings"]}
    shown = desk("looker").inline("doctor").out
    assert all(f"TO {group};" in shown for group in GROUPS)
    sql(postgres_db, *told["grants"].values())
    sql(postgres_db, *(f"GRANT {group} TO {logins[one]}" for group, one in zip(GROUPS, list(logins)[1:], strict=True)))
    ops, boss, audits = (desk(login) for login in ("ops", "boss", "audits"))
    assert ops.inline("doctor", "--json").row["reads_all"] is True
    assert desk("looker").inline("doctor", "--json").row["reads_all"] is False

    assert len(ops.inline("list", "--json").rows) == 5
    assert ops.inline("dismiss", ident(1), "--reason", "test", "--yes").code == 0
    assert ops.inline("ask", ident(2), "--live", "--json").row["answer"] in ("absent", "unknown")
    assert ops.inline("replay", ident(2), "--live", "--yes").code == 0
    asked = ops.inline("replay", ident(4), "--live", "--yes")
    plan = plan_of(asked)
    assert (asked.code, len(exchange.orders)) == (4, 1)
    assert ops.inline("approve", plan, "--yes").code == 4, "the same login cannot"
    assert boss.inline("approve", "--json").row["plan"] == plan
    assert boss.inline("approve", plan, "--yes").code == 0
    assert ops.inline("replay", ident(4), "--live", "--yes").code == 0
    assert len(exchange.orders) == 2

    for refused in (boss, audits):
        for verb in (
            ("dismiss", ident(3), "--reason", "test", "--yes"),
            ("replay", ident(3), "--live", "--yes"),
            ("halt", "--note", "x"),
        ):
            assert refused.inline(*verb).code == 4, verb
    assert len(exchange.orders) == 2
    for reads in (("list",), ("audit", "verify"), ("audit", "export"), ("export", "--format", "csv"), ("metrics",)):
        for console in (boss, audits):
            assert console.inline(*reads).code == 0, reads
    assert audits.inline("report", "--since", "8h").code == 0
    assert audits.inline("check").code in (0, 1)
    assert audits.inline("doctor", "--json").row["read_only_enforced_by"] == "database"


def test_resume_on_a_live_store_takes_another_login_and_deleting_the_halt_does_nothing(
    desk: Callable[[str], Console], postgres_db: str, exchange: Exchange
) -> None:
    name = postgres_db.rpartition("/")[2]
    sql(postgres_db, *(f"CREATE ROLE {one}_{name} LOGIN; GRANT SELECT ON order_dlq TO {one}_{name}" for one in "ab"))
    sql(postgres_db, *desk("a").inline("doctor", "--json").row["grants"].values())
    sql(postgres_db, *(f"GRANT dlq_operator TO {one}_{name}" for one in "ab"))
    ops, second = desk("a"), desk("b")
    assert ops.inline("halt", "--note", "odd fills").code == 0
    held = ops.inline("resume", "--note", "well again")
    assert held.code == 4
    assert ops.inline("approve", plan_of(held), "--yes").code == 4
    sql(postgres_db, "DELETE FROM dlq_console.halt")
    assert ops.inline("replay", ident(2), "--live", "--yes").code == 4, "still halted"
    broken = ops.inline("audit", "verify")
    assert (broken.code, "the table has lost it" in broken.err) == (1, True)
    assert second.inline("approve", plan_of(held), "--yes").code == 0
    assert ops.inline("resume", "--note", "well again").code == 0
    assert ops.inline("replay", ident(2), "--live", "--yes").code == 0
    assert ops.inline("audit", "verify").code == 0
    assert len(exchange.orders) == 1


def test_an_owner_who_acts_is_told_that_four_eyes_is_advisory(
    desk: Callable[[str], Console], postgres_db: str, tmp_path: Path
) -> None:
    del tmp_path
    owner = replace(desk("x"), target=postgres_db)
    sql(postgres_db, *(MISSING.format(group) for group in GROUPS))
    for made in ("there is none yet", "it made one"):
        (finding,) = [one for one in owner.inline("doctor", "--json").row["findings"] if one["code"] == "advisory"]
        assert "advisory" in finding["text"], made
        assert ("CREATE SCHEMA" in finding["remedy"]) == (made == "there is none yet")
        assert owner.inline("dismiss", ident(1 if "none" in made else 3), "--reason", "test", "--yes").code == 0
    other = f"acting_{postgres_db.rpartition('/')[2]}"
    sql(postgres_db, f"CREATE ROLE {other} LOGIN", finding["remedy"], f"GRANT SELECT ON order_dlq TO {other}")
    grants: dict[str, Any] = owner.inline("doctor", "--json").row["grants"]
    sql(postgres_db, *grants.values(), f"GRANT dlq_operator TO {other}")
    acting = replace(owner, target=postgres_db.replace("postgres@", f"{other}@"))
    assert "advisory" not in {one["code"] for one in acting.inline("doctor", "--json").row["findings"]}
    assert acting.inline("dismiss", ident(2), "--reason", "test", "--yes").code == 0
    sql(postgres_db, "DROP OWNED BY dlq_owner CASCADE; DROP ROLE dlq_owner")
