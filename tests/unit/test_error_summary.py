"""An error in one line: the final exception, its causes, and the words of bodies, whoever wrote it."""

# ruff: noqa: E501 - an error is spelled in one piece
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.services.errors.summary import READ_LENGTH, ErrorSummary, summarise
from console.text.untrusted import is_forbidden, safe

FRAMES = (
    "Traceback (most recent call last):\n"
    '  File "/srv/bot/engine.py", line 210, in submit\n'
    "    await self.venue.send(order)\n"
    '  File "/srv/bot/venue.py", line 88, in send\n'
    "    response = await client.post(url)\n"
    "               ^^^^^^^^^^^^^^^^^^^^^^\n"
)
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
CLOUDFLARE = (
    '<!DOCTYPE html>\n<html class="no-js"><head>\n<title>api.binance.com | 502: Bad gateway</title></head>\n'
    '<body><div id="cf-wrapper">cloudflare</div></body></html>'
)
NGINX = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.24.0</center>"

ERRORS = [
    ("", ""),
    ("   \n ", ""),
    ("HTTP 429 after 3 attempts", "HTTP 429 after 3 attempts"),
    ("RuntimeError: HTTP 429 after 3 attempts", "HTTP 429 after 3 attempts"),
    ("RuntimeError('HTTP 429 after 3 attempts')", "HTTP 429 after 3 attempts"),
    ("ReadTimeout: no answer in 10 s", "no answer in 10 s"),
    ("httpx.ReadTimeout: no answer in 10 s", "no answer in 10 s"),
    ("httpx.ReadTimeout", "ReadTimeout"),
    ("TimeoutError()", "TimeoutError"),
    ("KeyError: 'qty'", "KeyError: qty"),
    ("KeyError('instrument')", "KeyError: instrument"),
    ("ZeroDivisionError: division by zero", "ZeroDivisionError: division by zero"),
    ("insufficient buying power", "insufficient buying power"),
    ("12:30 the market closed", "12:30 the market closed"),
    # Tracebacks
    (f"{FRAMES}httpx.ConnectTimeout: timed out", "ConnectTimeout: timed out"),
    (f"{FRAMES}KeyError: 'qty'", "KeyError: qty"),
    (f"{FRAMES}bot.errors.OrderRejected", "OrderRejected"),
    (
        f"{FRAMES}httpx.ConnectTimeout: timed out\n{DIRECT}{FRAMES}"
        "engine.VenueUnreachable: binance does not answer",
        "VenueUnreachable: binance does not answer ← ConnectTimeout",
    ),
    (
        f"{FRAMES}httpx.ConnectTimeout\n{DIRECT}{FRAMES}VenueUnreachable(venue='ccxt:binance', attempt=3)",
        "VenueUnreachable: venue='ccxt:binance', attempt=3 ← ConnectTimeout",
    ),
    (
        f"{FRAMES}OSError: [Errno 104] Connection reset by peer\n{DURING}{FRAMES}httpx.ReadError\n{DIRECT}{FRAMES}"
        "engine.SubmitFailed: gave up",
        "SubmitFailed: gave up ← ReadError ← OSError",
    ),
    (FRAMES, "the traceback is cut at send"),
    (f"{FRAMES}httpx.ConnectTimeout: timed out\n{DIRECT}{FRAMES}", "the traceback is cut at send ← ConnectTimeout"),
    (f"order failed\n{FRAMES}ValueError: no price for AAPL", "no price for AAPL"),
    (FRAMES.replace("\n", "\\n") + "KeyError: 'qty'", "KeyError: qty"),
    (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/srv/bot/engine.py", line 3, in submit\n'
        "  |     async with asyncio.TaskGroup() as group:\n"
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
    ),
    # Pages
    (f"HTTP 502: {CLOUDFLARE}", "502: Bad gateway (HTML, cloudflare)"),
    (f"502 {NGINX}", "502 Bad Gateway (HTML, nginx)"),
    (f"ccxt.base.errors.ExchangeNotAvailable: binance POST https://api {NGINX}"[:90], "ExchangeNotAvailable: binance POST https://api: 502 B (HTML)"),
    ("<html><head><title>403 Forbidden</title></head><body>awselb/2.0</body></html>", "403 Forbidden (HTML, awselb)"),
    ("HTTP 503: <html><body><h1>Service &amp; Maintenance</h1></body></html>", "HTTP 503: Service & Maintenance (HTML)"),
    ("HTTP 500: <!DOCTYPE html><html><body>oops</body></html>", "HTTP 500 (HTML)"),
    ("HTTP 504: b'<html><h1>504 Gateway Time-out</h1></html>'", "504 Gateway Time-out (HTML)"),
    (
        "<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your rate</Message></Error>",
        "Please reduce your rate (SlowDown)",
    ),
    ("a < b is not true", "a < b is not true"),
    # Bodies
    ('{"code":40310000,"message":"insufficient buying power"}', "insufficient buying power (40310000)"),
    ('HTTP 403: {"code":40310000,"message":"insufficient buying power"}', "HTTP 403: insufficient buying power (40310000)"),
    ('APIError: {"code": 42210000, "message": "qty must be > 0"}', "qty must be > 0 (42210000)"),
    (
        'ccxt.base.errors.InsufficientFunds: binance {"code":-2010,"msg":"Account has insufficient balance for '
        'requested action."}',
        "InsufficientFunds: Account has insufficient balance for requested action. (-2010)",
    ),
    ('binance {"code":-1021,"msg":"Timestamp for this request is outside of the recvWindow."}',
     "Timestamp for this request is outside of the recvWindow. (-1021)"),
    ('okx {"code":"1","data":[{"sCode":"51008","sMsg":"Order failed. Insufficient USDT balance"}],"msg":""}',
     "Order failed. Insufficient USDT balance (51008)"),
    ('bybit {"retCode":110007,"retMsg":"CheckMarginRatio fail! InsufficientAB"}',
     "CheckMarginRatio fail! InsufficientAB (110007)"),
    ('{"error":{"code":"insufficient_balance","message":"insufficient balance","service":"exchange"}}',
     "insufficient balance (insufficient_balance)"),
    ('{"status":"err","response":"Order must have minimum value of $10. asset=0"}',
     "Order must have minimum value of $10. asset=0"),
    ('{"status":"ok","response":{"data":{"statuses":[{"error":"Price must be divisible by tick size"}]}}}',
     "Price must be divisible by tick size"),
    ('{"label":"BALANCE_NOT_ENOUGH","message":"balance not enough"}', "balance not enough (BALANCE_NOT_ENOUGH)"),
    ('{"errors":["market is closed","account is restricted"]}', "market is closed"),
    ('{"detail":[{"loc":["body","price"],"msg":"field required","type":"value_error.missing"}]}', "field required"),
    ("{'code': -2010, 'msg': 'no funds'}", "no funds (-2010)"),
    ("ExchangeError: kraken {'error': ['EOrder:Insufficient funds']}", "EOrder:Insufficient funds"),
    ('HTTP 422: {"code":42210000,"message":"limit price must be a multiple of', "HTTP 422: limit price must be a multiple of (42210000)"),
    ('HTTP 400: {"a": 1}', 'HTTP 400: {"a": 1}'),
    ('{"message":"venue closed \\u2014 try later","code":0}', "venue closed — try later"),
    # Escapes
    ("the venue said \\u2014 closed", "the venue said — closed"),
    ("Ung\\xfcltige Anfrage", "Ungültige Anfrage"),
    ("rocket \\ud83d\\ude80 down", "rocket 🚀 down"),
    ("first line\\nsecond line", "first line"),
    # Numbers of the system
    ("[Errno 104] Connection reset by peer", "Connection reset by peer"),
    ("ConnectionResetError: [Errno 104] Connection reset by peer", "ConnectionResetError: Connection reset by peer"),
    ("OSError: [Errno 113] No route to host", "No route to host"),
    ("ConnectionRefusedError(111, 'Connect call failed')", "ConnectionRefusedError: Connect call failed"),
    ("[Errno 111] Connect call failed ('127.0.0.1', 443)", "Connect call failed"),
    ("gaierror: [Errno -2] Name or service not known", "gaierror: Name or service not known"),
    (
        "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed "
        "certificate (_ssl.c:1006)",
        "SSLCertVerificationError: certificate verify failed: self-signed certificate",
    ),
    # Libraries
    (
        "requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))",
        "ConnectionError: Connection aborted ← ConnectionResetError: Connection reset by peer",
    ),
    (
        "HTTPSConnectionPool(host='api.kraken.com', port=443): Max retries exceeded with url: /0/private/AddOrder "
        "(Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f2a>: Failed to establish a "
        "new connection: [Errno 111] Connection refused'))",
        "api.kraken.com: Max retries exceeded ← NewConnectionError: Failed to establish a new connection: Connection refused",
    ),
    (
        "httpx.HTTPStatusError: Client error '422 Unprocessable Entity' for url 'https://api.alpaca.markets/v2/orders'\n"
        "For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/422",
        "422 Unprocessable Entity",
    ),
    ("429 Client Error: Too Many Requests for url: https://api.alpaca.markets/v2/orders", "429 Too Many Requests"),
    (
        "aiohttp.ClientConnectorError: Cannot connect to host api.kalshi.com:443 ssl:default [Connect call failed "
        "('10.0.0.1', 443)]",
        "ClientConnectorError: Cannot connect to host api.kalshi.com:443",
    ),
    (
        "1 validation error for Order\nqty\n  Input should be greater than 0 [type=greater_than, input_value=-5, "
        "input_type=int]\n    For further information visit https://errors.pydantic.dev/2.7/v/greater_than",
        "1 validation error for Order: qty: Input should be greater than 0",
    ),
    (
        '<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "failed to '
        'connect to all addresses"\n>',
        "UNAVAILABLE: failed to connect to all addresses",
    ),
    ("Exception: RuntimeError: no session", "no session"),
    ("RetryError[<Future at 0x7f raised ReadTimeout>]", "RetryError[<Future at 0x7f raised ReadTimeout>]"),
    ("Error: kalshi: market_closed", "kalshi: market_closed"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "shown"), ERRORS, ids=range(len(ERRORS)))
