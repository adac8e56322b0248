"""Every client × every fault: one request, the right outcome, in time, and no secret anywhere.

The servers count and book on their own; nothing here believes the client.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable

import pytest

from tests.support.http_server import full_port, settle
from tests.support.venue.rig import PATIENT, SILENT, Rig, Stage, leaks
from tests.support.venue.rigs import RIGS
from venues import (
    Absent,
    Accepted,
    Found,
    Lookup,
    LookupFailed,
    NotSent,
    Outcome,
    Prepared,
    Unknown,
    VenueClient,
    Verb,
    differences,
)

ALL = [pytest.param(rig, id=rig.name) for rig in RIGS]
CASES = [
    pytest.param(rig, verb, fault, id=f"{rig.name}-{verb}-{fault}")
    for rig in RIGS
    for verb, outcomes in rig.outcomes.items()
    for fault in outcomes
]
LOOKUP_FAULTS = [
    "accept_then_drop",
    "delay",
    "html_403",
    "http_401",
    "http_429",
    "http_500",
    "http_503",
    "garbage_200",
    "empty_200",
    "slow_headers",
    "reset_mid_body",
    "truncated_json",
    "redirect_307",
]


def prepared_by(client: VenueClient, rig: Rig, *, verb: Verb, name: str, target: str | None = None) -> Prepared:
    prepared = client.prepare(rig.action(verb, target), rig.client_order_id(name))
    assert isinstance(prepared, Prepared)
    return prepared


async def send(client: VenueClient, prepared: Prepared) -> Outcome:
    match prepared.verb:
        case "new":
            return await client.submit(prepared)
        case "replace":
            return await client.replace(prepared)
        case "cancel":
            return await client.cancel(prepared)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


def patience(rig: Rig, fault: str = "") -> float:
    """The client's time limit: it decides nothing but where the fault is that no answer comes."""
    return rig.timeout if fault in SILENT else PATIENT


def longest(rig: Rig, fault: str = "") -> float:
    """An answer, or its end, is noticed at once: nobody waits for the limit."""
    return rig.timeout + 30 if fault in SILENT else PATIENT / 2


async def opened(rig: Rig, stage: Stage, fault: str = "") -> VenueClient:
    client = rig.connect(stage.url, patience(rig, fault))
    await client.open()
    return client


async def set_up(rig: Rig, client: VenueClient, verb: Verb) -> Prepared:
    """The request under test; an order to aim at is there first."""
    if verb == "new":
        return prepared_by(client, rig, verb="new", name="first")
    placed = await client.submit(prepared_by(client, rig, verb="new", name="first"))
    assert isinstance(placed, Accepted)
    return prepared_by(client, rig, verb=verb, name="second", target=placed.venue_order_id)


