"""One connection, one request, and what a lost one means: the transport and the ledger at the ends of a send."""

from __future__ import annotations

import json
import os
import sqlite3
import ssl
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpcore
import httpx
import keyring
import keyring.backends.fail
import keyring.backends.null
import pytest

from console.settings.config import VenueConfig
from console.settings.secrets import SecretError, _backend, _owner_only
from tests.services.conftest import Make
from tests.support.keyrings import PlaintextKeyring
from tests.support.planning import command
from tests.support.session import Stage, ident
from tests.support.venue.in_process import FakeVenue
from venues import LookupFailed, Prepared, answers
from venues.alpaca import answers as alpaca
from venues.http import Transport, _tls, _Wire
from venues.hyperliquid import answers as hyperliquid
from venues.message import Reply
from venues.orders import NotSent, RateLimited, Rejected, Unknown

At = Callable[..., Awaitable[Stage]]


class Refusing(httpcore.AsyncNetworkBackend):
    """Nobody listens there; counts who tries."""

    def __init__(self) -> None:
        self.tries = 0

    async def connect_tcp(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        self.tries += 1
        raise httpcore.ConnectError("refused")

    async def sleep(self, seconds: float) -> None: ...


class Counted(Transport):
    def __init__(self, backend: Refusing) -> None:
        super().__init__("http://127.0.0.1:9", 5.0)
        self.backend = backend

    def _pool(self) -> httpx.AsyncHTTPTransport:
        made = super()._pool()
        made._pool._network_backend = self.backend
        return made


async def test_nobody_there_is_tried_once_and_nothing_was_sent() -> None:
    backend = Refusing()
    assert isinstance(await Counted(backend).request("POST", "/orders", body=b"{}"), NotSent)
    assert backend.tries == 1
    asking = Counted(backend)
    await asking.ask("GET", "/orders")
    await asking.aclose()
    assert backend.tries == 2


async def test_only_connecting_is_not_sending() -> None:
    silent = _Wire()
    assert isinstance(silent.lost("gone"), Unknown)  # httpx told nothing: nobody knows
    await silent.trace("connection.connect_tcp.started", {})
    assert isinstance(silent.lost("gone"), NotSent)
    await silent.trace("http11.send_request_headers.started", {})
    assert isinstance(silent.lost("gone"), Unknown)


def test_certificates_are_verified() -> None:
    for url in ("https://venue.test", "http://127.0.0.1"):
        context = _tls(url)
        assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


def test_too_many_requests_is_said_with_its_wait() -> None:
    busy = Reply(429, {"retry-after": "7"}, b"")
    assert answers.outcome_of(busy, lambda _: Rejected("429", "its own")) == RateLimited(7.0)


async def test_the_account_is_kept_with_the_attempt_and_no_claim_stays(make: Make, at: At) -> None:
    stage = await at(make(1), venue=FakeVenue(account="PA1", key_digest="digest"))
    await stage.replay_one(1)
    (attempt,) = await stage.attempts(1)
    assert (attempt.account, attempt.key_digest) == ("PA1", "digest")
    assert not await stage.claims()


async def test_the_ledger_tells_what_was_absent_from_what_was_never_sent(make: Make, at: At) -> None:
    target, settings = make(2), {"fake": VenueConfig(visibility_seconds=0)}
    stage = await at(target, venue=FakeVenue(script=["lost", "not-sent"]), settings=settings)
    await stage.replay_one(1)
    await stage.replay_one(2)
    assert (await stage.reconcile(1))[ident(1)].outcome == "not_sent"
    with closing(sqlite3.connect(target)) as connection:
        rows = connection.execute("SELECT state FROM console_attempt ORDER BY id").fetchall()
    assert rows == [("absent",), ("not_sent",)]


def test_a_file_of_secrets_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alpaca.paper.api_key"
    path.write_text("key\n")
    for mode in (0o640, 0o604):
        path.chmod(mode)
        with pytest.raises(SecretError):
            _owner_only(path)
    path.chmod(0o600)
    assert _owner_only(path) == "key"
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(SecretError):
        _owner_only(path)


KEYRINGS: tuple[type[Any], ...] = (keyring.backends.fail.Keyring, keyring.backends.null.Keyring, PlaintextKeyring)


@pytest.mark.parametrize("kind", KEYRINGS)
def test_a_keyring_that_keeps_nothing_or_plain_text_is_refused(
    kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "get_keyring", kind)
    with pytest.raises(SecretError):
        _backend()


def test_a_look_up_that_comes_too_often_tells_when_to_ask_again() -> None:
    action = command().action
    prepared = Prepared("new", "cid-1", "GET", "/v2/orders", b"", action)
    busy = alpaca.lookup_of(Reply(429, {"retry-after": "7"}, b""), prepared)
    assert isinstance(busy, LookupFailed)
    assert busy.retry_after == 7.0


def test_two_answers_to_one_order_prove_nothing() -> None:
    answer = {"status": "ok", "response": {"data": {"statuses": [{"resting": {"oid": 5}}, {"resting": {"oid": 6}}]}}}
    prepared = Prepared("new", "0x1", "POST", "/exchange", b"", command().action)
    assert isinstance(hyperliquid.outcome_of(Reply(200, {}, json.dumps(answer).encode()), prepared), Unknown)
