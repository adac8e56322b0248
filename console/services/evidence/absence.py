"""What a look-up proves: whose account answered, whether "not found" counts, which order can be the entry's. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

from backends.records import Attempt
from venues.client import Reach

# An engine's submit, its own retries included, may take this long before it gives up and captures the entry.
BEFORE_CAPTURE = timedelta(minutes=15)
AccountMatch = Literal["same", "unsure", "other"]
# A gateway's day ends at midnight where it runs, which it does not say: all of these must call it the same day.
_NEW_YORK_HOURS = (-5, -4)


def account_match(attempt: Attempt, account: str | None, key_digest: str) -> AccountMatch:
    """Whether the account that answers is the attempt's: by the venue's word, else by the key.

    "other": its answer is no evidence at all. "unsure" (a rotated key, an attempt of version 0.1): an order that is
    found and equal counts, "not found" does not.
    """
    if attempt.account is not None and account is not None:
        return "same" if attempt.account == account else "other"
    return "same" if attempt.key_digest and attempt.key_digest == key_digest else "unsure"


def absence_gap(sent_at: datetime | None, now: datetime, *, window: float, reach: Reach) -> str | None:
    """Why "not found" proves nothing about an order that may have been sent then; None where it proves its absence."""
    if sent_at is None:
        return "it is not known when it may have been sent"
    ends = sent_at + timedelta(seconds=window)
    if now < ends:
        return f"not found proves nothing before {ends.astimezone(UTC):%H:%M:%SZ}"
    if reach == "day" and not _is_same_day(sent_at, now):
        return "the gateway shows the orders of its own day only, and the day has changed since"
    return None


def _is_same_day(sent_at: datetime, now: datetime) -> bool:
    zones = [UTC, now.astimezone().tzinfo, *(timezone(timedelta(hours=hours)) for hours in _NEW_YORK_HOURS)]
    return all(sent_at.astimezone(zone).date() == now.astimezone(zone).date() for zone in zones)


def earliest(captured_at: datetime | None) -> datetime | None:
    """The earliest moment at which this entry's order can have been placed."""
    return None if captured_at is None else captured_at - BEFORE_CAPTURE
