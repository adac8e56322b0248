"""Does an entry fit a filter? Answers for entries in memory what their store would answer. Pure."""

from __future__ import annotations

from backends.filter_meaning import Bound, Condition, Contains, Equals, conditions
from backends.index.search_text import contains
from backends.layouts.roles import roles
from backends.records import Entry, Filter, readable, utc_time


def fits(entry: Entry, where: Filter) -> bool:
    if entry.state not in where.states:
        return False
    return all(_holds(entry, asked) for asked in conditions(where, roles(entry.layout, entry.names)))


def _holds(entry: Entry, asked: Condition) -> bool:
    match asked:
        case Equals():
            held = (entry.get(name) for name in asked.columns)
            return any(value is not None and readable(value) == asked.text for value in held)
        case Bound():
            at = utc_time(entry.get(asked.column))
            return at is not None and (at >= asked.limit if asked.is_lower else at < asked.limit)
        case Contains():
            return contains(entry, asked.term) is not asked.negated
