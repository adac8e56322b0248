"""The verbs that set something up or explain: init, policy, completions, demo, practice, help, index.

The process that keeps an index runs here for hours: what it does not need stays out of its memory.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import uuid
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from backends.records import ActContext
from backends.store import ActRefused
from console import clock
from console.cli.context import DONE, NOT_ACTED, Context, is_terminal, password_of, say
from console.cli.parser import UsageError, build_parser, no_such_verb
from console.cli.printing.progress import StatusLine
from console.cli.usage.verb import VERBS
from console.settings.config import ConfigError
from console.settings.identity import is_foreign_namespace
from console.text.untrusted import safe

if TYPE_CHECKING:
    from backends.index import Progress
    from console.services.index.keeper import IndexJob


async def init_verb(context: Context) -> int:
    from backends.layouts.create import make_store

    if context.args.read_only:
        raise ActRefused("read-only: no store is made")
    settings = context.store_config
    table = context.args.table or settings.table
    password = await asyncio.to_thread(password_of, settings, context.config)
    label = await make_store(settings.url, table=table, password=password)
    print(f"made an order store in {label}")
    return DONE


def help_verb(context: Context) -> int:
    about = context.args.about
    if context.args.man:
        from console.cli.usage.manual import manual

        sys.stdout.write(manual())
        return DONE
    if about is not None and about not in VERBS:
        raise UsageError(no_such_verb(about))
    build_parser().parse_args([about, "--help"] if about else ["--help"])  # prints it and ends
    return DONE


def completions_verb(context: Context) -> int:
    from console.cli.usage.completion import script

    sys.stdout.write(script(context.args.shell))
    return DONE


def demo_verb(context: Context) -> int:  # noqa: ARG001 - every verb takes it
    """On a terminal, opens the console on a temporary store. Otherwise prints its entries and a replay plan."""
    from console.cli.demo import CONFLICT_ID, WAITING_IDS, demo_config, demo_ids, demo_store, practice_venue
    from console.cli.demo_colleague import waiting_plan
    from console.cli.main import run

    say("making a throw-away store, and an exchange on this machine to practise with …")
    with demo_store() as (_, folder), practice_venue(folder) as url:
        config = str(demo_config(folder, url))
        here = ["--db", "demo", "--config", config]
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            run(["replay", CONFLICT_ID, "--paper", "--yes", *here])
            run(["reconcile", CONFLICT_ID, "--paper", *here])
            if is_foreign_namespace():  # else nobody in it would count as another person than the colleague
                run(["policy", "set", "allow_userns=true", *here])
        if is_terminal(sys.stdin) and is_terminal(sys.stdout):
            with waiting_plan(WAITING_IDS, here):
                return run(here)
        print(f"a throw-away store and a practice venue at {url}", flush=True)
        run(["list", *here])
        sys.stdout.flush()
        run(["replay", *demo_ids(), "--paper", "--dry-run", *here])
        return DONE


def practice_verb(context: Context) -> int:
    from venues.practice import PracticeError, serve

    args = context.args
    if not 0 <= args.port < 65536:
        raise UsageError("--port is a number up to 65535; 0 takes a free one")
    try:
        serve(
            args.port,
            Path(args.ledger) if args.ledger else None,
            script=Path(args.script) if args.script else None,
            announce=lambda url: print(url, flush=True),
        )
    except PracticeError as problem:
        raise UsageError(str(problem)) from None
    return DONE


async def policy_verb(context: Context) -> int:
    """Prints what the store's owner has set, or sets it."""
    args = context.args
    if args.what is None:
        async with context.store() as store:
            rows = await store.policy()
        _tell(rows)
        return DONE
    changes = _changes(args.changes)
    async with context.store() as store:
        if store.info.read_only:
            raise ActRefused("read-only: no policy is set")
        why = ActContext(at=context.now(), operation=uuid.uuid4().hex, reason="policy")
        rows = await store.set_policy(changes, context.actor, why)
    _tell(rows)
    return DONE


def _changes(words: list[str]) -> dict[str, str | None]:
    if not words:
        raise UsageError("policy set takes KEY=VALUE, or KEY= to remove a key")
    from console.settings.policy import parse_change

    changes: dict[str, str | None] = {}
    for key, value in map(parse_change, words):
        if key in changes:
            raise UsageError(f"{key} is given twice: keep one")
        changes[key] = value
    return changes


def _tell(rows: Mapping[str, str]) -> None:
    from console.settings.policy import read_policy

    for key, value in rows.items():
        print(f"{safe(key)}={safe(value)}")
    if not rows:
        say("no policy is set on this store: the config's limits apply")
        return
    try:
        read_policy(rows)
    except ConfigError as problem:
        say(f"{problem}: nothing is replayed here until its owner fixes it with dlq policy set KEY=VALUE, or KEY=")


_GARBAGE = 20_000  # a page of entries makes no cycles: looking for them at each page would take a tenth of the build


async def index_verb(context: Context) -> int:
    """Builds the index, or follows the store with it. The console starts `--follow` by itself."""
    from backends.index import IndexUnavailable
    from backends.index.writer import EVERYTHING
    from console.services.index.keeper import IndexJob

    args = context.args
    gc.set_threshold(_GARBAGE)
    async with context.store(read_only=True) as store:
        keeping = IndexJob(store, clock.now, types=context.config.venue_types)
        try:
            if args.follow:
                await _while_wanted(keeping, args)
                return DONE
            agreed = await keeping.build(Teller(as_json=args.json))
        except IndexUnavailable as problem:
            print(f"dlq: {safe(str(problem))}", file=sys.stderr)
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
    """Reports progress in whole percents: JSON Lines on stdout, or one line on a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._last = -1
        self._line = StatusLine()

    def __call__(self, progress: Progress) -> None:
        percent = int(progress.share * 100)
        if percent == self._last:
            return
        self._last = percent
        if self._as_json:
            told = {"percent": percent, "filed": progress.filed, "searchable": progress.searchable}
            print(json.dumps({**told, "expected": progress.expected, "complete": progress.complete}), flush=True)
        elif percent < 100:
            self._line.put(f"indexing {percent} %")
        else:
            self._line.clear()
