"""What is sent to Alpaca is what was meant: our requests beside those that alpaca-py makes of the same order."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.http_server import Loopback, Received, reply
from tests.support.venue.alpaca import LIMIT
from tests.support.venue.alpaca_shapes import CALL, ORDER_ID, PUT, SHAPES, Shape, TradingClient
from tests.support.venue.wire_alpaca import read_order, wire_client
from venues import OrderAction, Prepared, Refused, Terms, VenueClient, parse_action
from venues.alpaca.client import PROFILE
from venues.terms import TYPES, ExitTerms, Leg

NUMBERS = {"qty", "notional", "limit_price", "stop_price", "trail_price", "trail_percent", "trail", "ratio_qty"}
UNSAID = {"order_class": "simple", "extended_hours": False}  # what Alpaca takes a request without them to mean


@pytest.fixture(scope="module")
def client() -> VenueClient:
    return wire_client()


def prepared_from(client: VenueClient, shape: Shape, *, nulls: bool) -> Prepared | str:
    """Our request for the stored entry, or why there is none."""
    parsed = parse_action(shape.columns(labels=not nulls), shape.document(nulls=nulls))
    if parsed.action is None:
        return "; ".join(finding.text for finding in parsed.findings)
    assert parsed.action.verb == shape.verb
    if unknown := PROFILE.sends.unmapped(parsed.action):
        return f"unknown: {unknown}"
    made = client.prepare(parsed.action, parsed.action.client_order_id or "")
    return made.why if isinstance(made, Refused) else made


async def sdk_requests(shapes: tuple[Shape, ...]) -> dict[str, Received]:
    """What alpaca-py itself puts on the wire for each shape."""

    def answer(got: Received) -> bytes:
        return reply(204) if got.method == "DELETE" else reply(200, {})

    async with Loopback(answer) as server:
        trading = TradingClient("PKTEST", "secret", url_override=server.url, raw_data=True)

        def send_all() -> None:
            for shape in shapes:
                if shape.verb == "new":
                    trading.submit_order(shape.request)
                elif shape.verb == "replace":
                    trading.replace_order_by_id(ORDER_ID, shape.request)
                else:
                    trading.cancel_order_by_id(ORDER_ID)

        await asyncio.wait_for(asyncio.to_thread(send_all), 30)
        trading._session.close()
    return {shape.name: request for shape, request in zip(shapes, server.requests, strict=True)}


def meaning(body: bytes) -> object:
    """The body with numbers as decimals, however they are written, and without what says nothing."""

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: walk(held, name) for name, held in value.items() if UNSAID.get(name, ...) != held}
        if isinstance(value, list):
            return [walk(one) for one in value]
        return Decimal(value) if key in NUMBERS else value

    return walk(json.loads(body, parse_float=Decimal, parse_int=Decimal)) if body else None


@pytest.mark.parametrize("nulls", [False, True])
async def test_every_shape_is_equal_to_the_sdks_or_refused_by_name(client: VenueClient, nulls: bool) -> None:
    theirs = await sdk_requests(SHAPES)
    verdicts: dict[str, str] = {}
    for shape in SHAPES:
        ours, sdk = prepared_from(client, shape, nulls=nulls), theirs[shape.name]
        if isinstance(ours, str):
            assert shape.refused is not None, f"{shape.name}: {ours}"
            assert shape.refused in ours, f"{shape.name}: {ours}"
            verdicts[shape.name] = "refused"
        else:
            assert shape.refused is None, shape.name
            equal = (ours.method, ours.path) == (sdk.method, sdk.path) and meaning(ours.body) == meaning(sdk.body)
            verdicts[shape.name] = "equal" if equal else f"different: {ours.body!r} {sdk.body!r}"
    assert [f"{name} {verdict}" for name, verdict in verdicts.items() if verdict.startswith("different")] == []
    assert Counter(verdicts.values()) == {"equal": 40, "refused": 12}
    assert len(SHAPES) == 52


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.refused is None], ids=lambda shape: shape.name)
def test_what_is_shown_as_sent_is_on_the_wire(client: VenueClient, shape: Shape, nulls: bool) -> None:
    prepared = prepared_from(client, shape, nulls=nulls)
    assert isinstance(prepared, Prepared)
    shown = {name: value for name, value in prepared.sent.items() if name != "action"}
    assert shown == plainly(read_order(prepared))
    assert prepared.sent["action"] == shape.verb


def plainly(found: dict[str, object]) -> dict[str, object]:
    """What the reader found with its terms as plain values."""
    terms = {one.name for one in fields(Terms)}
    held: dict[str, Any] = {name: value for name, value in found.items() if name in terms}
    return {name: value for name, value in found.items() if name not in terms} | Terms(**held).document()


# The declaration against the wire

LEGS = (Leg(CALL, Decimal(1), "buy"), Leg(PUT, Decimal(1), "sell"))
PROFIT, LOSS = ExitTerms(limit_price=Decimal("200.5")), ExitTerms(Decimal("170.25"), Decimal("169.9"))
SAMPLES = Terms(
    stop_price=Decimal("181.5"),
    stop_loss_price=Decimal(170),
    take_profit_price=Decimal(190),
    trail_price=Decimal("1.5"),
    trail_percent=Decimal("0.75"),
    notional=Decimal("500.25"),
    reduce_only=True,
    post_only=True,
    extended_hours=True,
    position_intent="buy_to_open",
    order_class="bracket",
    take_profit=PROFIT,
    stop_loss=LOSS,
    legs=LEGS,
    expire_at=datetime(2026, 12, 18, 21, tzinfo=UTC),
    margin_mode="isolated",
    leverage=Decimal(2),
    subaccount="1",
    vault_address="0xabc",
    order_group_id="g",
    cancel_on_pause=True,
    oca_group="o",
    oca_type="1",
    parent_client_order_id="p",
)
NEEDED = {"stop": "stop_price", "stop_limit": "stop_price", "trailing_stop": "trail_price"}
NAMES = tuple(one.name for one in fields(Terms))


@dataclass(frozen=True, slots=True)
class Case:
    verb: Any
    kind: str
    name: str

    def action(self) -> OrderAction:
        """An order of this type with this term, and with the others that it cannot be without."""
        own = NEEDED.get(self.kind) if self.verb == "new" else None
        needed: dict[str, Any] = {} if own is None else {own: getattr(SAMPLES, own)}
        if self.name == "trail_percent":
            needed.pop("trail_price", None)
        if self.name in ("take_profit", "stop_loss", "order_class"):
            needed |= {"order_class": "bracket", "take_profit": PROFIT, "stop_loss": LOSS}
        if self.name == "legs":
            needed |= {"order_class": "mleg"}
        price = Decimal("180.25") if self.kind in ("limit", "stop_limit") else None
        return replace(
            LIMIT,
            verb=self.verb,
            order_type=self.kind,
            price=price,
            quantity=Decimal(0) if self.name == "notional" else LIMIT.quantity,
            venue_order_id=ORDER_ID if self.verb == "replace" else None,
            terms=Terms(**(needed | {self.name: getattr(SAMPLES, self.name)})),
        )


CASES = [Case(verb, kind, name) for verb in ("new", "replace") for kind in TYPES for name in NAMES]


def test_each_term_is_sent_or_refused_as_declared(client: VenueClient) -> None:
    assert all(getattr(SAMPLES, name) for name in NAMES)
    sent = 0
    for case in CASES:
        declared = getattr(PROFILE.sends, case.verb)[case.kind]
        made = client.prepare(case.action(), "c-1")
        if case.name in declared:
            assert isinstance(made, Prepared), (case, made)
            assert read_order(made)[case.name] == getattr(SAMPLES, case.name), case
            sent += 1
        else:
            assert isinstance(made, Refused), case
            assert case.name in made.unsent, case
    assert sent == 5 * 6 + 2 + 2 + 2 + 2  # six terms with every type, the types' own, and a replace's stop_price


@pytest.mark.parametrize("kind", ["market", "stop", "trailing_stop"])
@pytest.mark.parametrize("verb", ["new", "replace"])
def test_a_price_that_the_type_has_no_place_for_is_refused(client: VenueClient, verb: Any, kind: str) -> None:
    terms = {"stop": Terms(stop_price=Decimal(1)), "trailing_stop": Terms(trail_price=Decimal(1))}.get(kind, Terms())
    action = replace(LIMIT, verb=verb, order_type=kind, terms=terms, venue_order_id=ORDER_ID)
    refused = client.prepare(action, "c-1")
    assert isinstance(refused, Refused)
    assert "price" in refused.unsent


STOP = replace(LIMIT, order_type="stop", price=None, terms=Terms(stop_price=Decimal("170.5")))
TRAIL = replace(LIMIT, order_type="trailing_stop", price=None)
MLEG = replace(LIMIT, terms=Terms(order_class="mleg", legs=LEGS))


def bracket(kind: str = "bracket", **terms: Any) -> OrderAction:
    return replace(LIMIT, terms=Terms(order_class=kind, **terms))


@pytest.mark.parametrize(
    ("action", "word"),
    [
        (replace(LIMIT, terms=Terms(notional=Decimal(5))), "notional"),
        (replace(LIMIT, quantity=Decimal(0)), "quantity"),
        (replace(LIMIT, quantity=Decimal(0), terms=Terms(notional=Decimal("0.001"))), "notional"),
        (replace(LIMIT, market_id=""), "symbol"),
        (replace(LIMIT, time_in_force="gtd"), "gtd"),
        (replace(STOP, terms=Terms()), "stop_price"),
        (replace(STOP, terms=Terms(stop_price=Decimal("170.505"))), "stop_price"),
        (replace(TRAIL, terms=Terms()), "trail"),
        (replace(TRAIL, terms=Terms(trail_price=Decimal(1), trail_percent=Decimal(1))), "trail"),
        (replace(TRAIL, terms=Terms(trail_price=Decimal("1.001"))), "trail_price"),
        (bracket(take_profit=PROFIT), "stop_loss"),
        (bracket(stop_loss=LOSS), "take_profit"),
        (bracket(take_profit=PROFIT, stop_loss=ExitTerms(limit_price=Decimal(1))), "stop_price"),
        (bracket(take_profit=LOSS, stop_loss=LOSS), "limit_price"),
        (bracket(take_profit=ExitTerms(limit_price=Decimal("200.555")), stop_loss=LOSS), "take_profit.limit_price"),
        (bracket(take_profit=PROFIT, stop_loss=ExitTerms(Decimal("170.251"))), "stop_loss.stop_price"),
        (bracket("oto"), "take_profit"),
        (bracket("oco", take_profit=PROFIT, stop_loss=LOSS), "differ"),
        (bracket("mleg"), "legs"),
        (bracket("conditional"), "conditional"),
        (replace(LIMIT, terms=Terms(legs=LEGS)), "mleg"),
        (bracket("mleg", legs=LEGS[:1]), "2 to 4"),
        (bracket("mleg", legs=LEGS * 3), "2 to 4"),
        (bracket("mleg", legs=(LEGS[0], LEGS[0])), "same market"),
        (bracket("mleg", legs=(LEGS[0], Leg(PUT, Decimal(1)))), "side"),
        (bracket("mleg", legs=(LEGS[0], Leg(PUT, Decimal("1.5"), "buy"))), "ratio"),
        (bracket("mleg", legs=(LEGS[0], Leg(PUT, Decimal(1), "buy", "sell_to_open"))), "contradict"),
        (bracket("mleg", legs=LEGS, take_profit=PROFIT), "exits"),
        (bracket("mleg", legs=LEGS, position_intent="buy_to_open"), "position_intent"),
        (replace(MLEG, quantity=Decimal("1.5")), "whole"),
        (replace(MLEG, quantity=Decimal(0), terms=replace(MLEG.terms, notional=Decimal(5))), "notional"),
        (replace(LIMIT, terms=Terms(position_intent="hold")), "hold"),
        (replace(LIMIT, extra={"trail": Decimal(1)}), "trail"),
        (replace(LIMIT, params={"Trail": 1}), "trail"),
    ],
)
def test_what_has_no_one_meaning_is_refused(client: VenueClient, action: OrderAction, word: str) -> None:
    refused = client.prepare(action, "c-1")
    assert isinstance(refused, Refused), read_order(refused)
    assert word in refused.why


CHANGED = replace(TRAIL, verb="replace", venue_order_id=ORDER_ID)


@pytest.mark.parametrize(
    "action",
    [
        replace(CHANGED, extra={"trail": "-1"}),
        replace(CHANGED, extra={"trail": "x"}),
        replace(CHANGED, extra={"trail": Decimal("1.005")}),
        replace(CHANGED, extra={"trail": Decimal(1), "TRAIL": Decimal(2)}),
        replace(CHANGED, order_type="stop", extra={"trail": Decimal(1)}),
    ],
)
def test_a_replaces_trail_is_one_number_or_refused(client: VenueClient, action: OrderAction) -> None:
    refused = client.prepare(action, "c-1")
    assert isinstance(refused, Refused)
    assert "trail" in refused.why


def test_a_replaces_trail_goes_out_however_it_is_spelled(client: VenueClient) -> None:
    made = client.prepare(replace(CHANGED, extra={"Trail": Decimal("1.50")}, params={"trail": "1.5"}), "c-1")
    assert isinstance(made, Prepared)
    assert read_order(made)["trail"] == made.sent["trail"] == Decimal("1.5")


def test_a_multi_leg_order_sends_no_market_and_no_side_of_its_own(client: VenueClient) -> None:
    made = client.prepare(MLEG, "c-1")
    assert isinstance(made, Prepared)
    assert not {"market_id", "side"} & (made.sent.keys() | read_order(made).keys())


@pytest.mark.parametrize(
    "change",
    [
        lambda action: replace(action, side="", order_type="", quantity=Decimal(0), price=None),
        lambda action: replace(action, side="yes", order_type="odd", terms=SAMPLES, extra={"trail": 1}),
        lambda action: replace(action, time_in_force="gtd", price_unit="cents"),
    ],
)
def test_a_cancel_is_named_by_the_venues_id_alone(
    client: VenueClient, change: Callable[[OrderAction], OrderAction]
) -> None:
    made = client.prepare(change(replace(LIMIT, verb="cancel", venue_order_id=ORDER_ID)), "an id of any kind")
    assert isinstance(made, Prepared)
    assert read_order(made) == {"venue_order_id": ORDER_ID}
    assert made.sent == {"action": "cancel", "venue_order_id": ORDER_ID}


@pytest.mark.parametrize("order_id", [None, "", ".", ".."])
@pytest.mark.parametrize("verb", ["replace", "cancel"])
def test_an_id_that_names_no_order_cancels_none(client: VenueClient, verb: Any, order_id: str | None) -> None:
    refused = client.prepare(replace(LIMIT, verb=verb, venue_order_id=order_id), "c-1")
    assert isinstance(refused, Refused)
    assert "venue_order_id" in refused.why
