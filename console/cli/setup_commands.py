"""The verbs that set something up or explain: init, policy, completions, demo, practice, help."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from backends.records import ActContext
from backends.store import ActRefused
from console.cli.context import DONE, Context, is_terminal, password_of, say
from console.cli.parser import UsageError, build_parser, no_such_verb
from console.cli.usage.verb import VERBS
from console.settings.config import ConfigError
from console.settings.identity import is_foreign_namespace
from console.text.untrusted import safe


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
        raise UsageError("policy set takes KEY=VALUE, or KEY= to take a key away")
    from console.settings.policy import parse_change

    changes: dict[str, str | None] = {}
    for key, value in map(parse_change, words):
        if key in changes:
            raise UsageError(f"{key} is there twice")
        changes[key] = value
    return changes


def _tell(rows: Mapping[str, str]) -> None:
    from console.settings.policy import read_policy

    for key, value in rows.items():
        print(f"{safe(key)}={safe(value)}")
    if not rows:
        say("no policy is set on this store: the config's limits count")
        return
    try:
        read_policy(rows)
    except ConfigError as problem:
        say(f"{problem}: nothing is replayed here until its owner mends that with dlq policy set KEY=VALUE, or KEY=")
