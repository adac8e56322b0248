"""What the events of the chain say of halts and approvals: they decide, the tables beside them only show. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dlq_sink.values import to_bytes

from backends.records import Approval, Halt, Person, parse_time

_DECODE = json.JSONDecoder().raw_decode  # half as long as `loads`, which looks for an encoding first
SWITCHES = 8  # events to look at: somebody who can write the index could put others there


def told(body: object) -> Mapping[str, Any]:
    """An event's content; empty if it cannot be read."""
    try:
        read, _ = _DECODE(bytes(body).decode()) if isinstance(body, bytes | bytearray | memoryview) else (None, 0)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def halt_of(bodies: Iterable[object]) -> Halt | None:
    """The halt in force, by the last events that may have set or lifted it, the newest first."""
    for body in bodies:
        event = told(body)
        if event.get("kind") == "resume":
            return None
        if event.get("kind") == "halt":
            operator = event.get("operator", _who(event).get("operator"))
            return Halt(str(event.get("at")), str(operator), str(event.get("note") or ""))
    return None


def _who(event: Mapping[str, Any]) -> Mapping[str, Any]:
    who = event.get("who")
    return who if isinstance(who, dict) else {}


def person_of(event: Mapping[str, Any]) -> Person:
    who = _who(event)
    uid = who.get("uid")
    return Person(
        os_user=str(who.get("os_user", "")),
        role=str(who.get("db_role", "")),
        host=str(who.get("host", "")),
        uid=uid if isinstance(uid, int) else None,
        foreign_namespace=bool(who.get("foreign_namespace")),
    )


def digest(text: str) -> str:
    return hashlib.sha256(to_bytes(text)).hexdigest()


def asked_entries(document: str) -> list[str]:
    """The entries that a document of a plan names."""
    try:
        plan = json.loads(document)
    except (ValueError, RecursionError):
        return []
    rows = plan.get("rows", plan.get("orders")) if isinstance(plan, dict) else None
    listed = rows if isinstance(rows, list) else []
    return [str(row["dlq_id"]) for row in listed if isinstance(row, dict) and "dlq_id" in row]


def moment_of(event: Mapping[str, Any]) -> float | None:
    """Seconds since the epoch, by the database's clock."""
    kept = event.get("moment")
    if isinstance(kept, int | float):
        return float(kept)
    at = parse_time(event.get("at"))
    return None if at is None else at.timestamp()


def approval_of(row: Mapping[str, Any]) -> Approval | None:
    """A row of the ledger as its events bear it out; None if nobody asked.

    What differs from what was asked for is not shown, and no approval counts for it.
    """
    asked, plan = told(row["asked_body"]), row["plan_hash"]
    then, now = moment_of(asked), float(row["now"])
    if asked.get("kind") != "ask-approval" or asked.get("plan") != plan or then is None:
        return None
    said = (asked.get("document"), asked.get("request"), asked.get("asked_for"))
    is_same = said == (digest(row["document"]), digest(row["request"]), row["kind"])
    given = told(row["approved_body"])
    counts = is_same and given.get("kind") in ("approve", "self-approved") and given.get("plan") == plan
    given_at = moment_of(given) if counts and given.get("asked_event") == row["asked_event"] else None
    by, asker = person_of(given), person_of(asked)
    return Approval(
        plan_hash=plan,
        asked_by=str(asker),
        summary=str(asked.get("summary", "")),
        approved_by=None if given_at is None else str(by),
        approved_ago=None if given_at is None else _age(now, given_at, row["approved_at"]),
        asked_at=then,
        asked_ago=_age(now, then, row["asked_at"]),
        kind=str(asked.get("asked_for")),
        document=row["document"] if is_same else "{}",
        request=row["request"] if is_same else "",
        asked=asker,
        approved=None if given_at is None else by,
        is_own=given.get("kind") == "self-approved",
        advisory=bool(row["advisory"]),
        reader_role=str(row["reader_role"]),
    )


def _age(now: float, event: float, row: object) -> float:
    """By the event; a row that says it was longer ago is believed."""
    return max(now - event, now - row) if isinstance(row, int | float) else now - event


def switch_sql(audit: str, index: str, mark: int) -> str:
    """The bodies of the last events that set or lifted the halt, the newest first."""
    return (
        f"SELECT a.body, e.seq FROM {index} e JOIN {audit} a ON a.seq = e.seq WHERE e.mark = {mark} "
        f"ORDER BY e.seq DESC LIMIT {SWITCHES}"
    )


def bodies_of(rows: Sequence[Any]) -> list[object]:
    return [row[0] for row in rows]
