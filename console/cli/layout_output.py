"""How entries that are no orders look on stdout: an outbox's messages, an integration's calls."""

from __future__ import annotations

import json
from collections.abc import Iterable

from backends.layouts.columns import spelling
from backends.records import Entry
from console import clock
from console.cli.output import json_value, moment
from console.services import layout_fields as layout
from console.services.layout_fields import DOCUMENTS, OUTBOX
from console.services.triage.triage import ClassifiedEntry
from console.text.untrusted import safe, safe_block


def json_line(row: ClassifiedEntry) -> str:
    """Its id, its layout, its own columns by name, and what we add."""
    entry = row.entry
    parts = [("dlq_id", json.dumps(entry.id)), ("layout", json.dumps(entry.layout))]
    parts += [(name, _spelled(name, held)) for name, held in zip(entry.names, entry.values, strict=True)]
    ours: dict[str, object] = {"state": entry.state, "category": row.category, "fingerprint": row.fingerprint}
    ours |= dict(_derived(entry))
    parts += [(name, json.dumps(held)) for name, held in ours.items()]
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in parts) + "}"


def _spelled(name: str, held: object) -> str:
    if isinstance(held, bytes):
        return json.dumps(layout.bytes_text(held))
    if isinstance(held, str) and spelling(name) in DOCUMENTS and _is_json(held):
        return held.replace("\n", " ").replace("\r", " ")  # within a document only between its values
    return json_value(name, held)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _derived(entry: Entry) -> Iterable[tuple[str, object]]:
    if entry.layout == OUTBOX:
        took = layout.time_to_failure(entry)
        yield "correlation_id", layout.correlation_id(entry) or None
        yield "seconds_to_failure", None if took is None else took.total_seconds()
    else:
        yield "days_left", layout.days_left(entry, clock.now())
    if hidden := layout.stored_credentials(entry):
        yield "findings", [f"stored-credentials: {name}" for name in hidden]


def plain_line(row: ClassifiedEntry) -> str:
    entry = row.entry
    at, where = layout.occurred_at(entry), safe(layout.origin(entry), 200)
    head = f"{safe(entry.id, 200)}  {moment(at) if at else '-'}  {where}"
    if entry.layout == OUTBOX:
        took = layout.time_to_failure(entry)
        after = "" if took is None else f" in {took.total_seconds():.0f}s"
        what = f"{safe(layout.text(entry, 'failure_reason'), 60)} after {_count(entry, 'deliveries_count')} deliveries"
        return f"{head}  {what}{after}  [{entry.state}]"
    left = layout.days_left(entry, clock.now())
    days = "" if left is None else f", {left} days left"
    tries = f"attempts={_count(entry, 'attempts')}{days}"
    return f"{head}  {safe(layout.request_line(entry), 200) or 'request'}  [{entry.state}, {tries}]"


def _count(entry: Entry, name: str) -> str:
    return safe(layout.text(entry, name), 40) or "?"


def plain_entry(row: ClassifiedEntry) -> str:
    return f"{plain_line(row)}\n  error: {safe(layout.error_text(row.entry))}"


def details(row: ClassifiedEntry) -> Iterable[str]:
    """What `show` adds: every column, documents and payloads as a person reads them."""
    entry = row.entry
    if entry.layout == OUTBOX and (key := layout.correlation_id(entry)):
        yield f"  correlation id: {safe(key, 200)}"
    for name in layout.stored_credentials(entry):
        yield f"  finding: stored-credentials: {safe(name, 200)} holds what looks like a credential, masked here"
    for name, held in zip(entry.names, entry.values, strict=True):
        if held is None or spelling(name) in ("id", "error", "lastexception"):
            continue
        if isinstance(held, bytes) or spelling(name) in DOCUMENTS:
            shown = layout.payload(held)
            yield f"  {safe(name, 60)} ({shown.kind}):"
            yield from (f"    {line}" for line in safe_block(shown.text).splitlines())
        else:
            yield f"  {safe(name, 60)}: {safe(layout.text(entry, name))}"
