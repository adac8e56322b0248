"""Turns a filter into SQL. Runs nothing.

A database folds case, spells numbers and reads times in its own way. So each criterion becomes two conditions: one that
every match fulfils (`may`), and one that only matches fulfil (`surely`). Rows between them are judged in memory by
`backends.filter_match`; where both are the same text, the database's answer is exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from backends.criterion import Criterion, Pattern, fold
from backends.filter_match import ACTION, ACTION_COLUMN, USUAL_VERB, number_column, text_columns
from backends.layouts.mask import MASKED
from backends.layouts.orders import NAME as ORDERS
from backends.layouts.orders import sqlite_affinity
from backends.layouts.roles import Roles
from backends.records import Filter, number
from backends.sql.postgres_columns import TIME_TYPES

ESCAPE = "!"  # servers treat a backslash in different ways
TRUE, FALSE = "1=1", "1=0"
_LONGEST = 1000  # characters of a pattern that databases take without complaint
_MOST_CHOICES = 100  # of a whole filter: SQLite refuses a statement that is nested a thousand deep
_TEXTS = ("text", "character varying")
_SPELLED_ALIKE = (*_TEXTS, "smallint", "integer", "bigint", "uuid")  # types whose text is the same here and there
_EXACT_NUMBERS = ("smallint", "integer", "bigint", "numeric")
_LARGEST_FLOAT = Decimal(2**53)
_BLUR = timedelta(seconds=1)  # SQLite's Julian days are not exact
_MARK = "\x01"
_WIDEST = 4  # bytes that a letter takes in UTF-8


@dataclass(frozen=True, slots=True)
class Column:
    """A column as SQL and with its declared type."""

    sql: str
    type: str


@dataclass(frozen=True, slots=True)
class FilterSQL:
    may: tuple[str, ...]  # all of these hold for every match
    surely: tuple[str, ...]  # where all of these hold, it is a match
    values: dict[str, tuple[object, str]]  # of the placeholders, each with its type on Postgres

    @property
    def is_exact(self) -> bool:
        return self.may == self.surely

    @property
    def may_be_sure(self) -> bool:
        """Whether it depends on the row; else all rows are sure, or none."""
        return bool(self.surely) and FALSE not in self.surely

    @property
    def unsure(self) -> tuple[str, ...]:
        """Conditions of the rows that have to be judged in memory."""
        return (*self.may, f"NOT (({' AND '.join(self.surely) or TRUE}) IS TRUE)")


def placeholder(name: str) -> str:
    return f"{_MARK}{name}{_MARK}"


def placed(sql: str, spell: Callable[[str], str]) -> str:
    """The SQL with each placeholder spelled as the statement needs it."""
    return re.sub(f"{_MARK}(\\w+){_MARK}", lambda match: spell(match[1]), sql)


def filter_sql(where: Filter, role: Roles, columns: Callable[[str], Column], *, on_postgres: bool) -> FilterSQL:
    """Everything but the states. `columns` gives a column by its name in the table."""
    made = _Postgres(role, columns) if on_postgres else _SQLite(role, columns)
    both = [made.both(asked) if few else UNKNOWN for asked, few in _budgeted(where.every)]
    may = tuple(dict.fromkeys(may for may, _ in both if may != TRUE))
    surely = tuple(dict.fromkeys(surely for _, surely in both if surely != TRUE))
    return FilterSQL(may, surely, made.values)


def _budgeted(every: Iterable[Criterion]) -> Iterator[tuple[Criterion, bool]]:
    """Each criterion, and whether the statement still has room for it; the others are judged in memory."""
    room = _MOST_CHOICES
    for asked in every:
        size = max(1, len(asked.choices) + len(asked.numbers))
        if fits := size <= room:
            room -= size
        yield asked, fits


def _any(conditions: Iterable[str]) -> str:
    found = list(dict.fromkeys(one for one in conditions if one != FALSE))
    if TRUE in found:
        return TRUE
    return f"({' OR '.join(found)})" if found else FALSE


_Both = tuple[str, str]


def _either(choices: Sequence[_Both]) -> _Both:
    return _any(may for may, _ in choices), _any(surely for _, surely in choices)


def _denied(asked: _Both) -> _Both:
    """A missing value makes a condition neither true nor false; an exclusion keeps such entries."""
    may, surely = asked
    return _not(surely), _not(may)


def _not(condition: str) -> str:
    return {TRUE: FALSE, FALSE: TRUE}.get(condition) or f"NOT ({condition} IS TRUE)"


UNKNOWN: _Both = (TRUE, FALSE)


def like(pieces: Sequence[str]) -> str:
    return "%".join(re.sub(f"([%_{ESCAPE}])", rf"{ESCAPE}\1", piece) for piece in pieces)


@dataclass(slots=True)
class _Dialect:
    """The conditions of one statement, and the values they take."""

    role: Roles
    columns: Callable[[str], Column]
    values: dict[str, tuple[object, str]] = field(default_factory=dict)

    def bind(self, value: object, kind: str) -> str:
        name = f"f{len(self.values)}"
        self.values[name] = (value, kind)
        return placeholder(name)

    def both(self, asked: Criterion) -> _Both:
        made = self._asked(asked)
        return _denied(made) if asked.negated else made

    def _asked(self, asked: Criterion) -> _Both:
        match asked.field:
            case "text":
                return self._found(asked.choices[0])
            case "error":
                return self._in_error(asked)
            case "age":
                assert isinstance(asked.limit, datetime)
                return self.moment(self.columns(self.role.moment), asked.sign, asked.limit)
            case "qty" | "price" | "tries":
                return self._number(asked)
            case "id":
                names = (self.role.identity, self.role.cid)
                return UNKNOWN if asked.asks_for_nothing else self._whole(asked, tuple(filter(None, names)))
            case "verb":
                usual = any(choice.fits(USUAL_VERB) for choice in asked.choices)  # of an action that says none
                return UNKNOWN if usual else self._in_action(asked, ("action",), asked.choices)
            case name if name.startswith(ACTION):
                words = [one for one in asked.choices if not (one.is_literal and number(one.pieces[0]) is not None)]
                values = words if len(words) == len(asked.choices) else ()  # a number can be spelled in many ways
                return self._in_action(asked, name.removeprefix(ACTION).split("."), values)
            case name:
                return self._whole(asked, text_columns(name, self.role))

    def _whole(self, asked: Criterion, names: tuple[str, ...]) -> _Both:
        """One of the columns has one of the values."""
        if not names:
            return (TRUE, TRUE) if asked.asks_for_nothing else (FALSE, FALSE)
        held = [self.columns(name) for name in names]
        choices = [self.text(column, one) for one in asked.choices if not one.is_nothing for column in held]
        if asked.asks_for_nothing:
            empty = [self.nothing(column) for column in held]
            choices.append((f"({' AND '.join(may for may, _ in empty)})", f"({' AND '.join(s for _, s in empty)})"))
        return _either(choices)

    def _in_error(self, asked: Criterion) -> _Both:
        if len(self.role.errors) != 1 or asked.asks_for_nothing or any(map(self._may_be_masked, asked.choices)):
            return UNKNOWN
        column = self.columns(self.role.errors[0])
        spelled = [Pattern(("", *one.pieces, "")) if one.is_literal else one for one in asked.choices]
        both = _either([self.text(column, one) for one in spelled])
        return both if self.role.layout == ORDERS else (both[0], FALSE)

    def _in_action(self, asked: Criterion, keys: Sequence[str], values: Sequence[Pattern]) -> _Both:
        """What stands in the text of every action that fits: its keys, and one of the values where there are any.

        Nothing is sure of it. JSON may spell any letter by an escape, so that what has one has to be read.
        """
        if asked.asks_for_nothing or self.role.layout != ORDERS:
            return UNKNOWN
        column = self.columns(ACTION_COLUMN)
        told = [[Pattern((fold(key),))] for key in keys if key]
        every = []
        for texts in (*told, values) if values else told:
            found = _any(self.text(column, Pattern(("", *one.pieces, "")))[0] for one in texts)
            if found != TRUE:
                every.append(_any((found, self.escapes(column))))
        return (" AND ".join(every), FALSE) if every else UNKNOWN

    def _found(self, text: Pattern) -> _Both:
        if text.is_nothing:
            return TRUE, TRUE
        if self._may_be_masked(text):
            return UNKNOWN
        role = self.role
        within = [self.columns(name) for name in (*role.errors, role.market) if name]
        wholly = [self.columns(name) for name in (role.identity, role.cid) if name]
        inside = Pattern(("", *text.pieces, ""))
        both = _either([*(self.text(one, inside) for one in within), *(self.text(one, text) for one in wholly)])
        return both if role.layout == ORDERS else (both[0], FALSE)

    def _may_be_masked(self, asked: Pattern) -> bool:
        """Whether it could be found in what stands for a credential, which the database does not know."""
        return self.role.layout != ORDERS and any(map(_overlaps_mask, asked.pieces))

    def _number(self, asked: Criterion) -> _Both:
        name = number_column(asked.field, self.role)
        try:
            column = self.columns(name)
        except KeyError:
            found = asked.sign == ":" and asked.asks_for_nothing
            return (TRUE, TRUE) if found else (FALSE, FALSE)
        if asked.asks_for_nothing:
            return UNKNOWN
        limits = asked.numbers if asked.sign == ":" else (asked.limit,)
        sign = "=" if asked.sign == ":" else f"{asked.sign.rstrip('=')}="
        return _any(self.number(column, sign, one) for one in limits if isinstance(one, Decimal)), FALSE

    def text(self, column: Column, asked: Pattern) -> _Both:
        raise NotImplementedError

    def escapes(self, column: Column) -> str:
        """True of a text with a backslash in it."""
        raise NotImplementedError

    def nothing(self, column: Column) -> _Both:
        raise NotImplementedError

    def moment(self, column: Column, sign: str, limit: datetime) -> _Both:
        raise NotImplementedError

    def number(self, column: Column, sign: str, limit: Decimal) -> str:
        """A condition that every equal or larger (smaller) number fulfils."""
        raise NotImplementedError


def _overlaps_mask(piece: str) -> bool:
    """Whether a match of it could begin or end within the mask."""
    mask = MASKED.casefold()
    cuts = range(1, len(mask) + 1)
    return piece in mask or mask in piece or any(piece.startswith(mask[-n:]) or piece.endswith(mask[:n]) for n in cuts)


def _is_ascii(asked: Pattern) -> bool:
    return all(piece.isascii() and "\0" not in piece for piece in asked.pieces)


def _filled(held: str, asked: Pattern) -> str:
    """A star alone stands for any value, and an empty text is none."""
    return "" if any(asked.pieces) else f" AND {held} <> ''"


def _size(asked: Pattern) -> int:
    return sum(map(len, asked.pieces))


class _SQLite(_Dialect):
    """LIKE and NOCASE know the case of ASCII letters alone, and stop at a NUL."""

    def text(self, column: Column, asked: Pattern) -> _Both:
        held, odd = column.sql, self._odd(column, asked)
        if not _is_ascii(asked):
            return odd, FALSE
        if _size(asked) > _LONGEST:
            return UNKNOWN
        if asked.is_literal:
            equal = f"{held} = {self.bind(asked.pieces[0], 'text')} COLLATE NOCASE"
        else:
            equal = f"{held} LIKE {self.bind(like(asked.pieces), 'text')} ESCAPE '{ESCAPE}'{_filled(held, asked)}"
        return f"({equal} OR {odd})", f"({equal} AND typeof({held}) = 'text')"

    def _odd(self, column: Column, asked: Pattern) -> str:
        """True of a value that is no text, or has a NUL, other letters than ASCII's or broken bytes, and might fit.

        Numbers sort before every text and bytes after it, which costs less than typeof. Folding makes no text shorter.
        Broken bytes are shown as escapes, so that they fit only what has a backslash.
        """
        held = column.sql
        kind = f"{held} >= x''" if sqlite_affinity(column.type) == "text" else f"{held} >= x'' OR {held} < ''"
        wide = f"length(CAST({held} AS BLOB)) <> length({held})"
        if asked.is_literal:
            wide = f"(length({held}) <= {_size(asked)} AND {wide})"
        if any("\\" in piece for piece in asked.pieces) or not any(asked.pieces):
            wide = f"{wide} OR {held} GLOB '*[^' || char(1) || '-' || char(127) || ']*'"
        return f"({kind} OR {wide})"

    def escapes(self, column: Column) -> str:
        return f"instr({column.sql}, char(92))"

    def nothing(self, column: Column) -> _Both:
        return f"({column.sql} IS NULL OR {column.sql} = '' OR typeof({column.sql}) = 'blob')", (
            f"({column.sql} IS NULL OR {column.sql} = '')"
        )

    def moment(self, column: Column, sign: str, limit: datetime) -> _Both:
        """Julian days have a margin on both sides; what SQLite reads as a time and Python does not is not sure."""
        at = f"coalesce(julianday({column.sql}), dlq_julianday({column.sql}))"
        later, wide, narrow = sign.startswith(">"), ">=", ">"
        if not later:
            wide, narrow = "<=", "<"
        try:
            before, after = (limit - _BLUR, limit + _BLUR) if later else (limit + _BLUR, limit - _BLUR)
        except OverflowError:
            return UNKNOWN
        may = f"{at} {wide} julianday({self._day(before)})"
        day, rest = f"{column.sql} GLOB '[12][0-9][0-9][0-9]-[01][0-9]-[0-2][0-9]T", ":[0-5][0-9]:[0-5][0-9]*'"
        plain = f"({day}[01][0-9]{rest} OR {day}2[0-3]{rest}) AND {column.sql} NOT LIKE '%-02-29T%'"
        zoned = f"({column.sql} LIKE '%Z' OR {column.sql} GLOB '*[-+][0-2][0-9]:[0-5][0-9]')"
        return may, f"({at} {narrow} julianday({self._day(after)}) AND {plain} AND {zoned})"

    def _day(self, at: datetime) -> str:
        return self.bind(at.astimezone(UTC).isoformat(), "text")

    def number(self, column: Column, sign: str, limit: Decimal) -> str:
        if abs(limit) > _LARGEST_FLOAT:
            return TRUE
        # The nearest float of a larger number is not smaller, so nothing is lost by comparing floats.
        held, asked = column.sql, self.bind(float(limit), "double precision")
        return f"({held} {sign} {asked} OR typeof({held}) NOT IN ('integer', 'real', 'null'))"


class _Postgres(_Dialect):
    def text(self, column: Column, asked: Pattern) -> _Both:
        if not column.type.startswith(_SPELLED_ALIKE) or column.type.endswith("[]"):
            return UNKNOWN
        held = _text(column)
        if not _is_ascii(asked):
            return _other_letters(held), FALSE
        if _size(asked) > _LONGEST:
            return UNKNOWN
        folded = f'lower({held} COLLATE "C")'
        if asked.is_literal:
            # Most rows are told by their bytes or by their length, which takes less than folding them.
            value = self.bind(asked.pieces[0], "text")
            size = _size(asked)
            equal = f'{held} COLLATE "C" = {value} OR octet_length({held}) = {size} AND {folded} = {value}'
            # What folds to ASCII letters has no more letters than they are, and in UTF-8 no fewer bytes.
            odd = _other_letters(held, f"octet_length({held}) BETWEEN {size} AND {_WIDEST * size} AND ")
        else:
            odd = _other_letters(held)
            equal = f"{folded} LIKE {self.bind(like(asked.pieces), 'text')} ESCAPE '{ESCAPE}'{_filled(held, asked)}"
        return f"({equal} OR {odd})", f"({equal})"

    def escapes(self, column: Column) -> str:
        return f"strpos({_text(column)}, chr(92)) > 0"

    def nothing(self, column: Column) -> _Both:
        if not column.type.startswith(_SPELLED_ALIKE) or column.type.endswith("[]"):
            return UNKNOWN
        empty = f"coalesce({_text(column)}, '') = ''"
        return empty, empty

    def moment(self, column: Column, sign: str, limit: datetime) -> _Both:
        if not column.type.startswith(TIME_TYPES) or column.type == "date":
            return UNKNOWN
        # Python knows no year after 9999, and no infinite time.
        end = "< '9999-12-31 00:00:00+00'" if sign.startswith(">") else "> '0001-01-02 00:00:00+00'"
        both = f"({column.sql} {sign} {self.bind(limit, 'timestamptz')} AND {column.sql} {end})"
        return both, both

    def number(self, column: Column, sign: str, limit: Decimal) -> str:
        if column.type.startswith(_EXACT_NUMBERS):
            return f"{column.sql} {sign} {self.bind(limit, 'numeric')}"
        if column.type == "double precision" and abs(limit) <= _LARGEST_FLOAT:
            return f"{column.sql} {sign} {self.bind(float(limit), 'double precision')}"
        return TRUE


def _other_letters(held: str, if_utf8: str = "") -> str:
    """True of a text with other letters than ASCII's; in UTF-8 they take several bytes, which is told much faster.

    `if_utf8`: what else holds there, and is told faster still.
    """
    searched = f"{held} COLLATE \"C\" ~ ('[^' || chr(1) || '-' || chr(127) || ']')"
    in_utf8 = "(SELECT getdatabaseencoding() = 'UTF8')"  # asked once a query
    return f"CASE WHEN {in_utf8} THEN {if_utf8}octet_length({held}) <> length({held}) ELSE {searched} END"


def _text(column: Column) -> str:
    return column.sql if column.type.startswith(_TEXTS) else f"CAST({column.sql} AS text)"
