"""`dlq policy`: who may set it, what it prints, and what `doctor` says is in force."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Dlq, Make, fetch
from tests.support.orders import postgres_store, row, sqlite_store
from tests.support.other_user import needs_root

SET = ("environment=live", "max_batch=5", "max_notional={ USD = 50000, default = 10 }", "second_person=delay 60s")
PRINTED = ["environment=live", "max_batch=5", "max_notional={ USD = 50000, default = 10 }", 'second_person="delay 60s"']


def events(dlq: Dlq, target: str) -> list[dict[str, object]]:
    return [one for one in dlq("audit", "export", "--db", target).rows if one["kind"] == "policy"]


def test_a_policy_is_set_printed_and_taken_away_on_record(dlq: Dlq, make: Make) -> None:
    target = make([row(0)])
    nothing = dlq("policy", "--db", target)
    assert (nothing.code, nothing.out, "no policy is set" in nothing.err) == (0, "", True)
    assert "console" not in json.dumps(fetch(target, _tables(target))), "looking makes no ledger"
    made = dlq("policy", "set", *SET, "--db", target)
    assert (made.code, made.out.splitlines()) == (0, PRINTED)
    assert dlq("policy", "--db", target).out.splitlines() == PRINTED
    again = dlq("policy", "set", *PRINTED, "--db", target)
    assert (again.code, again.out.splitlines(), len(events(dlq, target))) == (0, PRINTED, 1), "nothing changed"
    assert dlq("policy", "set", "max_batch=", "environment=paper", "--db", target).code == 0
    first, second = events(dlq, target)
    assert (first["before"], set(first["after"])) == ({}, {"environment", "max_batch", "max_notional", "second_person"})  # type: ignore[call-overload]
    assert (second["before"], second["after"]) == (
        first["after"],
        {"environment": "paper", "max_notional": PRINTED[2][13:], "second_person": '"delay 60s"'},
    )
    assert dlq("audit", "verify", "--db", target).code == 0


def _tables(target: str) -> str:
    if target.startswith("postgresql"):
        return "SELECT nspname FROM pg_namespace WHERE nspname = 'dlq_console'"
    return "SELECT name FROM sqlite_master WHERE name LIKE 'console%'"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("set",), "KEY=VALUE"),
        (("sit",), "did you mean set?"),
        (("set", "max_bach=3"), "did you mean max_batch?"),
        (("set", "environment=lvie"), "did you mean live?"),
        (("set", "max_batch=3", "max_batch=4"), "twice"),
        (("set", "max_batch=3", "stale_after=never"), "not a length of time"),
    ],
)
def test_an_unknown_key_or_value_changes_nothing(dlq: Dlq, make: Make, words: tuple[str, ...], says: str) -> None:
    target = make([row(0)])
    ran = dlq("policy", *words, "--db", target)
    assert (ran.code, says in ran.err, ran.out) == (2, True, "")
    assert dlq("policy", "--db", target).out == ""


def test_read_only_sets_nothing(dlq: Dlq, make: Make) -> None:
    target = make([row(0)])
    ran = dlq("policy", "set", "max_batch=3", "--read-only", "--db", target)
    assert (ran.code, "read-only" in ran.err) == (4, True)
    assert fetch(target, _tables(target)) == []


def _as(target: str, role: str) -> str:
    return re.sub(r"//[^@]*@", f"//{role}@", target)


def test_on_postgres_only_the_owner_of_the_ledger_or_a_member_sets_it(dlq: Dlq, postgres_db: str) -> None:
    target = postgres_store(postgres_db, [row(0)])
    end = target.rpartition("/")[2]
    operator, deputy, owner = (f"{name}_{end}" for name in ("operator", "deputy", "owner"))
    for role in (operator, deputy, owner):
        fetch(target, f'CREATE ROLE "{role}" LOGIN')
    fetch(target, f'GRANT ALL ON order_dlq TO "{owner}", "{operator}", "{deputy}"')
    fetch(target, f'GRANT CREATE ON DATABASE "{end}" TO "{owner}"')
    fetch(target, f'GRANT "{owner}" TO "{deputy}"')
    assert dlq("policy", "set", "max_batch=3", "--db", _as(target, owner)).code == 0
    fetch(target, f'GRANT USAGE ON SCHEMA dlq_console TO "{operator}"')
    fetch(target, f'GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA dlq_console TO "{operator}"')
    refused = dlq("policy", "set", "max_batch=50", "--db", _as(target, operator))
    assert (refused.code, f"log in as {owner}" in refused.err) == (4, True)
    assert dlq("policy", "--db", _as(target, operator)).out == "max_batch=3\n"
    assert dlq("policy", "set", "max_batch=4", "--db", _as(target, deputy)).out == "max_batch=4\n"
    last = json.loads(fetch(target, "SELECT convert_from(body, 'UTF8') FROM dlq_console.audit ORDER BY seq")[-1][0])
    assert (last["kind"], last["before"], last["after"]) == ("policy", {"max_batch": "3"}, {"max_batch": "4"})


def test_the_grants_let_an_operator_read_the_policy_and_no_more(dlq: Dlq, postgres_db: str) -> None:
    """The remedy that doctor prints, run as it is printed."""
    target = postgres_store(postgres_db, [row(0)])
    role = f"operator_{target.rpartition('/')[2]}"
    fetch(target, f'CREATE ROLE "{role}" LOGIN')
    fetch(target, f'GRANT SELECT ON order_dlq TO "{role}"')
    assert dlq("policy", "set", "max_batch=3", "--db", target).code == 0
    blind = dlq("policy", "--db", _as(target, role))
    assert (blind.code, blind.out, "cannot be read" in blind.err) == (4, "", True)
    findings = {
        one["code"]: one for one in json.loads(dlq("doctor", "--json", "--db", _as(target, role)).out)["findings"]
    }
    for statement in str(findings["ledger-unreadable"]["remedy"]).split(";\n"):
        if statement.startswith("GRANT"):
            fetch(target, statement.rstrip(";"))
    assert dlq("policy", "--db", _as(target, role)).out == "max_batch=3\n"
    rights = "SELECT has_table_privilege('{}', 'dlq_console.policy', '{}')"
    assert [fetch(target, rights.format(role, one)) for one in ("SELECT", "INSERT", "UPDATE", "DELETE")] == [
        [(True,)],
        [(False,)],
        [(False,)],
        [(False,)],
    ]


@needs_root
def test_on_sqlite_only_the_owner_of_the_file_sets_it(dlq: Dlq, tmp_path: Path) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(0)])
    assert dlq("policy", "set", "max_batch=3", "--db", target).code == 0
    os.chown(tmp_path / "orders.db", 4242, 4242)
    refused = dlq("policy", "set", "max_batch=50", "--db", target)
    assert (refused.code, "uid 4242" in refused.err) == (4, True)
    assert dlq("policy", "--db", target).out == "max_batch=3\n"


def test_doctor_names_what_is_in_force_and_where_it_comes_from(dlq: Dlq, make: Make, tmp_path: Path) -> None:
    target, config = make([row(0)]), tmp_path / "own.toml"
    config.write_text("[limits]\nmax_batch = 9\nretry_limit = 4\n")
    assert dlq("policy", "set", "max_batch=3", "max_notional=100", "retry_limit=8", "--db", target).code == 0
    ran = dlq("doctor", "--db", target, "--config", str(config))
    lines = [line.removeprefix("in force").strip() for line in ran.out.splitlines() if line.startswith("in force")]
    assert "max_batch=3 (the store's policy; the config says 9)" in lines
    assert "max_notional=100 (the store's policy)" in lines
    assert "retry_limit=4 (the config)" in lines
    assert "plan_seconds=60 (the default)" in lines
    rows = json.loads(dlq("doctor", "--json", "--db", target).out)["in_force"]
    assert {"key": "max_notional", "value": "100", "from": "policy"} in rows


def test_rows_that_somebody_wrote_past_the_console_are_named_and_mended(dlq: Dlq, make: Make) -> None:
    target = make([row(0)])
    assert dlq("policy", "set", "max_batch=3", "--db", target).code == 0
    table = "dlq_console.policy" if target.startswith("postgresql") else "console_policy"
    fetch(target, f"INSERT INTO {table} (key, value) VALUES ('max_notional', 'all')")
    shown = dlq("policy", "--db", target)
    assert (shown.code, "max_notional=all" in shown.out, "nothing is replayed" in shown.err) == (0, True, True)
    report = json.loads(dlq("doctor", "--json", "--db", target).out)
    assert "policy-invalid" in {one["code"] for one in report["findings"]}
    assert dlq("list", "--db", target).code == 0
    assert dlq("policy", "set", "max_notional=", "--db", target).code == 0
    assert dlq("policy", "--db", target).err == ""


def test_marks_are_judged_by_the_policy(dlq: Dlq, make: Make) -> None:
    from datetime import UTC, datetime, timedelta

    target = make([row(0, captured_at=datetime.now(UTC) - timedelta(minutes=5))])
    assert dlq("list", "--filter", "mark:stale", "--db", target).out == ""
    assert dlq("policy", "set", "stale_after=1m", "--db", target).code == 0
    assert len(dlq("list", "--filter", "mark:stale", "--json", "--db", target).rows) == 1
