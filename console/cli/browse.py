"""The verbs that only read: list, show, export, doctor, audit."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from backends.ledger.audit_chain import Head
from backends.ledger.roles import APPROVER, AUDITOR, OPERATOR
from backends.records import OPEN_STATES, STATES, Filter, Finding, StoreInfo
from backends.store import RunsForeignCode, Store
from console.cli.context import DONE, REJECTED, Context, no_such_entry, refuse_blind, say
from console.cli.parser import UsageError
from console.cli.printing.listing import EntryListing, EventListing, Form, form_of
from console.cli.printing.output import history_json, history_lines
from console.cli.printing.table import table_width
from console.services.browse.engine_intent import counts_of
from console.services.layout_fields import ORDERS, OUTBOX
from console.services.policy import refresh
from console.services.triage.triage import UNKNOWN, ClassifiedEntry, Triage
from console.settings.config import ConfigError
from console.text.untrusted import safe, safe_block

if TYPE_CHECKING:
    from console.services.upgrade import UpgradeFinding
    from console.settings.policy import RuleInForce


async def list_verb(context: Context) -> int:
    args = context.args
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit must not be negative")
    form = form_of(args)
    if args.watch:
        from console.cli.printing.watch import check_watchable, watch

        check_watchable()
    async with context.triage() as triage:
        _say_blind(triage.store)
        if args.watch:
            await watch(triage.store, lambda rows: _painted(context, triage, rows))
        async for line in _listed(context, triage, form, args.limit):
            sys.stdout.write(line + "\n")
    return DONE


async def _listed(context: Context, triage: Triage, form: Form, limit: int | None) -> AsyncIterator[str]:
    query = context.query(everything=context.args.all)
    facts = await triage.mark_facts()
    listing = EntryListing(form, triage.store.info, context.venue_types)
    for line in listing.head():
        yield line
    async for row in triage.stream(query, limit=limit):
        for line in listing.lines(ClassifiedEntry(row.entry, facts)):
            yield line
    for line in listing.end():
        yield line


async def _painted(context: Context, triage: Triage, rows: int) -> list[str]:
    """As many entries as the terminal has lines, under the head; one more line says that there are more."""
    most = rows - 2 if context.args.limit is None else min(rows - 2, context.args.limit)
    lines = [line async for line in _listed(context, triage, "table", most + 1)]
    if not lines:
        return ["no entry matches" if context.has_filters or context.args.venue else "no open entry"]
    more = ["… more below: a filter or a taller terminal shows them"] if len(lines) > most + 1 else []
    return lines[: most + 1] + (more if context.args.limit is None else [])


async def show_verb(context: Context) -> int:
    async with context.triage() as triage:
        _say_blind(triage.store)
        history = await triage.history(context.args.id)
    if history is None:
        raise no_such_entry([context.args.id])
    if context.args.json:
        print(history_json(history, context.venue_types))
    else:
        for line in history_lines(history, context.venue_types):
            print(line)
    return DONE


async def export_verb(context: Context) -> int:
    from console.cli.printing.progress import ProgressBar, counted  # a list shows none

    async with context.triage() as triage:
        _say_blind(triage.store)
        form: Form = "csv" if context.args.format == "csv" else "json"
        context.args.all = True
        with ProgressBar("exporting", beside_rows=True) as bar:
            async for line in counted(_listed(context, triage, form, None), bar):
                sys.stdout.write(line + "\n")
    return DONE


_RETENTION = {OUTBOX: "only its owner deletes dead letters: docs/outbox.md has partitions and a daily delete"}


@dataclass(frozen=True, slots=True)
class _Examined:
    """What doctor found out about a store; None for what cannot be read, or not without running foreign code."""

    info: StoreInfo
    entries: Mapping[str, int] | None = None
    halted: bool | None = None
    halt: str = ""
    rules: tuple[RuleInForce, ...] = ()
    invalid: tuple[Finding, ...] = ()  # a policy that cannot be used
    upgrade: tuple[UpgradeFinding, ...] = ()  # what is still as version 0.1 had it

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.info.findings, *((self.info.advisory,) if self.info.advisory else ()), *self.invalid)

    @property
    def document(self) -> dict[str, object]:
        info = self.info
        return {
            "store": info.label,
            "layout": info.layout,
            "table": info.table,
            "columns": list(info.columns),
            "order": info.order,
            "role": info.role,
            "login": info.login,
            "read_only": info.read_only,
            "read_only_enforced_by": info.read_only_enforced_by,
            "entries": None if self.entries is None else dict(self.entries),
            "halted": self.halted,
            "reads_all": not info.unread,
            "unread": list(info.unread),
            "in_force": [{"key": rule.key, "value": rule.value, "from": rule.source} for rule in self.rules],
            "findings": [
                *({"code": f.code, "text": f.text, "remedy": f.sql or None} for f in self.findings),
                *(one._asdict() for one in self.upgrade),
            ],
            "grants": dict(info.role_sql),
        }


async def doctor_verb(context: Context) -> int:
    found = await _examined(context)
    if context.args.json:
        print(json.dumps(found.document))
        return DONE
    for line in _doctor_lines(found):
        print(line)
    for rule in found.rules:
        print(f"in force   {safe_block(str(rule))}")
    for finding in found.findings:
        _print_told("finding", f"{finding.code}: {finding.text}")
        if finding.sql:
            print("           an owner would run:")
            _print_sql(finding.sql)
    for one in found.upgrade:
        _print_told("finding", f"{one.code}: {one.text}")
        _print_told("", one.remedy)
    for name, sql in found.info.role_sql:
        _print_told("grants", _GRANTS[name])
        _print_sql(sql)
    return DONE


_GRANTS = {
    "owner": "an owner who does not act would first make the ledger, or bring it to this version:",
    "operator": f"an operator may {OPERATOR.may}; an owner would run:",
    "approver": f"an approver may {APPROVER.may}; an owner would run:",
    "auditor": f"an auditor may {AUDITOR.may}; an owner would run:",
}


def _print_told(what: str, text: str) -> None:
    """On a terminal in lines that fit it, behind the name of what is told; elsewhere in one line."""
    width = table_width()
    shown = safe_block(text)
    lines = shown.splitlines()
    if width is not None:
        lines = [part for line in lines for part in wrap(line, max(40, width - 11), break_on_hyphens=False)]
    for number, line in enumerate(lines):
        print(f"{what if not number else '':<11}{line}")


def _print_sql(sql: str) -> None:
    print("\n".join(f"             {line}" for line in safe_block(sql).splitlines()))


async def _examined(context: Context) -> _Examined:
    try:
        async with context.store() as store:
            info, counts, halt = store.info, await counts_of(store, _everything()), await store.halted()
            rules, invalid = await _policy(context, store)
            upgrade = await _upgrade(context, store, rules)
    except RunsForeignCode as problem:
        return _Examined(problem.info)
    if not info.ledger_is_readable:
        unknown = f"{UNKNOWN}: this role cannot read the console's ledger"
        return _Examined(info, {UNKNOWN: sum(counts.by_state.values())}, None, unknown, rules, invalid, upgrade)
    told = f"since {halt.since} by {halt.operator}: {halt.note}" if halt else ""
    return _Examined(info, dict(counts.by_state.items()), halt is not None, told, rules, invalid, upgrade)


def _doctor_lines(found: _Examined) -> Iterator[str]:
    info = found.info
    enforced = "enforced by the database" if info.read_only_enforced_by == "database" else "client-side only"
    yield f"store      {safe(info.label)}\nlayout     {info.layout} in {safe(info.table)}, pages by {info.order}"
    yield f"read-only  {'yes' if info.read_only else 'no'} ({enforced})"
    states = [f"{count} {state}" for state, count in (found.entries or {}).items() if count]
    yield f"entries    {'unknown: not read' if found.entries is None else ', '.join(states) or 'none'}"
    if retention := _RETENTION.get(info.layout):
        yield f"retention  {retention}"
    if found.halt:
        yield f"halt       {safe_block(found.halt)}"
    if info.login:
        acting = "" if info.login == info.role else f", acting as {info.role}"
        can = f"may not read {', '.join(info.unread)}" if info.unread else "may read everything it needs"
        yield safe_block(f"role       {info.login}{acting}: {can}")


async def _policy(context: Context, store: Store) -> tuple[tuple[RuleInForce, ...], tuple[Finding, ...]]:
    """What is in force here and where it comes from; and a finding where the policy cannot be used."""
    from console.settings.limits import LimitsInForce

    limits = LimitsInForce(context.config, context.store_config.environment)
    await refresh(limits, store)
    try:
        return limits.rules(), ()
    except ConfigError as problem:
        if not store.info.ledger_is_readable:
            return (), ()
        return (), (Finding("policy-invalid", f"{problem}: replays are refused until then"),)


async def _upgrade(context: Context, store: Store, rules: tuple[RuleInForce, ...]) -> tuple[UpgradeFinding, ...]:
    """What of version 0.1 is left. Accounts are those of the first open entries: enough to name what is missing."""
    from console.services.upgrade import UpgradeFacts, upgrade_findings

    if store.info.layout != ORDERS:
        return ()
    page = await store.page(Filter(states=OPEN_STATES), limit=_ENTRIES_LOOKED_AT)
    pairs = {(one.text("venue_name"), one.text("account_id")) for one in page.entries}
    facts = UpgradeFacts(
        accounts={(venue, account) for venue, account in pairs if venue and account},
        ledger_is_older=any(one.code == "ledger-older" for one in store.info.findings),
        environment=context.store_config.environment or next((r.value for r in rules if r.key == "environment"), None),
    )
    return tuple(upgrade_findings(context.config, context.store_config, facts))


_ENTRIES_LOOKED_AT = 1000


def _everything() -> Filter:
    return Filter(states=frozenset(STATES))


def _say_blind(store: Store) -> None:
    """Warns that states may be wrong, because the ledger cannot be read."""
    if (finding := store.info.unreadable) is not None:
        say(finding.text)


async def audit_verb(context: Context) -> int:
    return await (_verify(context) if context.args.what == "verify" else _export_audit(context))


async def _verify(context: Context) -> int:
    from backends.ledger.examination import examine
    from console.cli.printing.progress import ProgressBar

    if context.args.output:
        raise UsageError("-o is for audit export: leave it out")
    try:
        expected = Head.parse(context.args.head) if context.args.head else None
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    async with context.store() as store:
        refuse_blind(store)
        with ProgressBar("verifying events") as bar:
            seen = await examine(store, expected, bar)
    if seen.problem is not None:
        print(f"dlq: the audit chain is broken: {safe(seen.problem)}", file=sys.stderr)
        return REJECTED
    print(seen.head)
    for difference in seen.differences:
        print(f"dlq: differs from the chain: {safe(difference, 400)}", file=sys.stderr)
    if seen.differences:
        return REJECTED
    if seen.busy:
        say("the chain holds; the store kept changing, so verify again to compare the ledger's tables with it")
    if expected is None:
        print(
            "dlq: keep this head elsewhere; with it a later verify also finds truncation and rewriting", file=sys.stderr
        )
    return DONE


async def _export_audit(context: Context) -> int:
    if context.args.head:
        raise UsageError("--head is for audit verify")
    from console.cli.printing.progress import ProgressBar

    async with context.store() as store:
        refuse_blind(store)
        listing = EventListing(context.args.output or "json")
        with ProgressBar("exporting events", beside_rows=True) as bar:
            sys.stdout.writelines(f"{line}\n" for line in listing.head())
            async for block in store.audit():
                sys.stdout.writelines(f"{line}\n" for event in block for line in listing.lines(event))
                bar(block[-1].seq if block else 0)
            sys.stdout.writelines(f"{line}\n" for line in listing.end())
    return DONE
