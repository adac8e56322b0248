"""Categories and reach: judged on the labelled errors, on ccxt's own tables, and on the dangerous side above all."""

import time

import ccxt
import pytest
from dlq_sink.capture.submit import NEVER_AWAITED
from hypothesis import given
from hypothesis import strategies as st

from backends.layouts.intents import ERROR as INTENT_ERROR
from console.services.errors.category import READ_LENGTH, Class, classify
from console.services.errors.category_rules import RULES, UNKNOWN, Rule
from tests.data.errors import Half, labelled

HALVES: tuple[Half, ...] = ("dev", "heldout")
SAFE = [member.error for half in HALVES for member in labelled(half) if member.reach == "no"]
DOUBTS = RULES[: next(index for index, rule in enumerate(RULES) if rule.reach == "no")]

EXAMPLES = {
    "engine-store-busy": "DeadlockDetectedError: deadlock detected",
    "engine-store": "OperationalError: database is locked",
    "duplicate-id": 'APIError: {"code":40010001,"message":"client_order_id must be unique"}',
    "at-the-venue": "Error 404, reqId 7: Order held while securities are located.",
    "in-doubt": 'binance {"code":-1007,"msg":"no news"}',
    "broken-off": "RemoteProtocolError: Server disconnected without sending a response.",
    "no-answer": "ReadTimeout: HTTPSConnectionPool(host='x', port=443): Read timed out. (read timeout=10)",
    "unreadable-answer": "JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "server-error": "HTTPError: 500 Server Error for url: https://x",
    "tls": "ConnectError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:1006)",
    "not-connected": "ConnectionRefusedError: [Errno 111] Connection refused",
    "unreachable": "OSError: [Errno 101] Network is unreachable",
    "timeout": "TimeoutError: ",
    "missing-field": "KeyError: 'quantity'",
    "engine-bug": "KeyError: 'code'",
    "breaker": "CircuitOpenError: alpaca",
    "not-submitted": f"RuntimeError: {NEVER_AWAITED}",
    "held-back": "RiskRejected: order notional 10 exceeds the limit 5",
    "invalid-document": "jsonschema.ValidationError: 'qty' is a required property",
    "clock": 'binance {"code":-1021,"msg":"Timestamp for this request is outside of the recvWindow."}',
    "credentials": 'DDoSProtection: binance {"code":-2015,"msg":"Invalid API-key, IP, or permissions for action."}',
    "rate-limit": "RuntimeError: HTTP 429 after 3 attempts",
    "market-closed": 'MarketClosed: binance {"code":-1013,"msg":"Market is closed."}',
    "paused": "RuntimeError: trading is paused",
    "funds": 'APIError: {"code":40310000,"message":"insufficient buying power"}',
    "precision": "RuntimeError: Price must be divisible by tick size. asset=3",
    "size-or-price": "RuntimeError: Order must have minimum value of $10.",
    "would-cross": "RuntimeError: Post only order would have immediately matched, bbo was 1@2.",
    "not-allowed": 'APIError: {"code":42210000,"message":"asset F is not tradable"}',
    "unknown-market": 'BadSymbol: binance {"code":-1121,"msg":"Invalid symbol."}',
    "nothing-to-cancel": 'OrderNotFound: binance {"code":-2011,"msg":"Unknown order sent."}',
    "order-not-found": 'OrderNotFound: binance {"code":-2013,"msg":"Order does not exist."}',
    "malformed": "ArgumentsRequired: createOrder() requires a price argument for a limit order",
    "bad-request": 'BadRequest: woo {"msg":"no such thing"}',
    "refused": "RuntimeError: Error 201, reqId 7: Order rejected - reason:no",
    "invalid-field": 'RuntimeError: HTTP 422: {"message":"qty must be greater than 0"}',
    "credentials-status": 'RuntimeError: HTTP 403: {"message":"your plan does not include this"}',
    "refused-status": 'RuntimeError: HTTP 422: {"message":"a rule nobody had seen before"}',
    "bad-amount": "ValueError: negative quantity",
    "business-rule": "CreditError: credit limit exceeded",
    "schema-mismatch": "payload does not match expected schema",
    "unavailable": "RuntimeError: downstream unavailable",
    "refused-for-good": "permission denied",
    "unprocessable-bare": "HTTPError: 422 Client Error: Unprocessable Entity for url: https://x/v2/orders",
    "refused-bare": "RuntimeError: HTTP 400",
    "answered": "RuntimeError: HTTP 302",
    "unknown": "RuntimeError: the cat sat on it",
    "cut-off": "KeyboardInterrupt: unknown outcome: the submit was interrupted",
}


