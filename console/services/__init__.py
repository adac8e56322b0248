"""What the console does, without a screen: triage, plan, replay, reconcile; and what engines call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlq_sink import submit_or_dead_letter

    from console.services.engine.replay_order import replay_order

__all__ = ["replay_order", "submit_or_dead_letter"]


def __getattr__(name: str) -> object:
    if name == "submit_or_dead_letter":
        from dlq_sink import submit_or_dead_letter

        return submit_or_dead_letter
    if name == "replay_order":
        from console.services.engine.replay_order import replay_order

        return replay_order
    raise AttributeError(f"module 'console.services' has no attribute {name!r}")
