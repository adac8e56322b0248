"""The demo: a temporary SQLite store with an entry for every outcome, and a practice venue on loopback."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from backends import DeadLetteredOrder, SQLiteDLQ
from console import clock
from console.own_program import OWN_PROGRAM

_HEDGED = ("NVDA", "BUSY")  # markets that another account trades
_ERRORS = {
    "429": "RuntimeError: HTTP 429 after 3 attempts",
    "timeout": "ReadTimeout: no answer in 10 s",
    "reset": "ConnectionResetError: [Errno 104] Connection reset by peer",
    "refused": "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 443)",
    "funds": 'APIError: {"code":40310000,"message":"insufficient buying power"}',
    "auth": 'APIError: {"code":40110000,"message":"request is not authorized: access key expired"}',
    "closed": "RuntimeError: market is closed",
    "schema": "ValidationError: 1 validation error for OrderRequest: limit_price must be a number",
}


def demo_entries(now: datetime) -> Iterator[DeadLetteredOrder]:
    """Some symbols steer the practice venue: it rejects REJECT, books DROP but loses the answer, …"""
    rows = (
        # age, market, side, quantity, price, error, client id, action
        ("2m", "AAPL", "buy", 100.0, 180.0, "429", "demo-aapl-1", None),
        ("2m", "MSFT", "buy", 20.0, None, "429", "demo-msft-1", None),
        ("3m", "SPY", "sell", 5.0, 512.4, "refused", "demo-spy-1", None),
        ("4m", "NVDA", "sell", 40.0, 118.2, "timeout", "demo-nvda-1", None),
        ("4m", "REJECT", "buy", 10.0, 25.0, "funds", "demo-reject-1", None),
        ("5m", "DROP", "buy", 3.0, 99.5, "reset", "demo-drop-1", None),
        ("5m", "BUSY", "sell", 7.0, 41.0, "429", "demo-busy-1", None),
        ("6m", "AMD", "buy", 15.0, 160.25, "closed", None, None),
        ("7m", "TSLA", "buy", 12.0, 240.0, "auth", "demo-tsla-1", None),
        ("7m", "TSLA", "buy", 12.0, 240.0, "auth", "demo-tsla-1", "cancel"),
        ("41m", "GOOG", "buy", 6.0, 171.1, "429", "demo-goog-1", None),
        ("3h", "AMZN", "sell", 9.0, 185.75, "schema", None, "broken"),
    )
    minutes = {"m": 1, "h": 60}
    for number, (old, market, side, quantity, price, error, client_id, action) in enumerate(rows):
        at = now - timedelta(minutes=int(old[:-1]) * minutes[old[-1]], seconds=number)
        yield DeadLetteredOrder(
            dlq_id=f"dlq_{0xD0 + number:016x}",
            captured_at=at,
            venue_name="alpaca",
            account_id="hedge" if market in _HEDGED else "main",
            market_id=market,
            side=side,
            quantity=quantity,
            order_type="market" if price is None else "limit",
            price=price,
            client_order_id=client_id,
            error=_ERRORS[error],
            action_json=_action(market, side, quantity, price, action),
        )


def _action(market: str, side: str, quantity: float, price: float | None, kind: str | None) -> str:
    if kind == "broken":
        return f'{{"market_id": "{market}", "quantity": {quantity}, "quantity": {quantity * 10}}}'
    action: dict[str, object] = {"market_id": market, "side": side, "quantity": quantity, "time_in_force": "day"}
    if price is not None:
        action["price"] = price
    if kind == "cancel":
        action |= {"action": "cancel", "venue_order_id": "practice-unknown"}
    return json.dumps(action)


@contextmanager
def demo_store() -> Iterator[tuple[Path, Path]]:
    """(store, folder), deleted on exit."""
    with tempfile.TemporaryDirectory(prefix="dlq-demo-") as folder:
        path = Path(folder) / "orders.db"
        with SQLiteDLQ(path) as sink:
            for entry in sorted(demo_entries(clock.now()), key=lambda entry: entry.captured_at):
                sink.write(entry)
        yield path, Path(folder)


@contextmanager
def practice_venue(folder: Path) -> Iterator[str]:
    """Runs the practice exchange as a process and yields its URL."""
    command = [*OWN_PROGRAM, "practice", "--ledger", str(folder / "venue.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:  # noqa: S603 - our own program
        try:
            yield (process.stdout.readline() if process.stdout else "").strip()
        finally:
            process.terminate()


def demo_config(folder: Path, url: str) -> Path:
    """A config that sends the orders of two alpaca accounts, paper and live, to the practice exchange.

    Its credentials are not secret; each key is an account of its own there.
    """
    secrets = folder / "credentials"
    secrets.mkdir(mode=0o700)
    for mode, begins in (("paper", "PK"), ("live", "AK")):
        for account, kept in (("MAIN", f"alpaca.{mode}"), ("HEDGE", f"alpaca.hedge.{mode}")):
            for name, value in (("api_key", f"{begins}DEMO{account}"), ("secret_key", "practice")):
                path = secrets / f"{kept}.{name}"
                path.write_text(f"{value}\n")
                path.chmod(0o600)
    store = folder / "orders.db"
    config = folder / "config.toml"
    config.write_text(
        f'credentials_dir = "{secrets}"\n'
        f'[stores.demo]\nurl = "{store}"\nmode = "paper"\n'
        f'[venues.alpaca]\npaper_endpoint = "{url}"\nlive_endpoint = "{url}"\ntimeout = 3.0\nvisibility_seconds = 5\n'
        'default_account = "main"  # the hedge account has keys of its own\n'
    )
    config.chmod(0o600)
    return config
