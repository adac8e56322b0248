"""The replay gate of entries that are no orders: what goes where, then its number (in live the word and the number).

Making the plan has no side effect; only the right answer lets it out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from textual import events

from backends.store import StoreError
from console.render.line import Line, line, trusted, untrusted
from console.render.resend_plan import handover_lines
from console.render.value import many
from console.screens.gates.gate import Gate

if TYPE_CHECKING:
    from console.services.resend.plan import ResendPlan

Planner = Callable[[], Awaitable["ResendPlan"]]


class HandoverGate(Gate["ResendPlan"]):
    def __init__(self, count: int, *, mode: str, plan: Planner) -> None:
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
