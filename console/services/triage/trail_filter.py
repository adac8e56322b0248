"""A filter line over the audit trail: by operator, kind, entry, reason, outcome and time, or by text. Pure.

Words, quotes, stars, `!` and errors are those of the queue's filter line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from backends.criterion import Pattern, fold
from backends.records import parse_time
from console.services.browse.filter_syntax import ExpressionError
from console.services.browse.filter_words import UnclosedQuote, Word, pattern, quote, spelled, words
from console.text.durations import parse_moment

FIELDS = ("operator", "kind", "id", "reason", "outcome", "mode", "venue", "since", "until")
KINDS = (
    "replay", "outcome", "late", "reconcile", "settle", "look-up", "dismiss", "restore", "note", "clear-poison", "halt",
    "resume", "ask", "approve", "self-approved", "withdrawn", "refused", "policy", "ledger-migrated", "row",
)  # fmt: skip
WORDS: Mapping[str, str] = {"intent": "replay", "late-outcome": "late", "lookup": "look-up", "ask-approval": "ask"}
_OTHER_NAMES = {"user": "operator", "who": "operator", "by": "operator", "entry": "id", "dlq_id": "id", "act": "kind",
                "action": "kind", "why": "reason", "after": "since", "before": "until", "state": "outcome"}  # fmt: skip
_TEXTS = ("reason", "note", "error", "evidence", "summary", "detail", "plan", "venue_order_id", "client_order_id")
Body = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Asked:
    field: str  # "text" for a text word
    choices: tuple[Pattern, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class TrailQuery:
    asked: tuple[_Asked, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    entry_id: str | None = None  # the one entry that is asked for, as it was typed: the store finds its events

    def matches(self, body: Body, outcome: Body | None) -> bool:
        """Whether the event, or the pair of a replay and its outcome, is asked for."""
        both = (body,) if outcome is None else (body, outcome)
        return self._is_in_time(body) and all(_holds(one, both) != one.negated for one in self.asked)

    def may_match(self, body: Body, outcome: Body | None) -> bool:
        """The same without what is looked for in texts: those are masked first."""
        both = (body,) if outcome is None else (body, outcome)
        fields = (one for one in self.asked if one.field != "text")
        return self._is_in_time(body) and all(_holds(one, both) != one.negated for one in fields)

    def _is_in_time(self, body: Body) -> bool:
        if self.since is None and self.until is None:
            return True
        at = parse_time(body.get("at"))
        if at is None:
            return False
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


def _holds(asked: _Asked, bodies: tuple[Body, ...]) -> bool:
    values = [value for body in bodies for value in _values(asked.field, body)]
    if asked.field == "text":
        ids = [value for body in bodies for value in _values("id", body)]
        return any(choice.occurs(value) for choice in asked.choices for value in values) or any(
            choice.fits(value) for choice in asked.choices for value in ids
        )
    return any(
        choice.fits(value) if not choice.is_nothing else not any(values)
        for choice in asked.choices
        for value in values or [""]
    )


def act(body: Body) -> str:
    """What was done, in one of `KINDS`. What a person settled is kept as a reconcile with a reason of its own."""
    kind = str(body.get("kind", "?"))
    if kind.startswith("refused"):
        return "refused"
    return "settle" if kind == "reconcile" and body.get("reason") == "settle" else WORDS.get(kind, kind)


def _values(name: str, body: Body) -> Iterator[str]:
    match name:
        case "operator":
            who = body.get("who")
            own = who if isinstance(who, Mapping) else {}
            yield from (fold(str(own[part])) for part in ("operator", "os_user", "db_role") if own.get(part))
        case "kind":
            kind = str(body.get("kind", ""))
            yield from (kind, WORDS.get(kind, kind), act(body))
        case "id":
            listed = body.get("entries")
            for row in listed if isinstance(listed, list) else ():
                yield fold(str(row[0] if isinstance(row, list) and row else row))
        case "text":
            yield from (fold(held) for part in _TEXTS if isinstance(held := body.get(part), str))
        case "outcome":
            held = body.get("outcome")
            if isinstance(held, str):
                yield from ("in_doubt", "in doubt") if held == "unknown" else ()
                yield from (held, held.replace("_", " "))
        case _:
            held = body.get(name)
            yield from (fold(held),) if isinstance(held, str) else ()


@dataclass(slots=True)
class _Parts:
    now: datetime
    asked: list[_Asked] = field(default_factory=list)
    moments: dict[str, datetime] = field(default_factory=dict)
    required: dict[str, Word] = field(default_factory=dict)


def parse_trail_filter(text: str, now: datetime) -> TrailQuery:
    """Raises ExpressionError."""
    parts = _Parts(now)
    try:
        found = words(text)
    except UnclosedQuote:
        raise ExpressionError('a quote is not closed: write "…", and \\" for a quote within') from None
    for word in found:
        _take(parts, word)
    return TrailQuery(
        tuple(parts.asked), parts.moments.get("since"), parts.moments.get("until"), _one_id(parts.required.get("id"))
    )


def _one_id(word: Word | None) -> str | None:
    return word.text if word is not None and len(word.choices) == 1 and not word.has_star and word.text else None


def _take(parts: _Parts, word: Word) -> None:
    if not word.name:
        if word.negated and word.is_empty:
            raise ExpressionError("! needs a text or a field: !timeout, !operator:bob")
        parts.asked.append(_Asked("text", (Pattern.literal(word.text),), word.negated))
        return
    name = word.name.lower()
    if name not in FIELDS:
        near = _OTHER_NAMES.get(name) or difflib.get_close_matches(name, FIELDS, n=1, cutoff=0.0)[0]
        whole = quote(word.raw.removeprefix("!").replace('"', ""))
        text = f"no field {word.name} here: did you mean {near}? Or put it in quotes to search it as text: {whole}"
        raise ExpressionError(text)
    if word.sign != ":":
        raise ExpressionError(f"{name} cannot be compared: write {name}:VALUE; since: and until: take a time")
    if word.is_empty:
        raise ExpressionError(f'{name}: needs a value; {name}:"" means that it has none')
    if not word.negated:
        if name in parts.required:
            raise ExpressionError(f"{word.name} is given twice: say it once, {name}:a,b means either")
        parts.required[name] = word
    if name in ("since", "until"):
        _take_moment(parts, word, name)
        return
    choices = tuple(map(pattern, word.choices))
    if name == "kind":
        _check_kinds(word, choices)
    parts.asked.append(_Asked(name, choices, word.negated))


def _check_kinds(word: Word, choices: tuple[Pattern, ...]) -> None:
    for choice, chars in zip(choices, word.choices, strict=True):
        is_refusal = choice.pieces[0].startswith("refused-")  # of any act
        if not is_refusal and not any(map(choice.fits, (*KINDS, *WORDS))):
            raise ExpressionError(f"no kind {spelled(chars)}: there are {' '.join(KINDS)}")


def _take_moment(parts: _Parts, word: Word, name: str) -> None:
    if word.negated:
        raise ExpressionError(f"{name} cannot be excluded: {'until' if name == 'since' else 'since'}: is its opposite")
    try:
        text = word.text.lower() if word.text[-1:].isalpha() and word.text[-1:] not in "zZ" else word.text.upper()
        parts.moments[name] = parse_moment(text, parts.now)
    except (ValueError, OverflowError):
        example = f"{name}:8h, {name}:03:00 or {name}:2026-04-18T14:32:15Z"
        raise ExpressionError(f"{word.raw} is not a time: write {example}") from None
