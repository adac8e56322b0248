"""The demo: a temporary SQLite store with an entry for every outcome, and a practice venue on loopback."""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from backends import DeadLetteredOrder, SQLiteDLQ
from console import clock
from console.own_program import OWN_PROGRAM

CONFLICT = "INTC"
_CANCEL = {"action": "cancel", "venue_order_id": "practice-unknown"}
_ERRORS = {
    "429": "RuntimeError: HTTP 429 after 3 attempts",
    "timeout": "ReadTimeout: no answer in 10 s",
    "reset": "ConnectionResetError: [Errno 104] Connection reset by peer",
    "refused": "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 443)",
    "funds": 'APIError: {"code":40310000,"message":"insufficient buying power"}',
    "auth": 'APIError: {"code":40110000,"message":"request is not authorized: access key expired"}',
    "closed": "RuntimeError: market is closed",
    "busy": "HTTPError: 503 Server Error: Service Unavailable",
    "schema": "ValidationError: 1 validation error for OrderRequest: limit_price must be a number",
}


@dataclass(frozen=True, slots=True)
class _Demo:
    """One entry of the demo: how old, which order, why it failed, and what its action says beside the columns."""

    age: str
    market: str
    side: str
    quantity: float
    price: float | None
    error: str
    client_id: str | None
    venue: str = "alpaca"
    account: str = "main"
    order_type: str = ""
    says: Mapping[str, object] = field(default_factory=dict)
    is_broken: bool = False


# Some symbols steer the practice venue: it rejects REJECT, books DROP but loses the answer, …
_ROWS = (
    _Demo("2m", "AAPL", "buy", 100.0, 180.0, "429", "demo-aapl-1"),
    _Demo("2m", "MSFT", "buy", 20.0, None, "429", "demo-msft-1"),
    _Demo("3m", "SPY", "sell", 5.0, 512.4, "refused", "demo-spy-1"),
    _Demo("4m", "NVDA", "sell", 40.0, 118.2, "timeout", "demo-nvda-1", account="hedge"),
    _Demo("4m", "REJECT", "buy", 10.0, 25.0, "funds", "demo-reject-1"),
    _Demo("5m", "DROP", "buy", 3.0, 99.5, "reset", "demo-drop-1"),
    _Demo("5m", "BUSY", "sell", 7.0, 41.0, "429", "demo-busy-1", account="hedge"),
    _Demo("6m", "AMD", "buy", 15.0, 160.25, "closed", None),
    _Demo("7m", "TSLA", "buy", 12.0, 240.0, "auth", "demo-tsla-1"),
    _Demo("7m", "TSLA", "buy", 12.0, 240.0, "auth", "demo-tsla-1", says=_CANCEL),
    _Demo("9d", "GOOG", "buy", 6.0, 171.1, "429", "demo-goog-1"),
    _Demo("3h", "AMZN", "sell", 9.0, 185.75, "schema", None, is_broken=True),
    _Demo("3m", "QQQ", "sell", 8.0, None, "429", "demo-qqq-1", order_type="stop", says={"stop_price": 498.0}),
    _Demo("6m", "META", "sell", 4.0, 602.5, "timeout", "demo-meta-1"),
    _Demo("8m", "KXRAIN-DEMO", "buy", 50.0, 0.44, "busy", "demo-rain-1", venue="kalshi", says={"outcome": "yes"}),
    _Demo("12m", CONFLICT, "sell", 25.0, 31.5, "reset", "demo-intc-1"),
)
# What the demo's colleague wants to send in live: one of them is stale, so that a second person must agree.
WAITING_IDS = tuple(f"dlq_{0xD0 + number:016x}" for number, row in enumerate(_ROWS) if row.market in ("GOOG", "SPY"))
CONFLICT_ID = f"dlq_{0xD0 + len(_ROWS) - 1:016x}"  # its replay is in doubt, and the venue shows it with other terms
# What the practice venue does to that order, and the position that META's order closes.
_FAULTS = (
    {"symbol": CONFLICT, "on": "new", "fault": "accept_then_drop"},
    {"symbol": CONFLICT, "on": "lookup", "fault": "lookup_different"},
)
_POSITION = {"venue": "alpaca", "symbol": "META", "quantity": "4"}


