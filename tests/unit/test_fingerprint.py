"""Fingerprints: what is one failure, what is two, and at what cost. Quality is judged on tests/data/errors*.toml."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console.services.errors.fingerprint import KEY_LENGTH, READ_LENGTH, TITLE_LENGTH, VERSION, fingerprint, normalise
from tests.data.errors import Half, Labelled, labelled

HALVES: tuple[Half, ...] = ("dev", "heldout")


def _same(*errors: str, masks: tuple[str, ...] = ()) -> bool:
    return len({fingerprint(error, masks).id for error in errors}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RuntimeError: HTTP 429 after 3 attempts", "RuntimeError: HTTP 500 after 3 attempts"),
        ("HTTPError: 429 Client Error for url: x", "HTTPError: 403 Client Error for url: x"),
        ("ClientResponseError: 400, message='X'", "ClientResponseError: 502, message='X'"),
        ("Client error '400 Bad Request' for url 'u'", "Client error '404 Not Found' for url 'u'"),
        ("ApiException: (409) Reason", "ApiException: (400) Reason"),
        ('binance {"code":-2010,"msg":"x"}', 'binance {"code":-1007,"msg":"x"}'),
        ("binance error -2010", "binance error -1007"),
        ('APIError: {"code":40310000}', 'APIError: {"code":42210000}'),
        ('okx {"sCode":"51008"}', 'okx {"sCode":"51000"}'),
        ('bybit {"retCode":110007}', 'bybit {"retCode":10002}'),
        ("Error 201, reqId 5: x", "Error 110, reqId 5: x"),
        ("OSError: [Errno 111] x", "OSError: [Errno 104] x"),
        ("ConnectError: [Errno -2] x", "ConnectError: [Errno -3] x"),
        ("KeyError: 'code'", "KeyError: 'data'"),
        ('kraken {"error":["EOrder:Insufficient funds"]}', 'kraken {"error":["EService:Unavailable"]}'),
        ('gate {"label":"BALANCE_NOT_ENOUGH"}', 'gate {"label":"POC_FILL_IMMEDIATELY"}'),
        ("ReadTimeout: timed out", "ConnectTimeout: timed out"),
    ],
)
def test_codes_and_types_are_meaning(one: str, other: str) -> None:
    assert not _same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no answer within 3 s", "no answer within 12.75 s"),
        ("insufficient balance: 1,234.50", "insufficient balance: 7e-08"),
        ("available: -1500", "available: 2300"),
        ("order 6f9619ff-8b86-d011-b42d-00cf4fc964ff gone", "order 0f8fad5b-d9cd-469f-a165-70867728950e gone"),
        ("order 12345678 gone", "order x-TKT5PX2F-99 gone"),
        ("wallet 0x52908400098527886E0F7030069857D2E4169EE7", "wallet 0x8617E340B3D01FA5F11F306F4090FD50E238070D"),
        ("down since 2026-04-18T14:32:15.123Z", "down since 2026-11-01 09:00:00+00:00"),
        ("until Mon, 24 Aug 2026 10:00:00 GMT", "until Fri, 01 May 2026 23:59:59 GMT"),
        ("until November 16, 2026", "until May 3, 2027"),
        ("peer 10.1.2.3:4001 gone", "peer 192.168.0.17:7497 gone"),
        ("peer api.alpaca.markets:443 gone", "peer api2.binance.com:443 gone"),
        ("POST https://a.example/v2/orders?x=1 failed", "POST http://127.0.0.1:8080/o failed"),
        ("halted by ann@example.com", "halted by j.doe.3@desk.example.org"),
        ("bad symbol 'AAPL' here", 'bad symbol "BRK.B" here'),
        ('market "Will it rain?" is closed', 'market "Who wins the cup in May?" is closed'),
        ("cannot read /var/lib/a/b.key", "cannot read /etc/x.pem"),
        ("<Order object at 0x7f3a10> lost", "<Order object at 0x55c0ff> lost"),
        ("pair BTC/USDT suspended", "pair DOGE/EUR suspended"),
        ("no fill for symbol=AAPL side=buy qty=1", "no fill for symbol=F side=sell qty=20.5"),
        ('{"msg":"gone","ts":1,"id":"a"}', "{'msg': 'gone', 'id': 'b', 'extra': null}"),
        ("RuntimeError('HTTP 429 after 3 attempts')", "RuntimeError: HTTP 429 after 4 attempts"),
        ("ccxt.base.errors.InvalidOrder: x", "InvalidOrder: x"),
        ("ValueError('too long to tell…[truncated]", "ValueError('too long to tell')"),
        ("asyncio.exceptions.TimeoutError", "TimeoutError()"),
        ("httpx.ReadError: ", "ReadError"),
        ("OSError: [Errno 101] Network is unreachable", "OSError(101, 'Network is unreachable')"),
        ("APIError({'code': 1, 'message': 'gone'})", 'APIError: {"code":1,"message":"gone"}'),
        (
            "ReadTimeout: pool: Read timed out. (read timeout=3)",
            'ReadTimeout(Inner("pool: Read timed out. (read timeout=9)"))',
        ),
        (
            "a.b.ApiError: ApiError[status_code=400, error_message=gone]",
            "ApiError[status_code=400, error_message=gone]",
        ),
        ('x {"cost":"9","code":1,"message":"gone"}', 'x {"code":1,"message":"gone","cost":"7"}'),
        ("exceeded with url: /o?id=7 (gone)", "exceeded with url: /v2/orders (gone)"),
        ("504, message='late', url='https://a.example/o'", "504, message='late', url=URL('https://a.example/o')"),
        ("Order Message: BUY 100 AAPL at noon", "Order Message: SELL 5 AAPL at noon"),
    ],
)
def test_what_varies_is_hidden(one: str, other: str) -> None:
    assert _same(one, other)


def test_the_entrys_own_names_are_hidden_wherever_they_stand() -> None:
    masks = ("main", "SOL/USDT:USDT", "ord_xyz", "venue_abc")
    assert normalise("account main: ord_xyz / venue_abc for SOL/USDT:USDT", masks) == "account #: # / # for #"
    assert normalise("Insufficient USDT for SOLUSDT (SOL-USDT)", masks) == "Insufficient # for # (#)"
    assert normalise("the domain of mainframes", masks) == "the domain of mainframes"


def test_short_and_common_names_do_not_eat_the_error() -> None:
    assert normalise("asset T is not tradable by Tom", ("T",)) == "asset # is not tradable by Tom"
    assert normalise("HTTP 429 from A", ("429", "A", "")) == "HTTP 429 from A"
    assert normalise("order error: timeout", ("order", "error", "timeout")) == "order error: timeout"


_TRACE = """Traceback (most recent call last):
  File "/srv/a/loop.py", line {line}, in submit
    return {source}
  File "/opt/{line}/alpaca.py", line 7, in {inner}
{exception}"""


def test_a_traceback_is_its_exception_and_its_functions() -> None:
    def trace(line: int = 5, source: str = "x()", inner: str = "post_v2", exception: str = "ValueError: 3 left") -> str:
        return _TRACE.format(line=line, source=source, inner=inner, exception=exception)

    assert normalise(trace()) == "ValueError: # left at post_v2 < submit"
    assert _same(trace(), trace(line=900, source="await x()", exception="ValueError: 12 left"))
    assert not _same(trace(), trace(inner="post_v3"))
    assert not _same(trace(), trace(exception="KeyError: 'x'"))
    chained = trace(exception="KeyError: 'x'") + "\n\nDuring handling …\n\n" + trace()
    assert _same(trace(), chained, "x" * READ_LENGTH + trace())


def test_where_an_engine_cut_the_error_does_not_matter() -> None:
    long = 'RuntimeError: HTTP 400: {"code":"invalid","message":"' + "words and more words " * 80
    assert _same(long[:1000], long[:997], long)
    assert len(normalise(long)) <= KEY_LENGTH


def test_ids_are_stable_across_releases() -> None:
    """These change only together with VERSION: stored group notes hang on them."""
    assert VERSION == 1
    assert fingerprint("RuntimeError: HTTP 429 after 3 attempts").id == "d6840f11bd82"
    assert fingerprint('APIError: {"code":40310000,"message":"insufficient buying power"}').id == "851753bafe37"


def test_titles_are_for_people() -> None:
    error = 'APIError: {"buying_power":"1","code":40310000,"message":"insufficient buying power"}'
    assert fingerprint(error).title == "APIError · 40310000 · insufficient buying power"
    error = 'InsufficientFunds: kraken {"error":["EOrder:Insufficient funds"]}'
    assert fingerprint(error).title == "InsufficientFunds: kraken · EOrder:Insufficient funds"
    assert fingerprint("").title == "(no error text)"


@given(st.text(max_size=300), st.lists(st.text(max_size=8), max_size=4))
@example("abc')", [])
@example("x\ud800\u202e\x1b[2J\r\n[red]", [])
@example("é" * 200, ["é"])
@example("a" * READ_LENGTH, [])
def test_any_text_has_a_safe_fingerprint(error: str, masks: list[str]) -> None:
    found = fingerprint(error, tuple(masks))
    assert found == fingerprint(error, tuple(masks))
    assert re.fullmatch(r"[0-9a-f]{12}", found.id)
    assert 0 < len(found.title) <= TITLE_LENGTH
    assert found.title.isprintable()


# --- quality -------------------------------------------------------------------------------------------------


def _purity(outer: list[str], inner: list[str]) -> float:
    """Share of members that bear the most frequent `inner` name of their `outer` group."""
    groups: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one, other in zip(outer, inner, strict=True):
        groups[one][other] += 1
    return sum(max(names.values()) for names in groups.values()) / len(outer)


def _quality(members: tuple[Labelled, ...], masks: Callable[[Labelled], tuple[str, ...]]) -> tuple[float, float]:
    """Purity: no fingerprint mixes failures. Completeness: no failure is scattered over fingerprints."""
    found = [fingerprint(member.error, masks(member)).id for member in members]
    true = [member.group for member in members]
    return _purity(found, true), _purity(true, found)


@pytest.mark.parametrize("half", HALVES)
def test_the_labelled_set_is_worth_judging_on(half: Half) -> None:
    """Groups of few texts are library messages in which nothing varies; they count for purity only."""
    members = labelled(half)
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for member in members:
        texts[member.group].add(member.error)
    assert len(texts) >= 60
    assert sum(len(varied) >= 5 for varied in texts.values()) >= 50
    assert len({member.source for member in members}) >= 10
    assert not texts.keys() & {member.group for other in HALVES if other != half for member in labelled(other)}


@pytest.mark.parametrize("half", HALVES)
def test_purity_and_completeness(half: Half) -> None:
    purity, completeness = _quality(labelled(half), lambda member: member.masks)
    assert purity >= 0.95
    assert completeness >= 0.95


@pytest.mark.parametrize("half", HALVES)
def test_groups_hold_without_the_entrys_names(half: Half) -> None:
    purity, completeness = _quality(labelled(half), lambda _: ())
    assert purity >= 0.95
    assert completeness >= 0.9


# --- cost ----------------------------------------------------------------------------------------------------

_HOSTILE = ("[", "{", "1", '"', "'", '"a":"', "a1-", "1.", "=a", "/a", "@a.", "://", "#, ", "1 Jan ", 'File "', "\\")


def _cost(text: str) -> float:
    best = 9e9
    for _ in range(5):
        start = time.process_time()
        normalise(text, ("1", "a1", "[["))
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("piece", _HOSTILE)
def test_time_grows_no_faster_than_the_text(piece: str) -> None:
    sizes = (READ_LENGTH // 64, READ_LENGTH // 8, READ_LENGTH)
    costs = [_cost((piece * size)[:size]) for size in sizes]
    assert all(longer < 40 * max(shorter, 1e-5) for shorter, longer in pairwise(costs)), (
        "8 x the text; 64 x is quadratic"
    )


@pytest.mark.parametrize("piece", _HOSTILE)
def test_a_megabyte_costs_no_more_than_what_is_read(piece: str) -> None:
    whole = piece * (1_000_000 // len(piece))
    assert _cost(whole) < 40 * max(_cost(whole[:READ_LENGTH]), 1e-4)
