"""The verbs that reach a venue: replay, reconcile, approve."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from backends.records import Entry
from backends.store import ActRefused, Store
from backends.target import PostgresTarget, parse_target
from console import clock
from console.cli.context import DONE, NOT_ACTED, Context, on_terminal, say, say_second
from console.cli.parser import UsageError
from console.cli.results import run_batch, say_plan
from console.cli.triage import chosen_entries
from console.services.replay.background_run import RunHandle
from console.services.replay.batch import ReplayBatch
from console.services.replay.guards import OVERRIDABLE
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import ReplayPlan, plan
from console.services.replay.preflight import Preflight, ReplayRequest
from console.services.replay.reconcile import Reconciliation
from console.services.replay.venue_pool import VenuePool
from console.services.resend import plan as foreign
from console.services.resend.plan import ResendPlan, ResendTools, plan_resend
from console.services.triage.approvals import Approvals, absence_hash
from console.services.triage.triage import Triage
from console.settings.secrets import Vault
from console.text.untrusted import safe
from venues import Mode

_ROUTES = 10  # queues or providers that are named


def is_foreign(context: Context) -> bool:
    """Is this store of a layout that knows neither venue nor mode? Asks the store only where it could be one."""
    if context.store_config.hub_url is not None:
        return True
    if not isinstance(parse_target(context.store_config.url), PostgresTarget):
        return False
    return asyncio.run(_looks_foreign(context))


async def _looks_foreign(context: Context) -> bool:
    async with context.store(read_only=True) as store:
        return foreign.is_foreign(store)


def resend(context: Context) -> int:
    args = context.args
    _no_mode(context)
    if args.override:
        raise UsageError("--override is for orders: this store's entries have no guards to pass")
    if args.ids and args.venue:
        raise UsageError("--venue is for orders; without ids it picks a queue or a provider")
    tools = context.tools(context.store_config)
    return run_batch(lambda handle: _resend(context, tools, handle), as_json=args.json, dry_run=args.dry_run)


def settle(context: Context) -> int:
    _no_mode(context)
    tools = context.tools(context.store_config)
    return run_batch(lambda handle: _settle(context, tools, handle), as_json=context.args.json)


def _no_mode(context: Context) -> None:
    if context.args.mode is not None:
        raise UsageError(f"--{context.args.mode} is for orders: this store's entries have no venue")


async def _resend(context: Context, tools: ResendTools, handle: RunHandle) -> tuple[EntryOutcome, ...]:
    args = context.args
    async with context.triage() as triage:
        store = triage.store
        entries = await chosen_entries(context, triage)
        plan = await _plan(context, triage, entries, tools)
        going, left = plan.going, plan.left
        if going and not args.json:
            say(f"{len(going)} to send again: {safe(_where(plan), 1000)}")
        if args.dry_run:
            return _told_each(handle, [*left, *map(foreign.planned, going)])
        _told_each(handle, left)
        if refused := tuple(one.entry_id for one in left if one.outcome == "refused"):
            await triage.refuse("replay", refused, "; ".join(one.detail or "" for one in left)[:2000])
        if going and not _count_confirmed(context, len(going)):
            return (
                *left,
                *_told_each(handle, [EntryOutcome(one.id, "refused", None, detail="not confirmed") for one in going]),
            )
        if not going:
            return left
        handle.total = len(entries)
        return (*left, *await foreign.send(store, going, tools, handle, note=args.note))


async def _plan(context: Context, triage: Triage, entries: Sequence[Entry], tools: ResendTools) -> ResendPlan:
    """The very plan of the console's gate; where nothing can take a replay, every entry says so."""
    try:
        return await plan_resend(triage.store, entries, tools, context.config.limits.max_batch)
    except ActRefused as problem:
        say(str(problem))
        return ResendPlan((), tuple(EntryOutcome(entry.id, "refused", None, detail=str(problem)) for entry in entries))


def _where(plan: ResendPlan) -> str:
    """In a few words, for whoever must agree."""
    each = plan.kind == "provider"
    shown = [f"{route.name} at {route.place}" if each else route.name for route in plan.routes[:_ROUTES]]
    more = [f"{len(plan.routes) - _ROUTES} more"] if len(plan.routes) > _ROUTES else []
    names, place = ", ".join(shown + more), plan.routes[0].place
    return names if each else f"{place} for {names}"


