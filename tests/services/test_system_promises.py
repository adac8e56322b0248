"""Promises of Horizon's order queue that no other test holds: the record, its size; nothing is sent by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backends import DeadLetteredOrder, new_dlq_id
from backends.layouts import orders
from tests.support.command import Console
from tests.support.exchange import Exchange, in_thread
from tests.support.orders import CAPTURED, row, sqlite_store
from tests.support.sink import entry

_MEGABYTE = 1_000_000


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


def test_a_dead_letter_has_horizons_fields_and_cannot_be_changed() -> None:
    order = entry()
    assert tuple(field.name for field in fields(DeadLetteredOrder)) == orders.COLUMNS
    assert (order.retry_count, order.dismissed) == (0, False)
    by_default = {field.name: field.default for field in fields(DeadLetteredOrder)}
    assert (by_default["retry_count"], by_default["dismissed"], by_default["action_json"]) == (0, False, "")
    with pytest.raises(FrozenInstanceError):
        order.quantity = 7.0  # type: ignore[misc]  # what must not work
    with pytest.raises(ValueError, match="time zone"):
        entry(captured_at=datetime(2026, 4, 18))  # noqa: DTZ001 - what must not work
    assert len(entry(error="x" * 1001).error) == 1000
    made = {new_dlq_id() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch("dlq_[0-9a-f]{16}", one) for one in made)


def test_ten_a_day_are_under_five_megabytes_a_year(tmp_path: Path) -> None:
    """With an error of 300 characters and an action of 500, the most that Horizon counts with."""
    action = '{"action": "new", "note": "%s"}' % ("y" * 470)
    rows = [
        row(n, captured_at=CAPTURED + timedelta(hours=2.4 * n), error="e" * 300, action_json=action)
        for n in range(3650)
    ]
    size = Path(sqlite_store(tmp_path / "orders.db", rows)).stat().st_size
    assert 3650 * 800 < size < 5 * _MEGABYTE


def test_nothing_is_sent_unless_somebody_says_replay(tmp_path: Path, exchange: Exchange) -> None:
    """Every other verb over a pending and an in-doubt entry: no order goes out, no count moves."""
    now = datetime.now(UTC) - timedelta(seconds=5)
    rows = [row(n, captured_at=now, quantity=float(n), price=18.0) for n in (1, 2)]
    rows.append(row(3, captured_at=now, quantity=3.0, price=18.0, market_id="DROP"))
    desk = Console(tmp_path, sqlite_store(tmp_path / "orders.db", rows), exchange.url)
    one, in_doubt = rows[0]["dlq_id"], rows[2]["dlq_id"]
    assert desk.inline("replay", in_doubt, "--paper").code == 3
    sent = len(exchange.posts)
    for words in (
        ("list", "--all"),
        ("show", one),
        ("groups",),
        ("check",),
        ("metrics",),
        ("report", "--since", "8h"),
        ("doctor",),
        ("ask", one, "--paper"),
        ("reconcile", "--paper"),
        ("replay", one, "--paper", "--dry-run"),
        ("dismiss", one, "--reason", "test"),
        ("restore", one),
        ("halt", "--note", "stop"),
        ("resume", "--note", "go"),
    ):
        assert desk.inline(*words).code in (0, 1, 3, 4), words
    assert len(exchange.posts) == sent == 1
    states = {line["dlq_id"]: (line["state"], line["retry_count"]) for line in desk.inline("list", "--json").rows}
    assert states[one] == states[rows[1]["dlq_id"]] == ("pending", 0)