@pytest.mark.parametrize("rule", [*RULES, UNKNOWN], ids=lambda rule: rule.name)
def test_every_rule_fires_and_says_what_to_do(rule: Rule) -> None:
    assert classify(EXAMPLES[rule.name]) == Class(rule.category, rule.reach, rule.name, rule.next_step)
    assert rule.next_step


def test_the_table_is_well_formed() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.words or rule.statuses or rule.codes
        assert all(word == word.lower().strip() and len(word) >= 4 for word in (*rule.words, *rule.unless))
        assert rule.own_words or rule.reach == "maybe" or not rule.statuses - {418, 429}, "a bare status proves nothing"


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (EXAMPLES["credentials"], "dlq secrets check VENUE --paper|--live"),
        (EXAMPLES["market-closed"], "after the open"),
        (EXAMPLES["rate-limit"], "when the venue is ready"),
        (EXAMPLES["no-answer"], "ask the venue"),
        (EXAMPLES["funds"], "fund the account"),
        (EXAMPLES["unknown"], "not recognised"),
    ],
)
def test_known_errors_suggest_a_next_step(error: str, part: str) -> None:
    assert part in classify(error).note


# --- agreement with the labels -------------------------------------------------------------------------------


@pytest.mark.parametrize("half", HALVES)
def test_category_and_reach_agree_with_the_labels(half: Half) -> None:
    members = labelled(half)
    found = [classify(member.error) for member in members]
    pairs = list(zip(members, found, strict=True))
    assert sum(one.category == two.category for one, two in pairs) / len(pairs) >= 0.97
    assert sum(one.reach == two.reach for one, two in pairs) / len(pairs) >= 0.97


@pytest.mark.parametrize("half", HALVES)
def test_nothing_that_may_have_arrived_is_called_safe(half: Half) -> None:
    doubtful = [member for member in labelled(half) if member.reach == "maybe"]
    assert len(doubtful) > 100
    assert [member.error for member in doubtful if classify(member.error).reach == "no"] == []


def test_ccxts_own_tables_agree() -> None:
    """Labels nobody here wrote: which of its exceptions ccxt raises for which words of 104 exchanges."""
    lost = {"RequestTimeout", "ExchangeNotAvailable", "NetworkError", "DuplicateOrderId", "OnMaintenance"}
    refusals = {
        "InsufficientFunds", "InvalidOrder", "BadSymbol", "BadRequest", "AuthenticationError", "PermissionDenied",
        "RateLimitExceeded", "OperationRejected", "AccountSuspended", "MarketClosed", "InvalidNonce",
    }  # fmt: skip
    called_safe: list[str] = []
    agreed: list[bool] = []
    for exchange, words, kind in _ccxt_rows():
        error = f'{kind}: {exchange} {{"msg":"{words}"}}'
        reach = classify(error).reach
        if kind in lost and reach == "no":
            called_safe.append(error)
        if kind in refusals:
            agreed.append(reach == "no")
    assert called_safe == []
    assert len(agreed) > 1_000
    assert sum(agreed) / len(agreed) >= 0.97


