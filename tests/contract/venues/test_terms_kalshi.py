"""Kalshi's requests against those of its own SDK, and what the client declares to send against the wire."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from dlq_sink.terms import TERMS
from hypothesis import given
from hypothesis import strategies as st

from tests.support.venue.kalshi import YES
from tests.support.venue.term_samples import LATER, SAMPLES, only
from tests.support.venue.wire_kalshi import read_order, wire_client
from venues import OrderAction, Prepared, Refused, Verb, parse_action
from venues.kalshi.request import SENDS
from venues.terms import TYPES, Terms

TABLE = json.loads(Path(__file__).with_name("kalshi_sdk_requests.json").read_text())["requests"]
REFUSED = {
    "reduce only that would rest": "reduce_only",
    "post only that cannot rest": "post_only",
    "ioc with an expiry": "expire_at",
    "exchange shard": "exchange_index",
}
CLIENT = wire_client()
AMEND = replace(YES, verb="replace", venue_order_id="ord-1", time_in_force=None)


def action_of(document: dict[str, Any]) -> OrderAction:
    parsed = parse_action({}, json.dumps(document))
    assert parsed.action is not None, parsed.findings
    return parsed.action


def verdict(row: dict[str, Any]) -> str:
    action = action_of(row["action"])
    prepared = CLIENT.prepare(action, action.client_order_id or "")
    unmapped = SENDS.unmapped(action)
    if isinstance(prepared, Refused) or unmapped:
        why = prepared.why if isinstance(prepared, Refused) else ", ".join(unmapped)
        assert REFUSED[row["name"]] in why
        return "refused"
    path, _, query = prepared.path.partition("?")
    theirs, _, asked = row["target"].partition("?")
    assert (prepared.method, path, sorted(parse_qsl(query))) == (row["method"], theirs, sorted(parse_qsl(asked)))
    body = json.loads(prepared.body) if prepared.body else None
    assert body == row["body"], row["name"]
    return "equal"


def test_every_request_is_the_sdk_s_own_or_refused() -> None:
    counts = Counter(verdict(row) for row in TABLE)
    assert counts == {"equal": 36, "refused": 4}
    assert {row["name"] for row in TABLE} >= REFUSED.keys()


def fitting(name: str, verb: Verb) -> OrderAction:
    """An action with this term in which Kalshi takes it."""
    tif = {"reduce_only": "ioc", "expire_at": "gtd"}.get(name, "gtc")
    return replace(YES if verb == "new" else AMEND, terms=only(name), time_in_force=tif)


@pytest.mark.parametrize("verb", ["new", "replace"])
@pytest.mark.parametrize("name", TERMS)
def test_a_declared_term_is_on_the_wire_and_every_other_one_is_refused(name: str, verb: Verb) -> None:
    prepared = CLIENT.prepare(fitting(name, verb), "coid-1")
    declared = SENDS.new if verb == "new" else SENDS.replace
    if name in declared["limit"]:
        assert isinstance(prepared, Prepared), prepared
        assert read_order(prepared)[name] == SAMPLES[name]
    else:
        assert isinstance(prepared, Refused)
        assert prepared.unsent == (name,)


@pytest.mark.parametrize("order_type", [one for one in TYPES if one != "limit"])
def test_only_limit_orders_are_sent(order_type: str) -> None:
    for price in (None, Decimal("0.56")):
        assert isinstance(CLIENT.prepare(replace(YES, order_type=order_type, price=price), "coid-1"), Refused)
        assert isinstance(CLIENT.prepare(replace(AMEND, order_type=order_type, price=price), "coid-1"), Refused)


@pytest.mark.parametrize("action", [YES, replace(YES, side="no"), AMEND, replace(AMEND, verb="cancel", side="")])
def test_what_is_shown_as_sent_is_on_the_wire(action: OrderAction) -> None:
    shown_equals_wire(CLIENT.prepare(action, "coid-1"))


def shown_equals_wire(prepared: Prepared | Refused) -> dict[str, object]:
    assert isinstance(prepared, Prepared), prepared
    sent = {name: value for name, value in prepared.sent.items() if name != "action"}
    told = read_order(prepared)
    plain = {name: one.isoformat() if isinstance(one, datetime) else one for name, one in told.items()}
    assert sent == plain
    return told


TERM_SETS = st.builds(
    Terms,
    expire_at=st.sampled_from([None, LATER]),
    post_only=st.sampled_from([None, True]),
    reduce_only=st.sampled_from([None, True]),
    order_group_id=st.sampled_from([None, "g-1"]),
    cancel_on_pause=st.sampled_from([None, True]),
    subaccount=st.sampled_from([None, "0", "63", "64"]),
)


@given(
    verb=st.sampled_from(["new", "replace"]),
    side=st.sampled_from(["buy", "sell", "yes", "no", "buy_no", "sell_no", "sell_yes"]),
    exposure=st.sampled_from([None, "yes", "no"]),
    price=st.decimals("0.0001", "0.9999", places=4),
    tif=st.sampled_from([None, "gtc", "gtd", "ioc", "fok", "day"]),
    terms=TERM_SETS,
)
def test_any_action_is_on_the_wire_as_it_was_meant_or_refused(
    verb: Verb, side: str, exposure: str | None, price: Decimal, tif: str | None, terms: Terms
) -> None:
    action = replace(YES if verb == "new" else AMEND, side=side, price=price, time_in_force=tif, terms=terms)
    prepared = CLIENT.prepare(replace(action, extra={"outcome_side": exposure} if exposure else {}), "coid-1")
    if isinstance(prepared, Refused):
        return
    told = shown_equals_wire(prepared)
    no = side.endswith("no")
    buys_yes = side in ("buy", "yes", "sell_no")
    assert told["side"] == ("buy" if buys_yes else "sell")
    assert exposure in (None, "yes" if buys_yes else "no")
    assert told["price"] == (1 - price if no else price)
    assert {name: told.get(name) for name in terms.names} == {name: getattr(terms, name) for name in terms.names}
    assert not (set(TERMS) & told.keys()) - set(terms.names)
    if tif is not None:
        assert told["time_in_force"] == ("gtd" if terms.expire_at else tif)
