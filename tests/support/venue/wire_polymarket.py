"""Reads a Polymarket order request back into neutral names, from its method, path and body alone.

By Polymarket's documentation: an order says what is given and what is asked for it, in millionths; one that rests
counts shares, a buy that does not rest spends money. Must not call the client's code.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from tests.support.venue.polymarket import TOKEN
from tests.support.venue.polymarket_client import connected
from tests.support.venue.rigs_sdk import POLYMARKET_SECRETS
from venues import Credentials, Prepared
from venues.polymarket.client import PolymarketClient
from venues.polymarket.order import Market, Signer

_UNIT = 1_000_000
_FINEST = Decimal("0.0001")
_NOTHING = "0x" + "00" * 32


def wire_client(tick: str = "0.01") -> PolymarketClient:
    """A client that knows the market `TOKEN` and is ready to prepare; nothing answers where it would send."""
    made = connected("http://127.0.0.1:1")
    with ThreadPoolExecutor(1) as alone:  # whether or not a loop runs here
        made._signer = alone.submit(asyncio.run, Signer.load(Credentials(POLYMARKET_SECRETS))).result()
    made._markets[TOKEN] = Market(Decimal(tick), neg_risk=False)
    return made


def read_order(prepared: Prepared) -> dict[str, object]:
    assert prepared.path == "/order"
    body = json.loads(prepared.body)
    if prepared.method == "DELETE":
        assert body.keys() == {"orderID"}
        return {"venue_order_id": body["orderID"]}
    assert prepared.method == "POST"
    assert body.keys() - {"postOnly"} == {"order", "orderType", "owner", "deferExec"}
    assert body["owner"] == "{api_key}"  # filled in when it is sent
    assert body["deferExec"] is False
    found = _order(body["order"], body["orderType"])
    if "postOnly" in body:
        assert body["postOnly"] is True
        assert found["time_in_force"] in ("gtc", "gtd")
        found["post_only"] = True
    return found


def _order(order: dict[str, Any], order_type: str) -> dict[str, object]:
    assert (order["metadata"], order["builder"]) == (_NOTHING, _NOTHING)
    tif = {"GTC": "gtc", "GTD": "gtd", "FOK": "fok", "FAK": "ioc"}[order_type]
    given, asked = (Decimal(order[name]) / _UNIT for name in ("makerAmount", "takerAmount"))
    found: dict[str, object] = {
        "market_id": order["tokenId"],
        "side": {"BUY": "buy", "SELL": "sell"}[order["side"]],
        "time_in_force": tif,
        "order_type": "limit",
    }
    if order["side"] == "SELL":
        found |= {"quantity": given, "price": asked / given}
    elif tif in ("gtc", "gtd"):
        found |= {"quantity": asked, "price": given / asked}
    else:  # the highest price of any market that these amounts still reach
        found |= {"order_type": "market", "notional": given}
        found["price"] = (given / asked).quantize(_FINEST, rounding=ROUND_FLOOR)
    if order["expiration"] != "0":
        assert tif == "gtd"
        found["expire_at"] = datetime.fromtimestamp(int(order["expiration"]), UTC)
    return found
