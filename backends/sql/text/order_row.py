"""How a row of the order layout is selected, ordered and turned into an entry, as text. Runs nothing, no SQLAlchemy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from dlq_sink.values import is_encodable, parse_time, readable

from backends.detect import Attached
from backends.entry import CLIP, OPEN_STATES, Entry, RowKey, State, UnfrozenEntry
from backends.layouts import orders
from backends.ledger.names import HELD, SHOWN, shown_state, table_name
from backends.sql.postgres_columns import EQ, INFINITE, PLAIN_TYPES, TIME_TYPES, spelled, stored_value

Part = Literal["all", "dated", "undated"]
_TEXT = ("text", "character varying", "varchar")
_UNCUT = frozenset({"dlq_id", "retry_count", "dismissed"})
_NOBODY = ("", "")
_MARKED = "!"  # no state begins so
_LIVE, _PAPER = "console_live.state", "console_paper.state"
_BOTH_OVER = f"{_LIVE} = 'accepted' AND ({_PAPER} IS NULL OR {_PAPER} = 'accepted')"


def identity_sql(attached: Attached) -> str:
    """The id as text; Postgres would not compare a column of another type with text."""
    column, declared = f"{attached.found.quoted}.dlq_id", attached.column("dlq_id").type
    on_postgres = attached.info.dialect == "postgresql"
    return column if not on_postgres or declared.startswith(_TEXT) else spelled(column, declared)


def order_columns(attached: Attached) -> tuple[str, ...]:
    """What rows are ordered by."""
    quoted = attached.found.quoted
    if attached.by_rowid:
        return (f"{quoted}._rowid_",)
    identity = identity_sql(attached)
    if not attached.column("dlq_id").not_null:
        identity = f"coalesce({identity}, '')"
    return (f"{quoted}.captured_at", identity)


def order_parts(attached: Attached, *, descending: bool) -> list[Part]:
    """The parts of a table that are read one after the other: rows without a time are the last to have come."""
    if attached.by_rowid or attached.column("captured_at").not_null:
        return ["all"]
    return ["undated", "dated"] if descending else ["dated", "undated"]


class RowMark(NamedTuple):
    """What the first column of a row tells."""

    state: str  # as stored
    cut: bool = False  # a long value is
    unfit: bool = False  # the statement no longer fits the tables
    unsure: bool = False  # the database cannot tell whether the row fits the filter

    @classmethod
    def of(cls, told: Any) -> RowMark:
        """Of a ledger that is damaged it may be anything."""
        if type(told) is not str or not told.startswith(_MARKED):
            return cls(told)
        cut, unfit, unsure = (one == "1" for one in told[1:4])
        return cls(told[4:], cut, unfit, unsure)

    @classmethod
    def are_sure(cls, rows: Iterable[Sequence[Any]]) -> list[bool]:
        known = SHOWN
        return [row[0] in known or not cls.of(row[0]).unsure for row in rows]


@dataclass(frozen=True, slots=True)
class OrderRow:
    """One attached table, as its SELECTs name it."""

    attached: Attached
    with_ledger: bool
    stray: bool = False  # an entry in flight or in doubt was dismissed behind our back, and must still show
    as_text: bool = False  # read times as text, as some do not fit Python's types
    unreadable: bool = False  # there is something of a ledger, but not one that this role can read

    @property
    def on_postgres(self) -> bool:
        return self.attached.info.dialect == "postgresql"

    @property
    def identity(self) -> str:
        return identity_sql(self.attached)

    @property
    def attempts(self) -> str:
        return table_name("attempt", self.attached.info.dialect)

    def newest(self, states: frozenset[State], part: Part, most: int) -> str:
        """Selects the first rows in these states, newest first."""
        columns = [self.marker(cut=self.is_long())]
        columns += order_columns(self.attached) if self.attached.by_rowid else ()
        columns += [self.stored(name, whole=False) for name in self.attached.info.columns]
        ordered, conditions = order_columns(self.attached), list(self.states_sql(states))
        if part != "all":
            conditions.append(f"{ordered[0]} IS {'NULL' if part == 'undated' else 'NOT NULL'}")
            ordered = ordered[1:] if part == "undated" else ordered
        where = f" WHERE {' AND '.join(f'({one})' for one in conditions)}" if conditions else ""
        order = ", ".join(f"{column} DESC" for column in ordered)
        return f"SELECT {', '.join(columns)} FROM {self._source()}{where} ORDER BY {order} LIMIT {int(most)}"

    def _source(self) -> str:
        source = self.attached.found.quoted
        for mode in ("live", "paper") if self.with_ledger else ():
            name = f"console_{mode}"
            source += (
                f" LEFT JOIN {self.attempts} AS {name} ON {name}.source = {self._of} AND "
                f"{name}.entry_id = {self.identity} AND {name}.mode = '{mode}' AND {name}.holds = 1"
            )
        return source

    @property
    def _of(self) -> str:
        return "'" + self.attached.found.shown.replace("'", "''") + "'"

    @property
    def of_this_source(self) -> str:
        """Without statistics SQLite would walk every attempt of the source; the + makes it use the states' index."""
        return f"{'o.source' if self.on_postgres else '+o.source'} = {self._of}"

    @property
    def state_sql(self) -> str:
        if not self.with_ledger:
            return f"CASE WHEN {self.pending_sql} THEN 'pending' ELSE 'dismissed' END"
        # What is under way or in doubt comes first. An entry accepted in paper only is open again once its row is.
        return (
            f"CASE WHEN {_LIVE} IS NULL AND {_PAPER} IS NULL "
            f"THEN CASE WHEN {self.pending_sql} THEN 'pending' ELSE 'dismissed' END "
            f"WHEN {_LIVE} = 'submitting' OR {_PAPER} = 'submitting' THEN 'submitting' "
            f"WHEN {_LIVE} <> 'accepted' THEN {_LIVE} WHEN {_PAPER} <> 'accepted' THEN {_PAPER} "
            f"WHEN {_LIVE} = 'accepted' OR NOT ({self.pending_sql}) THEN 'accepted' ELSE 'pending' END"
        )

    @property
    def pending_sql(self) -> str:
        """Not dismissed, written so that the store's partial index applies."""
        column = self.attached.column("dismissed")
        quoted = f"{self.attached.found.quoted}.dismissed"
        if self.on_postgres and column.type.startswith("bool"):
            return f"NOT {quoted}" if column.not_null else f"{quoted} IS NOT TRUE"
        is_zero = f"{quoted} {EQ} 0" if self.on_postgres else f"{quoted} = 0"
        return is_zero if column.not_null else f"({is_zero} OR {quoted} IS NULL)"

    def states_sql(self, states: frozenset[State]) -> tuple[str, ...]:
        """Conditions that the rows in these states fulfil; none for all rows."""
        if len(states) == 5:
            return ()
        if not self.with_ledger:
            plain: dict[State, str] = {"pending": self.pending_sql, "dismissed": f"NOT ({self.pending_sql})"}
            return (_any(sql for state, sql in plain.items() if state in states),)
        if states == OPEN_STATES and not self.stray:
            return (self.pending_sql, _mostly(f"({_BOTH_OVER}) IS NOT TRUE"))
        held = [ours for ours, shown in HELD.items() if shown in states]
        among = (self._among_held(held),) if held and len(held) == len(states) else ()
        return (*among, _any(sql for state, sql in self._known().items() if state in states))

    def _known(self) -> dict[State, str]:
        """The condition of each state: the same as `state_sql`, in words that a planner can estimate."""
        free, only_paper = f"{_LIVE} IS NULL AND {_PAPER} IS NULL", f"{_LIVE} IS NULL AND {_PAPER} = 'accepted'"
        doubted = (
            f"({_LIVE} = 'in_doubt' AND ({_PAPER} IS NULL OR {_PAPER} <> 'submitting')) "
            f"OR ({_PAPER} = 'in_doubt' AND ({_LIVE} IS NULL OR {_LIVE} = 'accepted'))"
        )
        reopened = _mostly(f"{_LIVE} IS NULL AND ({_PAPER} IS NULL OR {_PAPER} = 'accepted')")
        return {
            "pending": f"({self.pending_sql}) AND {reopened}",
            "in_flight": f"{_LIVE} = 'submitting' OR {_PAPER} = 'submitting'",
            "in_doubt": doubted,
            "replayed": f"({_BOTH_OVER}) OR (({only_paper}) AND NOT ({self.pending_sql}))",
            "dismissed": f"NOT ({self.pending_sql}) AND {_mostly(free)}",
        }

    def _among_held(self, states: Sequence[str]) -> str:
        """Starts from the attempts in these states instead of walking the store's table."""
        listed = ", ".join(f"'{state}'" for state in states)
        held = f"SELECT o.entry_id FROM {self.attempts} o WHERE o.state IN ({listed}) AND o.holds = 1"
        return f"{self.identity} IN ({held} AND {self.of_this_source})"

    def marker(self, *, cut: str = "", unfit: str = "", unsure: str = "") -> str:
        """The first column of a row: its state, and in front of it what `RowMark` tells of few rows.

        One column, as every further one takes time in the database, on the way and in the driver.
        """
        asked = [one for one in (cut, unfit, unsure) if one]
        if not asked:
            return self.state_sql
        told = " || ".join(f"CASE WHEN {one} THEN '1' ELSE '0' END" if one else "'0'" for one in (cut, unfit, unsure))
        state = f"({self.state_sql})"
        return f"CASE WHEN {' OR '.join(asked)} THEN '{_MARKED}' || {told} || {state} ELSE {state} END"

    def stored(self, name: str, *, whole: bool) -> str:
        value = self._value(name)
        if whole or not self._may_be_cut(name):
            return value
        return f"CASE WHEN {self._exceeds(name)} THEN substr({value}, 1, {CLIP}) ELSE {value} END"

    def _value(self, name: str) -> str:
        quoted = f"{self.attached.found.quoted}.{orders.quoted(name)}"
        if not self.on_postgres:
            return quoted
        return stored_value(quoted, self.attached.column(name).type, as_text=self.as_text)

    def _exceeds(self, name: str) -> str:
        value = self._value(name)
        if self.on_postgres:
            return f"octet_length({value}) > {CLIP}"
        # length() of a text stops at a NUL; of a blob it is exact and costs nothing. Numbers, which sort before '', are
        # left out, as they would have to be spelled first.
        size = f"length(CAST({value} AS BLOB)) > {CLIP}"
        texty = orders.sqlite_affinity(self.attached.column(name).type) == "text"
        return size if texty else f"({value} >= '' AND {size})"

    def _may_be_cut(self, name: str) -> bool:
        if name in _UNCUT or (name == "captured_at" and not self.attached.by_rowid):
            return False
        declared = self.attached.column(name).type
        return not self.on_postgres or not declared.startswith((*PLAIN_TYPES, *TIME_TYPES, "real"))

    def is_long(self) -> str:
        cut = [self._exceeds(name) for name in self.attached.info.columns if self._may_be_cut(name)]
        return f"({' OR '.join(cut)})" if cut else ""

    def entries(self, rows: Iterable[Sequence[Any]]) -> list[Entry]:
        """The rows as entries. A page has hundreds: what is the same for all is decided once, and little is called."""
        names, by_rowid, layout = self.attached.info.columns, self.attached.by_rowid, orders.NAME
        first, begins = 2 if by_rowid else 1, -3 if "retry_count" in names else -2
        zoned, odd, shown = self.on_postgres and not self.as_text and self._is_zoned, self._odd_reader(), SHOWN.get
        found: list[Any] = []
        for row in rows:
            values: Any = row[first:]  # of drivers' rows a tuple
            identity, captured = values[0], values[1]
            if type(identity) is not str or not identity.isascii():
                values, identity, place = odd(row, values)
            elif by_rowid:
                place = (row[1],)
            elif zoned and type(captured) is datetime and captured.tzinfo is not None:
                place = (captured, identity)
            else:
                values, identity, place = odd(row, values)
            state, clipped = shown(row[0]), False
            if state is None:
                mark = RowMark.of(row[0])
                state, clipped = shown_state(mark.state), mark.cut
            made: Any = UnfrozenEntry()
            made.layout = layout
            made.id = identity
            made.state = state
            made.version = values[begins:-1]
            made.row_key = place
            made.names = names
            made.values = values
            made.clipped = clipped
            made.origin = "entry"
            made.sender = _NOBODY
            made.__class__ = Entry
            found.append(made)
        return found

    @property
    def _is_zoned(self) -> bool:
        return self.attached.column("captured_at").type.startswith("timestamp with time zone")

    def _odd_reader(self) -> Callable[[Sequence[Any], tuple[Any, ...]], tuple[tuple[Any, ...], str, RowKey]]:
        """A function from any row and its columns to the columns, the id and the row key of its entry."""
        place_of, by_rowid, respell = placer(self.attached), self.attached.by_rowid, self.as_text and self._is_zoned

        def read(row: Sequence[Any], values: tuple[Any, ...]) -> tuple[tuple[Any, ...], str, RowKey]:
            if respell:
                values = (values[0], parse_time(values[1]) or values[1], *values[2:])
            place = (row[1],) if by_rowid else place_of(values)
            identity, captured = values[0], values[1]
            if type(identity) is not str or not (identity.isascii() or is_encodable(identity)):
                identity = _spelled(identity)
            if type(captured) is datetime and captured.tzinfo is None and captured in INFINITE:
                values = (values[0], INFINITE[captured], *values[2:])
            return values, identity, place

        return read


def placer(attached: Attached) -> Callable[[Sequence[Any]], RowKey]:
    """A function from a row's values to its row key; the values begin with dlq_id and captured_at."""
    if attached.info.dialect != "postgresql":
        return lambda values: (values[1], "" if values[0] is None else values[0])
    zoned = attached.column("captured_at").type.startswith("timestamp with time zone")

    def place(values: Sequence[Any]) -> RowKey:
        identity, captured = values[0], values[1]
        if captured is not None and not (zoned and type(captured) is datetime):
            captured = readable(captured)
        return (captured, identity if type(identity) is str else "" if identity is None else str(identity))

    return place


def _any(conditions: Iterable[str]) -> str:
    return " OR ".join(f"({one})" for one in conditions) or "1 = 0"


def _mostly(sql: str) -> str:
    """Holds for most rows, which Postgres would not expect of a joined column that is null."""
    return f"CASE WHEN {sql} THEN 0 ELSE 1 END <> 1"


def _spelled(identity: object) -> str:
    """Spells an id that is not text so that it cannot be confused with one that is."""
    match identity:
        case None:
            return "NULL"
        case bytes():
            return f"x'{identity.hex()}'"
        case _:
            return readable(identity)
