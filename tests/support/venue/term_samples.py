"""A value for every term of an order, to see whether a venue's request carries it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from dlq_sink.terms import TERMS

from venues.terms import ExitTerms, Leg, Terms

LATER = datetime(2035, 1, 2, 3, 4, 5, tzinfo=UTC)
_BY_KIND: dict[str, object] = {
    "number": Decimal("0.5"),
    "flag": True,
    "word": "isolated",
    "text": "7",
    "moment": LATER,
    "exit": ExitTerms(limit_price=Decimal("0.7")),
    "legs": (Leg("AAPL", Decimal(1), "buy"),),
}
SAMPLES: dict[str, Any] = {name: _BY_KIND[kind] for name, (kind, _) in TERMS.items()} | {
    "order_class": "bracket",
    "position_intent": "buy_to_open",
    "stop_loss": ExitTerms(stop_price=Decimal("0.3")),
    "vault_address": "0x" + "ab" * 20,
}


def only(name: str) -> Terms:
    """Terms with this one set."""
    return Terms(**{name: SAMPLES[name]})