def test_an_error_says_this(error: str, shown: str) -> None:
    assert summarise(error).line == shown


def test_the_table_is_large() -> None:
    assert len({error for error, _ in ERRORS}) >= 60


def test_where_room_is_short_the_arguments_go_first_and_then_the_type() -> None:
    chained = ErrorSummary("VenueUnreachable", "venue='ccxt:binance', attempt=3", ("ConnectTimeout",))
    assert chained.within(40) == "VenueUnreachable ← ConnectTimeout"
    assert chained.within(100) == "VenueUnreachable: venue='ccxt:binance', attempt=3 ← ConnectTimeout"
    assert ErrorSummary("OrderRejected", "the market is closed").within(22) == "the market is closed"
    assert ErrorSummary("", "insufficient buying power (40310000)").within(30) == "insufficient buying power"
    assert ErrorSummary("KeyError", "client_order_id").within(10) == "KeyError: client_order_id"


def test_what_escapes_hide_is_inert_once_it_is_shown() -> None:
    """Decoding comes first, so that an escape spelled in ASCII cannot pass as harmless."""
    shown = summarise("boom \\u001b[2J\\x1b]0;title\\x07 \\u202e end").line
    assert "\x1b" in shown
    assert not any(is_forbidden(one) for one in safe(shown))


def test_a_secret_behind_escapes_stays_hidden() -> None:
    assert "s3cr3tvalue" not in summarise('{"message": "denied", \\"api_key\\": \\"s3cr3tvalue1234567\\"}').line


@given(st.text(max_size=400))
def test_any_text_gives_one_line(text: str) -> None:
    assert len(summarise(text).line.splitlines()) <= 1


@pytest.mark.parametrize("piece", ["{", "[", "<html", "<title>", "\\u", "(Caused by A(", 'File "', "a.", "('", "{'a':"])
def test_a_text_of_megabytes_takes_no_time(piece: str) -> None:
    """The work is bounded by what is read; a nested or repeated opening must not multiply it."""
    assert len(summarise(piece * 1_000_000).line) <= READ_LENGTH * 2
