"""A replay plan as its gate shows it: what goes where, what does not and why, what it is worth. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.render import value
from console.render.line import HANG, Line, Tone, columns, line, trusted, untrusted
from console.render.order_text import market_text, order_text
from console.text.untrusted import safe

if TYPE_CHECKING:
    from backends.records import Entry
    from console.services.market.exposure import Exposure
    from console.services.replay.outcome import EntryOutcome
    from console.services.replay.plan import Blocked, ReplayPlan, Step
    from console.services.replay.target import Renewal, SendPlan
    from console.services.resend.plan import ResendPlan, ResendRoute


_MOST = 6


def send_lines(plan: SendPlan, *, rows: int = _MOST) -> list[Line]:
    """Any plan, in the words of its kind."""
    from console.services.replay.plan import ReplayPlan
    from console.services.resend.plan import ResendPlan

    match plan:
        case ReplayPlan():
            return plan_lines(plan, rows=rows)
        case ResendPlan(problem=str() as problem):
            return [line(trusted("nothing can be sent", "danger")), line(untrusted(problem, limit=500))]
        case ResendPlan():
            return resend_lines(plan, rows=rows)
    raise TypeError(f"no such plan: {type(plan).__name__}")


def plan_lines(plan: ReplayPlan, *, rows: int = _MOST) -> list[Line]:
    """The summary first, then each entry: sent ones as the venue will hear them, blocked ones with their reasons."""
    waves = ", then ".join(str(size) for size in plan.wave_sizes)
    sent = [trusted(str(len(plan.steps)), "strong"), trusted(f"   {waves}" if len(plan.wave_sizes) > 1 else "")]
    summary: list[tuple[str, Line]] = [
        ("goes to", _where(plan)),
        ("will be sent", line(*sent, trusted(_pace(plan), "dim"))),
    ]
    if plan.superseded:
        texts = [f"{safe(one.entry_id, 30)} by {safe(one.by, 30)}" for one in plan.superseded]
        summary.append(
            ("collapsed", line(trusted(str(len(plan.superseded)), "strong"), trusted(f"   {' · '.join(texts)}")))
        )
    if plan.blocked:
        summary.append(
            ("blocked", line(trusted(str(len(plan.blocked)), "warning"), trusted("   left out, see below", "dim")))
        )
    if plan.steps:
        summary.append(("exposure", _exposure(plan)))
        summary.append(("on success", line(trusted(_success(plan)))))
    if plan.rules:
        summary.append(("in force", line(untrusted("; ".join(plan.rules), "dim", limit=600))))
    if plan.needs_second:
        why = f"{plan.needs_second}: dlq approve {plan.hash}"
        summary.append(("needs", line(trusted("a second person  ", "warning"), untrusted(why, limit=200))))
    lines = columns(summary)
    lines.append(())
    return [*lines, *every_one([*map(_step, plan.steps)], [*map(_blocked, plan.blocked)], rows)]


def renewed_lines(shown: SendPlan, renewal: Renewal, seconds: float) -> list[Line]:
    """Why a plan stands where another one stood: the age of that one, and what is different now."""
    made, gone = renewal.plan, {one.entry_id for one in renewal.lost}
    stays = [one for one in shown.going_ids if one not in gone]
    parts = [f"{value.many(len(gone), 'order')} no longer go" + ("es" if len(gone) == 1 else "")] if gone else []
    if stays and not renewal.is_same:
        parts.append("what is sent, where to, or its worth is another")
    text = f"The plan was made again: it was {seconds:.0f} s old. Changed: {'; '.join(parts) or 'nothing'}."
    lines = [line(trusted(text, "warning"))]
    if not made.count:
        lines.append(line(trusted("Nothing of it goes any more.", "warning")))
    return [*lines, ()]


def every_one(sent: Sequence[Line], blocked: Sequence[Line], rows: int) -> list[Line]:
    """Of those to be sent `rows` stand above the blocked ones, so that these are seen; the rest below."""
    first = sent[:rows] if blocked else sent
    rest = sent[len(first) :]
    more = [line(trusted(f" … and {len(rest)} more to send, below", "dim"))] if rest else []
    return [*first, *more, *blocked, *rest]


def _where(plan: ReplayPlan) -> Line:
    tone: Tone = "danger" if plan.mode == "live" else "accent"
    kind = f"{plan.mode.upper()}{' rehearsal: no entry changes' if plan.rehearsal else ''}"
    hosts = ", ".join(f"{safe(name, 40)} at {safe(host, 80)}" for name, host in plan.hosts) or "nowhere"
    return line(trusted(f"{kind}  ", tone), trusted(hosts))


def _pace(plan: ReplayPlan) -> str:
    rates = [rate for _, rate in plan.rates if rate]
    return f"   at most {min(rates)} requests a minute" if rates else ""


def _success(plan: ReplayPlan) -> str:
    if plan.rehearsal:
        return "a rehearsal is recorded; the entry stays as it is, whatever the answer"
    return "each accepted entry is settled as replayed; on an unclear answer it stays, in doubt"


def _exposure(plan: ReplayPlan) -> Line:
    unpriced = sum(one.unpriced for one in plan.exposure)
    at_market = f"   {unpriced} without a value, not counted" if unpriced else ""
    markets = "  ".join(_market(one) for one in plan.exposure[:4])
    more = "  …" if len(plan.exposure) > 4 else ""
    return line(
        trusted(f"gross {value.amounts(plan.gross)}   net {value.amounts(plan.net, signed=True)}", "strong"),
        trusted(at_market, "warning"),
        trusted(f"   {markets}{more}", "dim"),
    )


def _market(one: Exposure) -> str:
    worth = "no value" if one.unpriced and not one.gross else value.money(one.net, signed=True)
    return f"{value.name(one.market)} {worth}"


def _step(step: Step) -> Line:
    notes = "; ".join((*(f"overridden: {code}" for code in step.overridden), *step.command.notes))
    market = market_text(step.worth)
    return line(
        trusted(" ✓ ", "good"),
        HANG,
        trusted("⚑exit " if step.worth.reduces else "", "accent"),
        trusted(order_text(step.command.action, step.worth.currency), "strong"),
        trusted(f"  {value.place(step.command.venue, step.command.account, step.account)}"),
        trusted(f"  {market}" if market else ""),
        trusted(f"  id {safe(step.command.client_order_id, 40)}", "dim"),
        untrusted(f"  {notes}" if notes else "", "dim", limit=200),
    )


def _blocked(one: Blocked) -> Line:
    return line(
        trusted(" ✗ ", "warning"),
        HANG,
        trusted(f"{safe(one.entry_id, 40)}  "),
        untrusted(one.text, "warning", limit=300),
    )


_ROUTES = 4
_REAL = "real in PAPER too: this layout has no paper mode"
_ROW = {
    "delete": "the row is deleted",
    "soft-delete": "the row is marked as deleted",
    "keep": "the row stays: its hub may retry it",
}
_FAILURE = "counts a try more; without a clear answer: in doubt"
_SUBJECT = 44  # characters of what an entry is about: a line each, even at 80 columns


def resend_lines(plan: ResendPlan, *, rows: int) -> list[Line]:
    """The summary first, then each entry: those that go, then those that stay with their reasons."""
    summary: list[tuple[str, Line]] = [("goes to", route_line(plan))]
    summary += [("", _route(plan, route)) for route in plan.routes[1:_ROUTES]]
    if len(plan.routes) > _ROUTES:
        summary.append(("", line(trusted(f"… and {len(plan.routes) - _ROUTES} more", "dim"))))
    summary.append(
        ("will be sent", line(trusted(f"{len(plan.going):d}", "strong"), trusted(_resend_pace(plan), "dim")))
    )
    summary += [("held", _held(route)) for route in plan.routes if route.held is not None]
    if plan.held:
        summary.append(
            ("blocked", line(trusted(f"{len(plan.held):d}", "warning"), trusted("   left out, see below", "dim")))
        )
    if plan.going:
        summary.append(("on success", line(trusted(f"{_resend_success(plan)}; z cannot undo it"))))
        if plan.kind != "outbox":
            summary.append(("on failure", line(trusted(_FAILURE))))
        summary.append(("mode", line(trusted(_REAL, "warning"))))
    lines = columns(summary)
    lines.append(())
    return [*lines, *every_one([*map(_going, plan.going)], [*map(_left, plan.held)], rows)]


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


def _resend_pace(plan: ResendPlan) -> str:
    return "   one at a time at each provider" if plan.kind == "provider" else ""


def _resend_success(plan: ResendPlan) -> str:
    match plan.kind:
        case "outbox":
            return f"replayed; the dead-lettered row {'is deleted' if plan.after else 'stays'}"
        case "hub":
            return "the hub deletes its entry"
        case _:
            return _ROW.get(plan.after or "", "settled as replayed")


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
