"""The policy against people who send: a config that lifts limits, a split plan, two consoles, one's own approval."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from backends.ledger.policy import digest
from tests.services.test_cli_replay import order
from tests.support.command import Console, Ran
from tests.support.exchange import Exchange, in_thread
from tests.support.orders import postgres_store, sqlite_store
from tests.support.session import ident
from tests.support.terminal.pty import Terminal

LAX = {"max_notional": 10**9, "four_eyes_over": 10**9, "max_batch": 1000, "stale_after": "9h"}


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def console(request: pytest.FixtureRequest, tmp_path: Path, exchange: Exchange) -> Any:
    """A console of somebody whose own config lifts every limit."""

    def made(rows: list[dict[str, Any]], name: str = "", **given: Any) -> Console:
        folder = tmp_path / name if name else tmp_path
        folder.mkdir(exist_ok=True)
        if request.param == "sqlite":
            target = str(tmp_path / "orders.db")
            if rows:
                sqlite_store(tmp_path / "orders.db", rows)
        else:
            target = request.getfixturevalue("postgres_db")
            if rows:
                postgres_store(target, rows)
        return Console(folder, target, exchange.url, **{"limits": LAX, **given})

    return made


def policy(pool: Console, *words: str) -> None:
    assert pool.inline("policy", "set", *words).code == 0


def sql(pool: Console, statement: str) -> list[tuple[Any, ...]]:
    """Past the console; `console_` names the ledger's tables."""
    if not pool.target.startswith("postgresql"):
        with closing(sqlite3.connect(pool.target, isolation_level=None)) as connection:
            return [tuple(row) for row in connection.execute(statement)]

    async def run() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(pool.target)
        try:
            return [tuple(row) for row in await connection.fetch(statement.replace("console_", "dlq_console."))]
        finally:
            await connection.close()

    return asyncio.run(run())


def events(pool: Console, kind: str) -> list[dict[str, Any]]:
    return [one for one in pool.inline("audit", "export").rows if one["kind"] == kind]


def plan_of(ran: Ran) -> str:
    found = re.findall(r"^plan (\w+)$", ran.err, re.MULTILINE)
    assert found, ran.err
    return str(found[-1])


def test_an_own_config_lifts_no_limit_of_the_policy(console: Any, exchange: Exchange) -> None:
    pool = console([order(1), order(2)])
    policy(pool, "max_notional=20")
    (one, two) = pool.inline("replay", ident(1), ident(2), "--paper", "--dry-run", "--json").rows
    assert [one["outcome"], two["outcome"]] == ["planned", "refused"]
    assert two["guards"][0]["code"] == "notional"
    said = "in force: max_notional=20 (the store's policy; the config says 1000000000)"
    assert said in one["notes"]
    assert said in two["notes"]
    shown = pool.inline("replay", ident(1), "--paper", "--dry-run")
    assert said in shown.err
    ran = pool.inline("replay", ident(1), ident(2), "--paper", "--json")
    assert ran.outcomes == {ident(1): "accepted", ident(2): "refused"}
    (intent,) = events(pool, "intent")
    assert intent["policy"] == digest({"max_notional": "20"})


def test_a_stricter_config_still_counts(console: Any, exchange: Exchange) -> None:
    pool = console([order(1), order(2)], limits={"max_batch": 1})
    policy(pool, "max_batch=9")
    ran = pool.inline("replay", ident(1), ident(2), "--paper", "--json")
    assert sorted(ran.outcomes.values()) == ["accepted", "refused"]


def test_an_intent_names_the_empty_policy_too(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    assert pool.inline("replay", ident(1), "--paper").code == 0
    assert [one["policy"] for one in events(pool, "intent")] == [digest({})]


@pytest.mark.parametrize(
    ("said", "config", "mode", "outcome"),
    [
        ("paper", {"environment": "live"}, "--live", "refused"),
        ("live", {"environment": "paper"}, "--live", "refused"),
        ("live", {}, "--paper", "accepted"),
    ],
)
def test_the_policys_environment_counts(
    console: Any, exchange: Exchange, said: str, config: dict[str, str], mode: str, outcome: str
) -> None:
    pool = console([order(1)], store=config)
    policy(pool, f"environment={said}")
    ran = pool.inline("replay", ident(1), mode, "--yes", "--json")
    assert ran.outcomes == {ident(1): outcome}
    if outcome == "refused":
        assert (exchange.posts, "paper-store" in ran.row["detail"]) == ([], True)
    else:
        assert pool.inline("show", ident(1), "--json").row["entry"]["state"] == "pending", "a rehearsal"


def test_the_policys_labels_count_alone(console: Any, exchange: Exchange) -> None:
    pool = console([order(1, action_json=json.dumps({"desk": "fx"}))], limits={"labels": ["desk"]})
    policy(pool, "labels=[book]")
    assert pool.inline("replay", ident(1), "--paper", "--json").outcomes == {ident(1): "refused"}
    policy(pool, "labels=[desk]")
    assert pool.inline("replay", ident(1), "--paper", "--json").outcomes == {ident(1): "accepted"}


def test_a_policy_that_somebody_spoilt_sends_nothing(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)], store={"environment": "live"})
    policy(pool, "max_batch=3")
    assert pool.inline("halt").code == 0
    sql(pool, "INSERT INTO console_policy (key, value) VALUES ('max_notional', 'all')")
    for words in (
        ("replay", ident(1), "--paper", "--yes"),
        ("resume", "--note", "x"),
        ("replay", ident(1), "--paper", "--dry-run"),
    ):
        ran = pool.inline(*words)
        assert (ran.code, "max_notional" in ran.err, exchange.posts) == (4, True, []), ran
    assert pool.inline("halt").code == 0, "stopping is never gated"


