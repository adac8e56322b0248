"""Gates that ask for one typed answer: a number, a word or a note."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from textual import events

from backends.store import StoreError
from console.render.line import Line, line, trusted, untrusted
from console.screens.gates.gate import Gate

About = TypeVar("About")
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


class Question(NamedTuple, Generic[About]):
    """What a lookup found and the gate asks; the right answer returns `about`."""

    about: About
    title: Line
    lines: Sequence[Line]
    ask: str
    judge: Judge


class LookupGate(Gate[About]):
    """Opens at once and looks up what to ask, so that keys typed meanwhile go to the gate and not to the screen below.

    `find` returns the question, or a text that says why there is none.
    """

    def __init__(self, title: Line, find: Callable[[], Awaitable[Question[About] | str]]) -> None:
        super().__init__(title)
        self._find = find
        self._question: Question[About] | None = None
        self._is_looking = True

    def begin(self) -> None:
        self.put([line(trusted("looking …", "dim"))])
        self.run_worker(self._look(), group="look", exclusive=True)

    async def _look(self) -> None:
        try:
            found = await self._find()
        except StoreError as problem:
            found = str(problem)
        self._is_looking = False
        if isinstance(found, str):
            self.put([line(untrusted(found, "warning", limit=500))])
            return
        self._question = found
        self.entitle(found.title)
        self.put(found.lines)

    def prompt(self) -> Line:
        if self._is_looking:
            return ()
        return line(trusted(f"{self._question.ask}:" if self._question else "nothing to do here; esc goes back"))

    def took(self, event: events.Key) -> None:
        if self._question is not None:
            super().took(event)

    def _enter(self, *, flooded: bool) -> None:
        if self._question is not None:
            super()._enter(flooded=flooded)

    def entered(self, text: str) -> None:
        question = self._question
        problem = question.judge(text) if question else None
        if problem is not None:
            self.wrong(problem)
        elif question is not None:
            self.dismiss(question.about)


def exactly(wanted: str) -> Judge:
    return lambda text: None if text == wanted else f"that is not {wanted}"


def a_note(text: str) -> str | None:
    return None if len(text) >= 3 else "say a little more: it goes on record"


def anything(_: str) -> str | None:
    return None
