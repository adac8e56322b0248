"""Each key is an account of its own on the practice exchange: its orders, look-ups, cancels and client order ids."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from hyperliquid.utils.signing import sign_agent, sign_l1_action

from tests.support.practice_wire import (
    ALPACA,
    ALPACA_KEYS,
    BINANCE,
    KALSHI,
    Ask,
    Dialect,
    hear,
    hyperliquid_action,
    hyperliquid_info,
    kalshi_order,
    nonces,
    order_ids,
    values,
)
from venues.practice import PracticeExchange

HEADERS = {"alpaca": "APCA-API-KEY-ID", "kalshi": "KALSHI-ACCESS-KEY", "binance": "X-MBX-APIKEY"}
KEYED = pytest.mark.parametrize("dialect", [ALPACA, KALSHI, BINANCE], ids=lambda dialect: dialect.name)
ONE, TWO = (Account.from_key("0x" + digit * 64) for digit in "12")
VAULT = "0x" + "ab" * 20
CLOID = "0x" + "1" * 32
NONCES = nonces()
ROW = {"a": 1, "b": True, "p": "1100", "s": "0.2", "r": False, "t": {"limit": {"tif": "Gtc"}}, "c": CLOID}


def keyed(ask: Ask, dialect: Dialect, key: str) -> Ask:
    return replace(ask, headers=ask.headers | {HEADERS[dialect.name]: key})


@KEYED
async def test_two_keys_with_one_client_order_id_are_two_orders(dialect: Dialect) -> None:
    async with PracticeExchange(fsync=False) as exchange:
        placed = [order_ids((await hear(exchange.url, keyed(dialect.place(), dialect, key))).json()) for key in "ab"]
        found = [order_ids((await hear(exchange.url, keyed(dialect.find(), dialect, key))).json()) for key in "ab"]
        again = await hear(exchange.url, keyed(dialect.place(), dialect, "a"))
        assert found[0][0] == placed[0][0] != placed[1][0] == found[1][0]
        assert again.status >= 400
        assert len({order.account for order in exchange.orders}) == len(exchange.orders) == 2


@KEYED
async def test_a_key_neither_sees_nor_cancels_anothers_order(dialect: Dialect) -> None:
    async with PracticeExchange(fsync=False) as exchange:
        (order,) = set(order_ids((await hear(exchange.url, keyed(dialect.place(), dialect, "a"))).json()))
        assert order_ids((await hear(exchange.url, keyed(dialect.find(), dialect, "b"))).json()) == []
        cancel = dialect.cancel(dialect.client_ids[0], dialect.symbol, order)
        assert (await hear(exchange.url, keyed(cancel, dialect, "b"))).status >= 400
        assert exchange.orders[0].live
        assert (await hear(exchange.url, keyed(cancel, dialect, "a"))).status < 300
        assert not exchange.orders[0].live


@KEYED
async def test_the_ledger_names_the_account_but_not_the_key(tmp_path: Path, dialect: Dialect) -> None:
    path = tmp_path / "ledger"
    async with PracticeExchange(ledger=path) as exchange:
        for key in ("canary-one", "canary-two"):
            await hear(exchange.url, keyed(dialect.place(), dialect, key))
        shown = (await hear(exchange.url, Ask("GET", "/practice/orders", {}))).json()
        accounts = [order.account for order in exchange.orders]
    assert all(accounts)
    assert [line["account"] for line in shown] == accounts
    booked = [line for line in map(json.loads, path.read_text().splitlines()) if line["type"] == "order"]
    assert [line["account"] for line in booked] == accounts
    assert "canary" not in path.read_text()
    async with PracticeExchange(ledger=path) as exchange:
        assert [order.account for order in exchange.orders] == accounts
        assert (await hear(exchange.url, keyed(dialect.place(), dialect, "canary-one"))).status >= 400


async def test_orders_of_a_ledger_without_accounts_are_every_keys(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    async with PracticeExchange(ledger=path) as exchange:
        await hear(exchange.url, ALPACA.place())
    older = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "account"}) + "\n" for row in older))
    async with PracticeExchange(ledger=path) as exchange:
        for key in "ab":
            found = (await hear(exchange.url, keyed(ALPACA.find(), ALPACA, key))).json()
            assert found["id"] == exchange.orders[0].order_id
            assert (await hear(exchange.url, keyed(ALPACA.place(), ALPACA, key))).status == 422
        listed = Ask("GET", "/v2/orders", ALPACA_KEYS)
        assert len((await hear(exchange.url, listed)).json()) == 1
        await hear(exchange.url, Ask("DELETE", f"/v2/orders/{found['id']}", ALPACA_KEYS))
        assert exchange.orders[0].state == "cancelled"


async def test_a_late_order_is_its_own_keys() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        exchange.fault("*", "late_booking", times=1, seconds=0.01)
        await hear(exchange.url, keyed(ALPACA.place(), ALPACA, "a"))
        await hear(exchange.url, keyed(ALPACA.place(), ALPACA, "b"))
        while len(exchange.orders) < 2:
            await hear(exchange.url, ALPACA.probe())
        assert order_ids((await hear(exchange.url, keyed(ALPACA.find(), ALPACA, "a"))).json())


async def test_an_account_at_binance_has_a_number_of_its_own() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        ask = replace(BINANCE.find(), target=BINANCE.find().target.replace("/order", "/account"))
        told = [(await hear(exchange.url, keyed(ask, BINANCE, key))).json()["uid"] for key in "aab"]
    assert told[0] == told[1] != told[2]


def ticker_orders(**params: object) -> Ask:
    query = "".join(f"&{name}={value}" for name, value in params.items())
    return replace(KALSHI.find(), target=KALSHI.find().target + query)


async def test_a_kalshi_subaccount_holds_its_own_orders() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        for part in (0, 7):
            assert (await hear(exchange.url, kalshi_order("dlq-1", KALSHI.symbol, subaccount=part))).status == 201
        for part in (0, 7):
            told = (await hear(exchange.url, ticker_orders(subaccount=part))).json()
            assert values(told, "subaccount_number") == [part]
        assert len((await hear(exchange.url, ticker_orders())).json()["orders"]) == 2
        other = next(order for order in exchange.orders if order.wire["subaccount"] == 7)
        cancel = KALSHI.cancel("dlq-1", KALSHI.symbol, other.order_id)
        assert (await hear(exchange.url, cancel)).status == 404
        assert (await hear(exchange.url, replace(cancel, target=f"{cancel.target}?subaccount=7"))).status == 200
        for wrong in (-1, 64, "1", True):
            assert (await hear(exchange.url, kalshi_order("dlq-2", KALSHI.symbol, subaccount=wrong))).status == 400


# Hyperliquid, where a signature says whose order it is


def signed(wallet: Any, action: dict[str, object], *, vault: str | None = None, live: bool = False) -> Ask:
    nonce = next(NONCES)
    signature = sign_l1_action(wallet, action, vault, nonce, None, live)
    return hyperliquid_action(action, nonce=nonce, signature=signature, vaultAddress=vault)


def order() -> dict[str, object]:
    return {"type": "order", "orders": [dict(ROW)], "grouping": "na"}


async def status(exchange: PracticeExchange, user: str) -> str:
    told = (await hear(exchange.url, hyperliquid_info("orderStatus", user=user, oid=CLOID))).json()
    return str(told["status"])


async def test_a_hyperliquid_order_belongs_to_its_signer() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        assert "resting" in str((await hear(exchange.url, signed(ONE, order()))).json())
        assert await status(exchange, ONE.address) == "order"
        assert await status(exchange, TWO.address) == "unknownOid"
        assert "resting" in str((await hear(exchange.url, signed(TWO, order()))).json())
        assert "Duplicate" in str((await hear(exchange.url, signed(ONE, order()))).json())
        assert [one.account for one in exchange.orders] == [ONE.address.lower(), TWO.address.lower()]
        cancel: dict[str, object] = {"type": "cancel", "cancels": [{"a": 1, "o": int(exchange.orders[0].order_id)}]}
        assert "never placed" in str((await hear(exchange.url, signed(TWO, cancel))).json())
        assert "success" in str((await hear(exchange.url, signed(ONE, cancel))).json())


@pytest.mark.parametrize("asked_first", [True, False])
async def test_an_order_signed_for_the_live_chain_is_its_signers_too(asked_first: bool) -> None:
    async with PracticeExchange(fsync=False) as exchange:
        if asked_first:
            assert await status(exchange, ONE.address) == "unknownOid"
        assert "resting" in str((await hear(exchange.url, signed(ONE, order(), live=True))).json())
        assert "Duplicate" in str((await hear(exchange.url, signed(ONE, order(), live=True))).json())
        assert await status(exchange, ONE.address) == "order"
        assert await status(exchange, TWO.address) == "unknownOid"


async def test_an_order_for_a_vault_is_the_vaults() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        await hear(exchange.url, signed(ONE, order(), vault=VAULT))
        assert await status(exchange, VAULT) == "order"
        assert await status(exchange, ONE.address) == "unknownOid"
        assert exchange.orders[0].account == VAULT


async def test_an_agent_acts_for_the_account_that_approved_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    nonce = next(NONCES)
    action: dict[str, object] = {
        "type": "approveAgent",
        "agentAddress": TWO.address,
        "agentName": "desk",
        "nonce": nonce,
    }
    signature = sign_agent(ONE, action, False)
    async with PracticeExchange(ledger=path) as exchange:
        role = hyperliquid_info("userRole", user=TWO.address)
        assert (await hear(exchange.url, role)).json() == {"role": "user"}
        approval = hyperliquid_action(action, nonce=nonce, signature=signature)
        assert (await hear(exchange.url, approval)).json()["status"] == "ok"
    async with PracticeExchange(ledger=path) as exchange:
        told = (await hear(exchange.url, role)).json()
        assert told == {"role": "agent", "data": {"user": ONE.address.lower()}}
        await hear(exchange.url, signed(TWO, order()))
        assert await status(exchange, ONE.address) == "order"
        assert await status(exchange, TWO.address) == "unknownOid"
    async with PracticeExchange(fsync=False) as exchange:
        unsigned = hyperliquid_action(action, nonce=nonce)
        assert (await hear(exchange.url, unsigned)).json()["status"] == "err"
        assert (await hear(exchange.url, role)).json() == {"role": "user"}
