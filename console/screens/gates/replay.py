"""The replay gate: the plan, then its number (in live the word and the number). Overrides and four eyes are asked here.

Making the plan has no side effect; only the right answer, and a second person's word where it is needed, let it out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from textual import events

from backends.store import StoreError
from console.render.line import Line, line, trusted, untrusted
from console.render.plan import handover_lines, plan_lines
from console.render.value import many
from console.screens.gates.gate import Gate

if TYPE_CHECKING:
    from console.services.replay.plan import ReplayPlan
    from console.services.resend.plan import ResendPlan


_CLOSED = ("planning", "leaving", "stuck")
Planner = Callable[[frozenset[str]], Awaitable["ReplayPlan"]]
Approval = Callable[["ReplayPlan"], Awaitable[bool]]


class Confirmed(NamedTuple):
    plan: ReplayPlan
    note: str | None


class ReplayGate(Gate[Confirmed]):
    def __init__(self, count: int, *, mode: str, plan: Planner, approved: Approval) -> None:
        title = line(trusted(f"Replay {many(count, 'entry')} · {mode.upper()}"))
        super().__init__(title, live=mode == "live")
        self._mode = mode
        self._planner = plan
        self._approved = approved
        self._plan: ReplayPlan | None = None
        self._step: Literal["planning", "answer", "override", "why", "leaving", "stuck"] = "planning"
        self._overrides: frozenset[str] = frozenset()
        self._wanted: frozenset[str] = frozenset()
        self._note: str | None = None

    def begin(self) -> None:
        self.put([line(trusted("planning: asking the store and the venue; nothing is sent …", "dim"))])
        self.run_worker(self._make(), group="plan", exclusive=True)

    async def _make(self) -> None:
        self._step = "planning"
        try:
            self._plan = await self._planner(self._overrides)
        except StoreError as problem:
            self._step = "stuck"
            self.put([line(trusted("no plan could be made", "danger")), line(untrusted(str(problem), limit=500))])
            return
        self._step = "answer" if self._plan.steps else "stuck"
        self.put(plan_lines(self._plan, rows=max(3, (self.app.size.height - 20) // 2)))

    @property
    def _expected(self) -> str:
        count = len(self._plan.steps) if self._plan else 0
        return f"live {count}" if self._mode == "live" else str(count)

    def prompt(self) -> Line:
        match self._step:
            case "planning":
                return ()
            case "leaving":
                return line(trusted("asking whether it may go …"))
            case "answer":
                return line(trusted("type "), trusted(self._expected, "strong"), trusted(f" to send{self._way_out()}:"))
            case "override":
                return line(trusted("override which guards (names with spaces between):"))
            case "why":
                return line(trusted("why? it goes on record:"))
            case "stuck":
                return line(trusted(f"nothing to send{self._way_out()}; esc goes back"))

    def _way_out(self) -> str:
        return ", ctrl+o to override a guard" if self._overridable() else ""

    def _overridable(self) -> frozenset[str]:
        if self._plan is None:
            return frozenset()
        return frozenset(guard.code for one in self._plan.blocked for guard in one.guards if guard.overridable)

    def took(self, event: events.Key) -> None:
        if event.key == "ctrl+o" and self._step in ("answer", "stuck") and self._overridable():
            self._step, self.typed = "override", ""
            self.say(line(trusted(f"possible here: {' '.join(sorted(self._overridable()))}", "dim")))
            self._paint()
        elif self._step not in _CLOSED:
            super().took(event)

    def _enter(self, *, flooded: bool) -> None:
        if self._step == "stuck":
            self.wrong("there is nothing to send")
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
        plan = self._plan
        assert plan is not None  # it was shown, and its number typed
        try:
            approved = await self._approved(plan)
        except StoreError as problem:
            self._step = "answer"
            self.wrong(str(problem))
            return
        if approved:
            self.dismiss(Confirmed(plan, self._note))
            return
        self._step = "answer"
        self.wrong(f"It waits for a second person: dlq approve {plan.hash}, or P in their console. Then type it again.")


ResendPlanner = Callable[[], Awaitable["ResendPlan"]]


class HandoverGate(Gate["ResendPlan"]):
    def __init__(self, count: int, *, mode: str, plan: ResendPlanner) -> None:
        live = mode == "live"
        super().__init__(line(trusted(f"Replay {many(count, 'entry')} · {'LIVE' if live else 'REAL'}")), live=live)
        self._is_live_mode = live
        self._planner = plan
        self._plan: ResendPlan | None = None
        self._step: Literal["planning", "answer", "stuck"] = "planning"

    def begin(self) -> None:
        self.put([line(trusted("planning: asking the store; nothing is sent …", "dim"))])
        self.run_worker(self._make(), group="plan", exclusive=True)

    async def _make(self) -> None:
        try:
            self._plan = await self._planner()
        except StoreError as problem:
            self._step = "stuck"
            self.put([line(trusted("nothing can be sent", "danger")), line(untrusted(str(problem), limit=500))])
            return
        self._step = "answer" if self._plan.going else "stuck"
        self.put(handover_lines(self._plan, rows=max(3, (self.app.size.height - 20) // 2)))

    @property
    def _expected(self) -> str:
        count = len(self._plan.going) if self._plan else 0
        return f"live {count}" if self._is_live_mode else str(count)

    def prompt(self) -> Line:
        match self._step:
            case "planning":
                return ()
            case "answer":
                return line(trusted("type "), trusted(self._expected, "strong"), trusted(" to send again:"))
            case "stuck":
                return line(trusted("nothing to send; esc goes back"))

    def took(self, event: events.Key) -> None:
        if self._step == "answer":
            super().took(event)

    def _enter(self, *, flooded: bool) -> None:
        if self._step == "stuck":
            self.wrong("there is nothing to send")
        elif self._step == "answer":
            super()._enter(flooded=flooded)

    def entered(self, text: str) -> None:
        if self._plan is None or text != self._expected:
            self.wrong(f"that is not {self._expected}")
        else:
            self.dismiss(self._plan)
