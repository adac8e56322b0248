"""The demo's colleague: somebody who does not exist asks for a second person, so that there is something to approve.

Asks by the same plan and the same ledger as anybody; what is made up is the name, which says so.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from backends.records import Actor, Selection
from backends.store import StoreError
from console.cli.context import Context
from console.cli.parser import build_parser
from console.settings.config import load_config

RENEW_SECONDS = 240.0  # a plan waits for five minutes: asking again in time keeps it fresh
NAME = "demo-colleague"
_NOTE = "still wanted, says the desk"


def colleague() -> Actor:
    """Another person than whoever runs the demo, and named as one of the demo's."""
    return Actor(operator="demo colleague", os_user=NAME, host=socket.gethostname(), program="dlq demo")


async def ask(ids: Sequence[str], here: Sequence[str]) -> str | None:
    """Put up a live replay that overrides an age; returns its plan, None where nothing of it would go."""
    from console.services.replay.preflight import ReplayRequest

    args = build_parser().parse_args(["replay", *ids, "--live", "--override", "stale", "--note", _NOTE, *here])
    context = Context(args, load_config(args.config, {}), colleague())
    async with context.session() as session:
        entries, _ = await session.triage.chosen(tuple(ids))
        pending = [entry for entry in entries.values() if entry.state == "pending"]
        request = ReplayRequest(mode="live", overrides=frozenset({"stale"}))
        plan = await session.plan(Selection.of(pending), request)
        if not plan.count or plan.needs_second is None:
            return None
        await session.is_approved(plan)
        return plan.hash


@contextmanager
def waiting_plan(ids: Sequence[str], here: Sequence[str], *, renew: float = RENEW_SECONDS) -> Iterator[threading.Event]:
    """Keeps the plan waiting for as long as the demo is open. Yields what is set once it was asked for first."""
    over, asked = threading.Event(), threading.Event()

    def keep_asking() -> None:
        while not over.is_set():
            try:
                asyncio.run(ask(ids, here))
            except StoreError:
                return  # the store is gone: the demo ends
            asked.set()
            over.wait(renew)

    thread = threading.Thread(target=keep_asking, name="dlq-demo-colleague", daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join(10)
