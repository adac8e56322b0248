"""A line to type in, with a history. The screen hands it each key, so that a key typed ahead cannot become a command.

Knows nothing of what the text is for, but that a target may hold a password: it is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from textual import events

from console.render.line import Cell, Line, trusted, untrusted
from console.text.password_mask import masked
from console.widgets.canvas import Canvas

Purpose = Literal["filter", "command", "target"]
Came = Literal["typing", "given", "given-up"]
_LONGEST = 10_000  # a list of some hundred ids


class PromptLine(Canvas):
    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.purpose: Purpose = "filter"
        self.text = ""
        self.is_asking = False
        self._at = 0  # the cursor
        self._past: dict[Purpose, list[str]] = {"filter": [], "command": [], "target": []}
        self._back = 0  # how far back in the history
        self.complete: Callable[[str], tuple[int, list[str]]] | None = None  # what may stand before the cursor
        self.offered: list[str] = []  # what Tab could not choose between
        self.remember: Callable[[str], None] = lambda _: None  # keeps a filter for the next time

    def ask(self, purpose: Purpose, text: str = "", *, earlier: str = "") -> None:
        """`earlier`: what ↑ brings back first, also where it was not typed here."""
        self.purpose, self.is_asking = purpose, True
        self._keep(earlier)
        self._back = len(self._past[purpose])
        self._put(text)

    @property
    def hint(self) -> Line:
        """What the keys do while something is typed here."""
        verb = "attach" if self.purpose == "target" else "run"
        tab = " · tab complete" if self.complete is not None and self.purpose == "filter" else ""
        return (trusted(f"enter {verb} · esc cancel{tab} · ↑↓ history", "dim"),)

    def rest(self, line: Line = ()) -> None:
        """Stop asking and show this line."""
        self.is_asking = False
        self.show(line)

    def recall(self, filters: tuple[str, ...]) -> None:
        """The filters of earlier times, oldest first."""
        self._past["filter"][:0] = filters

    def press(self, event: events.Key) -> Came:
        self.offered = []
        match event.key:
            case "escape" | "ctrl+c":
                self.is_asking = False
                return "given-up"
            case "enter":
                self.is_asking = False
                self._remember()
                return "given"
            case "up" | "down":
                self._recall(-1 if event.key == "up" else 1)
            case "tab":
                self._complete()
            case _:
                self._edit(event)
        return "typing"

    def paste(self, text: str) -> None:
        first = text.split("\n", 1)[0].split("\r", 1)[0]
        self._insert(first)

    def _edit(self, event: events.Key) -> None:
        text, at = self.text, self._at
        match event.key:
            case "backspace" | "ctrl+h":
                self._put(text[: max(0, at - 1)] + text[at:], max(0, at - 1))
            case "delete":
                self._put(text[:at] + text[at + 1 :], at)
            case "left":
                self._put(text, max(0, at - 1))
            case "right":
                self._put(text, min(len(text), at + 1))
            case "home" | "ctrl+a":
                self._put(text, 0)
            case "end" | "ctrl+e":
                self._put(text)
            case "ctrl+u":
                self._put(text[at:], 0)
            case "ctrl+w":
                kept = text[:at].rstrip().rpartition(" ")
                head = f"{kept[0]}{kept[1]}"
                self._put(head + text[at:], len(head))
            case _ if event.character is not None and event.is_printable:
                self._insert(event.character)

    def _insert(self, more: str) -> None:
        """All of it or nothing: a filter without its end asks for something else."""
        text, at = self.text, self._at
        if len(text) + len(more) > _LONGEST:
            self._put(text, at, was_too_long=True)
        else:
            self._put(text[:at] + more + text[at:], at + len(more))

    def _put(self, text: str, at: int | None = None, *, was_too_long: bool = False) -> None:
        self.text, self._at = text, len(text) if at is None else at
        lead = {"filter": "filter: ", "command": ":", "target": "path or URL: "}[self.purpose]
        if was_too_long:
            lead = f"too long, not taken · {lead}"
        # Hide the beginning of a long text so that the cursor stays visible.
        room = max(10, self.size.width - len(lead) - 4)
        hidden = max(0, self._at - room)
        shown = masked(text) if self.purpose == "target" else text
        before, after = untrusted(shown[hidden : self._at]), untrusted(shown[self._at : self._at + room])
        self.show((trusted(lead, "warning" if was_too_long else "accent"), before, Cell("▏", "accent"), after))

    def _complete(self) -> None:
        """Insert what all candidates have in common, and offer them where there are several."""
        if self.complete is None or self.purpose != "filter":
            return
        begins, found = self.complete(self.text[: self._at])
        if not found:
            return
        common = found[0] if len(found) == 1 else _common(found)
        typed = self.text[begins : self._at]
        if len(found) == 1 and not common.endswith((":", ">")):
            common += " "
        if common.casefold().startswith(typed.casefold()) or len(found) == 1:
            self._put(self.text[:begins] + common + self.text[self._at :], begins + len(common))
        self.offered = found if len(found) > 1 else []

    def _remember(self) -> None:
        self._keep(self.text)
        if self.purpose == "filter":
            self.remember(self.text.strip())

    def _keep(self, text: str) -> None:
        past, kept = self._past[self.purpose], text.strip()
        if kept and kept not in past[-1:]:
            past.append(kept)

    def _recall(self, step: int) -> None:
        past = self._past[self.purpose]
        self._back = max(0, min(len(past), self._back + step))
        self._put(past[self._back] if self._back < len(past) else "")


def _common(texts: list[str]) -> str:
    """The beginning that all of these share."""
    first, last = min(texts), max(texts)
    return next((first[:at] for at, char in enumerate(first) if last[at : at + 1] != char), first)
