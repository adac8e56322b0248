"""What a replay of entries that are no orders would do, as its gate shows it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.render import value
from console.render.line import Line, columns, line, trusted, untrusted
from console.render.plan import every_one
from console.text.untrusted import safe

if TYPE_CHECKING:
    from backends.records import Entry
    from console.services.replay.outcome import EntryOutcome
    from console.services.resend.plan import ResendPlan, ResendRoute

_ROUTES = 4
_REAL = "real in PAPER too: this layout has no paper mode"
_ROW = {"delete": "the row is deleted", "soft-delete": "the row is marked as deleted"}
_SUBJECT = 44  # characters of what an entry is about: a line each, even at 80 columns


def handover_lines(plan: ResendPlan, *, rows: int) -> list[Line]:
    """The summary first, then each entry: those that go, then those that stay with their reasons."""
    summary: list[tuple[str, Line]] = [("goes to", route_line(plan))]
    summary += [("", _route(plan, route)) for route in plan.routes[1:_ROUTES]]
    if len(plan.routes) > _ROUTES:
        summary.append(("", line(trusted(f"… and {len(plan.routes) - _ROUTES} more", "dim"))))
    summary.append(("will be sent", line(trusted(f"{len(plan.going):d}", "strong"), trusted(_pace(plan), "dim"))))
    summary += [("held", _held(route)) for route in plan.routes if route.held is not None]
    if plan.left:
        summary.append(
            ("blocked", line(trusted(f"{len(plan.left):d}", "warning"), trusted("   left out, see below", "dim")))
        )
    if plan.going:
        summary.append(("on success", line(trusted(_success(plan)))))
        summary.append(("mode", line(trusted(_REAL, "warning"))))
    lines = columns(summary)
    lines.append(())
    return [*lines, *every_one([*map(_going, plan.going)], [*map(_left, plan.left)], rows)]


def route_line(plan: ResendPlan) -> Line:
    return _route(plan, plan.routes[0]) if plan.routes else line(trusted("nowhere", "dim"))


def _route(plan: ResendPlan, route: ResendRoute) -> Line:
    name, place = safe(route.name, 60), safe(route.place, 80)
    match plan.kind:
        case "outbox":
            words = f"queue {name}, by a new row of {place}"
        case "hub":
            words = f"{name}, sent by the hub at {place}"
        case _:
            words = f"{name} at {place}"
    return line(trusted(f"{route.entries:d}", "strong"), trusted("   "), trusted(words))


def _held(route: ResendRoute) -> Line:
    wait = max(1, round(route.held or 0))
    return line(
        trusted(f"{safe(route.name, 60)}: its breaker is open, the first try is held for {wait:d} s", "warning")
    )


def _pace(plan: ResendPlan) -> str:
    return "   one at a time at each provider" if plan.kind == "provider" else ""


def _success(plan: ResendPlan) -> str:
    if plan.kind == "outbox":
        return f"settled as replayed; the dead-lettered row {'is deleted' if plan.after else 'stays'}"
    settled = "gone from the hub" if plan.kind == "hub" else _ROW.get(plan.after or "", "settled as replayed")
    return f"{settled}; a failed one counts a try more"


def _going(entry: Entry) -> Line:
    return line(
        trusted(" ✓ ", "good"),
        trusted(f"{safe(entry.id, 40)}  "),
        trusted(safe(value.order(entry), _SUBJECT), "strong"),
    )


def _left(one: EntryOutcome) -> Line:
    return line(
        trusted(" ✗ ", "warning"),
        trusted(f"{safe(one.entry_id, 40)}  "),
        untrusted(one.detail or "", "warning", limit=300),
    )
