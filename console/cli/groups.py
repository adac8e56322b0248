"""The verb groups: like failures together, as lines, JSON, CSV, a table, or repainted."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal

from console import clock
from console.cli.context import DONE, Context, say
from console.cli.printing.listing import cell_text, document_list, form_of
from console.cli.printing.table import TextColumn
from console.cli.stats import index_of
from console.services.market.entry_value import VenueTypes, by_currency
from console.services.stats import tally
from console.services.stats.groups import Group, Groups, GroupView
from console.services.triage.triage import Triage
from console.text.durations import age
from console.text.untrusted import safe

_COLUMNS = {
    "fingerprint": TextColumn("FINGERPRINT"),
    "count": TextColumn("COUNT", right=True),
    "category": TextColumn("CATEGORY", optional=True),
    "first_seen": TextColumn("OLDEST", optional=True, right=True),
    "last_seen": TextColumn("NEWEST", right=True),
    "venues": TextColumn("FROM", least=6),
    "notional": TextColumn("NOTIONAL", optional=True, right=True),
    "title": TextColumn("TITLE", least=24),
}


async def groups_verb(context: Context) -> int:
    args = context.args
    form, types = form_of(args), context.venue_types
    async with context.triage() as triage:
        known = tally.ledger_is_readable(triage.store.info)
        if args.watch:
            from console.cli.printing.watch import check_watchable, watch

            check_watchable()

            async def paint(_: int) -> list[str]:
                return list(_table(await _view(context, triage), "table", types, known=known)) or ["no open entry"]

            await watch(triage.store, paint)
        view = await _view(context, triage)
    if form in ("csv", "table"):
        for line in _table(view, form, types, known=known):
            print(line)
    else:
        show = _group_json if form == "json" else _group_lines
        for group in view.groups:
            sys.stdout.write(show(group, types, known=known) + "\n")
    if not view.groups:
        _say_empty(context)
    return DONE


def _say_empty(context: Context) -> None:
    """Nothing to print is told apart from nothing printed."""
    if context.args.group:
        told = "dlq groups lists the groups; --all includes what is replayed or dismissed"
        say(f"no entry is in the group {safe(context.args.group, 80)}: {told}")
    elif context.has_filters or context.args.venue:
        say("no entry matches; --all includes what is replayed or dismissed")
    else:
        say("no open entry")


async def _view(context: Context, triage: Triage) -> GroupView:
    args = context.args
    async with index_of(context, triage.store) as reader:
        groups = Groups(triage, reader, clock.now)
        view: GroupView | None = None
        if reader is not None and not (context.has_filters or args.venue):
            view = await groups.view(everything=args.all, whole=True)
        if view is None or not view.complete or view.source != "index":
            view = await groups.counted(context.query(everything=args.all))
    return view


def _table(view: GroupView, form: str, types: VenueTypes, *, known: bool) -> Iterator[str]:
    documents = [
        {
            **_document(group, known=known),
            "notional": group.notional if form == "csv" else _worth_text(group, types),
            "by_currency": _worth_text(group, types),
        }
        for group in view.groups
    ]
    yield from document_list("csv" if form == "csv" else "table", documents, _COLUMNS, _cell)


def _held(group: Group, types: VenueTypes) -> dict[str, Decimal]:
    """What it is worth per currency: amounts of two are never added."""
    return {currency or "of no known currency": amount for currency, amount in by_currency(group.worth, types).items()}


def _worth_text(group: Group, types: VenueTypes) -> str:
    """`232000 USDT + 21280.5 EUR`"""
    return " + ".join(f"{amount:f} {safe(currency, 20)}" for currency, amount in _held(group, types).items()) or "0"


def _cell(document: Mapping[str, object], key: str) -> str:
    value = document[key]
    if key in ("first_seen", "last_seen"):
        return age(datetime.fromisoformat(value), clock.now()) if isinstance(value, str) else "?"
    return f"{value:f}" if isinstance(value, Decimal) else cell_text(document, key)


def _document(group: Group, *, known: bool) -> dict[str, object]:
    """What only the ledger tells is null where it is not `known`."""
    return {
        "fingerprint": group.fingerprint,
        "title": group.title,
        "count": group.count,
        "first_seen": _iso(group.first_seen),
        "last_seen": _iso(group.last_seen),
        "category": group.category,
        "states": dict(group.states) if known else None,
        "venues": dict(group.venues),
        "accounts": dict(group.accounts),
        "markets": dict(group.markets),
        "retries": group.retries,
        "unpriced": group.unpriced,
        "poisoned": group.poisoned if known else None,
    }


def _group_json(group: Group, types: VenueTypes, *, known: bool) -> str:
    # Inserted as text, so that the amounts keep their digits.
    each = ", ".join(f"{json.dumps(currency)}: {held:f}" for currency, held in _held(group, types).items())
    figures = f'"notional": {group.notional:f}, "by_currency": {{{each}}}'
    return f"{json.dumps(_document(group, known=known))[:-1]}, {figures}}}"


def _group_lines(group: Group, types: VenueTypes, *, known: bool) -> str:
    poisoned = f", poisoned={group.poisoned if known else 'unknown'}" if group.poisoned or not known else ""
    more = f" and {len(group.venues) - 3} more" if len(group.venues) > 3 else ""
    venues = ", ".join(safe(name, 40) for name in list(group.venues)[:3]) + more
    facts = f"retries={group.retries}, notional={_worth_text(group, types)}{poisoned}"
    return (
        f"{group.fingerprint}  {group.count}  {group.category}  {_shown(group.first_seen)} to "
        f"{_shown(group.last_seen)}  {venues}  [{facts}]\n"
        f"  {safe(group.title)}"
    )


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def _shown(at: datetime | None) -> str:
    return "?" if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")
