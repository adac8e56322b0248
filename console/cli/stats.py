"""The verbs that count: groups, check, metrics, report; and the index that makes them quick on large stores."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from backends.index import IndexUnavailable, Progress, Reader
from backends.index.filing import EVERYTHING
from backends.index.reader import NoIndex
from backends.store import Store
from console import clock
from console.cli.context import DONE, NOT_ACTED, REJECTED, Context
from console.cli.parser import UsageError
from console.services.index.keeper import IndexJob, IndexProcess, is_current, reader_of
from console.services.stats import tally
from console.services.stats.activity import ShiftActivity
from console.services.stats.alerts import alerts
from console.services.stats.group import Group
from console.services.stats.groups import Groups, GroupView
from console.services.stats.metrics import Numbers, render
from console.services.stats.report import as_json, as_markdown, gather
from console.text.durations import parse_moment
from console.text.untrusted import safe

SMALL = 20_000  # entries that are simply counted: it takes a moment, and nothing can be newer


async def groups_verb(context: Context) -> int:
    args = context.args
    show = _group_json if args.json else _group_lines
    async with context.triage() as triage, index_of(triage.store) as reader:
        groups = Groups(triage, reader, clock.now)
        view: GroupView | None = None
        if reader is not None and not (context.has_filters or args.venue):
            view = await groups.view(everything=args.all, whole=True)
        if view is None or not view.complete or view.source != "index":
            view = await groups.counted(context.query(everything=args.all))
    for group in view.groups:
        sys.stdout.write(show(group) + "\n")
    return DONE


async def check_verb(context: Context) -> int:
    async with context.store() as store:
        raised = alerts(await numbers(store), context.config.alerts)
    for alert in raised:
        if context.args.json:
            print(json.dumps({"rule": alert.rule, "venue": alert.venue or None, "text": alert.text}))
        else:
            print(f"{alert.rule}: {safe(alert.text)}")
    return REJECTED if raised else DONE


async def metrics_verb(context: Context) -> int:
    if context.args.listen:
        from console.cli.metrics_server import listen

        return await listen(context)
    async with context.store() as store:
        activity = ShiftActivity(store.info.table)
        sys.stdout.write(await scrape(context, store, activity, await numbers(store)))
    return DONE


async def scrape(context: Context, store: Store, activity: ShiftActivity, counted: tally.Tally) -> str:
    """`activity` goes on from where it was fed last."""
    async for block in store.audit(after=activity.seq):
        activity.feed(block)
    return render(
        Numbers(
            info=store.info,
            tally=counted,
            activity=activity,
            alerts=alerts(counted, context.config.alerts),
            halted=await store.halted() is not None,
            reasons=context.config.reasons,
        )
    )


async def report_verb(context: Context) -> int:
    since = moment(context, context.args.since)
    async with context.triage() as triage:
        counted = await numbers(triage.store)
        report = await gather(triage, since, counted, alerts(counted, context.config.alerts))
    if context.args.json:
        print(json.dumps(as_json(report)))
    else:
        sys.stdout.write(as_markdown(report))
    return DONE


def moment(context: Context, text: str) -> datetime:
    try:
        return parse_moment(text, context.now())
    except ValueError as problem:
        raise UsageError(str(problem)) from None


async def numbers(store: Store) -> tally.Tally:
    """From the index where it is current, else counted."""
    async with index_of(store) as reader:
        if reader is not None:
            with contextlib.suppress(IndexUnavailable, NoIndex):  # damaged where nobody had looked yet
                return await tally.indexed(reader, clock.now())
        return await tally.counted(store, clock.now())


@asynccontextmanager
async def index_of(store: Store) -> AsyncIterator[Reader | None]:
    """The index of a large store where it says what counting would say, else None."""
    reader = await reader_of(store)
    try:
        yield reader if await _is_worth_it(store, reader) else None
    finally:
        await reader.aclose()


async def _is_worth_it(store: Store, reader: Reader) -> bool:
    try:
        progress = await reader.progress()
    except IndexUnavailable:
        return False
    if progress is None or sum(progress.states.values()) <= SMALL:
        return False
    return await is_current(store, progress)


def _group_json(group: Group) -> str:
    pairs = {
        "fingerprint": group.fingerprint,
        "title": group.title,
        "count": group.count,
        "first_seen": _iso(group.first_seen),
        "last_seen": _iso(group.last_seen),
        "category": group.category,
        "states": dict(group.states),
        "venues": dict(group.venues),
        "accounts": dict(group.accounts),
        "markets": dict(group.markets),
        "retries": group.retries,
        "unpriced": group.unpriced,
    }
    # Put in as text: an amount keeps its own digits.
    return f'{json.dumps(pairs)[:-1]}, "notional": {group.notional:f}}}'


def _group_lines(group: Group) -> str:
    more = f" and {len(group.venues) - 3} more" if len(group.venues) > 3 else ""
    venues = ", ".join(safe(name, 40) for name in list(group.venues)[:3]) + more
    return (
        f"{group.fingerprint}  {group.count}  {group.category}  {_shown(group.first_seen)} to "
        f"{_shown(group.last_seen)}  {venues}  [retries={group.retries}, notional={group.notional:f}]\n"
        f"  {safe(group.title)}"
    )


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def _shown(at: datetime | None) -> str:
    return "?" if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")


async def index_verb(context: Context) -> int:
    """Build the index, or keep it; the console starts this by itself."""
    args = context.args
    async with context.store(read_only=True) as store:
        keeping = IndexJob(store, clock.now)
        try:
            if args.follow:
                await _while_wanted(keeping, args)
                return DONE
            agreed = await keeping.build(Teller(as_json=args.json))
        except IndexUnavailable as problem:
            print(f"dlq: {problem}", file=sys.stderr)
            return NOT_ACTED
        entries = sum((await store.counts(EVERYTHING)).by_state.values())
    if not agreed:
        print("dlq: the store's counts do not agree with its entries; the index is not used", file=sys.stderr)
        return NOT_ACTED
    print(f"dlq: the index of {entries} entries is complete", file=sys.stderr)
    return DONE


async def _while_wanted(keeping: IndexJob, args: object) -> None:
    following = asyncio.create_task(keeping.follow(Teller(as_json=getattr(args, "json", False))))
    waits = [following]
    if getattr(args, "with_parent", False):
        waits.append(asyncio.create_task(_end_of_stdin()))
    done, rest = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    for task in done:
        task.result()


async def _end_of_stdin() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass


class Teller:
    """Progress in whole percents: JSON Lines on stdout, or a line on a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._last = -1

    def __call__(self, progress: Progress) -> None:
        percent = int(progress.share * 100)
        if percent == self._last:
            return
        self._last = percent
        if self._as_json:
            told = {"percent": percent, "filed": progress.filed, "searchable": progress.searchable}
            print(json.dumps({**told, "expected": progress.expected, "complete": progress.complete}), flush=True)
        elif sys.stderr.isatty():
            print(f"\rindexing {percent} % ", end="" if percent < 100 else "\n", file=sys.stderr, flush=True)


def keeper_of(context: Context, target: str | None = None) -> IndexProcess:
    """The process that keeps this store's index. The target goes by the environment: it may hold a password."""
    words: list[str] = []
    for option in ("config", "table"):
        if value := getattr(context.args, option):
            words += [f"--{option}", str(value)]
    return IndexProcess(tuple(words), {**os.environ, "DLQ_DB": target or context.target})
