"""The approve gate: every order as the asker saw it, read-only, then the typed words. Signs nothing itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from textual import events
from textual.content import Content

from backends.store import StoreError
from console.render.gates.waiting import left_text, plan_noun, waiting_page, waiting_row_lines
from console.render.line import Line, line, trusted, untrusted
from console.screens.gates.page import PageGate

if TYPE_CHECKING:
    from console.services.triage.approvals import WaitingPlan

_TICK_SECONDS = 1.0


class ApproveSteps(NamedTuple):
    """What the gate asks of its screen."""

    sign: Callable[[str], Awaitable[str | None]]  # why it was not approved; None where it was
    standing: Callable[[str], Awaitable[str | None]]  # why it no longer waits; None where it does


class ApproveGate(PageGate[str]):
    """Returns the hash of the plan that was approved."""

    def __init__(self, plan: WaitingPlan, steps: ApproveSteps) -> None:
        live = plan.mode == "live" or plan.kind == "resume"
        mode = f" · {plan.mode.upper()}" if plan.mode else ""
        super().__init__(line(untrusted(f"Approve a {plan_noun(plan)} of {plan.asked_by}{mode}", limit=80)), live=live)
        self._asked = plan
        self._steps = steps
        self._step: Literal["answer", "signing", "stuck"] = "answer"
        self._life = ""

    def begin(self) -> None:
        self.set_interval(_TICK_SECONDS, self._show_life)
        self.put_page(waiting_page(self._asked, self.console.now()))
        self._show_life()

    def _show_life(self) -> None:
        life = left_text(self._asked, self.console.now())
        if life != self._life:
            self._life = life
            self._box.border_subtitle = Content(f" {life} · esc cancels ")

    def row_lines(self, entry_id: str) -> Sequence[Line]:
        return waiting_row_lines(self._asked, entry_id)

    def prompt(self) -> Line:
        match self._step:
            case "answer":
                return line(
                    trusted("type "), trusted(self._asked.word, "strong"), trusted(" to sign it with your name:")
                )
            case "signing":
                return line(trusted("signing …"))
            case "stuck":
                return line(trusted("nothing to approve; esc goes back"))

    def took(self, event: events.Key) -> None:
        if self._step == "answer":
            super().took(event)

    def _enter(self, *, flooded: bool) -> None:
        if self._step != "signing" and self.opens_row():
            return
        if self._step == "answer":
            super()._enter(flooded=flooded)

    def entered(self, text: str) -> None:
        if text != self._asked.word:
            self.wrong(f"that is not {self._asked.word}")
            return
        self._step, self.typed = "signing", ""
        self._paint()
        self.run_worker(self._sign(), group="approval", exclusive=True)

    async def _sign(self) -> None:
        try:
            refused = await self._steps.sign(self._asked.plan)
        except StoreError as problem:
            refused = str(problem)
        if refused is None:
            self.dismiss(self._asked.plan)
            return
        self._step = "answer"
        self.wrong(f"not approved: {refused}")

    def store_changed(self) -> None:
        """See whether it still waits: the asker may have asked anew, somebody else may have approved it."""
        if self._step == "answer":
            self.run_worker(self._look(), group="standing", exclusive=True)

    async def _look(self) -> None:
        try:
            over = await self._steps.standing(self._asked.plan)
        except StoreError:
            return  # the frame says that the store is lost
        if over is not None and self._step == "answer":
            self._step = "stuck"
            self.wrong(over)
