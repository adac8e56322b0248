"""Lines of a batch: progress, outcomes and the report. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.render.line import HANG, Line, columns, line, spread, trusted, untrusted, width
from console.render.value import OUTCOMES
from console.services.replay.outcome import spoken
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.replay.background_run import RunProgress
    from console.services.replay.outcome import EntryOutcome

REAL = "real"  # the mode of a batch whose layout has neither paper nor live
_FIRST = ("unknown", "rejected", "not_sent", "refused", "skipped")  # outcomes that need a person come first
_NEXT = {
    "unknown": "esc, then C: the venue is asked, its order beside ours; S settles by what you saw",
    "rejected": "read the reason, then dismiss",
    "not_sent": "nothing went out: replay again when the venue is ready",
    "refused": "see the reason on each line",
    "skipped": "nothing went out",
}

_NEXT_REAL = {
    "unknown": "esc, then C looks what is known of it; S settles by what you saw",
    "rejected": "read the answer, then replay again or dismiss",
    "not_sent": "nothing went out: replay again later",
}


def bar(run: RunProgress, size: int) -> Line:
    done, total = len(run.landed), max(run.total, len(run.landed), 1)
    right = line(trusted(f" {done}/{run.total}  {run.rate:.0f}/min  {run.seconds:.0f}s", "dim"))
    word = _ended_word(run) if run.over else "stopping" if run.stopping else run.kind
    left = line(untrusted(f"{run.mode.upper()} ", "strong", limit=20), trusted(f"{'· ' if run.over else ''}{word} "))
    room = max(4, size - width(left) - width(right) - 2)
    filled = room * done // total
    return spread((*left, trusted("█" * filled, "accent"), trusted("░" * (room - filled), "dim")), right, size)


def _ended_word(run: RunProgress) -> str:
    unsent = sum(one.outcome in ("not_sent", "skipped") for one in run.landed)
    return f"stopped, {unsent:,} not sent" if run.stopping and unsent else "done"


def waiting_line(waiting: str) -> Line:
    return line(trusted(" waiting    ", "warning"), HANG, untrusted(waiting, limit=300))


def ended_line(ended: EntryOutcome, room: int = 0) -> Line:
    """One result; the account stands there where `room` has place for it."""
    whole = _ended(ended, ended.account)
    return whole if width(whole) <= room else _ended(ended, None)


def _ended(ended: EntryOutcome, of: str | None) -> Line:
    tone = OUTCOMES.get(ended.outcome, "plain")
    word = spoken(ended.outcome)
    made = "row" if ended.mode is None else "order"
    order = f"{made} {safe(ended.venue_order_id, 60)}" if ended.venue_order_id else ""
    account = f"account {safe(of, 40)}" if of else ""
    known, detail = "  ".join(part for part in (order, account) if part), ended.detail or ""
    return line(
        trusted(f" {word:<11}", tone),
        untrusted(ended.entry_id, limit=60),
        trusted("  "),
        HANG,
        trusted(f"{known}{'  ' if known and detail else ''}"),
        untrusted(detail, "dim", limit=400),
    )


def _rank(outcome: str) -> int:
    return _FIRST.index(outcome) if outcome in _FIRST else len(_FIRST)


def report(run: RunProgress, room: int = 0) -> list[Line]:
    """The summary, then each entry."""
    ended = sorted(run.landed, key=lambda one: _rank(one.outcome))
    return [*summary(run), (), *(ended_line(one, room) for one in ended)]


def summary(run: RunProgress) -> list[Line]:
    tally = run.tally
    head = "stopped" if run.stopping else "finished"
    lines: list[Line] = [line(trusted(f"{run.kind} {head} in {run.seconds:.1f} s", "strong"))]
    if run.problem:
        lines.append(line(trusted("it ended early: ", "danger"), untrusted(run.problem, "danger", limit=300)))
    rows = []
    hints = _NEXT | _NEXT_REAL if run.mode == REAL else _NEXT
    for outcome, count in sorted(tally.items(), key=lambda held: _rank(held[0])):
        shown = line(
            trusted(f"{count:>4}", OUTCOMES.get(outcome, "plain")), trusted(f"   {hints.get(outcome, '')}", "dim")
        )
        rows.append((spoken(outcome), shown))
    return lines + columns(rows)
