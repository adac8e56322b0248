"""The bots of docs/engines.md, run as they stand there, with the real packages on the practice exchange."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from dlq_sink import InMemoryDLQ, dead_letters

from tests.support.command import Console
from tests.support.exchange import Exchange, in_thread
from tests.support.sink import in_postgres, in_sqlite

NO_NAUTILUS = "nautilus_trader cannot be had here; where it is installed, the strategy of docs/engines.md is loaded"
TEXT = (Path(__file__).parents[3] / "docs/engines.md").read_text()
SNIPPETS = {found[2]: found[3] for found in re.finditer(r"```(python|sql)\n(?:#|--) (\w+)\n(.*?)```", TEXT, re.DOTALL)}


@pytest.fixture(scope="module")
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: Exchange) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VENUE_URL", exchange.url)
    return tmp_path


def run(name: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": name}
    exec(compile(SNIPPETS[name], f"docs/engines.md:{name}", "exec"), space)
    return space


# alpaca-py imports a part of websockets that is on its way out; no bot uses it.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("bot", "good", "bad"),
    [
        ("alpaca_bot", "AAPL", "MSFT"),
        ("intent_bot", "AAPL", "MSFT"),
        ("ccxt_bot", "BTC/USDT", "ETH/USDT"),
        ("ccxt_async_bot", "BTC/USDT", "ETH/USDT"),
    ],
)
def test_a_bot_places_one_order_and_keeps_the_other(
    here: Path, exchange: Exchange, capsys: pytest.CaptureFixture[str], bot: str, good: str, bad: str
) -> None:
    exchange.fault("reject", symbol=bad.replace("/", ""))
    before = len(exchange.orders)
    run(bot)
    assert capsys.readouterr().out == f"{good} placed\n{bad} is in the dead-letter queue\n"
    (row,) = in_sqlite(here / "orders.db", "SELECT dlq_id, market_id, side, client_order_id, account_id FROM order_dlq")
    assert (row[1], row[2], row[4]) == (bad, "buy", "main")
    intents = in_sqlite(here / "orders.db", "SELECT dlq_id, client_order_id, venue_order_id FROM order_dlq_intent "
                        "WHERE resolved_at IS NOT NULL ORDER BY captured_at")  # fmt: skip
    assert len(intents) == 2
    placed = exchange.orders[before:]
    assert [order["client_order_id"] for order in placed] == [intents[0][1]]
    assert (intents[1][0], intents[1][1]) == (row[0], row[3])
    exchange.clear()


def test_a_faststream_outbox_app_needs_no_line(here: Path, postgres_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", postgres_db)
    run("faststream_app")
    ran = Console(here, postgres_db, "http://127.0.0.1:1").inline("list", "--json")
    assert ran.code == 0, ran.err
    assert (ran.row["layout"], ran.row["queue"], ran.row["state"]) == ("outbox", "orders", "pending")
    assert "AAPL was refused" in ran.row["last_exception"]


def test_a_consumer_of_other_messages(here: Path, postgres_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", postgres_db)
    in_postgres(postgres_db, SNIPPETS["consumer_table"])
    run("consumer")
    ran = Console(here, postgres_db, "http://127.0.0.1:1").inline("list", "--json")
    assert ran.code == 0, ran.err
    assert (ran.row["layout"], ran.row["queue"], ran.row["last_exception"]) == (
        "outbox", "payments", "ValueError: no such account",
    )  # fmt: skip


def test_counters_of_prometheus_client(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = prometheus_client.CollectorRegistry()
    monkeypatch.setattr(prometheus_client, "REGISTRY", registry)
    run("metrics")
    assert registry.get_sample_value("horizon_order_rejects_total", {"layer": "venue_exception"}) == 1
    kept = {"event": "dead_letter", "venue": "alpaca"}
    assert registry.get_sample_value("dlq_sink_events_total", kept) == 1


@pytest.mark.skipif(importlib.util.find_spec("nautilus_trader") is None, reason=NO_NAUTILUS)
def test_a_nautilus_strategy(here: Path) -> None:
    assert run("nautilus_strategy")["Witnessed"] is not None


def test_an_engine_that_learns_later() -> None:
    sink = InMemoryDLQ()
    letters = dead_letters(sink, venue="binance", fire_and_forget=True, witness=True)
    sent: list[dict[str, Any]] = []
    submit = letters(sent.append)
    open_ones = sink.intents().rows.rows  # type: ignore[attr-defined]
    for number in range(3):
        order = {"symbol": "BTCUSDT", "side": "buy", "quantity": "1", "order_type": "market"}
        assert submit(order | {"client_order_id": f"c-{number}"}) is None
    assert (len(open_ones), sink.depth(), len(sent)) == (3, 0, 3)
    letters.accepted({"client_order_id": "c-0"}, "v-0")
    entry = submit.rejected(sent[1], "INSUFFICIENT_MARGIN")  # type: ignore[attr-defined]
    assert (entry.client_order_id, entry.error, entry.market_id) == ("c-1", "INSUFFICIENT_MARGIN", "BTCUSDT")
    assert ([one.client_order_id for one in open_ones.values()], sink.list()) == (["c-2"], [entry])
    late = letters.rejected(
        {"symbol": "ETHUSDT", "side": "sell", "client_order_id": "of another run"}, ValueError("no")
    )
    assert (late.error, sink.depth()) == ("ValueError: no", 2)
