"""The dismiss gate: a reason by its digit, a note where the reason is `other`, then the number of entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from textual import events

from console.render.line import Cell, Line, fit, line, trusted
from console.render.value import many
from console.screens.gates.gate import Gate
from console.text.untrusted import safe

_DIGITS = "123456789abcdefghijkl"
_BESIDE = 3


def surplus_rows(reasons: Sequence[str]) -> int:
    """Lines that the reasons need beyond the usual nine; all must be visible at 80x24."""
    return max(0, -(-min(len(reasons), len(_DIGITS)) // _BESIDE) - 9 // _BESIDE)


def is_undone(row: str) -> bool:
    """Whether z can take a dismissal back that does this to its row."""
    return row == "keep"


def _aftermath(row: str, *, one: bool, at_hub: bool) -> str:
    settled = "It is settled without being sent" if one else "They are settled unsent"
    if at_hub:
        return _at_hub(row, settled, one=one)
    what, verb = ("the row", "is") if one else ("the rows", "are")
    match row:
        case "delete":
            return f"{settled}; {what} {verb} deleted: z cannot take it back."
        case "soft-delete":
            return f"{settled}; {what} {verb} marked as deleted: z cannot take it back."
        case _:
            return f"{settled}; {what} {'stays' if one else 'stay'}; z takes it back."


def _at_hub(row: str, settled: str, *, one: bool) -> str:
    match row:
        case "delete":
            return f"{settled} and deleted at the hub: z cannot take it back."
        case "soft-delete":
            return 'It will be refused: a hub can only delete; say on_dismiss = "delete" or "keep".'
        case _:
            return f"{settled}; the hub keeps {'it' if one else 'them'}; z takes it back."


class Dismissal(NamedTuple):
    reason: str
    note: str | None


class DismissGate(Gate[Dismissal]):
    def __init__(
        self,
        count: int,
        reasons: Sequence[str],
        *,
        sample: Sequence[Line],
        live: bool,
        row: str = "keep",
        at_hub: bool = False,
    ) -> None:
        """`row`: what happens to the rows, or to the entries `at_hub`, as the store's config says."""
        super().__init__(line(trusted(f"Dismiss {many(count, 'entry')}")), live=live)
        self._count = count
        self._reasons = reasons[: len(_DIGITS)]
        self._sample = sample
        self._row = row
        self._at_hub = at_hub
        self._step: Literal["reason", "note", "count"] = "reason"
        self._reason = ""
        self._note: str | None = None

    def begin(self) -> None:
        self.put(self._shown())

    def _shown(self) -> list[Line]:
        lines = [*self._sample, ()]
        told = _aftermath(self._row, one=self._count == 1, at_hub=self._at_hub)
        lines.append(line(trusted(told, "dim" if is_undone(self._row) else "warning")))
        lines.append(())
        choices = [self._choice(digit, reason) for digit, reason in zip(_DIGITS, self._reasons, strict=False)]
        rows = [choices[start : start + _BESIDE] for start in range(0, len(choices), _BESIDE)]
        return [*lines, *(tuple(cell for choice in row for cell in choice) for row in rows)]

    def _choice(self, digit: str, reason: str) -> Line:
        chosen = reason == self._reason
        word = Cell(fit(safe(f"{reason} ✓" if chosen else reason), 20), "accent" if chosen else "plain")
        return (trusted(f" {digit} ", "key"), word)

    def prompt(self) -> Line:
        match self._step:
            case "reason":
                return line(trusted("why? press the reason's key:"))
            case "note":
                return line(trusted("other: say why, then Enter:"))
            case "count":
                return line(trusted("type "), trusted(str(self._count), "strong"), trusted(" to dismiss:"))

    def took(self, event: events.Key) -> None:
        if self._step == "reason":
            self._choose(event.character or "")
        elif event.key == "backspace" and not self.typed and self._step == "count":
            self._step, self._reason = "reason", ""
            self._again()
        else:
            super().took(event)

    def _choose(self, digit: str) -> None:
        at = _DIGITS.find(digit) if digit else -1
        if not 0 <= at < len(self._reasons):
            self.say(line(trusted("that is none of the reasons", "warning")))
            return
        self._reason = self._reasons[at]
        self._step = "note" if self._reason == "other" else "count"
        self.say(())
        self._again()

    def _again(self) -> None:
        """Repaint the page with the choice on it; no pause, because the operator has read it."""
        self._text.put(self._shown(), keep_place=True)
        self.typed = ""
        self._paint()

    def entered(self, text: str) -> None:
        if self._step == "note":
            self._note, self._step = text, "count"
            self.say(())
            self._again()
        elif text == str(self._count):
            self.dismiss(Dismissal(self._reason, self._note))
        else:
            self.wrong(f"that is not {self._count}")

    def _enter(self, *, flooded: bool) -> None:
        if self._step == "reason":
            self.wrong("press the key of a reason first")
        else:
            super()._enter(flooded=flooded)
