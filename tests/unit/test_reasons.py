"""Which reasons a dismissal is offered, by the layout of its store."""

from __future__ import annotations

import pytest

from console.settings.config import Config
from console.settings.reasons import REASONS, reasons_for

LAYOUTS = ("orders", "outbox", "integration")


def test_orders_are_offered_their_own_in_their_order() -> None:
    assert reasons_for("orders", Config().reasons) == (
        "market-closed", "position-changed", "strategy-disabled", "duplicate", "handled-at-venue", "stale", "bad-order",
        "test", "other",
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["outbox", "integration"])
def test_messages_and_calls_are_offered_none_of_an_order(layout: str) -> None:
    offered = reasons_for(layout, Config().reasons)
    assert not {"market-closed", "position-changed", "strategy-disabled", "handled-at-venue", "bad-order"} & {*offered}
    assert offered[-1] == "other"
    assert len(set(offered)) == len(offered) <= 9  # each has a digit


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_the_config_adds_comes_last_everywhere_and_once(layout: str) -> None:
    offered = reasons_for(layout, (*REASONS, "desk-said-no", "bad-call"))
    assert offered[:8] == reasons_for(layout, REASONS)[:8]
    assert offered.count("desk-said-no") == offered.count("bad-call") == 1
