"""Silence is no all-clear: every verb of a role that cannot read the ledger, or only parts of it, says so."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backends.ledger.names import GRANTS
from backends.store import Result, Store
from tests.cli.conftest import Dlq, fetch
from tests.cli.test_figures import acting, quiet
from tests.support.orders import postgres_store, row, sqlite_store
from tests.support.store import ACTOR, attempt_on, pick, why

ALL = tuple(GRANTS)
READS = {
    "nothing": (),
    "all but claim": tuple(name for name in ALL if name != "claim"),
    "all but policy": tuple(name for name in ALL if name != "policy"),
    "attempt only": ("attempt",),
    "audit only": ("audit",),
    "some rows of attempt": ALL,
    "some rows of audit": ALL,
}
DAMAGE = {
    "no attempts": ("DROP TABLE console_attempt",),
    "no halt": ("DROP TABLE console_halt",),
    "newer": (
        "DROP INDEX console_attempt_state",
        "ALTER TABLE console_attempt RENAME COLUMN venue_order_id TO order_there",
        "UPDATE console_meta SET value = '9' WHERE key = 'schema_version'",
    ),
}
KINDS = [*(f"postgres: {name}" for name in READS), *(f"sqlite: {name}" for name in DAMAGE)]


def fresh(number: int) -> dict[str, Any]:
    return row(number, captured_at=datetime.now(UTC) - timedelta(hours=1))


async def doubts(store: Store) -> None:
    await attempt_on(store, 0, Result("unknown"))
    await store.dismiss(await pick(store, 1), ACTOR, why())
    await store.halt(ACTOR, why(note="stop"))


@pytest.fixture(params=KINDS)
def blind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A halted store with one entry in doubt and one dismissed, as somebody sees it who cannot read the ledger."""
    engine, _, name = request.param.partition(": ")
    rows = [fresh(0), fresh(1)]
    if engine == "sqlite":
        target = sqlite_store(tmp_path / "orders.db", rows)
        acting(target, doubts)
        for statement in DAMAGE[name]:
            fetch(target, statement)
        return target
    target = postgres_store(request.getfixturevalue("postgres_db"), rows)
    acting(target, doubts)
    role = f"monitor_{target.rpartition('/')[2]}"
    fetch(target, f'CREATE ROLE "{role}" LOGIN')
    fetch(target, f'GRANT SELECT ON order_dlq TO "{role}"')
    if READS[name]:
        fetch(target, f'GRANT USAGE ON SCHEMA dlq_console TO "{role}"')
        for table in READS[name]:
            fetch(target, f'GRANT SELECT ON dlq_console.{table} TO "{role}"')
    if name.startswith("some rows of "):
        fetch(target, f"ALTER TABLE dlq_console.{name.rpartition(' ')[2]} ENABLE ROW LEVEL SECURITY")
    return re.sub(r"//[^@]*@", f"//{role}@", target)


def test_nothing_of_it_looks_like_an_all_clear(dlq: Dlq, blind: str, tmp_path: Path) -> None:
    for says in (_alerts, _figures, _entries, _report, _doctor, _acts):
        says(dlq, blind, tmp_path)


def _alerts(dlq: Dlq, blind: str, tmp_path: Path) -> None:
    ran = dlq("check", "--db", blind, "--json", *quiet(tmp_path))
    assert (ran.code, [one["rule"] for one in ran.rows]) == (1, ["ledger-unreadable"])


def _figures(dlq: Dlq, blind: str, _: Path) -> None:
    ran = dlq("metrics", "--db", blind)
    assert (ran.code, "\ndlq_ledger_readable 0\n" in ran.out) == (0, True)
    unknown = ("in_doubt", "poisoned", "entries", "halted", "replays_total", "reconciles_total", "dismissals_total")
    told = [line for line in ran.out.splitlines() if line.startswith(tuple(f"dlq_{name}" for name in unknown))]
    assert told == []


