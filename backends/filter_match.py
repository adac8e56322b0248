"""Does an entry's row fit a filter? The meaning of each field; what a database answers is checked with it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache

from backends.criterion import Criterion, Pattern, fold
from backends.layouts.roles import Roles, roles
from backends.records import Entry, Filter, number, readable, utc_time

ACTION = "action."
ACTION_COLUMN = "action_json"
USUAL_VERB = "new"
OUTBOX, INTEGRATION = "outbox", "integration"


def fits(entry: Entry, where: Filter) -> bool:
    return entry.state in where.states and fits_row(entry, where)


def fits_row(entry: Entry, where: Filter) -> bool:
    """Everything but the states. Needs the whole entry where a value of it may be cut."""
    return fits_all(entry, where.every)


def fits_all(entry: Entry, every: tuple[Criterion, ...]) -> bool:
    """As `fits_row`, for who judges many entries and has the criteria of the filter at hand."""
    role = roles(entry.layout, entry.names)
    for asked in every:  # noqa: SIM110 - a generator for each row costs as much as the judging
        if not holds(entry, asked, role):
            return False
    return True


def holds(entry: Entry, asked: Criterion, role: Roles) -> bool:
    match asked.field:
        case "text":
            return _is_found(entry, asked, role)
        case "error":
            return asked.occurs_in(error_of(entry, role))
        case "age":
            return asked.fits_moment(utc_time(entry.get(role.moment)))
        case "qty" | "price" | "tries":
            return asked.fits_number(number(entry.get(number_column(asked.field, role))))
        case name if name.startswith(ACTION):
            return _fits_action(entry, asked, name.removeprefix(ACTION))
        case "verb":
            return asked.fits_texts(verb_of(entry))
        case name:
            return asked.fits_texts([entry.id, entry.text(role.cid)] if name == "id" else _texts(entry, name, role))


def error_of(entry: Entry, role: Roles) -> str:
    return next(filter(None, map(entry.text, role.errors)), "")


def number_column(field: str, role: Roles) -> str:
    return {"qty": "quantity", "price": "price", "tries": role.retries}[field]


@lru_cache(maxsize=128)  # asked for each row that is judged
def text_columns(field: str, role: Roles) -> tuple[str, ...]:
    """The columns of a field that is a whole text; it has the values of all of them."""
    columns: Mapping[str, Callable[[], tuple[str, ...]]] = {
        "venue": lambda: role.origins,
        "queue": lambda: role.origins if role.layout == OUTBOX else (),
        "provider": lambda: role.origins if role.layout == INTEGRATION else (),
        "tenant": lambda: (role.account,) if role.layout == INTEGRATION else (),
        "account": lambda: (role.account,),
        "market": lambda: (role.market,),
        "side": lambda: (role.side,),
        "type": lambda: (role.kind,),
        "cid": lambda: (role.cid,),
        "failure": lambda: (role.failure,),
    }
    return tuple(filter(None, columns[field]()))


def _texts(entry: Entry, field: str, role: Roles) -> list[str]:
    return [entry.text(name) for name in text_columns(field, role)]


def _is_found(entry: Entry, asked: Criterion, role: Roles) -> bool:
    """In the error or the market; as an id only if it is one."""
    [text] = asked.choices[0].pieces
    found = text in fold(error_of(entry, role)) or text in fold(entry.text(role.market))
    found = found or (text != "" and text in (fold(entry.id), fold(entry.text(role.cid))))
    return found is not asked.negated


def action_of(entry: Entry) -> Mapping[str, object]:
    """The stored action; empty where there is none or it is no JSON object."""
    return _action(entry.text(ACTION_COLUMN)) if ACTION_COLUMN in entry.names else {}


@lru_cache(maxsize=8)  # several words of one filter look into one entry
def _action(text: str) -> Mapping[str, object]:
    try:
        told = json.loads(text, parse_float=Decimal, parse_constant=_Unusable)
    except (ValueError, RecursionError, ArithmeticError):
        return {}
    return told if isinstance(told, dict) else {}


class _Unusable:
    """NaN or an infinity, which is no JSON."""

    def __init__(self, spelled: str) -> None:
        self.spelled = spelled


def verb_of(entry: Entry) -> list[str]:
    """The usual one where the action does not say; none where entries are no orders."""
    if entry.layout in (OUTBOX, INTEGRATION):
        return []
    told = next((held for name, held in action_of(entry).items() if name.lower() == "action"), None)
    return [readable(told)] if isinstance(told, str) and told else [USUAL_VERB]


def _fits_action(entry: Entry, asked: Criterion, key: str) -> bool:
    value = _looked_up(action_of(entry), key)
    match value:
        case None | "":
            found = asked.asks_for_nothing
        case bool():
            found = any(choice.fits("true" if value else "false") for choice in asked.choices)
        case int() | Decimal():
            found = any(_is_number(choice, Decimal(value)) for choice in asked.choices)
        case str():
            found = any(choice.fits(fold(readable(value))) for choice in asked.choices if not choice.is_nothing)
        case _:
            found = False  # an object or a list
    return found is not asked.negated


def _looked_up(action: Mapping[str, object], key: str) -> object:
    """A top-level key, else a dotted path."""
    if key in action:
        return action[key]
    value: object = action
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _is_number(choice: Pattern, value: Decimal) -> bool:
    return choice.is_literal and (asked := number(choice.pieces[0])) is not None and asked == value
