"""What reaches a venue or holds back what does: replay, halt, paper/live, approve. Each opens its gate.

What runs afterwards runs off this loop and outlives the screen.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from backends.records import Entry, Halt, Selection, parse_time
from backends.store import StoreError
from console.keymap import named
from console.render.batch import REAL
from console.render.line import line, trusted, untrusted
from console.render.value import moment
from console.screens.action_screen import ActingScreen, new_run, selection_of
from console.screens.frame import FramedScreen
from console.screens.gates.prompts import NoteGate, WordGate, a_note, anything, exactly
from console.screens.gates.replay import Confirmed, PlanSteps, ReplayGate
from console.services.session import Mode, StoreSession
from console.services.triage.approvals import resume_hash
from console.services.triage.own_approval import ALONE
from console.text.durations import long_age

if TYPE_CHECKING:
    from console.services.replay.background_run import RunHandle, RunScope, Work
    from console.services.replay.outcome import EntryOutcome
    from console.services.replay.preflight import ReplayRequest
    from console.services.replay.target import Renewal, SendPlan


def replay(screen: ActingScreen) -> None:
    session, picks = screen.attached_session(), screen.picks()
    if session is None or not picks or screen.is_busy():
        return
    if len(picks) > 20 * session.max_batch:
        screen.warn(f"a batch takes {session.max_batch} entries at most: mark fewer")
        return
    mode, selection, origin = screen.console.mode, selection_of(picks), screen.origin()

    def asked(plan: SendPlan) -> None:
        screen.queue_asks(plan.hash, f"replay of {plan.count:,}", f"{screen_key(screen, 'replay')} again sends it")

    async def take_back(plan_hash: str) -> bool:
        screen.console.queue.people.forget(plan_hash)
        return await session.withdraw(plan_hash)

    steps = _plan_steps(session, selection, mode)._replace(asked=asked, take_back=take_back)
    gate = ReplayGate(len(picks), mode=mode, has_modes=session.has_modes, steps=steps)

    def answered(answer: Confirmed | None) -> None:
        if answer is not None:
            screen.console.queue.people.forget(answer.plan.hash)
            work = _telling(answer.lost, session.replay_work(answer.plan, answer.note))
            total = answer.plan.size + len(answer.lost)
            scope = _scope(answer, selection, origin)
            screen.console.begin(new_run("replay", mode if session.has_modes else REAL, total, work, scope))
            screen.acted()
            _name_lost(screen, answer.lost)

    screen.app.push_screen(gate, answered)


def _scope(answer: Confirmed, chosen: Selection, origin: str) -> RunScope:
    """What the confirmed plan does, and what it was made of: the report tells sent from held by it."""
    from console.services.replay.background_run import RunScope
    from console.services.replay.plan import ReplayPlan

    plan = answer.plan
    going = (*plan.going_ids, *(one.entry_id for one in answer.lost))
    sent, rehearsal = frozenset(going), isinstance(plan, ReplayPlan) and plan.rehearsal
    beneath = tuple(one for one in plan.spoken_of if one not in sent)
    return RunScope(going, beneath, tuple(one.entry_id for one in plan.held), chosen, rehearsal, origin)


def _plan_steps(session: StoreSession, selection: Selection, mode: Mode) -> PlanSteps:
    def request(overrides: frozenset[str]) -> ReplayRequest:
        from console.services.replay.preflight import ReplayRequest

        return ReplayRequest(mode=mode, overrides=overrides, single=len(selection) == 1)

    async def renewed(shown: SendPlan, overrides: frozenset[str]) -> Renewal:
        return await session.renewed(shown, selection, request(overrides))

    def seconds_left(plan: SendPlan) -> float | None:
        from console.services.replay.plan import ReplayPlan

        if not isinstance(plan, ReplayPlan) or plan.made_at is None:
            return None
        lived = (session.setting.clock() - plan.made_at).total_seconds()
        return session.plan_seconds - lived

    return PlanSteps(
        make=lambda overrides: session.plan(selection, request(overrides)),
        renewed=renewed,
        seconds_left=seconds_left,
        is_approved=session.is_approved,
        approver=lambda plan: _approver(session, plan.hash),
        asked=lambda _: None,
        take_back=session.withdraw,
        refuse_held=session.refuse_held,
        entries=lambda plan: _entries_of(session, plan),
    )


async def _entries_of(session: StoreSession, plan: SendPlan) -> dict[str, Entry]:
    """What the plan speaks of, as stored; a hub would be asked for each of them, so nothing of it is read."""
    if session.setting.store.is_hub:
        return {}
    return await session.store.many((*plan.spoken_of, *(one.entry_id for one in plan.held)))


async def _approver(session: StoreSession, plan_hash: str) -> str | None:
    """Who approved it; only reads."""
    approval = await session.store.approval(plan_hash)
    return None if approval is None or approval.approved_by is None else approval.approved_by.partition("|")[0]


def _telling(lost: tuple[EntryOutcome, ...], work: Work) -> Work:
    """The work, with the outcome of what was lost before it began."""

    async def told(handle: RunHandle) -> tuple[EntryOutcome, ...]:
        for one in lost:
            handle.tell(one)
        return (*lost, *await work(handle))

    return told


def _name_lost(screen: ActingScreen, lost: tuple[EntryOutcome, ...]) -> None:
    if lost and isinstance(screen.app.screen, FramedScreen):
        first = f"{lost[0].entry_id} no longer goes: {lost[0].detail}"
        more = f"; and {len(lost) - 1:,} more" if len(lost) > 1 else ""
        screen.app.screen.warn(f"{first}{more}")


def halt(screen: ActingScreen) -> None:
    """Halt at once and ask for a note afterwards; where the frame shows a halt, open the gate that resumes."""
    session, halt = screen.attached_session(), screen.console.header_state.halt
    if session is None:
        return
    if halt is not None:
        _resume(screen, session, halt)
        return
    halted: asyncio.Future[Halt | None] = asyncio.get_running_loop().create_future()
    screen.start(lambda: _halt(screen, session, halted), group="act", exclusive=False)
    lines = [
        line(trusted("No console sends on this store until it is resumed.", "danger")),
        line(trusted(f"Orders already on their way are finished. {screen_key(screen, 'halt')} again resumes.")),
    ]
    gate = NoteGate(line(trusted("Halted")), lines, ask="why? (may stay empty)", judge=anything)

    def answered(note: str | None) -> None:
        if note is not None:
            screen.start(lambda: _explain(screen, session, halted, note), group="act", exclusive=False)

    screen.app.push_screen(gate, answered)


def screen_key(screen: FramedScreen, key_id: str) -> str:
    """The key as it is mapped here."""
    return named(key_id, screen.console.setup.keys).shown


async def _halt(screen: ActingScreen, session: StoreSession, halted: asyncio.Future[Halt | None]) -> None:
    """Somebody else's halt, which the frame does not show yet, stays as it is."""
    try:
        before = await session.store.halted()
        if before is None:
            await session.triage.halt("")
        now = await session.store.halted()
    except StoreError:
        halted.set_result(None)
        raise
    halted.set_result(None if before is not None else now)
    screen.console.update_header(halt=now)
    if before is not None:
        screen.warn(f"halted already by {before.operator}: {before.note}")
    else:
        screen.show_notice(line(trusted("halted: no console sends on this store until it is resumed", "danger")))


