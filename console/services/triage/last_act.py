"""Who last acted on each entry, and why it was dismissed, as the audit chain tells. Knows no SQL and no screen."""

from __future__ import annotations

import json
from typing import NamedTuple

from backends.records import AuditEvent
from backends.store import Store

_NO_ACTS = ("refused", "lookup", "view", "ask", "export")  # beginnings of events in which nobody changed anything


class LastAct(NamedTuple):
    operator: str
    reason: str | None  # of the dismissal; None where the last act was none
    operation: str = ""  # what a command did to many entries has one id


class LastActs:
    """Reads the chain once and then only what was added to it."""

    def __init__(self) -> None:
        self._seq = 0
        self._by_id: dict[str, LastAct] = {}

    def of(self, entry_id: str) -> LastAct | None:
        return self._by_id.get(entry_id)

    async def read(self, store: Store) -> None:
        async for block in store.audit(after=self._seq):
            for event in block:
                self._take(event, store.info.table)
                self._seq = event.seq

    def _take(self, event: AuditEvent, table: str) -> None:
        try:
            body = json.loads(event.body)
            kind, named, operator = str(body["kind"]), body["entries"], str(body["who"]["operator"])
            if body["source"] != table or kind.startswith(_NO_ACTS) or not isinstance(named, list):
                return
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # an event that names no entries, or a damaged one, which `dlq audit verify` reports
        reason = body.get("reason")
        operation = str(body.get("operation") or "")
        act = LastAct(operator, str(reason) if kind == "dismiss" and reason else None, operation)
        for one in named:
            entry_id = one[0] if isinstance(one, list) and one else one
            if not isinstance(entry_id, str):
                continue
            before = self._by_id.get(entry_id)
            # A note leaves the dismissal as it is.
            is_note = kind == "note" and before is not None
            kept = act._replace(reason=before.reason, operation=before.operation) if is_note and before else act
            self._by_id[entry_id] = kept
