"""The dismiss gate: what is at stake, a reason by its digit, a note with any reason, then the number of entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from textual import events

from backends.store import StoreError
from console.render.gates.dismissal import DismissalStake, dismiss_title, stake_lines
from console.render.line import Cell, Line, Tone, fit, line, trusted, untrusted
from console.screens.gates.gate import Gate
from console.text.untrusted import safe

_DIGITS = "123456789abcdefghijkl"
_BESIDE = 3


def surplus_rows(reasons: Sequence[str]) -> int:
    """Lines that the reasons need beyond the usual nine; all must be visible at 80x24."""
    return max(0, -(-min(len(reasons), len(_DIGITS)) // _BESIDE) - 9 // _BESIDE)


def is_undone(row: str) -> bool:
    """Whether a dismissal can be taken back that does this to its row."""
    return row == "keep"


def _aftermath(row: str, undo: str, *, one: bool, at_hub: bool) -> str:
    """What happens to the row, and whether the key `undo` takes it back."""
    settled = "Closes it without sending" if one else "Closes them without sending"
    if at_hub:
        return _at_hub(row, settled, undo, one=one)
    what, verb = ("the row", "is") if one else ("the rows", "are")
    match row:
        case "delete":
            return f"{settled}; {what} {verb} deleted: {undo} cannot undo it."
        case "soft-delete":
            return f"{settled}; {what} {verb} marked as deleted: {undo} cannot undo it."
        case _:
            return f"{settled}; {what} {'stays' if one else 'stay'}; {undo} undoes it."


def _at_hub(row: str, settled: str, undo: str, *, one: bool) -> str:
    match row:
        case "delete":
            return f"{settled} and deletes {'it' if one else 'them'} at the hub: {undo} cannot undo it."
        case "soft-delete":
            return 'It will be refused: a hub can only delete; say on_dismiss = "delete" or "keep".'
        case _:
            return f"{settled}; the hub keeps {'it' if one else 'them'}; {undo} undoes it."


class Dismissal(NamedTuple):
    reason: str
    note: str | None


Tell = Callable[[DismissalStake], None]


class DismissRows(NamedTuple):
    """What happens to the rows, or to the entries at a hub, as the store's config says."""

    what: str = "keep"
    at_hub: bool = False


