"""Matches an entry already in memory against a filter, with the answer the store's own SQL would give. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from backends.index.rows import roles
from backends.index.search_text import contains
from backends.records import Entry, Filter, parse_time, readable


def fits(entry: Entry, where: Filter) -> bool:
    if entry.state not in where.states:
        return False
    role = roles(entry.layout, entry.names)
    if where.venue is not None and where.venue not in [entry.text(name) for name in role.origins]:
        return False
    asked = (
        (role.account, where.account),
        (role.market, where.market),
        ("side", where.side),
        (role.reason, where.reason),
    )
    if any(wanted is not None and entry.text(name) != wanted for name, wanted in asked):
        return False
    if (where.since or where.until) and not _in_span(entry, where):
        return False
    if not all(contains(entry, term) for term in where.terms):
        return False
    return not any(contains(entry, term) for term in where.without)


def _in_span(entry: Entry, where: Filter) -> bool:
    """Times without a zone count as UTC. A value that is not a time matches no span."""
    stamp = entry.get(roles(entry.layout, entry.names).moment)
    at = parse_time(stamp) or _naive(stamp)
    if at is None:
        return False
    return (where.since is None or at >= where.since) and (where.until is None or at < where.until)


def _naive(value: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(readable(value).strip())
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.utcoffset() is None else None
