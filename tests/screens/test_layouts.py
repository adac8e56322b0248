"""Stores of messages and calls: the same screens with their own words, and replays that ask for the number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from console import clock
from console.settings.config import ProviderConfig, StoreConfig
from tests.support.app import (
    Stage,
    answer,
    app_of,
    config,
    gate_message,
    ids,
    in_gate,
    make_store,
    notice,
    press,
    screen_text,
    settled,
    twelve,
    until,
)
from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.integration import IntegrationRig, answers, entry_id, failed_row, resend
from tests.support.outbox import Consumer, OutboxRig, broker, dead_row
from tests.support.snapshots.layout_stores import LayoutStage, fill_integration, fill_outbox
from tests.support.venue.hub import FakeHub, failed_item

NOWHERE = Path("unused")


async def _well(_: Received) -> Answer:
    return reply(200, {"id": "ch_1"})


async def _replayed(pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: (run := app_of(pilot).activity.run) is not None and run.over)
    await settled(pilot)


@pytest.mark.parametrize(
    ("on_dismiss", "says", "left"),
    [
        ("keep", "the row stays; z undoes it", "pending"),
        ("delete", "the row is deleted: z cannot undo it", "gone"),
        ("soft-delete", "the row is marked as deleted: z cannot undo it", "marked"),
    ],
)
async def test_the_gate_says_what_a_dismissal_does_to_the_row(
    postgres_db: str, on_dismiss: str, says: str, left: str
) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    await rig.failed(1)
    options = {"on_success": "keep", "on_dismiss": on_dismiss}
    app = LayoutStage(NOWHERE, target=postgres_db, clock=clock.now, options=options).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "D")
        await until(pilot, lambda: says in screen_text(app))
        await press(pilot, "7")
        await answer(pilot, "1")
        await until(pilot, lambda: "1 dismissed" in notice(app))
        assert ("z undoes it" in notice(app)) == (left == "pending")
        await press(pilot, "z")
        await settled(pilot)
        there = await rig.column("deletedAt", 1)
        assert there == "gone" if left == "gone" else (there is None) == (left == "pending")
        assert ids(app) == ([entry_id(1)] if left == "pending" else [])


@pytest.mark.parametrize(
    ("on_dismiss", "says", "left"),
    [
        ("keep", "the hub keeps it; z undoes it", "restored"),
        ("delete", "deletes it at the hub: z cannot undo it", "deleted"),
        ("soft-delete", "It will be refused: a hub can only delete", "refused"),
    ],
)
async def test_the_gate_says_what_a_dismissal_does_at_a_hub(
    postgres_db: str, on_dismiss: str, says: str, left: str
) -> None:
    hub = FakeHub().add(failed_item(1))
    async with Loopback(hub) as server:
        options = {"on_dismiss": on_dismiss}
        app = LayoutStage(NOWHERE, target=postgres_db, clock=clock.now, options=options, hub_url=server.url).console()
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            await press(pilot, "D")
            await until(pilot, lambda: says in " ".join(screen_text(app).replace("│", " ").split()))
            await press(pilot, "7")
            await answer(pilot, "1")
            told = "It could not be done" if left == "refused" else "1 dismissed"
            await until(pilot, lambda: told in screen_text(app))
            await press(pilot, "escape", "z")
            await settled(pilot)
            assert (entry_id(1) in hub.items) == (left != "deleted")
            assert ids(app) == ([] if left == "deleted" else [entry_id(1)])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on_success": "delete"}, "the row is deleted; no undo"),
        ({"on_success": "soft-delete"}, "the row is marked as deleted; no undo"),
        ({"on_success": "keep"}, "the row stays: its hub may retry it; no undo"),
        ({}, "on_success is not set for this store: nothing was sent"),
    ],
)
async def test_the_gate_says_what_a_replay_does_to_the_row(
    postgres_db: str, options: dict[str, str], says: str
) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    await rig.failed(1)
    app = LayoutStage(NOWHERE, target=postgres_db, clock=clock.now, options=options).console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        await until(pilot, lambda: says in " ".join(screen_text(app).replace("│", " ").split()))


async def test_the_gate_of_a_hub_s_retry_says_what_becomes_of_its_entry(postgres_db: str) -> None:
    async with Loopback(FakeHub().add(failed_item(1))) as server:
        app = LayoutStage(NOWHERE, target=postgres_db, clock=clock.now, hub_url=server.url).console()
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            await press(pilot, "R")
            await until(pilot, lambda: "the hub deletes its entry; no undo" in screen_text(app))
            assert "counts a try more; without a clear answer: in doubt" in screen_text(app)


# What only orders have. PAPER and LIVE stay in the frame, where they say how much the gate asks for.
ORDER_WORDS = re.compile(r"\b(venue|order|market|account|notional)s?\b", re.IGNORECASE)


async def _every_screen(pilot: Pilot[Any]) -> list[str]:
    """What each screen, gate and report of a store shows."""
    app, seen = app_of(pilot), []
    for key in ("enter", "D", "R", "C", "S", "f", "question_mark", "m"):
        await press(pilot, key)
        await settled(pilot)
        seen.append(f"{key}\n{screen_text(app)}\n{notice(app)}")
        if key == "question_mark":
            await press(pilot, "G")
            seen.append(screen_text(app))
        for _ in range(5 if key == "enter" else 0):
            await press(pilot, "right_square_bracket")
            await settled(pilot)
            seen.append(screen_text(app))
        await press(pilot, "escape")
    await press(pilot, "j", "R")
    await until(pilot, lambda: "to send again" in screen_text(app))
    await answer(pilot, "1")
    await _replayed(pilot)
    seen.append(screen_text(app))
    await press(pilot, "escape", "slash")
    await answer(pilot, "state:replayed")
    for key in ("enter", "right_square_bracket", "right_square_bracket", "right_square_bracket", "A"):
        await press(pilot, key)
        await settled(pilot)
        seen.append(screen_text(app))
    return seen


async def test_no_screen_of_messages_speaks_of_orders(postgres_db: str) -> None:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    await rig.dead(dead_row(1, queue="mail", last_exception="KeyError('name')"))
    app = LayoutStage(NOWHERE, target=postgres_db, clock=clock.now, name="events").console()
    async with app.run_test(size=(120, 60)) as pilot:
        await settled(pilot)
        assert [found[0] for text in await _every_screen(pilot) for found in ORDER_WORDS.finditer(text)] == []


async def test_no_screen_of_calls_speaks_of_orders(postgres_db: str) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    await rig.failed(1, 2)
    async with Loopback(answers(reply(422), reply(504))) as server:  # the second is rejected, then in doubt
        await resend(rig, server.url, 2)
        await resend(rig, server.url, 2)
    await rig.aclose()
    async with Loopback(_well) as provider:
        known = {"prov-1": ProviderConfig(provider.url)}
        app = LayoutStage(NOWHERE, target=postgres_db, clock=clock.now, providers=known, name="hub").console()
        async with app.run_test(size=(120, 60)) as pilot:
            await settled(pilot)
            seen = await _every_screen(pilot)
    assert [found[0] for text in seen for found in ORDER_WORDS.finditer(text)] == []
    assert any("prov-1 · tenant tenant-1" in text and "what became of it?" in text for text in seen)


async def test_a_dismissal_whose_row_stays_is_told_with_its_reason(postgres_db: str) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    await rig.failed(1)
    await rig.sql("CREATE TABLE ticket (call uuid REFERENCES integration_dlq)")
    await rig.sql("INSERT INTO ticket SELECT id FROM integration_dlq")
    app = LayoutStage(NOWHERE, target=postgres_db, clock=clock.now, options={"on_dismiss": "delete"}).console()
    async with app.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "D")
        await until(pilot, lambda: "the row is deleted" in screen_text(app))
        await press(pilot, "7")
        await answer(pilot, "1")
        await until(pilot, lambda: "not dismissed, its row stays" in notice(app))
        assert ids(app) == [entry_id(1)]


async def test_an_outbox_is_shown_and_replayed_into_its_queue(postgres_db: str) -> None:
    rig, consumer = OutboxRig(postgres_db), Consumer()
    await rig.tables()
    made = await rig.dead(1, 2, 3)
    app = Stage(NOWHERE, clock=clock.now, store=StoreConfig(name="outbox", url=postgres_db)).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert ids(app) == list(reversed(made))
        for word in ("QUEUE", "REASON", "DELIVERIES", "retry_terminal", "order 3 is bad", "replays are real"):
            assert word in screen_text(app)
        await press(pilot, "enter", "right_square_bracket", "right_square_bracket")
        assert "correlation id  c-3" in screen_text(app)
        await press(pilot, "escape", "a", "R")
        await until(pilot, lambda: "type 3 to send again" in screen_text(app))
        for word in ("queue orders, by a new row of outbox", "no paper mode", "the dead-lettered row stays"):
            assert word in screen_text(app)
        await answer(pilot, "2")
        assert "that is not 3" in gate_message(app)
        await answer(pilot, "3")
        await _replayed(pilot)
        assert screen_text(app).count("accepted") == 5  # three rows, their sum, and the pane of the first
    async with broker(rig, consumer):
        await consumer.until(3)
    assert sorted(headers["correlation_id"] for _, headers in consumer.handled) == ["c-1", "c-2", "c-3"]


async def test_a_gate_left_or_halted_sends_nothing(postgres_db: str) -> None:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    await rig.dead(1, 2)
    app = Stage(NOWHERE, clock=clock.now, store=StoreConfig(name="outbox", url=postgres_db)).console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "R", "escape")
        assert not in_gate(app)
        await press(pilot, "H")
        await answer(pilot, "runaway consumer")
        await press(pilot, "a", "R")
        await until(pilot, lambda: "nothing to send" in screen_text(app))
        assert "halt set by" in screen_text(app)
        await answer(pilot, "2")
        assert in_gate(app)
        assert app.activity.run is None
    assert await rig.outbox_rows() == []


async def test_messages_are_dismissed_brought_back_and_noted(postgres_db: str) -> None:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    made = await rig.dead(1, 2, 3)
    app = Stage(NOWHERE, clock=clock.now, store=StoreConfig(name="outbox", url=postgres_db)).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "D", "6")
        await answer(pilot, "3")
        assert "3 dismissed" in notice(app)
        assert ids(app) == []
        await press(pilot, "z")
        assert "3 restored" in notice(app)
        assert ids(app) == list(reversed(made))
        await press(pilot, "N")
        await answer(pilot, "ask research")
        assert "noted" in notice(app)
        await press(pilot, "slash")
        await answer(pilot, "reason:rejected")
        assert ids(app) == []


async def test_calls_go_to_their_provider_and_what_cannot_stays(postgres_db: str) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    await rig.failed(1, 2, failed_row(3, providerId="prov-9", providerName="Initech"))
    async with Loopback(_well) as provider:
        known = {"prov-1": ProviderConfig(provider.url)}
        app = LayoutStage(NOWHERE, target=postgres_db, clock=clock.now, providers=known).console()
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            for word in ("PROVIDER", "TENANT", "REQUEST", "DAYS LEFT", "POST /v1/charges"):
                assert word in screen_text(app)
            await press(pilot, "a", "R")
            await until(pilot, lambda: "type 2 to send again" in screen_text(app))
            assert f"prov-1 at {provider.url.removeprefix('http://')}" in screen_text(app)
            assert "holds       1   unknown provider 1" in screen_text(app)
            assert "unknown-provider: the config has no" in screen_text(app)
            await answer(pilot, "2")
            await _replayed(pilot)
            outcomes = {one.entry_id: one.outcome for one in app.activity.run.landed} if app.activity.run else {}
        assert outcomes == {entry_id(1): "accepted", entry_id(2): "accepted", entry_id(3): "refused"}
        assert len(provider.requests) == 2


async def test_one_provider_is_marked_by_its_filter(postgres_db: str) -> None:
    await fill_integration(postgres_db)
    app = LayoutStage(NOWHERE, target=postgres_db).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "provider:prov-1 tenant:tenant-1")
        assert ids(app) == [entry_id(n) for n in (7, 5, 1)]
        await press(pilot, "a", "R")
        await until(pilot, lambda: "type 3 to send again" in screen_text(app))
        assert "api.acme-pay.example" in screen_text(app)


async def test_stored_credentials_are_named_and_never_shown(postgres_db: str) -> None:
    await fill_integration(postgres_db)
    app = LayoutStage(NOWHERE, target=postgres_db).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "enter")
        seen = screen_text(app)
        await press(pilot, "right_square_bracket")
        seen += screen_text(app)
        assert "stored-credentials: headers.X-Api-Key" in seen
        assert "[masked]" in seen
        assert "sk_live" not in seen
        assert "hunter2" not in seen


async def test_nothing_of_one_store_survives_the_switch_to_another(postgres_db: str, tmp_path: Path) -> None:
    await fill_outbox(postgres_db)
    path = make_store(tmp_path / "orders.db", twelve())
    stores = {"orders": StoreConfig("orders", str(path), mode="live"), "outbox": StoreConfig("outbox", postgres_db)}
    app = Stage(path, config=config(stores=stores), store=stores["orders"]).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "6")
        await answer(pilot, "1")
        await press(pilot, "slash")
        await answer(pilot, "venue:alpaca")
        await press(pilot, "a", "colon")
        await answer(pilot, "store nowhere")
        assert "no store of that name; there are: orders outbox" in notice(app)
        await press(pilot, "colon")
        await answer(pilot, "store outbox")
        await until(pilot, lambda: app.header_state.store == "outbox" and app.header_state.counts is not None)
        await settled(pilot)
        assert app.mode == "paper"
        assert app.queue.marks == {}
        assert app.queue.loader.text == ""
        assert ids(app) == [str(n) for n in range(9, 2, -1)]
        assert "QUEUE" in screen_text(app)
        await press(pilot, "z")
        assert "nothing to undo" in notice(app)


async def test_a_gate_does_not_outlive_its_store(postgres_db: str, tmp_path: Path) -> None:
    await fill_outbox(postgres_db)
    path = make_store(tmp_path / "orders.db", twelve())
    stores = {"orders": StoreConfig("orders", str(path)), "outbox": StoreConfig("outbox", postgres_db)}
    app = Stage(path, config=config(stores=stores), store=stores["orders"]).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "D")
        assert in_gate(app)
        app.attach(stores["outbox"])  # like a slow attach that ends now
        await until(pilot, lambda: app.header_state.store == "outbox")
        await settled(pilot)
        assert app.screen is app.queue
