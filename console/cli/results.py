"""Prints a replay plan and the outcomes of a replay or reconcile, runs the batch, and turns signals into a stop."""

from __future__ import annotations

import os
import queue
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from console.cli.context import NOT_ACTED, say
from console.cli.printing.interrupt import INTERRUPTED, stoppable
from console.cli.printing.progress import StatusLine
from console.render.gates.waiting import waiting_line, waiting_order, waiting_rows
from console.render.order_text import market_text, order_text
from console.render.plan import Entries, said_lines
from console.render.value import place
from console.services.json_lines import json_line
from console.services.market.exposure import amounts_text
from console.services.replay.background_run import BackgroundRun, Work
from console.services.replay.outcome import EntryOutcome, exit_code, row_of
from console.services.replay.plan import ReplayPlan, Step
from console.services.replay.target import SendPlan
from console.services.resend.plan import ResendPlan
from console.text.amounts import spelled_amount
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.evidence.ask import VenueAnswer
    from console.services.triage.approvals import WaitingPlan


_ROUTES = 10  # queues or providers that a line names
_OWNER = "an owner would run the SQL that stderr shows"
_OWNER_SQL = re.compile(r"an owner would run:\n(.*;)", re.DOTALL)


def json_result(ended: EntryOutcome) -> str:
    return json_line(row_of(ended))


def say_waiting(plan: WaitingPlan) -> None:
    """Everything that is approved, line by line."""
    say(waiting_line(plan))
    for row in waiting_rows(plan):
        say(f"  {safe(waiting_order(row), 4000)}")


def answer_document(answer: VenueAnswer) -> dict[str, object]:
    return {
        "dlq_id": answer.entry_id,
        "answer": answer.answer,
        "equal": answer.equal,
        "differences": list(answer.differences),
        "status": answer.status,
        "filled": answer.filled,
        "venue_order_id": answer.venue_order_id,
        "client_order_id": answer.client_order_id,
        "account": answer.account,
        "at": answer.at.isoformat(),
        "detail": answer.detail,
    }


def plain_answer(answer: VenueAnswer) -> str:
    """One line: what the venue has of this entry's order."""
    parts = [f"{safe(answer.entry_id, 200)}  {answer.answer}"]
    if answer.answer == "found":
        parts.append(f"venue order {safe(answer.venue_order_id or '?', 200)}, {answer.status}")
        parts.append(
            "matches the entry" if answer.equal else f"differs from the entry: {safe('; '.join(answer.differences))}"
        )
    elif answer.detail:
        parts.append(safe(answer.detail))
    if answer.account:
        parts.append(f"account {safe(answer.account, 80)}")
    return "  ".join(parts)


def owner_sql(ended: EntryOutcome) -> str | None:
    """The SQL that would let this role act, if missing privileges kept an entry from being sent."""
    found = _OWNER_SQL.search(ended.detail or "")
    return found[1] if found else None


def plain_result(ended: EntryOutcome) -> str:
    said = _OWNER_SQL.sub(_OWNER, ended.detail or "")
    entry_id, detail = safe(ended.entry_id, 200), f": {safe(said)}" if said else ""
    match ended.outcome:
        case "accepted" if ended.mode is None:
            row = f"  -> row {safe(ended.venue_order_id, 200)}" if ended.venue_order_id else ""
            return f"replayed {entry_id}{row}{detail}"
        case "accepted":
            return f"replayed {entry_id}  -> venue order {safe(ended.venue_order_id or '?', 200)}"
        case "unknown" if ended.mode is None:
            return f"in doubt {entry_id}{detail}"
        case "unknown" if said.startswith("conflict"):
            return f"in doubt {entry_id}{detail} (look at the venue, then dlq settle {entry_id} by what you saw)"
        case "unknown":
            ways = f"dlq reconcile {entry_id} asks the venue, dlq settle {entry_id} settles it by what you saw there"
            return f"in doubt {entry_id}{detail} ({ways})"
        case word:
            return f"{word.replace('_', ' ')} {entry_id}{detail}"


def say_plan(plan: SendPlan, entries: Entries) -> None:
    """Prints the plan for a person, on stderr."""
    match plan:
        case ReplayPlan():
            _say_orders(plan, entries)
        case ResendPlan(going=going) if going:
            say(f"{len(going)} to send again: {safe(_where(plan), 1000)}")


def _where(plan: ResendPlan) -> str:
    """Where the entries go, in one line."""
    each = plan.kind == "provider"
    shown = [f"{route.name} at {route.place}" if each else route.name for route in plan.routes[:_ROUTES]]
    more = [f"{len(plan.routes) - _ROUTES} more"] if len(plan.routes) > _ROUTES else []
    names, place = ", ".join(shown + more), plan.routes[0].place
    return names if each else f"{place} for {names}"