def _entries(dlq: Dlq, blind: str, _: Path) -> None:
    shown = dlq("list", "--all", "--db", blind)
    assert (shown.code, shown.out.count("[unknown, "), "unknown" in shown.err) == (0, 2, True)
    assert {one["state"] for one in dlq("list", "--all", "--json", "--db", blind).rows} == {"unknown"}
    entry = dlq("list", "--json", "--db", blind).rows[0]["dlq_id"]
    history = dlq("show", entry, "--json", "--db", blind).rows[0]
    assert (history["entry"]["state"], history["attempts"], history["audit"]) == ("unknown", None, None)
    assert "unknown, as this role cannot read" in dlq("show", entry, "--db", blind).out
    exported = list(csv.DictReader(io.StringIO(dlq("export", "--format", "csv", "--db", blind).out)))
    assert {one["state"] for one in exported} == {"unknown"}
    assert {one["state"] for one in dlq("export", "--format", "jsonl", "--db", blind).rows} == {"unknown"}
    (group,) = dlq("groups", "--json", "--db", blind).rows
    assert (group["count"], group["states"], group["poisoned"]) == (1, None, None)
    assert "poisoned=unknown" in dlq("groups", "--db", blind).out


def _report(dlq: Dlq, blind: str, _: Path) -> None:
    told = json.loads(dlq("report", "--json", "--db", blind).out)
    assert [told[name] for name in ("done", "in_doubt", "in_flight", "halt")] == [None, None, None, "unknown"]
    text = dlq("report", "--db", blind).out
    assert ("What is in doubt: unknown" in text, "Nothing." in text) == (True, False)


def _doctor(dlq: Dlq, blind: str, _: Path) -> None:
    told = json.loads(dlq("doctor", "--json", "--db", blind).out)
    (finding,) = [one for one in told["findings"] if one["code"] == "ledger-unreadable"]
    assert (told["halted"], told["entries"]) == (None, {"unknown": 2})
    if blind.startswith("postgresql"):
        assert "GRANT SELECT ON dlq_console.policy" in finding["remedy"]
    text = dlq("doctor", "--db", blind).out
    assert "halt       unknown" in text
    assert "entries    2 unknown" in text


def _acts(dlq: Dlq, blind: str, tmp_path: Path) -> None:
    bundle = ("archive", "--before", "1h", "--out", str(tmp_path / "bundle.zip"))
    entry = "dlq_0000000000000000"
    wanted = {
        ("reconcile", "--paper"): 4,
        ("settle", entry, "--as", "absent", "--note", "seen", "--yes"): 4,
        ("replay", entry, "--paper", "--yes"): 4,
        ("replay", entry, "--paper", "--dry-run"): 4,
        ("approve",): 4,
        ("approve", "cafe", "--yes"): 4,
        ("resume", "--note", "go"): 4,
        ("policy",): 4,
        ("dismiss", entry, "--reason", "test", "--yes"): 4,
        ("audit", "verify"): 5,
        ("audit", "export"): 5,
        bundle: 5,
    }
    for words, code in wanted.items():
        ran = dlq(*words, "--db", blind)
        assert (ran.code, "ledger" in ran.err) == (code, True), (words, ran)
        assert not re.search("nothing is in doubt|no halt is set|not in doubt|nothing waits", ran.out + ran.err), words
    assert not (tmp_path / "bundle.zip").exists()


def test_a_role_that_may_read_it_all_is_told_what_is_there(dlq: Dlq, postgres_db: str, tmp_path: Path) -> None:
    """The other side of the same coin: nothing says unknown where it is known."""
    target = postgres_store(postgres_db, [fresh(0), fresh(1)])
    acting(target, doubts)
    role = f"monitor_{target.rpartition('/')[2]}"
    fetch(target, f'CREATE ROLE "{role}" LOGIN')
    for right in ("SELECT ON order_dlq", "USAGE ON SCHEMA dlq_console", "SELECT ON ALL TABLES IN SCHEMA dlq_console"):
        fetch(target, f'GRANT {right} TO "{role}"')
    monitor = re.sub(r"//[^@]*@", f"//{role}@", target)
    ran = dlq("check", "--db", monitor, "--json", *quiet(tmp_path))
    assert (ran.code, [one["rule"] for one in ran.rows]) == (1, ["in-doubt"])
    assert {one["state"] for one in dlq("list", "--all", "--json", "--db", monitor).rows} == {"in_doubt", "dismissed"}
    assert json.loads(dlq("doctor", "--json", "--db", monitor).out)["halted"] is True
