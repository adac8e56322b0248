"""A filter as SQL over a layout of somebody else's: which rows it means, and the values it asks with. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from backends.detect.other_layouts import OtherAttached
from backends.records import Filter
from backends.sql.pattern import ESCAPE, is_cased, like, regex
from backends.sql.query import CompiledQuery

TIMES = ("timestamp", "date")


@dataclass(slots=True)
class FilterQuestion:
    """A statement in the making: its values take their numbers as they come."""

    values: list[object] = field(default_factory=list)

    def bind(self, value: object, kind: str) -> str:
        self.values.append(value)
        return f"CAST(${len(self.values)} AS {kind})"

    def query(self, text: str) -> CompiledQuery:
        names = tuple(f"v{n}" for n in range(len(self.values)))
        return CompiledQuery(text, names, dict(zip(names, self.values, strict=True)))


def matching(attached: OtherAttached, where: Filter, ask: FilterQuestion) -> Iterator[str]:
    layout = attached.layout
    if where.venue is not None:
        columns = [name for name in layout.origin if attached.actual(name)]
        asked = ask.bind(where.venue, "text")
        yield "(" + " OR ".join(f"{_text(attached, name)} = {asked}" for name in columns) + ")"
    if where.account is not None:
        there = layout.account is not None and attached.actual(layout.account) is not None
        yield f"{_text(attached, layout.account or '')} = {ask.bind(where.account, 'text')}" if there else "false"
    if where.reason is not None:
        there = layout.reason is not None and attached.actual(layout.reason) is not None
        yield f"{_text(attached, layout.reason or '')} = {ask.bind(where.reason, 'text')}" if there else "false"
    if where.market is not None or where.side is not None:
        yield "false"  # neither layout has them
    if where.since is not None:
        yield f"{_moment(attached)} >= {ask.bind(where.since, 'timestamptz')}"
    if where.until is not None:
        yield f"{_moment(attached)} < {ask.bind(where.until, 'timestamptz')}"
    for term in where.terms:
        yield _contains(attached, term, ask)
    for term in where.without:
        yield f"NOT {_contains(attached, term, ask)}"


def _text(attached: OtherAttached, name: str) -> str:
    column = attached.sql(name)
    declared = attached.part(name).type
    return column if declared.startswith(("text", "character varying")) else f"CAST({column} AS text)"


def _moment(attached: OtherAttached) -> str:
    name = attached.layout.moment
    column, declared = attached.sql(name), attached.part(name).type
    if declared.startswith(TIMES):
        return column
    spelled = rf"{column} ~ '^\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d'"
    return f"CASE WHEN {spelled} THEN CAST({column} AS timestamptz) END"


def _contains(attached: OtherAttached, term: str, ask: FilterQuestion) -> str:
    cased = is_cased(term)
    bound, raw = ask.bind(regex(term) if cased else like(term), "text"), ""
    holds = f"~ {bound}" if cased else f"ILIKE {bound} ESCAPE '{ESCAPE}'"
    choices = []
    for name in attached.layout.searched:
        if attached.actual(name) is None:
            continue
        text = _text(attached, name)
        if attached.part(name).type == "bytea":
            text = f"encode({attached.sql(name)}, 'escape')"
            raw = raw or ask.bind(term.encode(), "bytea")
            choices.append(f"position({raw} IN {attached.sql(name)}) > 0")
        choices.append(f"coalesce({text}, '') {holds}")
    return "(" + " OR ".join(choices) + ")"
