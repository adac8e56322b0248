"""Tables that look like a dead-letter queue: chooses one, and compares it with its layout. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dlq_sink.error import BadTarget, NotADLQ

from backends.layouts import intents, orders
from backends.layouts.columns import LayoutColumns, fits, resolve
from backends.layouts.roles import OTHER_LAYOUTS
from backends.store_info import Finding, StoreInfo

TELLING = ("dlq_id", "original_id", "originalRequest")  # each layout has one of these, and few other tables have


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    name: str
    type: str
    not_null: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table or view as its database describes it; `columns` leaves out what this role may not read."""

    schema: str | None
    name: str
    kind: str  # "table" or "view"
    columns: tuple[CatalogColumn, ...]
    hidden: tuple[str, ...] = ()  # columns this role may not read
    is_usable: bool = True  # this role may use its schema

    @property
    def shown(self) -> str:
        return self.name if self.schema in (None, "public") else f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        name = orders.quoted(self.name)
        return name if self.schema is None else f"{orders.quoted(self.schema)}.{name}"

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of this table that nobody may change."""
        return tuple(name for name in orders.IDENTITY if self.column(name))

    @property
    def qualified(self) -> str:
        return f"{self.schema or 'main'}.{self.name}"

    def is_called(self, name: str) -> bool:
        return name in (self.name, self.qualified)

    def column(self, name: str) -> CatalogColumn | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def every_name(self) -> tuple[str, ...]:
        return (*(column.name for column in self.columns), *self.hidden)

    @property
    def other_layout(self) -> LayoutColumns | None:
        """The layout if somebody else owns it; None for an order table."""
        if set(self.every_name) >= orders.ANCHORS:
            return None
        return next((layout for layout in OTHER_LAYOUTS if fits(layout, self.every_name)), None)

    @property
    def is_dlq(self) -> bool:
        if self.is_intent_table:
            return False
        return set(self.every_name) >= orders.ANCHORS or self.other_layout is not None

    @property
    def is_intent_table(self) -> bool:
        """Whether an engine keeps there what it is about to send."""
        return set(self.every_name) >= intents.ANCHORS

    @property
    def required(self) -> frozenset[str]:
        """Required columns in this table's spelling; in the layout's if it lacks them."""
        layout = self.other_layout
        if layout is None:
            return orders.REQUIRED
        spelt = resolve(layout, self.every_name)
        return frozenset(spelt.get(name, name) for name in layout.required)


@dataclass(frozen=True, slots=True)
class Attached:
    """What reads and acts need to know about the attached table."""

    info: StoreInfo
    found: Candidate
    by_rowid: bool
    channel: str | None = None  # the channel that the store notifies on, if any
    counts_retries: bool = False  # retry_count is there and can be incremented
    intents: Candidate | None = None  # the engine's intents, where this role can read them
    indexed: frozenset[str] = frozenset()  # columns whose values an index has in their order

    def column(self, name: str) -> CatalogColumn:
        column = self.found.column(name)
        if column is None:
            raise KeyError(name)
        return column

    def grants(self) -> tuple[str, ...]:
        """The rights on the owner's tables that an acting role needs, each as `RIGHTS ON THING`."""
        columns = [name for name in orders.WRITTEN if name in self.info.columns]
        rights = f"SELECT, UPDATE ({', '.join(columns)}) ON {self.found.quoted}"
        if self.intents is None:
            return (rights,)
        written = f"SELECT, UPDATE ({', '.join(intents.WRITTEN)}) ON {self.intents.quoted}"
        return rights, written, f"INSERT ON {self.found.quoted}"

    def reading_grants(self) -> tuple[str, ...]:
        """The rights on the owner's tables that looking needs."""
        read = (self.found, *((self.intents,) if self.intents is not None else ()))
        return tuple(f"SELECT ON {one.quoted}" for one in read)

    def with_finding(self, finding: Finding) -> Attached:
        return self.with_findings(finding)

    def with_findings(self, *findings: Finding) -> Attached:
        return replace(self, info=replace(self.info, findings=(*self.info.findings, *findings)))