async def _settle(context: Context, tools: ResendTools, handle: RunHandle) -> tuple[EntryOutcome, ...]:
    ids = tuple(dict.fromkeys(context.args.ids))
    async with context.triage() as triage:
        _, missing = await triage.chosen(ids)
        if missing and context.store_config.hub_url is None:
            raise UsageError(f"no such entry: {', '.join(safe(one, 80) for one in missing[:5])}; nothing was done")
        return await foreign.settle(triage.store, ids, tools, handle)


def _told_each(handle: RunHandle, results: Sequence[EntryOutcome]) -> tuple[EntryOutcome, ...]:
    for result in results:
        handle.tell(result)
    return tuple(results)


def _count_confirmed(context: Context, count: int) -> bool:
    if context.args.yes or count == 1 or not on_terminal():
        return True
    print(f"type {count} to send: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == str(count)


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


def _request(context: Context) -> ReplayRequest:
    args = context.args
    overrides = frozenset(filter(None, (name.strip() for name in (args.override or "").split(","))))
    if unknown := sorted(overrides - set(OVERRIDABLE)):
        raise UsageError(f"{unknown[0]!r} cannot be overridden; these can: {' '.join(OVERRIDABLE)}")
    if overrides and not (args.note or "").strip():
        raise UsageError("--override needs a --note that says why")
    return ReplayRequest(
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
async def _tools(context: Context) -> AsyncIterator[tuple[Store, VenuePool, Triage]]:
    pool = VenuePool(context.config.venues, Vault(context.config.credentials_dir).credentials)
    async with context.triage() as triage:
        try:
            yield triage.store, pool, triage
        finally:
            await pool.aclose()


async def _replay(context: Context, request: ReplayRequest, handle: RunHandle) -> tuple[EntryOutcome, ...]:
    args = context.args
    async with _tools(context) as (store, pool, triage):
        entries = await chosen_entries(context, triage)
        live_store = context.store_config.environment == "live"
        preflight = Preflight(store, pool, context.config.limits, clock.now, live_store=live_store)
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
        replay = ReplayBatch(store, pool, context.actor, clock.now)
        handle.total = made.size
        handle.attend(replay)
        return await replay.run(made, note=args.note, tell=handle.tell)


def planned(made: ReplayPlan) -> list[EntryOutcome]:
    """A dry run: the very plan, said instead of done."""
    steps = [
        EntryOutcome(
            step.command.entry_id, "planned", made.mode, None, step.command.client_order_id, _notes(step.command.notes)
        )
        for step in made.steps
    ]
    superseded = [
        EntryOutcome(one.entry_id, "superseded", made.mode, detail=f"superseded by {one.by}") for one in made.superseded
    ]
    return (
        steps + superseded + [EntryOutcome(one.entry_id, "refused", made.mode, detail=one.text) for one in made.blocked]
    )


def refused(made: ReplayPlan, why: str) -> list[EntryOutcome]:
    ids = [step.command.entry_id for step in made.steps] + [one.entry_id for one in made.superseded]
    held = [EntryOutcome(entry_id, "refused", made.mode, detail=why) for entry_id in ids]
    return held + [EntryOutcome(one.entry_id, "refused", made.mode, detail=one.text) for one in made.blocked]


def _notes(notes: tuple[str, ...]) -> str | None:
    return "; ".join(notes) or None


def _told(handle: RunHandle, results: list[EntryOutcome]) -> tuple[EntryOutcome, ...]:
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


async def _reconcile(context: Context, mode: Mode, handle: RunHandle) -> tuple[EntryOutcome, ...]:
    ids = tuple(dict.fromkeys(context.args.ids))
    async with _tools(context) as (store, pool, triage):
        _, missing = await triage.chosen(ids)
        if missing:
            raise UsageError(f"no such entry: {', '.join(safe(one, 80) for one in missing[:5])}; nothing was done")
        reconcile = Reconciliation(store, pool, context.actor, clock.now)
        results = await reconcile.settle(ids, (mode,), handle)
        if not results and not ids:
            say("nothing is in doubt")
        for attempt in reconcile.needing_second:
            say_second(f"to declare {attempt.entry_id} absent", absence_hash(attempt))
        return results
