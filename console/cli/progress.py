"""A running batch on the command line: results as they land, a progress line on a terminal, signals that stop it.

The batch has a thread of its own: a terminal that stops reading holds up only what is shown.
"""

from __future__ import annotations

import json
import queue
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from console.cli.output import quantity_text, stored_number
from console.safetext import safe
from console.services.batch import Batch, Work
from console.services.outcome import Ended, exit_code
from console.services.plan import ReplayPlan

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_batch(work: Work, *, as_json: bool) -> int:
    """Runs to the end and returns the exit code; the first signal stops it between entries."""
    batch = Batch(work)
    show = json_result if as_json else plain_result
    with _stopping(batch.stop):
        batch.start()
        shown = True
        for ended in _events(batch):
            shown = shown and _write(show(ended))
        return exit_code(batch.join())


def _events(batch: Batch) -> Iterator[Ended]:
    while True:
        try:
            ended = batch.handle.events.get(timeout=0.2)
        except queue.Empty:
            continue
        if ended is None:
            return
        yield ended


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    def on_signal(_: int, __: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    pipe = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.signal(signal.SIGPIPE, pipe)


def _write(line: str) -> bool:
    """False once nobody reads any more; the batch goes on."""
    try:
        print(line, flush=True)
    except OSError:
        return False
    return True


def json_result(ended: Ended) -> str:
    return json.dumps(
        {
            "dlq_id": ended.entry_id,
            "outcome": ended.outcome,
            "venue_order_id": ended.venue_order_id,
            "client_order_id": ended.client_order_id,
            "mode": ended.mode,
            "detail": ended.detail,
        }
    )


def plain_result(ended: Ended) -> str:
    entry_id, detail = safe(ended.entry_id, 200), f": {safe(ended.detail)}" if ended.detail else ""
    match ended.outcome:
        case "accepted":
            return f"replayed {entry_id}  -> venue order {safe(ended.venue_order_id or '?', 200)}"
        case "unknown":
            return f"in doubt {entry_id}{detail} (dlq reconcile {entry_id} asks the venue)"
        case word:
            return f"{word.replace('_', ' ')} {entry_id}{detail}"


def say(message: str) -> None:
    print(f"dlq: {message}", file=sys.stderr)


def say_plan(made: ReplayPlan) -> None:
    """The plan, for people: on stderr."""
    where = ", ".join(f"{name} at {host}" for name, host in made.hosts) or "nowhere"
    kind = f"{made.mode.upper()}{' rehearsal' if made.rehearsal else ''}"
    waves = ", then ".join(str(size) for size in made.wave_sizes)
    say(f"plan {made.hash}: {kind} to {where}: {len(made.steps)} to send{f' ({waves})' if len(made.steps) > 1 else ''}")
    for step in made.steps:
        action = step.command.action
        price = "market" if action.price is None else stored_number(action.price)
        what = f"{action.verb} {safe(action.side, 20)} {quantity_text(action.quantity)} {safe(action.market_id, 80)}"
        notes = f" ({safe('; '.join(step.command.notes))})" if step.command.notes else ""
        say(
            f"  {safe(step.command.entry_id, 80)}  {what} @ {price}  id {safe(step.command.client_order_id, 80)}{notes}"
        )
    for one in made.superseded:
        say(f"  {safe(one.entry_id, 80)}  superseded by {safe(one.by, 80)}")
    for blocked in made.blocked:
        say(f"  {safe(blocked.entry_id, 80)}  blocked: {safe(blocked.text)}")
    if made.steps:
        unpriced = sum(line.unpriced for line in made.exposure)
        at_market = f", {unpriced} at market (no price to count)" if unpriced else ""
        say(f"  exposure: gross {made.gross:f}, net {made.net:+f}{at_market}")
