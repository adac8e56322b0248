"""Messages and calls through the command line and through the session behind the screens: one input, one record."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from backends import open_store
from backends.records import Actor
from backends.store import Claim, Intent
from console.services.resend import delivery
from console.services.resend import hub as hub_retry
from console.services.resend.hub import HubBatch
from console.services.resend.outbox import OutboxBatch
from console.services.resend.provider import ProviderBatch
from tests.support.http_server import Answer, Handler, Loopback, Received, reply
from tests.support.integration import REQUEST, IntegrationRig, entry_id, failed_row
from tests.support.outbox import OutboxRig
from tests.support.parity import Act, Case, Side, apart, params, traces
from tests.support.session import BOB
from tests.support.store import why
from tests.support.venue.hub import TOKEN, FakeHub, failed_item

CALL, OTHER = entry_id(1), entry_id(2)
HALT = Act("halt", note="provider trouble")
APPROVE = Act("approve", actor=BOB)
SENT, REFUSED = ("intent", "outcome"), ("refused-replay",)


@pytest.fixture(scope="module")
def databases(postgres_dsn: str) -> Iterator[tuple[str, str]]:
    """One for each side, made once: making and dropping them takes longer than all the rest."""
    names = [f"t_{uuid.uuid4().hex[:12]}" for _ in range(2)]
    server = postgres_dsn.replace("{db}", "postgres")
    for name in names:
        apart(_told(server, f'CREATE DATABASE "{name}"'))
    yield postgres_dsn.replace("{db}", names[0]), postgres_dsn.replace("{db}", names[1])
    for name in names:
        apart(_told(server, f'DROP DATABASE "{name}" WITH (FORCE)'))


@pytest.fixture
def targets(databases: tuple[str, str]) -> tuple[str, str]:
    """Both of them empty."""
    for target in databases:
        apart(_told(target, "DROP SCHEMA IF EXISTS public, dlq_console CASCADE; CREATE SCHEMA public"))
    return databases


async def _told(target: str, statement: str, *args: object) -> None:
    connection = await asyncpg.connect(target)
    try:
        await connection.execute(statement, *args)
    finally:
        await connection.close()


@contextmanager
def served(handler: Handler) -> Iterator[str]:
    """A server on a thread of its own: a command runs loops itself."""
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    urls: list[str] = []

    async def serve() -> None:
        async with Loopback(handler) as server:
            urls.append(server.url)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="loopback", daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)
        loop.close()


def check(case: Case, sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both faces do the very same, and it is what it should be."""
    command, session = traces(case, *sides, monkeypatch)
    assert command.truth == case.truth
    assert session == command


def act(verb: str, *ids: str, **given: Any) -> Act:
    return Act(verb, ids, **given)


def limits(most: int) -> str:
    return f"[limits]\nmax_batch = {most}\n"


# An outbox's messages.


def gone(side: Side) -> None:
    """Its owner deletes the first message."""
    apart(_told(side.target, "DELETE FROM outbox_dlq WHERE id = 1"))


def outbox_side(folder: Path, target: str, *, outboxes: tuple[str, ...] = ("outbox",), sections: str = "") -> Side:
    async def fill() -> None:
        rig = OutboxRig(target)
        await rig.tables(outbox=outboxes[0] if outboxes else None)
        for name in outboxes[1:]:
            await rig.tables(outbox=name, dlq=None)
        await rig.dead(1, 2)

    apart(fill())
    return Side(folder, target, sections=sections)


OUTBOX = {
    "replayed": Case(act("replay", "1", "2"), 0, {"1": "accepted", "2": "accepted"}, SENT * 2),
    "planned": Case(
        act("plan", "1", "2"), 0, {"1": "planned", "2": "refused"}, given={"sections": limits(1)}
    ),
    "over the batch's limit": Case(
        act("replay", "1", "2"), 4, {"1": "accepted", "2": "refused"}, REFUSED + SENT, given={"sections": limits(1)}
    ),
    "halted": Case(act("replay", "1"), 4, {"1": "refused"}, REFUSED, (HALT,)),
    "dismissed already": Case(
        act("replay", "1", "2"), 4, {"1": "skipped", "2": "accepted"}, SENT, (act("dismiss", "1"),)
    ),
    "gone meanwhile": Case(
        act("replay", "1", "2"), 4, {"1": "skipped", "2": "accepted"}, SENT, meanwhile=(OutboxBatch, "run", gone)
    ),
    "nothing to put it back into": Case(
        act("replay", "1"), 4, {"1": "refused"}, REFUSED, given={"outboxes": ()},
    ),
    "two to put it back into": Case(
        act("plan", "1"), 4, {"1": "refused"}, given={"outboxes": ("outbox", "events")}
    ),
    "dismissed": Case(act("dismiss", "1", reason="stale", note="old"), 0, {"1": "dismissed"}, ("dismiss",)),
    "restored": Case(act("restore", "1", note="again"), 0, {"1": "restored"}, ("restore",), (act("dismiss", "1"),)),
    "reconciled, which it never needs": Case(act("reconcile", "1"), 4, {"1": "skipped"}),
}  # fmt: skip


