"""Runs one command: parses the arguments, calls the verb, returns the exit code.

Every expected error ends here as one line on stderr; a bug ends as one line without values.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from dlq_sink.error import ActRefused, BadTarget, StoreError

from console.cli.context import IN_DOUBT, NOT_ACTED, UNREACHABLE, USAGE, Context, end_of_loading, say
from console.cli.parser import UsageError, build_parser
from console.settings.config import Config, ConfigError, load_config
from console.settings.identity import current_actor
from console.text.untrusted import safe

_CRASHED, _NO_OUTPUT, _NO_READER = 70, 74, 141
_MOST_MEMORY = 520_000_000
_LOOKING = frozenset({"list", "show", "export", "doctor", "audit", "groups", "check", "metrics", "report", "archive"})
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def run(argv: Sequence[str], *, own_process: bool = False) -> int:
    """`own_process`: nobody else works in this process, so that its memory can be limited."""
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the venues' secrets
    try:
        return _run(argv, own_process=own_process)
    except UsageError as problem:
        return complain(str(problem), USAGE)
    except (ConfigError, BadTarget) as problem:
        return complain(str(problem), USAGE)
    except ActRefused as problem:
        remedy = "; leave out --read-only to act" if "--read-only" in argv else ""
        return complain(f"{problem}{remedy}", NOT_ACTED)
    except StoreError as problem:
        return complain(str(problem), UNREACHABLE)
    except MemoryError:
        return complain(
            "the store, bundle or config is oversized: its values take more memory than is allowed", UNREACHABLE
        )
    except KeyboardInterrupt:
        return complain("stopped", 130)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else IN_DOUBT
    except BrokenPipeError:
        # SIGPIPE stays ignored: it would also end the process when a socket to a scraper or the database breaks.
        return _NO_READER
    except OSError as problem:
        return output_lost(problem) if problem.filename is None and problem.errno in _FULL else crash(problem)
    except Exception as bug:  # noqa: BLE001 - the last exit: a bug must not show a traceback with values in it
        return crash(bug)


def _run(argv: Sequence[str], *, own_process: bool) -> int:
    if list(argv[:1]) == ["completions"] and list(argv[2:3]) == ["--"]:
        return _complete(argv[1], argv[3:])
    args = build_parser(argv).parse_args(argv)
    if own_process and args.verb in _LOOKING and not getattr(args, "listen", None):
        _limit_memory()
    config = load_config(args.config, os.environ)
    if config.keymap:  # a misspelt id is an error of the config for every verb
        from console.keymap import remapped

        try:
            remapped(config.keymap)
        except ConfigError as problem:
            raise ConfigError(f"{config.path}: {problem}") from None
    if config.views:
        _check_views(config)
    context = Context(args, config, current_actor(args.operator))
    if own_process and args.verb is not None and not getattr(args, "with_parent", False):
        from console.priority import give_way

        give_way(args.verb, context.is_on_server)
    if args.verb is None:
        from console.cli.console import open_console

        return open_console(context)

    if args.verb not in _LOOKING - {"archive"}:  # those have loaded everything once their store is open
        end_of_loading()
    verb = VERBS[args.verb]
    outcome = verb(context)
    if isinstance(outcome, int):
        return outcome
    import asyncio  # the console shows its first rows before it needs a loop

    return asyncio.run(outcome)


def _check_views(config: Config) -> None:
    """A saved filter that is wrong is told now, not when somebody needs it. Raises ConfigError."""
    from console import clock
    from console.services.browse.filter_syntax import ExpressionError, parse_expression

    for name, text in config.views.items():
        try:
            parse_expression(text, clock.now())
        except ExpressionError as problem:
            raise ConfigError(f"{config.path}: views.{safe(name, 80)}: {problem}") from None


def _complete(shell: str, words: Sequence[str]) -> int:
    """What a completion script asks at each Tab."""
    from console.cli.usage.completion import answer

    for line in answer(shell, words):
        print(line)
    return 0


def _limit_memory() -> None:
    """Verbs that only look read what others wrote: oversized values end them before they take the machine's memory."""
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = _MOST_MEMORY if hard == resource.RLIM_INFINITY else min(hard, _MOST_MEMORY)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def complain(message: str, code: int) -> int:
    say(message)
    return code


def output_lost(problem: OSError) -> int:
    return complain(f"the output could not be written: {problem.strerror}", _NO_OUTPUT)


def crash(bug: BaseException) -> int:
    """Reports where it happened, never the values of variables."""
    import traceback
    import uuid

    reference = uuid.uuid4().hex[:8]
    frames = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(bug.__traceback__)]
    print(
        f"dlq: this is a bug ({type(bug).__name__}, reference {reference}); acts are complete or undone. "
        f"At: {' < '.join(reversed(frames[-4:]))}",
        file=sys.stderr,
    )
    return _CRASHED


Verb = Callable[[Context], int | Coroutine[Any, Any, int]]
_ROOMS = {
    "browse": ("list", "show", "export", "doctor", "audit"),
    "triage": ("dismiss", "restore", "halt", "resume"),
    "setup_commands": ("init", "completions", "demo", "practice", "help", "policy", "index"),
    "secrets": ("secrets",),
    "serve": ("serve",),
    "groups": ("groups",),
    "stats": ("check", "metrics", "report"),
    "archive": ("archive",),
    "replay": ("replay", "reconcile", "settle", "ask", "approve"),
}


def _lazy(room: str, name: str) -> Verb:
    def run(context: Context) -> int | Coroutine[Any, Any, int]:
        verb: Verb = getattr(import_module(f"console.cli.{room}"), f"{name}_verb")
        return verb(context)

    return run


VERBS: dict[str, Verb] = {name: _lazy(room, name) for room, names in _ROOMS.items() for name in names}
