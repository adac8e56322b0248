"""The verbs that send or settle: replay, reconcile, approve. They say, ask and print; the session does."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from backends.records import Selection
from console.cli.context import DONE, NOT_ACTED, Context, on_terminal, say, say_second
from console.cli.parser import UsageError
from console.cli.results import run_batch, say_plan
from console.cli.triage import chosen_entries, no_such_entry
from console.services.replay.background_run import RunHandle
from console.services.replay.guards import OVERRIDABLE
from console.services.replay.outcome import EntryOutcome
from console.services.replay.preflight import ReplayRequest
from console.services.replay.target import SendPlan
from console.services.session import StoreSession
from console.services.triage.approvals import absence_hash
from console.text.untrusted import safe
from venues import Mode


def replay_verb(context: Context) -> int:
    args = context.args
    return run_batch(lambda handle: _replay(context, handle), as_json=args.json, dry_run=args.dry_run)


def reconcile_verb(context: Context) -> int:
    return run_batch(lambda handle: _reconcile(context, handle), as_json=context.args.json)


async def approve_verb(context: Context) -> int:
    async with context.session() as session:
        try:
            summary = await session.approve(context.args.plan)
        except KeyError:
            raise UsageError("no such plan was put up for approval on this store") from None
    if summary is None:
        say("refused: the one who asked cannot approve; another OS user or database role must")
        return NOT_ACTED
    print(f"approved {safe(context.args.plan, 80)}: {safe(summary)}")
    return DONE


async def _replay(context: Context, handle: RunHandle) -> tuple[EntryOutcome, ...]:
    args = context.args
    async with context.session() as session:
        request = _request(context, session)
        entries = await chosen_entries(context, session.triage)
        plan = await session.plan(Selection.of(entries), request)
        if plan.problem is not None:
            say(plan.problem)
        elif not args.json:
            say_plan(plan)
        if args.dry_run:
            return _told(handle, plan.planned())
        if plan.count and not await session.is_approved(plan):
            say_second(plan.needs_second or "", plan.hash)
            return _told(handle, plan.refused(f"needs a second person: {plan.needs_second}"))
        if plan.count and not _confirmed(context, plan, live=session.has_modes and request.mode == "live"):
            await session.refuse_held(plan)
            return _told(handle, plan.refused("not confirmed"))
        return await session.replay_work(plan, args.note)(handle)


def _request(context: Context, session: StoreSession) -> ReplayRequest:
    args = context.args
    if not session.has_modes:
        _check_no_order_words(context)
        return ReplayRequest(mode="live", single=len(args.ids) == 1)
    overrides = frozenset(filter(None, (name.strip() for name in (args.override or "").split(","))))
    if unknown := sorted(overrides - set(OVERRIDABLE)):
        raise UsageError(f"{unknown[0]!r} cannot be overridden; these can: {' '.join(OVERRIDABLE)}")
    if overrides and not (args.note or "").strip():
        raise UsageError("--override needs a --note that says why")
    mode = said_mode(context)
    if not args.dry_run:
        _check_live_is_meant(context, mode)
    venue = args.venue if args.ids else None
    return ReplayRequest(mode=mode, venue=venue, overrides=overrides, single=len(args.ids) == 1)


def _check_no_order_words(context: Context) -> None:
    args = context.args
    if args.mode is not None:
        raise UsageError(f"--{args.mode} is for orders: this store's entries have no venue")
    if getattr(args, "override", None):
        raise UsageError("--override is for orders: this store's entries have no guards to pass")
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
        results = await session.reconcile_work(ids, modes)(handle)
        if session.has_modes and not results and not ids:
            say("nothing is in doubt")
        for attempt in session.needing_second:
            say_second(f"to declare {attempt.entry_id} absent", absence_hash(attempt))
        return results
