"""What reaches a venue or holds back what does: replay, reconcile, halt, paper/live, approve. Each opens its gate.

What runs afterwards runs off this loop and outlives the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from backends.records import Attempt, Halt, parse_time
from console.duration import long_age
from console.render.batch import REAL
from console.render.line import line, own, said
from console.render.value import many, moment
from console.screens.acting import HELD, SAMPLE, ActingScreen, Picks, selection_of
from console.screens.gate_replay import Confirmed, ReplayGate
from console.screens.gate_word import LookupGate, Question, WordGate, a_note, anything, exactly
from console.services.approval import resume_hash
from console.services.workplace import Workplace

if TYPE_CHECKING:
    from console.services.batch import Work
    from console.services.handover import Resending
    from console.services.run import Kind, Run

_RECONCILING = "The venue is asked; nothing is sent. Evidence settles an entry, silence does not."
_NOT_IN_DOUBT = (
    "nothing is in doubt: no replay from here is without an answer. Where the failure itself may have reached the "
    "venue, replay (R) asks the venue first and sends only what is not there."
)
_SETTLING = "Nothing is sent. A hub is asked; a call whose end nobody saw counts as failed once its lease is over."


def replay(screen: ActingScreen) -> None:
    place, picks = screen.workplace(), screen.picks()
    if place is None or not picks or _is_busy(screen):
        return
    most = 20 * screen.console.setup.config.limits.max_batch
    if len(picks) > most:
        screen.complain(f"a batch takes {screen.console.setup.config.limits.max_batch} entries at most: mark fewer")
        return
    if place.info.layout != "orders":
        _resend(screen, place, picks)
        return
    mode = screen.console.mode
    selection = selection_of(picks)
    gate = ReplayGate(
        len(picks),
        mode=mode,
        plan=lambda overrides: place.plan(selection, mode, overrides),
        approved=place.is_approved,
    )

    def answered(answer: Confirmed | None) -> None:
        if answer is None:
            return
        plan = answer.plan
        total = len(plan.steps) + len(plan.superseded) + len(plan.blocked)
        screen.console.begin(_run("replay", plan.mode, total, place.replay_work(plan, answer.note)))
        screen.acted()

    screen.app.push_screen(gate, answered)


def reconcile(screen: ActingScreen) -> None:
    """Opens its gate at once, as every capital does, and asks the store behind it."""
    place = screen.workplace()
    if place is None or _is_busy(screen):
        return
    held = frozenset(entry_id for entry_id, pick in screen.picks().items() if pick.state in HELD)

    def answered(attempts: Sequence[Attempt] | None) -> None:
        if attempts is not None:
            modes = "/".join(sorted({one.mode for one in attempts})) if place.info.layout == "orders" else REAL
            work = place.reconcile_work(_entries_of(attempts))
            screen.console.begin(_run("reconcile", modes, len(attempts), work))
            screen.acted()

    screen.app.push_screen(LookupGate(line(own("Reconcile")), lambda: _in_doubt(place, held)), answered)


async def _in_doubt(place: Workplace, held: frozenset[str]) -> Question[Sequence[Attempt]] | str:
    attempts = [one for one in await place.store.open_attempts() if not held or one.entry_id in held]
    if not attempts:
        return _NOT_IN_DOUBT if place.info.layout == "orders" else "nothing is in doubt"
    count = len(_entries_of(attempts))
    lines = [
        line(said(f" {one.mode.upper():5} ", "strong", limit=20), said(f"{one.venue}  {one.entry_id}"))
        for one in attempts[:SAMPLE]
    ]
    if len(attempts) > SAMPLE:
        lines.append(line(own(f" … and {len(attempts) - SAMPLE} more", "dim")))
    is_order = place.info.layout == "orders"
    return Question(
        about=attempts,
        title=line(own(f"Reconcile {many(count, 'entry')}")),
        lines=[*lines, (), line(own(_RECONCILING if is_order else _SETTLING, "dim"))],
        ask=f"type {count} {'to ask the venue' if is_order else 'to settle'}",
        judge=exactly(str(count)),
    )


def _entries_of(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.entry_id for one in attempts))


def _resend(screen: ActingScreen, place: Workplace, picks: Picks) -> None:
    """Entries that are no orders have no venue and no paper mode; the number is asked for all the same."""
    from console.screens.gate_handover import HandoverGate

    selection = selection_of(picks)
    gate = HandoverGate(len(picks), mode=screen.console.mode, plan=lambda: place.resending(selection))

    def answered(plan: Resending | None) -> None:
        if plan is not None:
            total = len(plan.going) + len(plan.left)
            screen.console.begin(_run("replay", REAL, total, place.resend_work(plan)))
            screen.acted()

    screen.app.push_screen(gate, answered)


def _is_busy(screen: ActingScreen) -> bool:
    run = screen.console.activity.run
    if run is None or run.over:
        return False
    screen.complain("a batch is running: b shows it, ! stops it")
    return True


def halt(screen: ActingScreen) -> None:
    """The gate opens at once, by what the frame shows: keys typed right behind are the gate's, not the queue's."""
    place, halt = screen.workplace(), screen.console.standing.halt
    if place is None:
        return
    if halt is None:
        text = "No console replays on this store until it is resumed. What is being sent is brought to its end."
        gate = WordGate(line(own("Halt every replay on this store")), [line(own(text))], ask="why", judge=a_note)
    else:
        lines = [line(said(_halted(halt, screen.console.now()), limit=400))]
        gate = WordGate(line(own("Resume replays")), lines, ask="why now", judge=a_note)

    async def act(note: str) -> None:
        if halt is None:
            await place.triage.halt(note)
            screen.console.restand(halt=await place.store.halted())
            screen.tell(line(own("halted: nothing is replayed on this store until it is resumed", "danger")))
        elif await place.resume(halt, note):
            screen.console.restand(halt=await place.store.halted())
            screen.tell(line(own("resumed", "good")))
        else:
            screen.complain(f"two resume a live store: dlq approve {resume_hash(halt)}, or P there; then H")

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.start(lambda: act(answer), group="act", exclusive=False)

    screen.app.push_screen(gate, answered)


def _halted(halt: Halt, now: datetime) -> str:
    since = parse_time(halt.since)
    ago = f", {long_age(since, now)} ago" if since else ""
    return f"Halted at {moment(halt.since)}{ago}, by {halt.operator}: {halt.note}"


def mode(screen: ActingScreen) -> None:
    is_real = screen.console.standing.layout != "orders"
    if screen.console.mode == "live":
        screen.console.set_mode("paper")
        told = "PAPER: gates ask for the number alone; replays are real here all the same"
        screen.tell(line(own(told if is_real else "PAPER: replays go to the venue's paper side", "good")))
        return
    texts = (
        "A replay in LIVE sends real orders: its gate asks for the word and the number, and an override for "
        "a second person.",
        "Nothing else changes: dismiss and restore never send, reconcile asks in the mode of each attempt.",
    )
    if is_real:
        texts = (
            "Replays are real here in PAPER too: there is no venue.",
            "LIVE makes the gate ask for the word as well.",
        )
    lines = [line(own(text)) for text in texts]
    gate = WordGate(line(own("Switch to LIVE")), lines, ask="type live", judge=exactly("live"), live=True)

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.console.set_mode("live")

    screen.app.push_screen(gate, answered)


def approve(screen: ActingScreen) -> None:
    place = screen.workplace()
    if place is None:
        return
    text = "Another person asked for your approval and told you the plan's hash. You answer for it with your name."
    gate = WordGate(line(own("Approve a plan")), [line(own(text))], ask="plan", judge=anything)

    async def approve(plan_hash: str) -> None:
        try:
            summary = await place.approve(plan_hash)
        except KeyError:
            screen.complain("no such plan was put up for approval on this store")
            return
        if summary is None:
            screen.complain("the one who asked cannot approve: another OS user or database role must")
        else:
            screen.tell(line(own("approved: ", "good"), said(summary, limit=300)))

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.start(lambda: approve(answer), group="act", exclusive=False)

    screen.app.push_screen(gate, answered)


def _run(kind: Kind, mode: str, total: int, work: Work) -> Run:
    # Imported here: a console that only looks never loads what can send.
    from console.services.batch import Batch
    from console.services.run import Run

    return Run(kind, mode, total, Batch(work))
