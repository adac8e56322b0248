"""One row of a plan in full: the order as it goes on the wire, or why it stays, and the entry it comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from console.render import value
from console.render.line import Line, columns, line, trusted, untrusted
from console.render.order_text import market_text, order_text
from console.render.plan import worth_text
from console.services.json_lines import json_value
from console.services.layout_fields import error_text, layout_of, occurred_at
from console.text.durations import long_age
from console.text.untrusted import safe

if TYPE_CHECKING:
    from backends.records import Entry
    from console.services.replay.plan import Blocked, Step
    from console.services.replay.target import SendPlan

_LONGEST_ERROR = 1000
Rows = Iterator[tuple[str, Line]]


def row_lines(plan: SendPlan, entry_id: str, entry: Entry | None, now: datetime) -> list[Line]:
    """Everything the plan knows of this entry, then the entry itself."""
    from console.services.replay.plan import ReplayPlan

    rows: list[tuple[str, Line]] = [("entry", line(untrusted(entry_id, limit=80)))]
    if isinstance(plan, ReplayPlan):
        for step in plan.steps:
            if step.command.entry_id == entry_id:
                rows += _step_rows(step, plan.mode)
        for blocked in plan.blocked:
            if blocked.entry_id == entry_id:
                rows += _blocked_rows(blocked)
        for one in plan.superseded:
            if one.entry_id == entry_id:
                rows.append(("collapses", line(untrusted(f"into {one.by}, which stands for it", limit=120))))
    else:
        told = {one.entry_id: one.detail for one in plan.held}
        if entry_id in told:
            rows.append(("stays", line(untrusted(told[entry_id] or "", "warning", limit=500))))
    return columns([*rows, *_entry_rows(entry, now)])


def _step_rows(step: Step, mode: str) -> Rows:
    command = step.command
    yield "sends", line(trusted(order_text(command.action, step.worth.currency), "strong"))
    place = value.place(command.venue, command.account, step.account)
    tone = line(trusted(f"{mode.upper()}  ", "danger" if mode == "live" else "accent"))
    yield "to", (*tone, trusted(f"{place} at {safe(step.host, 100)}"))
    yield "client id", line(untrusted(command.client_order_id, limit=100))
    if command.action.verb != "cancel":
        yield "worth", line(trusted(worth_text(step) or "not known"))
    if market := market_text(step.worth):
        yield "market", line(trusted(market))
    yield from _wire(step.order)
    for guard in step.passed:
        yield "overridden", line(untrusted(f"{guard.code}: {guard.text}", "warning", limit=300))
    for note in command.notes:
        yield "note", line(untrusted(note, limit=300))


def _wire(order: Mapping[str, object]) -> Rows:
    """Every term as it goes out, by its neutral name."""
    for number, (name, held) in enumerate((name, held) for name, held in order.items() if held is not None):
        text = f"{name} {json_value(name, held)}"
        yield ("on the wire" if not number else ""), line(untrusted(text, limit=300))


def _blocked_rows(blocked: Blocked) -> Rows:
    for guard in blocked.guards:
        more = " (ctrl+o overrides it)" if guard.overridable else ""
        yield "stays", line(untrusted(f"{guard.code}: {guard.text}{more}", "warning", limit=500))
    if blocked.planned.order:
        yield from _wire(blocked.planned.order)


def _entry_rows(entry: Entry | None, now: datetime) -> Rows:
    if entry is None:
        yield "entry", line(trusted("not read: it is gone, or the store does not answer", "dim"))
        return
    yield "order", line(trusted(value.order(entry)))
    if layout_of(entry).has_modes:
        place = value.place(entry.text("venue_name"), entry.text("account_id") or None)
        yield "belongs to", line(trusted(place))
    if (at := occurred_at(entry)) is not None:
        yield "captured", line(trusted(f"{value.moment(at)}, {long_age(at, now)} ago"))
    yield "error", line(untrusted(error_text(entry), limit=_LONGEST_ERROR))
