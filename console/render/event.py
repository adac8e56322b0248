"""Audit events as lines: what was done, to which entries, by whom, with which outcome and reason. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial

from backends.layouts.mask import masked_event
from backends.records import Attempt, AuditEvent, parse_time, readable
from console.render.line import HANG, Cell, Line, Tone, clip, fit, line, middle, trusted
from console.render.value import OUTCOMES, many, moment
from console.services.errors.summary import summarise
from console.services.layout_fields import LAYOUTS, ORDERS
from console.services.replay.outcome import spoken
from console.text.untrusted import safe

Body = Mapping[str, object]
_WORDS = {
    "intent": "replay",
    "late-outcome": "late",
    "lookup": "look-up",
    "ask-approval": "ask",
}
_TONES: Mapping[str, Tone] = {"halt": "danger", "resume": "warning", "refused": "warning", "malformed": "danger"}
_OBVIOUS = ("replay", "reconcile", "refused")  # reasons that repeat the act's name
_LONGEST = 2000
_TOLD_BY_TRIES = ("intent", "outcome")  # the attempts tell these
_DONE = {"dismiss": "dismissed", "restore": "restored", "reconcile": "reconciled", "lookup": "asked", "note": "note"}
_NEVER = datetime.max.replace(tzinfo=UTC)
_WIDE = 100


def pairs(event: AuditEvent) -> dict[str, object]:
    try:
        body = json.loads(event.body)
    except ValueError:
        body = None
    return masked_event(body if isinstance(body, dict) else {"kind": "malformed", "note": readable(event.body)})


def event_lines(
    events: Iterable[AuditEvent], size: int, *, about: str | None = None, layout: str = ORDERS
) -> list[Line]:
    """One line per event under a line per day. `about`: all events are of this entry, so its column is left out."""
    fields = LAYOUTS[layout]
    lines: list[Line] = []
    day = ""
    for event in events:
        body = pairs(event)
        if not fields.has_modes:
            body.pop("mode", None)  # every replay is real
        at = moment(body.get("at"))
        if at[:10] != day:
            day = at[:10]
            lines.append(line(trusted(f"{day}, UTC", "dim")))
        lines.append(clip(_event(event.seq, body, size, about=about, result=fields.result), size))
    return lines


def _event(seq: int, body: Body, size: int, *, about: str | None, result: str) -> Line:
    wide = size >= _WIDE
    kind = safe(str(body.get("kind", "?")), 40)
    act = "refused" if kind.startswith("refused") else _WORDS.get(kind, kind)
    who = _operator(body, whole=wide)
    name = 20 if wide else 13
    entry = (Cell(f"{fit(middle(_subject(body), name), name)}  "),) if about is None else ()
    time = moment(body.get("at"))[11:19] if parse_time(body.get("at")) else "?"
    return (
        trusted(f"{seq:>5} {time:8}  ", "dim"),
        Cell(f"{fit(act, 9)} ", _TONES.get(act, "strong")),
        *entry,
        Cell(f"{fit(who, 16 if wide else 8)}  ", "dim"),
        *_told(kind, body, about=about, result=result),
    )


def timeline(
    captured: datetime | None, attempts: Iterable[Attempt], events: Iterable[AuditEvent], *, layout: str = ORDERS
) -> list[Line]:
    """Captured, tried, settled: who did what when, oldest first, with the reason."""
    told: list[tuple[datetime | None, Line]] = []
    if captured is not None:
        told.append((captured, line(trusted("captured"))))
    told += [(parse_time(one.started_at), _tried(one, has_modes=LAYOUTS[layout].has_modes)) for one in attempts]
    for event in events:
        body = pairs(event)
        if body.get("kind") not in _TOLD_BY_TRIES:
            told.append((parse_time(body.get("at")), _done(body)))
    ordered = sorted(told, key=lambda pair: (pair[0] is None, pair[0] or _NEVER))
    lines: list[Line] = []
    day = ""
    for at, cells in ordered:
        shown = moment(at) if at is not None else "?"
        if shown[:10] != day and at is not None:
            day = shown[:10]
            lines.append(line(trusted(f"{day}, UTC", "dim")))
        lines.append((trusted(f"{shown[11:19] if at is not None else '?':8}  ", "dim"), HANG, *cells))
    return lines


def _tried(attempt: Attempt, *, has_modes: bool) -> Line:
    """`try 1 PAPER rejected: insufficient buying power · oncall`"""
    mode = f"{safe(attempt.mode.upper(), 20)} " if has_modes else ""
    kind = f"{mode}{'rehearsal ' if attempt.rehearsal else ''}"
    order = f" {safe(attempt.venue_order_id, 80)}" if attempt.venue_order_id else ""
    said = f": {safe(summarise(attempt.error).line, 300)}" if attempt.error else ""
    tone = OUTCOMES.get(attempt.outcome or "", "warning")
    return (
        trusted(f"try {attempt.attempt_no:d} {kind}"),
        Cell(safe(spoken(attempt.outcome), 40), tone),
        trusted(f"{order}{said}"),
        trusted(f" · {safe(attempt.operator, 40)}", "dim"),
    )


def _done(body: Body) -> Line:
    """`dismissed handled-at-venue "seen on the page" · oncall`"""
    kind = safe(str(body.get("kind", "?")), 40)
    outcome = body.get("outcome")
    reason = "" if body.get("reason") in _OBVIOUS else _text(body, "reason")
    parts = [
        safe(spoken(outcome), 40) if isinstance(outcome, str) else "",
        reason,
        f'"{_text(body, "note")}"' if body.get("note") else "",
        _text(body, "evidence"),
    ]
    others = len(_ids(body)) - 1
    more = f" · with {many(others, 'other')}" if others > 0 else ""
    words = " ".join(part for part in parts if part)
    return (
        Cell(_DONE.get(kind, kind), _TONES.get(kind, "strong")),
        trusted(f" {words}" if words else ""),
        trusted(f" · {_operator(body, whole=False)}{more}", "dim"),
    )


def _ids(body: Body) -> list[str]:
    listed = body.get("entries")
    rows = listed if isinstance(listed, list) else []
    return [str(row[0] if isinstance(row, list) and row else row) for row in rows]


def _subject(body: Body) -> str:
    """The entry, the number of entries, the plan, or the store."""
    ids = _ids(body)
    if not ids:
        return _text(body, "plan") or "the store"
    return safe(ids[0], 60) if len(ids) == 1 else many(len(ids), "entry")


def _operator(body: Body, *, whole: bool) -> str:
    who = body.get("who")
    if not isinstance(who, dict):
        return "?"
    label, user = safe(str(who.get("operator", "?")), 40), safe(str(who.get("os_user", "")), 40)
    return f"{label} ({user})" if whole and user and user != label else label


def _told(kind: str, body: Body, *, about: str | None, result: str) -> Line:
    """The outcome, then the reason. `result`: what a replay makes at the other end."""
    outcome = body.get("outcome")
    tone: Tone = OUTCOMES.get(outcome, "plain") if isinstance(outcome, str) else "plain"
    first = [Cell(safe(spoken(outcome), 40), tone)] if isinstance(outcome, str) else []
    others = len(_ids(body)) - 1
    text = partial(_text, body)
    parts = [
        *_OWN.get(kind, _nothing)(body),
        f"{result} {text('venue_order_id')}" if text("venue_order_id") else "",
        text("error"),
        text("evidence"),
        kind.removeprefix("refused-") if kind.startswith("refused-") else "",
        "" if body.get("reason") in _OBVIOUS else text("reason"),
        text("note"),
        f"with {many(others, 'other')}" if about is not None and others > 0 else "",
    ]
    rest = " · ".join(part for part in parts if part)
    return (*first, Cell(" · " if first and rest else "", "dim"), Cell(rest, "plain" if not first else "dim"))


def _text(body: Body, name: str) -> str:
    """The text as one line, with a sign for each line break."""
    stored = body.get(name)
    lines = stored[:_LONGEST].splitlines() if isinstance(stored, str) else []
    return safe(" ↵ ".join(part.strip() for part in lines if part.strip()), _LONGEST)


def _nothing(_: Body) -> list[str]:
    return []


def _send(body: Body) -> list[str]:
    number = body.get("attempt_no")
    where = f"{_text(body, 'mode').upper()} {_text(body, 'venue')}".strip()
    nth = f"try {number}" if isinstance(number, int) else ""
    return [where, nth, "rehearsal" if body.get("rehearsal") else "", _text(body, "detail")]


def _ask(body: Body) -> list[str]:
    return [_text(body, "summary")]


def _approve(body: Body) -> list[str]:
    return [f"asked by {_text(body, 'asked_by')}" if body.get("asked_by") else ""]


_OWN: Mapping[str, Callable[[Body], list[str]]] = {
    "intent": _send,
    "ask-approval": _ask,
    "approve": _approve,
    "refused-approval": _approve,
}
