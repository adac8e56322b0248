"""`dlq replay` as scripts and operators meet it: lines, rows, exit codes, and what each leaves in store and venue."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import shlex
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import ROOT, Console
from tests.support.exchange import Exchange, in_thread
from tests.support.orders import row, sqlite_store
from tests.support.session import ident

KEYS = ["dlq_id", "outcome", "venue_order_id", "client_order_id", "mode", "detail", "account", "notes"]
TIMEOUT = "ReadTimeout: no answer in 10 s"


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


def order(number: int, **given: object) -> dict[str, Any]:
    now = datetime.now(UTC) - timedelta(seconds=5)
    return row(number, **{"captured_at": now, "quantity": float(number), "price": 18.0, **given})


@pytest.fixture
def console(tmp_path: Path, exchange: Exchange) -> Any:
    def made(rows: list[dict[str, Any]], **given: Any) -> Console:
        return Console(tmp_path, sqlite_store(tmp_path / "orders.db", rows), exchange.url, **given)

    return made


def state(console: Console, number: int) -> tuple[str, int]:
    entry = console.inline("show", ident(number), "--json").row["entry"]
    return entry["state"], entry["retry_count"]


def test_the_plain_line_is_horizons(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    ran = pool("replay", ident(1), "--paper")
    (booked,) = exchange.orders
    assert (ran.code, ran.out) == (0, f"replayed {ident(1)}  -> venue order {booked['order_id']}\n")
    assert "PAPER to alpaca main at 127.0.0.1" in ran.err
    assert (booked["client_order_id"], booked["quantity"], booked["price"]) == ("cid-1", "1", "18")
    assert state(pool, 1) == ("replayed", 0)


def test_json_rows_have_the_contracts_keys(console: Any, exchange: Exchange) -> None:
    pool = console([order(1), order(2, market_id="REJECT")])
    ran = pool.inline("replay", ident(1), ident(2), "--paper", "--json")
    assert [list(one) for one in ran.rows] == [KEYS, KEYS]
    first = next(one for one in ran.rows if one["dlq_id"] == ident(1))
    order_id = exchange.orders[0]["order_id"]
    assert first.pop("account").startswith("PRACTICE")
    assert "time in force: day (the venue's default)" in first.pop("notes")
    assert first == dict(zip(KEYS[:-2], (ident(1), "accepted", order_id, "cid-1", "paper", None), strict=True))


OUTCOMES = {
    "AAPL": ("accepted", 0, "replayed", 0),
    "REJECT": ("rejected", 1, "pending", 1),
    "DROP": ("unknown", 3, "in_doubt", 1),
    "LOST": ("unknown", 3, "in_doubt", 1),
    "BUSY": ("not_sent", 4, "pending", 0),
    "GATEWAY": ("unknown", 3, "in_doubt", 1),
    "NOID": ("unknown", 3, "in_doubt", 1),
    "GARBAGE": ("unknown", 3, "in_doubt", 1),
}


@pytest.mark.parametrize("symbol", OUTCOMES)
def test_each_answer_of_the_venue_has_its_word_code_and_trace(console: Any, symbol: str) -> None:
    outcome, code, after, retries = OUTCOMES[symbol]
    pool = console([order(1, market_id=symbol)])
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.row["outcome"], ran.code) == (outcome, code)
    assert state(pool, 1) == (after, retries)


@pytest.mark.parametrize(
    ("symbols", "code"),
    [
        (("AAPL", "REJECT", "DROP", "BUSY"), 3),
        (("AAPL", "REJECT", "BUSY"), 1),
        (("AAPL", "BUSY"), 4),
        (("AAPL", "MSFT"), 0),
    ],
)
def test_where_several_apply_doubt_goes_before_rejection_before_inaction(
    console: Any, symbols: tuple[str, ...], code: int
) -> None:
    pool = console([order(n, market_id=symbol) for n, symbol in enumerate(symbols, 1)])
    ran = pool.inline("replay", *(ident(n) for n in range(1, len(symbols) + 1)), "--paper", "--json")
    assert ran.code == code
    assert {row["dlq_id"]: row["outcome"] for row in ran.rows} == {
        ident(n): OUTCOMES.get(symbol, ("accepted",))[0] for n, symbol in enumerate(symbols, 1)
    }


def test_superseded_counts_as_done(console: Any) -> None:
    pool = console([order(1, action_json='{"order_key": "k"}'), order(2, action_json='{"order_key": "k"}')])
    ran = pool.inline("replay", ident(1), ident(2), "--paper", "--json")
    assert (ran.code, ran.outcomes) == (0, {ident(1): "superseded", ident(2): "accepted"})
    entry = pool.inline("show", ident(1), "--json").row
    assert (entry["entry"]["state"], entry["audit"][0]["reason"]) == ("dismissed", "superseded")


def test_a_dry_run_says_planned_and_leaves_every_byte_alone(console: Any, exchange: Exchange, tmp_path: Path) -> None:
    pool = console([order(1), order(2), order(3, captured_at=datetime.now(UTC) - timedelta(hours=1))])

    def files() -> dict[str, str]:
        return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in tmp_path.glob("orders.db*")}

    before = files()
    ran = pool("replay", ident(1), ident(2), ident(3), "--paper", "--dry-run", "--json")
    assert (ran.code, ran.outcomes) == (0, {ident(1): "planned", ident(2): "planned", ident(3): "refused"})
    assert files()["orders.db"] == before["orders.db"]
    assert exchange.posts == []
    assert pool.inline("replay", ident(3), "--paper", "--dry-run").code == 4
    plain = pool.inline("replay", ident(1), "--paper", "--dry-run")
    assert plain.out.startswith(f"planned {ident(1)}")
    assert "time in force: day (the venue's default)" in plain.out
    assert not [line for line in _tables(tmp_path / "orders.db") if line.startswith("console")]


def _tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]


@pytest.mark.parametrize(
    "words",
    [
        (ident(1),),
        (ident(1), "--paper", "--live"),
        ("dlq_nope", "--paper"),
        (ident(1), "dlq_nope", "--paper"),
        ("--paper",),
        ("--venue", "alpaca", "--paper"),
        ("--market", "AAPL", "--paper", "--expect", "7"),
        (ident(1), "--paper", "--override", "stale"),
        (ident(1), "--paper", "--override", "halt", "--note", "please"),
        (ident(1), "--paper", "--override", "nonsense", "--note", "please"),
        (ident(1), "--live"),
        (ident(1), ident(2), "--live", "--yes"),
        ("--market", "AAPL", "--live", "--yes"),
    ],
    ids=" ".join,
)
def test_words_that_are_off_do_nothing(console: Any, exchange: Exchange, words: tuple[str, ...]) -> None:
    pool = console([order(1), order(2)])
    ran = pool("replay", *words)
    assert (ran.code, ran.out, exchange.posts) == (2, "", [])
    assert len(ran.err.splitlines()) == 1
    assert state(pool, 1) == ("pending", 0)


def test_amounts_of_a_plan_have_separators(console: Any, exchange: Exchange) -> None:
    orders = [order(1, quantity=1000.0), order(2, market_id="MSFT", side="sell", quantity=500.0)]
    ran = console(orders)("replay", *map(ident, (1, 2)), "--paper", "--dry-run")
    assert "alpaca main AAPL: 1 order, gross 18,000.00, net 18,000.00 USD\n" in ran.err
    assert "alpaca main MSFT: 1 order, gross 9,000.00, net -9,000.00 USD\n" in ran.err


def test_live_without_a_terminal_says_yes_and_how_many(console: Any, exchange: Exchange) -> None:
    pool = console([order(1), order(2), order(3)])
    assert pool("replay", ident(1), "--live", "--yes").code == 0
    ran = pool.inline("replay", ident(2), ident(3), "--live", "--yes", "--expect", "2", "--json")
    assert (ran.code, {one["mode"] for one in ran.rows}) == (0, {"live"})
    assert len(exchange.orders) == 3


def test_the_stores_mode_needs_no_word(console: Any) -> None:
    pool = console([order(1)], store={"mode": "paper"})
    assert pool.inline("replay", ident(1), "--json").row["mode"] == "paper"


def test_filters_with_expect(console: Any, exchange: Exchange) -> None:
    pool = console([order(1), order(2, market_id="MSFT"), order(3)])
    ran = pool.inline("replay", "--market", "AAPL", "--expect", "2", "--paper", "--json")
    assert (ran.code, sorted(ran.outcomes)) == (0, [ident(1), ident(3)])
    assert len(exchange.orders) == 2


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"captured_at": datetime(2026, 1, 1, tzinfo=UTC)}, "stale"),
        ({"retry_count": 10}, "retry-limit"),
        ({"quantity": 9999.0}, "notional"),
        ({"error": TIMEOUT, "client_order_id": None}, "may-have-arrived"),
    ],
)
def test_a_guard_refuses_and_an_override_with_a_note_passes_and_is_audited(
    console: Any, exchange: Exchange, given: dict[str, Any], code: str
) -> None:
    pool = console([order(1, **given)])
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"], exchange.posts) == (4, "refused", [])
    assert ran.row["detail"].startswith(f"{code}: ")
    ran = pool.inline("replay", ident(1), "--paper", "--json", "--override", code, "--note", "checked by phone")
    assert (ran.code, ran.row["outcome"]) == (0, "accepted")
    events = {event["kind"]: event for event in pool.inline("show", ident(1), "--json").row["audit"]}
    assert code in events["refused-replay"]["note"]
    assert (events["intent"]["note"], f"overridden: {code}" in events["intent"]["detail"]) == ("checked by phone", True)


@pytest.mark.parametrize(
    ("given", "words", "code"),
    [
        ({"venue_name": "nowhere"}, (), "unknown-venue"),
        ({}, ("--venue", "nowhere"), "unknown-venue"),
        ({"venue_name": "polymarket"}, (), "no-paper-mode"),
        ({"action_json": '{"quantity": 1, "quantity": 2}'}, (), "unparsable"),
        ({"action_json": '{"quantity": 77}'}, (), "unparsable"),
        ({"price": 18.123}, (), "unparsable"),
    ],
)
def test_what_blocks_cannot_be_overridden(
    console: Any, exchange: Exchange, given: dict[str, Any], words: tuple[str, ...], code: str
) -> None:
    pool = console([order(1, **given)])
    every = "stale, duplicate, poison,retry-limit,notional,not-ready,may-have-arrived"
    ran = pool.inline("replay", ident(1), "--paper", "--json", "--override", every, "--note", "x", *words)
    assert (ran.code, ran.row["outcome"], exchange.posts) == (4, "refused", [])
    assert ran.row["detail"].startswith(f"{code}: ")


def test_another_name_for_a_venue_and_another_venue_for_an_entry(console: Any, exchange: Exchange) -> None:
    named = {"broker-7": {"type": "alpaca", "paper_endpoint": exchange.url, "default_account": "main"}}
    pool = console([order(1, venue_name="broker-7"), order(2, venue_name="old-broker")], venues=named)
    ran = pool.inline("replay", ident(1), "--paper", "--json")  # its own name has no secrets: alpaca's are not its
    assert (ran.code, exchange.posts) == (4, [])
    assert ran.row["detail"].startswith("unknown-account: ")
    pool.secrets["broker-7"] = pool.secrets["alpaca"]
    assert pool.inline("replay", ident(1), "--paper").code == 0
    assert pool.inline("replay", ident(2), "--paper").code == 4
    assert pool.inline("replay", ident(2), "--paper", "--venue", "alpaca").code == 0
    assert len(exchange.orders) == 2


def test_a_venue_without_its_secrets_sends_nothing_and_says_what_to_do(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)], secrets={})
    ran = pool("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"], exchange.posts) == (4, "refused", [])
    assert "dlq secrets set alpaca --paper" in ran.row["detail"]


def test_a_closed_market_is_not_ready(console: Any, exchange: Exchange) -> None:
    pool = console([order(1), order(2)])
    exchange.fault("closed", on="probe", times=None)
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["detail"].startswith("not-ready: alpaca: market closed")) == (4, True)
    ran = pool.inline("replay", ident(1), "--paper", "--json", "--override", "not-ready", "--note", "queue it")
    assert ran.row["outcome"] == "accepted"


def test_a_venue_that_is_down_is_not_ready_and_nothing_is_sent(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    pool.url = "http://127.0.0.1:9"
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"]) == (4, "refused")
    ran = pool.inline("replay", ident(1), "--paper", "--json", "--override", "not-ready", "--note", "try")
    assert (ran.code, ran.row["outcome"]) == (4, "not_sent")
    assert state(pool, 1) == ("pending", 0)


def test_rehearsals_in_a_live_store_change_nothing(console: Any, exchange: Exchange) -> None:
    rows = [order(1), order(2, market_id="REJECT"), order(3, market_id="DROP")]
    pool = console(rows, store={"environment": "live"})
    ran = pool.inline("replay", *(ident(n) for n in (1, 2, 3)), "--paper", "--json")
    assert (ran.code, list(ran.outcomes.values())) == (3, ["accepted", "rejected", "unknown"])
    assert [state(pool, n) for n in (1, 2, 3)] == [("pending", 0)] * 3
    attempts = pool.inline("show", ident(1), "--json").row["attempts"]
    assert [(one["mode"], one["outcome"], one["rehearsal"]) for one in attempts] == [("paper", "accepted", True)]
    assert pool.inline("dismiss", ident(3), "--reason", "test").code == 0


@pytest.mark.parametrize(
    ("end", "code", "outcome", "after"),
    [
        (None, 0, "accepted", ("replayed", 0)),
        ("filled", 0, "accepted", ("replayed", 0)),
        ("rejected", 1, "rejected", ("pending", 1)),
        ("cancelled", 4, "refused", ("pending", 0)),
        ("expired", 4, "refused", ("pending", 0)),
    ],
)
def test_an_order_that_reached_the_venue_before_is_adopted_not_sent(
    console: Any, exchange: Exchange, end: str | None, code: int, outcome: str, after: tuple[str, int]
) -> None:
    pool = console([order(1, error=TIMEOUT)])
    placed = exchange.place(symbol="AAPL", qty="1", side="buy", limit_price="18", client_order_id="cid-1")
    if end:
        exchange.mark(placed["id"], end)
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"]) == (code, outcome)
    assert len(exchange.posts) == 1  # the one above
    assert state(pool, 1) == after
    if outcome == "refused":
        assert ran.row["detail"] == f"found: {end}"
    else:
        assert ran.row["venue_order_id"] == placed["id"]


def test_an_order_of_other_parameters_under_its_id_is_not_adopted(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    exchange.place(symbol="AAPL", qty="3", side="buy", limit_price="18", client_order_id="cid-1")
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"], len(exchange.posts)) == (4, "refused", 1)
    assert "conflict: quantity" in ran.row["detail"]


def test_a_duplicate_id_answer_leads_to_the_order_it_speaks_of(console: Any, exchange: Exchange) -> None:
    """The look-up before does not show it yet: the venue refuses the second order, and then shows the first."""
    pool = console([order(1)])
    exchange.place(symbol="AAPL", qty="1", side="buy", limit_price="18", client_order_id="cid-1")
    exchange.fault("http_404", on="lookup", times=1)
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"]) == (0, "accepted")
    assert ran.row["venue_order_id"] == exchange.orders[0]["order_id"]
    assert len(exchange.orders) == 1


def test_a_look_up_that_fails_sends_nothing(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    exchange.fault("http_500", on="lookup")
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"], exchange.posts) == (4, "not_sent", [])
    assert state(pool, 1) == ("pending", 0)


def test_in_doubt_refuses_replay_and_dismiss(console: Any, exchange: Exchange) -> None:
    pool = console([order(1, market_id="DROP")])
    assert pool.inline("replay", ident(1), "--paper").code == 3
    ran = pool.inline("replay", ident(1), "--paper", "--json", "--override", "stale,duplicate", "--note", "x")
    assert (ran.code, ran.row["detail"]) == (4, "in-doubt: in doubt: reconcile or settle it first")
    assert pool.inline("dismiss", ident(1), "--reason", "test").code == 4
    assert (state(pool, 1), len(exchange.posts)) == (("in_doubt", 1), 1)


def test_a_halt_refuses_every_replay(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    assert pool.inline("halt", "--note", "venue melts").code == 0
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"], exchange.posts) == (4, "refused", [])
    assert "venue melts" in ran.row["detail"]
    assert pool.inline("resume", "--note", "all is well").code == 0
    assert pool.inline("replay", ident(1), "--paper").code == 0


def test_read_only_acts_on_nothing(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    before = exchange.requests
    for words in (("replay", ident(1)), ("replay", ident(1), "--dry-run"), ("reconcile", ident(1)), ("ask", ident(1))):
        ran = pool.inline(*words, "--paper", "--read-only", "--json")
        assert (ran.code, "credentials" in ran.err) == (4, True), words
        for line in ran.out.splitlines():
            assert (json.loads(line)["outcome"], json.loads(line)["mode"]) == ("refused", "paper")
    assert exchange.requests == before, "not even a probe"


def test_a_live_replay_under_read_only_reads_no_secret(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    asked, before = pool.folder / "vault.json.read", exchange.requests
    ran = pool("replay", ident(1), "--live", "--yes", "--read-only")
    assert (ran.code, asked.exists(), exchange.requests == before) == (4, False, True), ran
    assert pool("replay", ident(1), "--live", "--yes", "--dry-run").code in (0, 4)
    assert asked.exists(), "the keyring of the test notes when it is asked"


def test_a_store_that_is_not_there_is_five(console: Any, tmp_path: Path) -> None:
    pool = console([order(1)])
    pool.target = str(tmp_path / "nowhere.db")
    assert pool.inline("replay", ident(1), "--paper").code == 5


def test_a_terminal_is_asked_and_sees_a_progress_line(console: Any, exchange: Exchange) -> None:
    """On a pty: the count is typed, results land, a line says how far it is."""
    pool = console([order(n) for n in range(1, 9)], settings={"rate_per_minute": 600})
    leader, follower = pty.openpty()
    ids = [ident(n) for n in range(1, 9)]
    process = pool.start("replay", *ids, "--paper", stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    seen = b""
    while b"type 8 to send" not in seen:
        seen += os.read(leader, 4096)
    os.write(leader, b"8\n")
    try:
        while chunk := os.read(leader, 4096):
            seen += chunk
    except OSError:
        pass  # the other end has closed: Linux says EIO
    os.close(leader)
    assert process.wait(30) == 0
    text = seen.decode()
    assert text.count("replayed dlq_") == 8
    assert "/8  " in text
    assert "\x1b[2K" in text
    assert "8 entries: 8 accepted" in text


def test_a_wrong_answer_on_a_terminal_sends_nothing(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    leader, follower = pty.openpty()
    process = pool.start("replay", ident(1), "--live", stdin=follower)
    os.close(follower)
    os.write(leader, b"1\n")
    out, err = process.communicate(timeout=30)
    os.close(leader)
    assert (process.returncode, exchange.posts) == (4, [])
    assert "type live 1 to send" in err
    assert "not confirmed" in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_stops_between_entries_and_everything_is_recorded(
    console: Any, exchange: Exchange, number: signal.Signals
) -> None:
    pool = console([order(n) for n in range(1, 13)], settings={"rate_per_minute": 120})
    process = pool.start("replay", *(ident(n) for n in range(1, 13)), "--paper", "--json")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    process.send_signal(number)
    rest, _ = process.communicate(timeout=30)
    outcomes = [first["outcome"], *(json.loads(line)["outcome"] for line in rest.splitlines())]
    assert process.returncode == (130 if number == signal.SIGINT else 4)
    assert len(outcomes) == 12
    assert set(outcomes) == {"accepted", "skipped"}
    assert len(exchange.posts) == outcomes.count("accepted") < 12
    listed = pool.inline("list", "--json", "--all")
    assert {one["state"] for one in listed.rows} == {"replayed", "pending"}
    assert [one["state"] for one in listed.rows].count("replayed") == len(exchange.posts)
    assert pool.inline("replay", ident(12), "--paper").code == 0  # no claim was left behind


def test_a_reader_that_is_gone_stops_nothing(console: Any, exchange: Exchange) -> None:
    pool = console([order(n) for n in range(1, 8)])
    process = pool.launch("replay", *(ident(n) for n in range(1, 8)), "--paper", "--json")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 0, told
    assert "Traceback" not in told
    assert len(exchange.orders) == 7
    assert {one["state"] for one in pool.inline("list", "--json", "--all").rows} == {"replayed"}


def test_a_reader_that_stalls_holds_up_nothing_but_itself(console: Any, exchange: Exchange) -> None:
    """Nobody reads the small pipe: what is shown waits, what is sent is sent and recorded."""
    pool = console([order(n) for n in range(1, 31)], settings={"rate_per_minute": 6000})
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    process = pool.start("replay", *(ident(n) for n in range(1, 31)), "--paper", "--json", stdout=writing)
    os.close(writing)
    deadline = time.monotonic() + 30
    while {one["state"] for one in pool.inline("list", "--json", "--all").rows} != {"replayed"}:
        assert time.monotonic() < deadline
    assert process.poll() is None  # it still waits for its reader
    with os.fdopen(reading) as pipe:
        assert len(pipe.read().splitlines()) == 30
    assert process.wait(30) == 0
    assert process.stderr is not None
    process.stderr.close()


def test_without_a_standard_input_live_still_needs_its_words(console: Any, exchange: Exchange) -> None:
    pool = console([order(1)])
    words = " ".join(shlex.quote(word) for word in pool.command("replay", ident(1), "--live"))
    done = subprocess.run(["sh", "-c", f"{words} <&-"], capture_output=True, text=True, env=pool.environ, cwd=ROOT)
    assert (done.returncode, exchange.posts) == (2, []), done.stderr


def test_a_halt_from_another_console_stops_a_running_batch(console: Any, exchange: Exchange) -> None:
    pool = console([order(n) for n in range(1, 13)], settings={"rate_per_minute": 120})
    process = pool.start("replay", *(ident(n) for n in range(1, 13)), "--paper", "--json")
    assert process.stdout is not None
    process.stdout.readline()
    assert pool.inline("halt", "--note", "stop").code == 0
    posts = len(exchange.posts)
    rest, _ = process.communicate(timeout=30)
    rows = [json.loads(line) for line in rest.splitlines()]
    assert process.returncode == 4
    assert "not_sent" in {one["outcome"] for one in rows}
    assert any((one["detail"] or "").startswith("halt") for one in rows)
    assert len(exchange.posts) <= posts + 1
