"""Dismiss, undo, restore and note: acts that need no venue. All but undo open a gate first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from console.render.gates.dismissal import DismissalStake
from console.render.line import line, trusted
from console.render.value import many
from console.screens.action_screen import HELD, SAMPLE, ActingScreen, Picks, sample, selection_of
from console.screens.gates.dismiss import Dismissal, DismissGate, DismissRows, Tell, is_undone, surplus_rows
from console.screens.gates.prompts import WordGate, a_note, exactly
from console.services.session import Chosen, StoreSession
from console.services.triage.triage import Done
from console.settings.reasons import reasons_for
from console.text.untrusted import safe

_WEIGHED = 1000  # entries that are read at once to add them up
_TELL_FROM = 5000  # from so many on the gate says how far that is
_AT_STAKE = 2  # lines of the gate that say what is at stake


def dismiss(screen: ActingScreen) -> None:
    session, picks = screen.attached_session(), screen.picks()
    if session is None or not picks:
        return
    held = [entry_id for entry_id, pick in picks.items() if pick.state in HELD]
    settled = [entry_id for entry_id, pick in picks.items() if pick.state in ("dismissed", "replayed")]
    free = {entry_id: pick for entry_id, pick in picks.items() if pick.state == "pending"}
    if not free:
        ask = screen.console.name_of_key("reconcile")
        what = (
            f"in doubt: reconcile ({ask}) first, dismissing would lose it"
            if held
            else "it is dismissed or replayed already"
        )
        screen.warn(what)
        screen.start(lambda: _refuse(session, _chosen(picks)), group="act", exclusive=False)
        return
    reasons = reasons_for(session.store.info.layout, screen.console.setup.config.reasons)
    lines = (
        []
        if surplus_rows(reasons)
        else sample(screen, list(free), most=SAMPLE - _AT_STAKE - bool(held) - bool(settled))
    )
    if held:
        lines.append(line(trusted(f" left out: {many(len(held), 'entry')} in doubt or in flight", "warning")))
    if settled:
        lines.append(line(trusted(f" left out: {many(len(settled), 'entry')} dismissed or replayed already", "dim")))
    live = screen.console.header_state.mode == "live"
    rows = DismissRows(_row(session), session.setting.store.is_hub)
    weigh = _weighing(screen, session, tuple(free))
    gate = DismissGate(len(free), reasons, sample=lines, live=live, weigh=weigh, rows=rows)

    def answered(answer: Dismissal | None) -> None:
        if answer is not None:
            screen.start(lambda: _dismiss(screen, session, _chosen(picks), answer), group="act", exclusive=False)

    screen.app.push_screen(gate, answered)


def _weighing(
    screen: ActingScreen, session: StoreSession, ids: tuple[str, ...]
) -> Callable[[Tell], Awaitable[DismissalStake | None]]:
    """What the gate calls to add up these entries: those on the screen at once, the others read in steps."""
    types = {name: venue.type for name, venue in screen.console.setup.config.venues.items() if venue.type}

    async def weigh(tell: Tell) -> DismissalStake | None:
        stake = DismissalStake()
        known = {one: entry for one in ids if (entry := screen.known(one)) is not None and not entry.clipped}
        stake.add(known.values(), types)
        rest = [one for one in ids if one not in known]
        if rest and session.setting.store.is_hub:
            return None  # a request to the hub for each of them
        for start in range(0, len(rest), _WEIGHED):
            found = await session.store.many(tuple(rest[start : start + _WEIGHED]))
            stake.add(found.values(), types)
            if len(rest) > _TELL_FROM:
                tell(stake)
        return stake

    return weigh


def _chosen(picks: Picks) -> list[Chosen]:
    return [Chosen(entry_id, pick.version, pick.state) for entry_id, pick in picks.items()]


async def _refuse(session: StoreSession, chosen: list[Chosen]) -> None:
    await session.refuse_dismissal(chosen)


async def _dismiss(screen: ActingScreen, session: StoreSession, chosen: list[Chosen], answer: Dismissal) -> None:
    stop = screen.console.name_of_key("stop")
    with screen.console.activity.acting() as act:

        def progress(done: int, total: int) -> None:
            if total > 1000:
                screen.show_notice(line(trusted(f"dismissing {done:,} of {total:,}; {stop} stops", "accent")))

        report = await session.dismiss(
            chosen, reason=answer.reason, note=answer.note, progress=progress, stop=act.is_stopped
        )
    if is_undone(_row(session)):
        _report(screen, "dismissed", report.done, hint=f"{screen.console.name_of_key('undo')} undoes it")
    else:
        _report(screen, "dismissed", report.done, why=next((text for _, text in report.done.changed), ""))


def _row(session: StoreSession) -> str:
    """What a dismissal does to the rows of this store; those of an order stay."""
    return "keep" if session.has_modes else session.setting.store.options.on_dismiss


def _report(
    screen: ActingScreen, word: str, report: Done, *, hint: str = "", live: Collection[str] = frozenset(), why: str = ""
) -> None:
    """Say what was done and what was not; `live`: these stay because an order of theirs stands in live.

    `why`: the reason of the first that was left, where it is not that somebody changed it.
    """
    screen.acted()
    parts = [trusted(f"{len(report.done):,} {word}", "good")]
    if live:
        who = f"{safe(next(iter(live)), 60)} is" if len(live) == 1 else f"{len(live):,} are"
        parts.append(trusted(f", {who} replayed in live and {'stays' if len(live) == 1 else 'stay'} so", "warning"))
    if changed := len(report.changed) - len(live):
        were = "was" if changed == 1 else "were"
        left = f"{were} left: {safe(why, 160)}" if why else f"had changed and {were} left alone"
        parts.append(trusted(f", {changed:,} {left}", "warning"))
    if report.stopped:
        parts.append(trusted(", stopped before the rest", "warning"))
    screen.show_notice(line(*parts, trusted(f"   {hint}" if report.done and hint else "", "dim")))


def undo(screen: ActingScreen) -> None:
    session = screen.attached_session()
    if session is not None:
        screen.start(lambda: _undo(screen, session), group="act", exclusive=False)


async def _undo(screen: ActingScreen, session: StoreSession) -> None:
    with screen.console.activity.acting():
        report = await session.triage.undo()
    if report is None:
        screen.warn("nothing to undo: nothing was dismissed here")
    else:
        _report(screen, "restored", report)


def restore(screen: ActingScreen) -> None:
    session = screen.attached_session()
    if session is None:
        return
    states = ("dismissed", "replayed") if session.has_modes else ("dismissed",)
    chosen = {entry_id: pick for entry_id, pick in screen.picks().items() if pick.state in states}
    if not chosen:
        pending = [entry_id for entry_id, pick in screen.picks().items() if pick.state == "pending"]
        screen.start(lambda: _clear_poison(screen, session, pending), group="act", exclusive=False)
        return
    who = "It is" if len(chosen) == 1 else "They are"
    lines = [*sample(screen, list(chosen)), (), line(trusted(f"{who} pending again; nothing is sent.", "dim"))]
    if any(pick.state == "replayed" for pick in chosen.values()):
        lines.append(line(trusted("A paper order stays at the venue; what was replayed in live stays so.", "dim")))
    title = line(trusted(f"Restore {many(len(chosen), 'entry')}"))
    gate = WordGate(title, lines, ask=f"type {len(chosen)} to restore", judge=exactly(str(len(chosen))))

    async def restore() -> None:
        with screen.console.activity.acting():
            report = await session.triage.restore(selection_of(chosen))
        live = [one for one, now in report.changed if now == chosen[one].state == "replayed"]
        _report(screen, "restored", report, live=live)

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.start(restore, group="act", exclusive=False)

    screen.app.push_screen(gate, answered)


async def _clear_poison(screen: ActingScreen, session: StoreSession, pending: list[str]) -> None:
    """Ask for the note with which what failed no longer counts."""
    entries, _ = await session.triage.chosen(tuple(pending))
    bad = await session.triage.poisoned(list(entries.values()))
    if not bad:
        what = "dismissed, replayed in paper, or poisoned" if session.has_modes else "dismissed or poisoned"
        screen.warn(f"nothing to restore here: only what is {what}")
        return
    ids = tuple(bad)
    lines = [*sample(screen, list(ids)), (), line(trusted("What failed until now no longer counts.", "dim"))]
    title = line(trusted(f"Clear the poison of {many(len(ids), 'entry')}"))

    async def clear(text: str) -> None:
        with screen.console.activity.acting():
            report = await session.triage.clear(ids, note=text)
        _report(screen, "cleared", report)

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.start(lambda: clear(answer), group="act", exclusive=False)

    screen.app.push_screen(WordGate(title, lines, ask="say why", judge=a_note), answered)


def note(screen: ActingScreen) -> None:
    session, picks = screen.attached_session(), screen.picks()
    if session is None or not picks:
        return
    ids = list(picks)
    gate = WordGate(line(trusted(f"Note on {many(len(ids), 'entry')}")), sample(screen, ids), ask="note", judge=a_note)

    async def write(text: str) -> None:
        for entry_id in ids:
            await session.triage.note(entry_id, text)
        screen.acted()
        screen.show_notice(line(trusted("noted", "good")))

    def answered(answer: str | None) -> None:
        if answer is not None:
            screen.start(lambda: write(answer), group="act", exclusive=False)

    if len(ids) > 100:
        screen.warn("a note goes on 100 entries at most")
    else:
        screen.app.push_screen(gate, answered)
