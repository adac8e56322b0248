"""Reads an order back from the bytes that go to Hyperliquid, by the venue's documentation alone.

Must not look at the action, nor call the client.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

from eth_account import Account
from hyperliquid.utils import signing

from tests.support.venue.hyperliquid import ADDRESS, META, SPOT
from tests.support.venue.rigs_sdk import HEX_KEY, HYPERLIQUID_SECRETS
from venues import Credentials, OrderAction, Prepared, connect
from venues.hyperliquid.client import HyperliquidClient
from venues.hyperliquid.order import assets
from venues.terms import ExitTerms

_NUMBERS: dict[int, str] = {
    **{number: str(entry["name"]) for number, entry in enumerate(META["universe"])},
    **{10_000 + int(str(entry["index"])): str(entry["name"]) for entry in SPOT["universe"]},
}


def wire_client() -> HyperliquidClient:
    """A client that knows its key and the markets of the stub, and was never connected."""
    made = connect("hyperliquid", "paper", Credentials(HYPERLIQUID_SECRETS))
    assert isinstance(made, HyperliquidClient)
    made._signing, made._wallet = signing, Account.from_key(HEX_KEY)
    made._assets, made.account = assets(META, SPOT), ADDRESS.lower()
    return made


def as_read(action: OrderAction) -> OrderAction:
    """The same order by the names that the reader uses where the request has one form for two of the action's.

    "alo" is post-only until cancelled; a stop-loss order is a stop; exits make a bracket or an oto.
    """
    terms, tif, kind = action.terms, action.time_in_force or "gtc", action.order_type
    if tif == "alo" or terms.post_only:
        tif, terms = "gtc", replace(terms, post_only=True)
    if terms.stop_loss_price is not None:
        kind = "stop_limit" if kind == "limit" else kind
        terms = replace(terms, stop_price=terms.stop_loss_price, stop_loss_price=None)
    exits = sum(one is not None for one in (terms.take_profit, terms.stop_loss))
    if exits:
        terms = replace(terms, order_class="bracket" if exits == 2 else "oto")
    if terms.vault_address is not None:
        terms = replace(terms, vault_address=terms.vault_address.lower())
    return replace(action, terms=terms, time_in_force=tif, order_type=kind)


def read_order(prepared: Prepared) -> dict[str, object]:
    assert (prepared.method, prepared.path) == ("POST", "/exchange")
    payload = json.loads(prepared.body)
    command = payload["action"]
    found: dict[str, object] = {}
    if payload["vaultAddress"] is not None:
        found["vault_address"] = payload["vaultAddress"]
    match command["type"]:
        case "order":
            main, *children = command["orders"]
            assert command["grouping"] == ("normalTpsl" if children else "na")
            found |= {"action": "new", **_order(main), **_exits(main, children)}
        case "batchModify":
            ((aim, order),) = [(one["oid"], one["order"]) for one in command["modifies"]]
            found |= {"action": "replace", "venue_order_id": str(aim), **_order(order)}
        case "cancel":
            (one,) = command["cancels"]
            found |= {"action": "cancel", "market_id": _NUMBERS[one["a"]], "venue_order_id": str(one["o"])}
        case "cancelByCloid":
            (one,) = command["cancels"]
            found |= {"action": "cancel", "market_id": _NUMBERS[one["asset"]], "client_order_id": one["cloid"]}
        case other:
            raise AssertionError(other)
    return found


def _order(row: dict[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {
        "market_id": _NUMBERS[row["a"]],
        "side": "buy" if row["b"] else "sell",
        "quantity": Decimal(row["s"]),
        "price": Decimal(row["p"]),
        "client_order_id": row["c"],
    }
    if row["r"]:
        found["reduce_only"] = True
    if "limit" in row["t"]:
        tif = row["t"]["limit"]["tif"]
        found |= {"order_type": "limit", "time_in_force": {"Gtc": "gtc", "Ioc": "ioc", "Alo": "gtc"}[tif]}
        return found | ({"post_only": True} if tif == "Alo" else {})
    trigger = row["t"]["trigger"]
    found["time_in_force"] = "gtc"  # a trigger waits until it is cancelled
    kind, name = {
        (True, "sl"): ("stop", "stop_price"),
        (False, "sl"): ("stop_limit", "stop_price"),
        (False, "tp"): ("limit", "take_profit_price"),
    }[trigger["isMarket"], trigger["tpsl"]]
    return found | {"order_type": kind, name: Decimal(trigger["triggerPx"])}


def _exits(main: dict[str, Any], children: list[dict[str, Any]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for child in children:
        same = (child["a"], child["s"], child["b"], child["r"]) == (main["a"], main["s"], not main["b"], True)
        trigger = child["t"]["trigger"]
        assert same
        assert trigger["isMarket"] is False
        name = {"tp": "take_profit", "sl": "stop_loss"}[trigger["tpsl"]]
        assert name not in found
        found[name] = ExitTerms(Decimal(trigger["triggerPx"]), Decimal(child["p"]))
    return found | ({"order_class": "bracket" if len(found) == 2 else "oto"} if found else {})