def _ccxt_rows() -> set[tuple[str, str, str]]:
    rows: set[tuple[str, str, str]] = set()
    for exchange in ccxt.exchanges:
        tables = [getattr(ccxt, exchange)().exceptions or {}]
        while tables:
            for words, kind in tables.pop().items():
                if isinstance(kind, dict):
                    tables.append(kind)
                elif isinstance(kind, type) and len(words) > 6 and not words.isdigit():
                    rows.add((exchange, words, kind.__name__))
    return rows


# --- the dangerous side --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", DOUBTS, ids=lambda rule: rule.name)
def test_a_word_of_doubt_outweighs_any_refusal(rule: Rule) -> None:
    for word in rule.words:
        for error in SAFE:
            if not any(exempt in error.lower() for exempt in rule.unless):
                assert classify(f"{error} … {word}").reach == "maybe", (error, word)


@pytest.mark.parametrize(
    "error",
    [
        "",
        "RuntimeError: HTTP 403 Forbidden <html><body>cloudflare</body></html>",
        'RuntimeError: HTTP 404: {"message":"Not Found"}',
        'RuntimeError: HTTP 400: {"code":"400","message":"Bad Request"}',
        "RuntimeError: HTTP 413 Request Entity Too Large",
        "HTTPBadRequest: Bad Request",
        'NetworkException: 400 {"message":"Order request timed out. Please check the order book"}',
        'RuntimeError: HTTP 500: {"message":"insufficient funds"}',
        "ClientError: (503, None, 'insufficient', None)",
        "MaxRetryError: Max retries exceeded with url: /o (Caused by ResponseError('too many 503 error responses'))",
        "MaxRetryError: Max retries exceeded with url: /o (Caused by ReadTimeoutError('read timeout=10'))",
        "RetryError[<Future at 0x7f3a state=finished raised ConnectTimeout>]",
        "RuntimeError: connection refused after 3 attempts",
        "OSError: [Errno 113] No route to host",
        "Error: socket hang up",
        "NoHttpResponseException: api.example:443 failed to respond",
        'RuntimeError: HTTP 409: {"message":"must be looked at"}',
        "OSError: [Errno 111] Connect call failed ('10.0.0.5', 5432)",
        "ContentLengthError: 400, message='Not enough data to satisfy content length header'",
        "RuntimeError: order rejected: duplicate",
        'InvalidOrder: x {"msg":"Unknown error"}',
        'BadRequest: bybit {"retCode":170035,"retMsg":"Submitted to the system for processing!"}',
        'OrderNotFound: x {"msg":"order not found"}',
        "TypeError: submit() missing 1 required positional argument: 'price'",
        "InvalidOperation: quantize result has too many digits for current precision",
        "ValidationError: 1 validation error for OrderResponse\nqty\n  Input should be greater than the minimum",
        "RuntimeError: submit failed for notional 1000, quantity 429",
        "ValueError: 429 contracts left over",
        "PermissionError: [Errno 13] Permission denied: '/var/log/engine.log'",
        "RouteNotFound: POST /v9/orders",
        "ResourceNotFound: no such endpoint",
        "ValueError: negative quantity",
        "downstream unavailable",
        "429",
        "503",
        'InsufficientFunds: bybit {"ret_msg":"Server Timeout","rate_limit_status":99,"rate_limit":100}',
        "ApiException: (409)\nReason: Conflict\nHTTP response headers: HTTPHeaderDict({'X-RateLimit-Remaining': '9', "
        '\'X-Note\': \'rate limit\'})\nHTTP response body: {"error":{"code":"odd","message":"odd"}}',
    ],
)
def test_it_may_have_arrived(error: str) -> None:
    assert classify(error).reach == "maybe"


