"""The verbs that set something up or explain: init, policy, completions, demo, practice, help."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from difflib import get_close_matches
from pathlib import Path

from backends.records import ActContext
from backends.store import ActRefused
from console.cli.completion import script, words
from console.cli.context import DONE, Context, is_terminal, password_of, say
from console.cli.parser import UsageError, build_parser
from console.settings.config import ConfigError
from console.text.untrusted import safe


async def init_verb(context: Context) -> int:
    from backends.layouts.create import make_store

    if context.args.read_only:
        raise ActRefused("nothing is made with --read-only")
    settings = context.store_config
    table = context.args.table or settings.table
    password = await asyncio.to_thread(password_of, settings, context.config)
    label = await make_store(settings.url, table=table, password=password)
    print(f"made an order store in {label}")
    return DONE


def help_verb(context: Context) -> int:
    about = context.args.about
    known = words(parser := build_parser())
    if about is not None and about not in known:
        near = get_close_matches(about, known, 1)
        raise UsageError(
            f"no command {safe(about, 40)}; {f'did you mean {near[0]}?' if near else 'dlq help lists them'}"
        )
    parser.parse_args([about, "--help"] if about else ["--help"])  # prints it and ends
    return DONE


def completions_verb(context: Context) -> int:
    sys.stdout.write(script(context.args.shell, build_parser()))
    return DONE


def demo_verb(context: Context) -> int:  # noqa: ARG001 - every verb takes it
    """On a terminal, opens the console on a temporary store. Otherwise prints its entries and a replay plan."""
    from console.cli.demo import CONFLICT_ID, demo_config, demo_ids, demo_store, practice_venue
    from console.cli.main import run

    with demo_store() as (_, folder), practice_venue(folder) as url:
        config = str(demo_config(folder, url))
        here = ["--db", "demo", "--config", config]
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            run(["replay", CONFLICT_ID, "--paper", "--yes", *here])
            run(["reconcile", CONFLICT_ID, "--paper", *here])
        if is_terminal(sys.stdin) and is_terminal(sys.stdout):
            return run(here)
        print(f"a throw-away store and a practice venue at {url}", flush=True)
        run(["list", *here])
        sys.stdout.flush()
        run(["replay", *demo_ids(), "--paper", "--dry-run", *here])
        return DONE


def practice_verb(context: Context) -> int:
    from venues.practice import PracticeError, serve

    args = context.args
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
