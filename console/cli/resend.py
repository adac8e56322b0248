"""Replay and reconcile where entries are no orders: an outbox's messages, an integration's calls. No venue, no mode."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from backends.records import Entry
from backends.store import Requeues, Store
from backends.target import PostgresTarget, parse_target
from console import clock
from console.cli.act import chosen_entries
from console.cli.arguments import UsageError
from console.cli.context import Context
from console.cli.notice import say
from console.cli.progress import run_batch
from console.safetext import safe
from console.services.batch import Handle
from console.services.layout import ORDERS, origin
from console.services.outcome import Ended
from console.services.triage import Triage


def is_foreign(context: Context) -> bool:
    """Is this store of a layout that knows neither venue nor mode? Asks the store only where it could be one."""
    if "hub_url" in context.store_config.extra:
        return True
    if not isinstance(parse_target(context.store_config.url), PostgresTarget):
        return False
    return asyncio.run(_layout(context)) != ORDERS


async def _layout(context: Context) -> str:
    async with context.store(read_only=True) as store:
        return store.info.layout


def resend(context: Context) -> int:
    args = context.args
    if args.mode is not None:
        raise UsageError(f"--{args.mode} is for orders: this store's entries have no venue")
    if args.override:
        raise UsageError("--override is for orders: this store's entries have no guards to pass")
    if args.ids and args.venue:
        raise UsageError("--venue is for orders; without ids it picks a queue or a provider")
    return run_batch(lambda handle: _resend(context, handle), as_json=args.json, dry_run=args.dry_run)


async def _resend(context: Context, handle: Handle) -> tuple[Ended, ...]:
    args = context.args
    async with context.triage() as triage:
        entries = await chosen_entries(context, triage)
        going, left = sorted_out(entries, await _halted(triage.store), context.config.limits.max_batch)
        if not args.json:
            _say_plan(triage.store, going)
        if args.dry_run:
            return _told(handle, [*left, *(_planned(entry) for entry in going)])
        _told(handle, left)
        if refused := tuple(one.entry_id for one in left if one.outcome == "refused"):
            await triage.refuse("replay", refused, "; ".join(one.detail or "" for one in left)[:2000])
        if going and not _confirmed(context, len(going)):
            return (*left, *_told(handle, [Ended(one.id, "refused", None, detail="not confirmed") for one in going]))
        handle.total = len(entries)
        return (*left, *await _send(context, triage, going, handle))


async def _send(context: Context, triage: Triage, entries: Sequence[Entry], handle: Handle) -> tuple[Ended, ...]:
    note = context.args.note
    if isinstance(triage.store, Requeues):
        from console.services.requeue import Requeue

        requeue = Requeue(triage.store, context.actor, clock.now)
        handle.attend(requeue)
        return await requeue.run(entries, note=note, tell=handle.tell)
    from console.services.hub import hub_of
    from console.services.hub_retry import HubRetry, Patience

    if (hub := hub_of(triage.store)) is not None:
        retry = HubRetry(triage.store, hub, context.actor, clock.now, patience=Patience(wait=_hub_wait(context)))
        handle.attend(retry)
        return await retry.run(entries, note=note, tell=handle.tell)
    from console.secrets import Vault
    from console.services.provider import Providers
    from console.services.redelivery import Redelivery

    providers = Providers(context.config.providers, Vault(context.config.credentials_dir).authorization)
    try:
        batch = Redelivery(triage.store, providers, context.actor, clock.now)
        handle.attend(batch)
        return await batch.run(entries, note=note, tell=handle.tell)
    finally:
        await providers.aclose()


def _hub_wait(context: Context) -> float:
    wait = context.store_config.extra.get("hub_wait", 60)
    if not isinstance(wait, int | float) or isinstance(wait, bool) or not 0 < wait <= 3600:
        raise UsageError("hub_wait is a number of seconds, 3600 at most")
    return float(wait)


async def _halted(store: Store) -> str | None:
    halt = await store.halted()
    return None if halt is None else f"halt set by {halt.operator}: {halt.note}"


def sorted_out(entries: Sequence[Entry], halt: str | None, most: int) -> tuple[list[Entry], list[Ended]]:
    """(what would go, what stays and why). Pure."""
    going: list[Entry] = []
    left: list[Ended] = []
    for entry in entries:
        if halt is not None:
            left.append(Ended(entry.id, "refused", None, detail=halt))
        elif entry.state in ("in_doubt", "in_flight"):
            left.append(Ended(entry.id, "refused", None, detail=f"{entry.state.replace('_', ' ')}: reconcile first"))
        elif entry.state != "pending":
            left.append(Ended(entry.id, "skipped", None, detail=f"already {entry.state}"))
        elif len(going) >= most:
            left.append(Ended(entry.id, "refused", None, detail=f"max-batch: the batch is full, {most} at most"))
        else:
            going.append(entry)
    return going, left


def _planned(entry: Entry) -> Ended:
    return Ended(entry.id, "planned", None, detail=f"to {origin(entry)}")


def _say_plan(store: Store, entries: Sequence[Entry]) -> None:
    into = f" into {store.check_requeue()}" if isinstance(store, Requeues) and entries else ""
    places = sorted({origin(entry) for entry in entries})
    say(f"{len(entries)} to send again{into}: {', '.join(safe(place, 80) for place in places[:10]) or 'none'}")


def _told(handle: Handle, results: Sequence[Ended]) -> tuple[Ended, ...]:
    for result in results:
        handle.tell(result)
    return tuple(results)


def _confirmed(context: Context, count: int) -> bool:
    if context.args.yes or count == 1 or not sys.stdin.isatty():
        return True
    print(f"type {count} to send: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == str(count)


def settle(context: Context) -> int:
    """Reconcile: only an integration's retry can be left without an end."""
    if context.args.mode is not None:
        raise UsageError(f"--{context.args.mode} is for orders: this store's entries have no venue")
    return run_batch(lambda handle: _settle(context, handle), as_json=context.args.json)


async def _settle(context: Context, handle: Handle) -> tuple[Ended, ...]:
    from console.services.abandoned import Abandoned
    from console.services.hub import hub_of
    from console.services.hub_retry import HubRetry

    ids = tuple(dict.fromkeys(context.args.ids))
    async with context.triage() as triage:
        _, missing = await triage.chosen(ids)
        if missing:
            raise UsageError(f"no such entry: {', '.join(safe(one, 80) for one in missing[:5])}; nothing was done")
        if (hub := hub_of(triage.store)) is not None:
            return await HubRetry(triage.store, hub, context.actor, clock.now).settle(ids, tell=handle.tell)
        abandoned = Abandoned(triage.store, context.actor, clock.now)
        handle.attend(abandoned)
        return await abandoned.run(ids, tell=handle.tell)
