"""Reads an Alpaca order request back into neutral names, from its method, path and body alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from tests.support.venue.rigs_practice import ALPACA_SECRETS
from venues import Credentials, Prepared, Route, VenueClient, connect
from venues.terms import ExitTerms, Leg

NOWHERE = "http://127.0.0.1:1"


def wire_client() -> VenueClient:
    """A client that is ready to prepare; nothing answers where it would send."""
    return connect("alpaca", "paper", Credentials(ALPACA_SECRETS), Route(timeout=1.0, endpoint=NOWHERE))


def read_order(prepared: Prepared) -> dict[str, object]:
    root, _, target = prepared.path.removeprefix("/v2/orders").partition("/")
    assert prepared.path.startswith("/v2/orders")
    assert root == ""
    found: dict[str, object] = {"venue_order_id": unquote(target)} if target else {}
    match prepared.method:
        case "DELETE":
            assert prepared.body == b""
            assert target
            return found
        case "PATCH":
            assert target
        case "POST":
            assert not target
        case other:
            raise AssertionError(other)
    for key, value in json.loads(prepared.body).items():
        name, read = _KEYS[key]
        assert name not in found
        found[name] = read(value)
    return found


def _number(value: Any) -> Decimal:
    assert isinstance(value, str)
    return Decimal(value)


def _word(value: Any) -> str:
    assert isinstance(value, str)
    assert value
    return value


def _true(value: Any) -> bool:
    assert value is True
    return True


def _exit(value: Any) -> ExitTerms:
    return ExitTerms(**{key: _number(held) for key, held in value.items()})


def _legs(value: Any) -> tuple[Leg, ...]:
    return tuple(_leg(**one) for one in value)


def _leg(symbol: str, ratio_qty: str, side: str | None = None, position_intent: str | None = None) -> Leg:
    return Leg(symbol, _number(ratio_qty), side, position_intent)


_KEYS: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "symbol": ("market_id", _word),
    "side": ("side", _word),
    "qty": ("quantity", _number),
    "type": ("order_type", _word),
    "limit_price": ("price", _number),
    "time_in_force": ("time_in_force", _word),
    "client_order_id": ("client_order_id", _word),
    "stop_price": ("stop_price", _number),
    "trail_price": ("trail_price", _number),
    "trail_percent": ("trail_percent", _number),
    "trail": ("trail", _number),
    "notional": ("notional", _number),
    "extended_hours": ("extended_hours", _true),
    "position_intent": ("position_intent", _word),
    "order_class": ("order_class", _word),
    "take_profit": ("take_profit", _exit),
    "stop_loss": ("stop_loss", _exit),
    "legs": ("legs", _legs),
}
