"""What to do next with an entry, in one sentence from its state, error and attempts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from backends.records import Attempt, State
from console.services.layout_fields import layout_of
from console.services.replay.outcome import spoken
from console.services.triage.triage import ClassifiedEntry


def next_step(row: ClassifiedEntry, attempts: Sequence[Attempt] = ()) -> str:
    entry = row.entry
    if (poison := poison_step(row)) and entry.state == "pending":
        return poison
    if (again := layout_of(entry).again) and entry.state in ("pending", "in_doubt", "replayed"):
        return _resent(entry.state, again)
    match entry.state:
        case "in_doubt":
            return "reconcile (C) asks the venue, or settle it (S) by what you saw; until then nothing else may be done"
        case "in_flight":
            return "wait: it is being sent; if its owner is gone, reconcile (C) or settle it (S)"
        case "replayed":
            return "nothing: it was sent and accepted"
        case "dismissed":
            return "nothing: it is settled; restore (U) takes that back"
        case "pending":
            pass
    last = attempts[-1] if attempts else None
    if last is not None and last.rehearsal and last.outcome == "accepted":
        return "rehearsed on paper and accepted: replay (R) in live when it should go out"
    return _named(row.next_step, entry.text("venue_name")) or "read the error, then replay (R) or dismiss (D)"


def poison_step(row: ClassifiedEntry) -> str:
    """The advice for what keeps failing in one way; "" for everything else."""
    if row.poison is None:
        return ""
    return f"{row.poison.text}: mend the cause, then restore (U) with a note clears that; or dismiss (D)"


def _resent(state: State, again: str) -> str:
    """The advice for a message or a call, about which no venue can be asked."""
    match state:
        case "in_doubt":
            return "reconcile (C) or settle (S): a retry has no known end; until then nothing else may be done"
        case "replayed":
            return "nothing: it was handed over again"
        case _:
            return again


def _named(step: str, venue: str) -> str:
    return step.replace("VENUE", venue) if venue.replace("-", "").replace(":", "").isalnum() else step


def difference(before: Attempt, after: Attempt, *, keeps_id: bool = True) -> str:
    """What changed between two attempts; "" where request and answer were the same.

    `keeps_id`: a further attempt carries the same id, so another one tells something. A call's key is always fresh.
    """
    changes = []
    if before.payload_hash != after.payload_hash:
        changes.append("another request")
    if keeps_id and before.client_order_id != after.client_order_id:
        changes.append("another client order id")
    if before.mode != after.mode:
        changes.append(f"{before.mode} → {after.mode}")
    if before.outcome != after.outcome:
        changes.append(f"{spoken(before.outcome)} → {spoken(after.outcome)}")
    elif before.error != after.error:
        changes.append("another error")
    return ", ".join(changes)