@pytest.mark.parametrize("case", params(OUTBOX))
def test_outbox(case: Case, targets: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = tmp_path / "command", tmp_path / "session"
    command, session = (outbox_side(*one, **case.given) for one in zip(folders, targets, strict=True))
    check(case, (command, session), monkeypatch)


# An integration's calls, sent to their provider again.


def counted_up(side: Side) -> None:
    """The hub itself tried the first call once more."""
    apart(_told(side.target, 'UPDATE integration_dlq SET attempts = attempts + 1 WHERE "id" = $1', uuid.UUID(CALL)))


async def left_open(target: str, actor: Actor, *, over: bool) -> None:
    """Somebody's retry of the first call whose end nobody recorded; is their claim over?"""
    store = await open_store(target)
    try:
        entry = await store.get(CALL)
        assert entry is not None
        claim = await store.claim(CALL, entry.version, actor, 600.0)
        assert isinstance(claim, Claim)
        await store.intend(claim, Intent("live", "prov-1", "key-1", b"{}", "hash"), actor, why("replay"))
    finally:
        await store.aclose()
    if over:
        await _told(target, "UPDATE dlq_console.claim SET expires_at = 0")


def provider_side(
    folder: Path,
    target: str,
    url: str,
    *,
    row: Mapping[str, object] | None = None,
    rest: str = "",
    left: str | None = None,
    on_success: str | None = "keep",
) -> Side:
    async def fill() -> None:
        rig = IntegrationRig(target)
        await rig.tables()
        await rig.failed(failed_row(1, **(row or {})), failed_row(2))
        if left:
            await left_open(target, BOB, over=left == "abandoned")

    apart(fill())
    said = {} if on_success is None else {"on_success": on_success}
    return Side(folder, target, said, sections=f'[providers.prov-1]\nbase_url = "{url}"\n{rest}')


SETTLE = act("settle", CALL, reason="absent", note="their support looked")
TAKEN = act("settle", CALL, reason="accepted", note="their support looked")
NOBODY = {"row": {"providerId": "prov-9", "providerName": "Nobody"}}
ELSEWHERE = {"row": {"originalRequest": json.dumps({**REQUEST, "path": "//elsewhere"})}}
BAD = {"row": {"originalRequest": json.dumps({**REQUEST, "body": {"amount": "bad"}})}}
LOST = {"row": {"originalRequest": json.dumps({**REQUEST, "body": {"amount": "lost"}})}}
STRANGE = {"row": {"originalRequest": json.dumps({**REQUEST, "proxy": "http://elsewhere"})}}
UNDER_WAY, ABANDONED = {"left": "under way"}, {"left": "abandoned"}
PROVIDER = {
    "delivered": Case(act("replay", CALL, OTHER), 0, {CALL: "accepted", OTHER: "accepted"}, SENT * 2),
    "rejected": Case(act("replay", CALL), 1, {CALL: "rejected"}, SENT, given=BAD),
    "without a clear answer": Case(
        act("replay", CALL, OTHER), 3, {CALL: "unknown", OTHER: "accepted"}, SENT * 2, given=LOST
    ),
    "planned": Case(act("plan", CALL, OTHER), 0, {CALL: "refused", OTHER: "planned"}, given=NOBODY),
    "unknown provider": Case(
        act("replay", CALL, OTHER), 4, {CALL: "refused", OTHER: "accepted"}, REFUSED + SENT, given=NOBODY
    ),
    "unparsable": Case(act("replay", CALL), 4, {CALL: "refused"}, REFUSED, given=ELSEWHERE),
    "over the batch's limit": Case(
        act("replay", CALL, OTHER), 4, {CALL: "accepted", OTHER: "refused"}, REFUSED + SENT, given={"rest": limits(1)}
    ),
    "nobody said what becomes of the row": Case(
        act("replay", CALL), 4, {CALL: "refused"}, REFUSED, given={"on_success": None}
    ),
    "delivered, its row deleted": Case(
        act("replay", CALL), 0, {CALL: "accepted"}, (*SENT, "row"), given={"on_success": "delete"}
    ),
    "another call than was stored": Case(act("replay", CALL), 4, {CALL: "refused"}, REFUSED, given=STRANGE),
    "in flight": Case(act("replay", CALL), 4, {CALL: "refused"}, REFUSED, given=UNDER_WAY),
    "tried by the hub meanwhile": Case(
        act("replay", CALL), 4, {CALL: "skipped"}, (), meanwhile=(ProviderBatch, "run", counted_up)
    ),
    "reconciled, abandoned": Case(act("reconcile", CALL), 3, {CALL: "unknown"}, ("outcome",), given=ABANDONED),
    "settled as absent, approved": Case(
        SETTLE, 0, {CALL: "not_sent"}, ("outcome",), (SETTLE, APPROVE), ABANDONED
    ),
    "settled as accepted, its row deleted": Case(
        TAKEN, 0, {CALL: "accepted"}, ("outcome", "row"), (TAKEN, APPROVE), {**ABANDONED, "on_success": "delete"}
    ),
    "reconciled while in flight": Case(act("reconcile", CALL), 3, {CALL: "unknown"}, given=UNDER_WAY),
}  # fmt: skip


@pytest.mark.parametrize("case", params(PROVIDER))
def test_provider(case: Case, targets: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = tmp_path / "command", tmp_path / "session"
    monkeypatch.setattr(delivery, "WAITS", (0.0,) * 5)

    def answered(got: Received) -> Answer:
        if b"lost" in got.body:
            return reply(504)
        return reply(422, {"error": "bad amount"}) if b"bad" in got.body else reply(200)

    with served(answered) as url:
        both = zip(folders, targets, strict=True)
        command, session = (provider_side(folder, target, url, **case.given) for folder, target in both)
        check(case, (command, session), monkeypatch)


# A hub that is asked to retry.


def tried(side: Side) -> None:
    """The hub tried the first by itself."""
    item = HUBS[side.folder].items[CALL]
    item |= {"attempts": item["attempts"] + 1, "lastRetryAt": "2026-04-18T15:00:00Z"}


HUBS: dict[Path, FakeHub] = {}
RETRY, ASK = act("replay", CALL), act("reconcile", CALL)
ENDLESS = {"ending": ""}
HUB = {
    "retried": Case(act("replay", CALL, OTHER), 0, {CALL: "accepted", OTHER: "accepted"}, SENT[:1] * 2 + SENT[1:] * 2),
    "retried in vain": Case(RETRY, 1, {CALL: "rejected"}, SENT, given={"ending": "bad"}),
    "planned": Case(act("plan", CALL), 0, {CALL: "planned"}),
    "busy": Case(RETRY, 4, {CALL: "not_sent"}, SENT, given={"answer": reply(429)}),
    "refused for its token": Case(RETRY, 4, {CALL: "not_sent"}, SENT, given={"answer": reply(401)}),
    "queued already": Case(RETRY, 3, {CALL: "unknown"}, SENT, given={"answer": reply(409, {"error": "queued"})}),
    "without an end": Case(RETRY, 3, {CALL: "unknown"}, SENT, given=ENDLESS),
    "halted": Case(RETRY, 4, {CALL: "refused"}, REFUSED, (HALT,)),
    "in doubt": Case(RETRY, 4, {CALL: "refused"}, REFUSED, (RETRY,), ENDLESS),
    "tried by the hub meanwhile": Case(RETRY, 4, {CALL: "skipped"}, (), meanwhile=(HubBatch, "run", tried)),
    "reconciled, its end seen": Case(
        ASK, 1, {CALL: "rejected"}, ("reconcile",), (RETRY,), ENDLESS, (HubBatch, "settle", tried)
    ),
    "reconciled, no end seen": Case(ASK, 3, {CALL: "unknown"}, (), (RETRY,), ENDLESS),
    "settled, needs a second person": Case(SETTLE, 4, {CALL: "refused"}, ("ask-approval",), (RETRY,), ENDLESS),
    "settled, approved": Case(SETTLE, 0, {CALL: "not_sent"}, ("reconcile",), (RETRY, SETTLE, APPROVE), ENDLESS),
    "reconciled, not in doubt": Case(ASK, 4, {CALL: "skipped"}),
}  # fmt: skip


@pytest.mark.parametrize("case", params(HUB))
def test_hub(case: Case, targets: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_retry, "POLL_SECONDS", 0.01)
    sides = []
    with ExitStack() as stack:
        for name, target in zip(("command", "session"), targets, strict=True):
            folder = tmp_path / name
            HUBS[folder] = FakeHub(**case.given).add(failed_item(1), failed_item(2))
            settings = {"hub_url": stack.enter_context(served(HUBS[folder])), "hub_wait": 0.02}
            sides.append(Side(folder, target, settings, secrets={"hub.desk.token": TOKEN}))
        check(case, (sides[0], sides[1]), monkeypatch)
