"""What waits for a second person, as both faces tell it: who asked, how long it still waits, and every order. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from console.render import value
from console.render.line import HANG, Line, Tone, columns, line, middle, trusted, unit, untrusted, width
from console.render.order_text import market_facts, order_text
from console.render.plan import GoingOrder, PageRow, amount_text, notes_text, sent_row
from console.services.json_lines import json_value
from console.text.durations import age
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.triage.approvals import WaitingPlan

_ORDER_WORDS = ("action", "side", "quantity", "market_id", "order_type")
_CLAIMS = ("accepted", "absent")
_NOUNS = {"settle": "settlement"}
_PLACES = 2
_HOSTS = 3
_LONGEST_NAME = 24  # columns of who asked
_SHORT_NAMES = (12, 8)
FOR_YOU = "waits for you"
Row = Mapping[str, object]


def waiting_line(plan: WaitingPlan) -> str:
    """`1a2b…  replay in live, asked by ann at …, until …: 2 orders, gross 18,000 USD`"""
    gross = f", gross {value.amounts(plan.gross)}" if plan.gross else ""
    mode = f" in {safe(plan.mode, 20)}" if plan.mode else ""
    where = f" {places_text(plan)}" if places_text(plan) else ""
    size = f": {value.many(len(plan.orders), 'order')}{where}{gross}" if plan.orders else ""
    until = plan.expires_at.strftime("%H:%M:%SZ")
    return f"{safe(plan.plan, 80)}  {safe(plan.kind, 20)}{mode}, asked by {safe(plan.asker, 80)}, until {until}{size}"


def waiting_rows(plan: WaitingPlan) -> list[Row]:
    """Every order as the asker saw it, with where it goes."""
    return [{**row, **plan.places.get(str(row.get("dlq_id")), {})} for row in plan.orders]


def places_text(plan: WaitingPlan) -> str:
    """`alpaca main, kalshi events, … 3 more`"""
    tally = Counter(_place(row) for row in waiting_rows(plan))
    shown = [place for place, _ in tally.most_common(_PLACES) if place]
    more = len(tally) - len(shown)
    return ", ".join([*shown, *([f"… {more} more"] if shown and more > 0 else [])])


def _place(row: Row) -> str:
    parts = (row.get("venue"), row.get("account_id"))
    return " ".join(safe(str(part), 40) for part in parts if part)


def waiting_order(row: Row) -> str:
    """`dlq_…  new buy 10 AAPL limit price=18.0 day  alpaca main  worth 180 USD  account …  overridden: stale`."""
    order = row.get("order")
    if _is_settlement(row):
        return "  ".join((str(row.get("dlq_id")), *_settlement(row)))
    if not isinstance(order, Mapping):
        terms = {name: held for name, held in row.items() if name != "dlq_id" and held is not None}
        return f"{row.get('dlq_id')}  " + " ".join(f"{name}={json_value(name, held)}" for name, held in terms.items())
    told = [str(row.get("dlq_id")), _terms(order), _place(row), _worth(row)]
    told.append(f"account {row.get('account') or 'not told'}")
    codes = overridden(row)
    told += [f"overridden: {', '.join(codes)}"] if codes else []
    return "  ".join(filter(None, told))


def _is_settlement(row: Row) -> bool:
    return row.get("as") in _CLAIMS and not isinstance(row.get("order"), Mapping)


def _settlement(row: Row) -> list[str]:
    """What is claimed of an attempt, where, and why: nothing would go on the wire."""
    number, order, note = (row.get(name) for name in ("attempt_no", "venue_order_id", "note"))
    parts = (
        f"settle as {row.get('as')}",
        _whole_place(row),
        f"try {number}" if isinstance(number, int) else "",
        f"order {order}" if order else "",
        f"id {row.get('client_order_id') or 'not told'}",
        f'"{note}"' if note else "",
    )
    return [safe(part, 2000) for part in parts if part]


def plan_noun(plan: WaitingPlan) -> str:
    """`replay`, `settlement`, `resume`"""
    return safe(_NOUNS.get(plan.kind, plan.kind), 20)


def _terms(order: Row) -> str:
    """Every term that goes on the wire."""
    terms = dict(order)
    plain = [str(terms.pop(name)) for name in _ORDER_WORDS if terms.get(name) is not None]
    return " ".join([*plain, *(f"{name}={json_value(name, held)}" for name, held in terms.items() if held is not None)])


def _worth(row: Row) -> str:
    worth = row.get("notional")
    if worth is None:
        return "worth unknown"
    shown = value.money(worth) if isinstance(worth, Decimal) else str(worth)
    return f"worth {shown} {row.get('currency') or ''}".strip()


def overridden(row: Row) -> list[str]:
    guards = row.get("guards")
    return [str(one.get("code")) for one in guards if isinstance(one, dict)] if isinstance(guards, list) else []


def left_text(plan: WaitingPlan, now: datetime) -> str:
    """`3:00 left`, or that it has expired."""
    left = int((plan.expires_at - now).total_seconds())
    return f"{left // 60:d}:{left % 60:02d} left" if left > 0 else "expired"


def waiting_choice(plan: WaitingPlan, state: str, now: datetime, room: int = 1000) -> Line:
    """A row of the list: how much, who asked, how long it still waits, where to, how it stands. Where room is short
    how it stands is left to its mark and the lines below, then the asker's name is cut."""
    made: Line = ()
    for told, name in ((state, _LONGEST_NAME), ("", _LONGEST_NAME), *(("", size) for size in _SHORT_NAMES)):
        made = _choice(plan, told, now, waits=state == FOR_YOU, name=name)
        if width(made) <= room:
            break
    return made


