"""Lines of a group of like failures: its row in the list, and its story. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from backends.records import Note
from console.render.line import Cell, Line, fit, line, spread, text_width, trusted, untrusted, width
from console.render.status import sparkline
from console.render.value import amounts, group_title, many, moment, short_value
from console.services.market.entry_value import VenueTypes, by_currency
from console.services.stats.group_trend import DAY
from console.text.durations import age, long_age
from console.text.untrusted import safe

if TYPE_CHECKING:
    from backends.index import Cross
    from console.services.layout_fields import LayoutFields
    from console.services.stats.group_trend import TrendWindow
    from console.services.stats.groups import Group

_BAR = 16
_MOST_PARTS = 200  # the most that the screen asks for
_UNITS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


class _Columns(NamedTuple):
    """The columns that fit the width; `bars`: steps of the trend; `wide`: tries and first seen, too."""

    origin: int
    bars: int
    wide: bool
    money: bool
    category: bool
    maybe: bool

    @property
    def taken(self) -> int:
        """The room of all columns but the error."""
        return 26 + self.origin + self.bars + 12 * self.wide + 12 * self.money + 13 * self.category + 7 * self.maybe


class GroupLook(NamedTuple):
    """What a group's row depends on beside the group. `anything_seen`: the operator has looked at groups before, so
    an unseen group is marked as new."""

    anything_seen: bool = False
    marked: bool = False
    types: VenueTypes = MappingProxyType({})


class Story(NamedTuple):
    """A group with its split and notes; None: not read yet."""

    group: Group
    split: tuple[Cross, ...] | None = None
    notes: tuple[Note, ...] | None = None
    types: VenueTypes = MappingProxyType({})


def _columns(size: int, layout: LayoutFields) -> _Columns:
    bars = 24 if size >= 140 else 12 if size >= 100 else 8
    wide = size >= 100
    origin = 22 if size >= 180 else 10
    return _Columns(origin, bars, wide, wide and layout.has_worth, size >= 140, wide and layout.has_modes)


def group_header(size: int, layout: LayoutFields, window: TrendWindow = DAY) -> Line:
    has = _columns(size, layout)
    maybe = f"{'MAYBE':>5}  " if has.maybe else ""
    kind = f"{'CATEGORY':<11}  " if has.category else ""
    tries = f"{'TRY':>4} {'NOTIONAL':>11}" if has.money else f"{'TRIES':>5}"
    wide = f"{tries}{' ' * (2 if has.money else 1)}{'FIRST':>5} " if has.wide else ""
    error, origin = fit("ERROR", max(10, size - has.taken)), fit(layout.words.origin.upper(), has.origin)
    text = f"{'COUNT':>8} {'NEW':>5}  {error}  {origin}  {maybe}{kind}{wide}{'LAST':>4}  IN {window.word.upper()}"
    return (trusted(fit(text, size), "dim"),)


def group_line(
    group: Group,
    now: datetime,
    size: int,
    layout: LayoutFields,
    *,
    how: GroupLook = GroupLook(),  # noqa: B008 - immutable
) -> Line:
    has = _columns(size, layout)
    kind = f"{group.category:<11}  " if has.category else ""
    tries, worth = short(Decimal(group.retries)), _largest(by_currency(group.worth, how.types))
    wide = (f"{tries:>4} {fit(worth, 11, right=True)}  " if has.money else f"{tries:>5} ") if has.wide else ""
    first, last = (age(at, now) if at else "?" for at in (group.first_seen, group.last_seen))
    first = f"{first:>5} " if has.wide else ""
    room, signs = max(10, size - has.taken), _signs(group, has)
    maybe = short(Decimal(group.may_have_arrived)) if group.may_have_arrived else ""
    return (
        trusted("●" if how.marked else " ", "accent"),
        trusted(f"{group.count:>7,} ", "strong"),
        trusted(f"{_new(group, anything_seen=how.anything_seen):>5}  ", "accent"),
        *signs,
        Cell(fit(group_title(group.title), max(1, room - width(signs)))),
        Cell(f"  {fit(_origins(group, has.origin), has.origin)}  ", "dim"),
        *((trusted(f"{maybe:>5}  ", "warning"),) if has.maybe else ()),
        trusted(f"{kind}{wide}{first}{last:>4}  ", "dim"),
        trusted(sparkline(bars(group.trend, has.bars)), "accent"),
    )


def _signs(group: Group, has: _Columns) -> Line:
    """What stands before the title: poison, what may have arrived where it has no column of its own, notes."""
    signs = []
    if group.poisoned:
        signs.append(trusted(f"{_poisoned(group)}  ", "danger"))
    if group.may_have_arrived and not has.maybe:
        signs.append(trusted(f"≈{short(Decimal(group.may_have_arrived))} ", "warning"))
    if group.notes:
        signs.append(trusted(f"✎{group.notes:,} ", "accent"))
    return tuple(signs)


def _poisoned(group: Group) -> str:
    """How many failed the same way too often; empty where none did."""
    return f"{short(Decimal(group.poisoned))} poisoned" if group.poisoned else ""


def _new(group: Group, *, anything_seen: bool) -> str:
    if group.new is None:
        return "NEW" if anything_seen else ""
    return f"+{short(Decimal(group.new))}" if group.new else ""


def _origins(group: Group, room: int) -> str:
    """The venue, queue or provider with most entries, and how many others."""
    names = list(group.venues)
    if not names:
        return "–"
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return fit(safe(names[0], 60), room - len(more)).rstrip() + more


def _largest(worth: Mapping[str, Decimal]) -> str:
    """`232k USDT+`: the currency with most; a plus where there are others, which are not added to it."""
    if not worth:
        return short(Decimal(0))
    currency, amount = next(iter(worth.items()))
    return f"{short_value(amount, currency or None, 10)}{'+' if len(worth) > 1 else ''}"


def short(amount: Decimal) -> str:
    """The amount in at most seven characters: `950`, `12.3k`, `4.56M`."""
    for unit, letter in _UNITS:
        if amount >= unit:
            scaled = amount / unit
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f}{letter}"
    return f"{amount:.0f}"


def bars(trend: Sequence[int], count: int) -> tuple[int, ...]:
    """The trend in fewer steps over the same time."""
    step = max(1, -(-len(trend) // count))
    return tuple(sum(trend[at : at + step]) for at in range(0, len(trend), step))


def story_lines(story: Story, now: datetime, size: int, layout: LayoutFields, *, is_known: bool = True) -> list[Line]:
    """The group in full: title, counts, where it happens and notes."""
    group, poisoned = story.group, _poisoned(story.group)
    states = [f"{count:,} {state.replace('_', ' ')}" for state, count in group.states.items()]
    if not is_known:
        states, poisoned = ["states unknown"], "poisoned unknown"
    unpriced = f" ({group.unpriced:,} without a value)" if group.unpriced else ""
    held = by_currency(group.worth, story.types)
    named = {currency or "of no known currency": amount for currency, amount in held.items()}
    worth = [f"notional {amounts(named, longest=20)}{unpriced}"] if layout.has_worth else []
    facts = " · ".join([group.category, *states])
    maybe = f" · {group.may_have_arrived:,} may have arrived" if group.may_have_arrived else ""
    rest = " · ".join(["", many(group.retries, "retry" if layout.has_worth else "try"), *worth])
    lines = [
        spread(
            line(trusted(safe(group.title, 300), "strong")),
            line(untrusted(f"group:{group.fingerprint}", "dim", limit=60)),
            size,
        ),
        line(
            trusted(facts, "dim"),
            *((trusted(maybe, "warning"),) if maybe else ()),
            untrusted(rest, "dim", limit=300),
            *((trusted(f" · {poisoned}", "danger"),) if poisoned else ()),
        ),
        line(trusted(f"first {_when(group.first_seen, now)} · last {_when(group.last_seen, now)}", "dim")),
    ]
    lines += _notes(story.notes)
    if story.split is None:
        return [*lines, line(trusted("reading where it happens …", "dim"))]
    counted = sum(part.count for part in story.split)
    if counted < group.count and len(story.split) < _MOST_PARTS:
        lines.append(line(trusted(f"where the newest {counted:,} of {group.count:,} happened", "warning")))
    return [*lines, *split_lines(story.split, size, layout)]


def _when(at: datetime | None, now: datetime) -> str:
    return "?" if at is None else f"{long_age(at, now)} ago, {at:%Y-%m-%d %H:%MZ}"


def _notes(notes: tuple[Note, ...] | None) -> list[Line]:
    return [
        line(
            trusted("note  ", "accent"),
            trusted(f"{moment(note.at)}  ", "dim"),
            untrusted(f"{note.operator}  ", "dim", limit=40),
            untrusted(" ".join(note.text.split()), limit=2000),
        )
        for note in notes or ()
    ]


def split_lines(split: Sequence[Cross], size: int, layout: LayoutFields) -> list[Line]:
    """The split by what this layout's entries have, largest first, with a bar for each share."""
    most, titles = max((part.count for part in split), default=1), layout.words.split
    told = [
        [safe(name, 80) or "–" for name in (part.venue, part.account, part.market)[: len(titles)]] for part in split
    ]
    sizes = _split_sizes(told, size)
    head = "  ".join([*(fit(title, room) for title, room in zip(titles, sizes, strict=False)), f"{'COUNT':>8}"])
    lines = [line(trusted(head, "dim"))] if split else []
    for part, names in zip(split, told, strict=True):
        where = "  ".join(fit(name, room) for name, room in zip(names, sizes, strict=True))
        lines.append(
            (Cell(where), trusted(f"  {part.count:>8,}  ", "strong"), trusted(bar(part.count, most, _BAR), "accent"))
        )
    return lines


def _split_sizes(told: Sequence[Sequence[str]], size: int) -> list[int]:
    """Columns of one width; a longer name takes what the others do not need."""
    needed = [max(10, *map(text_width, column)) for column in zip(*told, strict=True)]
    sizes = [max(10, min(24, (size - 12 - _BAR) // 3 - 2))] * len(needed)
    while lacks := [need - has for need, has in zip(needed, sizes, strict=True)]:
        if max(lacks) <= 0 or min(lacks) >= 0:
            break
        sizes[lacks.index(max(lacks))] += 1
        sizes[lacks.index(min(lacks))] -= 1
    return sizes


def bar(count: int, most: int, size: int) -> str:
    """A bar in eighths of a cell; a count above zero is always visible."""
    eighths = max(1, round(8 * size * count / most)) if count and most else 0
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
