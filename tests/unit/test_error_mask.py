"""Errors keep their words and lose their credentials, however a request was written into them."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.layouts.mask import MASKED, masked_error
from tests.data.errors import labelled

HEX = "4f0c9d3e" * 8
KEY = "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"
PK = "PKAB12CD34EF56GH78IJ"
PEM = "-----BEGIN RSA PRIVATE KEY-----\\nMIIEpAIBAAKCAQ\\n-----END RSA PRIVATE KEY-----"

# (the error with its secrets in guillemets)
MASKS = [
    f"binance GET https://api.binance.com/api/v3/order?symbol=BTCUSDT&timestamp=1718000000000&signature=«{HEX}» 401",
    f"GET https://x/y?apiKey=«{KEY}»&signature=«{HEX}»&recvWindow=5000",
    f"{{'APCA-API-KEY-ID': '«{PK}»', 'APCA-API-SECRET-KEY': '«{KEY}»'}}",
    f"{{'APCA-API-KEY-ID': '«{PK}»', 'Accept': '*/*', 'APCA-API-SECRET-KEY': '«hunter»'}} HTTP 401",
    f"X-MBX-APIKEY: «{KEY}»\nHost: api.binance.com",
    f"Authorization: Bearer «{KEY}»",
    "Authorization: Bearer «abcdefgh»\r\nHost: x",
    "'Authorization': 'Basic «dXNlcjpwYXNz»', 'Host': 'x'",
    'headers={"authorization": "«plaintoken»", "host": "x"}',
    "sent Bearer «abcDEF123456» to the venue",
    f"KALSHI-ACCESS-SIGNATURE: «{KEY}==», KALSHI-ACCESS-TIMESTAMP: 1718000000000",
    "KALSHI-ACCESS-KEY: «8d5b0f0e-1111-2222-3333-444455556666»",
    "POLY_PASSPHRASE «a1b2c3d4e5f6»",
    "POLY_PASSPHRASE: «hunter»",
    "POLY_PASSPHRASE='«correct horse battery»' POLY_ADDRESS='0x52908400098527886E0F7030069857D2E4169EE7'",
    f"OK-ACCESS-SIGN: «{KEY}=» OK-ACCESS-PASSPHRASE: «Passw0rd!»",
    f"api-sign: «{KEY}=», api-key: «{KEY}»",
    f'{{"signature": {{"r": "«0x{HEX}»", "s": "«0x{HEX}»", "v": 27}}, "nonce": 1}}',
    f"{{'signature': {{'r': '«0x{HEX}»', 's': '«0x{HEX}»', 'v': 27}}, 'nonce': 1}}",
    f"signature r=«0x{HEX}» s=«0x{HEX}» v=27",
    "Cookie: «session=abc123; cf_clearance=xyz»\nHost: x",
    "{'Cookie': '«session=abc123; b=c»'}",
    "Set-Cookie: «sid=1234abcd; Path=/»",
    f"private_key=«0x{HEX}»",
    f"Wallet(address='0x52908400098527886E0F7030069857D2E4169EE7', private_key='«0x{HEX}»')",
    f"Credentials(api_key='«{KEY}»', secret=«{KEY}», password='«p w»')",
    f'{{\\"apiKey\\":\\"«{KEY}»\\",\\"sign\\":\\"«{HEX}»\\",\\"symbol\\":\\"BTCUSDT\\"}}',
    f"[(b'X-MBX-APIKEY', b'«{KEY}»'), (b'Host', b'x')]",
    f"signed order 0x{'ab' * 32} with «0x{'ab' * 65}»",
    "«eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl» was refused",
    "https://«ann:hunter2»@gw.internal/v1",
    f"invalid api key: «{KEY}»",
    f"key «{PK}» is not active",
    f"GET /x%3Fa%3D1%26signature%3D«{HEX}»%26b%3D2",
    f"KEY: «{HEX[:32]}», SIGN: «{HEX * 2}»",
    '{"password": "«a\\"b c»", "user": "ann"}',
    f"{{'APCA-API-SECRET-KEY': '«{KEY}",  # cut by the sink
    f"«{PEM}» cannot be read",
    "x-auth-token=«9d8f7a6b»",
    "Authorization: DESK «abc123def456», Host: x",
    f"apiKey «{PK}» was revoked",
    f"wallet private key «0x{HEX}» is not the agent's",
    "secret: «hunter»",
    f"b'GET /x HTTP/1.1\\r\\nX-MBX-APIKEY: «{KEY}»\\r\\nHost: x\\r\\n'",
    f"listenKey=«{KEY}»&x=1 sig=«{HEX}»",
    "api_secret=«SECRETVALUE» symbol=BTC",
]
STAYS = [
    "request is not authorized: access key expired",
    "insufficient key",
    "invalid signature",
    "Invalid signature: order hash mismatch",
    "AuthenticationError: binance {\"code\":-2014,\"msg\":\"API-key format invalid.\"}",
    "binance {\"code\":-2015,\"msg\":\"Invalid API-key, IP, or permissions for action.\"}",
    "Signature for this request is not valid.",
    "Invalid signature: {\"code\":-1022,\"msg\":\"Signature 2 is not valid\"}",
    "HTTP 401: Unauthorized",
    "Authorization: required",
    "Authorization failed: token expired",
    "use basic authentication instead of bearer authentication",
    "the access token validation failed",
    "KALSHI-ACCESS-SIGNATURE header missing",
    "missing header X-MBX-APIKEY: required",
    '{"errors": {"signature": ["This field is required."], "api_key": "is missing"}}',
    "KeyError: 'signature'",
    "missing parameters: ['signature', 'timestamp'] or ('apiKey', 'recvWindow')",
    '{"details":"INCORRECT_API_KEY_SIGNATURE","service":"authentication"}',
    "InvalidSignature: Signature for this request is not valid.",
    "duplicate client_order_id: cid-20260418-0007 (key: AAPL-1)",
    "Idempotency-Key: 8d5b0f0e-1111-2222-3333-444455556666 was used",
    "order 0x" + "ab" * 32 + " not found",
    "insufficient allowance for token: 0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
    "token_id=71321045679252212594626385532706912750332728571942532289631379312455583992563 is closed",
    "invalid token: 71321045679252212594626385532706912750332728571942532289631379312455583992563",
    "clientOrderId=sig-2026-04-18-aapl signal_id=7 signature=None apiKey= token=null",
    "duplicate key value violates unique constraint",
    "market design: signal key=AAPL side=buy sign=-1",
    "WWW-Authenticate: Bearer realm=\"api\", error=\"invalid_token\"",
    "secret: not configured; password is wrong; passphrase incorrect",
    "mail ops@desk.example about https://status.alpaca.markets/",
]  # fmt: skip


def _plain(text: str) -> str:
    return text.replace("«", "").replace("»", "")


def _secrets(text: str) -> list[str]:
    return [part.partition("»")[0] for part in text.split("«")[1:]]


@pytest.mark.parametrize("marked", MASKS)
def test_a_credential_is_hidden_and_nothing_else(marked: str) -> None:
    shown = masked_error(_plain(marked))
    wanted = marked if "»" in marked.rpartition("«")[2] else f"{marked}»"
    for secret in _secrets(wanted):
        wanted = wanted.replace(f"«{secret}»", MASKED, 1)
    assert shown == wanted
    assert masked_error(shown) == shown


@pytest.mark.parametrize("text", STAYS)
def test_words_about_a_credential_stay(text: str) -> None:
    assert masked_error(text) == text


def test_a_masked_json_body_stays_json() -> None:
    body = json.dumps({"signature": {"r": 8471, "s": [1, 2], "v": 27}, "apiKey": KEY, "n": 1})
    assert json.loads(masked_error(body)) == {"signature": MASKED, "apiKey": MASKED, "n": 1}


def test_the_errors_of_the_corpus_hold_no_credential() -> None:
    changed = [
        one.error for half in ("dev", "heldout") for one in labelled(half) if masked_error(one.error) != one.error
    ]
    assert changed == []


@given(st.text(max_size=300) | st.text(alphabet="key:='\"\\ {}[]()0xsign", max_size=80))
def test_any_text_is_taken_and_masking_twice_changes_nothing(text: str) -> None:
    shown = masked_error(text)
    assert masked_error(shown) == shown


@pytest.mark.parametrize(
    "piece", ["key", "a", "signature={", "'key': '", "\\", "0x", "sign=", "cookie: a;", "eyJ", "://a:"]
)
def test_a_hostile_text_takes_no_time(piece: str) -> None:
    began = time.process_time()
    masked_error((piece * 60_000)[:60_000] + " key")
    assert time.process_time() - began < 3