@pytest.mark.parametrize(
    ("error", "category"),
    [
        ('RuntimeError: HTTP 400: {"error":"invalid quantity"}', "schema"),
        ('APIError: {"code":40010000,"message":"qty is required"}', "schema"),
        ('APIError: {"code":42210000,"message":"limit orders require limit price"}', "schema"),
        ('RuntimeError: HTTP 422: {"detail":[{"loc":["body","qty"],"msg":"field required"}]}', "schema"),
        ("RuntimeError: Order has invalid size.", "schema"),
        ('APIError: {"code":42210000,"message":"asset \\"FOOX\\" not found"}', "business"),
        ('RuntimeError: HTTP 409: {"message":"must be looked at"}', "integration"),
        ("Error: connect ECONNREFUSED 10.0.0.4:443", "transient"),
        ("dial tcp: lookup api.example on 10.0.0.2:53: no such host", "transient"),
        ("[WinError 10061] the target machine actively refused it", "transient"),
        ("ConnectionResetError: [WinError 10054] forcibly closed by the remote host", "transient"),
        ("Error: socket hang up", "transient"),
        ("NoHttpResponseException: api.example:443 failed to respond", "transient"),
        ("Error 504, reqId 7: Not connected", "transient"),
        ("ValueError: negative quantity", "business"),
        ("payload does not match expected schema", "schema"),
        ("missing required field", "schema"),
        ("downstream unavailable", "transient"),
        ("permission denied for schema public", "integration"),
    ],
)
def test_whose_fault_it_is(error: str, category: str) -> None:
    assert classify(error).category == category


@pytest.mark.parametrize(
    "error",
    [
        "ConnectError: All connection attempts failed",
        "Error: connect ECONNREFUSED 10.0.0.4:443",
        "dial tcp: lookup api.example on 10.0.0.2:53: no such host",
        "ClientConnectorError: Cannot connect to host x:443 ssl:default [Connect call failed ('10.0.0.5', 443)]",
        "gaierror: [Errno -3] Temporary failure in name resolution",
        "FetchError: request to https://api.example failed, code: 'ENOTFOUND'",
        "RuntimeError: Error 502, reqId -1: Couldn't connect to TWS.",
        "ClientError: (429, None, 'null', None, {'server': 'x'})",
        "ApiException: (400)\nReason: Bad Request\nHTTP response headers: HTTPHeaderDict({'Keep-Alive': 'timeout=5'})\n"
        'HTTP response body: {"error":{"code":"odd","message":"odd"}}',
        "ValidationError: 1 validation error for LimitOrderRequest\nqty\n  Field required [type=missing]",
    ],
)
def test_it_did_not_arrive(error: str) -> None:
    assert classify(error).reach == "no"


def test_what_was_not_read_to_its_end_is_not_called_safe() -> None:
    error = EXAMPLES["funds"]
    assert classify(error.ljust(READ_LENGTH)).reach == "no"
    assert classify(error.ljust(READ_LENGTH + 1)).reach == "maybe"


@given(st.text(max_size=300))
def test_any_text_has_a_class(error: str) -> None:
    assert classify(error) == classify(error)


@pytest.mark.parametrize("piece", ["[", "1", " ", '"msg":"', "http 500 ", "header:{", "-1234 ", "é"])
def test_time_grows_no_faster_than_the_text(piece: str) -> None:
    def cost(size: int) -> float:
        best = 9e9
        for turn in "uvwxyz":
            text = (piece * size)[: size - 1] + turn  # a fresh text each time: classifications are cached
            start = time.thread_time()
            classify(text)
            best = min(best, time.thread_time() - start)
        return best

    assert cost(READ_LENGTH) < 40 * max(cost(READ_LENGTH // 8), 1e-5), "8 x the text; 64 x is quadratic"
    assert cost(1_000_000) < 40 * max(cost(READ_LENGTH), 1e-4)


def test_what_an_engine_leaves_behind_when_it_is_cut_off_is_recognised() -> None:
    for error in (INTENT_ERROR, "SystemExit: 1: unknown outcome: the submit was interrupted"):
        found = classify(error)
        assert (found.category, found.reach) == ("transient", "maybe")
        assert found.note.startswith("the engine never learned what became of it; ")
