"""Calls that keep failing in one way are held back by their plan, until a person overrides or clears it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest

from console.services.replay.preflight import ReplayRequest
from console.services.replay.target import WorkTools
from console.services.replay.venue_pool import VenuePool
from console.services.resend.plan import ResendPlan, ResendTools
from console.services.resend.target import target_for
from console.settings.config import ProviderConfig
from tests.support.http_server import Loopback, reply
from tests.support.integration import IntegrationRig, clock, entries, entry_id, resend
from tests.support.store import ACTOR, why
from venues.credentials import Credentials

NO_POOL = cast("VenuePool", None)  # calls have no venue


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    await rig.failed(1, 2)
    yield rig
    await rig.aclose()


async def _plan(rig: IntegrationRig, *overrides: str) -> ResendPlan:
    store = rig.opened[0]
    tools = ResendTools(ACTOR, clock, {"prov-1": ProviderConfig("https://pay.example")}, lambda *_: Credentials({}))
    request = ReplayRequest(mode="live", overrides=frozenset(overrides))
    chosen = await entries(store, entry_id(1), entry_id(2))
    plan = await target_for(store, tools).plan(WorkTools(store, NO_POOL), chosen, request)
    assert isinstance(plan, ResendPlan)
    return plan


async def test_a_call_that_was_rejected_three_times_is_left_out_until_its_poison_is_cleared(
    rig: IntegrationRig,
) -> None:
    async with Loopback(lambda _: reply(400, {"message": "card expired"})) as server:
        for _ in range(3):
            (ended,) = await resend(rig, server.url, 1, on_success="keep")
            assert ended.outcome == "rejected"
    held = await _plan(rig)
    assert held.going_ids == (entry_id(2),)
    assert [(one.entry_id, one.detail) for one in held.held] == [
        (entry_id(1), "poison: failed 3 times in the same way")
    ]
    assert (held.overridable, held.overridden) == (frozenset({"poison"}), frozenset())
    meant = await _plan(rig, "poison")
    assert (meant.going_ids, meant.overridden) == ((entry_id(1), entry_id(2)), frozenset({"poison"}))
    await rig.opened[0].clear((entry_id(1),), ACTOR, why(note="a new card"))
    assert (await _plan(rig)).going_ids == (entry_id(1), entry_id(2))
