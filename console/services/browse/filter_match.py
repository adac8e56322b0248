"""Does an entry fit a filter? The answer that the store itself would give, for entries that are already here. Pure."""

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
    """A time without a zone counts as UTC; what is no time at all lies in no span."""
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
