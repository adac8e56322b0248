"""Audit events as lines and rows: what was done, to which entries, by whom, with which outcome and reason. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial

from backends.records import Attempt, AuditEvent, Entry, parse_time
from console.render.batch import place_of
from console.render.line import HANG, Cell, Line, Tone, clip, columns, fit, line, middle, trusted, untrusted
from console.render.row import state_cell
from console.render.value import OUTCOMES, many, moment, order
from console.services.errors.summary import summarise
from console.services.layout_fields import LAYOUTS, ORDERS
from console.services.replay.outcome import spoken
from console.services.triage.trail import TrailRow, entry_ids, event_body
from console.services.triage.trail_filter import act
from console.text.untrusted import inert, safe

Body = Mapping[str, object]
_TONES: Mapping[str, Tone] = {"halt": "danger", "resume": "warning", "refused": "warning", "malformed": "danger"}
_OBVIOUS = ("replay", "reconcile", "settle", "refused")  # reasons that repeat the act's name
_LONGEST = 2000
_TOLD_BY_TRIES = ("intent", "outcome")  # the attempts tell these
_DONE = {
    "dismiss": "dismissed",
    "restore": "restored",
    "reconcile": "reconciled",
    "settle": "settled",
    "look-up": "asked",
    "note": "note",
}
_NEVER = datetime.max.replace(tzinfo=UTC)
_WIDE = 100


def event_lines(
    events: Iterable[AuditEvent], size: int, *, about: str | None = None, layout: str = ORDERS
) -> list[Line]:
    """One line per event under a line per day. `about`: all events are of this entry, so its column is left out."""
    fields = LAYOUTS[layout]
    lines: list[Line] = []
    day = ""
    for event in events:
        body = event_body(event)
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
    kind, word = safe(str(body.get("kind", "?")), 40), act_word(body)
    who = _operator(body, whole=wide)
    name = 20 if wide else 13
    entry = (Cell(f"{fit(middle(_subject(body), name), name)}  "),) if about is None else ()
    time = moment(body.get("at"))[11:19] if parse_time(body.get("at")) else "?"
    return (
        trusted(f"{seq:>5} {time:8}  ", "dim"),
        Cell(f"{fit(word, 9)} ", _TONES.get(word, "strong")),
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
        body = event_body(event)
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
    word, outcome = act_word(body), body.get("outcome")
    done = safe(str(body.get("kind")), 40).replace("-", " ", 1) if word == "refused" else _DONE.get(word, word)
    reason = "" if body.get("reason") in _OBVIOUS else _text(body, "reason")
    parts = [
        safe(spoken(outcome), 40) if isinstance(outcome, str) else "",
        reason,
        f'"{_text(body, "note")}"' if body.get("note") else "",
        _evidence(body),
    ]
    others = len(entry_ids(body)) - 1
    more = f" · with {many(others, 'other')}" if others > 0 else ""
    words = " ".join(part for part in parts if part)
    return (
        Cell(done, _TONES.get(word, "strong")),
        trusted(f" {words}" if words else ""),
        trusted(f" · {_operator(body, whole=False)}{more}", "dim"),
    )


def _subject(body: Body) -> str:
    """The entry, the number of entries, the plan, or the store."""
    ids = entry_ids(body)
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
    others = len(entry_ids(body)) - 1
    text = partial(_text, body)
    parts = [
        *_OWN.get(kind, _nothing)(body),
        f"{result} {text('venue_order_id')}" if text("venue_order_id") else "",
        text("error"),
        _evidence(body),
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


def _evidence(body: Body) -> str:
    """What the other side showed. What a person saw is their note."""
    told = _text(body, "evidence")
    return "" if body.get("note") and told.startswith("settled by ") else told


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
    return [f"asked by {_asker(body)}" if _asker(body) else ""]


def _asker(body: Body) -> str:
    """`ann, as role ops`: who asked, and the database's role where it has one."""
    user, _, role = _text(body, "asked_by").partition("|")
    return f"{user}, as role {role}" if role else user


_OWN: Mapping[str, Callable[[Body], list[str]]] = {
    "intent": _send,
    "ask-approval": _ask,
    "approve": _approve,
    "refused-approval": _approve,
    "withdrawn": _approve,
}


_COLUMNS = ((11, 9, 13, 8), (19, 13, 20, 16))  # when, act, entry, who: below and from `_WIDE` columns on


def trail_header(size: int) -> Line:
    when, act, entry, who = _COLUMNS[size >= _WIDE]
    titles = (fit("WHEN, UTC", when), fit("ACT", act), fit("ENTRY", entry), fit("WHO", who), "WHAT BECAME OF IT, WHY")
    return line(trusted("  ".join(titles), "dim"))


def trail_line(row: TrailRow, size: int, *, layout: str = ORDERS) -> Line:
    """`04-18 14:56  dismiss  dlq_00…0016  bob  bad-order · the strategy sent a text`"""
    fields, is_wide = LAYOUTS[layout], size >= _WIDE
    body = dict(row.body) if fields.has_modes else {name: held for name, held in row.body.items() if name != "mode"}
    when, act, entry, who = _COLUMNS[is_wide]
    at = moment(body.get("at")) if parse_time(body.get("at")) else "?"
    word = act_word(body)
    subject = many(row.count, "entry") if row.count > 1 else _subject(body)
    return clip(
        (
            trusted(f"{fit(at[:19] if is_wide else at[5:16], when)}  ", "dim"),
            Cell(f"{fit(word, act)}  ", _TONES.get(word, "strong")),
            Cell(f"{fit(middle(subject, entry), entry)}  "),
            Cell(f"{fit(_operator(body, whole=is_wide), who)}  ", "dim"),
            *_outcome_first(row, body, fields.result),
        ),
        size,
    )


