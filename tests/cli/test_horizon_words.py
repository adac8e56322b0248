"""Horizon's own command lines with `dlq` in place of `horizon dlq`, byte for byte, at the practice exchange."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backends import PostgresDLQ, SQLiteDLQ
from tests.cli.conftest import Dlq, Make
from tests.support.account_keys import Owner, keys_of
from tests.support.command import ROOT, Console, Ran
from tests.support.exchange import in_thread
from tests.support.forked_command import Started
from tests.support.orders import CAPTURED, row, sqlite_store

MARKETS = {
    "alpaca": ("AAPL", 180.0),
    "kalshi": ("KXBTC-26NOV20-T90000", 0.56),
    "hyperliquid": ("BTC", 50000.0),
    "ccxt:binance": ("BTC/USDT", 50000.0),
    "polymarket": ("7", 0.5),
    "ibkr": ("AAPL", 180.0),
}
PLACED = {"alpaca": "alpaca", "kalshi": "kalshi", "hyperliquid": "hyperliquid", "ccxt:binance": "binance"}
SECRETS = {venue: keys_of(Owner(venue, venue, None, "paper")) for venue in MARKETS if venue != "ibkr"}
ONE, TWO, THREE = (f"dlq_{number:016x}" for number in (1, 2, 3))


def started(console: Console, *words: str) -> Started:
    """`dlq WORDS` and nothing else: the config is found through the environment."""
    return Started(words, {**console.environ, "DLQ_CONFIG": str(console.config())}, cwd=ROOT)


def ended(process: Started) -> Ran:
    out, err = process.communicate(timeout=60)
    return Ran(process.wait(60), out, err)


def desk(folder: Path, venue: str, url: str) -> Console:
    """One entry of this venue, and its credentials at the practice exchange."""
    folder.mkdir()
    market, price = MARKETS[venue]
    just_now = datetime.now(UTC) - timedelta(minutes=5)
    order = row(1, venue_name=venue, account_id=None, market_id=market, price=price, quantity=1.0, captured_at=just_now)
    target = sqlite_store(folder / "orders.db", [order])
    settings = {"timeout": 3.0} if venue in ("polymarket", "ibkr") else {"timeout": 3.0, "paper_endpoint": url}
    return Console(folder, target, url, venues={venue: settings}, secrets=SECRETS)


def test_replay_says_horizons_line_at_every_venue(tmp_path: Path) -> None:
    running = {}
    with in_thread() as exchange:
        for number, venue in enumerate(PLACED):
            console = desk(tmp_path / str(number), venue, exchange.url)
            running[venue] = started(console, "replay", ONE, "--db", console.target, "--venue", venue, "--paper")
        ran = {venue: ended(process) for venue, process in running.items()}
        placed = {order["venue"]: order["order_id"] for order in exchange.orders}
    for venue, name in PLACED.items():
        assert (ran[venue].code, ran[venue].out) == (0, f"replayed {ONE}  -> venue order {placed[name]}\n"), ran[venue]


@pytest.mark.parametrize(("venue", "code"), [("polymarket", "no-paper-mode"), ("ibkr", "not-ready")])
def test_a_known_venue_that_cannot_take_it_says_why(tmp_path: Path, venue: str, code: str) -> None:
    """One has no paper mode; nobody has started the gateway of the other."""
    console = desk(tmp_path / "desk", venue, "http://127.0.0.1:1")
    ran = console.inline("replay", ONE, "--venue", venue, "--paper")
    assert (ran.code, ran.out.count("\n")) == (4, 1)
    assert ran.out.startswith(f"refused {ONE}: {code}: ")


def test_list_says_horizons_two_lines_for_each_entry(tmp_path: Path) -> None:
    rows = [
        row(1, quantity=100.0, price=180.0),
        row(2, venue_name="kalshi", market_id="KX", side="sell", quantity=2.5, price=None, order_type="market"),
        row(3, quantity=3.0, price=170.25, retry_count=2, dismissed=True, error="RuntimeError: HTTP 500"),
    ]
    target = sqlite_store(tmp_path / "orders.db", rows)
    console = Console(tmp_path, target, "http://127.0.0.1:1")
    shown, every = started(console, "list", "--db", target), started(console, "list", "--db", target, "--all")
    error = "  error: RuntimeError: HTTP 429 after 3 attempts\n"
    pending = (
        f"{ONE}  2026-04-18T14:32:16Z  alpaca  buy 100 AAPL @ 180.0  [pending, retries=0]\n{error}"
        f"{TWO}  2026-04-18T14:32:17Z  kalshi  sell 2.5 KX @ market  [pending, retries=0]\n{error}"
    )
    dismissed = (
        f"{THREE}  2026-04-18T14:32:18Z  alpaca  buy 3 AAPL @ 170.25  [dismissed, retries=2]\n"
        "  error: RuntimeError: HTTP 500\n"
    )
    assert ended(shown) == Ran(0, pending, "")
    assert ended(every) == Ran(0, pending + dismissed, "")


def test_dismiss_without_anybody_to_ask_says_how_to_give_the_reason(dlq: Dlq, make: Make) -> None:
    ran = dlq("dismiss", ONE, "--db", make([row(1)]))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("dlq: say why with --reason CODE")


def test_list_is_in_insertion_order_or_by_capture_on_postgres(dlq: Dlq, make: Make) -> None:
    """Captured out of order, two at an instant: the layout has no column for the order of insertion."""
    captured = (5, 3, 9, 3, 0)
    rows = [row(9 - place, captured_at=CAPTURED + timedelta(seconds=at)) for place, at in enumerate(captured)]
    target = make(rows)
    by_capture = sorted(rows, key=lambda one: (one["captured_at"], one["dlq_id"]))
    expected = [one["dlq_id"] for one in (by_capture if target.startswith("postgresql:") else rows)]
    assert [one["dlq_id"] for one in dlq("list", "--db", target, "--json").rows] == expected
    with SQLiteDLQ(target) if expected == [one["dlq_id"] for one in rows] else PostgresDLQ(target) as sink:
        assert [one.dlq_id for one in sink.list()] == expected
