"""The verbs that set something up or explain: init, completions, demo, practice, help."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from difflib import get_close_matches
from pathlib import Path

from backends.store import ActRefused
from console.cli.completion import script, words
from console.cli.context import DONE, Context, is_terminal, password_of
from console.cli.parser import UsageError, build_parser
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