def _choice(plan: WaitingPlan, state: str, now: datetime, *, waits: bool, name: int) -> Line:
    mode = safe(plan.mode or "", 12).upper()
    gross = f" {value.short_amounts(plan.gross)}" if plan.gross else ""
    size = value.many(len(plan.orders), "order") if plan.kind == "replay" else safe(plan.kind, 8)
    return line(
        trusted(" ● " if waits else "   ", "warning"),
        trusted(f"{safe(plan.plan[:4], 4):<4} "),
        trusted(f"{mode:<6}" if mode else "", "danger" if mode == "LIVE" else "accent"),
        trusted(f"{size}{gross}  ", "strong"),
        trusted(f"{middle(safe(plan.asked_by, 80), name)} {age(plan.asked_at, now)} ago, {left_text(plan, now)}"),
        trusted(f"  {places_text(plan)}" if plan.orders else ""),
        trusted(f"  {state}" if state else "", "warning" if waits else "plain"),
    )


def waiting_page(plan: WaitingPlan, now: datetime, state: str = "") -> list[PageRow]:
    """What is approved: who asked for what and why, then every order as the asker saw it."""
    mode = safe(plan.mode or "", 12).upper()
    tone: Tone = "danger" if mode == "LIVE" else "accent"
    rows: list[tuple[str, Line]] = [
        (
            "plan",
            line(untrusted(f"{plan.plan}, a {plan_noun(plan)} asked by {plan.asker} {age(plan.asked_at, now)} ago")),
        ),
        ("asks", line(trusted(f"{mode}  " if mode else "", tone), untrusted(plan.summary, limit=400))),
    ]
    if state:
        rows.append(("stands", line(trusted(state, "warning" if state == FOR_YOU else "plain"))))
    if plan.gross:
        rows.append(("gross", line(trusted(value.amounts(plan.gross), "strong"))))
    rows += [("" if at else "goes to", host) for at, host in enumerate(_hosts(plan))]
    orders = [PageRow(_order_line(row), str(row.get("dlq_id"))) for row in waiting_rows(plan)]
    return [*(PageRow(one) for one in columns(rows, indent=0)), PageRow(()), *orders]


def _order_line(row: Row) -> Line:
    """The row that the asker's gate showed; its quote is named as the one they saw."""
    from console.services.market.told_order import told_order

    told = told_order(row)
    if _is_settlement(row):
        claim, *more = _settlement(row)
        return line(trusted(" ✓ ", "good"), HANG, trusted(claim, "strong"), *_apart(more), *_apart([_id(row)], "dim"))
    if told is None:
        return line(trusted(" ✓ ", "good"), HANG, untrusted(waiting_order(row), limit=2000))
    detail, cancels = row.get("detail"), told.action.verb == "cancel"
    rest = "".join(f" {name}={json_value(name, held)}" for name, held in told.rest.items())
    return sent_row(
        GoingOrder(
            order=order_text(told.action, told.worth.currency) + safe(rest, 300),
            place=_whole_place(row),
            facts=market_facts(told.worth, "when asked"),
            worth="" if cancels else amount_text(told.worth),
            client_id=safe(str(row.get("client_order_id") or "not told"), 40),
            notes=notes_text(dict.fromkeys(overridden(row)), [detail] if isinstance(detail, str) and detail else []),
            reduces=told.worth.reduces,
        )
    )


def _id(row: Row) -> str:
    return safe(str(row.get("dlq_id")), 80)


def _apart(parts: Iterable[str], tone: Tone = "plain") -> Line:
    """Each behind a gap, where a line may be wrapped."""
    return tuple(cell for part in parts for cell in (trusted("  "), unit(trusted(part, tone))))


def _whole_place(row: Row) -> str:
    """With the venue's own name of the account."""
    venue, account_id, account = (str(row.get(name) or "") for name in ("venue", "account_id", "account"))
    return value.place(venue, account_id or None, account or None)


def _hosts(plan: WaitingPlan) -> list[Line]:
    """`alpaca · main · account PA3… at api.alpaca.markets: 7`, the first few."""
    tally = Counter((_whole_place(row), safe(str(row.get("host") or ""), 80)) for row in waiting_rows(plan))
    tally.pop(("", ""), None)
    shown = [
        line(trusted(place), trusted(f" at {host}" if host else ""), trusted(f": {count:,}" if len(tally) > 1 else ""))
        for (place, host), count in tally.most_common(_HOSTS)
    ]
    more = len(tally) - len(shown)
    return [*shown, *([line(trusted(f"… and {value.many(more, 'more account')}", "warning"))] if more > 0 else [])]


def waiting_row_lines(plan: WaitingPlan, entry_id: str) -> list[Line]:
    """One order in full, as the asker saw it."""
    rows: list[tuple[str, Line]] = []
    for row in waiting_rows(plan):
        if str(row.get("dlq_id")) == entry_id:
            rows += _fields(row)
    return columns(rows)


def _fields(row: Row) -> Iterator[tuple[str, Line]]:
    for name, held in row.items():
        if isinstance(held, Mapping):
            for inner, one in held.items():
                yield safe(f"{name}.{inner}", 40), line(untrusted(_shown(one), limit=400))
        elif held not in (None, [], ()):
            yield safe(name, 40), line(untrusted(_shown(held), limit=400))


def _shown(held: object) -> str:
    if isinstance(held, Decimal):
        return f"{held:f}"
    return held if isinstance(held, str) else json.dumps(held, default=str)
