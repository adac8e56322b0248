"""The replay gate: shows the plan, then asks for its number (in live the word and the number).

Overrides and the second person are asked for here. Only the right answer lets a plan out; the gate sends nothing.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from textual import events
from textual.content import Content

from backends.store import StoreError
from console.render.line import Line, line, trusted, untrusted
from console.render.plan import Entries, PageRow, changed_ids, renewed_lines, send_page
from console.render.value import many
from console.screens.gates.page import PageGate
from console.services.triage.own_approval import ALONE

if TYPE_CHECKING:
    from console.services.replay.outcome import EntryOutcome
    from console.services.replay.target import Renewal, SendPlan


_TICK_SECONDS = 1.0
_CLOSED = ("planning", "leaving", "stuck")
_SMALL = 30  # rows of a terminal; below, one order to be sent stands above those that stay
Planner = Callable[[frozenset[str]], Awaitable["SendPlan"]]


class PlanSteps(NamedTuple):
    """What the gate asks of the session."""

    make: Planner
    renewed: Callable[[SendPlan, frozenset[str]], Awaitable[Renewal]]
    seconds_left: Callable[[SendPlan], float | None]  # None: it does not grow old
    is_approved: Callable[[SendPlan], Awaitable[bool]]
    approver: Callable[[SendPlan], Awaitable[str | None]]  # who has agreed; asks nobody
    asked: Callable[[SendPlan], None]  # it waits for a second person now
    take_back: Callable[[str], Awaitable[bool]]  # what waits under this hash
    refuse_held: Callable[[SendPlan], Awaitable[None]]
    entries: Callable[[SendPlan], Awaitable[Entries]]  # what the plan speaks of, as stored


class Confirmed(NamedTuple):
    plan: SendPlan
    note: str | None
    lost: tuple[EntryOutcome, ...] = ()  # what the plan that was shown first would have sent besides


class _Words(NamedTuple):
    asked: str
    no_plan: str
    send: str


_ORDER_WORDS = _Words("the store and the venue", "no plan could be made", "to send")
_RESEND_WORDS = _Words("the store", "nothing can be sent", "to send again")


class ReplayGate(PageGate[Confirmed]):
    def __init__(self, count: int, *, mode: str, has_modes: bool, steps: PlanSteps) -> None:
        shown = "REAL" if mode == "paper" and not has_modes else mode.upper()
        super().__init__(line(trusted(f"Replay {many(count, 'entry')} · {shown}")), live=mode == "live")
        self._mode = mode
        self._words = _ORDER_WORDS if has_modes else _RESEND_WORDS
        self._steps = steps
        self._plan: SendPlan | None = None
        self._entries: Entries = {}
        self._step: Literal["planning", "answer", "override", "why", "leaving", "stuck"] = "planning"
        self._overrides: frozenset[str] = frozenset()
        self._wanted: frozenset[str] = frozenset()
        self._note: str | None = None
        self._lost: tuple[EntryOutcome, ...] = ()
        self._life = ""
        self._asked = ""  # the hash under which the plan waits for a second person

    def begin(self) -> None:
        self.set_interval(_TICK_SECONDS, self._show_life)
        self.put([line(trusted(f"planning: asking {self._words.asked}; nothing is sent …", "dim"))])
        self.run_worker(self._make(), group="plan", exclusive=True)

    async def _make(self) -> None:
        self._step = "planning"
        try:
            self._plan = await self._steps.make(self._overrides)
            self._entries = await self._steps.entries(self._plan)
        except StoreError as problem:
            self._step = "stuck"
            self.say(())
            self.put([line(trusted(self._words.no_plan, "danger")), line(untrusted(str(problem), limit=500))])
            return
        self.say(())
        await self._show(self._plan)

    async def _show(self, plan: SendPlan, above: Sequence[Line] = (), changed: frozenset[str] = frozenset()) -> None:
        """Show the plan and ask for its number, whatever was typed before."""
        self.put_page([*map(PageRow, above), *self._page(plan, changed)])
        self._step = "answer" if plan.count else "stuck"
        self._paint()
        self._show_life()
        if not plan.count:
            await self._record(plan)

    def _page(self, plan: SendPlan, changed: frozenset[str] = frozenset()) -> list[PageRow]:
        height = self.app.size.height
        rows = 1 if height < _SMALL else max(3, (height - 20) // 2)
        return send_page(plan, self._entries, rows=rows, changed=changed)

    def row_lines(self, entry_id: str) -> Sequence[Line]:
        from console.render.gates.plan_row import row_lines

        assert self._plan is not None  # its row was chosen
        return row_lines(self._plan, entry_id, self._entries.get(entry_id), self.console.now())

    def _show_life(self) -> None:
        """Show on the edge how long the plan may still wait; painted only where that changed."""
        left = self._steps.seconds_left(self._plan) if self._plan is not None and self._plan.count else None
        if left is None or self._plan is None:
            life = ""
        elif left > 0:
            minutes, seconds = divmod(math.ceil(left), 60)
            life = f"plan {self._plan.hash[:4]} · {minutes:d}:{seconds:02d} left · "
        else:
            life = f"plan {self._plan.hash[:4]} too old: it will be made again · "
        if life != self._life:
            self._life = life
            self._box.border_subtitle = Content(f" {life}esc cancels ")

    async def _record(self, plan: SendPlan) -> None:
        try:
            await self._steps.refuse_held(plan)
        except StoreError as problem:
            self.wrong(str(problem))

    @property
    def _expected(self) -> str:
        count = self._plan.count if self._plan else 0
        return f"live {count}" if self._mode == "live" else str(count)

    def prompt(self) -> Line:
        match self._step:
            case "planning":
                return ()
            case "leaving":
                return line(trusted("asking whether it may go …"))
            case "answer":
                return line(
                    trusted("type "),
                    trusted(self._expected, "strong"),
                    trusted(f" {self._words.send}{self._way_out()}:"),
                )
            case "override":
                return line(trusted("override which guards? (names, with blanks between):"))
            case "why":
                return line(trusted("why? it goes on record:"))
            case "stuck":
                return line(trusted(f"nothing to send{self._way_out()}; esc goes back"))

    def _way_out(self) -> str:
        return ", ctrl+o to override a guard" if self._overridable() else ""

    def _overridable(self) -> frozenset[str]:
        if self._plan is None:
            return frozenset()
        return self._plan.overridable

    def took(self, event: events.Key) -> None:
        if event.key == "ctrl+o" and self._step in ("answer", "stuck") and self._overridable():
            self._step, self.typed = "override", ""
            self.say(line(trusted(f"you may override: {' '.join(sorted(self._overridable()))}", "dim")))
            self._paint()
        elif event.key == "ctrl+x" and self._asked and self._step == "answer":
            self.run_worker(self._take_back(self._asked), group="approver", exclusive=True)
        elif self._step not in _CLOSED:
            super().took(event)

    async def _take_back(self, plan_hash: str) -> None:
        try:
            done = await self._steps.take_back(plan_hash)
        except StoreError as problem:
            self.wrong(str(problem))
            return
        self._asked = ""
        self.wrong("withdrawn: nobody can approve it now" if done else "it no longer waits")

    def may_open(self) -> bool:
        return self._step in ("answer", "stuck")

    def _enter(self, *, flooded: bool) -> None:
        if self.opens_row():
            return
        if self._step == "stuck":
            self.wrong("there is nothing to send; ↓ picks a row, Enter opens it")
        elif self._step not in _CLOSED:
            super()._enter(flooded=flooded)

    def entered(self, text: str) -> None:
        match self._step:
            case "override":
                self._choose(text)
            case "why":
                self._note, self._overrides = text, self._wanted
                self.say(line(trusted("planning anew …", "dim")))
                self.run_worker(self._make(), group="plan", exclusive=True)
            case _ if text == self._expected:
                self._step, self.typed = "leaving", ""
                self._paint()
                self.run_worker(self._let_out(), group="approval", exclusive=True)
            case _:
                self.wrong(f"that is not {self._expected}")

    def _choose(self, text: str) -> None:
        wanted = frozenset(text.replace(",", " ").split())
        if unknown := sorted(wanted - self._overridable()):
            self.wrong(f"{unknown[0]} cannot be overridden here; {' '.join(sorted(self._overridable()))} can")
            return
        self._wanted, self._step, self.typed = wanted | self._overrides, "why", ""
        self.say(())
        self._paint()

    async def _let_out(self) -> None:
        shown = self._plan
        assert shown is not None  # its number was typed
        try:
            plan = await self._renewed(shown)
            if plan is None:
                return
            approved = await self._steps.is_approved(plan)
        except StoreError as problem:
            self._step = "answer"
            self.wrong(str(problem))
            return
        if approved:
            self.dismiss(Confirmed(plan, self._note, self._lost))
            return
        self._step, self._asked = "answer", plan.hash
        self._steps.asked(plan)
        key = self.key("approve")
        self.wrong(
            f"Waiting for a second person: {key} in their console, or dlq approve {plan.hash}. Then type it again; "
            f"ctrl+x withdraws it. {ALONE}"
        )

    def store_changed(self) -> None:
        """See whether the second person has agreed meanwhile; reads only, and only while it waits for them."""
        if self._asked and self._step == "answer":
            self.run_worker(self._look_for_approval(), group="approver", exclusive=True)

    async def _look_for_approval(self) -> None:
        plan = self._plan
        if plan is None:
            return
        try:
            who = await self._steps.approver(plan)
        except StoreError:
            return  # the frame says that the store is lost
        if who is not None and self._asked:
            self._asked = ""
            self.say(line(untrusted(f"approved by {who}: type {self._expected} to send", "good", limit=200)))

    async def _renewed(self, shown: SendPlan) -> SendPlan | None:
        """The plan that goes; None where it is another one now, which is shown and must be confirmed anew."""
        renewal = await self._steps.renewed(shown, self._overrides)
        plan = self._plan = renewal.plan
        if plan is shown:
            return plan
        self._entries = await self._steps.entries(plan)
        above, changed = renewed_lines(shown, renewal), changed_ids(shown, plan)
        if renewal.is_same and plan.count:
            self._lost += renewal.lost
            self.put_page([*map(PageRow, above), *self._page(plan)], keep_place=True)
            self._show_life()
            return plan
        self.say(())
        await self._show(plan, above, changed)
        return None
