"""A replay plan as its gate shows it: what goes where, what does not and why, what it is worth. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from console.render import value
from console.render.line import HANG, Line, Tone, columns, line, trusted, unit, untrusted
from console.render.order_text import market_facts, order_text
from console.text.untrusted import safe

if TYPE_CHECKING:
    from backends.records import Entry
    from console.services.market.exposure import Exposure
    from console.services.market.worth import Worth
    from console.services.replay.outcome import EntryOutcome
    from console.services.replay.plan import Blocked, ReplayPlan, Step, Superseded
    from console.services.replay.target import Renewal, SendPlan
    from console.services.resend.plan import ResendPlan, ResendRoute


_MOST = 6
_PLACES = 3  # accounts that the summary names; the others stand below the orders
_ASSUMED = ("does not say", "rebuilt", "default")  # words of a note that tells what nobody said
Entries = Mapping[str, "Entry"]


class PageRow(NamedTuple):
    """A line of a gate's page; `entry_id` where it stands for an entry and can be opened."""

    line: Line
    entry_id: str | None = None


def send_page(
    plan: SendPlan, entries: Entries, *, rows: int = _MOST, changed: frozenset[str] = frozenset()
) -> list[PageRow]:
    """Any plan, in the words of its kind. `entries`: what stays or collapses; `changed`: what a plan made again does
    otherwise. Of those to be sent `rows` stand above those that stay."""
    from console.services.replay.plan import ReplayPlan
    from console.services.resend.plan import ResendPlan

    match plan:
        case ReplayPlan():
            return plan_page(plan, entries, rows=rows, changed=changed)
        case ResendPlan(problem=str() as problem):
            told = [line(trusted("nothing can be sent", "danger")), line(untrusted(problem, limit=500))]
            return [PageRow(one) for one in told]
        case ResendPlan():
            return resend_page(plan, rows=rows)
    raise TypeError(f"no such plan: {type(plan).__name__}")


def plan_page(
    plan: ReplayPlan, entries: Entries, *, rows: int = _MOST, changed: frozenset[str] = frozenset()
) -> list[PageRow]:
    """The summary first, then each entry: sent ones as the venue will hear them, the others with their reasons."""
    places = destinations(plan)
    lines = [*_where(plan, places), *_summary(plan, entries, markets=4 if rows > 1 else 0), ()]
    sent = [PageRow(_step(step, changed), step.command.entry_id) for step in plan.steps]
    stay = [PageRow(_blocked(one, entries.get(one.entry_id)), one.entry_id) for one in plan.blocked]
    gone = [PageRow(_superseded(one, plan, entries), one.entry_id) for one in plan.superseded]
    listed = every_one(sent, [*stay, *gone], rows)
    below = [PageRow(one) for one in _more_places(places)]
    return [*(PageRow(one) for one in lines), *listed, *below]


def _summary(plan: ReplayPlan, entries: Entries, *, markets: int) -> Iterator[Line]:
    if plan.steps:
        sends, how = sends_text(plan)
        yield line(trusted(sends, "strong"), HANG, trusted(how))
    if plan.superseded:
        yield line(trusted(f"collapses {len(plan.superseded):,}: ", "strong"), HANG, trusted(_collapses(plan, entries)))
    if plan.blocked:
        count, _, why = holds_text(plan).partition(": ")
        yield line(trusted(f"{count}: ", "warning"), HANG, trusted(why, "warning"))
    if plan.steps:
        yield _exposure(plan, markets)
    if plan.rules:
        yield line(trusted("in force: ", "dim"), HANG, untrusted("; ".join(plan.rules), "dim", limit=600))
    if plan.needs_second:
        yield line(trusted("needs a second person: ", "warning"), HANG, untrusted(plan.needs_second, limit=200))
    if plan.steps:
        yield line(trusted(_success(plan), "dim"))


def sends_text(plan: ReplayPlan) -> tuple[str, str]:
    """(`sends 47`, ` · 1 as a test, then 5, then 41; at most 200 requests a minute`)."""
    first, *rest = plan.wave_sizes or (0,)
    waves = f" · {', then '.join([f'{first} as a test', *map(str, rest)])}" if rest else ""
    rates = [rate for _, rate in plan.rates if rate]
    pace = f"at most {min(rates)} requests a minute" if rates else ""
    return f"sends {len(plan.steps):,}", f"{waves}{('; ' if waves else ' · ') + pace if pace else ''}"


def holds_text(plan: ReplayPlan) -> str:
    """`holds 672: stale 600 · notional 72`: each entry by the first of its reasons."""
    return _held_text(Counter(one.guards[0].code if one.guards else "held" for one in plan.blocked))


