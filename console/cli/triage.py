"""The verbs that change a store and need no venue: dismiss, restore, halt, resume."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from backends.records import Entry, Selection
from console.cli.context import DONE, NOT_ACTED, Context, no_such_entry, on_terminal, say, say_second
from console.cli.parser import UsageError
from console.cli.printing.interrupt import INTERRUPTED, command_line, stoppable
from console.cli.printing.progress import ProgressBar, counted
from console.services.session import Chosen, Resumption, StoreSession
from console.services.triage.approvals import resume_hash
from console.services.triage.triage import Done, Triage, uncut
from console.settings.reasons import reasons_for
from console.text.untrusted import safe


async def dismiss_verb(context: Context) -> int:
    args = context.args
    note = args.note
    async with context.session() as session:
        offered = reasons_for(session.info.layout, context.config.reasons)
        reason = None if not args.reason and on_terminal() else check_reason(context, offered)
        entries = await chosen_entries(context, session.triage)
        chosen = [Chosen(one.id, one.version, one.state) for one in entries]
        free = sum(one.state == "pending" for one in chosen)
        asks_number = free > 1 and not args.yes and on_terminal()
        if reason is None or asks_number:
            await _show_stake(context, session, [one for one in entries if one.state == "pending"])
        if reason is None:
            if (asked := _ask_reason(offered, note)) is None:
                await session.refuse_dismissal(chosen)
                print("dlq: no reason given, nothing was dismissed", file=sys.stderr)
                return NOT_ACTED
            reason, note = asked
        if asks_number and not _typed(free, "dismiss"):
            await session.refuse_dismissal(chosen)
            print("dlq: not confirmed, nothing was dismissed", file=sys.stderr)
            return NOT_ACTED
        with stoppable() as stopped, ProgressBar("dismissing") as bar:
            report = await session.dismiss(chosen, reason=reason, note=note, progress=bar, stop=stopped)
        rest = await _remaining(context, session.triage) if report.done.stopped else 0
    states = {one.id: one.state for one in chosen}
    missed = [
        (held, f"refused: {states[held].replace('_', ' ')}, reconcile or settle it first") for held in report.held
    ]
    missed += [(one.id, f"already {one.state}") for one in report.settled]
    code = _report("dismissed", report.done, missed, as_json=args.json)
    if not report.done.stopped:
        return code
    back = ("restore", "--filter", f"operation:{report.done.operation}", "--expect", str(len(report.done.done)))
    return _say_stopped(context, report.done, free, rest, command_line(context, *back))


async def _show_stake(context: Context, session: StoreSession, entries: Sequence[Entry]) -> None:
    """Say what is at stake before the first question, in the words of the console's gate."""
    from console.render.gates.dismissal import DismissalStake, dismiss_title, stake_lines
    from console.render.line import plain

    if not entries:
        return
    stake, types = DismissalStake(), {name: one.type for name, one in context.config.venues.items() if one.type}
    stake.add(await uncut(session.store, entries), types)
    lines = [dismiss_title(len(entries), stake), *stake_lines(stake, context.now(), "dlq ask")]
    print("\n".join(map(plain, lines)), file=sys.stderr)


async def restore_verb(context: Context) -> int:
    async with context.triage() as triage:
        entries = await chosen_entries(context, triage)
        back, refused = await triage.restorable(entries)
        cleared, refused = await _cleared(context, triage, entries, refused)
        with stoppable() as stopped, ProgressBar("restoring") as bar:
            report = await triage.restore(Selection.of(back), note=context.args.note, progress=bar, stop=stopped)
        rest = await _remaining(context, triage) if report.stopped else 0
    told = dict.fromkeys(cleared, "poison cleared")
    done = replace(report, done=(*report.done, *cleared))
    code = _report("restored", done, refused, as_json=context.args.json, told=told)
    if not report.stopped:
        return code
    words = ("dismiss", "--filter", f"operation:{report.operation}", "--expect", str(len(report.done)))
    return _say_stopped(context, report, len(back), rest, command_line(context, *words, "--reason", "CODE"))


async def _remaining(context: Context, triage: Triage) -> int:
    """How many the filters still match; 0 where ids were given."""
    return 0 if context.args.ids else len(await triage.select(context.query()))


def _say_stopped(context: Context, report: Done, of: int, rest: int, back: str) -> int:
    verb = context.args.verb
    done = "restored" if verb == "restore" else "dismissed"
    say(f"stopped: {len(report.done):,} of {of:,} entries are {done}, the others are unchanged")
    say(f"to go on: the same command{f' with --expect {rest}' if rest else ''}")
    if report.done:
        say(f"to go back: {back}")
    return INTERRUPTED


async def _cleared(
    context: Context, triage: Triage, entries: Sequence[Entry], refused: list[tuple[str, str]]
) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """Clear the pending entries that are poisoned. (their ids, what stays refused)."""
    poisoned = tuple(await triage.poisoned([one for one in entries if one.state == "pending"]))
    note = (context.args.note or "").strip()
    if not poisoned:
        return (), refused
    if not note:
        why = "is poisoned: say with --note TEXT why that no longer counts"
        return (), [(one, why if one in poisoned else text) for one, text in refused]
    await triage.clear(poisoned, note=note)
    return poisoned, [(one, text) for one, text in refused if one not in poisoned]


