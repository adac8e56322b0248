"""The verbs that send or settle: replay, reconcile, settle, ask, approve. They say and print; the session does."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from backends.records import Entry, Selection
from backends.store import ActRefused
from console.cli.context import DONE, NOT_ACTED, Context, no_such_entry, on_terminal, say, say_second
from console.cli.parser import UsageError
from console.cli.printing.listing import Form, document_list, form_of
from console.cli.printing.table import TextColumn
from console.cli.results import (
    answer_document,
    json_result,
    plain_answer,
    plain_result,
    run_batch,
    say_plan,
    say_waiting,
)
from console.cli.triage import chosen_entries
from console.render.gates.waiting import waiting_line
from console.render.plan import Entries, renewed_text
from console.services.evidence.settle import SettleRequest
from console.services.json_lines import json_line
from console.services.replay.background_run import RunHandle
from console.services.replay.guards import OVERRIDABLE
from console.services.replay.outcome import EntryOutcome
from console.services.replay.preflight import ReplayRequest
from console.services.replay.target import SendPlan, after_approval
from console.services.resend.plan import POISON
from console.services.session import StoreSession
from console.services.triage.approvals import WaitingPlan
from console.text.untrusted import EMPTY, safe
from venues import Mode

_REQUEST = (
    "filter",
    "override",
    "note",
    "venue",
    "account",
    "market",
    "side",
    "category",
    "state",
    "group",
    "since",
    "until",
    "search",
    "failure_reason",
)
_READ_ONLY = "read-only: nothing is sent and nobody is asked, as that takes credentials"


def replay_verb(context: Context) -> int:
    args = context.args
    return run_batch(lambda handle: _replay(context, handle), as_json=args.json, dry_run=args.dry_run)


def reconcile_verb(context: Context) -> int:
    return run_batch(lambda handle: _reconcile(context, handle), as_json=context.args.json)


async def approve_verb(context: Context) -> int:
    """Without a plan: what waits. With one: its orders, then the approval."""
    args = context.args
    async with context.session() as session:
        if args.plan is None:
            return _print_waiting(await session.waiting(), form_of(args))
        if not args.plan.isascii() or (asked := await session.asked(args.plan)) is None:
            raise UsageError(f"no plan {safe(args.plan, 80) or EMPTY} waits here; dlq approve lists what does")
        if not args.json or not args.yes:
            say_waiting(asked)
        if session.info.read_only:
            raise ActRefused(session.info.why_read_only or "read-only: nothing is approved")
        if not args.yes and not _typed_approval(asked.word):
            say("not approved: type the words, or say --yes where nobody can type")
            return NOT_ACTED
        answered = await session.approve(args.plan, typed=not args.yes)
        why_not = await session.why_not_approved(answered, args.plan) if answered != "approved" else ""
    if answered != "approved":
        say(f"refused: {why_not}")
        return NOT_ACTED
    told = json_line({**asked.row, "approved": True}) if args.json else None
    print(told or f"approved {safe(asked.plan, 80)}: {safe(asked.summary)}")
    return DONE


def _print_waiting(waiting: Sequence[WaitingPlan], form: Form) -> int:
    if form == "plain":
        for one in waiting:
            print(waiting_line(one))
    else:
        for line in document_list(form, [one.row for one in waiting], _WAITING_COLUMNS):
            print(line)
    if not waiting:
        say("nothing waits for a second person")
    return DONE


_WAITING_COLUMNS = {
    "plan": TextColumn("PLAN"),
    "kind": TextColumn("KIND"),
    "mode": TextColumn("MODE"),
    "asked_by": TextColumn("ASKED BY", least=8),
    "expires_at": TextColumn("EXPIRES", least=20),
}
_ANSWER_COLUMNS = {
    "dlq_id": TextColumn("ID"),
    "answer": TextColumn("ANSWER"),
    "equal": TextColumn("EQUAL"),
    "status": TextColumn("STATUS"),
    "venue_order_id": TextColumn("VENUE ORDER", least=8),
    "detail": TextColumn("DETAIL", least=12),
}


def _typed_approval(word: str) -> bool:
    if not on_terminal():
        return False
    print(f"type {word}: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == word


async def _replay(context: Context, handle: RunHandle) -> tuple[EntryOutcome, ...]:
    args = context.args
    async with context.session() as session:
        request, asked_for = _request(context, session), _asked_for(context)
        chosen, approved = await _selected(context, session, asked_for)
        if session.info.read_only:
            say(session.info.why_read_only or _READ_ONLY)
            mode = request.mode if session.has_modes else None
            return _told(handle, [EntryOutcome(one.id, "refused", mode, detail="read-only") for one in chosen])
        selection = Selection.of(chosen)
        plan = after_approval(await session.plan(selection, request), _unsent(chosen) if approved else ())
        entries = {one.id: one for one in chosen}
        _say_plan(plan, entries, as_json=args.json)
        if args.dry_run:
            return _told(handle, plan.planned())
        lost: tuple[EntryOutcome, ...] = ()
        confirmed = False
        while plan.count:
            if not await session.is_approved(plan, asked_for):
                say_second(plan.needs_second or "", plan.hash, session.way_out)
                why = f"needs a second person: {plan.needs_second}; {session.way_out}"
                return _told(handle, (*lost, *plan.refused(why)))
            if confirmed:
                break
            if not _confirmed(context, plan, live=session.has_modes and request.mode == "live"):
                await session.refuse_held(plan)
                return _told(handle, (*lost, *plan.refused("not confirmed")))
            shown, renewed = plan, await session.renewed(plan, selection, request)
            plan, confirmed = renewed.plan, renewed.is_same
            if confirmed:
                lost = (*lost, *renewed.lost)
                continue
            say(f"the plan was made again, as the one shown is too old: {renewed_text(shown, renewed)}")
            _say_plan(plan, entries, as_json=args.json)
            if args.yes or not on_terminal():
                await session.refuse_held(plan)
                return _told(handle, plan.refused("the plan was made again and came out different: nothing was sent"))
        _say_lost(lost)
        return (*_told(handle, lost), *await session.replay_work(plan, args.note)(handle))


def _say_plan(plan: SendPlan, entries: Entries, *, as_json: bool) -> None:
    if plan.problem is not None:
        say(plan.problem)
    elif not as_json:
        say_plan(plan, entries)


def _say_lost(lost: Sequence[EntryOutcome]) -> None:
    for one in lost:
        say(f"{safe(one.entry_id, 80)} no longer goes: {safe(one.detail or '')}")


async def _selected(context: Context, session: StoreSession, asked_for: str) -> tuple[list[Entry], bool]:
    """What is asked for; once a plan of this very request was approved, its entries and no others, and True."""
    approved = await session.approved_ids(asked_for) if session.has_modes else ()
    if not approved or context.args.dry_run:
        return await chosen_entries(context, session.triage, by_venue=not session.has_modes), False
    found, _ = await session.triage.chosen(approved)
    return [found[one] for one in approved if one in found], True


def _unsent(approved: Sequence[Entry]) -> list[str]:
    """Those that no run of the approved plan has sent by now."""
    return [one.id for one in approved if one.state in ("pending", "dismissed")]


def _asked_for(context: Context) -> str:
    """The request, by which its approved plan is found again."""
    args = context.args
    mode = args.mode or context.store_config.mode
    named = {name: str(value) for name, value in sorted(vars(args).items()) if name in _REQUEST and value}
    return json.dumps([context.actor.os_user, mode, sorted(args.ids), named], sort_keys=True)


def _request(context: Context, session: StoreSession) -> ReplayRequest:
    args = context.args
    if not session.has_modes:
        _check_no_order_words(context)
        return ReplayRequest(mode="live", overrides=_overrides(context, (POISON,)), single=len(args.ids) == 1)
    overrides = _overrides(context, OVERRIDABLE)
    mode = said_mode(context)
    if not args.dry_run:
        _check_live_is_meant(context, mode)
    return ReplayRequest(mode=mode, venue=args.venue, overrides=overrides, single=len(args.ids) == 1)


def _overrides(context: Context, possible: Sequence[str]) -> frozenset[str]:
    args = context.args
    overrides = frozenset(filter(None, (name.strip() for name in (args.override or "").split(","))))
    if unknown := sorted(overrides - set(possible)):
        raise UsageError(f"{safe(unknown[0], 80)} cannot be overridden; these can: {' '.join(possible)}")
    if overrides and not (args.note or "").strip():
        raise UsageError("--override needs a --note that says why")
    return overrides


def _check_no_order_words(context: Context) -> None:
    args = context.args
    if args.mode is not None:
        raise UsageError(f"--{args.mode} is for orders: this store's entries have no venue")
    if args.ids and getattr(args, "venue", None):
        raise UsageError("--venue is for orders; without ids it picks a queue or a provider")


def said_mode(context: Context) -> Mode:
    mode = context.args.mode or context.store_config.mode
    if mode is None:
        raise UsageError("say --paper or --live")
    return "live" if mode == "live" else "paper"


def _check_live_is_meant(context: Context, mode: Mode) -> None:
    """Live without a terminal needs --yes and, for more than one entry, --expect N."""
    args = context.args
    if mode != "live" or on_terminal():
        return
    if not args.yes:
        raise UsageError("live without a terminal needs --yes")
    if len(args.ids) != 1 and args.expect is None:
        raise UsageError("live without a terminal needs --expect N for more than one entry")


def _confirmed(context: Context, plan: SendPlan, *, live: bool) -> bool:
    """One entry that is not live needs no typed number."""
    if context.args.yes or not on_terminal() or (plan.count == 1 and not live):
        return True
    answer = f"live {plan.count}" if live else str(plan.count)
    print(f"type {answer} to send: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == answer


def _told(handle: RunHandle, results: Sequence[EntryOutcome]) -> tuple[EntryOutcome, ...]:
    for result in results:
        handle.tell(result)
    return tuple(results)


async def _reconcile(context: Context, handle: RunHandle) -> tuple[EntryOutcome, ...]:
    ids = tuple(dict.fromkeys(context.args.ids))
    async with context.session() as session:
        if not session.has_modes:
            _check_no_order_words(context)
        modes = (said_mode(context),) if session.has_modes else ()
        _, missing = await session.triage.chosen(ids)
        if missing and session.target.lists_all:
            raise no_such_entry(missing)
        if session.info.read_only:
            raise ActRefused(session.info.why_read_only or _READ_ONLY)
        results = await session.reconcile_work(ids, modes)(handle)
        if session.has_modes and not results and not ids:
            say("nothing is in doubt")
        return results


async def settle_verb(context: Context) -> int:
    args = context.args
    if not (args.note or "").strip():
        raise UsageError("settle needs a --note that says what you saw")
    if args.order and args.claimed == "absent":
        raise UsageError("--order names the order that is there: it goes with --as accepted")
    if not args.yes and on_terminal() and not _typed_settle(args.id, args.claimed):
        say("not confirmed, nothing was settled")
        return NOT_ACTED
    async with context.session() as session:
        _, missing = await session.triage.chosen((args.id,))
        if missing and session.target.lists_all:
            raise no_such_entry(missing)
        if session.info.read_only:
            raise ActRefused(session.info.why_read_only or _READ_ONLY)
        request = SettleRequest(args.id, args.claimed, args.note.strip(), args.order, args.mode)
        report, way_out = await session.settle(request), session.way_out
    print(json_result(report.ended) if args.json else plain_result(report.ended))
    if report.plan is not None:
        say_second(f"to settle {args.id} in live", report.plan, way_out)
    return DONE if report.is_done else NOT_ACTED


def _typed_settle(entry_id: str, claimed: str) -> bool:
    print(f"type settle to settle {safe(entry_id, 80)} as {claimed}: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == "settle"


async def ask_verb(context: Context) -> int:
    args = context.args
    ids = tuple(dict.fromkeys(args.ids))
    if args.read_only:
        say(_READ_ONLY)
        return NOT_ACTED
    async with context.session() as session:
        if not session.has_modes:
            _check_no_order_words(context)
        mode = said_mode(context) if session.has_modes else "live"
        _, missing = await session.triage.chosen(ids)
        if missing:
            raise no_such_entry(missing)
        answers = await session.ask(ids, mode)
    if (form := form_of(args)) == "plain":
        for answer in answers:
            print(plain_answer(answer))
    else:
        for line in document_list(form, [answer_document(one) for one in answers], _ANSWER_COLUMNS):
            print(line)
    return DONE if all(answer.is_answered for answer in answers) else NOT_ACTED
