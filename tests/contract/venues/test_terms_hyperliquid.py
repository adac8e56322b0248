"""What is sent to hyperliquid is what was meant: equal to the SDK's own request, byte for byte, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pytest
from dlq_sink.terms import TERMS
from eth_account import Account
from hyperliquid import exchange as sdk_exchange
from hyperliquid.utils.types import Cloid

from tests.support.venue.hyperliquid import CLOID, META, SPOT, action, client
from tests.support.venue.rigs_sdk import HEX_KEY
from tests.support.venue.wire_hyperliquid import as_read, read_order, wire_client
from venues import OrderAction, Prepared, Refused, venue_profile
from venues.client import AccountClient
from venues.terms import TYPES, ExitTerms, Leg, Terms

D = Decimal
VAULT = "0x" + "ab" * 20
OTHER = "0x" + "cd" * 16
OWN = Cloid.from_str(CLOID)
GTC, IOC, ALO = ({"limit": {"tif": tif}} for tif in ("Gtc", "Ioc", "Alo"))
Sdk = Any  # the SDK is not typed


def trigger(price: float, kind: str, *, market: bool = False) -> dict[str, object]:
    return {"trigger": {"isMarket": market, "triggerPx": price, "tpsl": kind}}


def row(kind: object, price: float, *, buys: bool = True, reduces: bool = False, **more: object) -> dict[str, object]:
    return {
        "coin": "ETH",
        "is_buy": buys,
        "sz": 0.2,
        "limit_px": price,
        "order_type": kind,
        "reduce_only": reduces,
        **more,
    }


PARENT = row(GTC, 1100, cloid=OWN)
PROFIT = row(trigger(1300, "tp"), 1290, buys=False, reduces=True)
LOSS = row(trigger(1000, "sl"), 990.5, buys=False, reduces=True)
TAKE_PROFIT, STOP_LOSS = ExitTerms(D(1300), D(1290)), ExitTerms(D(1000), D("990.5"))


def group(*rows: dict[str, object]) -> Callable[[Sdk], object]:
    return lambda sdk: sdk.bulk_orders(list(rows), grouping="normalTpsl")


def order(kind: object, price: float = 1100, *, buys: bool = True, reduces: bool = False) -> Callable[[Sdk], object]:
    return lambda sdk: sdk.order("ETH", buys, 0.2, price, kind, reduce_only=reduces, cloid=OWN)


def modify(aim: object, kind: object, price: float = 1100, *, reduces: bool = False) -> Callable[[Sdk], object]:
    return lambda sdk: sdk.modify_order(aim, "ETH", True, 0.2, price, kind, reduce_only=reduces, cloid=OWN)


@dataclass(frozen=True)
class Shape:
    """One request of the SDK, and the action that means the same."""

    ask: Callable[[Sdk], object]
    terms: Mapping[str, object] = field(default_factory=dict)
    changes: Mapping[str, object] = field(default_factory=dict)

    @property
    def action(self) -> OrderAction:
        return action(terms=Terms(**self.terms), **self.changes)  # type: ignore[arg-type]  # each of its type


BY_NUMBER, BY_CLOID = {"venue_order_id": "42"}, {"client_order_id": OTHER}
SHAPES: Mapping[str, Shape] = {
    "limit": Shape(order(GTC)),
    "limit, gtc said": Shape(order(GTC), {}, {"time_in_force": "gtc"}),
    "limit, sell": Shape(order(GTC, buys=False), {}, {"side": "sell"}),
    "ioc": Shape(order(IOC), {}, {"time_in_force": "ioc"}),
    "alo": Shape(order(ALO), {}, {"time_in_force": "alo"}),
    "post-only": Shape(order(ALO), {"post_only": True}),
    "reduce-only": Shape(order(GTC, reduces=True), {"reduce_only": True}),
    "reduce-only, ioc": Shape(order(IOC, reduces=True), {"reduce_only": True}, {"time_in_force": "ioc"}),
    "stop, buy": Shape(
        order(trigger(1200.5, "sl", market=True), 1210),
        {"stop_price": D("1200.5")},
        {"order_type": "stop", "price": D(1210)},
    ),
    "stop, sell, reduce-only": Shape(
        order(trigger(1000, "sl", market=True), 950, buys=False, reduces=True),
        {"stop_price": D(1000), "reduce_only": True},
        {"order_type": "stop", "price": D(950), "side": "sell"},
    ),
    "stop-limit": Shape(
        order(trigger(1200, "sl"), 1210), {"stop_price": D(1200)}, {"order_type": "stop_limit", "price": D(1210)}
    ),
    "stop-limit, reduce-only": Shape(
        order(trigger(1200, "sl"), reduces=True),
        {"stop_price": D(1200), "reduce_only": True},
        {"order_type": "stop_limit"},
    ),
    "take-profit": Shape(order(trigger(1050, "tp")), {"take_profit_price": D(1050)}),
    "take-profit, reduce-only": Shape(
        order(trigger(1050, "tp"), reduces=True), {"take_profit_price": D(1050), "reduce_only": True}
    ),
    "stop-loss": Shape(order(trigger(1050, "sl")), {"stop_loss_price": D(1050)}),
    "stop-loss at market": Shape(
        order(trigger(1050, "sl", market=True)), {"stop_loss_price": D(1050)}, {"order_type": "stop"}
    ),
    "bracket": Shape(group(PARENT, PROFIT, LOSS), {"take_profit": TAKE_PROFIT, "stop_loss": STOP_LOSS}),
    "bracket, said": Shape(
        group(PARENT, PROFIT, LOSS), {"take_profit": TAKE_PROFIT, "stop_loss": STOP_LOSS, "order_class": "bracket"}
    ),
    "oto, profit": Shape(group(PARENT, PROFIT), {"take_profit": TAKE_PROFIT}),
    "oto, loss": Shape(group(PARENT, LOSS), {"stop_loss": STOP_LOSS, "order_class": "oto"}),
    "vault": Shape(order(GTC), {"vault_address": VAULT}),
    "vault, bracket": Shape(
        group(PARENT, PROFIT, LOSS), {"take_profit": TAKE_PROFIT, "stop_loss": STOP_LOSS, "vault_address": VAULT}
    ),
    "spot": Shape(
        lambda sdk: sdk.order("PURR/USDC", True, 70, 0.5, GTC, cloid=OWN),
        {},
        {"market_id": "PURR/USDC", "quantity": D(70), "price": D("0.5")},
    ),
    "replace": Shape(modify(42, GTC), {}, {"verb": "replace", **BY_NUMBER}),
    "replace by cloid, alo": Shape(
        modify(Cloid.from_str(OTHER), ALO), {}, {"verb": "replace", "time_in_force": "alo", **BY_CLOID}
    ),
    "replace, post-only, reduce-only": Shape(
        modify(42, ALO, reduces=True), {"post_only": True, "reduce_only": True}, {"verb": "replace", **BY_NUMBER}
    ),
    "replace a stop": Shape(
        modify(42, trigger(1200, "sl", market=True), 1210),
        {"stop_price": D(1200)},
        {"verb": "replace", "order_type": "stop", "price": D(1210), **BY_NUMBER},
    ),
    "replace a stop-limit": Shape(
        modify(42, trigger(1200, "sl")),
        {"stop_price": D(1200)},
        {"verb": "replace", "order_type": "stop_limit", **BY_NUMBER},
    ),
    "replace in a vault": Shape(modify(42, GTC), {"vault_address": VAULT}, {"verb": "replace", **BY_NUMBER}),
    "cancel": Shape(lambda sdk: sdk.cancel("ETH", 42), {}, {"verb": "cancel", **BY_NUMBER}),
    "cancel by cloid": Shape(
        lambda sdk: sdk.cancel_by_cloid("ETH", Cloid.from_str(OTHER)), {}, {"verb": "cancel", **BY_CLOID}
    ),
    "cancel in a vault": Shape(
        lambda sdk: sdk.cancel("ETH", 42), {"vault_address": VAULT}, {"verb": "cancel", **BY_NUMBER}
    ),
    # What the SDK sends with a price of its own, or what only a second request can say.
    "market": Shape(
        lambda sdk: sdk.market_open("ETH", True, 0.2, px=1100), {}, {"order_type": "market", "price": None}
    ),
    "take-profit at market": Shape(
        order(trigger(1050, "tp", market=True)),
        {"take_profit_price": D(1050)},
        {"order_type": "market", "price": None},
    ),
    "stop without its worst price": Shape(
        order(trigger(1050, "sl", market=True), 1050),
        {"stop_price": D(1050)},
        {"order_type": "stop", "price": None},
    ),
    "exits at market": Shape(
        group(PARENT, row(trigger(1000, "sl", market=True), 1000, buys=False, reduces=True)),
        {"stop_loss": ExitTerms(stop_price=D(1000))},
    ),
    "leverage": Shape(order(GTC), {"leverage": D(5)}),
}
REFUSED = {
    "market": "no market orders",
    "take-profit at market": "take_profit_price",
    "stop without its worst price": "the worst price",
    "exits at market": "stop_loss",
    "leverage": "leverage",
}


@pytest.fixture(scope="module")
def made() -> AccountClient:
    return wire_client()


def sdk_payload(shape: Shape, ours: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> object:
    """What the SDK itself would post, with our nonce and expiry."""
    vault = shape.terms.get("vault_address")
    sdk = sdk_exchange.Exchange(
        Account.from_key(HEX_KEY), "http://127.0.0.1:9", meta=META, spot_meta=SPOT, vault_address=vault
    )
    posted: list[object] = []
    monkeypatch.setattr(sdk, "post", lambda _, payload: posted.append(payload))
    monkeypatch.setattr(sdk_exchange, "get_timestamp_ms", lambda: ours["nonce"])
    sdk.set_expires_after(ours["expiresAfter"])
    shape.ask(sdk)
    (payload,) = posted
    return payload


def test_every_shape_equals_the_sdk_or_is_refused(made: AccountClient, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"equal": 0, "refused": 0, "different": 0}
    for name, shape in SHAPES.items():
        ready = made.prepare(shape.action, CLOID)
        if isinstance(ready, Refused):
            assert REFUSED[name] in ready.why, name
            counts["refused"] += 1
            continue
        ours = json.loads(ready.body)
        theirs = sdk_payload(shape, ours, monkeypatch)
        counts["equal" if ours == theirs else "different"] += 1
        assert ours == theirs, name
    print(counts)
    assert counts == {"equal": len(SHAPES) - len(REFUSED), "refused": len(REFUSED), "different": 0}
    assert counts["equal"] >= max(20, 0.7 * len(SHAPES))


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in REFUSED])
def test_what_is_read_back_is_what_was_meant_and_what_is_shown(name: str, made: AccountClient) -> None:
    meant = SHAPES[name].action
    ready = made.prepare(meant, CLOID)
    assert isinstance(ready, Prepared)
    read = read_order(ready)
    assert shown(read) == ready.sent
    if meant.verb != "cancel":
        canonical = as_read(meant)
        assert {key: read[key] for key in canonical.terms.names} == {
            key: getattr(canonical.terms, key) for key in canonical.terms.names
        }
        assert (read["order_type"], read["price"], read["quantity"], read["time_in_force"]) == (
            canonical.order_type,
            meant.price,
            meant.quantity,
            canonical.time_in_force,
        )


def shown(read: Mapping[str, object]) -> dict[str, object]:
    """What was read as `Prepared.sent` shows it."""
    plain = Terms(**{name: held for name, held in read.items() if name in TERMS}).document()  # type: ignore[arg-type]
    return {**read, **plain}


VALUES: Mapping[str, object] = {
    "stop_price": D(1000),
    "stop_loss_price": D(1000),
    "take_profit_price": D(1000),
    "trail_price": D(5),
    "trail_percent": D(5),
    "notional": D(500),
    "reduce_only": True,
    "post_only": True,
    "extended_hours": True,
    "position_intent": "sell_to_close",
    "order_class": "oto",
    "take_profit": TAKE_PROFIT,
    "stop_loss": STOP_LOSS,
    "legs": (Leg("ETH", D(1)),),
    "expire_at": datetime(2026, 12, 1, tzinfo=UTC),
    "margin_mode": "isolated",
    "leverage": D(5),
    "subaccount": "7",
    "vault_address": VAULT,
    "order_group_id": "g",
    "cancel_on_pause": True,
    "oca_group": "g",
    "oca_type": "1",
    "parent_client_order_id": "p",
}


def test_each_term_has_a_value_here() -> None:
    assert VALUES.keys() == TERMS.keys()


@pytest.mark.parametrize("verb", ["new", "replace"])
@pytest.mark.parametrize("order_type", TYPES)
def test_the_declaration_is_what_the_wire_carries(verb: str, order_type: str, made: AccountClient) -> None:
    sends = venue_profile("hyperliquid").sends
    declared = (sends.new if verb == "new" else sends.replace).get(order_type, frozenset())
    base = {"stop": {"stop_price": D(900)}, "stop_limit": {"stop_price": D(900)}}.get(order_type, {})
    price = None if order_type in ("market", "trailing_stop") else D(1100)
    for name, value in VALUES.items():
        terms = {name: value} | ({} if name in ("stop_price", "stop_loss_price") else base)
        if name == "order_class":
            terms["take_profit"] = TAKE_PROFIT
        meant = action(
            verb=verb,
            order_type=order_type,
            price=price,
            venue_order_id="5",
            terms=Terms(**terms),  # type: ignore[arg-type]  # each of its type
        )
        ready = made.prepare(meant, CLOID)
        if name in declared:
            assert isinstance(ready, Prepared), (name, ready)
            canonical, read = as_read(meant).terms, read_order(ready)
            assert {one: read[one] for one in canonical.names} == {
                one: getattr(canonical, one) for one in canonical.names
            }
        else:
            assert isinstance(ready, Refused), name
            assert name in ready.unsent


@pytest.mark.parametrize(
    ("terms", "changes", "why"),
    [
        ({"post_only": True}, {"time_in_force": "ioc"}, "exclude each other"),
        ({"post_only": True, "take_profit_price": D(1000)}, {}, "post_only: a trigger"),
        ({"stop_price": D(1000)}, {"order_type": "stop", "time_in_force": "ioc"}, "time in force ioc: a trigger"),
        ({"stop_price": D(1000)}, {"order_type": "stop_limit", "time_in_force": "alo"}, "time in force alo: a trigger"),
        ({"take_profit_price": D(1000), "stop_loss_price": D(900)}, {}, "one trigger"),
        ({}, {"order_type": "stop"}, "needs a stop_price"),
        ({}, {"order_type": "trailing_stop", "price": None}, "no trailing_stop orders"),
        ({"take_profit": TAKE_PROFIT, "take_profit_price": D(1000)}, {}, "takes no attached"),
        ({"take_profit": ExitTerms(limit_price=D(1300))}, {}, "take_profit: an exit"),
        ({"order_class": "bracket", "take_profit": TAKE_PROFIT}, {}, "order_class bracket"),
        ({"order_class": "oto"}, {}, "order_class oto"),
        ({"order_class": "oco", "take_profit": TAKE_PROFIT, "stop_loss": STOP_LOSS}, {}, "order_class oco"),
        ({"stop_price": D("1000.123")}, {"order_type": "stop_limit"}, "trigger price 1000.123"),
        ({"stop_loss": ExitTerms(D("1000.77"), D(990))}, {}, "stop_loss stop_price 1000.77"),
        ({"stop_loss": ExitTerms(D(1000), D("990.777"))}, {}, "stop_loss limit_price 990.777"),
        ({"reduce_only": True}, {"market_id": "PURR/USDC", "quantity": D(1), "price": D(1)}, "spot market"),
        ({"stop_loss": STOP_LOSS}, {"market_id": "PURR/USDC", "quantity": D(1), "price": D(1)}, "spot market"),
        ({}, {"price": D(1100), "order_type": "market"}, "price cannot be sent to"),
    ],
)
def test_what_would_change_the_meaning_is_refused(
    terms: dict[str, object], changes: dict[str, object], why: str, made: AccountClient
) -> None:
    refused = made.prepare(action(terms=Terms(**terms), **changes), CLOID)  # type: ignore[arg-type]
    assert isinstance(refused, Refused)
    assert why in refused.why


def test_of_a_cancel_only_what_names_the_order_counts(made: AccountClient) -> None:
    bare = action(verb="cancel", side="", order_type="", quantity=D(0), price=None, venue_order_id="42")
    meant = replace(bare, terms=Terms(post_only=True, stop_price=D(5), vault_address=VAULT), time_in_force="fok")
    ready = made.prepare(meant, CLOID)
    assert isinstance(ready, Prepared)
    assert read_order(ready) == {
        "action": "cancel",
        "market_id": "ETH",
        "venue_order_id": "42",
        "vault_address": VAULT,
    }
    assert ready.sent == read_order(ready)


async def test_an_opened_client_sends_the_same_as_one_that_never_connected(made: AccountClient) -> None:
    async with client() as (opened, _):
        for shape in SHAPES.values():
            both = [one.prepare(shape.action, CLOID) for one in (opened, cast("Any", made))]
            first, second = (one.sent if isinstance(one, Prepared) else one for one in both)
            assert first == second
