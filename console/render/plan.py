"""A replay plan as its gate shows it: what goes where, what does not and why, what it is worth. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.render import value
from console.render.line import HANG, Line, Tone, columns, line, own, said
from console.safetext import safe

if TYPE_CHECKING:
    from console.services.plan import Blocked, Exposure, ReplayPlan, Step

_MOST = 6


def plan_lines(plan: ReplayPlan, *, rows: int = _MOST) -> list[Line]:
    """The summary first, then each entry: sent ones as the venue will hear them, blocked ones with their reasons."""
    waves = ", then ".join(str(size) for size in plan.wave_sizes)
    sent = [own(str(len(plan.steps)), "strong"), own(f"   {waves}" if len(plan.wave_sizes) > 1 else "")]
    summary: list[tuple[str, Line]] = [
        ("goes to", _where(plan)),
        ("will be sent", line(*sent, own(_pace(plan), "dim"))),
    ]
    if plan.superseded:
        texts = [f"{safe(one.entry_id, 30)} by {safe(one.by, 30)}" for one in plan.superseded]
        summary.append(("collapsed", line(own(str(len(plan.superseded)), "strong"), own(f"   {' · '.join(texts)}"))))
    if plan.blocked:
        summary.append(("blocked", line(own(str(len(plan.blocked)), "warning"), own("   left out, see below", "dim"))))
    if plan.steps:
        summary.append(("exposure", _exposure(plan)))
        summary.append(("on success", line(own(_success(plan)))))
    if plan.needs_second:
        why = f"{plan.needs_second}: dlq approve {plan.hash}"
        summary.append(("needs", line(own("a second person  ", "warning"), said(why, limit=200))))
    lines = columns(summary)
    lines.append(())
    return [*lines, *every_one([*map(_step, plan.steps)], [*map(_blocked, plan.blocked)], rows)]


def every_one(sent: Sequence[Line], blocked: Sequence[Line], rows: int) -> list[Line]:
    """Of those to be sent `rows` stand above the blocked ones, so that these are seen; the rest below."""
    first = sent[:rows] if blocked else sent
    rest = sent[len(first) :]
    more = [line(own(f" … and {len(rest)} more to send, below", "dim"))] if rest else []
    return [*first, *more, *blocked, *rest]


def _where(plan: ReplayPlan) -> Line:
    tone: Tone = "danger" if plan.mode == "live" else "accent"
    kind = f"{plan.mode.upper()}{' rehearsal: no entry changes' if plan.rehearsal else ''}"
    hosts = ", ".join(f"{safe(name, 40)} at {safe(host, 80)}" for name, host in plan.hosts) or "nowhere"
    accounts = sorted({step.command.action.account_id or "–" for step in plan.steps})
    account = f"  account {', '.join(safe(name, 40) for name in accounts[:4])}" if accounts else ""
    return line(own(f"{kind}  ", tone), own(f"{hosts}{account}"))


def _pace(plan: ReplayPlan) -> str:
    rates = [rate for _, rate in plan.rates if rate]
    return f"   at most {min(rates)} requests a minute" if rates else ""


def _success(plan: ReplayPlan) -> str:
    if plan.rehearsal:
        return "a rehearsal is recorded; the entry stays as it is, whatever the answer"
    return "each accepted entry is settled as replayed; on an unclear answer it stays, in doubt"


def _exposure(plan: ReplayPlan) -> Line:
    unpriced = sum(one.unpriced for one in plan.exposure)
    at_market = f"   {unpriced} at market, not counted" if unpriced else ""
    markets = "  ".join(_market(one) for one in plan.exposure[:4])
    more = "  …" if len(plan.exposure) > 4 else ""
    return line(
        own(f"gross {value.money(plan.gross)}   net {value.money(plan.net, signed=True)}", "strong"),
        own(at_market, "warning"),
        own(f"   {markets}{more}", "dim"),
    )


def _market(one: Exposure) -> str:
    worth = "market" if one.unpriced and not one.gross else value.money(one.net, signed=True)
    return f"{value.name(one.market)} {worth}"


def _step(step: Step) -> Line:
    action = step.command.action
    price = "market" if action.price is None else f"@ {value.price(action.price)}"
    verb = "" if action.verb == "new" else f"{action.verb} "
    tif = f" {safe(action.time_in_force, 8)}" if action.time_in_force else ""
    size = f"{value.quantity(action.quantity)} {value.name(action.market_id)}"
    what = f"{verb}{safe(action.side, 12)} {size} {price}{tif}"
    notes = "; ".join((*(f"overridden: {code}" for code in step.overridden), *step.command.notes))
    return line(
        own(" ✓ ", "good"),
        HANG,
        own(what, "strong"),
        own(f"  id {safe(step.command.client_order_id, 40)}", "dim"),
        said(f"  {notes}" if notes else "", "dim", limit=200),
    )


def _blocked(one: Blocked) -> Line:
    return line(own(" ✗ ", "warning"), HANG, own(f"{safe(one.entry_id, 40)}  "), said(one.text, "warning", limit=300))