def _held_text(tally: Counter[str]) -> str:
    shown = [f"{safe(code.replace('-', ' '), 40)} {count:,}" for code, count in tally.most_common(8)]
    more = len(tally) - len(shown)
    return f"holds {tally.total():,}: {' · '.join(shown)}{f' · … {more} more reasons' if more > 0 else ''}"


def _collapses(plan: ReplayPlan, entries: Entries) -> str:
    """`NEW cid-77 by CANCEL cid-78`"""
    steps = {step.command.entry_id: step for step in plan.steps}
    shown = [f"{_gone(one.entry_id, entries)} by {_head(steps.get(one.by), one.by)}" for one in plan.superseded[:2]]
    more = len(plan.superseded) - len(shown)
    return " · ".join(shown) + (f" · … {more:,} more" if more else "")


def _gone(entry_id: str, entries: Entries) -> str:
    entry = entries.get(entry_id)
    if entry is None:
        return safe(entry_id, 30)
    return f"{value.action(entry)[0].upper()} {safe(entry.text('client_order_id') or entry_id, 30)}"


def _head(step: Step | None, entry_id: str) -> str:
    if step is None:
        return safe(entry_id, 30)
    return f"{step.command.action.verb.upper()} {safe(step.command.client_order_id or entry_id, 30)}"


class Destination(NamedTuple):
    """One account at one venue, as the venue names it, and the host that answers for it."""

    venue: str
    account_id: str | None
    account: str | None
    host: str


def destinations(plan: ReplayPlan) -> list[tuple[Destination, int]]:
    """Where the orders go, and how many to each."""
    tally: Counter[Destination] = Counter(
        Destination(step.command.venue, step.command.account, step.account, step.host) for step in plan.steps
    )
    return tally.most_common()


def _where(plan: ReplayPlan, places: Sequence[tuple[Destination, int]]) -> list[Line]:
    tone: Tone = "danger" if plan.mode == "live" else "accent"
    kind = f"{plan.mode.upper()}{' rehearsal: no entry changes' if plan.rehearsal else ''}  "
    if not places:
        return [line(trusted(kind, tone), trusted("nothing can be sent", "danger"))]
    shown = [line(trusted(kind, tone), HANG, trusted(place_text(*places[0], alone=len(places) == 1)))]
    shown += [line(trusted(" " * len(kind)), trusted(place_text(*one))) for one in places[1:_PLACES]]
    if (more := len(places) - _PLACES) > 0:
        orders = sum(count for _, count in places[_PLACES:])
        text = f"… and {value.many(more, 'more account')} with {value.many(orders, 'order')}, listed at the end"
        shown.append(line(trusted(" " * len(kind)), trusted(text, "warning")))
    return shown


def place_text(place: Destination, count: int, *, alone: bool = False) -> str:
    """`alpaca · main · account PA3… at api.alpaca.markets: 7`"""
    where = value.place(place.venue, place.account_id, place.account)
    return f"{where} at {safe(place.host, 80)}{'' if alone else f': {count:,}'}"


def _more_places(places: Sequence[tuple[Destination, int]]) -> list[Line]:
    if len(places) <= _PLACES:
        return []
    return [(), line(trusted("every account:", "dim")), *(line(trusted(f" {place_text(*one)}")) for one in places)]


def changed_ids(shown: SendPlan, made: SendPlan) -> frozenset[str]:
    """What both plans send, but not alike."""
    from console.services.replay.plan import ReplayPlan

    if not isinstance(shown, ReplayPlan) or not isinstance(made, ReplayPlan):
        return frozenset()
    before = {step.command.entry_id: step.hash for step in shown.steps}
    return frozenset(
        step.command.entry_id for step in made.steps if before.get(step.command.entry_id, step.hash) != step.hash
    )


def renewed_text(shown: SendPlan, renewal: Renewal) -> str:
    """`plan made again: 2 changed (1 no longer goes, 1 is sent otherwise)`"""
    gone, other = len(renewal.lost), len(changed_ids(shown, renewal.plan))
    parts = [f"{gone:,} no longer {'goes' if gone == 1 else 'go'}"] if gone else []
    parts += [f"{other:,} {'is' if other == 1 else 'are'} sent otherwise"] if other else []
    if parts:
        return f"plan made again: {gone + other:,} changed ({', '.join(parts)})"
    if renewal.is_same:
        return "plan made again: nothing changed"
    return "plan made again: what is sent, where to, or its worth is another"