def order_report(
    label: str, dialect: Literal["sqlite", "postgresql"], found: Candidate, order: str, *, read_only: bool
) -> StoreInfo:
    """What is known of an order table by its columns alone."""
    return StoreInfo(
        label=label,
        dialect=dialect,
        layout=orders.NAME,
        table=found.shown,
        columns=tuple(name for name in orders.COLUMNS if found.column(name)),
        order=order,
        read_only=read_only,
        read_only_enforced_by="client",
        role="",
    )


def choose(candidates: Sequence[Candidate], wanted: str | None, label: str) -> Candidate:
    matching = [found for found in candidates if found.is_dlq]
    if wanted is not None:
        _check_no_intents(candidates, wanted, label)
        matching = _named(matching, wanted, label)
    matching = [found for found in matching if found.is_usable] or matching
    tables = [found for found in matching if found.kind == "table"] or matching
    if not tables:
        known = (orders.ANCHORS, *(layout.anchors for layout in OTHER_LAYOUTS))
        columns = "; or ".join(", ".join(sorted(names)) for names in known)
        raise NotADLQ(f"{label} has no dead-letter queue: no table with the columns {columns}")
    if len(tables) > 1:
        names = ", ".join(sorted(found.shown if wanted is None else found.qualified for found in tables))
        raise BadTarget(f"{label} has several dead-letter queues: say which with --table ({names})")
    found = tables[0]
    if hidden := found.required & set(found.hidden):
        which = "it" if hidden == found.required else f"its columns {', '.join(sorted(hidden))}"
        raise NotADLQ(f"{label}: {found.shown} is a dead-letter queue, but this role may not read {which}")
    if missing := found.required - {column.name for column in found.columns}:
        raise NotADLQ(f"{label}: {found.shown} lacks the column {', '.join(sorted(missing))}: cannot work with it")
    return found


def _check_no_intents(candidates: Sequence[Candidate], wanted: str, label: str) -> None:
    """Raises BadTarget where the name is only an intent table's."""
    named = [found for found in candidates if found.is_called(wanted)]
    if not any(found.is_dlq for found in named) and any(found.is_intent_table for found in named):
        text = f"{label}: {wanted} holds an engine's open intents and is not a dead-letter queue"
        dlq = wanted.removesuffix(intents.TAIL)
        which = f" (--table {dlq})" if dlq != wanted else ""
        raise BadTarget(f"{text}: attach its queue{which}, which shows them")


def _named(matching: Sequence[Candidate], wanted: str, label: str) -> list[Candidate]:
    named = [found for found in matching if found.is_called(wanted)]
    if not named:
        there = ", ".join(found.shown for found in matching) or "none"
        raise BadTarget(f"{label} has no dead-letter queue named {wanted}; there are: {there}")
    return named


def drift(found: Candidate) -> list[Finding]:
    names = {column.name for column in found.columns}
    findings = [
        Finding("missing-column", f"{found.shown} has no column {name}: {effect}")
        for name, effect in orders.DEGRADED.items()
        if name not in names
    ]
    if extra := sorted(names - set(orders.COLUMNS)):
        findings.append(Finding("extra-column", f"{found.shown} has further columns, left alone: {', '.join(extra)}"))
    return findings


def type_drift(found: Candidate, types: Mapping[str, str], expected: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Findings on columns of an unexpected type; `types` uses the words of `expected`."""
    return [
        Finding(
            "changed-type", f"{found.shown}.{name} is {held or 'of no type'}, not {expected[name][0]}: {_effect(name)}"
        )
        for name, held in types.items()
        if name in expected and not held.startswith(tuple(expected[name]))
    ]


def _effect(name: str) -> str:
    match name:
        case "captured_at":
            return "pages follow its spelling, which need not be the order of time"
        case "dlq_id":
            return "finding an entry reads the whole table"
        case _:
            return "read as stored"