@pytest.mark.parametrize(("rig", "verb", "fault"), CASES)
async def test_one_request_the_right_outcome_in_time_and_no_secret(
    rig: Rig, verb: Verb, fault: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with rig.start() as stage:
        client = await opened(rig, stage, fault)
        prepared = await set_up(rig, client, verb)
        before = stage.posts
        stage.fault(fault, on=verb)
        began = time.monotonic()
        outcome = await send(client, prepared)
        took = time.monotonic() - began
        assert stage.posts == before + 1
        assert type(outcome) is rig.outcomes[verb][fault], outcome
        assert took < longest(rig, fault)
        assert stage.strays == 0
        if verb == "new":
            booked = stage.booked(prepared.client_order_id)
            if isinstance(outcome, Accepted):
                assert outcome.venue_order_id == booked
            if client.profile.lookup and not fault.startswith("late_"):
                await check_lookup(await client.lookup(prepared), prepared, booked)
        captured = capfd.readouterr()
        texts = [repr(client), str(client), repr(vars(client)), repr(prepared), repr(outcome), caplog.text]
        await client.aclose()
    assert leaks(rig.secrets, [*texts, captured.out, captured.err]) == []


async def check_lookup(found: Lookup, prepared: Prepared, booked: str | None) -> None:
    if booked is None:
        assert found == Absent()
    else:
        assert isinstance(found, Found)
        assert found.order.venue_order_id == booked
        assert differences(prepared.action, found.order) == ()


@pytest.mark.parametrize("rig", ALL)
async def test_without_a_fault_it_is_placed_found_replaced_and_cancelled(rig: Rig) -> None:
    async with rig.start() as stage:
        client = await opened(rig, stage)
        first = prepared_by(client, rig, verb="new", name="first")
        if client.profile.lookup:
            assert await client.lookup(first) == Absent()
        placed = await client.submit(first)
        assert isinstance(placed, Accepted)
        assert placed.venue_order_id == stage.booked(first.client_order_id)
        target = placed.venue_order_id
        if "replace" in rig.outcomes:
            second = prepared_by(client, rig, verb="replace", name="second", target=target)
            replaced = await client.replace(second)
            assert isinstance(replaced, Accepted)
            target = replaced.venue_order_id
            found = await client.lookup(second)
            assert isinstance(found, Found)
            assert differences(second.action, found.order) == ()
        if "cancel" in rig.outcomes:
            third = prepared_by(client, rig, verb="cancel", name="third", target=target)
            assert isinstance(await client.cancel(third), Accepted)
            gone = await client.lookup(third)
            assert isinstance(gone, Found)
            assert gone.order.status == "cancelled"
        await client.aclose()


@pytest.mark.parametrize("rig", ALL)
async def test_a_second_send_is_known_to_have_arrived(rig: Rig) -> None:
    async with rig.start() as stage:
        client = await opened(rig, stage)
        prepared = prepared_by(client, rig, verb="new", name="first")
        assert isinstance(await client.submit(prepared), Accepted)
        again = await client.submit(prepared)
        assert isinstance(again, Unknown)
        assert again.arrived
        assert stage.posts == 2
        assert stage.booked(prepared.client_order_id) is not None
        await client.aclose()


@pytest.mark.parametrize("fault", LOOKUP_FAULTS)
@pytest.mark.parametrize("rig", ALL)
async def test_a_failed_look_up_is_never_absence(rig: Rig, fault: str) -> None:
    async with rig.start() as stage:
        client = await opened(rig, stage, fault)
        if not client.profile.lookup:
            pytest.skip("this venue cannot be asked")
        prepared = prepared_by(client, rig, verb="new", name="first")
        stage.fault(fault, on="lookup")
        began = time.monotonic()
        found = await client.lookup(prepared)
        assert isinstance(found, LookupFailed)
        assert time.monotonic() - began < longest(rig, fault)
        assert stage.posts == 0
        await client.aclose()


@pytest.mark.parametrize("rig", ALL)
async def test_a_cancelled_task_ends_unknown_once_a_byte_left(rig: Rig) -> None:
    async with rig.start() as stage:
        client = rig.connect(stage.url, 10.0)
        await client.open()
        prepared = prepared_by(client, rig, verb="new", name="first")
        stage.fault("delay", on="new")
        task = asyncio.create_task(client.submit(prepared))
        await until(lambda: stage.posts == 1)
        task.cancel()
        assert isinstance(await task, Unknown)
        assert stage.posts == 1
        await client.aclose()


@pytest.mark.parametrize("rig", [pytest.param(rig, id=rig.name) for rig in RIGS if not rig.needs_open])
async def test_a_cancelled_task_ends_not_sent_while_no_byte_left(rig: Rig) -> None:
    with full_port() as url:
        client = rig.connect(url, 10.0)
        task = asyncio.create_task(client.submit(prepared_by(client, rig, verb="new", name="first")))
        await settle()
        task.cancel()
        assert isinstance(await task, NotSent)
        await client.aclose()


@pytest.mark.parametrize("rig", ALL)
async def test_a_venue_that_is_gone_got_nothing(rig: Rig) -> None:
    async with rig.start() as stage:
        client = await opened(rig, stage)
        prepared = prepared_by(client, rig, verb="new", name="first")
    began = time.monotonic()
    assert isinstance(await client.submit(prepared), NotSent)
    assert time.monotonic() - began < longest(rig)
    assert stage.posts == 0
    await client.aclose()


@pytest.mark.parametrize("rig", ALL)
async def test_a_traceback_out_of_a_client_shows_no_secret(rig: Rig) -> None:
    async with rig.start() as stage:
        client = rig.connect(stage.url, 10.0)
        await client.open()
        if not client.profile.lookup:
            pytest.skip("this venue cannot be asked")
        prepared = prepared_by(client, rig, verb="new", name="first")
        looks = stage.looks
        stage.fault("delay", on="lookup")
        task = asyncio.create_task(client.lookup(prepared))
        await until(lambda: stage.looks > looks)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        await client.aclose()
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=rig.clean_locals)
    assert leaks(rig.secrets, ["".join(shown.format())]) == []


def test_the_search_for_leaks_finds_them() -> None:
    for rig in RIGS:
        for secret in rig.secrets:
            line = secret.splitlines()[1] if "\n" in secret else secret
            for text in (line, f"x{line[: len(line) // 2]}x", line.encode().hex()):
                assert leaks(rig.secrets, [text]) == [text[:200]]
