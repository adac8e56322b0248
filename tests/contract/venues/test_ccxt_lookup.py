"""Look-ups by client order id: the request is ccxt's own, and each answer is believed for what it proves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.support.ccxt_offline import action, offline
from tests.support.http_server import Loopback, Received, reply
from tests.support.venue.ccxt import at_market
from tests.support.venue.ccxt_lookups import (
    CASES,
    HEX,
    MOMENT,
    Call,
    bingx,
    bybit,
    bybit_answer,
    deribit,
    gate,
    gemini,
)
from venues import Absent, Found, Lookup, LookupFailed, Prepared, Route, Status, differences, venue_profile
from venues.ccxt import table
from venues.ccxt.lookup import raw_orders
from venues.ccxt.request import Wire, payload, run
from venues.ccxt.transport import Capturing, at

WHEN = datetime.fromtimestamp(MOMENT / 1000, UTC)
HTML = b"<html>order_not_found 40401 ORDER_NOT_FOUND</html>"
STATES: dict[str, Status] = {"open": "open", "filled": "filled", "cancelled": "cancelled"}
# What differs between two signings of one question, and the venue's order id that ccxt leaves empty.
NOISE = {"nonce", "timestamp", "signature", "sig", "id", "recvWindow", "request", "nonceWindow", "api_key"}
EMPTY = {"order_id", "orderId", "uuid"}

EVERY = sorted(CASES)
SURE = [exchange_id for exchange_id in EVERY if not table.WAYS[exchange_id].unproven]


def name_at(exchange_id: str) -> str:
    return venue_profile(f"ccxt:{exchange_id}").make_id(HEX)


def sent(name: str, market_id: str = "BTC/USDT") -> Prepared:
    return Prepared("new", name, "POST", "/", b"", action(market_id=market_id), {"own_id": True})


@dataclass(slots=True)
class Told:
    lookup: Lookup
    requests: list[Received]


async def asked(exchange_id: str, answers: dict[str, bytes], *, spot: bool = True) -> Told:
    """Look up the id against these answers by path; anything else is an error page."""
    besides = {path: reply(200, body) for path, body in CASES[exchange_id].besides.items()}
    async with Loopback(lambda request: (besides | answers).get(request.path, reply(503, HTML))) as server:
        made = await at_market(server.url, exchange_id, spot=spot)
        ready = sent(name_at(exchange_id), "BTC/USDT" if spot else "BTC/USDT:USDT")
        got = await made.lookup(ready)
        await made.aclose()
    return Told(got, [request for request in server.requests if request.path not in besides])


def nothing(exchange_id: str) -> dict[str, bytes]:
    return {path: reply(status, body) for path, (status, body) in CASES[exchange_id].nothing.items()}


def with_order(exchange_id: str, state: str, name: str, **changes: object) -> dict[str, bytes]:
    case = CASES[exchange_id]
    return {path: reply(200, body) for path, body in case.found(state, case.order(state, name) | changes).items()}


def terms(target: str, body: str) -> dict[str, object]:
    """What a request asks for, without what differs between two signings."""
    said: dict[str, object] = dict(parse_qsl(urlsplit(target).query))
    try:
        inner = json.loads(body) if body else {}
    except ValueError:
        inner = dict(parse_qsl(body))
    said |= inner
    params = said.pop("params", {})
    kept = said | params if isinstance(params, dict) else said
    return {key: value for key, value in kept.items() if key not in NOISE and not (key in EMPTY and _none(value))}


def _none(value: object) -> bool:
    return value in (None, "None", "", "null")


def test_every_way_in_the_table_is_tried_here() -> None:
    assert set(CASES) == set(table.WAYS)


def test_not_found_counts_only_where_it_is_the_exchange_s_full_answer() -> None:
    assert SURE == ["bitvavo", "bybit", "bybiteu", "bybitid", "cryptocom", "kraken", "upbit", "whitebit"]
    for exchange_id in EVERY:
        profile = venue_profile(f"ccxt:{exchange_id}")
        assert profile.lookup is (exchange_id in SURE)
    day = [each for each in EVERY if venue_profile(f"ccxt:{each}").reach == "day"]
    assert day == ["bybit", "bybiteu", "bybitid", "cryptocom", "upbit", "whitebit"]


def test_elsewhere_not_found_counts_within_the_day_and_never_where_only_active_orders_are_found() -> None:
    assert venue_profile("ccxt:binance").lookup
    assert {venue_profile(f"ccxt:{each}").reach for each in table.rows() if each not in table.WAYS} == {"day"}
    assert not venue_profile("ccxt:kucoin").lookup
    assert not venue_profile("ccxt:kucoinfutures").lookup


async def ccxt_s_own(exchange_id: str, call: Call) -> Wire:
    exchange = (await offline(exchange_id, "live"))._exchange
    exchange.options["unifiedAccount"] = False  # gate asks for it first otherwise
    with at(Capturing()):
        wire = run(lambda: call(exchange, "BTC/USDT", name_at(exchange_id)))  # type: ignore[arg-type, return-value]
    assert wire is not None
    return wire


@pytest.mark.parametrize("exchange_id", [each for each in EVERY if CASES[each].calls])
async def test_the_questions_are_those_of_ccxt_s_documented_calls(exchange_id: str) -> None:
    told = await asked(exchange_id, nothing(exchange_id))
    wires = [await ccxt_s_own(exchange_id, call) for call in CASES[exchange_id].calls]
    assert len(told.requests) == len(wires)
    for request, wire in zip(told.requests, wires, strict=True):
        ours = terms(request.target, payload(Wire("", "", wire.headers, request.body)))
        theirs = terms(wire.path, payload(wire))
        assert (request.method, request.path) == (wire.method, urlsplit(wire.url).path)
        assert ours == theirs
        assert name_at(exchange_id) in request.target + json.dumps(ours)


async def test_deribit_is_asked_for_the_label_in_the_market_s_currency() -> None:
    told = await asked("deribit", nothing("deribit"), spot=False)
    (request,) = told.requests
    assert request.path == "/api/v2/private/get_order_state_by_label"
    assert request.params == {"label": HEX, "currency": "USDT"}


@pytest.mark.parametrize(
    ("exchange_id", "path", "wanted"),
    [
        ("bybit", "/v5/order/realtime", {"category": "linear", "orderLinkId": HEX, "symbol": "BTCUSDT"}),
        ("bybit", "/v5/order/history", {"category": "linear", "orderLinkId": HEX, "symbol": "BTCUSDT"}),
        ("bingx", "/openApi/swap/v2/trade/order", {"clientOrderId": HEX, "symbol": "BTCUSDT"}),
        ("gate", f"/api/v4/futures/USDT/orders/t-{HEX[:28]}", {}),
    ],
)
async def test_a_contract_is_looked_for_among_contracts(exchange_id: str, path: str, wanted: dict[str, str]) -> None:
    told = await asked(exchange_id, nothing(exchange_id), spot=False)
    params = [terms(request.target, "") for request in told.requests if request.path == path]
    assert params
    assert wanted.items() <= params[0].items()


@pytest.mark.parametrize("exchange_id", EVERY)
@pytest.mark.parametrize("state", STATES)
async def test_an_order_is_found_in_every_state(exchange_id: str, state: str) -> None:
    name = name_at(exchange_id)
    got = (await asked(exchange_id, with_order(exchange_id, state, name))).lookup
    assert isinstance(got, Found), got
    assert got.order.status == STATES[state]
    assert got.order.client_order_id == name
    assert got.order.created_at == WHEN
    assert differences(action(), got.order) == ()


@pytest.mark.parametrize("exchange_id", EVERY)
async def test_not_found_is_absent_only_where_that_is_proof(exchange_id: str) -> None:
    got = (await asked(exchange_id, nothing(exchange_id))).lookup
    if exchange_id in SURE:
        assert got == Absent()
    else:
        assert isinstance(got, LookupFailed)
        assert table.WAYS[exchange_id].unproven in got.why


@pytest.mark.parametrize("exchange_id", EVERY)
@pytest.mark.parametrize("state", STATES)
async def test_another_order_than_the_one_asked_for_proves_nothing(exchange_id: str, state: str) -> None:
    for other in ("ffff" * 7, f"x-{name_at(exchange_id)}", name_at(exchange_id).upper() + "0"):
        got = (await asked(exchange_id, with_order(exchange_id, state, other))).lookup
        assert isinstance(got, LookupFailed), got


@pytest.mark.parametrize("exchange_id", EVERY)
@pytest.mark.parametrize(
    "answer",
    [
        reply(200, HTML),
        reply(404, HTML),
        reply(500, HTML),
        reply(200, {}),
        reply(200, b""),
        reply(200, b"null"),
        reply(200, {"result": None, "data": None}),
        reply(401, {"message": "unauthorized"}),
        reply(429, {"message": "slow down"}),
        None,
    ],
)
async def test_an_answer_that_is_not_the_exchange_s_proves_nothing(exchange_id: str, answer: bytes | None) -> None:
    broken = dict.fromkeys(CASES[exchange_id].nothing, answer)
    got = (await asked(exchange_id, broken)).lookup  # type: ignore[arg-type]  # None hangs up
    assert isinstance(got, LookupFailed), got


@pytest.mark.parametrize("exchange_id", SURE)
async def test_each_question_must_be_answered(exchange_id: str) -> None:
    """The order may stand where the exchange did not answer."""
    whole = nothing(exchange_id)
    for path in whole:
        for broken in (reply(503, HTML), reply(200, {"error": [], "result": {}}), reply(200, {"retCode": 0})):
            got = (await asked(exchange_id, {**whole, path: broken})).lookup
            assert isinstance(got, LookupFailed), (path, got)


@pytest.mark.parametrize("exchange_id", SURE)
async def test_not_found_with_a_server_s_failure_proves_nothing(exchange_id: str) -> None:
    failing = {path: reply(500, body) for path, (_, body) in CASES[exchange_id].nothing.items()}
    assert isinstance((await asked(exchange_id, failing)).lookup, LookupFailed)


async def test_an_order_that_was_filled_just_now_is_found_before_bybit_s_history_has_it() -> None:
    order = bybit("filled", HEX)

    def told(request: Received) -> bytes:
        recent = request.path == "/v5/order/realtime" and request.params.get("openOnly") == "1"
        return reply(200, bybit_answer(order) if recent else bybit_answer())

    async with Loopback(told) as server:
        made = await at_market(server.url, "bybit")
        got = await made.lookup(sent(HEX))
        await made.aclose()
    assert isinstance(got, Found), got
    assert got.order.status == "filled"


async def test_two_orders_under_one_id_prove_nothing() -> None:
    name = name_at("bybit")
    both = bybit_answer(bybit("open", name), bybit("open", name) | {"orderId": "O-2"})
    got = (await asked("bybit", nothing("bybit") | {"/v5/order/realtime": reply(200, both)})).lookup
    assert isinstance(got, LookupFailed)
    assert "2 orders carry this client order id" in got.why


async def test_an_order_in_another_market_differs() -> None:
    got = (await asked("bybit", with_order("bybit", "open", HEX, symbol="ETHUSDT"))).lookup
    assert isinstance(got, Found)
    assert [each.partition(":")[0] for each in differences(action(), got.order)] == ["market"]


async def test_whitebit_s_other_errors_are_not_taken_for_not_found() -> None:
    """ccxt calls every answer with status 422 an order that was not found."""
    wrong = {"response": None, "status": 422, "errors": {"clientOrderId": ["ClientOrderId is not valid"]}}
    answers = nothing("whitebit") | {"/api/v4/trade-account/order/history": reply(422, wrong)}
    assert isinstance((await asked("whitebit", answers)).lookup, LookupFailed)


@pytest.mark.parametrize(
    ("exchange_id", "path", "body"),
    [
        ("gate", "/api/v4/spot/orders", [gate("filled", HEX[:28])]),
        ("deribit", "/api/v2/private/get_order_history_by_instrument", {"result": [deribit("filled", HEX)]}),
        ("gemini", "/v1/orders", [gemini("open", HEX)]),
        ("bingx", "/openApi/spot/v1/trade/historyOrders", {"code": 0, "data": {"orders": [bingx("filled", HEX)]}}),
    ],
)
async def test_where_not_found_is_no_proof_the_recent_orders_are_searched(
    exchange_id: str, path: str, body: object
) -> None:
    got = (await asked(exchange_id, nothing(exchange_id) | {path: reply(200, body)})).lookup
    assert isinstance(got, Found), got
    assert got.order.client_order_id == name_at(exchange_id)


async def test_bingx_writes_ids_in_lower_case() -> None:
    async with Loopback(lambda _: reply(200, {"code": 0, "data": bingx("open", "bot-7f")})) as server:
        made = await at_market(server.url, "bingx")
        got = await made.lookup(sent("BOT-7F"))
        await made.aclose()
    assert isinstance(got, Found)
    assert got.order.client_order_id == "BOT-7F"


@pytest.mark.parametrize(
    ("exchange_id", "spot", "said"),
    [
        ("deribit", False, f"label={HEX}"),
        ("bitvavo", True, '"clientOrderId":"01234567-89ab-cdef-0123-456789abcdef"'),
        ("gate", True, f'"text":"t-{HEX[:28]}"'),
        ("gateeu", True, f'"text":"t-{HEX[:28]}"'),
        ("kraken", True, f"cl_ord_id={HEX}"),
        ("bybit", False, f'"orderLinkId":"{HEX}"'),
        ("whitebit", True, f'"clientOrderId":"{HEX}"'),
        ("gemini", True, f'"client_order_id":"{HEX}"'),
        ("cryptocom", True, f'"client_oid":"{HEX}"'),
        ("bingx", True, f"newClientOrderId={HEX}"),
        ("upbit", True, f'"identifier":"{HEX}"'),
    ],
)
async def test_an_order_goes_out_under_the_id_that_is_asked_for(exchange_id: str, spot: bool, said: str) -> None:
    made = await offline(exchange_id, "live", spot=spot, options={"operatorId": 1})
    made._exchange.options |= {"unifiedAccount": False, "enableUnifiedMargin": False, "enableUnifiedAccount": True}
    ready = made.prepare(action(market_id="BTC/USDT" if spot else "BTC/USDT:USDT"), name_at(exchange_id))
    assert isinstance(ready, Prepared), ready
    assert ready.request["own_id"] is True
    assert not any("no client order id" in note for note in ready.notes)
    assert said in ready.path + ready.body.decode().replace('": ', '":')


@pytest.mark.parametrize(
    ("exchange_id", "good", "bad"),
    [
        ("gate", ["a" * 28, "A_b.c-1", "t-" + "a" * 26], ["a" * 29, "tabc", "t-" + "a" * 27, "a b", ""]),
        ("bitvavo", ["01234567-89ab-cdef-0123-456789abcdef"], [HEX, "bot-1", ""]),
        ("deribit", ["a" * 64, "bot_1.x-2"], ["a" * 65, "a b", "a&b", ""]),
        ("gemini", ["a" * 100, "a:b#c.d_e-f"], ["a" * 101, "a b", ""]),
        ("whitebit", ["a" * 36, "bot.1_x-2"], ["a" * 37, "a b", ""]),
        ("bybit", ["a" * 36], ["a" * 37, ""]),
        ("cryptocom", ["a" * 36], ["a" * 37, ""]),
        ("kraken", [HEX, "01234567-89ab-cdef-0123-456789abcdef", "bot-1"], ["a" * 19, ""]),
    ],
)
def test_an_id_is_taken_as_the_exchange_takes_it(exchange_id: str, good: list[str], bad: list[str]) -> None:
    profile = venue_profile(f"ccxt:{exchange_id}")
    assert [name for name in good if not profile.takes_id(name)] == []
    assert [name for name in bad if profile.takes_id(name)] == []
    assert profile.takes_id(profile.make_id(HEX))
    assert profile.make_id(HEX) != profile.make_id(HEX[::-1])


def test_a_profile_stays_what_it_is_when_the_config_tunes_it() -> None:
    tuned = venue_profile("ccxt:bitvavo").tuned(Route(visibility_seconds=5.0))
    assert tuned.make_id(HEX) == "01234567-89ab-cdef-0123-456789abcdef"
    assert tuned.visibility == 5.0


async def test_digits_that_are_told_as_numbers_stay_as_they_are() -> None:
    body = json.dumps({"result": [deribit("open", HEX)]}).replace("50000.0", "0.10000000000000000001")
    got = (await asked("deribit", {"/api/v2/private/get_order_state_by_label": reply(200, body.encode())})).lookup
    assert isinstance(got, Found), got
    exact = {"price": "0.10000000000000000001", "amount": "0.5", "filled_amount": "0.0"}
    assert raw_orders(body, table.WAYS["deribit"].asks[0]) == [deribit("open", HEX) | exact]
