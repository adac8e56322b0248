"""The filter language: which fields there are, what they take, and a line of it as a query. Pure.

One grammar for the filter line, `--filter`, the flags, saved views and groups. What it means is decided elsewhere.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal

from backends.criterion import Criterion, Pattern, Sign
from backends.filter_match import ACTION
from backends.records import OPEN_STATES, STATES, Filter, State
from console.services.browse.filter_words import Char, UnclosedQuote, Word, pattern, spelled, words
from console.services.browse.filter_words import quote as quote
from console.services.browse.filter_words import with_field as with_field
from console.services.triage.marks import MARKS
from console.services.triage.triage import Query
from console.text.durations import parse_moment

HELD: frozenset[State] = frozenset({"in_doubt", "in_flight"})
CATEGORIES = ("transient", "schema", "business", "integration")
TEXT_FIELDS = (
    "venue",
    "account",
    "market",
    "side",
    "type",
    "verb",
    "error",
    "id",
    "cid",
    "queue",
    "provider",
    "tenant",
    "failure",
)
CLASS_FIELDS = ("category", "group", "mark", "reason", "operator", "operation")  # known to the console, not to the row
NUMBERS = ("notional", "qty", "price", "tries")
COMPARED = ("age", *NUMBERS)
MOMENTS = ("since", "until")
FIELDS = (*TEXT_FIELDS, "state", *CLASS_FIELDS, *COMPARED, *MOMENTS)
_KNOWN: dict[str, Sequence[str]] = {"category": CATEGORIES, "mark": MARKS}  # fields that have no other values
_OTHER_NAMES = {
    "try": "tries",
    "quantity": "qty",
    "size": "qty",
    "amount": "qty",
    "symbol": "market",
    "exchange": "venue",
    "status": "state",
    "dlq_id": "id",
    "client_order_id": "cid",
    "retries": "tries",
    "retry_count": "tries",
    "value": "notional",
    "order_type": "type",
    "action": "verb",
    "fingerprint": "group",
    "user": "operator",
    "after": "since",
    "before": "until",
}
_NUMBER = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([kmb]?)", re.IGNORECASE | re.ASCII)  # else K is also the sign of kelvin
_SPAN = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([smhdw])", re.IGNORECASE | re.ASCII)
_THOUSANDS = {"": 0, "k": 3, "m": 6, "b": 9}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_LONGEST_NUMBER = 200
_EXACT = Context(prec=2 * _LONGEST_NUMBER)
_TURNED: dict[str, Sign] = {">": "<", ">=": "<=", "<": ">", "<=": ">="}  # older means an earlier moment


class ExpressionError(Exception):
    """The filter line has an error; `str()` names the word and what to write instead."""


@dataclass(slots=True)
class _Parts:
    now: datetime
    required: set[str] = field(default_factory=set)  # fields, and comparisons with their direction
    states: frozenset[State] | None = None
    without_states: frozenset[State] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    criteria: list[Criterion] = field(default_factory=list)

    def once(self, what: str, word: Word) -> None:
        if what in self.required:
            name = word.name.lower()
            if word.sign != ":":
                raise ExpressionError(f"{name}{word.sign} is given twice: keep one; {name}>1 {name}<9 means between")
            remedy = "keep one of them" if name in MOMENTS else f"say it once, {name}:a,b means either"
            raise ExpressionError(f"{name} is given twice: {remedy}")
        self.required.add(what)


def parse_expression(text: str, now: datetime, states: frozenset[State] = OPEN_STATES) -> Query:
    """Raises ExpressionError. `states`: those that are meant where the line requires none."""
    parts = _Parts(now)
    try:
        found = words(text)
    except UnclosedQuote:
        raise ExpressionError('a quote is not closed: write "…", and \\" for a quote within') from None
    for word in found:
        _take(parts, word)
    wanted = (states if parts.states is None else parts.states) - parts.without_states
    rows = tuple(one for one in parts.criteria if one.field not in (*CLASS_FIELDS, "notional"))
    classes = [one for one in parts.criteria if one not in rows]
    single = {one.field: one.choices[0].pieces[0] for one in classes if _is_single(one)}
    return Query(
        Filter(states=wanted, since=parts.since, until=parts.until, criteria=rows),
        category=single.get("category"),
        group=single.get("group"),
        mark=single.get("mark"),
        classes=tuple(one for one in classes if not _is_single(one)),
    )


def _is_single(asked: Criterion) -> bool:
    """Requires one literal value of a field that the query has a place for."""
    plain = asked.field in ("category", "group", "mark") and not asked.negated and len(asked.choices) == 1
    return plain and asked.choices[0].is_literal and not asked.choices[0].is_nothing


def _take(parts: _Parts, word: Word) -> None:
    if not word.name:
        if word.negated and word.is_empty:
            raise ExpressionError("! needs a text or a field: !timeout, !venue:kalshi")
        parts.criteria.append(Criterion("text", (Pattern.literal(word.text),), negated=word.negated))
        return
    name = _field(word)
    if word.is_empty:
        raise ExpressionError(f'{name}{word.sign} needs a value; {name}:"" means that it has none')
    if word.sign != ":":
        _take_comparison(parts, word, name)
    elif name == "age":
        raise ExpressionError("age needs a comparison: write age>1h or age<15m")
    elif name == "state":
        _take_states(parts, word)
    elif name in MOMENTS:
        _take_moment(parts, word, name)
    else:
        if not word.negated:
            parts.once(name, word)
        parts.criteria.append(_criterion(word, name))


def _field(word: Word) -> str:
    """The field's own name; KEY of `action.KEY` stays as written."""
    name = word.name.lower()
    if name.startswith(ACTION):
        if key := word.name[len(ACTION) :]:
            return f"{ACTION}{key}"
        raise ExpressionError("action. needs a key: action.time_in_force:day")
    if name in FIELDS:
        return name
    remedy = f"{nearest(name)} Or put it in quotes to search it as text: {_quoted(word)}"
    raise ExpressionError(f"no field {word.name}: {remedy}")


