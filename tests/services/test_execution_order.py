"""Several NEW entries of one logical order: at most one is placed, whichever of them are selected, in any order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from backends.records import ActContext, Selection
from console import clock
from tests.services.conftest import Make
from tests.support.session import ANN, Stage, fresh, ident

At = Callable[..., Awaitable[Stage]]
READ_TIMEOUT = "ReadTimeout: no answer in 10 s"


def keyed(number: int, verb: str = "new", **given: object) -> dict[str, Any]:
    """An entry of the logical order `k`, with a client order id of its own."""
    return fresh(number, action_json=f'{{"order_key": "k", "action": "{verb}"}}', **({"market_id": "AAPL"} | given))


async def without(stage: Stage, number: int) -> Callable[[], Awaitable[None]]:
    """Dismiss it for now, as if it came in later; the call that brings it back."""
    why = ActContext(clock.now(), f"op-{number}", reason="test")
    await stage.store.dismiss(Selection.of([await stage.entry(number)]), ANN, why)

    async def back() -> None:
        await stage.store.restore(Selection.of([await stage.entry(number)]), ANN, why)

    return back


async def test_a_replace_of_what_was_placed_once_is_never_a_new_order(make: Make, at: At) -> None:
    """Whichever of the NEW entries is named first, and whether the accepted one is named at all."""
    stage = await at(make([keyed(1), keyed(2), keyed(3, "replace")]))
    back = [await without(stage, number) for number in (2, 3)]
    assert (await stage.replay_one(1)).outcome == "accepted"
    for one in back:
        await one()
    plans = [await stage.plan(*chosen) for chosen in ((1, 2, 3), (3, 2, 1), (2, 3), (3,))]
    assert {step.command.action.verb for made in plans for step in made.steps} == {"replace"}
    assert len({made.hash for made in plans}) == 1


async def test_a_dismissed_order_is_not_placed_by_its_replace(make: Make, at: At) -> None:
    stage = await at(make([keyed(1), keyed(2, "replace")]))
    await without(stage, 1)
    for chosen in ((1, 2), (2,)):
        told = await stage.replay(*chosen)
        assert (told[ident(2)].outcome, stage.venue.posts) == ("refused", [])
        assert (told[ident(2)].detail or "").startswith("nothing to replace")


async def test_a_replace_places_the_latest_of_several_orders(make_both: Make, at: At) -> None:
    stage = await at(make_both([keyed(1), keyed(2), keyed(3, "replace")]))
    plans = [await stage.plan(*chosen) for chosen in ((1, 2, 3), (3, 2, 1), (3, 1), (3,))]
    assert [[step.command.client_order_id for step in made.steps] for made in plans] == [["cid-2"]] * 4


async def test_a_second_order_of_a_key_is_a_duplicate_of_the_first(make: Make, at: At) -> None:
    """It has an id of its own, so that no look-up would find the first one."""
    stage = await at(make([keyed(1), keyed(2)]))
    back = await without(stage, 2)
    assert (await stage.replay_one(1)).outcome == "accepted"
    await back()
    ended = await stage.replay_one(2)
    assert (ended.outcome, len(stage.venue.posts)) == ("refused", 1)
    assert ended.detail == f"duplicate: {ident(1)}, of the same order, was replayed a short while ago"
    meant = await stage.replay_one(2, overrides=frozenset({"duplicate"}))
    assert (meant.outcome, len(stage.venue.posts)) == ("accepted", 2)


async def test_an_order_does_not_repeat_the_cancel_of_another_one(make: Make, at: At) -> None:
    """The cancel's row has the terms of the order it took away."""
    alike: dict[str, object] = {"market_id": "AAPL", "quantity": 5.0}
    stage = await at(make([fresh(1, action_json=CANCEL, **alike), fresh(2, **alike)]))
    assert (await stage.replay_one(1)).outcome == "accepted"
    assert (await stage.replay_one(2)).outcome == "accepted"


@pytest.mark.parametrize("chosen", [(1, 2), (2,)])
async def test_an_order_does_not_stand_for_one_that_may_have_arrived(
    make: Make, at: At, chosen: tuple[int, ...]
) -> None:
    """The engine sent it, had no answer, and tried again with another id: only one of them may stand at the venue."""
    stage = await at(make([keyed(1, error=READ_TIMEOUT), keyed(2)]))
    ended = (await stage.replay(*chosen))[ident(2)]
    assert (ended.outcome, stage.venue.posts) == ("refused", [])
    assert (ended.detail or "").startswith(f"may-have-arrived: {ident(1)}, of the same order, may have reached")
    await without(stage, 1)
    assert (await stage.replay_one(2)).outcome == "accepted"


async def test_one_that_may_have_arrived_under_the_same_id_is_asked_for(make: Make, at: At) -> None:
    rows = [
        keyed(1, error=READ_TIMEOUT, client_order_id="c", quantity=1.0),
        keyed(2, client_order_id="c", quantity=1.0),
    ]
    stage = await at(make(rows))
    assert (await stage.replay_one(2)).outcome == "accepted"


async def test_a_cancel_is_not_held_up_by_what_may_have_arrived(make: Make, at: At) -> None:
    stage = await at(make([keyed(1, error=READ_TIMEOUT), fresh(2, market_id="AAPL", action_json=CANCEL)]))
    assert (await stage.replay_one(2)).outcome == "accepted"


CANCEL = '{"order_key": "k", "action": "cancel", "venue_order_id": "o"}'
