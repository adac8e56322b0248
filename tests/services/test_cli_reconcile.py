"""`dlq reconcile`, `dlq approve` and `dlq resume`: doubt ended by evidence, and what takes two people."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.command import Console, Ran
from tests.support.exchange import Exchange, in_thread
from tests.support.orders import postgres_store, row, sqlite_store
from tests.support.session import ident
from tests.support.terminal.pty import Terminal

KEYS = ["dlq_id", "outcome", "venue_order_id", "client_order_id", "mode", "detail", "account", "notes"]


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


def order(number: int, **given: object) -> dict[str, Any]:
    captured = datetime.now(UTC) - timedelta(seconds=5)
    return row(number, **{"captured_at": captured, "quantity": float(number), "price": 18.0, **given})


@pytest.fixture
def console(tmp_path: Path, exchange: Exchange) -> Any:
    def made(rows: list[dict[str, Any]], **given: Any) -> Console:
        return Console(tmp_path, sqlite_store(tmp_path / "orders.db", rows), exchange.url, **given)

    return made


def state(console: Console, number: int) -> tuple[str, int]:
    entry = console.inline("show", ident(number), "--json").row["entry"]
    return entry["state"], entry["retry_count"]


def doubted(console: Any, symbol: str, **given: Any) -> Console:
    pool: Console = console([order(1, market_id=symbol)], **given)
    assert pool.inline("replay", ident(1), "--paper").code == 3
    return pool


def settled(pool: Console, *words: str) -> Ran:
    """Reconcile until the window is over; a hang ends by the count."""
    for _ in range(100):
        ran = pool.inline("reconcile", *words, "--json")
        if ran.code != 3 or "not found yet" not in ran.row["detail"]:
            return ran
        time.sleep(0.05)
    raise AssertionError(ran)


def test_found_is_accepted_and_said_in_horizons_line(console: Any, exchange: Exchange) -> None:
    pool = doubted(console, "DROP", settings={"visibility_seconds": 60})
    ran = pool("reconcile", "--paper")
    (booked,) = exchange.orders
    assert (ran.code, ran.out) == (0, f"replayed {ident(1)}  -> venue order {booked['order_id']}\n")
    assert state(pool, 1) == ("replayed", 1)
    again = pool.inline("reconcile", "--paper")
    assert (again.code, again.out, again.err) == (0, "", "dlq: nothing is in doubt\n")


def test_rows_have_the_contracts_keys(console: Any, exchange: Exchange) -> None:
    pool = doubted(console, "DROP")
    ran = pool.inline("reconcile", ident(1), "--paper", "--json")
    assert list(ran.row) == KEYS
    assert (ran.row["outcome"], ran.row["mode"], ran.row["client_order_id"]) == ("accepted", "paper", "cid-1")


def test_absent_is_not_sent_after_the_window_and_pending_again(console: Any, exchange: Exchange) -> None:
    pool = doubted(console, "LOST", settings={"visibility_seconds": 60})
    ran = pool.inline("reconcile", "--paper", "--json")
    assert (ran.code, ran.row["outcome"]) == (3, "unknown")
    assert "not found yet" in ran.row["detail"]
    pool.settings["visibility_seconds"] = 0.1
    ran = settled(pool, "--paper")
    assert (ran.code, ran.row["outcome"], ran.row["detail"][:7]) == (4, "not_sent", "absent:")
    assert state(pool, 1) == ("pending", 1)
    assert len(exchange.posts) == 1


def test_found_but_different_is_a_conflict_and_stays_in_doubt(console: Any, exchange: Exchange) -> None:
    pool = doubted(console, "DROP")
    exchange.fault("lookup_different", on="lookup", times=None)
    ran = pool.inline("reconcile", "--paper", "--json")
    assert (ran.code, ran.row["outcome"]) == (3, "unknown")
    assert ran.row["detail"].startswith("conflict: quantity")
    assert state(pool, 1) == ("in_doubt", 1)
    assert f"(look at the venue, then dlq settle {ident(1)} by what you saw)" in pool.inline("reconcile", "--paper").out


def test_show_says_what_stands_and_what_to_do_by_the_last_try(console: Any, exchange: Exchange) -> None:
    """The first error of this entry says that it never left the engine."""
    pool = console([order(1, market_id="DROP")])
    told = pool.inline("show", ident(1)).out
    assert "  could it have reached the venue: no\n  stands: NEVER SENT · transient\n" in told
    assert "  next: dlq replay when the venue is ready again" in told
    assert pool.inline("replay", ident(1), "--paper").code == 3
    told = pool.inline("show", ident(1)).out
    assert "  stands: IN DOUBT · try 1 PAPER" in told
    assert "  next: dlq reconcile asks the venue, dlq settle settles it by what you saw" in told
    exchange.fault("lookup_different", on="lookup", times=None)
    assert pool.inline("reconcile", "--paper").code == 3
    told = pool.inline("show", ident(1)).out
    assert "  next: another order has its id: look at the venue, then dlq settle by what you saw" in told
    assert "could it have reached" not in told


@pytest.mark.parametrize("fault", ["http_500", "http_429", "accept_then_drop", "garbage_200", "truncated_json"])
def test_a_look_up_that_fails_proves_nothing(console: Any, exchange: Exchange, fault: str) -> None:
    pool = doubted(console, "LOST", settings={"visibility_seconds": 0})
    exchange.fault(fault, on="lookup", times=None)
    ran = pool.inline("reconcile", "--paper", "--json")
    assert (ran.code, ran.row["outcome"]) == (3, "unknown")
    assert ran.row["detail"].startswith("look-up failed")
    assert state(pool, 1) == ("in_doubt", 1)


def test_an_order_booked_late_is_found_when_it_is_there(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)], settings={"visibility_seconds": 60})
    exchange.fault("late_booking", seconds=0.4)
    assert pool.inline("replay", ident(1), "--paper").code == 3
    ran = settled(pool, "--paper")
    assert (ran.code, ran.row["outcome"], ran.row["venue_order_id"]) == (
        0,
        "accepted",
        exchange.orders[0]["order_id"],
    )


def test_words_that_are_off(console: Any) -> None:
    pool = console([order(1)])
    assert pool.inline("reconcile").code == 2
    assert pool.inline("reconcile", "dlq_nope", "--paper").code == 2
    ran = pool.inline("reconcile", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"], ran.row["detail"]) == (4, "skipped", "not in doubt")


def test_the_other_mode_is_named(console: Any) -> None:
    pool = doubted(console, "DROP")
    ran = pool.inline("reconcile", ident(1), "--live", "--json")
    assert (ran.code, ran.row["detail"]) == (4, "in doubt in paper: say --paper")


def plan_of(ran: Ran) -> str:
    """The line that scripts look for."""
    (found,) = re.findall(r"^plan ([0-9a-f]{16})$", ran.err, re.MULTILINE)
    return str(found)


@pytest.fixture
def two(tmp_path: Path, postgres_db: str, exchange: Exchange) -> Any:
    """One Postgres store, two people: another database role each."""

    def made(rows: list[dict[str, Any]], **given: Any) -> tuple[Console, Console]:
        postgres_store(postgres_db, rows)
        other = postgres_db.replace("postgres@", "second@")
        _role(postgres_db)
        folders = [tmp_path / "ann", tmp_path / "bob"]
        for folder in folders:
            folder.mkdir()
        ann = Console(folders[0], postgres_db, exchange.url, **given)
        return ann, Console(folders[1], other, exchange.url, **given)

    return made


def _role(dsn: str) -> None:
    _sql(
        dsn,
        "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'second') "
        "THEN CREATE ROLE second LOGIN SUPERUSER; END IF; END $$",
    )


def _sql(dsn: str, statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


def test_above_the_limit_a_second_person_approves_and_the_same_command_runs(two: Any, exchange: Exchange) -> None:
    ann, bob = two([order(1), order(2)], limits={"four_eyes_over": 20})
    words = ("replay", ident(1), ident(2), "--paper", "--json")
    ran = ann.inline(*words)
    assert (ran.code, set(ran.outcomes.values()), exchange.posts) == (4, {"refused"}, [])
    plan = plan_of(ran)
    own = ann.inline("approve", "--yes", plan)
    assert (own.code, "the one who asked" in own.err) == (4, True)
    assert ann.inline(*words).code == 4
    agreed = bob.inline("approve", "--yes", plan)
    assert (agreed.code, agreed.out.startswith(f"approved {plan}: 2 paper orders, gross ")) == (0, True)
    ran = ann.inline(*words)
    assert (ran.code, set(ran.outcomes.values()), len(exchange.orders)) == (0, {"accepted"}, 2)


def test_the_second_person_sees_every_order_before_they_agree(two: Any, exchange: Exchange) -> None:
    ann, bob = two([order(1), order(2)], limits={"four_eyes_over": 20})
    assert (bob.inline("approve", "--json").code, bob.inline("approve").out) == (0, ""), "nothing waits"
    words = ("replay", ident(1), ident(2), "--paper", "--json")
    shown = ann.inline(*words, "--dry-run").rows
    plan = plan_of(ann.inline(*words))
    (waits,) = bob.inline("approve", "--json").rows
    assert list(waits) == ["plan", "kind", "asked_by", "asked_at", "expires_at", "mode", "gross", "orders"]
    assert (waits["plan"], waits["kind"], waits["mode"], waits["gross"]) == (plan, "replay", "paper", {"USD": 54})
    told = [{**one, "quote": None, "drift": None} for one in waits["orders"]]
    assert told == [{**one, "quote": None, "drift": None} for one in shown], "exactly what the asker saw"
    assert plan in bob.inline("approve").out
    unsaid = bob.inline("approve", plan)
    assert (unsaid.code, unsaid.out, ident(2) in unsaid.err, "--yes" in unsaid.err) == (4, "", True, True)
    assert bob.inline("approve", plan, "--yes", "--read-only").code == 4
    assert ann.inline("approve", plan, "--yes").code == 4
    agreed = bob.inline("approve", plan, "--yes", "--json").row
    assert (agreed["plan"], agreed["approved"], len(agreed["orders"])) == (plan, True, 2)
    assert bob.inline("approve").out == "", "it waits no more"
    assert ann.inline(*words).code == 0


@pytest.mark.parametrize(
    ("typed", "more", "code"),
    [("approve 1", (), 0), ("approve 1", ("--json",), 0), ("approve 2", (), 4), ("", (), 4)],
    ids=["typed", "as JSON", "wrong", "nothing"],
)
def test_on_a_terminal_the_second_person_types_it(
    two: Any, exchange: Exchange, typed: str, more: tuple[str, ...], code: int
) -> None:
    ann, bob = two([order(1)], limits={"four_eyes_over": 1})
    plan = plan_of(ann.inline("replay", ident(1), "--paper"))
    with Terminal(bob.words("approve", plan, *more), bob.environ, is_forked=True) as terminal:
        terminal.until(lambda: "type approve 1:" in terminal.text, "asks")
        above = f"{ident(1)}  new buy 1.0 AAPL limit price=18.0"
        assert above in terminal.text, terminal.text
        terminal.type(f"{typed}\r")
        assert terminal.ended() == code
    assert ann.inline("replay", ident(1), "--paper").code == code


def test_a_plan_waits_five_minutes_for_a_second_person(two: Any, exchange: Exchange) -> None:
    ann, bob = two([order(1)], limits={"four_eyes_over": 1})
    plan = plan_of(ann.inline("replay", ident(1), "--paper"))
    _sql(ann.target, "UPDATE dlq_console.approval SET asked_at = asked_at - 301")
    late = bob.inline("approve", plan, "--yes")
    assert (late.code, "ask again" in late.err, bob.inline("approve").out) == (4, True, "")
    assert plan_of(ann.inline("replay", ident(1), "--paper")) == plan
    _sql(ann.target, "UPDATE dlq_console.approval SET document = '{}'")
    unseen = bob.inline("approve", plan, "--yes")
    assert (unseen.code, "cannot be shown" in unseen.err) == (4, True)
    assert plan_of(ann.inline("replay", ident(1), "--paper")) == plan
    assert bob.inline("approve", plan, "--yes").code == 0
    assert ann.inline("replay", ident(1), "--paper").code == 0


def test_an_approval_is_of_that_plan_only(two: Any, exchange: Exchange) -> None:
    ann, bob = two([order(1), order(2)], limits={"four_eyes_over": 1})
    assert bob.inline("approve", "--yes", plan_of(ann.inline("replay", ident(1), "--paper"))).code == 0
    assert ann.inline("replay", ident(1), ident(2), "--paper").code == 4
    assert exchange.posts == []
    assert ann.inline("replay", ident(1), "--paper").code == 0


def test_an_approval_lasts_five_minutes(two: Any, exchange: Exchange) -> None:
    ann, bob = two([order(1)], limits={"four_eyes_over": 1})
    assert bob.inline("approve", "--yes", plan_of(ann.inline("replay", ident(1), "--paper"))).code == 0
    _sql(ann.target, "UPDATE dlq_console.approval SET approved_at = approved_at - 301")
    ran = ann.inline("replay", ident(1), "--paper")
    assert (ran.code, exchange.posts) == (4, [])
    assert bob.inline("approve", "--yes", plan_of(ran)).code == 0
    assert ann.inline("replay", ident(1), "--paper").code == 0


def test_an_override_in_live_needs_a_second_person(two: Any, exchange: Exchange) -> None:
    ann, bob = two([order(1, retry_count=12)])
    words = ("replay", ident(1), "--live", "--yes", "--override", "retry-limit", "--note", "mended", "--json")
    ran = ann.inline(*words)
    assert (ran.code, exchange.posts) == (4, [])
    assert "needs a second person: overrides retry-limit" in ran.row["detail"]
    assert bob.inline("approve", "--yes", plan_of(ran)).code == 0
    assert ann.inline(*words).code == 0
    # In paper nobody else is asked.
    assert len(exchange.orders) == 1


def test_two_people_settle_in_live_what_the_venue_cannot_tell(two: Any, exchange: Exchange) -> None:
    ann, bob = two([order(1, market_id="LOST")], settings={"visibility_seconds": 600})
    assert ann.inline("replay", ident(1), "--live", "--yes").code == 3
    words = ("settle", ident(1), "--as", "absent", "--note", "their support looked", "--yes", "--json")
    ran = ann.inline(*words)
    assert (ran.code, ran.row["outcome"]) == (4, "refused")
    assert ann.inline("approve", "--yes", plan_of(ran)).code == 4
    assert bob.inline("approve", "--yes", plan_of(ran)).code == 0
    ran = ann.inline(*words)
    assert (ran.code, ran.row["outcome"]) == (0, "not_sent")
    assert ran.row["detail"].endswith(": their support looked")
    assert ran.row["detail"].startswith("settled by ")
    assert state(ann, 1) == ("pending", 1)


def test_asking_changes_nothing_and_says_what_is_there(two: Any, exchange: Exchange) -> None:
    ann, _ = two([order(1)])
    assert ann.inline("replay", ident(1), "--paper").code == 0
    before = ann.inline("audit", "verify").out
    ran = ann.inline("ask", ident(1), "--paper", "--json")
    keys = "dlq_id answer equal differences status filled venue_order_id client_order_id account at detail"
    assert (ran.code, list(ran.row)) == (0, keys.split())
    assert (ran.row["answer"], ran.row["equal"], ran.row["differences"]) == ("found", True, [])
    assert ran.row["account"]
    assert ann.inline("audit", "verify").out == before
    assert ann.inline("ask", ident(1), "--live", "--json").row["answer"] != "found" or exchange.posts
    assert ann.inline("--read-only", "ask", ident(1), "--paper").code == 4
    assert ann.inline("ask", "dlq_nope", "--paper").code == 2


def test_a_halt_in_a_live_store_is_lifted_by_two(two: Any) -> None:
    ann, bob = two([order(1)], store={"environment": "live"})
    assert ann.inline("halt", "--note", "venue melts").code == 0
    ran = bob.inline("resume", "--note", "all is well")
    assert (ran.code, ran.out) == (4, "")
    assert bob.inline("resume", "--note", "all is well").code == 4
    assert ann.inline("approve", "--yes", plan_of(ran)).code == 0
    ran = bob.inline("resume", "--note", "all is well")
    assert (ran.code, ran.out) == (0, "resumed\n")
    assert bob.inline("resume", "--note", "again").code == 4


def test_a_plan_that_nobody_put_up_cannot_be_approved(two: Any) -> None:
    ann, _ = two([order(1)])
    ran = ann.inline("approve", "--yes", "0123456789abcdef")
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)


def test_the_run_after_an_approval_takes_the_approved_entries(two: Any, exchange: Exchange) -> None:
    """Not what the filter matches by then: nobody has agreed to that."""
    ann, bob = two([order(1), order(2, market_id="MSFT")], limits={"four_eyes_over": 1})
    words = ("replay", "--account", "main", "--expect", "2", "--paper", "--json")
    ran = ann.inline(*words)
    assert (ran.code, exchange.posts) == (4, [])
    same = "captured_at, venue_name, account_id, 'NVDA', side, quantity, order_type, price, 'cid-3', error"
    like = f"SELECT '{ident(3)}', {same}, retry_count, dismissed, '' FROM order_dlq WHERE dlq_id = '{ident(1)}'"
    _sql(ann.target, f"INSERT INTO order_dlq {like}")
    assert bob.inline("approve", "--yes", plan_of(ran)).code == 0
    ran = ann.inline(*words)
    assert (ran.code, [one["dlq_id"] for one in ran.rows]) == (0, [ident(1), ident(2)])
    assert len(exchange.posts) == 2


def test_an_approved_plan_that_lost_an_entry_stays_approved_for_the_rest(two: Any, exchange: Exchange) -> None:
    ann, bob = two([order(1), order(2, market_id="MSFT")], limits={"four_eyes_over": 1})
    words = ("replay", ident(1), ident(2), "--paper", "--json")
    ran = ann.inline(*words)
    assert (ran.code, exchange.posts) == (4, [])
    assert bob.inline("approve", "--yes", plan_of(ran)).code == 0
    assert bob.inline("dismiss", ident(2), "--reason", "stale").code == 0
    ran = ann.inline(*words)
    assert (ran.code, ran.outcomes) == (4, {ident(1): "accepted", ident(2): "not_sent"})
    assert ran.rows[0]["detail"] == "settled: already dismissed"
    assert len(exchange.posts) == 1
    assert bob.inline("restore", ident(2)).code == 0
    ran = ann.inline(*words)
    assert (ran.code, ran.outcomes) == (4, {ident(1): "skipped", ident(2): "accepted"}), "what was sent is not not_sent"


def test_another_plan_than_the_approved_one_is_not_approved(two: Any, exchange: Exchange) -> None:
    ann, bob = two([order(1), order(2, market_id="MSFT")], limits={"four_eyes_over": 1})
    assert bob.inline("approve", "--yes", plan_of(ann.inline("replay", ident(1), "--paper"))).code == 0
    ran = ann.inline("replay", ident(1), ident(2), "--paper", "--json")
    assert (ran.code, exchange.posts) == (4, [])
