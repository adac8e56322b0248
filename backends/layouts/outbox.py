"""The outbox layout: faststream-outbox's table of messages that failed for good, and the outbox that takes a replay.

Of a dead-lettered row nothing is written. A replay is one new row of the outbox; the old row is deleted only where the
store's config says so.
"""

from __future__ import annotations

from backends.layouts.columns import LayoutColumns

_TEXT = ("character varying", "text")
_TIME = ("timestamp with time zone",)

DEAD = LayoutColumns(
    name="outbox",
    columns=(
        "id",
        "original_id",
        "queue",
        "payload",
        "headers",
        "deliveries_count",
        "created_at",
        "failed_at",
        "failure_reason",
        "last_exception",
        "timer_id",
    ),
    anchors=frozenset({"original_id", "failure_reason", "payload"}),
    required=frozenset({"id", "original_id", "queue", "payload", "failed_at", "failure_reason"}),
    moment="failed_at",
    origin=("queue",),
    account=None,
    error="last_exception",
    reason="failure_reason",
    searched=("last_exception", "id", "queue", "failure_reason", "headers", "timer_id", "payload"),
    documents=frozenset({"headers"}),
    types={
        "id": ("bigint", "integer"),
        "original_id": ("bigint", "integer"),
        "queue": _TEXT,
        "payload": ("bytea",),
        "headers": ("jsonb",),
        "deliveries_count": ("bigint", "integer"),
        "created_at": _TIME,
        "failed_at": _TIME,
        "failure_reason": _TEXT,
        "last_exception": _TEXT,
        "timer_id": _TEXT,
    },
    degraded={
        "headers": "a replay carries no headers",
        "deliveries_count": "deliveries are not shown",
        "created_at": "the time to the failure is not shown",
        "last_exception": "failures are grouped by their reason alone",
        "timer_id": "a replayed timer is an ordinary message",
    },
)

OUTBOX_ANCHORS = ("queue", "payload", "next_attempt_at", "acquired_token")
OUTBOX_REQUIRED = ("id", *OUTBOX_ANCHORS, "headers")
COPIED = ("queue", "payload", "headers", "timer_id")  # what a replay takes over, as far as both tables have it
# What the package's own insert leaves to the columns' defaults; given here where a table has none.
FILLED = {
    "attempts_count": "0",
    "deliveries_count": "0",
    "created_at": "now()",
    "next_attempt_at": "now()",
}
REPLAY_HEADER = "x-dlq-replay-of"
_LONGEST_CHANNEL = 63


def channel(table: str) -> str | None:
    """Where a running broker listens; None where Postgres could not name it."""
    name = f"outbox_{table}"
    return name if len(name.encode()) <= _LONGEST_CHANNEL else None
