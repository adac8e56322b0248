"""SELECTs over a layout that others own: columns, states, filters and order. Runs nothing.

A page looks up the state of each row in a subquery that the planner cannot flatten (OFFSET 0). So rows always come in
the order of the table's index, and a page costs what it shows. A count joins the ledger instead.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dlq_sink.values import is_plain

from backends.detect.other_layouts import OtherAttached
from backends.layouts.orders import quoted
from backends.layouts.roles import roles
from backends.ledger.names import SCHEMA, SHOWN
from backends.records import CLIP, OPEN_STATES, STATES, Filter, RowKey, State
from backends.sql.filter_sql import Column, FilterSQL, filter_sql, placed
from backends.sql.other import naming
from backends.sql.postgres_columns import JOINED, PLAIN_TYPES, TIME_TYPES, spelled, stored_value
from backends.sql.text.query import CompiledQuery


@dataclass(slots=True)
class FilterQuestion:
    """Collects the values of a statement and numbers their placeholders."""

    values: list[object] = field(default_factory=list)

    def bind(self, value: object, kind: str) -> str:
        self.values.append(value)
        return f"CAST(${len(self.values)} AS {kind})"

    def query(self, text: str) -> CompiledQuery:
        names = tuple(f"v{n}" for n in range(len(self.values)))
        return CompiledQuery(text, names, dict(zip(names, self.values, strict=True)))


def row_filter(attached: OtherAttached, where: Filter) -> FilterSQL:
    role = roles(attached.layout.name, attached.info.columns)

    def column(name: str) -> Column:
        if name == role.identity:
            # An id that several rows have gets a suffix, which only the entry knows.
            return Column(attached.sql("id"), "" if attached.ids_repeat else attached.part("id").type)
        return Column(f"t.{quoted(name)}", attached.column(name).type)

    return filter_sql(where, role, column, on_postgres=True)


def placed_in(ask: FilterQuestion, made: FilterSQL, conditions: Sequence[str]) -> list[str]:
    """The conditions with their values bound to the statement."""
    bound: dict[str, str] = {}

    def spell(name: str) -> str:
        if name not in bound:
            bound[name] = ask.bind(*made.values[name])
        return bound[name]

    return [f"({placed(one, spell)})" for one in conditions]


_PENDING: frozenset[State] = frozenset({"pending"})
_HELD: frozenset[State] = frozenset({"in_flight", "in_doubt"})
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_BOUNDED = re.compile(r"character varying\((\d+)\)")


@dataclass(frozen=True, slots=True)
class Select:
    attached: OtherAttached
    with_ledger: bool
    as_text: bool = False  # read times as text, as some do not fit Python's types

    # what an entry is

    @property
    def identity(self) -> str:
        return self.attached.text("id")

    @property
    def born(self) -> str:
        """Tells an entry from a later one with the same id, after a table was emptied and filled again."""
        return f"coalesce({self.attached.text(self.attached.layout.moment)}, '')"

    @property
    def stamp(self) -> str:
        """The entry's version: the columns that others may change, as one text."""
        seen = [self.attached.text(name) for name in self.attached.layout.seen if self.attached.actual(name)]
        if not seen:
            return self.born
        return f" {JOINED} '|' {JOINED} ".join(f"coalesce({text}, '')" for text in seen)

    @property
    def is_open(self) -> str:
        """Not soft-deleted by its owner."""
        marked = self.attached.soft_delete
        if marked is None:
            return "true"
        name, _ = marked
        column = self.attached.sql(name)
        return f"{column} IS NULL" if name == "deletedAt" else f"{column} IS NOT TRUE"

    def settled(self) -> str:
        return (
            f"(SELECT s.state FROM {SCHEMA}.settled s WHERE s.source = {self.source} "
            f"AND s.entry_id = {self.identity} AND s.born = {self.born})"
        )

    def held(self) -> str:
        """The state of the attempt that holds this entry; an outbox has none, as its replay is one transaction."""
        if not self.attached.layout.sends:
            return "CAST(NULL AS pg_catalog.text)"
        return (
            f"(SELECT a.state FROM {SCHEMA}.attempt a WHERE a.source = {self.source} "
            f"AND a.entry_id = {self.identity} AND a.holds = 1)"
        )

    @property
    def source(self) -> str:
        return "'" + self.attached.found.shown.replace("'", "''") + "'"

    @property
    def state(self) -> str:
        return self._stated(self.held(), self.settled())

    @property
    def joined_state(self) -> str:
        return self._stated("a.state" if self.attached.layout.sends else "CAST(NULL AS pg_catalog.text)", "s.state")

    def _stated(self, held: str, settled: str) -> str:
        plain = f"CASE WHEN {self.is_open} THEN 'pending' ELSE 'dismissed' END"
        return f"coalesce({held}, {settled}, {plain})" if self.with_ledger else plain

    def rows(self, *, each: bool) -> str:
        """The table with the ledger: looked up for `each` row, or joined, for counts that read the whole table."""
        table = f"FROM {self.attached.found.quoted} t"
        if not self.with_ledger:
            return table
        known = {"s": ("settled", f"AND s.born = {self.born}"), "a": ("attempt", "AND a.holds = 1")}
        for name, (kept, only) in known.items() if self.attached.layout.sends else [("s", known["s"])]:
            this = f"{name}.source = {self.source} AND {name}.entry_id = {self.identity} {only}"
            one = f"(SELECT {name}.state FROM {SCHEMA}.{kept} {name} WHERE {this})"
            apart = f"CROSS JOIN LATERAL (SELECT {one} AS state OFFSET 0) {name}"
            table += f" {apart if each else f'LEFT JOIN {SCHEMA}.{kept} {name} ON {this}'}"
        return table

    # which entries

    def conditions(self, where: Filter, ask: FilterQuestion, *, unsure: bool = False) -> list[str]:
        """What every match fulfils; with `unsure`, only rows of which the database cannot tell."""
        made = row_filter(self.attached, where)
        return [*self._states(where.states), *placed_in(ask, made, made.unsure if unsure else made.may)]

    def _states(self, states: frozenset[State]) -> Iterator[str]:
        """Written so that the planner expects most rows to be open and few to be settled."""
        if len(states) == len(STATES):
            return
        if not self.with_ledger:
            known = {"pending": self.is_open, "dismissed": f"NOT ({self.is_open})"}
            yield "(" + (" OR ".join(sql for state, sql in known.items() if state in states) or "false") + ")"
        elif states in (OPEN_STATES, _PENDING):
            yield "coalesce(s.state, '') <> ALL('{replayed,dismissed}')"
            yield from self._unheld(only_pending=states == _PENDING)
        elif states <= _HELD:
            yield self._among_held() if self.attached.layout.sends else "false"
            yield self._in(states)
        else:
            yield self._in(states)

    def _unheld(self, *, only_pending: bool) -> Iterator[str]:
        if not self.attached.layout.sends:
            return
        if only_pending:
            yield "coalesce(a.state, '') <> ALL('{submitting,in_doubt,accepted}')"
            yield self.is_open
        else:
            yield "coalesce(a.state, '') <> 'accepted'"
            yield f"({self.is_open} OR a.state IS NOT NULL)"

    def _in(self, states: frozenset[State]) -> str:
        stored = [name for name, shown in SHOWN.items() if shown in states]
        return f"{self.joined_state} = ANY('{{{','.join(stored)}}}')" if stored else "false"

    def _among_held(self) -> str:
        """Starts from the few held entries instead of walking the table."""
        held = f"SELECT entry_id FROM {SCHEMA}.attempt WHERE source = {self.source} AND holds = 1"
        known = f"SELECT {self.as_id('e.entry_id')} FROM ({held} AND state <> 'accepted') e"
        return f"{self.attached.sql('id')} = ANY(ARRAY({known}))"

    def as_id(self, entry_id: str) -> str:
        """An id from the ledger in the type of the table's id; NULL if it does not fit."""
        kind = self.attached.part("id").type
        if kind.startswith(("text", "character")):
            return entry_id
        shape = "^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$" if kind == "uuid" else "^-?[0-9]{1,18}$"
        return f"CASE WHEN {entry_id} ~ '{shape}' THEN CAST({entry_id} AS {kind}) END"

    # in which order

    @property
    def order(self) -> tuple[tuple[str, str], ...]:
        """The (column, type) pairs that rows are ordered by."""
        layout = self.attached.layout
        identity = (self.attached.sql("id"), self.attached.part("id").type)
        if self.attached.by_number and not self.attached.ids_repeat:
            return (identity,)
        moment = self.attached.part(layout.moment)
        column = self.attached.sql(layout.moment)
        if not moment.not_null and moment.type.startswith("timestamp"):
            column = f"coalesce({column}, '-infinity')"
        elif not moment.not_null:
            column = f"coalesce({self.attached.text(layout.moment)}, '')"
        at = (column, moment.type if moment.type.startswith("timestamp") else "text")
        return (identity, at) if self.attached.by_number else (at, identity)

    def page(
        self, where: Filter, place: RowKey | None, *, descending: bool, most: int, unsure: bool = False
    ) -> CompiledQuery:
        ask, order = FilterQuestion(), self.order
        conditions = self.conditions(where, ask, unsure=unsure)
        if place is not None:
            here = ", ".join(column for column, _ in order)
            marks = zip(place, order, strict=True)
            there = ", ".join(f"CAST({ask.bind(value, 'text')} AS {kind})" for value, (_, kind) in marks)
            conditions.append(f"({here}) {'<' if descending else '>'} ({there})")
        way = "DESC" if descending else "ASC"
        return ask.query(
            f"{self._select(whole=False)} {_where(conditions)} "
            f"ORDER BY {', '.join(f'{column} {way}' for column, _ in order)} LIMIT {int(most)}"
        )

    def by_ids(self, ids: Sequence[str], *, whole: bool) -> CompiledQuery:
        ask = FilterQuestion()
        return ask.query(f"{self._select(whole=whole)} {_where([self.among(ids, ask)])}")

    def among(self, ids: Sequence[str], ask: FilterQuestion) -> str:
        kind = self.attached.part("id").type
        return f"{self.attached.sql('id')} = ANY(CAST({ask.bind(list(ids), 'text[]')} AS {kind}[]))"

    def repeats(self, ids: Sequence[str]) -> CompiledQuery:
        """Selects those of these ids that several rows have."""
        ask = FilterQuestion()
        rows = f"FROM {self.attached.found.quoted} t WHERE {self.among(ids, ask)}"
        return ask.query(f"SELECT {self.identity} {rows} GROUP BY {self.attached.sql('id')} HAVING count(*) > 1")

    def is_id(self, text: str) -> bool:
        """Whether this could be an entry's id, in the store's spelling."""
        return any(map(self.is_plain_id, naming.possible(text) if self.attached.ids_repeat else (text,)))

    def is_plain_id(self, text: str) -> bool:
        """Whether this could be a row's own id."""
        kind = self.attached.part("id").type
        if kind == "uuid":
            try:
                return str(uuid.UUID(text)) == text
            except ValueError:
                return False
        if kind in ("bigint", "integer", "smallint"):
            return _NUMBER.fullmatch(text) is not None
        return is_plain(text)

    # what is shown

    def _select(self, *, whole: bool) -> str:
        parts = [self.joined_state, self.identity, self.stamp]
        parts += [spelled(column, kind) for column, kind in self.order if column != self.attached.sql("id")]
        parts += [self._stored(name, whole=whole) for name, _ in self.attached.spelt]
        return f"SELECT {', '.join(parts)} {self.rows(each=True)}"

    def _stored(self, name: str, *, whole: bool) -> str:
        """Cuts to one more than a page shows, so that the cut is noticed."""
        value = self._value(name)
        if whole or not self.may_be_long(name):
            return value
        cut = f"substr({value}, 1, {CLIP + 1})"
        made = self.attached.part(name).type.startswith(("text", "character varying", "bytea"))
        return f"CASE WHEN octet_length({value}) > {CLIP} THEN {cut} ELSE {value} END" if made else cut

    def _value(self, name: str) -> str:
        return stored_value(self.attached.sql(name), self.attached.part(name).type, as_text=self.as_text)

    def may_be_long(self, name: str) -> bool:
        declared = self.attached.part(name).type
        bounded = _BOUNDED.fullmatch(declared)
        if name == "id" or (bounded is not None and int(bounded[1]) <= CLIP):
            return False
        return declared == "bytea" or not declared.startswith((*PLAIN_TYPES, *TIME_TYPES, "real", "uuid"))

    @property
    def alone(self) -> str:
        """True of a row that no other equals in id and moment."""
        if not self.attached.ids_repeat:
            return "true"
        column, moment = self.attached.sql("id").replace("t.", "o.", 1), self.attached.layout.moment
        text = spelled(self.attached.sql(moment).replace("t.", "o.", 1), self.attached.part(moment).type)
        same = f"{column} = {self.attached.sql('id')} AND coalesce({text}, '') = {self.born}"
        return f"(SELECT count(*) FROM {self.attached.found.quoted} o WHERE {same}) = 1"


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""
