"""Reads an order back from the stored placeOrder message to TWS, by TWS's documentation alone.

Must not look at the action, nor call the client.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from venues import Credentials, OrderAction, Prepared, connect
from venues.ibkr.client import IbkrClient

ACCOUNT = "DU1234567"
_TYPES = {"MKT": "market", "LMT": "limit", "STP": "stop", "STP LMT": "stop_limit", "TRAIL": "trailing_stop"}


def wire_client() -> IbkrClient:
    """A client that knows its account and was never connected."""
    made = connect("ibkr", "paper", Credentials({}))
    assert isinstance(made, IbkrClient)
    made._managed = replace(made._managed, accounts=(ACCOUNT,))
    made.account = ACCOUNT
    return made


def as_read(action: OrderAction) -> OrderAction:
    """The same order with what the client fills in: TWS's default time in force."""
    return replace(action, time_in_force=action.time_in_force or "day")


def read_order(prepared: Prepared) -> dict[str, object]:
    assert (prepared.method, prepared.path) == ("TWS", "placeOrder")
    stored = json.loads(prepared.body)
    order, contract = dict(stored["order"]), dict(stored["contract"])
    kind = _TYPES[order.pop("orderType")]
    found: dict[str, object] = {
        "action": "new",
        "market_id": _market(contract),
        "side": order.pop("action").lower(),
        "quantity": Decimal(order.pop("totalQuantity")),
        "order_type": kind,
        "time_in_force": order.pop("tif").lower(),
        "client_order_id": order.pop("orderRef"),
    }
    assert order.pop("account")
    if kind in ("limit", "stop_limit"):
        found["price"] = Decimal(order.pop("lmtPrice"))
    if kind in ("stop", "stop_limit"):
        found["stop_price"] = Decimal(order.pop("auxPrice"))
    if kind == "trailing_stop" and "auxPrice" in order:
        found["trail_price"] = Decimal(order.pop("auxPrice"))
    if "trailingPercent" in order:
        found["trail_percent"] = Decimal(order.pop("trailingPercent"))
    if "goodTillDate" in order:
        found["expire_at"] = datetime.strptime(order.pop("goodTillDate"), "%Y%m%d-%H:%M:%S").replace(tzinfo=UTC)
    if "outsideRth" in order:
        found["extended_hours"] = order.pop("outsideRth")
    if "ocaGroup" in order:
        found["oca_group"] = order.pop("ocaGroup")
    if "ocaType" in order:
        found["oca_type"] = str(order.pop("ocaType"))
    assert not order, f"nobody reads {order}"
    return found


def _market(contract: dict[str, object]) -> str:
    if "conId" in contract:
        number, exchange = contract.pop("conId"), contract.pop("exchange")
        assert not contract
        return str(number) if exchange == "SMART" else f"{number}@{exchange}"
    return ":".join(str(contract[name]) for name in ("symbol", "secType", "exchange", "currency"))