def renewed_lines(shown: SendPlan, renewal: Renewal) -> list[Line]:
    """Why a plan stands where another one stood, and what is different now."""
    lines = [line(trusted(renewed_text(shown, renewal), "warning"))]
    lines += [
        line(trusted("   "), HANG, untrusted(f"{one.entry_id} no longer goes: {one.detail}", "warning", limit=200))
        for one in renewal.lost[:2]
    ]
    if not renewal.plan.count:
        lines.append(line(trusted("Nothing of it goes any more.", "warning")))
    return [*lines, ()]


def every_one(sent: Sequence[PageRow], stay: Sequence[PageRow], rows: int) -> list[PageRow]:
    """Of those to be sent `rows` stand above those that stay, so that these are seen; the rest below."""
    first = list(sent[:rows] if stay else sent)
    rest = sent[len(first) :]
    more = [PageRow(line(trusted(f" … and {len(rest)} more to send, below", "dim")))] if rest else []
    return [*first, *more, *stay, *rest]


def _success(plan: ReplayPlan) -> str:
    if plan.rehearsal:
        return "a rehearsal is recorded; the entry stays as it is, whatever the answer"
    return "accepted: the entry is replayed · no clear answer: it is in doubt"


def _exposure(plan: ReplayPlan, most: int) -> Line:
    unpriced = sum(one.unpriced for one in plan.exposure)
    at_market = f"   {unpriced} without a value, not counted" if unpriced else ""
    shown = plan.exposure[:most]
    more = f"  … {len(plan.exposure) - most} more" if len(plan.exposure) > most > 0 else ""
    return line(
        trusted("exposure ", "strong"),
        HANG,
        unit(trusted(f"gross {value.amounts(plan.gross)}")),
        unit(trusted(f"   net {value.amounts(plan.net, signed=True)}")),
        unit(trusted(at_market, "warning")),
        *(unit(trusted(f"{'  ' if at else '   '}{_market(one)}", "dim")) for at, one in enumerate(shown)),
        unit(trusted(more, "dim")),
    )


def _market(one: Exposure) -> str:
    worth = "no value" if one.unpriced and not one.gross else value.money(one.net, signed=True)
    return f"{value.name(one.market)} {worth}"


def worth_text(step: Step) -> str:
    return "" if step.command.action.verb == "cancel" else amount_text(step.worth)


def amount_text(worth: Worth) -> str:
    return "" if worth.amount is None else f"{value.money(worth.amount)} {safe(worth.currency or '', 12)}".rstrip()


class GoingOrder(NamedTuple):
    """An order that goes, in the words of its row. Made safe already, but for the notes."""

    order: str
    place: str
    facts: Sequence[Sequence[str]]
    worth: str
    client_id: str
    notes: str
    reduces: bool = False
    changed: bool = False


def _step(step: Step, changed: frozenset[str]) -> Line:
    return sent_row(
        GoingOrder(
            order=order_text(step.command.action, step.worth.currency),
            place=value.place(step.command.venue, step.command.account, step.account),
            facts=market_facts(step.worth),
            worth=worth_text(step),
            client_id=safe(step.command.client_order_id, 40),
            notes=notes_text(step.overridden, step.command.notes),
            reduces=step.worth.reduces,
            changed=step.command.entry_id in changed,
        )
    )


def notes_text(overridden: Iterable[str], notes: Iterable[str]) -> str:
    return "; ".join((*(f"overridden: {code}" for code in overridden), *notes))


def sent_row(sent: GoingOrder) -> Line:
    """The row of an order that goes, for the one who asks and for the one who approves."""
    return line(
        trusted(" ✓ ", "good"),
        HANG,
        trusted("changed: " if sent.changed else "", "warning"),
        trusted("⚑exit " if sent.reduces else "", "accent"),
        trusted(sent.order, "strong"),
        unit(trusted(f"  {sent.place}")),
        *market_cells(sent.facts),
        unit(trusted(f"  {sent.worth}" if sent.worth else "")),
        unit(trusted(f"  id {sent.client_id}", "dim")),
        untrusted(f"  {sent.notes}" if sent.notes else "", _note_tone(sent.notes), limit=200),
    )


def market_cells(facts: Sequence[Sequence[str]]) -> Line:
    """What is said of the market, a comma between two facts."""
    text = [f"{part}," if part is fact[-1] else part for fact in facts for part in fact]
    cells = [unit(trusted(f" {safe(part, 120)}")) for part in text[:-1]]
    return (trusted(" "), *cells, unit(trusted(f" {safe(text[-1].rstrip(','), 120)}"))) if text else ()


def _note_tone(notes: str) -> Tone:
    """What nobody said must be seen."""
    return "warning" if any(word in notes for word in _ASSUMED) else "plain"


