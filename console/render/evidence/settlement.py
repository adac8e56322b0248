"""Lines of the settle gate: the attempt in doubt, what a person may say of it, and what they have said. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from backends.layouts.mask import masked_error
from backends.records import ENGINE_SEND, Attempt, Entry, parse_time
from console.render import value
from console.render.line import Line, columns, fit, line, trusted, untrusted
from console.services.layout_fields import layout_of
from console.text.durations import long_age
from console.text.untrusted import safe

Claim = Literal["accepted", "absent"]
_PERSON = (
    "Look there yourself first. If the console can ask there too, it asks once more and refuses what the answer "
    "contradicts."
)
_ORDER: dict[Claim, str] = {
    "accepted": "the order is there: the entry ends as replayed",
    "absent": "there is no such order: the entry is pending again",
}
_CALL: dict[Claim, str] = {
    "accepted": "it arrived there: the entry ends as replayed",
    "absent": "it did not arrive: the entry is pending again",
}
_REHEARSAL: dict[Claim, str] = {
    "accepted": "the order is there: a rehearsal, the entry stays as it is",
    "absent": "there is no such order: a rehearsal, the entry stays as it is",
}


class SettleDraft(NamedTuple):
    """What somebody has said so far of an attempt in doubt."""

    claimed: Claim | None = None
    order: str | None = None  # the venue's order id; None: none is known
    note: str = ""


def settle_lines(entry: Entry, attempt: Attempt, draft: SettleDraft, now: datetime) -> list[Line]:
    fields = layout_of(entry)
    at = parse_time(attempt.started_at)
    ago = f", {long_age(at, now)} ago" if at else ""
    state = "in doubt" if attempt.outcome else "in flight"
    mode = f"{safe(attempt.mode.upper(), 20)}{' rehearsal' if attempt.rehearsal else ''}  " if fields.has_modes else ""
    own = entry.text("account_id") if fields.has_modes else None
    place = value.place(attempt.venue, own, attempt.account, whose=fields.words.whose)
    key = "client order id" if fields.has_modes else fields.replay_key
    silent = "its owner is gone without an answer" if attempt.outcome is None else "no answer"
    told = masked_error(attempt.error) if attempt.error else silent
    rows = [
        ("entry", line(untrusted(f"{entry.id}  ", limit=60), trusted(value.order(entry), "strong"))),
        ("sent to", line(trusted(mode, "danger" if attempt.mode == "live" else "accent"), trusted(place))),
        (key, line(untrusted(attempt.client_order_id or "–", limit=80))),
        (state, line(trusted(f"since {value.moment(attempt.started_at)}{ago}, {_which(attempt)}"))),
        ("error", line(untrusted(told, "warning", limit=150))),
    ]
    hint = [line(trusted(_PERSON, "dim")), ()] if draft.claimed is None else []  # later its room is needed
    return [
        *columns(rows),
        (),
        *hint,
        *_said(draft, _REHEARSAL if attempt.rehearsal else _ORDER if fields.has_modes else _CALL),
    ]


def _which(attempt: Attempt) -> str:
    return "sent by the engine" if attempt.attempt_no == ENGINE_SEND else f"try {attempt.attempt_no:d}"


def _said(draft: SettleDraft, means: dict[Claim, str]) -> list[Line]:
    """Both answers, the chosen one with a tick; then what was typed."""
    lines: list[Line] = []
    for number, (claim, text) in enumerate(means.items(), start=1):
        chosen = claim == draft.claimed
        name = trusted(fit(f"{claim} ✓" if chosen else claim, 12), "accent" if chosen else "plain")
        lines.append(line(trusted(f" {number:d} ", "key"), name, trusted(text, "plain" if chosen else "dim")))
    rows = []
    if draft.order is not None:
        rows.append(("order id", line(untrusted(draft.order or "none is known", limit=80))))
    if draft.note:
        rows.append(("note", line(untrusted(draft.note, limit=120))))
    return [*lines, *([()] if rows else []), *columns(rows)]
