"""The serve verb: the console in a browser, on loopback, behind a secret that only the printed address has."""

from __future__ import annotations

import os

from console.cli.context import DONE, Context, say
from console.cli.parser import UsageError
from console.own_program import OWN_PROGRAM

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


async def serve_verb(context: Context) -> int:
    args = context.args
    if not 0 <= args.port < 65536:
        raise UsageError("--port is a number up to 65535; 0 takes a free one")
    if args.host not in _LOOPBACK:
        raise UsageError(f"--host is {', '.join(_LOOPBACK)}: for another machine, use a tunnel (ssh -L)")
    if args.consoles < 1:
        raise UsageError("--consoles must be at least 1")
    try:
        from console.web.server import WebServer
    except ImportError:
        raise UsageError("the browser is an extra: pip install 'dlq-console[serve]'") from None
    server = WebServer(console_command(context), console_environ(context), consoles=args.consoles, say=say)
    try:
        await server.serve(args.host, args.port, lambda address: print(address, flush=True))
    except OSError as problem:
        raise UsageError(f"cannot listen on {args.host}:{args.port}: {problem.strerror or problem}") from None
    return DONE


def console_command(context: Context) -> list[str]:
    """The command that each page runs: the console with the same global options, but for the target."""
    args = context.args
    words = list(OWN_PROGRAM)
    for name in ("config", "operator", "table"):
        if value := getattr(args, name):
            words += [f"--{name}", str(value)]
    return [*words, "--read-only"] if args.read_only else words


def console_environ(context: Context) -> dict[str, str]:
    """The target goes by environment: it may hold a password, which everybody could read in an argument list."""
    served = {"DLQ_SERVED": "1", "DLQ_SERVED_LIVE": "1" if context.args.allow_live else ""}
    target = {"DLQ_DB": str(context.args.db)} if context.args.db else {}
    return {**os.environ, **served, **target}
