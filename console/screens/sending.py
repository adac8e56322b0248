"""What reaches a venue or holds back what does: replay, reconcile, halt, paper/live, approve. Each opens its gate.

What runs afterwards runs off this loop and outlives the screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.records import Selection
from console.render.line import line, own, said
from console.render.value import many, order
from console.screens.acting import HELD, SAMPLE, ActingScreen, selection_of
from console.screens.gate_replay import Confirmed, ReplayGate
from console.screens.gate_word import WordGate, a_note, anything, exactly
from console.services.workplace import Workplace

if TYPE_CHECKING:
    from console.services.batch import Work
    from console.services.run import Kind, Run


def replay(screen: ActingScreen) -> None:
    place, picks = screen.workplace(), screen.picks()
    if place is None or not picks or _is_busy(screen):
        return
    if place.info.layout != "orders":
        screen.start(lambda: _ask_resend(screen, place, selection_of(picks)), group="ask", exclusive=True)
        return
    most = 20 * screen.console.setup.config.limits.max_batch
    if len(picks) > most:
        screen.complain(f"a batch takes {screen.console.setup.config.limits.max_batch} entries at most: mark fewer")
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
    place = screen.workplace()
    if place is not None and not _is_busy(screen):
        screen.start(lambda: _ask_reconcile(screen, place), group="ask", exclusive=True)


async def _ask_reconcile(screen: ActingScreen, place: Workplace) -> None:
    held = [entry_id for entry_id, pick in screen.picks().items() if pick.state in HELD]
    attempts = [one for one in await place.store.open_attempts() if not held or one.entry_id in held]
    if not attempts:
        screen.complain("nothing is in doubt")
        return
    ids = tuple(dict.fromkeys(one.entry_id for one in attempts))
    lines = [
        line(said(f" {one.mode.upper():5} ", "strong", limit=20), said(f"{one.venue}  {one.entry_id}"))
        for one in attempts[:SAMPLE]
    ]
    if len(attempts) > SAMPLE:
        lines.append(line(own(f" … and {len(attempts) - SAMPLE} more", "dim")))
    lines += [
        (),
        line(own("The venue is asked; nothing is sent. Evidence settles an entry, silence does not.", "dim")),
    ]
    title = line(own(f"Reconcile {many(len(ids), 'entry')}"))
    gate = WordGate(title, lines, ask=f"type {len(ids)} to ask the venue", judge=exactly(str(len(ids))))
    modes = "/".join(sorted({one.mode for one in attempts}))

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.console.begin(_run("reconcile", modes, len(attempts), place.reconcile_work(ids)))
            screen.acted()

    screen.app.push_screen(gate, answered)


async def _ask_resend(screen: ActingScreen, place: Workplace, selection: Selection) -> None:
    """Entries that are no orders have no venue and no mode; the number is asked for all the same."""
    plan = await place.resending(selection)
    lines = [line(own(" goes to  ", "dim"), said(plan.where or "nowhere", limit=300)), ()]
    lines += [
        line(own(" ✓ ", "good"), said(f"{entry.id}  ", limit=60), own(order(entry))) for entry in plan.going[:SAMPLE]
    ]
    if len(plan.going) > SAMPLE:
        lines.append(line(own(f" … and {len(plan.going) - SAMPLE} more", "dim")))
    lines += [
        line(own(" ✗ ", "warning"), said(f"{one.entry_id}  {one.detail}", "warning")) for one in plan.left[:SAMPLE]
    ]
    count = str(len(plan.going))
    judge = exactly(count) if plan.going else lambda _: "there is nothing to send"
    title = line(own(f"Replay {many(len(plan.going), 'entry')}"))
    gate = WordGate(title, lines, ask=f"type {count} to send again", judge=judge)

    def answered(answer: str | None) -> None:
        if answer is not None:
            total = len(plan.going) + len(plan.left)
            screen.console.begin(_run("replay", "", total, place.resend_work(plan)))
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
        text = f"Halted since {halt.since} by {halt.operator}: {halt.note}"
        gate = WordGate(line(own("Resume replays")), [line(said(text, limit=400))], ask="why now", judge=a_note)

    async def act(note: str) -> None:
        if halt is None:
            await place.triage.halt(note)
            screen.console.restand(halt=await place.store.halted())
            screen.tell(line(own("halted: nothing is replayed on this store until it is resumed", "danger")))
        elif await place.resume(halt, note):
            screen.console.restand(halt=await place.store.halted())
            screen.tell(line(own("resumed", "good")))
        else:
            screen.complain("a live store is resumed by two: a second person must approve (P), then press H again")

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.start(lambda: act(answer), group="act", exclusive=False)

    screen.app.push_screen(gate, answered)


def mode(screen: ActingScreen) -> None:
    if screen.console.mode == "live":
        screen.console.set_mode("paper")
        screen.tell(line(own("PAPER: replays go to the venue's paper side", "good")))
        return
    text = "In LIVE a replay sends real orders. Every gate then asks for the word and the number."
    gate = WordGate(line(own("Switch to LIVE")), [line(own(text))], ask="type live", judge=exactly("live"), live=True)

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