def test_a_plan_in_many_pieces_is_one_plan_of_the_hour(console: Any, exchange: Exchange) -> None:
    """order(n) is worth 18·n: 18 + 36 are under 60, the third is not, whatever it is sent with."""
    pool = console([order(n) for n in range(1, 5)])
    policy(pool, "four_eyes_over=60")
    for number in (1, 2):
        assert pool.inline("replay", ident(number), "--paper", "--operator", f"label-{number}").code == 0
    third = pool.inline("replay", ident(3), "--paper", "--operator", "somebody-else")
    assert (third.code, "sent in the last hour" in third.err, len(exchange.posts)) == (4, True, 2)
    assert (plan_of(third) != "", "second_person" in third.err) == (True, True)
    other = console([], name="second-console")
    assert other.inline("replay", ident(4), "--paper").code == 4
    assert len(exchange.posts) == 2


def test_shares_of_several_currencies_add_up_over_the_hour(console: Any, exchange: Exchange) -> None:
    pool = console([order(1), order(2)])
    policy(pool, "four_eyes_over={ USD = 60, default = 60 }")
    assert pool.inline("replay", ident(1), "--paper").code == 0
    sql(
        pool,
        "INSERT INTO console_attempt (source, entry_id, attempt_no, mode, rehearsal, venue, client_order_id, "
        "payload, payload_hash, started_at, operator, os_user, token, state, holds, role, notional, currency) "
        "SELECT source, 'elsewhere', 1, mode, 0, venue, 'x', payload, 'x', started_at, operator, os_user, token, "
        "'in_doubt', 1, role, '20', 'EUR' FROM console_attempt",
    )
    ran = pool.inline("replay", ident(2), "--paper", "--dry-run")
    assert "over the limits of its currencies taken together" in ran.err, "54 of 60 USD and 20 of 60 EUR"


def test_rehearsals_and_other_modes_count_nothing(console: Any, exchange: Exchange) -> None:
    pool = console([order(1), order(2)])
    policy(pool, "four_eyes_over=40", "environment=live")
    for number in (1, 2, 1, 2):
        assert pool.inline("replay", ident(number), "--paper").code == 0
    ran = pool.inline("replay", ident(2), "--live", "--yes", "--json")
    assert ran.outcomes == {ident(2): "accepted"}, ran


def test_the_asker_approves_alone_after_the_policys_delay(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    policy(pool, "four_eyes_over=1", "second_person=delay 60s")
    asked = pool.inline("replay", ident(1), "--paper")
    plan = plan_of(asked)
    assert (asked.code, "60 s after asking" in asked.err) == (4, True)
    assert _types(pool, plan) == 4, "too early"
    headless = pool.inline("approve", plan, "--yes")
    assert (headless.code, "second_person" in headless.err) == (4, True)
    sql(pool, "UPDATE console_approval SET asked_at = asked_at - 61")
    headless = pool.inline("approve", plan, "--yes")
    assert (headless.code, "by typing" in headless.err) == (4, True)
    assert _types(pool, plan) == 0
    assert len(events(pool, "self-approved")) == 1
    assert events(pool, "approve") == []
    policy(pool, "second_person=other")
    assert pool.inline("replay", ident(1), "--paper").code == 4, "the policy in force now decides"
    policy(pool, "second_person=delay 60s")
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert ran.outcomes == {ident(1): "accepted"}, ran


def test_an_own_request_expires_like_any_other(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    policy(pool, "four_eyes_over=1", "second_person=delay 60s")
    plan = plan_of(pool.inline("replay", ident(1), "--paper"))
    sql(pool, "UPDATE console_approval SET asked_at = asked_at - 301")
    assert _types(pool, plan) == 4
    assert pool.inline("replay", ident(1), "--paper").code == 4
    assert exchange.posts == []


def _types(pool: Console, plan: str) -> int:
    with Terminal(pool.words("approve", plan), pool.environ, is_forked=True) as terminal:
        terminal.until(lambda: "type approve 1:" in terminal.text, "asks")
        terminal.type("approve 1\r")
        code = terminal.ended()
        assert code is not None
        return code