async def _explain(screen: ActingScreen, session: StoreSession, halted: asyncio.Future[Halt | None], note: str) -> None:
    """Put the note on the halt that was set here, unless it is no longer the one in force."""
    mine = await halted
    if mine is None or await session.store.halted() != mine:
        screen.warn("the note was not kept: the halt was set, or resumed, by somebody else")
        return
    await session.triage.halt(note)
    screen.console.update_header(halt=await session.store.halted())


def _resume(screen: ActingScreen, session: StoreSession, halt: Halt) -> None:
    lines = [line(untrusted(_halted(halt, screen.console.now()), limit=400))]
    gate = WordGate(line(trusted("Resume replays")), lines, ask="why resume now", judge=a_note)

    async def act(note: str) -> None:
        resumed = await session.resume(note)
        screen.console.update_header(halt=await session.store.halted())
        if resumed.outcome == "needs-second" and resumed.halt is not None:
            plan, key = resume_hash(resumed.halt), screen_key(screen, "approve")
            screen.queue_asks(plan, "resume", f"{screen_key(screen, 'halt')} again resumes")
            screen.warn(
                f"two resume a live store: dlq approve {plan}, or {key} there; then {screen_key(screen, 'halt')}. "
                f"{ALONE}"
            )
        elif resumed.outcome == "not-halted":
            screen.warn("somebody has resumed this store already")
        else:
            screen.console.queue.people.forget("resume approved")
            screen.show_notice(line(trusted("resumed", "good")))

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.start(lambda: act(answer), group="act", exclusive=False)

    screen.app.push_screen(gate, answered)


def _halted(halt: Halt, now: datetime) -> str:
    since = parse_time(halt.since)
    ago = f", {long_age(since, now)} ago" if since else ""
    why = f": {halt.note}" if halt.note else ", without a note"
    return f"Halted at {moment(halt.since)}{ago}, by {halt.operator}{why}"


def mode(screen: ActingScreen) -> None:
    session = screen.console.session
    is_real = session is not None and not session.has_modes
    if screen.console.mode == "live":
        screen.console.set_mode("paper")
        told = "PAPER: gates ask for the number alone; replays are real here all the same"
        screen.show_notice(
            line(trusted(told if is_real else "PAPER: replays go to the venue's paper environment", "good"))
        )
        return
    if not screen.console.setup.live_allowed:
        screen.warn("LIVE is not allowed in this browser: start it with dlq serve --allow-live")
        return
    texts = (
        "In LIVE a replay sends real orders: its gate asks for the word and the number, and an override "
        "needs a second person.",
        "Nothing else changes: dismiss and restore never send; reconcile asks in each attempt's own mode.",
    )
    if is_real:
        texts = (
            "Replays are real here in PAPER too: nothing is rehearsed.",
            "LIVE makes the gate ask for the word as well.",
        )
    lines = [line(trusted(text)) for text in texts]
    gate = WordGate(line(trusted("Switch to LIVE")), lines, ask="type live", judge=exactly("live"), live=True)

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.console.set_mode("live")

    screen.app.push_screen(gate, answered)
