"""The verbs that only read: list, show, export, doctor, audit."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence

from backends.ledger.audit_chain import Head
from backends.ledger.examination import examine
from backends.ledger.roles import APPROVER, AUDITOR, OPERATOR
from backends.records import STATES, Filter, Finding, StoreInfo, number, readable
from backends.store import Store, Unreachable
from console.cli.context import DONE, REJECTED, Context, say
from console.cli.output import event_pairs, history_json, history_lines, json_row, plain_entry, stored_number
from console.cli.parser import UsageError
from console.services.layout_fields import OUTBOX, bytes_text, shown_values
from console.services.triage.triage import ClassifiedEntry
from console.text.untrusted import safe, safe_block


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
            writer.writerow([*first, *stored, row.entry.state, row.category, row.fingerprint])
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
    findings = [*info.findings, *([info.advisory] if info.advisory else ())]
    report = {
        "store": info.label,
        "layout": info.layout,
        "table": info.table,
        "columns": list(info.columns),
        "order": info.order,
        "role": info.role,
        "login": info.login,
        "read_only": info.read_only,
        "read_only_enforced_by": info.read_only_enforced_by,
        "entries": dict(counts.by_state),
        "halted": halted is not None,
        "reads_all": not info.unread,
        "unread": list(info.unread),
        "findings": [{"code": f.code, "text": f.text, "remedy": f.sql or None} for f in findings],
        "grants": dict(info.role_sql),
    }
    if context.args.json:
        print(json.dumps(report))
        return DONE
    enforced = "enforced by the database" if info.read_only_enforced_by == "database" else "client-side only"
    print(f"store      {info.label}\nlayout     {info.layout} in {info.table}, pages by {info.order}")
    print(f"read-only  {'yes' if info.read_only else 'no'} ({enforced})")
    states = [f"{count} {state}" for state, count in counts.by_state.items() if count]
    print(f"entries    {', '.join(states) or 'none'}")
    if retention := _RETENTION.get(info.layout):
        print(f"retention  {retention}")
    if halted:
        print(f"halt       since {halted.since} by {safe_block(halted.operator)}: {safe_block(halted.note)}")
    _print_roles(info, findings)
    return DONE


def _print_roles(info: StoreInfo, findings: Sequence[Finding]) -> None:
    if info.login:
        acting = "" if info.login == info.role else f", acting as {info.role}"
        can = f"may not read {', '.join(info.unread)}" if info.unread else "may read everything it needs"
        print(safe_block(f"role       {info.login}{acting}: {can}"))
    for finding in findings:
        print(f"finding    {finding.code}: {safe_block(finding.text)}")
        if finding.sql:
            print("           an owner would run:")
            _print_sql(finding.sql)
    for name, sql in info.role_sql:
        print(f"grants     {_GRANTS[name]}")
        _print_sql(sql)


_GRANTS = {
    "owner": "an owner who does not act would first make the ledger, or bring it to this version:",
    "operator": f"an operator may {OPERATOR.may}; an owner would run:",
    "approver": f"an approver may {APPROVER.may}; an owner would run:",
    "auditor": f"an auditor may {AUDITOR.may}; an owner would run:",
}


def _print_sql(sql: str) -> None:
    print("\n".join(f"             {line}" for line in safe_block(sql).splitlines()))


def _everything() -> Filter:
    return Filter(states=frozenset(STATES))


def _unreadable(store: Store) -> str | None:
    """The finding's text, if a ledger exists that this role may not read."""
    return next((finding.text for finding in store.info.findings if finding.code == "ledger-unreadable"), None)


def _say_blind(store: Store) -> None:
    """Warns that states may be wrong, because the ledger cannot be read."""
    if text := _unreadable(store):
        say(text)


def _refuse_blind(store: Store) -> None:
    """Refuses to judge a chain that cannot be read, instead of calling it empty."""
    if text := _unreadable(store):
        raise Unreachable(f"{store.info.label}: {text.partition(':')[0]}")


async def audit_verb(context: Context) -> int:
    return await (_verify(context) if context.args.what == "verify" else _export_audit(context))


async def _verify(context: Context) -> int:
    try:
        expected = Head.parse(context.args.head) if context.args.head else None
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    async with context.store() as store:
        _refuse_blind(store)
        seen = await examine(store, expected)
    if seen.problem is not None:
        print(f"dlq: the audit chain is broken: {seen.problem}", file=sys.stderr)
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
        _refuse_blind(store)
        async for block in store.audit():
            sys.stdout.writelines(json.dumps(event_pairs(event)) + "\n" for event in block)
    return DONE
