"""Parses the filter line (`venue:alpaca state:in_doubt age>1h !timeout some text`) into a query, and edits it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime

from backends.records import OPEN_STATES, STATES, Filter, State
from console.services.triage.marks import MARKS
from console.services.triage.triage import Query
from console.text.durations import parse_duration, parse_moment

HELD: frozenset[State] = frozenset({"in_doubt", "in_flight"})
CATEGORIES = ("transient", "schema", "business", "integration")
_MEANT = {"queue": "venue", "provider": "venue", "tenant": "account"}  # the names other layouts use
FIELDS = (
    "venue",
    "account",
    "market",
    "side",
    "reason",
    "state",
    "category",
    "group",
    "mark",
    "since",
    "until",
    *_MEANT,
)
_TOKEN = re.compile(r'(?P<quoted>!?(?:\w+[:<>])?"[^"]*")|(?P<bare>\S+)')
_FIELD = re.compile(r"!?([A-Za-z_]+):\S")
_AGE = re.compile(r"age(?P<sign>[<>])(?P<span>.*)")


class ExpressionError(Exception):
    """The filter line has an error; `str()` names the word and what to write instead."""


@dataclass(slots=True)
class _Parts:
    now: datetime
    states: frozenset[State] = OPEN_STATES
    columns: dict[str, str] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    terms: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)


def parse_expression(text: str, now: datetime) -> Query:
    parts = _Parts(now)
    for token in _TOKEN.finditer(text):
        _take(parts, token[0].replace('"', ""), quoted=token["quoted"] is not None)
    where = Filter(
        states=parts.states,
        venue=parts.columns.get("venue"),
        account=parts.columns.get("account"),
        market=parts.columns.get("market"),
        side=parts.columns.get("side"),
        reason=parts.columns.get("reason"),
        since=parts.since,
        until=parts.until,
        terms=tuple(parts.terms),
        without=tuple(parts.without),
    )
    columns = parts.columns
    return Query(where, category=columns.get("category"), group=columns.get("group"), mark=columns.get("mark"))


def _take(parts: _Parts, word: str, *, quoted: bool) -> None:
    if word.startswith("!"):
        if len(word) == 1:
            raise ExpressionError("! needs a text: !timeout")
        parts.without.append(word[1:])
        return
    if (aged := _AGE.fullmatch(word)) and not (quoted and " " in word):
        _take_age(parts, aged["sign"], aged["span"])
        return
    name, colon, value = word.partition(":")
    if colon and name in FIELDS:
        _take_field(parts, name, value)
    elif word:
        parts.terms.append(word)


def _take_age(parts: _Parts, sign: str, span: str) -> None:
    try:
        moment = parts.now - parse_duration(span)
    except (ValueError, OverflowError):
        raise ExpressionError(f"age{sign}{span}: write age>1h or age<15m") from None
    if sign == ">":
        parts.until = moment
    else:
        parts.since = moment


def _take_field(parts: _Parts, name: str, value: str) -> None:
    if not value:
        raise ExpressionError(f"{name}: needs a value")
    match name:
        case "state":
            parts.states = _states(value)
        case "since" | "until":
            try:
                moment = parse_moment(value, parts.now)
            except ValueError as problem:
                raise ExpressionError(str(problem)) from None
            setattr(parts, name, moment)
        case "category" if value not in CATEGORIES:
            raise ExpressionError(f"category is one of: {' '.join(CATEGORIES)}")
        case "mark" if value not in MARKS:
            raise ExpressionError(f"mark is one of: {' '.join(MARKS)}")
        case _:
            meant = _MEANT.get(name, name)
            if meant in parts.columns:
                raise ExpressionError(f"{name}: is there twice")
            parts.columns[meant] = value


def _states(value: str) -> frozenset[State]:
    if value == "all":
        return frozenset(STATES)
    if value == "open":
        return OPEN_STATES
    wanted = value.replace("-", "_").split(",")
    states = frozenset(state for state in STATES if state in wanted)
    if len(states) != len(set(wanted)):
        raise ExpressionError(f"state is one of: {' '.join(STATES)} open all")
    return states


def unknown_fields(text: str) -> tuple[str, ...]:
    """Names before a colon that are not fields. Such a word is searched for as plain text."""
    words = [token["bare"] for token in _TOKEN.finditer(text) if token["bare"]]
    names = [found[1] for word in words if (found := _FIELD.match(word))]
    return tuple(name for name in names if name not in FIELDS)


def says_state(text: str) -> bool:
    return any(token[0].startswith("state:") for token in _TOKEN.finditer(text))


def with_field(text: str, name: str, value: str) -> str:
    """The line with this field set to this value; an earlier value of the field is removed."""
    kept = [token[0] for token in _TOKEN.finditer(text) if not token[0].startswith(f"{name}:")]
    shown = f'{name}:"{value}"' if re.search(r"\s", value) else f"{name}:{value}"
    return " ".join([*kept, shown])


def split_held(query: Query) -> tuple[Query, ...]:
    """Splits a query into entries in doubt or in flight, which are listed first, and the rest. Omits an empty part."""
    parts = (query.where.states & HELD, query.where.states - HELD)
    return tuple(replace(query, where=replace(query.where, states=states)) for states in parts if states)
