"""The filter of the audit trail finds every kind of event that a ledger may hold, by the name that stands there."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from backends.ledger.functions import RESERVED
from console.services.browse.filter_syntax import ExpressionError
from console.services.triage.trail_filter import parse_trail_filter

NOW = datetime(2026, 4, 18, 15, 0, tzinfo=UTC)


@pytest.mark.parametrize("kind", [*RESERVED, "policy", "intent", "late-outcome", "refused-replay", "refused-approval"])
def test_each_kind_is_found_by_its_own_name(kind: str) -> None:
    asked = parse_trail_filter(f"kind:{kind.upper()}", NOW)
    assert asked.matches({"kind": kind}, None)
    assert not asked.matches({"kind": "dismiss"}, None)


def test_refusals_are_found_together() -> None:
    for line in ("kind:refused", "kind:refused-*"):
        asked = parse_trail_filter(line, NOW)
        assert asked.matches({"kind": "refused-replay"}, None)
        assert not asked.matches({"kind": "replay"}, None)


def test_a_kind_that_is_none_is_an_error() -> None:
    with pytest.raises(ExpressionError, match="no kind eaten"):
        parse_trail_filter("kind:eaten", NOW)
