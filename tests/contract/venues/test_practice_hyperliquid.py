"""The Hyperliquid SDK, unmodified, trades on the practice exchange; nonces, cloids and its errors with HTTP 200."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from eth_account import Account
from hyperliquid.exchange import Exchange
from hyperliquid.utils.types import Cloid

from tests.support.practice_wire import HYPERLIQUID, hear, hyperliquid_action, hyperliquid_info, hyperliquid_order
from venues.practice import PracticeExchange

T = TypeVar("T")
CLOID = "0x" + "ab" * 16
GTC = {"limit": {"tif": "Gtc"}}
ROW = {"a": 1, "b": True, "p": "1100", "s": "0.2", "r": False, "t": GTC}


@pytest.fixture
async def exchange() -> AsyncIterator[PracticeExchange]:
    async with PracticeExchange() as running:
        yield running


@pytest.fixture
async def client(exchange: PracticeExchange) -> AsyncIterator[Any]:
    wallet = Account.from_key("0x" + "1" * 64)
    trading = await run(lambda: Exchange(wallet, exchange.url, timeout=20))
    yield trading
    trading.session.close()
    trading.info.session.close()


async def run(call: Callable[[], T]) -> T:
    return await asyncio.wait_for(asyncio.to_thread(call), 30)


def status_of(answer: Any) -> Any:
    return answer["response"]["data"]["statuses"][0]


async def test_place_look_up_modify_cancel(exchange: PracticeExchange, client: Any) -> None:
    cloid, user = Cloid.from_str(CLOID), client.wallet.address
    placed = status_of(await run(lambda: client.order("ETH", True, 0.2, 1100, GTC, cloid=cloid)))
    assert placed["resting"]["cloid"] == CLOID
    found = await run(lambda: client.info.query_order_by_cloid(user, cloid))
    assert found["order"]["status"] == "open"
    assert (found["order"]["order"]["oid"], found["order"]["order"]["origSz"]) == (placed["resting"]["oid"], "0.2")
    changed = status_of(await run(lambda: client.modify_order(cloid, "ETH", True, 0.3, 1100, GTC, cloid=cloid)))
    assert [row["sz"] for row in await run(lambda: client.info.open_orders(user))] == ["0.3"]
    assert status_of(await run(lambda: client.cancel_by_cloid("ETH", cloid))) == "success"
    by_oid = await run(lambda: client.info.query_order_by_oid(user, changed["resting"]["oid"]))
    assert by_oid["order"]["status"] == "canceled"
    assert await run(lambda: client.info.open_orders(user)) == []
    assert len(await run(lambda: client.info.historical_orders(user))) == 2
    assert [line["kind"] for line in exchange.received] == ["new", "replace", "cancel"]


async def test_cancel_by_oid(client: Any) -> None:
    oid = status_of(await run(lambda: client.order("ETH", False, 0.2, 1100, GTC)))["resting"]["oid"]
    assert status_of(await run(lambda: client.cancel("ETH", oid))) == "success"
    assert "never placed" in status_of(await run(lambda: client.cancel("ETH", oid)))["error"]


async def test_immediate_order_fills(client: Any) -> None:
    filled = status_of(await run(lambda: client.market_open("BTC", True, 0.01)))["filled"]
    assert filled["totalSz"] == "0.01"
    (fill,) = await run(lambda: client.info.user_fills(client.wallet.address))
    assert (fill["oid"], fill["coin"]) == (filled["oid"], "BTC")


async def test_spot_orders(client: Any) -> None:
    placed = status_of(await run(lambda: client.order("PURR/USDC", True, 100, 0.5, GTC)))
    assert placed["resting"]["oid"] > 0


async def test_probe(client: Any) -> None:
    address = client.wallet.address
    assert (await run(lambda: client.info.user_state(address)))["marginSummary"]["accountValue"] == "1000000.0"
    assert (await run(lambda: client.info.spot_user_state(address)))["balances"]
    status = await run(lambda: client.info.post("/info", {"type": "exchangeStatus"}))
    assert status["specialStatuses"] is None


async def test_a_cloid_is_taken_once(exchange: PracticeExchange) -> None:
    await hear(exchange.url, hyperliquid_order(CLOID, "ETH"))
    again = (await hear(exchange.url, hyperliquid_order(CLOID, "ETH"))).json()
    assert again["status"] == "ok"
    assert "cloid" in status_of(again)["error"]
    assert len(exchange.orders) == 1


async def test_a_nonce_is_taken_once_also_after_a_restart(tmp_path: Path) -> None:
    nonce = int(time.time() * 1000)
    ask = hyperliquid_action({"type": "order", "orders": [ROW]}, nonce=nonce)
    refusal = {"status": "err", "response": f"Invalid nonce: duplicate nonce {nonce}"}
    async with PracticeExchange(ledger=tmp_path / "ledger") as exchange:
        assert "resting" in status_of((await hear(exchange.url, ask)).json())
        assert (await hear(exchange.url, ask)).json() == refusal
    async with PracticeExchange(ledger=tmp_path / "ledger") as exchange:
        assert (await hear(exchange.url, ask)).json() == refusal
        assert len(exchange.orders) == 1


async def test_a_nonce_that_never_arrived_is_still_good(exchange: PracticeExchange) -> None:
    ask = hyperliquid_action({"type": "order", "orders": [ROW]})
    exchange.fault("ETH", "drop_before_accept", times=1)
    await hear(exchange.url, ask)
    assert "resting" in status_of((await hear(exchange.url, ask)).json())


@pytest.mark.parametrize("days", [-3, 2])
async def test_a_nonce_out_of_its_window_is_refused(exchange: PracticeExchange, days: int) -> None:
    nonce = int((time.time() + days * 86400) * 1000)
    answer = (await hear(exchange.url, hyperliquid_action({"type": "order", "orders": [ROW]}, nonce=nonce))).json()
    assert answer["status"] == "err"
    assert exchange.orders == ()


async def test_an_expired_action_is_refused(exchange: PracticeExchange) -> None:
    now = int(time.time() * 1000)
    for expires, booked in ((now - 1000, 0), (now + 60_000, 1)):
        action: dict[str, object] = {"type": "order", "orders": [ROW]}
        await hear(exchange.url, hyperliquid_action(action, expiresAfter=expires))
        assert len(exchange.orders) == booked


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"a": 9999}, "asset"),
        ({"a": "ETH"}, "asset"),
        ({"t": {"limit": {"tif": "Day"}}}, "type"),
        ({"s": "0.00001"}, "size"),
        ({"s": "0"}, "size"),
        ({"p": "1100.123"}, "price"),
        ({"p": "1"}, "minimum value of $10"),
        ({"c": "0x12"}, "cloid"),
    ],
)
async def test_invalid_orders(exchange: PracticeExchange, wrong: dict[str, object], words: str) -> None:
    action: dict[str, object] = {"type": "order", "orders": [ROW | wrong]}
    heard = await hear(exchange.url, hyperliquid_action(action))
    assert heard.status == 200
    assert words in status_of(heard.json())["error"]
    assert exchange.orders == ()


async def test_an_unknown_order(exchange: PracticeExchange) -> None:
    assert (await hear(exchange.url, HYPERLIQUID.find())).json() == {"status": "unknownOid"}


async def test_single_modify_answers_without_statuses(exchange: PracticeExchange) -> None:
    oid = status_of((await hear(exchange.url, hyperliquid_order(CLOID, "ETH"))).json())["resting"]["oid"]
    change: dict[str, object] = {"type": "modify", "oid": oid, "order": ROW | {"s": "0.3", "c": CLOID}}
    answer = (await hear(exchange.url, hyperliquid_action(change))).json()
    assert answer == {"status": "ok", "response": {"type": "default"}}
    assert [(order.state, str(order.quantity)) for order in exchange.orders] == [("replaced", "0.2"), ("open", "0.3")]
    assert (await hear(exchange.url, hyperliquid_action(change))).json()["status"] == "err"


async def test_an_unknown_question_is_malformed(exchange: PracticeExchange) -> None:
    assert (await hear(exchange.url, hyperliquid_info("weather"))).status == 422


STOP = {"trigger": {"isMarket": False, "triggerPx": 1200.0, "tpsl": "sl"}}


async def test_a_trigger_rests_and_is_told_as_one(client: Any) -> None:
    user = client.wallet.address
    oid = status_of(await run(lambda: client.order("ETH", True, 0.2, 1210, STOP, reduce_only=True)))["resting"]["oid"]
    held = (await run(lambda: client.info.query_order_by_oid(user, oid)))["order"]["order"]
    assert (held["isTrigger"], held["triggerPx"], held["orderType"]) == (True, "1200", "Stop Limit")
    assert (held["reduceOnly"], held["tif"], held["triggerCondition"]) == (True, "Gtc", "Price above 1200")
    (row,) = await run(lambda: client.info.frontend_open_orders(user))
    assert row["oid"] == oid


async def test_exits_wait_for_their_order_or_rest_once_it_is_filled(client: Any) -> None:
    user = client.wallet.address
    child = {"coin": "ETH", "is_buy": False, "sz": 0.2, "limit_px": 990, "reduce_only": True}
    loss = {**child, "order_type": {"trigger": {"isMarket": False, "triggerPx": 1000.0, "tpsl": "sl"}}}
    for tif, told in (("Gtc", "waitingForFill"), ("Ioc", "resting")):
        main = {**child, "is_buy": True, "limit_px": 1100, "reduce_only": False, "order_type": {"limit": {"tif": tif}}}
        answer = await run(partial(client.bulk_orders, [main, loss], grouping="normalTpsl"))
        first, second = answer["response"]["data"]["statuses"]
        assert told in second
        oid = (first.get("resting") or first["filled"])["oid"]
        held = (await run(partial(client.info.query_order_by_oid, user, oid)))["order"]["order"]
        assert [one["triggerPx"] for one in held["children"]] == (["1000"] if tif == "Gtc" else [])


async def test_an_order_with_a_broken_exit_is_not_placed(exchange: PracticeExchange) -> None:
    broken = ROW | {"t": {"trigger": {"isMarket": False, "triggerPx": "0", "tpsl": "sl"}}}
    action: dict[str, object] = {"type": "order", "orders": [ROW, broken], "grouping": "normalTpsl"}
    answer = (await hear(exchange.url, hyperliquid_action(action))).json()
    assert answer["response"]["data"]["statuses"] == [{"error": "Order has invalid type."}]
    assert exchange.orders == ()


async def test_an_unknown_coin_has_no_book(exchange: PracticeExchange) -> None:
    assert (await hear(exchange.url, hyperliquid_info("l2Book", coin="NOPE"))).json() is None