def demo_entries(now: datetime) -> Iterator[DeadLetteredOrder]:
    minutes = {"m": 1, "h": 60, "d": 24 * 60}
    for number, row in enumerate(_ROWS):
        yield DeadLetteredOrder(
            dlq_id=f"dlq_{0xD0 + number:016x}",
            captured_at=now - timedelta(minutes=int(row.age[:-1]) * minutes[row.age[-1]], seconds=number),
            venue_name=row.venue,
            account_id=row.account,
            market_id=row.market,
            side=row.side,
            quantity=row.quantity,
            order_type=row.order_type or ("market" if row.price is None else "limit"),
            price=row.price,
            client_order_id=row.client_id,
            error=_ERRORS[row.error],
            action_json=_action(row),
        )


def demo_ids() -> list[str]:
    return [f"dlq_{0xD0 + number:016x}" for number in range(len(_ROWS))]


def _action(row: _Demo) -> str:
    if row.is_broken:
        return f'{{"market_id": "{row.market}", "quantity": {row.quantity}, "quantity": {row.quantity * 10}}}'
    # Good till cancelled, so that the demo can be replayed for as long as it is open.
    action = {"market_id": row.market, "side": row.side, "quantity": row.quantity, "time_in_force": "gtc"}
    return json.dumps(action | ({} if row.price is None else {"price": row.price}) | dict(row.says))


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
    script = folder / "faults.json"
    script.write_text(json.dumps(_FAULTS))
    command = [*OWN_PROGRAM, "practice", "--ledger", str(folder / "venue.jsonl"), "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:  # noqa: S603 - our own program
        try:
            url = (process.stdout.readline() if process.stdout else "").strip()
            _give_position(url)
            yield url
        finally:
            process.terminate()


def _give_position(url: str) -> None:
    request = urllib.request.Request(f"{url}/practice/positions", json.dumps(_POSITION).encode(), method="POST")  # noqa: S310 - our own exchange on loopback
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        answer.read()


def _credentials() -> Iterator[tuple[str, str]]:
    """File names and values of keys that are not secret; each key is an account of its own at the exchange."""
    for mode, begins in (("paper", "PK"), ("live", "AK")):
        for account, kept in (("MAIN", f"alpaca.{mode}"), ("HEDGE", f"alpaca.hedge.{mode}")):
            yield f"{kept}.api_key", f"{begins}DEMO{account}"
            yield f"{kept}.secret_key", "practice"
        yield f"kalshi.{mode}.api_key_id", f"{begins}DEMO"
        yield f"kalshi.{mode}.private_key", _private_key()


@cache
def _private_key() -> str:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def demo_config(folder: Path, url: str) -> Path:
    """A config that sends the orders of two alpaca accounts and one of kalshi to the practice exchange."""
    secrets = folder / "credentials"
    secrets.mkdir(mode=0o700)
    for name, value in _credentials():
        path = secrets / name
        path.write_text(f"{value}\n")
        path.chmod(0o600)
    store = folder / "orders.db"
    config = folder / "config.toml"
    config.write_text(
        f'credentials_dir = "{secrets}"\n'
        f'[stores.demo]\nurl = "{store}"\nmode = "paper"\n'
        + "".join(
            f'[venues.{venue}]\npaper_endpoint = "{url}"\nlive_endpoint = "{url}"\ntimeout = 3.0\n'
            'visibility_seconds = 5\ndefault_account = "main"  # the hedge account has keys of its own\n'
            for venue in ("alpaca", "kalshi")
        )
        + '[limits]\nstale_after = "7d"  # the usual 15 minutes would end the demo\n'
    )
    config.chmod(0o600)
    return config
