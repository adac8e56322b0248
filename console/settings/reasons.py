"""The reason codes of a dismissal: those offered on each layout, and those that the config adds. Pure."""

from __future__ import annotations

from collections.abc import Mapping

REASONS = (
    "market-closed",
    "position-changed",
    "strategy-disabled",
    "duplicate",
    "handled-at-venue",
    "stale",
    "bad-order",
    "test",
    "other",
)
_HANDLED, _ANY = ("handled-elsewhere", "no-longer-needed"), ("duplicate", "stale", "test", "other")
_OWN: Mapping[str, tuple[str, ...]] = {
    "orders": REASONS,
    "outbox": (*_HANDLED, "bad-message", "consumer-gone", *_ANY),
    "integration": (*_HANDLED, "bad-call", "provider-gone", *_ANY),
}


def reasons_for(layout: str, configured: tuple[str, ...]) -> tuple[str, ...]:
    """The reasons to offer, in their order: the layout's own, then those that the config adds.

    `configured`: the config's reasons, which begin with those of orders. A command line takes these on every layout.
    """
    own = _OWN[layout]
    return (*own, *(reason for reason in configured if reason not in (*own, *REASONS)))
