"""What became of an order: C asks the venue, and reconciles what is in doubt; S settles by what a person saw.

Nothing here sends. What settles runs to its end when its gate or panel is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from backends.records import Attempt, Entry
from backends.store import StoreError
from console.render.batch import REAL
from console.render.evidence.settlement import SettleDraft
from console.render.evidence.venue_answer import answer_lines
from console.render.line import Line, line, trusted, untrusted
from console.render.value import many, order
from console.screens.action_screen import ActingScreen, new_run
from console.screens.evidence.answer import AnswerDialog
from console.screens.gates.settle import SettleGate, SettleSteps
from console.services.layout_fields import LAYOUTS
from console.services.session import Mode, StoreSession
from console.services.triage.own_approval import ALONE

if TYPE_CHECKING:
    from console.services.evidence.ask import VenueAnswer
    from console.services.evidence.settle import SettleReport

MOST = 50  # entries that are asked about at once
_NOBODY = "nothing is in doubt, and nobody can be asked about a"
_OWNED = "in flight: its owner may still be sending it; wait, then open this again"
_UNWRITTEN = "Nothing was written: no entry and no order changed."
_NOT_IN_DOUBT = "not in doubt: there is nothing to settle"


def ask(screen: ActingScreen) -> None:
    """Opens its panel at once, which looks what is in doubt: that is reconciled; else the venue is asked."""
    session, ids = screen.attached_session(), tuple(screen.picks())
    if session is None or not ids or screen.is_busy():
        return

    async def find(say: Callable[[str], None]) -> Sequence[Line] | None:
        attempts = await session.open_attempts(ids, screen.console.mode)
        if len(ids) == 1 == len(attempts) and session.has_modes:
            (answer,) = await session.ask(ids, _mode_of(attempts[0])) or (None,)
            if answer is not None and answer.answer == "found" and answer.equal is False:
                return _one(screen, answer)  # reconciling settles no conflict
        if attempts:
            _reconcile(screen, session, attempts, left=len(ids) - len(_entries_of(attempts)))
            return None
        return await _answers(screen, session, ids, say)

    word = "What the venue says of" if session.has_modes else "What is known of"
    title = line(trusted(f"{word} {many(len(ids), 'entry')} · {_mode_word(screen, session)}"))
    screen.app.push_screen(AnswerDialog(title, find, dead_seconds=screen.console.setup.dead_seconds))


def _mode_of(attempt: Attempt) -> Mode:
    return "live" if attempt.mode == "live" else "paper"


def _one(screen: ActingScreen, answer: VenueAnswer) -> list[Line]:
    entry = screen.known(answer.entry_id)
    lines = answer_lines([answer], [_order(entry)], [entry.state if entry else "in_doubt"], screen.console.key_names)
    key = screen.console.name_of_key("settle")
    step = line(trusted("→ ", "accent"), trusted(f"esc, then {key} settles it by what you saw at the venue"))
    return [*lines, (), step, line(trusted(_UNWRITTEN, "dim"))]


def _mode_word(screen: ActingScreen, session: StoreSession) -> str:
    return screen.console.mode.upper() if session.has_modes else REAL.upper()


def _reconcile(screen: ActingScreen, session: StoreSession, attempts: Sequence[Attempt], *, left: int) -> None:
    modes = "/".join(sorted({one.mode for one in attempts})) if session.has_modes else REAL
    first: Mode = screen.console.mode
    work = session.reconcile_work(_entries_of(attempts), (first, "live" if first == "paper" else "paper"))
    screen.app.call_later(screen.console.begin, new_run("reconcile", modes, len(attempts), work))
    screen.acted()
    if left:
        hint = f": {screen.console.name_of_key('reconcile')} on them asks the venue" if session.has_modes else ""
        screen.warn(f"{many(left, 'entry')} not in doubt left out{hint}")


def _entries_of(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.entry_id for one in attempts))


async def _answers(
    screen: ActingScreen, session: StoreSession, ids: tuple[str, ...], say: Callable[[str], None]
) -> Sequence[Line]:
    if not session.has_modes:
        one = LAYOUTS[session.store.info.layout].words.one
        return [line(trusted(f"{_NOBODY} {one}", "warning"))]
    asked = ids[:MOST]
    say(f"asking the venue about {many(len(asked), 'entry')}; nothing is written; esc cancels …")
    answers = await session.ask(asked, screen.console.mode)
    if not answers:
        return [line(trusted("gone: the store no longer has it", "warning"))]
    known = [screen.known(one.entry_id) for one in answers]
    states = [one.state if one else "" for one in known]
    lines = answer_lines(answers, [_order(one) for one in known], states, screen.console.key_names)
    if len(ids) > MOST:
        lines = [line(trusted(f"only the first {MOST} of {len(ids):,} were asked about", "warning")), (), *lines]
    return [*lines, (), line(trusted(_UNWRITTEN, "dim"))]


def _order(entry: Entry | None) -> str:
    return order(entry) if entry else ""


def settle(screen: ActingScreen) -> None:
    """A gate on the entry under the cursor, whatever is marked."""
    session, shown = screen.attached_session(), screen.current()
    if session is None or shown is None:
        return
    entry, drafts = shown.row.entry, screen.console.settle_drafts

    def hand_in(attempt: Attempt, draft: SettleDraft) -> None:
        screen.start(lambda: _settle(screen, session, gate, attempt, draft), group="act", exclusive=False)

    steps = SettleSteps(
        lambda: _open_attempt(session, entry.id, screen.console.mode),
        lambda attempt: drafts.get(_key(attempt), SettleDraft()),
        hand_in,
    )
    gate = SettleGate(entry, steps)
    screen.app.push_screen(gate, lambda report: None if report is None else _settled(screen, session, report))


def _key(attempt: Attempt) -> tuple[str, str, int]:
    return attempt.entry_id, attempt.mode, attempt.attempt_no


async def _open_attempt(session: StoreSession, entry_id: str, mode: Mode) -> Attempt | str:
    """The attempt that a settlement would take, the live one first; or why there is none."""
    opened = await session.open_attempts((entry_id,), mode)
    if not opened:
        return _NOT_IN_DOUBT
    attempt = min(opened, key=lambda one: (one.mode != "live", one.rehearsal, -one.attempt_no))
    now = (await session.store.clock()).timestamp()
    return _OWNED if attempt.outcome is None and attempt.lease_until > now else attempt


async def _settle(
    screen: ActingScreen, session: StoreSession, gate: SettleGate, attempt: Attempt, draft: SettleDraft
) -> None:
    """Runs on the screen below, so that closing the gate neither stops it nor loses what became of it."""
    from console.services.evidence.settle import SettleRequest

    assert draft.claimed is not None  # the gate hands nothing in without it
    request = SettleRequest(attempt.entry_id, draft.claimed, draft.note, draft.order or None, attempt.mode)
    drafts = screen.console.settle_drafts
    try:
        report = await session.settle(request)
    except StoreError as problem:
        if not gate.is_current:
            raise
        gate.failed(str(problem))
        return
    if report.plan is not None:
        drafts[_key(attempt)] = draft
        again = f"{screen.console.name_of_key('settle')} again, then type settle"
        screen.queue_asks(report.plan, f"settling {attempt.entry_id}", again)
    else:
        drafts.pop(_key(attempt), None)
        screen.console.queue.people.forget(f"settling {attempt.entry_id} approved")
    if gate.is_current:
        gate.told(report)
    else:
        _settled(screen, session, report)


def _settled(screen: ActingScreen, session: StoreSession, report: SettleReport) -> None:
    screen.acted()
    ended, name = report.ended, untrusted(f"{report.ended.entry_id} ", limit=60)
    if report.plan is not None:
        approve, again = map(screen.console.name_of_key, ("approve", "settle"))
        how = f"dlq approve {report.plan}, or {approve} in their console; then {again} again"
        screen.warn(f"{ended.entry_id} waits: {how}. {ALONE}")
    elif not report.is_done:
        screen.warn(f"{ended.entry_id} was not settled: {ended.detail}")
    elif ended.outcome == "accepted":
        at = f", order {ended.venue_order_id}" if ended.venue_order_id else ""
        screen.show_notice(line(trusted("settled: ", "good"), name, untrusted(f"was accepted{at}", limit=120)))
    else:
        absent = "is absent at the venue" if session.has_modes else "did not arrive: it is pending again"
        screen.show_notice(line(trusted("settled: ", "good"), name, trusted(absent)))
