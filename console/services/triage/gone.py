"""An entry whose row is gone, as far as the ledger knows it: its attempts and events stay."""

from __future__ import annotations

import json
from collections.abc import Sequence

from backends.records import Attempt, AuditEvent, Entry, State, StoreInfo

GONE = "its row is gone: this is what the ledger knows of it"


def gone_entry(
    info: StoreInfo, entry_id: str, attempts: Sequence[Attempt], events: Sequence[AuditEvent]
) -> Entry | None:
    """The entry without a row, in the state in which the ledger left it; None where nothing is known of it."""
    if not attempts and not events:
        return None
    own = {"dlq_id": entry_id, "id": entry_id, "error": GONE, "last_exception": GONE}
    values = tuple(own.get(name) for name in info.columns)
    return Entry(info.layout, entry_id, _state(attempts, events), (), ("", entry_id), info.columns, values)


def _state(attempts: Sequence[Attempt], events: Sequence[AuditEvent]) -> State:
    if any(one.outcome == "accepted" and not one.rehearsal for one in attempts):
        return "replayed"
    if any(one.outcome in (None, "unknown") and not one.rehearsal for one in attempts):
        return "in_doubt"
    acts = [kind for event in events if (kind := _kind(event)) in ("dismiss", "restore")]
    return "dismissed" if acts and acts[-1] == "dismiss" else "pending"


def _kind(event: AuditEvent) -> str:
    try:
        return str(json.loads(event.body).get("kind"))
    except (ValueError, AttributeError):
        return ""  # `dlq audit verify` reports a damaged body
