"""Reads a Kalshi order request back into neutral names, from its method, path and body alone.

By Kalshi's documentation of event orders: one book of YES, prices in dollars. Must not call the client's code.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.venue.kalshi import client_of
from venues import Prepared, VenueClient

ROOT = "/trade-api/v2/portfolio/events/orders"
_TIFS = {"good_till_canceled": "gtc", "immediate_or_cancel": "ioc", "fill_or_kill": "fok"}
_FLAGS = {"post_only": "post_only", "reduce_only": "reduce_only", "cancel_order_on_pause": "cancel_on_pause"}
_TEXTS = {
    "ticker": "market_id",
    "client_order_id": "client_order_id",
    "updated_client_order_id": "client_order_id",
    "order_group_id": "order_group_id",
    "self_trade_prevention_type": "self_trade_prevention_type",
}


def wire_client() -> VenueClient:
    """A client that is ready to prepare; nothing answers where it would send."""
    return client_of("http://127.0.0.1:1")


def read_order(prepared: Prepared) -> dict[str, object]:
    parts = urlsplit(prepared.path)
    asked = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    assert parts.path.startswith(ROOT)
    target = [unquote(part) for part in parts.path.removeprefix(ROOT).split("/")[1:]]
    found: dict[str, object] = {}
    if "subaccount" in asked:
        found["subaccount"] = asked.pop("subaccount")
    match prepared.method, target:
        case "DELETE", [order_id]:
            assert prepared.body == b""
            found |= {"venue_order_id": order_id, "market_id": asked.pop("market_ticker")}
        case "POST", [order_id, "amend"]:
            found |= {"venue_order_id": order_id} | _order(json.loads(prepared.body))
        case "POST", []:
            found |= _order(json.loads(prepared.body))
        case other:
            raise AssertionError(other)
    assert not asked
    return found


def _order(body: dict[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {"order_type": "limit"}
    for key, value in body.items():
        match key:
            case "side":
                found["side"] = {"bid": "buy", "ask": "sell"}[value]
            case "count" | "price":
                assert isinstance(value, str)
                found[{"count": "quantity", "price": "price"}[key]] = Decimal(value)
            case "subaccount":
                assert type(value) is int
                found["subaccount"] = str(value)
            case "time_in_force":
                found.setdefault("time_in_force", _TIFS[value])
            case "expiration_time":
                found |= _expiry(value)
            case _ if key in _FLAGS:
                assert value is True
                found[_FLAGS[key]] = True
            case _:
                assert isinstance(value, str)
                found[_TEXTS[key]] = value
    if "expire_at" in found:
        assert body.get("time_in_force") in (None, "good_till_canceled")
    return found


def _expiry(seconds: Any) -> dict[str, object]:
    """An expiry makes it good till a date; 0 takes one away."""
    assert type(seconds) is int
    if seconds == 0:
        return {"time_in_force": "gtc"}
    return {"time_in_force": "gtd", "expire_at": datetime.fromtimestamp(seconds, UTC)}