def _say_orders(made: ReplayPlan, entries: Entries) -> None:
    kind = f"{made.mode.upper()}{' rehearsal' if made.rehearsal else ''}"
    where = ", ".join(f"{safe(name, 80)} at {safe(host, 120)}" for name, host in made.hosts)
    say(f"plan {made.hash}: {kind}" + (f" to {where}" if where else ": nothing can be sent"))
    for text in said_lines(made, entries):
        say(f"  {text}")
    for step in made.steps:
        say(f"  {_step_text(step)}")
    if len(made.exposure) > 1:
        for line in made.exposure:
            where = " ".join(safe(part, 80) for part in (line.venue, line.account, line.market) if part)
            money = f"gross {spelled_amount(line.gross)}, net {spelled_amount(line.net)} {line.currency}".rstrip()
            say(f"  {where}: {line.orders} order{'' if line.orders == 1 else 's'}, {money}")
    if made.steps:
        unpriced = sum(line.unpriced for line in made.exposure)
        without = f", {unpriced} without a value (not counted)" if unpriced else ""
        say(f"  exposure: gross {amounts_text(made.gross)}, net {amounts_text(made.net)}{without}")
    for rule in made.rules:
        say(f"  in force: {safe(rule)}")
    if made.needs_second:
        say(f"  needs a second person: {made.needs_second}")


def _step_text(step: Step) -> str:
    command = step.command
    what = ("⚑exit " if step.worth.reduces else "") + order_text(command.action, step.worth.currency)
    market = market_text(step.worth)
    overridden = (f"overridden: {', '.join(step.overridden)}",) if step.overridden else ()
    notes = "; ".join((*command.notes, *overridden))
    more = f" ({safe(notes)})" if notes else ""
    where = place(command.venue, command.account, step.account)
    seen = f"  {market}" if market else ""
    return f"{safe(command.entry_id, 80)}  {what}  {where}{seen}  id {safe(command.client_order_id, 80)}{more}"


_TICK_SECONDS = 0.2


def run_batch(work: Work, *, as_json: bool, dry_run: bool = False) -> int:
    """Runs the work to its end and returns the exit code. A signal stops it between entries."""
    batch = BackgroundRun(work)
    show = json_result if as_json else plain_result
    with stoppable(batch.stop) as stopped, ProgressLine() as line:
        batch.start()
        for ended in _events(batch, line):
            _write(show(ended))
            line.count(ended)
        results = batch.join()
    if sql := next(filter(None, map(owner_sql, results)), None):
        say(f"an owner would run:\n{sql}")
    if len(results) > 1:
        say(tally(results))
    code = exit_code(results, dry_run=dry_run)
    if stopped.by_key and code == NOT_ACTED:
        say("stopped: what was sent stays sent and is recorded; the same command goes on with the rest")
        return INTERRUPTED
    return code


def tally(results: tuple[EntryOutcome, ...]) -> str:
    words = Counter(result.outcome.replace("_", " ").replace("unknown", "in doubt") for result in results)
    return f"{len(results)} entries: " + ", ".join(f"{count} {word}" for word, count in words.items())


def _events(batch: BackgroundRun, line: ProgressLine) -> Iterator[EntryOutcome]:
    said = ""
    while True:
        try:
            ended = batch.handle.events.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            waiting = batch.handle.waiting
            if waiting and waiting != said:
                line.clear()
                say(safe(waiting))
            said = waiting
            line.show(batch.handle.total, stopping=batch.handle.stopping)
            continue
        line.clear()
        if ended is None:
            return
        yield ended
        line.show(batch.handle.total, stopping=batch.handle.stopping)


class ProgressLine:
    """Progress and rate in the last line of a terminal. Shows nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        self._line = StatusLine()
        self._done = 0
        self._words: Counter[str] = Counter()
        self._since = time.monotonic()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def count(self, ended: EntryOutcome) -> None:
        self._done += 1
        self._words[ended.outcome] += 1

    def show(self, total: int, *, stopping: bool) -> None:
        if total < 2 or self._done >= total:
            return
        rate = self._done / max(time.monotonic() - self._since, 0.001)
        words = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in self._words.items())
        self._line.put(f"{self._done}/{total}  {rate:.1f}/s  {words}{'  stopping' if stopping else ''}")

    def clear(self) -> None:
        self._line.clear()


def _write(line: str) -> None:
    """Prints a line. If stdout is closed, discards the rest, so that the batch can finish."""
    try:
        print(line, flush=True)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