def _blocked(one: Blocked, entry: Entry | None) -> Line:
    head, tail = entry_cells(one.entry_id, entry)
    return line(trusted(" ✗ ", "warning"), HANG, *head, untrusted(_reasons(one), "warning", limit=300), *tail)


def _reasons(one: Blocked) -> str:
    """`stale: 95m old; in doubt: reconcile it first`: the code of each, where its text does not begin with it."""
    return "; ".join(
        guard.text if guard.text.startswith(guard.code.replace("-", " ")) else f"{guard.code}: {guard.text}"
        for guard in one.guards
    )


def _superseded(one: Superseded, plan: ReplayPlan, entries: Entries) -> Line:
    step = next((step for step in plan.steps if step.command.entry_id == one.by), None)
    head, tail = entry_cells(one.entry_id, entries.get(one.entry_id))
    by = trusted(f"collapses into {_head(step, one.by)}", "accent")
    return line(trusted(" − ", "accent"), HANG, *head, by, *tail)


def entry_cells(entry_id: str, entry: Entry | None) -> tuple[Line, Line]:
    """(the order with its venue and account, its id); the id alone where the entry is gone."""
    if entry is None:
        return line(untrusted(f"{entry_id}  ", limit=60)), ()
    place = value.place(entry.text("venue_name"), entry.text("account_id") or None)
    head = line(trusted(f"{value.order(entry)}  ", "strong"), unit(trusted(f"{place}  ")))
    return head, line(untrusted(f"  {entry_id}", "dim", limit=60))


def said_lines(plan: ReplayPlan, entries: Entries) -> Iterable[str]:
    """The plan as the command line says it: the same words, a line each, every one of them."""
    places = destinations(plan)
    if len(places) > 1:
        yield from (f"to {place_text(*one)}" for one in places)
    if plan.steps:
        yield "".join(sends_text(plan))
    if plan.blocked:
        yield holds_text(plan)
    for one in plan.superseded:
        what = _plain_entry(one.entry_id, entries.get(one.entry_id))
        yield f"{what}  superseded by {safe(one.by, 80)}"
    for held in plan.blocked:
        yield f"{_plain_entry(held.entry_id, entries.get(held.entry_id))}  blocked: {safe(_reasons(held))}"


def _plain_entry(entry_id: str, entry: Entry | None) -> str:
    if entry is None:
        return safe(entry_id, 80)
    return (
        f"{safe(entry_id, 80)}  {value.order(entry)}  {value.place(entry.text('venue_name'), entry.text('account_id'))}"
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


def resend_page(plan: ResendPlan, *, rows: int) -> list[PageRow]:
    """The summary first, then each entry: those that go, then those that stay with their reasons."""
    summary: list[tuple[str, Line]] = [("goes to", route_line(plan))]
    summary += [("", _route(plan, route)) for route in plan.routes[1:_ROUTES]]
    if len(plan.routes) > _ROUTES:
        summary.append(("", line(trusted(f"… and {len(plan.routes) - _ROUTES} more", "dim"))))
    summary.append(("sends", line(trusted(f"{len(plan.going):d}", "strong"), trusted(_resend_pace(plan), "dim"))))
    summary += [("held", _held(route)) for route in plan.routes if route.held is not None]
    if plan.held:
        tally = Counter((one.detail or "held").partition(":")[0] for one in plan.held)
        count, _, why = _held_text(tally).removeprefix("holds ").partition(": ")
        summary.append(("holds", line(trusted(count, "warning"), trusted(f"   {why}", "warning"))))
    if plan.going:
        summary.append(("on success", line(trusted(f"{_resend_success(plan)}; no undo"))))
        if plan.kind != "outbox":
            summary.append(("on failure", line(trusted(_FAILURE))))
        summary.append(("mode", line(trusted(_REAL, "warning"))))
    lines = [*columns(summary), ()]
    sent = [PageRow(_going(one), one.id) for one in plan.going]
    stay = [PageRow(_left(one), one.entry_id) for one in plan.held]
    return [*(PageRow(one) for one in lines), *every_one(sent, stay, rows)]


def route_line(plan: ResendPlan) -> Line:
    return _route(plan, plan.routes[0]) if plan.routes else line(trusted("nothing can be sent", "danger"))


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
        HANG,
        trusted(f"{safe(entry.id, 40)}  "),
        trusted(safe(value.order(entry), _SUBJECT), "strong"),
    )


def _left(one: EntryOutcome) -> Line:
    return line(
        trusted(" ✗ ", "warning"),
        HANG,
        trusted(f"{safe(one.entry_id, 40)}  "),
        untrusted(one.detail or "", "warning", limit=300),
    )
