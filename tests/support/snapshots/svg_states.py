"""Which states are kept as SVG pictures. Every other state, and every other size, is kept as a text file."""

from __future__ import annotations

from tests.support.snapshots.states import M, S, Size

IN_BOTH_SIZES = frozenset(
    {
        "empty",
        "queue",
        "filtered",
        "marked",
        "live",
        "entry-error",
        "entry-order",
        "entry-history",
        "dismiss-reason",
        "settle",
        "ask",
        "replay-paper",
        "replay-live",
        "replay-blocked",
        "batch-running",
        "batch-report",
        "attach",
        "help",
        "palette",
        "audit",
        "groups-indexed",
        "health",
        "outbox",
        "outbox-gate",
        "integration",
        "integration-gate",
    }
)
ONE_PER_THEME = frozenset(
    {"light", "contrast", "no-color", "replay-live-light", "replay-live-contrast", "replay-live-no-color"}
)


def is_svg(name: str, size: Size) -> bool:
    return (name in IN_BOTH_SIZES and size in (S, M)) or (name in ONE_PER_THEME and size == S)
