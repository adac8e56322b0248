"""Replay and reconcile where entries are no orders: an outbox's messages, an integration's calls. No venue, no mode."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from backends.records import Entry
from backends.store import ActRefused
from backends.target import PostgresTarget, parse_target
from console.cli.context import Context
from console.cli.notice import say
from console.cli.parser import UsageError
from console.cli.progress import run_batch
from console.cli.terminal import on_terminal
from console.cli.triage import chosen_entries
from console.services.replay.background_run import RunHandle
from console.services.replay.outcome import EntryOutcome
from console.services.resend import target as foreign
from console.services.resend.plan import ResendPlan, plan_resend
from console.services.resend.target import ResendTools
from console.services.triage.triage import Triage
from console.text.untrusted import safe

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
            return _told(handle, [*left, *map(foreign.planned, going)])
        _told(handle, left)
        if refused := tuple(one.entry_id for one in left if one.outcome == "refused"):
            await triage.refuse("replay", refused, "; ".join(one.detail or "" for one in left)[:2000])
        if going and not _confirmed(context, len(going)):
            return (
                *left,
                *_told(handle, [EntryOutcome(one.id, "refused", None, detail="not confirmed") for one in going]),
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


def _told(handle: RunHandle, results: Sequence[EntryOutcome]) -> tuple[EntryOutcome, ...]:
    for result in results:
        handle.tell(result)
    return tuple(results)


def _confirmed(context: Context, count: int) -> bool:
    if context.args.yes or count == 1 or not on_terminal():
        return True
    print(f"type {count} to send: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == str(count)