async def halt_verb(context: Context) -> int:
    async with context.triage() as triage:
        await triage.halt((context.args.note or "").strip())
    print("halted: no console replays on this store until dlq resume")
    return DONE


async def resume_verb(context: Context) -> int:
    note = _needs_note(context)
    async with context.session() as session:
        match await session.resume(note):
            case Resumption("resumed"):
                print("resumed")
                return DONE
            case Resumption("not-halted"):
                say("no halt is set on this store: there is nothing to resume")
            case Resumption("needs-second", halt) if halt is not None:
                say_second("lifting a halt in a live store", resume_hash(halt), session.way_out)
    return NOT_ACTED


def check_reason(context: Context, offered: Sequence[str]) -> str:
    """A code of this layout or, in a script for several, of orders. Raises UsageError."""
    reason = context.args.reason
    if reason not in (*offered, *context.config.reasons):
        said = f"{safe(str(reason), 80)} is not a reason" if reason else "say why with --reason CODE"
        raise UsageError(f"{said}; there are: {' '.join(offered)}")
    if reason == "other" and not (context.args.note or "").strip():
        raise UsageError("reason other needs a --note that says why")
    return str(reason)


def _ask_reason(known: Sequence[str], note: str | None) -> tuple[str, str | None] | None:
    """(reason, note) as somebody at the terminal says them; None when they say nothing."""
    print("why are you dismissing it?", file=sys.stderr)
    for number, code in enumerate(known, 1):
        print(f"  {number:2}  {safe(code, 80)}", file=sys.stderr)
    while True:
        said = _answer("reason, by number or code (leave empty to dismiss nothing): ")
        if not said:
            return None
        reason = known[int(said) - 1] if said.isdecimal() and 1 <= int(said) <= len(known) else said
        if reason in known:
            break
        print(f"{safe(said, 80)} is not one of them", file=sys.stderr)
    if reason == "other" and not (note or "").strip():
        note = _answer("a note that says why: ")
        return (reason, note) if note else None
    return reason, note


def _answer(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    said = sys.stdin.readline()
    if not said.endswith("\n"):
        print(file=sys.stderr)  # the end of the input leaves the cursor behind the question
    return said.strip()


def _needs_note(context: Context) -> str:
    note = (context.args.note or "").strip()
    if not note:
        raise UsageError("say why with --note TEXT")
    return note


async def chosen_entries(context: Context, triage: Triage, *, by_venue: bool = True) -> list[Entry]:
    """The entries named by ids or filters. Raises UsageError for an unknown id or an unexpected count.

    Without `by_venue`, --venue says where orders are sent and selects none.
    """
    args = context.args
    ids = tuple(dict.fromkeys(args.ids))
    expect = getattr(args, "expect", None)
    by_filter = context.has_filters or (getattr(args, "venue", None) is not None and args.verb != "replay")
    if ids and by_filter:
        raise UsageError("give ids or filters, not both")
    if ids:
        found, missing = await triage.chosen(ids)
        if missing:
            raise no_such_entry(missing)
        entries = [found[entry_id] for entry_id in ids]
    elif by_filter or (by_venue and getattr(args, "venue", None) is not None):
        try:
            with ProgressBar("reading entries") as bar:
                found_rows = counted(triage.stream(context.query(by_venue=by_venue), whole=False), bar)
                entries = [row.entry async for row in found_rows]
        except asyncio.CancelledError:
            say("nothing was done: it was stopped while the entries were read")
            raise
        if expect is None:
            if not entries:
                raise UsageError("no entry matches these filters; dlq list shows what there is")
            raise UsageError(f"{_matching(entries)}: say --expect {len(entries)} if you mean them all")
    else:
        raise UsageError("which entries? give ids, or filters with --expect N")
    if expect is not None and len(entries) != expect:
        raise UsageError(f"{_matching(entries)}, not {expect} as --expect says: nothing was done")
    return entries


def _matching(entries: list[Entry]) -> str:
    return "1 entry matches" if len(entries) == 1 else f"{len(entries)} entries match"


def _typed(count: int, what: str) -> bool:
    return _answer(f"type {count} to {what} {count} entries: ") == str(count)


def _report(
    done: str,
    report: Done,
    refused: Iterable[tuple[str, str]],
    *,
    as_json: bool,
    told: Mapping[str, str] = MappingProxyType({}),
) -> int:
    missed = [*refused, *((entry_id, f"changed meanwhile: {now}") for entry_id, now in report.changed)]
    if as_json:
        for entry_id in report.done:
            print(json.dumps({"dlq_id": entry_id, "outcome": done, "detail": told.get(entry_id)}))
        for entry_id, why in missed:
            outcome = "refused" if why.startswith(("refused", "is ")) else "skipped"
            print(json.dumps({"dlq_id": entry_id, "outcome": outcome, "detail": why}))
    else:
        for entry_id in report.done:
            print(f"{done} {safe(entry_id, 200)}" + (f"  {told[entry_id]}" if entry_id in told else ""))
    for entry_id, why in missed:
        print(f"dlq: {safe(entry_id, 200)}: {safe(why)}", file=sys.stderr)
    return NOT_ACTED if missed else DONE
