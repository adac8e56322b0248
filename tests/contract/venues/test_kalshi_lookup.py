"""Looking for a Kalshi order, page by page: found, absent, or nothing proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, repeat

import pytest

from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.venue.kalshi import LISTED, OWN, YES, client_of, prepared_of
from tests.support.venue.term_samples import LATER
from venues import (
    Absent,
    Accepted,
    Found,
    LookupFailed,
    OrderAction,
    differences,
)
from venues.kalshi.answers import venue_order
from venues.kalshi.client import HISTORICAL, MOST_PAGES, ORDERS
from venues.practice import PracticeExchange
from venues.terms import Terms


def pages(live: list[bytes], old: list[bytes]) -> Callable[[Received], Answer]:
    """Each list a shelf of pages, in order; behind them all is an empty one, so that giving up early shows."""
    shelves = {ORDERS: chain(live, repeat(page())), HISTORICAL: chain(old, repeat(page()))}
    return lambda request: next(shelves[request.path])


def page(*orders: dict[str, object], cursor: str = "") -> bytes:
    return reply(200, {"orders": list(orders), "cursor": cursor})


OTHER: dict[str, object] = {**LISTED, "client_order_id": "coid-0", "order_id": "ord-0"}
MINE: dict[str, object] = dict(LISTED)


async def looked_up(handler: Callable[[Received], Answer], action: OrderAction = YES) -> tuple[object, list[Received]]:
    async with Loopback(handler) as server:
        client = client_of(server.url)
        found = await client.lookup(prepared_of(action))
        await client.aclose()
    return found, server.requests


async def test_it_is_found_on_a_later_page() -> None:
    found, requests = await looked_up(pages([page(OTHER, cursor="c 1"), page(MINE)], []))
    assert isinstance(found, Found)
    assert found.order.venue_order_id == "ord-1"
    assert differences(YES, found.order) == ()
    assert [request.params for request in requests] == [
        {"ticker": "KXBTC-26", "limit": "200"},
        {"ticker": "KXBTC-26", "limit": "200", "cursor": "c 1"},
    ]


async def test_it_is_found_among_the_old_ones() -> None:
    found, requests = await looked_up(pages([page(OTHER)], [page(OTHER, cursor="x"), page(MINE)]))
    assert isinstance(found, Found)
    assert [request.path for request in requests] == [ORDERS, HISTORICAL, HISTORICAL]


async def test_absent_only_after_every_page() -> None:
    found, requests = await looked_up(pages([page(OTHER, cursor="a"), page(OTHER)], [page()]))
    assert found == Absent()
    assert len(requests) == 3


async def test_what_was_found_before_the_last_page_that_is_asked_is_found() -> None:
    found, requests = await looked_up(pages([page(MINE, cursor="c"), *(page(cursor=f"c{n}") for n in range(99))], []))
    assert isinstance(found, Found)
    assert len(requests) == MOST_PAGES


THIRD = replace(YES, terms=Terms(subaccount="3"))


async def test_a_subaccounts_orders_are_asked_for_and_others_left_out() -> None:
    other = {**MINE, "subaccount_number": 5}
    mine = {**MINE, "order_id": "ord-3", "subaccount_number": 3}
    found, requests = await looked_up(pages([page(other)], [page(other, mine)]), THIRD)
    assert isinstance(found, Found)
    assert found.order.venue_order_id == "ord-3"
    assert [request.params.get("subaccount") for request in requests] == ["3", None]
    absent, _ = await looked_up(pages([page(other)], [page(other)]), THIRD)
    assert absent == Absent()


@pytest.mark.parametrize(("told", "answer"), [(5, LookupFailed), (3, Found), (None, Found)])
async def test_an_order_to_cancel_that_is_in_another_subaccount_is_not_absent(told: int | None, answer: type) -> None:
    cancel = replace(THIRD, verb="cancel", venue_order_id="ord-1")
    found, _ = await looked_up(lambda _: reply(200, {"order": {**MINE, "subaccount_number": told}}), cancel)
    assert isinstance(found, answer)


def test_when_it_was_made() -> None:
    told = venue_order({**LISTED, "created_time": "2026-11-16T10:00:00.5Z"}, YES)
    assert told.created_at == datetime(2026, 11, 16, 10, 0, 0, 500_000, tzinfo=UTC)
    assert venue_order(LISTED, YES).created_at is None


@pytest.mark.parametrize(
    ("live", "old"),
    [
        ([reply(500)], []),
        ([page(OTHER, cursor="a"), reply(429)], []),
        ([page(OTHER)], [reply(404, OWN)]),
        ([page(OTHER)], [reply(200, {"cursor": ""})]),
        ([reply(200, {"orders": [1]})], []),
        ([reply(200, b"{")], []),
        ([page(cursor="a"), page(cursor="a"), page()], []),
        ([page(cursor=f"c{n}") for n in range(MOST_PAGES + 1)], []),
        ([page(MINE, {**MINE, "order_id": "ord-2"})], []),
    ],
)
async def test_a_page_that_fails_is_never_absence(live: list[bytes], old: list[bytes]) -> None:
    found, _ = await looked_up(pages(live, old))
    assert isinstance(found, LookupFailed)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "open"),
        ({"fill_count_fp": "3.00"}, "partly_filled"),
        ({"status": "executed", "fill_count_fp": "10.00"}, "filled"),
        ({"status": "canceled"}, "cancelled"),
        ({"status": "canceled", "fill_count_fp": "3.00"}, "partly_filled"),
        ({"status": "odd"}, "unclear"),
    ],
)
def test_its_status(changes: dict[str, object], status: str) -> None:
    assert venue_order({**LISTED, **changes}, YES).status == status


@pytest.mark.parametrize(
    "changes",
    [
        {"side": "buy"},
        {"side": "yes", "market_id": "KXBTC-26:yes"},
        {"side": "sell_no", "price": Decimal("0.44")},
        {"side": "sell", "extra": {"outcome": "no"}, "price": Decimal("44"), "price_unit": "cents"},
    ],
)
def test_an_order_is_told_in_the_actions_own_terms(changes: dict[str, object]) -> None:
    action = replace(YES, **changes)  # type: ignore[arg-type]  # a table of fields
    assert differences(action, venue_order(LISTED, action)) == ()
    older = {name: value for name, value in LISTED.items() if name not in ("book_side", "outcome_side")}
    assert differences(action, venue_order({**older, "side": "yes", "action": "buy"}, action)) == ()
    opposite = differences(action, venue_order({**LISTED, "book_side": "ask"}, action))
    assert [text.partition(":")[0] for text in opposite] == ["side"]
    dearer = differences(action, venue_order({**LISTED, "yes_price_dollars": "0.5700"}, action))
    assert [text.partition(":")[0] for text in dearer] == ["price"]


async def test_an_order_that_differs_is_found_with_its_differences() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        client = client_of(exchange.url)
        await client.submit(prepared_of(YES))
        exchange.fault("*", "lookup_different", on="lookup", times=1)
        found = await client.lookup(prepared_of(YES))
        await client.aclose()
    assert isinstance(found, Found)
    assert [text.partition(":")[0] for text in differences(YES, found.order)] == ["quantity"]


FULL = Terms(expire_at=LATER, order_group_id="g-1", cancel_on_pause=True, subaccount="3")


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"expire_at": LATER.replace(second=6)}, ["expire_at"]),
        ({"order_group_id": "g-2"}, ["order_group_id"]),
        ({"subaccount": "4"}, ["subaccount"]),
    ],
)
def test_an_order_that_differs_in_one_term_is_another_order(changes: dict[str, object], names: list[str]) -> None:
    told = {**LISTED, "order_group_id": "g-1", "cancel_order_on_pause": True, "subaccount_number": 3}
    told |= {"expiration_time": "2035-01-02T03:04:05Z"}
    action = replace(YES, terms=replace(FULL, **changes))  # type: ignore[arg-type]  # a table of terms
    order = venue_order(_as_read(told), action)
    assert [text.partition(":")[0] for text in differences(action, order)] == names


@pytest.mark.parametrize("name", ["post_only", "reduce_only", "cancel_on_pause"])
def test_a_flag_that_the_venue_denies_is_a_difference(name: str) -> None:
    wire = {"cancel_on_pause": "cancel_order_on_pause"}.get(name, name)
    action = replace(YES, terms=Terms(**{name: True}))  # type: ignore[arg-type]  # flags by name
    denied = venue_order({**LISTED, wire: False}, action)
    assert [text.partition(":")[0] for text in differences(action, denied)] == [name]
    assert differences(action, venue_order({**LISTED, wire: True}, action)) == ()
    assert differences(action, venue_order(LISTED, action)) == ()  # it does not say


async def test_every_term_comes_back_from_the_practice_exchange() -> None:
    action = replace(YES, time_in_force="gtd", terms=replace(FULL, post_only=True))
    async with PracticeExchange(fsync=False) as exchange:
        client = client_of(exchange.url)
        await client.submit(prepared_of(action))
        found = await client.lookup(prepared_of(action))
        await client.aclose()
    assert isinstance(found, Found)
    assert found.order.terms == FULL
    assert differences(action, found.order) == ()


async def test_an_amended_expiry_is_found() -> None:
    gtd = replace(YES, time_in_force="gtd", terms=Terms(expire_at=LATER))
    async with PracticeExchange(fsync=False) as exchange:
        client = client_of(exchange.url)
        placed = await client.submit(prepared_of(gtd))
        assert isinstance(placed, Accepted)
        amend = replace(YES, verb="replace", venue_order_id=placed.venue_order_id, quantity=Decimal(12))
        for terms, tif in ((Terms(expire_at=LATER.replace(year=2036)), "gtd"), (Terms(), None), (Terms(), "gtc")):
            action = replace(amend, terms=terms, time_in_force=tif)
            assert isinstance(await client.replace(prepared_of(action)), Accepted)
            found = await client.lookup(prepared_of(action))
            assert isinstance(found, Found)
            assert differences(action, found.order) == ()
            assert found.order.terms.expire_at == (None if tif == "gtc" else LATER.replace(year=2036))
        await client.aclose()


def _as_read(told: dict[str, object]) -> dict[str, object]:
    """With numbers as a reply reads them."""
    return {
        name: Decimal(value) if isinstance(value, int) and value is not True else value for name, value in told.items()
    }
