"""The settle gate: what a person says became of an attempt in doubt, their note, then the word. Settles nothing itself.

What was typed stays when the answer is no: the venue says otherwise, or a second person must agree first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from textual import events

from backends.records import Attempt, Entry
from backends.store import StoreError
from console.render.evidence.settlement import Claim, SettleDraft, settle_lines
from console.render.line import Line, line, trusted, untrusted
from console.screens.gates.gate import Gate
from console.services.layout_fields import layout_of
from console.services.triage.own_approval import ALONE

if TYPE_CHECKING:
    from console.services.evidence.settle import SettleReport

_WORD = "settle"
_CLAIMS: dict[str, Claim] = {"1": "accepted", "2": "absent"}
_Step = Literal["looking", "stuck", "claim", "order", "note", "word", "settling"]
_CLOSED = ("looking", "stuck", "settling")


class SettleSteps(NamedTuple):
    """What the gate asks of its screen; `hand_in` ends with a call of `told` or `failed`, if the gate is still open."""

    find: Callable[[], Awaitable[Attempt | str]]  # the attempt, or why there is none to settle
    kept: Callable[[Attempt], SettleDraft]
    hand_in: Callable[[Attempt, SettleDraft], None]


class SettleGate(Gate["SettleReport"]):
    def __init__(self, entry: Entry, steps: SettleSteps) -> None:
        super().__init__(line(trusted("Settle an entry in doubt")))
        self._entry = entry
        self._steps = steps
        self._attempt: Attempt | None = None
        self._draft = SettleDraft()
        self._step: _Step = "looking"

    def begin(self) -> None:
        self.put([line(trusted("looking …", "dim"))])
        self.run_worker(self._look(), group="look", exclusive=True)

    async def _look(self) -> None:
        try:
            found = await self._steps.find()
        except StoreError as problem:
            found = str(problem)
        if isinstance(found, str):
            self._step = "stuck"
            self.put([line(untrusted(found, "warning", limit=500))])
            return
        self._attempt, self._draft = found, self._steps.kept(found)
        self.set_class(found.mode == "live", "-live")
        if layout_of(self._entry).has_modes:
            self.entitle(line(untrusted(f"Settle an entry in doubt · {found.mode.upper()}", limit=60)))
        self._step = "word" if self._draft.note else "claim"
        self.put(self._shown())

    def _shown(self) -> list[Line]:
        assert self._attempt is not None  # it was found
        return settle_lines(self._entry, self._attempt, self._draft, self.console.now())

    def prompt(self) -> Line:
        match self._step:
            case "looking":
                return ()
            case "stuck":
                return line(trusted("esc goes back"))
            case "claim":
                return line(trusted("what became of it? press 1 or 2:"))
            case "order":
                return line(trusted("the venue's order id, or Enter for none:"))
            case "note":
                return line(trusted("what did you see? it goes on record:"))
            case "word":
                return line(
                    trusted("type "), trusted(_WORD, "strong"), trusted(f" to end it as {self._draft.claimed}:")
                )
            case "settling":
                asked = "asking the venue once more" if layout_of(self._entry).has_modes else "looking once more"
                return line(trusted(f"{asked} …"))

    def took(self, event: events.Key) -> None:
        if self._step in _CLOSED:
            return
        if self._step == "claim":
            self._choose(event.character or "")
        elif event.key == "backspace" and not self.typed:
            self._step_back()
        else:
            super().took(event)

    def _choose(self, digit: str) -> None:
        claimed = _CLAIMS.get(digit)
        if claimed is None:
            self.say(line(trusted("press 1 where it stands there, 2 where it does not", "warning")))
            return
        self._go_to("order" if self._has_order_id(claimed) else "note", SettleDraft(claimed))

    def _has_order_id(self, claimed: Claim | None) -> bool:
        return claimed == "accepted" and layout_of(self._entry).has_modes

    def _step_back(self) -> None:
        """Take the last answer back, to be typed again."""
        draft = self._draft
        match self._step:
            case "word":
                self._go_to("note", draft._replace(note=""), typed=draft.note)
            case "note" if self._has_order_id(draft.claimed):
                self._go_to("order", draft._replace(order=None), typed=draft.order or "")
            case _:
                self._go_to("claim", SettleDraft())

    def _go_to(self, step: _Step, draft: SettleDraft, *, typed: str = "") -> None:
        """Repaint the page with the answer on it; no pause, because the operator has read it."""
        self._step, self._draft, self.typed = step, draft, typed
        self.say(())
        self._text.put(self._shown(), keep_place=True)
        self._paint()

    def _enter(self, *, flooded: bool) -> None:
        if self._step == "claim":
            self.wrong("press 1 or 2 first")
        elif self._step == "order" and not self.typed.strip() and not flooded:
            self._go_to("note", self._draft._replace(order=""))
        elif self._step not in _CLOSED:
            super()._enter(flooded=flooded)

    def entered(self, text: str) -> None:
        match self._step:
            case "order":
                self._go_to("note", self._draft._replace(order=text))
            case "note" if len(text) < 3:
                self.wrong("say a little more: it goes on record")
            case "note":
                self._go_to("word", self._draft._replace(note=text))
            case _ if text == _WORD and self._attempt is not None:
                self._go_to("settling", self._draft)
                self._steps.hand_in(self._attempt, self._draft)
            case _:
                self.wrong(f"that is not {_WORD}")

    def told(self, report: SettleReport) -> None:
        """Take in what became of it. A refusal stays in sight, with all that was typed but the word."""
        if report.is_done:
            self.dismiss(report)
            return
        self._step = "word"
        if report.plan is None:
            self.wrong(report.ended.detail or "it was not settled")
            return
        venue = (report.ended.detail or "").removeprefix("needs a second person; ")
        self.wrong(
            f"Waiting for a second person: {self.key('approve')} in their console, or dlq approve {report.plan}; "
            f"then {self.key('settle')} again. "
            f"{ALONE} {venue[:1].upper()}{venue[1:]}"
        )

    def failed(self, text: str) -> None:
        self._step = "word"
        self.wrong(text)
