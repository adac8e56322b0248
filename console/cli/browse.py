"""The verbs that only read: list, show, export, doctor, audit."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence

from backends.ledger.audit_chain import Head, Verifier
from backends.records import STATES, Filter, Finding, StoreInfo, number, readable
from backends.store import Store
from console.cli.context import DONE, REJECTED, Context, refuse_blind, say
from console.cli.output import event_pairs, history_json, history_lines, json_row, plain_entry, stored_number
from console.cli.parser import UsageError
from console.services.layout_fields import OUTBOX, bytes_text, shown_values
from console.services.policy import refresh
from console.services.triage.triage import UNKNOWN, ClassifiedEntry
from console.settings.config import ConfigError
from console.settings.limits import LimitsInForce
from console.settings.policy import RuleInForce
from console.text.untrusted import safe_block


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
            writer.writerow(names)
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
    shown = text if text.isprintable() else safe_block(text, len(text))
    return f"'{shown}" if shown.lstrip()[:1] in tuple("=+-@") and number(shown) is None else shown


_RETENTION = {OUTBOX: "only its owner deletes dead letters: docs/outbox.md has partitions and a daily delete"}


async def doctor_verb(context: Context) -> int:
    async with context.store() as store:
        info = store.info
        counts = await store.counts(_everything())
        halted = await store.halted()
        rules, findings = await _policy(context, store)
    entries = dict(counts.by_state) if info.ledger_is_readable else {UNKNOWN: sum(counts.by_state.values())}
    report = {
        "store": info.label,
        "layout": info.layout,
        "table": info.table,
        "columns": list(info.columns),
        "order": info.order,
        "role": info.role,
        "read_only": info.read_only,
        "read_only_enforced_by": info.read_only_enforced_by,
        "entries": entries,
        "halted": halted is not None if info.ledger_is_readable else None,
        "in_force": [{"key": rule.key, "value": rule.value, "from": rule.source} for rule in rules],
        "findings": [{"code": f.code, "text": f.text, "remedy": f.sql or None} for f in findings],
    }
    if context.args.json:
        print(json.dumps(report))
        return DONE
    states = [f"{count} {state}" for state, count in entries.items() if count]
    halt = f"since {halted.since} by {halted.operator}: {halted.note}" if halted else ""
    if not info.ledger_is_readable:
        halt = f"{UNKNOWN}: this role cannot read the console's ledger"
    for line in _doctor_lines(info, states, halt):
        print(line)
    for rule in rules:
        print(f"in force   {safe_block(str(rule))}")
    for finding in findings:
        print(f"finding    {finding.code}: {safe_block(finding.text)}")
        if finding.sql:
            print("           an owner would run:")
            print("\n".join(f"             {line}" for line in safe_block(finding.sql).splitlines()))
    return DONE


def _doctor_lines(info: StoreInfo, states: Sequence[str], halt: str) -> Iterator[str]:
    enforced = "enforced by the database" if info.read_only_enforced_by == "database" else "client-side only"
    yield f"store      {info.label}\nlayout     {info.layout} in {info.table}, pages by {info.order}"
    yield f"read-only  {'yes' if info.read_only else 'no'} ({enforced})"
    yield f"entries    {', '.join(states) or 'none'}"
    if retention := _RETENTION.get(info.layout):
        yield f"retention  {retention}"
    if halt:
        yield f"halt       {safe_block(halt)}"


async def _policy(context: Context, store: Store) -> tuple[tuple[RuleInForce, ...], tuple[Finding, ...]]:
    """What is in force here and where it comes from; and the findings, with one where the policy cannot be used."""
    limits = LimitsInForce(context.config, context.store_config.environment)
    await refresh(limits, store)
    try:
        return limits.rules(), store.info.findings
    except ConfigError as problem:
        if not store.info.ledger_is_readable:
            return (), store.info.findings
        text = f"{problem}: replays are refused until then"
        return (), (*store.info.findings, Finding("policy-invalid", text))


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
    verifier = Verifier(expected)
    async with context.store() as store:
        refuse_blind(store)
        async for block in store.chain():
            if not verifier.feed(block):
                break
    if broken := verifier.finish():
        print(f"dlq: the audit chain is broken: {broken}", file=sys.stderr)
        return REJECTED
    print(verifier.head)
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
