"""Columns of a queue, and what entries that are no orders show in theirs: an outbox's messages, a hub's calls. Pure."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from backends.records import Entry
from console.render import value
from console.render.line import Tone
from console.services import layout_fields as of
from console.text.durations import span
from console.text.untrusted import safe

_WIDE = 104
_SOON_DAYS = 3  # of retention left


class Column(NamedTuple):
    title: str
    size: int
    right: bool = False


class Layout(NamedTuple):
    columns: tuple[Column, ...]
    gap: str


@lru_cache(maxsize=32)
def columns(size: int, kind: str) -> Layout:
    """What the operator judges by comes first; the error gets all that is left."""
    wide = size >= _WIDE
    first, last = _outbox(size) if kind == of.OUTBOX else _integration(size)
    gap = "  " if wide else " "
    chosen, tail = [Column("AGE", 4, right=True), *first], [*last, Column("STATE", 9)]
    taken = sum(column.size + len(gap) for column in (*chosen, *tail)) + 3
    return Layout((*chosen, Column("ERROR", max(8, size - taken)), *tail), gap)


def _outbox(size: int) -> tuple[list[Column], list[Column]]:
    wide = size >= _WIDE
    first = [Column("QUEUE", 16 if wide else 11), Column("REASON", 14)]
    if size >= 140:
        first.append(Column("MESSAGE", 30))
    if not wide:
        return first, [Column("DELIV", 5, right=True)]
    return first, [Column("TOOK", 5, right=True), Column("DELIVERIES", 10, right=True)]


def _integration(size: int) -> tuple[list[Column], list[Column]]:
    wide = size >= _WIDE
    first = [Column("PROVIDER", 14 if wide else 9)]
    if size >= 90:
        first.append(Column("TENANT", 10))
    first.append(Column("REQUEST", 28 if wide else 16))
    return first, [Column("TRIES", 5, right=True), Column("DAYS LEFT" if wide else "LEFT", 9 if wide else 4, True)]


def shown(entry: Entry, title: str, now: datetime) -> tuple[str, Tone] | None:
    """The cell of a column that orders do not have; None for those that all layouts share."""
    settled: Tone = "dim" if entry.state in ("replayed", "dismissed") else "plain"
    match title:
        case "QUEUE" | "PROVIDER":
            return safe(of.origin(entry), 40), settled
        case "ERROR" if entry.layout == of.OUTBOX and not of.text(entry, "last_exception"):
            return "no exception", "dim"
        case "REASON":
            return safe(of.text(entry, "failure_reason"), 40), settled
        case "MESSAGE" | "REQUEST":
            return value.order(entry), "strong" if settled == "plain" else settled
        case "TENANT":
            return safe(of.text(entry, "tenantId"), 40) or "–", "dim"
        case "TOOK":
            took = of.time_to_failure(entry)
            return span(took) if took is not None else "?", "dim"
        case "DELIV" | "DELIVERIES" | "TRIES":
            return _count(entry)
        case "LEFT" | "DAYS LEFT":
            return _left(entry, now)
        case _:
            return None


def _count(entry: Entry) -> tuple[str, Tone]:
    held = of.value(entry, "deliveries_count" if entry.layout == of.OUTBOX else "attempts")
    return safe("?" if held is None else str(held), 10), "dim"


def _left(entry: Entry, now: datetime) -> tuple[str, Tone]:
    days = of.days_left(entry, now)
    if days is None:
        return "?", "dim"
    return f"{days}d" if days else "due", "warning" if days <= _SOON_DAYS else "dim"
