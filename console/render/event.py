"""An audit event as one line. Pure."""

from __future__ import annotations

import json

from backends.records import AuditEvent, readable
from console.render import value
from console.render.line import Line, Tone, line, own, said

_TONES: dict[str, Tone] = {"halt": "danger", "resume": "warning", "dismiss": "plain", "restore": "plain"}


def pairs(event: AuditEvent) -> dict[str, object]:
    try:
        body = json.loads(event.body)
    except ValueError:
        return {"kind": "malformed", "note": readable(event.body)}
    return body if isinstance(body, dict) else {"kind": "malformed", "note": readable(event.body)}


def event_line(event: AuditEvent) -> Line:
    body = pairs(event)
    kind = str(body.get("kind", "?"))
    tone: Tone = "warning" if kind.startswith("refused") else _TONES.get(kind, "plain")
    ids = body.get("entries")
    several = f" {value.many(len(ids), 'entry')}" if isinstance(ids, list) and len(ids) > 1 else ""
    why = "".join(f"  {part}" for part in (body.get("reason"), body.get("note")) if isinstance(part, str) and part)
    return line(
        own(f"{event.seq:>6}  {value.moment(body.get('at'))}  ", "dim"),
        said(kind, tone, limit=40),
        own(several),
        own("  by ", "dim"),
        said(_operator(body), limit=60),
        said(why, "dim", limit=300),
    )


def _operator(body: dict[str, object]) -> str:
    who = body.get("who")
    return str(who.get("operator", "?")) if isinstance(who, dict) else "?"
