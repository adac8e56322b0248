"""From an SDK's own call through an entry back to the wire: the replayed request is the original one, or none is sent.

The submit fails because nothing listens; the same call made directly, at a second exchange, is what was meant.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import ccxt
import pytest
from alpaca.common.exceptions import APIError
from dlq_sink import SQLiteDLQ, dead_letters

from tests.support.command import SECRETS, Console
from tests.support.exchange import Exchange, in_thread
from tests.support.venue.alpaca_shapes import SHAPES, TradingClient

NUMBERS = {"qty", "notional", "limit_price", "stop_price", "trail_price", "trail_percent", "ratio_qty"}
UNSAID = {"order_class": "simple", "extended_hours": False}  # what Alpaca takes a request without them to mean
SIGNED = {"signature", "timestamp", "recvWindow"}
NEW = [shape for shape in SHAPES if shape.verb == "new"]
KEYS = {"apiKey": "practice", "secret": "practice"}
OVERRIDES = "may-have-arrived,duplicate,price-drift,notional"

SPOT: list[tuple[Any, ...]] = [
    ("limit", 50000, {}),
    ("market", None, {}),
    ("limit", 50000, {"timeInForce": "IOC"}),
    ("limit", 50000, {"timeInForce": "FOK"}),
    ("limit", 50000, {"timeInForce": "GTC"}),
    ("limit", 50000, {"postOnly": True}),
    ("limit", 50000, {"timeInForce": "PO"}),
    ("limit", 50000, {"stopPrice": 49000}),
    ("limit", 50000, {"triggerPrice": 49000}),
    ("limit", 50000, {"stopLossPrice": 49000}),
    ("limit", 50000, {"takeProfitPrice": 61000}),
    ("limit", 50000.5, {"newOrderRespType": "FULL"}),
    ("limit", 50000, {"leverage": 5}),
    ("limit", 50000, {"icebergQty": 1}),
]
SWAP = [
    ("limit", 50000, {}),
    ("market", None, {}),
    ("limit", 50000, {"timeInForce": "IOC"}),
    ("limit", 50000, {"postOnly": True}),
    ("limit", 50000, {"reduceOnly": True}),
    ("market", None, {"reduceOnly": True}),
    ("limit", 50000, {"triggerPrice": 49000}),
    ("market", None, {"triggerPrice": 49000}),
    ("market", None, {"stopLossPrice": 49000}),
    ("market", None, {"takeProfitPrice": 61000}),
    ("market", None, {"trailingPercent": 1.5}),
    ("limit", 50000, {"stopLoss": {"triggerPrice": 45000}, "takeProfit": {"triggerPrice": 61000}}),
    ("limit", 50000, {"marginMode": "isolated"}),
    ("limit", 50000, {"positionSide": "LONG"}),
]
CALLS = [
    (symbol, kind, side, 2, price, params)
    for symbol, forms in (("BTC/USDT", SPOT), ("BTC/USDT:USDT", SWAP))
    for side in ("buy", "sell")
    for kind, price, params in forms
]

SWAPPED = "BTC/USDT:USDT"
# ccxt's other methods: what each says by its name, and its arguments without the params.
NAMED: list[tuple[str, tuple[Any, ...]]] = [
    ("create_limit_buy_order", ("BTC/USDT", 2, 50000)),
    ("create_limit_sell_order", ("BTC/USDT", 2, 50000)),
    ("create_limit_order", ("BTC/USDT", "sell", 2, 50000)),
    ("create_market_buy_order", ("BTC/USDT", 2)),
    ("create_market_sell_order", ("BTC/USDT", 2)),
    ("create_market_order", ("BTC/USDT", "sell", 2)),
    ("create_market_buy_order_with_cost", ("BTC/USDT", 1000)),
    ("create_market_sell_order_with_cost", ("BTC/USDT", 1000)),
    ("create_market_order_with_cost", ("BTC/USDT", "buy", 1000)),
    ("create_post_only_order", ("BTC/USDT", "limit", "buy", 2, 50000)),
    ("create_post_only_order", (SWAPPED, "limit", "sell", 2, 50000)),
    ("create_reduce_only_order", (SWAPPED, "limit", "sell", 2, 50000)),
    ("create_reduce_only_order", (SWAPPED, "market", "buy", 2)),
    ("create_stop_order", ("BTC/USDT", "limit", "buy", 2, 50000, 49000)),
    ("create_stop_limit_order", ("BTC/USDT", "sell", 2, 50000, 49000)),
    ("create_stop_market_order", (SWAPPED, "sell", 2, 49000)),
    ("create_trigger_order", (SWAPPED, "limit", "buy", 2, 50000, 49000)),
    ("create_take_profit_order", (SWAPPED, "market", "sell", 2, None, 61000)),
    ("create_stop_loss_order", (SWAPPED, "market", "sell", 2, None, 49000)),
    ("create_trailing_percent_order", (SWAPPED, "market", "sell", 2, None, 1.5)),
    ("create_trailing_percent_order", (SWAPPED, "market", "sell", 2, None, 1.5, 48000)),
    ("create_trailing_amount_order", (SWAPPED, "market", "sell", 2, None, 10)),
    ("create_order_with_take_profit_and_stop_loss", (SWAPPED, "limit", "buy", 2, 50000, 61000, 45000)),
]


@pytest.fixture(scope="module")
def exchanges() -> Iterator[tuple[Exchange, Exchange]]:
    with in_thread() as direct, in_thread() as replayed:
        yield direct, replayed


@pytest.fixture(scope="module")
def nowhere() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def desk(tmp_path: Path, url: str) -> Console:
    keys = {"apiKey": "practice", "secret": "practice"}
    limits = {"max_notional": 10**9, "max_batch": 100, "four_eyes_over": 10**12, "duplicate_window": "1s"}
    limits |= {"plan_seconds": 3600, "quote_seconds": 3600, "stale_after": "1d"}  # a busy machine decides nothing
    return Console(
        tmp_path,
        str(tmp_path / "orders.db"),
        url,
        limits=limits,
        venues={
            "ccxt:binance": {"paper_endpoint": url, "timeout": 120, "rate_per_minute": 6000, "visibility_seconds": 0.1}
        },
        settings={"rate_per_minute": 6000, "timeout": 120},
        secrets={**SECRETS, "ccxt:binance": keys},
    )


def shown_by(console: Console) -> dict[str, dict[str, Any]]:
    """What `dlq show` tells of every entry, by the client order id of its order."""
    ids = [row["dlq_id"] for row in console.inline("list", "--json").rows]
    entries = [console.inline("show", one, "--json").rows[0]["entry"] for one in ids]
    return {entry["client_order_id"]: entry for entry in entries}


def replayed(console: Console) -> dict[str, dict[str, Any]]:
    """Every entry, by the client order id of its order."""
    ran = console.inline("list", "--json")
    ids = {row["dlq_id"]: row["client_order_id"] for row in ran.rows}
    sent = console.inline("replay", *ids, "--paper", "--yes", "--json", "--override", OVERRIDES, "--note", "test")
    assert sent.code in (0, 1, 4), sent.err
    return {ids[row["dlq_id"]]: row for row in sent.rows}


def alpaca_meaning(body: str) -> object:
    """The body with numbers as decimals, however they are written, and without what says nothing."""

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: walk(held, name) for name, held in value.items() if UNSAID.get(name, ...) != held}
        if isinstance(value, list):
            return [walk(one) for one in value]
        return Decimal(value) if key in NUMBERS else value

    return walk(json.loads(body, parse_float=Decimal, parse_int=Decimal))


def binance_meaning(line: dict[str, Any]) -> object:
    pairs = [*parse_qsl(line["query"]), *parse_qsl(line["body"])] if isinstance(line["query"], str) else None
    fields = dict(pairs) if pairs is not None else {**line["query"], **dict(parse_qsl(line["body"]))}
    return line["path"], {name: value for name, value in fields.items() if name not in SIGNED}


def test_requests_of_alpaca_py(tmp_path: Path, exchanges: tuple[Exchange, Exchange], nowhere: str) -> None:
    direct, again = exchanges
    sink = SQLiteDLQ(tmp_path / "orders.db")
    lost = TradingClient("practice", "practice", url_override=nowhere, raw_data=True)
    meant = TradingClient("practice", "practice", url_override=direct.url, raw_data=True)
    submit = dead_letters(sink, venue="alpaca", account="main")(lost.submit_order)
    requests = [one.request.model_copy(update={"client_order_id": f"wire-{n}"}) for n, one in enumerate(NEW)]
    for request in requests:
        assert submit(request) is None
        with suppress(APIError):  # the exchange refuses some, after it has read them
            meant.submit_order(request)
    console = desk(tmp_path, again.url)
    shown = shown_by(console)
    for request in requests:
        row = shown[request.client_order_id]
        assert row["side"] == (request.side.value if request.side else "")
        assert Decimal(str(row["quantity"])) == Decimal(str(request.qty or 0))
        assert (row["order_type"], row["market_id"]) == (request.type.value, request.symbol or "")
        assert row["price"] == getattr(request, "limit_price", None)
        held = json.loads(row["action_json"])
        asked = request.model_dump(mode="json")
        assert {name: held.get(name) for name in asked} == asked
    outcomes = replayed(console)
    theirs = {line["client_order_id"]: line for line in direct.posts}
    ours = {line["client_order_id"]: line for line in again.posts}
    verdicts: Counter[str] = Counter()
    for shape, request in zip(NEW, requests, strict=True):
        client_id = request.client_order_id
        if client_id in ours:
            assert alpaca_meaning(ours[client_id]["body"]) == alpaca_meaning(theirs[client_id]["body"]), shape.name
            verdicts["equal"] += 1
        else:
            assert outcomes[client_id]["outcome"] == "refused", (shape.name, outcomes[client_id])
            assert shape.refused is not None, (shape.name, outcomes[client_id])
            verdicts["refused"] += 1
    assert verdicts["equal"] >= 25
    assert sum(verdicts.values()) == len(NEW)
    sink.close()


def binance_at(url: str, nowhere: str) -> tuple[Any, Any]:
    """One that reaches the exchange, and one that knows its markets and reaches nobody."""
    meant, lost = ccxt.binance(KEYS), ccxt.binance(KEYS)
    meant.urls["api"] = {name: url + urlsplit(path).path for name, path in meant.urls["api"].items()}
    meant.load_markets()
    lost.set_markets(meant.markets, meant.currencies)
    lost.urls["api"] = {name: nowhere + urlsplit(path).path for name, path in lost.urls["api"].items()}
    return meant, lost


def test_calls_of_ccxt(tmp_path: Path, exchanges: tuple[Exchange, Exchange], nowhere: str) -> None:
    direct, again = exchanges
    sink = SQLiteDLQ(tmp_path / "orders.db")
    meant, lost = binance_at(direct.url, nowhere)
    submit = dead_letters(sink, venue="ccxt:binance")(lost.create_order)
    made: dict[str, tuple[Any, ...]] = {}
    for number, (*given, params) in enumerate(CALLS):
        call = (*given, {**params, "clientOrderId": f"wire-{number}"})
        # Half of the engines say the names.
        names = ("symbol", "type", "side", "amount", "price", "params")
        assert (submit(*call) if number % 2 else submit(**dict(zip(names, call, strict=True)))) is None
        made[f"wire-{number}"] = call
        with suppress(ccxt.BaseError):  # it makes no request, or the exchange refuses what it has read
            meant.create_order(*call)
    console = desk(tmp_path, again.url)
    shown = shown_by(console)
    for client_id, (symbol, kind, side, amount, price, params) in made.items():
        row = shown[client_id]
        assert (row["market_id"], row["order_type"], row["side"]) == (symbol, kind, side)
        assert (row["quantity"], row["price"]) == (amount, price)
        assert json.loads(row["action_json"])["params"] == params
    outcomes = replayed(console)
    theirs = {line["client_order_id"]: line for line in direct.posts if line["venue"] == "binance"}
    ours = {line["client_order_id"]: line for line in again.posts if line["venue"] == "binance"}
    verdicts: Counter[str] = Counter()
    for client_id, call in made.items():
        if client_id in ours:
            assert binance_meaning(ours[client_id]) == binance_meaning(theirs[client_id]), call
            verdicts["equal"] += 1
        else:
            assert outcomes[client_id]["outcome"] == "refused", (call, outcomes[client_id])
            assert outcomes[client_id]["detail"], call
            verdicts["refused"] += 1
    assert verdicts["equal"] >= 25
    assert sum(verdicts.values()) == len(CALLS) >= 40
    sink.close()


def test_methods_of_ccxt_whose_name_is_part_of_the_order(
    tmp_path: Path, exchanges: tuple[Exchange, Exchange], nowhere: str
) -> None:
    direct, again = exchanges
    sink = SQLiteDLQ(tmp_path / "orders.db")
    meant, lost = binance_at(direct.url, nowhere)
    meant.has["createStopMarketOrder"] = True  # else ccxt sends none, although it can make the request
    made: dict[str, tuple[str, tuple[Any, ...]]] = {}
    for number, (name, given) in enumerate(NAMED):
        client_id = f"named-{number}"
        submit = dead_letters(sink, venue="ccxt:binance")(getattr(lost, name))
        assert submit(*given, params={"clientOrderId": client_id}) is None
        made[client_id] = (name, given)
        with suppress(ccxt.BaseError):  # it makes no request, or the exchange refuses what it has read
            getattr(meant, name)(*given, params={"clientOrderId": client_id})
    outcomes = replayed(desk(tmp_path, again.url))
    theirs = {line["client_order_id"]: line for line in direct.posts if line["venue"] == "binance"}
    ours = {line["client_order_id"]: line for line in again.posts if line["venue"] == "binance"}
    equal = set()
    for client_id, call in made.items():
        if client_id in ours:
            assert client_id in theirs, call
            assert binance_meaning(ours[client_id]) == binance_meaning(theirs[client_id]), call
            equal.add(call[0])
        else:
            assert outcomes[client_id]["outcome"] == "refused", (call, outcomes[client_id])
            assert outcomes[client_id]["detail"], call
    assert equal >= {"create_limit_buy_order", "create_market_order", "create_post_only_order"}
    assert equal >= {"create_reduce_only_order", "create_stop_limit_order", "create_trigger_order"}
    sink.close()
