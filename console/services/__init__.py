"""What the console does, without a screen: triage, plan, replay, reconcile; and `capture` for engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.services.capture import replay_order, submit_or_dead_letter

__all__ = ["replay_order", "submit_or_dead_letter"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from console.services import capture

        return getattr(capture, name)
    raise AttributeError(f"module 'console.services' has no attribute {name!r}")