def act_word(body: Body) -> str:
    return safe(act(body), 40)


def _outcome_first(row: TrailRow, body: Body, result: str) -> Line:
    """Of a replay and its outcome: the outcome, then where it went."""
    kind = safe(str(body.get("kind", "?")), 40)
    own = _told(kind, body, about=None, result=result)
    if row.outcome is None:
        return (Cell("in flight", "warning"), Cell(" · ", "dim"), *own) if kind == "intent" else own
    return (*_told("outcome", row.outcome, about=None, result=result), Cell(" · ", "dim"), *own)


def trail_story(row: TrailRow, size: int, *, layout: str = ORDERS) -> list[Line]:
    """Everything that one act tells, in whole sentences of the record."""
    body, outcome, result = row.body, row.outcome or {}, LAYOUTS[layout].result
    text = partial(_text, body)
    rows: list[tuple[str, Line]] = [("who", line(trusted(_identity(body))))]
    rows.append(("when", line(trusted(_times(row)))))
    ended = outcome.get("outcome", body.get("outcome"))
    if isinstance(ended, str):
        rows.append(("outcome", line(Cell(safe(spoken(ended), 40), OUTCOMES.get(ended, "plain")))))
    sent = " · ".join(part for part in _send(body) if part) if body.get("attempt_no") is not None else ""
    made = _text(outcome, "venue_order_id") or text("venue_order_id")
    told = (
        ("reason", "" if body.get("reason") in _OBVIOUS else text("reason")),
        ("note", text("note")),
        ("sent", sent),
        (result, made),
        ("error", _text(outcome, "error") or text("error")),
        ("evidence", _text(outcome, "evidence") or _evidence(body)),
        ("asked by", _asker(body)),
        ("plan", " · ".join(part for part in (text("plan"), text("summary")) if part)),
        ("before", text("before")),
        ("after", text("after")),
    )
    rows += [(name, line(trusted(value))) for name, value in told if value]
    rows.append(("entries", _named(row, size)))
    numbers = f"{row.seq:,}" if row.outcome_seq is None else f"{row.seq:,} and {row.outcome_seq:,}"
    rows.append(("event", line(trusted(f"{numbers} · hash {row.hash.hex()[:16]}" if row.hash else numbers, "dim"))))
    return columns(rows, indent=0)


def _identity(body: Body) -> str:
    """`oncall (ann) on desk1, role ops`"""
    who = body.get("who")
    if not isinstance(who, dict):
        return "?"
    host, role = safe(str(who.get("host") or ""), 60), safe(str(who.get("db_role") or ""), 60)
    return f"{_operator(body, whole=True)}{f' on {host}' if host else ''}{f', role {role}' if role else ''}"


def _times(row: TrailRow) -> str:
    at, ended = parse_time(row.body.get("at")), parse_time((row.outcome or {}).get("at"))
    if at is None or ended is None:
        return moment(row.body.get("at"))
    return f"{moment(at)}, outcome {(ended - at).total_seconds():.1f} s later"


def _named(row: TrailRow, size: int) -> Line:
    ids = [safe(one, 80) for one in entry_ids(row.body)]
    if row.count <= 1:
        return line(trusted(ids[0] if ids else "none: it is about the store", "plain" if ids else "dim"))
    shown = ", ".join(ids[: max(1, size // 24 - 2)])
    return line(
        trusted(f"{row.count:,}: {shown}"),
        trusted(f"{' …' if row.count > len(ids) else ''}  enter lists them", "accent"),
    )


EVENT_COLUMNS = (
    "seq", "at", "kind", "operator", "os_user", "host", "db_role", "count", "entries", "mode", "venue", "attempt_no",
    "outcome", "venue_order_id", "reason", "note", "error", "evidence", "plan", "asked_by", "hash",
)  # fmt: skip


def event_cells(body: Body) -> list[str]:
    """A row of the table of events; no cell is a formula or holds control characters."""
    who, ids = body.get("who"), entry_ids(body)
    own = who if isinstance(who, dict) else {}
    told = {"count": len(ids), "entries": " ".join(ids), **own}
    return [_cell(told[name] if name in told else body.get(name)) for name in EVENT_COLUMNS]


def _cell(value: object) -> str:
    return "" if value is None else inert(value if isinstance(value, str) else str(value))


def event_entry_line(entry_id: str, entry: Entry | None, size: int) -> Line:
    """A row of an event's entries: its state, what it is, where it goes, and its id."""
    if entry is None:
        return line(trusted(fit("gone", 11), "dim"), untrusted(entry_id, limit=80))
    room = max(20, size - 11 - 16 - 24)
    state = state_cell(entry.state)
    return (
        Cell(fit(state.text, 11), state.tone),
        Cell(f"{fit(order(entry, room), room)}  "),
        Cell(f"{fit(place_of(entry), 14)}  ", "dim"),
        Cell(fit(middle(safe(entry_id, 80), 22), 22), "dim"),
    )
