"""The outbox layout: faststream-outbox's table of messages that failed for good, and the outbox that takes a replay.

A replay inserts one row into the outbox. The dead-lettered row never changes; it is deleted only if the config says so.
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
COPIED = ("queue", "payload", "headers", "timer_id")  # columns that a replay copies if both tables have them
# Values for columns that the package leaves to their defaults, for tables without these defaults.
FILLED = {
    "attempts_count": "0",
    "deliveries_count": "0",
    "created_at": "pg_catalog.now()",
    "next_attempt_at": "pg_catalog.now()",
}
REPLAY_HEADER = "x-dlq-replay-of"
LEASE_SECONDS = 60  # how long a broker holds a row, unless its subscriber says otherwise; no table keeps that
_LONGEST_CHANNEL = 63


def channel(table: str) -> str | None:
    """The channel a running broker listens on; None if the name is too long for Postgres."""
    name = f"outbox_{table}"
    return name if len(name.encode()) <= _LONGEST_CHANNEL else None
