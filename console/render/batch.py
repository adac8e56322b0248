"""A batch on its way and its report. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.render.line import Line, Tone, columns, line, own, said, spread
from console.safetext import safe

if TYPE_CHECKING:
    from console.services.outcome import Ended
    from console.services.run import Run

_TONES: dict[str, Tone] = {
    "accepted": "good",
    "rejected": "warning",
    "unknown": "danger",
    "not_sent": "warning",
    "refused": "warning",
    "skipped": "dim",
    "superseded": "dim",
}
_WORDS = {"unknown": "in doubt", "not_sent": "not sent"}
_NEXT = {
    "unknown": "C asks the venue what became of it",
    "rejected": "read the venue's words, then dismiss or correct",
    "not_sent": "nothing went out: replay again when the venue is ready",
    "refused": "see the reason on each line",
    "skipped": "nothing went out",
}


def bar(run: Run, size: int) -> Line:
    done, total = len(run.landed), max(run.total, len(run.landed), 1)
    right = line(own(f" {done}/{run.total}  {run.rate:.0f}/min  {run.seconds:.0f}s", "dim"))
    word = "over" if run.over else "stopping" if run.stopping else run.kind
    left = line(said(f"{run.mode.upper()} ", "strong", limit=20), own(f"{word} "))
    room = max(4, size - 36)
    filled = room * done // total
    return spread((*left, own("█" * filled, "accent"), own("░" * (room - filled), "dim")), right, size)


def ended_line(ended: Ended) -> Line:
    tone = _TONES.get(ended.outcome, "plain")
    word = _WORDS.get(ended.outcome, ended.outcome)
    order = f"  order {safe(ended.venue_order_id, 60)}" if ended.venue_order_id else ""
    detail = f"  {ended.detail}" if ended.detail else ""
    return line(own(f" {word:<11}", tone), said(ended.entry_id, limit=60), own(order), said(detail, "dim", limit=400))


def summary(run: Run) -> list[Line]:
    tally = run.tally
    head = "stopped" if run.stopping else "finished"
    lines: list[Line] = [line(own(f"{run.kind} {head} in {run.seconds:.1f} s", "strong"))]
    if run.problem:
        lines.append(line(own("it ended early: ", "danger"), said(run.problem, "danger", limit=300)))
    rows = []
    for outcome, count in tally.most_common():
        shown = line(own(f"{count:>4}", _TONES.get(outcome, "plain")), own(f"   {_NEXT.get(outcome, '')}", "dim"))
        rows.append((_WORDS.get(outcome, outcome), shown))
    return lines + columns(rows)
