"""The verbs that only read: list, show, export, doctor, audit."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from backends.ledger.audit_chain import Head
from backends.ledger.examination import examine
from backends.ledger.roles import APPROVER, AUDITOR, OPERATOR
from backends.records import STATES, Filter, Finding, StoreInfo, number, readable
from backends.store import RunsForeignCode, Store
from console.cli.context import DONE, REJECTED, Context, refuse_blind, say
from console.cli.output import history_json, history_lines, json_row, plain_entry, stored_number
from console.cli.parser import UsageError
from console.render.entry_json import event_pairs
from console.services.layout_fields import OUTBOX, bytes_text, shown_values
from console.services.policy import refresh
from console.services.triage.triage import UNKNOWN, ClassifiedEntry
from console.settings.config import ConfigError
from console.settings.limits import LimitsInForce
from console.settings.policy import RuleInForce
from console.text.untrusted import is_harmless, safe, safe_block


async def list_verb(context: Context) -> int:
    args = context.args
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit must not be negative")
    show, types = json_row if args.json else plain_entry, context.venue_types
    async with context.triage() as triage:
        _say_blind(triage.store)
        query = context.query(everything=args.all)
        facts = await triage.mark_facts()
        async for row in triage.stream(query, limit=args.limit):
            sys.stdout.write(show(ClassifiedEntry(row.entry, facts), types) + "\n")
    return DONE


async def show_verb(context: Context) -> int:
    async with context.triage() as triage:
        _say_blind(triage.store)
        history = await triage.history(context.args.id)
    if history is None:
        raise UsageError("no entry of that id in this store")
    if context.args.json:
        print(history_json(history, context.venue_types))
    else:
        for line in history_lines(history, context.venue_types):
            print(line)
    return DONE


async def export_verb(context: Context) -> int:
    async with context.triage() as triage:
        _say_blind(triage.store)
        info = triage.store.info
        own = () if "dlq_id" in info.columns else ("dlq_id", "layout")
        types = context.venue_types
        names = (*own, *info.columns, "state", "category", "fingerprint")
        writer = csv.writer(sys.stdout, lineterminator="\n")
        if context.args.format == "csv":
            writer.writerow(map(inert, names))
        query, facts = context.query(everything=True), await triage.mark_facts()
        async for row in triage.stream(query):
            if context.args.format == "jsonl":
                sys.stdout.write(json_row(ClassifiedEntry(row.entry, facts), types) + "\n")
                continue
            values = shown_values(row.entry)
            stored = [inert(bytes_text(one)) if own and isinstance(one, bytes) else _cell(one) for one in values]
            first = (inert(row.entry.id), row.entry.layout) if own else ()
            state = ClassifiedEntry(row.entry, facts).state
            writer.writerow([*first, *stored, state, row.category, row.fingerprint])
    return DONE


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    return stored_number(value) if isinstance(value, int | float) else inert(readable(value))


def inert(text: str) -> str:
    """The text as a cell that neither a terminal nor a spreadsheet acts on; a number stays one."""
    shown = text if is_harmless(text) else safe_block(text, len(text))
    first = _BEGINNING.match(shown)
    return f"'{shown}" if first is not None and number(shown) is None else shown


_BEGINNING = re.compile(r"\s*[=+\-@＝＋－＠]")  # spreadsheets read the wide ones too
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
            "findings": [{"code": f.code, "text": f.text, "remedy": f.sql or None} for f in self.findings],
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
        print(f"finding    {finding.code}: {safe_block(finding.text)}")
        if finding.sql:
            print("           an owner would run:")
            _print_sql(finding.sql)
    for name, sql in found.info.role_sql:
        print(f"grants     {_GRANTS[name]}")
        _print_sql(sql)
    return DONE


_GRANTS = {
    "owner": "an owner who does not act would first make the ledger, or bring it to this version:",
    "operator": f"an operator may {OPERATOR.may}; an owner would run:",
    "approver": f"an approver may {APPROVER.may}; an owner would run:",
    "auditor": f"an auditor may {AUDITOR.may}; an owner would run:",
}


def _print_sql(sql: str) -> None:
    print("\n".join(f"             {line}" for line in safe_block(sql).splitlines()))


async def _examined(context: Context) -> _Examined:
    try:
        async with context.store() as store:
            info, counts, halt = store.info, await store.counts(_everything()), await store.halted()
            rules, invalid = await _policy(context, store)
    except RunsForeignCode as problem:
        return _Examined(problem.info)
    if not info.ledger_is_readable:
        unknown = f"{UNKNOWN}: this role cannot read the console's ledger"
        return _Examined(info, {UNKNOWN: sum(counts.by_state.values())}, None, unknown, rules, invalid)
    told = f"since {halt.since} by {halt.operator}: {halt.note}" if halt else ""
    return _Examined(info, dict(counts.by_state.items()), halt is not None, told, rules, invalid)


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
    limits = LimitsInForce(context.config, context.store_config.environment)
    await refresh(limits, store)
    try:
        return limits.rules(), ()
    except ConfigError as problem:
        if not store.info.ledger_is_readable:
            return (), ()
        return (), (Finding("policy-invalid", f"{problem}: replays are refused until then"),)


def _everything() -> Filter:
    return Filter(states=frozenset(STATES))


def _say_blind(store: Store) -> None:
    """Warns that states may be wrong, because the ledger cannot be read."""
    if (finding := store.info.unreadable) is not None:
        say(finding.text)


async def audit_verb(context: Context) -> int:
    return await (_verify(context) if context.args.what == "verify" else _export_audit(context))


async def _verify(context: Context) -> int:
    try:
        expected = Head.parse(context.args.head) if context.args.head else None
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    async with context.store() as store:
        refuse_blind(store)
        seen = await examine(store, expected)
    if seen.problem is not None:
        print(f"dlq: the audit chain is broken: {safe(seen.problem)}", file=sys.stderr)
        return REJECTED
    print(seen.head)
    for difference in seen.differences:
        print(f"dlq: differs from the chain: {safe(difference, 400)}", file=sys.stderr)
    if seen.differences:
        return REJECTED
    if seen.busy:
        say("the chain holds; somebody acted all the while, so verify again to compare the ledger's tables with it")
    if expected is None:
        print(
            "dlq: keep this head elsewhere; with it a later verify also finds truncation and rewriting", file=sys.stderr
        )
    return DONE


async def _export_audit(context: Context) -> int:
    if context.args.head:
        raise UsageError("--head is for audit verify")
    async with context.store() as store:
        refuse_blind(store)
        async for block in store.audit():
            sys.stdout.writelines(json.dumps(event_pairs(event)) + "\n" for event in block)
    return DONE
