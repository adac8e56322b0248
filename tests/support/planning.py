"""Commands, entries and facts for tests of planning: small, and told by what matters in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from backends.records import Entry, State
from console.services.replay.command import Command, Problem
from console.services.replay.guards import Facts, VenueFacts
from console.services.replay.venue_pool import VenueAccount
from console.settings.config import Limits
from tests.support.venue.in_process import PROFILE, READY
from venues import OrderAction, Verb

NOW = datetime(2026, 4, 18, 15, 0, tzinfo=UTC)
AT = (VenueAccount("fake", "main"), VenueAccount("fake", None))


def command(number: int = 1, *, verb: Verb = "new", key: str | None = None, **changes: object) -> Command:
    """Entry `number`; changes name fields of the command or of its action."""
    action = OrderAction(
        verb=verb,
        market_id="AAPL",
        side="buy",
        quantity=Decimal(number),
        order_type="limit",
        price=Decimal(10),
        order_key=key or f"key-{number}",
        account_id="main",
        client_order_id=f"cid-{number}",
    )
    ours = {name: value for name, value in changes.items() if name in Command.__dataclass_fields__}
    its = {name: value for name, value in changes.items() if name not in ours}
    made = Command(
        entry_id=entry_id(number),
        version=(0, 0),
        row_key=(number,),
        venue="fake",
        own_venue="fake",
        action=replace(action, **its),  # type: ignore[arg-type]  # tests name fields of OrderAction
        client_order_id=f"cid-{number}",
        own_id=True,
        may_have_arrived=False,
        captured_at=NOW - timedelta(minutes=1),
        retry_count=0,
        fingerprint="f",
    )
    return replace(made, **ours)  # type: ignore[arg-type]  # tests name fields of Command


def entry_id(number: int) -> str:
    return f"dlq_{number:016x}"


def entry(of: Command | Problem, *, state: State = "pending", row_key: int | None = None) -> Entry:
    at = (row_key,) if row_key is not None else (of.row_key if isinstance(of, Command) else (0,))
    return Entry("orders", of.entry_id, state, (0, 0), at, (), ())


def facts(commands: Sequence[Command | Problem], **changes: object) -> Facts:
    known = Facts(
        mode="paper",
        at=NOW,
        limits=Limits(),
        venues={at: VenueFacts("fake", "fake.test", PROFILE, READY, None, has_lookup=True) for at in AT},
        commands={one.entry_id: one for one in commands},
        states={one.entry_id: "pending" for one in commands},
    )
    return replace(known, **changes)  # type: ignore[arg-type]  # tests name fields of Facts
