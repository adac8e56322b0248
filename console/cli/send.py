"""The verbs that reach a venue: replay, reconcile, approve."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from backends.store import Store
from console import clock
from console.cli.act import chosen_entries
from console.cli.arguments import UsageError
from console.cli.context import DONE, NOT_ACTED, Context
from console.cli.notice import say, say_second
from console.cli.progress import run_batch
from console.cli.resend import is_foreign, resend, settle
from console.cli.result import say_plan
from console.safetext import safe
from console.secrets import Vault
from console.services.approval import Approvals, absence_hash
from console.services.batch import Handle
from console.services.desk import Desk
from console.services.guards import OVERRIDABLE
from console.services.outcome import Ended
from console.services.plan import ReplayPlan, plan
from console.services.preflight import Preflight, Request
from console.services.reconcile import Reconcile
from console.services.replay import Replay
from console.services.triage import Triage
from venues import Mode


def replay_verb(context: Context) -> int:
    if is_foreign(context):
        return resend(context)
    request = _request(context)
    if not context.args.dry_run:
        _check_said(context, request.mode)
    args = context.args
    return run_batch(lambda handle: _replay(context, request, handle), as_json=args.json, dry_run=args.dry_run)


def reconcile_verb(context: Context) -> int:
    if is_foreign(context):
        return settle(context)
    mode = said_mode(context)
    return run_batch(lambda handle: _reconcile(context, mode, handle), as_json=context.args.json)


async def approve_verb(context: Context) -> int:
    async with context.triage() as triage:
        try:
            summary = await Approvals(triage.store, context.actor, clock.now).approve(context.args.plan)
        except KeyError:
            raise UsageError("no such plan was put up for approval on this store") from None
    if summary is None:
        say("refused: the one who asked cannot approve; another OS user or database role must")
        return NOT_ACTED
    print(f"approved {safe(context.args.plan, 80)}: {safe(summary)}")
    return DONE


def _request(context: Context) -> Request:
    args = context.args
    overrides = frozenset(filter(None, (name.strip() for name in (args.override or "").split(","))))
    if unknown := sorted(overrides - set(OVERRIDABLE)):
        raise UsageError(f"{unknown[0]!r} cannot be overridden; these can: {' '.join(OVERRIDABLE)}")
    if overrides and not (args.note or "").strip():
        raise UsageError("--override needs a --note that says why")
    return Request(
        mode=said_mode(context),
        venue=args.venue if args.ids else None,
        overrides=overrides,
        single=len(args.ids) == 1,
    )


def said_mode(context: Context) -> Mode:
    mode = context.args.mode or context.store_config.mode
    if mode is None:
        raise UsageError("say --paper or --live")
    return "live" if mode == "live" else "paper"


def _check_said(context: Context, mode: Mode) -> None:
    """Live without a terminal needs --yes and, for more than one entry, --expect N."""
    args = context.args
    if mode != "live" or _on_terminal():
        return
    if not args.yes:
        raise UsageError("live without a terminal needs --yes")
    if len(args.ids) != 1 and args.expect is None:
        raise UsageError("live without a terminal needs --expect N for more than one entry")


@asynccontextmanager
async def _tools(context: Context) -> AsyncIterator[tuple[Store, Desk, Triage]]:
    desk = Desk(context.config.venues, Vault(context.config.credentials_dir).credentials)
    async with context.triage() as triage:
        try:
            yield triage.store, desk, triage
        finally:
            await desk.aclose()


async def _replay(context: Context, request: Request, handle: Handle) -> tuple[Ended, ...]:
    args = context.args
    async with _tools(context) as (store, desk, triage):
        entries = await chosen_entries(context, triage)
        live_store = context.store_config.environment == "live"
        preflight = Preflight(store, desk, context.config.limits, clock.now, live_store=live_store)
        made = plan(entries, await preflight.facts(entries, request))
        if not args.json:
            say_plan(made)
        if args.dry_run:
            return _told(handle, planned(made))
        if blocked := tuple(one.entry_id for one in made.blocked):
            await triage.refuse("replay", blocked, "; ".join(one.text for one in made.blocked)[:2000])
        if made.steps and not await _approved(context, made, store):
            return _told(handle, refused(made, f"needs a second person: {made.needs_second}"))
        if made.steps and not _confirmed(context, made):
            return _told(handle, refused(made, "not confirmed"))
        replay = Replay(store, desk, context.actor, clock.now)
        handle.total = made.size
        handle.attend(replay)
        return await replay.run(made, note=args.note, tell=handle.tell)


def planned(made: ReplayPlan) -> list[Ended]:
    """A dry run: the very plan, said instead of done."""
    steps = [
        Ended(
            step.command.entry_id, "planned", made.mode, None, step.command.client_order_id, _notes(step.command.notes)
        )
        for step in made.steps
    ]
    superseded = [
        Ended(one.entry_id, "superseded", made.mode, detail=f"superseded by {one.by}") for one in made.superseded
    ]
    return steps + superseded + [Ended(one.entry_id, "refused", made.mode, detail=one.text) for one in made.blocked]


def refused(made: ReplayPlan, why: str) -> list[Ended]:
    ids = [step.command.entry_id for step in made.steps] + [one.entry_id for one in made.superseded]
    held = [Ended(entry_id, "refused", made.mode, detail=why) for entry_id in ids]
    return held + [Ended(one.entry_id, "refused", made.mode, detail=one.text) for one in made.blocked]


def _notes(notes: tuple[str, ...]) -> str | None:
    return "; ".join(notes) or None


def _told(handle: Handle, results: list[Ended]) -> tuple[Ended, ...]:
    for result in results:
        handle.tell(result)
    return tuple(results)


async def _approved(context: Context, made: ReplayPlan, store: Store) -> bool:
    if await Approvals(store, context.actor, clock.now).may_replay(made):
        return True
    say_second(made.needs_second or "", made.hash)
    return False


def _on_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()  # a closed standard input is none at all


def _confirmed(context: Context, made: ReplayPlan) -> bool:
    if context.args.yes or not _on_terminal():
        return True
    if made.mode == "paper" and len(made.steps) == 1:
        return True
    answer = f"live {len(made.steps)}" if made.mode == "live" else str(len(made.steps))
    print(f"type {answer} to send: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == answer


async def _reconcile(context: Context, mode: Mode, handle: Handle) -> tuple[Ended, ...]:
    ids = tuple(dict.fromkeys(context.args.ids))
    async with _tools(context) as (store, desk, triage):
        _, missing = await triage.chosen(ids)
        if missing:
            raise UsageError(f"no such entry: {', '.join(safe(one, 80) for one in missing[:5])}; nothing was done")
        reconcile = Reconcile(store, desk, context.actor, clock.now)
        results = await reconcile.settle(ids, (mode,), handle)
        if not results and not ids:
            say("nothing is in doubt")
        for attempt in reconcile.needing_second:
            say_second(f"to declare {attempt.entry_id} absent", absence_hash(attempt))
        return results
