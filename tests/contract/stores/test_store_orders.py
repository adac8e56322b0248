"""The pending entries of logical orders: found by id, by client order id and by the key inside the action."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.store import Rig, order_row

ID = "dlq_0000000000000000"
KEYS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "by the client order id": ("k-1", {"client_order_id": "k-1"}, True),
    "by its own id": (ID, {}, True),
    "by the key in the action": ("k-1", {"action_json": json.dumps({"order_key": "k-1"})}, True),
    "by a key in other letters": ("ké", {"action_json": json.dumps({"order_key": "ké"})}, True),
    "by a key in other letters as they are": (
        "ké",
        {"action_json": json.dumps({"order_key": "ké"}, ensure_ascii=False)},
        True,
    ),
    "by a key that is a number": ("77", {"action_json": json.dumps({"order_key": 77})}, True),
    "by a key that begins alike": ("k-1", {"action_json": json.dumps({"order_key": "k-12"})}, False),
    "in another market": ("k-1", {"action_json": json.dumps({"order_key": "k-1"}), "market_id": "MSFT"}, False),
    "dismissed": ("k-1", {"client_order_id": "k-1", "dismissed": True}, False),
    "not at all": ("k-1", {}, False),
}


@pytest.mark.parametrize("case", KEYS)
async def test_an_entry_that_may_name_the_order_is_found(store_rig: Rig, case: str) -> None:
    key, changes, found = KEYS[case]
    await store_rig.make([order_row(0, **({"client_order_id": None, "market_id": "AAPL"} | changes)), order_row(1)])
    store = await store_rig.open()
    told = [entry.id for entry in await store.of_orders((key,), ("AAPL",))]
    assert told == ([ID] if found else [])
