"""How the results of replay and reconcile look, and the plan before them."""

from __future__ import annotations

import json
import re

from console.cli.notice import say
from console.cli.output import quantity_text, stored_number
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import ReplayPlan, Step
from console.text.untrusted import safe

_OWNER = "an owner would run the SQL that stderr shows"
_OWNER_SQL = re.compile(r"an owner would run:\n(.*;)", re.DOTALL)


def json_result(ended: EntryOutcome) -> str:
    return json.dumps(
        {
            "dlq_id": ended.entry_id,
            "outcome": ended.outcome,
            "venue_order_id": ended.venue_order_id,
            "client_order_id": ended.client_order_id,
            "mode": ended.mode,
            "detail": ended.detail,
        }
    )


def owner_sql(ended: EntryOutcome) -> str | None:
    """What would let this role act, where that is why an entry was not sent."""
    found = _OWNER_SQL.search(ended.detail or "")
    return found[1] if found else None


def plain_result(ended: EntryOutcome) -> str:
    said = _OWNER_SQL.sub(_OWNER, ended.detail or "")
    entry_id, detail = safe(ended.entry_id, 200), f": {safe(said)}" if said else ""
    match ended.outcome:
        case "accepted" if ended.mode is None:
            row = f"  -> row {safe(ended.venue_order_id, 200)}" if ended.venue_order_id else ""
            return f"replayed {entry_id}{row}{detail}"
        case "accepted":
            return f"replayed {entry_id}  -> venue order {safe(ended.venue_order_id or '?', 200)}"
        case "unknown" if ended.mode is None:
            return f"in doubt {entry_id}{detail}"
        case "unknown":
            return f"in doubt {entry_id}{detail} (dlq reconcile {entry_id} asks the venue)"
        case word:
            return f"{word.replace('_', ' ')} {entry_id}{detail}"


def say_plan(made: ReplayPlan) -> None:
    """The plan, for people."""
    where = ", ".join(f"{name} at {host}" for name, host in made.hosts) or "nowhere"
    kind = f"{made.mode.upper()}{' rehearsal' if made.rehearsal else ''}"
    waves = ", then ".join(str(size) for size in made.wave_sizes)
    say(f"plan {made.hash}: {kind} to {where}: {len(made.steps)} to send{f' ({waves})' if len(made.steps) > 1 else ''}")
    for step in made.steps:
        say(f"  {_step_text(step)}")
    for one in made.superseded:
        say(f"  {safe(one.entry_id, 80)}  superseded by {safe(one.by, 80)}")
    for blocked in made.blocked:
        say(f"  {safe(blocked.entry_id, 80)}  blocked: {safe(blocked.text)}")
    if len(made.exposure) > 1:
        for line in made.exposure:
            where = " ".join(safe(part, 80) for part in (line.venue, line.account, line.market) if part)
            say(f"  {where}: {line.orders} orders, gross {line.gross:f}, net {line.net:+f}")
    if made.steps:
        unpriced = sum(line.unpriced for line in made.exposure)
        at_market = f", {unpriced} at market (no price to count)" if unpriced else ""
        say(f"  exposure: gross {made.gross:f}, net {made.net:+f}{at_market}")
    if made.needs_second:
        say(f"  a second person must approve: {made.needs_second}")


def _step_text(step: Step) -> str:
    command, action = step.command, step.command.action
    price = "market" if action.price is None else stored_number(action.price)
    what = f"{action.verb} {safe(action.side, 20)} {quantity_text(action.quantity)} {safe(action.market_id, 80)}"
    overridden = (f"overridden: {', '.join(step.overridden)}",) if step.overridden else ()
    notes = "; ".join((*command.notes, *overridden))
    more = f" ({safe(notes)})" if notes else ""
    return f"{safe(command.entry_id, 80)}  {what} @ {price}  id {safe(command.client_order_id, 80)}{more}"