def _quoted(word: Word) -> str:
    whole = word.raw.removeprefix("!")
    return ("!" if word.raw.startswith("!") else "") + quote(whole.replace('"', ""))


def nearest(name: str) -> str:
    """Which field is probably meant, as a sentence."""
    meant = _OTHER_NAMES.get(name) or next(iter(difflib.get_close_matches(name, FIELDS, n=1, cutoff=0.0)), "venue")
    return f"did you mean {meant}?"


def _take_comparison(parts: _Parts, word: Word, name: str) -> None:
    if name not in COMPARED:
        raise ExpressionError(f"{name} cannot be compared: write {name}:VALUE; {' '.join(COMPARED)} can be compared")
    if not word.negated:
        parts.once(f"{name}{word.sign[0]}", word)
    sign: Sign = ">=" if word.sign == ">=" else "<=" if word.sign == "<=" else ">" if word.sign == ">" else "<"
    if name == "age":
        limit = _ago(_micros(word), parts.now)
        parts.criteria.append(Criterion("age", sign=_TURNED[sign], limit=limit, negated=word.negated))
        return
    parts.criteria.append(Criterion(name, sign=sign, limit=_number(word.text, word), negated=word.negated))


def _micros(word: Word) -> int:
    found = _SPAN.fullmatch(word.text)
    if found is None or len(word.text) > _LONGEST_NUMBER:
        raise ExpressionError(f"{word.raw}: write a length of time: age>90s, age>15m, age>8h, age<2d, age<1w")
    micros = _EXACT.multiply(Decimal(found[1]), Decimal(_SECONDS[found[2].lower()] * 1_000_000))
    return int(micros.to_integral_value())


def _ago(micros: int, now: datetime) -> datetime:
    """That long before now; where no date reaches, the first or the last one there is."""
    try:
        return now - timedelta(microseconds=micros)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC) if micros > 0 else datetime.max.replace(tzinfo=UTC)


