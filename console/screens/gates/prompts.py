"""Gates that ask for one typed answer: a number, a word or a note."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from console.render.line import Line, line, trusted
from console.screens.gates.gate import Gate

Judge = Callable[[str], str | None]  # what is wrong with an answer; None where it is right


class WordGate(Gate[str]):
    """Returns the answer, or None where it was cancelled."""

    def __init__(self, title: Line, lines: Sequence[Line], *, ask: str, judge: Judge, live: bool = False) -> None:
        super().__init__(title, live=live)
        self._lines = lines
        self._ask = ask
        self._judge = judge

    def begin(self) -> None:
        self.put(self._lines)

    def prompt(self) -> Line:
        return line(trusted(f"{self._ask}:"))

    def entered(self, text: str) -> None:
        problem = self._judge(text)
        if problem is None:
            self.dismiss(text)
        else:
            self.wrong(problem)


class NoteGate(WordGate):
    """Asks for a note on what is done already; it may stay empty, and esc takes nothing back."""

    WAY_OUT = " enter keeps the note · esc leaves none "

    def _enter(self, *, flooded: bool) -> None:
        if flooded or self.typed.strip():
            super()._enter(flooded=flooded)
        else:
            self.dismiss(None)


def exactly(wanted: str) -> Judge:
    return lambda text: None if text == wanted else f"that is not {wanted}"


def a_note(text: str) -> str | None:
    return None if len(text) >= 3 else "say a little more: it goes on record"


def anything(_: str) -> str | None:
    return None