class DismissGate(Gate[Dismissal]):
    def __init__(
        self,
        count: int,
        reasons: Sequence[str],
        *,
        sample: Sequence[Line],
        live: bool,
        weigh: Callable[[Tell], Awaitable[DismissalStake | None]],
        rows: DismissRows = DismissRows(),  # noqa: B008 - immutable
    ) -> None:
        """`weigh` adds up what is chosen and tells how far it got; None: this cannot be known here."""
        super().__init__(dismiss_title(count, None), live=live)
        self._count = count
        self._reasons = reasons[: len(_DIGITS)]
        self._sample = sample
        self._rows = rows
        self._weigh = weigh
        self._stake: DismissalStake | None = None
        self._weighing = True
        self._step: Literal["reason", "note", "count"] = "reason"
        self._chosen = -1  # the reason that ↑ ↓ point at
        self._reason = ""
        self._note: str | None = None

    def begin(self) -> None:
        self.put(self._shown())
        self.run_worker(self._add_up(), group="weigh", exclusive=True)

    async def _add_up(self) -> None:
        """Show what is at stake as soon as it is known: the answer does not count before."""
        try:
            self._stake = await self._weigh(self._so_far)
        except StoreError as problem:
            self.say(line(untrusted(f"what this takes with it could not be added up: {problem}", "warning", limit=300)))
        self._weighing = False
        self._show_stake()

    def _so_far(self, stake: DismissalStake) -> None:
        self._stake = stake
        self._show_stake()

    def _show_stake(self) -> None:
        self.entitle(dismiss_title(self._count, None if self._weighing else self._stake))
        self._text.put(self._shown(), keep_place=True)

    def _shown(self) -> list[Line]:
        gap: list[Line] = [] if surplus_rows(self._reasons) else [()]
        lines = [*self._at_stake(), *self._sample, *gap]
        told = _aftermath(self._rows.what, self.key("undo"), one=self._count == 1, at_hub=self._rows.at_hub)
        lines.append(line(trusted(told, "dim" if is_undone(self._rows.what) else "warning")))
        if self._note is not None:
            lines.append(line(trusted("note  ", "dim"), untrusted(self._note, limit=120)))
        choices = [self._choice(at, reason) for at, reason in enumerate(self._reasons)]
        rows = [choices[start : start + _BESIDE] for start in range(0, len(choices), _BESIDE)]
        return [*lines, *gap, *(tuple(cell for choice in row for cell in choice) for row in rows)]

    def _at_stake(self) -> list[Line]:
        if self._weighing:
            so_far = f" {self._stake.counted:,} of {self._count:,}" if self._stake is not None else ""
            return [line(trusted(f" adding up …{so_far}", "dim"))]
        if self._stake is None or not self._stake.counted:
            return []
        return stake_lines(self._stake, self.console.now(), self.key("reconcile"))

    def _choice(self, at: int, reason: str) -> Line:
        chosen = reason == self._reason
        word = safe(f"{reason} ✓" if chosen else f"{reason} ←" if at == self._chosen else reason)
        tone: Tone = "accent" if chosen else "strong" if at == self._chosen else "plain"
        return (trusted(f" {_DIGITS[at]} ", "key"), Cell(fit(word, 20), tone))

    def prompt(self) -> Line:
        match self._step:
            case "reason":
                return line(trusted("why? press the reason's key"), trusted(", n adds a note:"))
            case "note":
                asked = "other: say why, then Enter:" if self._reason == "other" else "note, then Enter:"
                return line(trusted(asked))
            case "count":
                more = "" if self._note is not None else " (n adds a note)"
                return line(trusted("type "), trusted(str(self._count), "strong"), trusted(f" to dismiss{more}:"))

    def moved(self, step: int, *, page: bool) -> None:
        if self._step == "reason" and not page:
            self._chosen = (self._chosen + step) % len(self._reasons) if self._chosen >= 0 or step > 0 else 0
            self._text.put(self._shown(), keep_place=True)
        else:
            super().moved(step, page=page)

    def took(self, event: events.Key) -> None:
        if self._step != "note" and event.character == "n" and not self.typed:
            self._go_to("note", typed=self._note or "")
        elif self._step == "reason":
            self._choose(_DIGITS.find(event.character or " "))
        elif event.key == "backspace" and not self.typed and self._step == "count":
            self._reason = ""
            self._go_to("reason")
        else:
            super().took(event)

    def _choose(self, at: int) -> None:
        if not 0 <= at < len(self._reasons):
            self.say(line(trusted("that is not one of the reasons", "warning")))
            return
        self._reason, self._chosen = self._reasons[at], -1
        self._go_to("note" if self._reason == "other" and self._note is None else "count")

    def _go_to(self, step: Literal["reason", "note", "count"], *, typed: str = "") -> None:
        """Repaint the page with the choice on it; no pause, because the operator has read it."""
        self._step = step
        self.say(())
        self._text.put(self._shown(), keep_place=True)
        self.typed = typed
        self._paint()

    def entered(self, text: str) -> None:
        if self._step == "note":
            self._note = text
            self._go_to("count" if self._reason else "reason")
        elif text != str(self._count):
            self.wrong(f"that is not {self._count}")
        elif self._weighing:
            self.wrong("what this takes with it is still being added up: type it again in a moment")
        else:
            self.dismiss(Dismissal(self._reason, self._note))

    def _enter(self, *, flooded: bool) -> None:
        if self._step != "reason":
            super()._enter(flooded=flooded)
        elif self._chosen >= 0 and not flooded:
            self._choose(self._chosen)
        else:
            self.wrong("press the key of a reason first")