def _number(text: str, word: Word) -> Decimal:
    found = _NUMBER.fullmatch(text)
    if found is None or len(text) > _LONGEST_NUMBER:
        name = word.name.lower()
        raise ExpressionError(f"{word.raw}: {name} takes a number: {name}>50k, {name}<=1.5m, {name}:100")
    return _EXACT.multiply(Decimal(found[1]), Decimal(10) ** _THOUSANDS[found[2].lower()])


def _take_states(parts: _Parts, word: Word) -> None:
    chosen: set[State] = set()
    for choice in word.choices:
        chosen |= _states(choice)
    if word.negated:
        parts.without_states |= chosen
        return
    parts.once("state", word)
    parts.states = frozenset(chosen)


def _states(choice: tuple[Char, ...]) -> frozenset[State]:
    asked = Pattern(tuple(piece.replace("-", "_") for piece in pattern(choice).pieces))
    groups = {"all": frozenset(STATES), "open": OPEN_STATES}
    if asked.is_literal and asked.pieces[0] in groups:
        return groups[asked.pieces[0]]
    found = frozenset(state for state in STATES if asked.fits(state))
    if not found:
        raise ExpressionError(f"no state {spelled(choice)}: there are {' '.join((*STATES, 'open', 'all'))}")
    return found


def _take_moment(parts: _Parts, word: Word, name: str) -> None:
    if word.negated:
        raise ExpressionError(f"{name} cannot be excluded: {'until' if name == 'since' else 'since'}: is its opposite")
    parts.once(name, word)
    try:
        text = word.text.lower() if _SPAN.fullmatch(word.text) else word.text.upper()
        moment = parse_moment(text, parts.now)
    except (ValueError, OverflowError):
        example = f"{name}:8h, {name}:03:00 or {name}:2026-04-18T14:32:15Z"
        raise ExpressionError(f"{word.raw} is not a time: write {example}") from None
    setattr(parts, name, moment)


def _criterion(word: Word, name: str) -> Criterion:
    choices = word.choices
    if any(not choice for choice in choices) and not (len(choices) == 1 and word.has_quotes):
        _check_choices(word, name)
    if name in NUMBERS:
        numbers = tuple(_number(spelled(choice), word) for choice in choices if choice)
        nothing = (Pattern(("",)),) if not all(choices) else ()
        return Criterion(name, nothing, numbers, negated=word.negated)
    asked = tuple(map(pattern, choices))
    if name in _KNOWN:
        _check_known(name, asked, choices)
    return Criterion(name, asked, negated=word.negated)


def _check_choices(word: Word, name: str) -> None:
    """An empty choice must be written as `""`: a comma too many is a slip."""
    behind = word.raw[word.raw.index(word.sign) + 1 :]
    outside = re.sub(r'"(?:\\["\\]|[^"])*"', "x", behind)
    if any(not part for part in outside.split(",")):
        raise ExpressionError(f'{word.raw}: a value is missing at a comma; {name}:"" means that it has none')


def _check_known(name: str, asked: Sequence[Pattern], choices: Sequence[tuple[Char, ...]]) -> None:
    for one, choice in zip(asked, choices, strict=True):
        if not one.is_nothing and not any(map(one.fits, _KNOWN[name])):
            raise ExpressionError(f"no {name} {spelled(choice)}: there are {' '.join(_KNOWN[name])}")


_COUNTED = frozenset(TEXT_FIELDS) - {"verb", "error"} | {"age"}


def is_countable(query: Query) -> bool:
    """Whether a store counts the matches by itself, in one go."""
    return not query.by_class and all(one.field in _COUNTED for one in query.where.every)


def split_held(query: Query) -> tuple[Query, ...]:
    """Splits a query into entries in doubt or in flight, which are listed first, and the rest. Omits an empty part."""
    parts = (query.where.states & HELD, query.where.states - HELD)
    return tuple(replace(query, where=replace(query.where, states=states)) for states in parts if states)
