"""The verbs that only read: list, show, export, doctor, audit."""

from __future__ import annotations

import csv
import json
import re
import sys

from backends.ledger.audit_chain import Head, Verifier
from backends.records import STATES, Filter, number, readable
from backends.store import Store, Unreachable
from console.cli.context import DONE, REJECTED, Context, say
from console.cli.output import event_pairs, history_json, history_lines, json_row, plain_entry, stored_number
from console.cli.parser import UsageError
from console.services.layout_fields import OUTBOX, bytes_text, shown_values
from console.services.triage.triage import ClassifiedEntry
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
    shown = text if is_harmless(text) else safe_block(text, len(text))
    first = _BEGINNING.match(shown)
    return f"'{shown}" if first is not None and number(shown) is None else shown


_BEGINNING = re.compile(r"\s*[=+\-@＝＋－＠]")  # spreadsheets read the wide ones too
_RETENTION = {OUTBOX: "only its owner deletes dead letters: docs/outbox.md has partitions and a daily delete"}


async def doctor_verb(context: Context) -> int:
    async with context.store() as store:
        info = store.info
        counts = await store.counts(_everything())
        halted = await store.halted()
    report = {
        "store": info.label,
        "layout": info.layout,
        "table": info.table,
        "columns": list(info.columns),
        "order": info.order,
        "role": info.role,
        "read_only": info.read_only,
        "read_only_enforced_by": info.read_only_enforced_by,
        "entries": dict(counts.by_state),
        "halted": halted is not None,
        "findings": [{"code": f.code, "text": f.text, "remedy": f.sql or None} for f in info.findings],
    }
    if context.args.json:
        print(json.dumps(report))
        return DONE
    enforced = "enforced by the database" if info.read_only_enforced_by == "database" else "client-side only"
    print(f"store      {safe(info.label)}\nlayout     {info.layout} in {safe(info.table)}, pages by {info.order}")
    print(f"read-only  {'yes' if info.read_only else 'no'} ({enforced})")
    states = [f"{count} {state}" for state, count in counts.by_state.items() if count]
    print(f"entries    {', '.join(states) or 'none'}")
    if retention := _RETENTION.get(info.layout):
        print(f"retention  {retention}")
    if halted:
        print(f"halt       since {safe(halted.since)} by {safe_block(halted.operator)}: {safe_block(halted.note)}")
    for finding in info.findings:
        print(f"finding    {finding.code}: {safe_block(finding.text)}")
        if finding.sql:
            print("           an owner would run:")
            print("\n".join(f"             {line}" for line in safe_block(finding.sql).splitlines()))
    return DONE


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
    verifier = Verifier(expected)
    async with context.store() as store:
        _refuse_blind(store)
        async for block in store.chain():
            if not verifier.feed(block):
                break
    if broken := verifier.finish():
        print(f"dlq: the audit chain is broken: {safe(broken)}", file=sys.stderr)
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
        _refuse_blind(store)
        async for block in store.audit():
            sys.stdout.writelines(json.dumps(event_pairs(event)) + "\n" for event in block)
    return DONE
