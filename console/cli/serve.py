"""The serve verb: the console in a browser, one process for each page. Listens on loopback unless told otherwise."""

from __future__ import annotations

import ipaddress
import os
import shlex
import sys

from console.cli.context import DONE, Context
from console.cli.parser import UsageError


def serve_verb(context: Context) -> int:
    from textual_serve.server import Server

    args = context.args
    if not 0 < args.port < 65536:
        raise UsageError("--port is a number between 1 and 65535")
    if not _is_loopback(args.host):
        print(f"dlq: {args.host} is not loopback: whoever reaches it acts as you, without a password", file=sys.stderr)
    os.environ["DLQ_SERVED"] = "1"
    shown = f"[{args.host}]" if ":" in args.host else args.host
    print(f"http://{shown}:{args.port}", flush=True)
    try:
        Server(console_command(context), host=args.host, port=args.port, title="dlq-console").serve()
    except OSError as problem:
        raise UsageError(f"cannot listen on {args.host}:{args.port}: {problem.strerror or problem}") from None
    return DONE


def console_command(context: Context) -> str:
    """The command that each page runs: the console with the same global options."""
    args = context.args
    words = [sys.executable, "-m", "console"]
    for name in ("db", "config", "operator", "table"):
        if value := getattr(args, name):
            words += [f"--{name}", str(value)]
    return shlex.join([*words, "--read-only"] if args.read_only else words)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
