"""The base of all gates: shows what is about to happen and waits for a typed answer. Acts on nothing itself.

Esc cancels at any time. Keys typed before a gate is readable are discarded; pastes, clicks and a bare Enter always.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from textual import events
from textual._time import get_time
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from console.keymap import named
from console.render.line import Cell, Line, line, plain, trusted, untrusted
from console.screens.frame import FramedScreen
from console.widgets.canvas import Canvas
from console.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from console.app import ConsoleApp

Answer = TypeVar("Answer")
DEAD_SECONDS = 0.4
_LONGEST_ANSWER = 500
_AROUND = 9  # rows beside the text: two of the frame above and below, the box, a gap and the answer
_LONGEST_MESSAGE = 3
_FLOOD = 64  # a person does not type more keys than this in a second
_REPEAT_SECONDS = 0.12  # a held key repeats within this time
_PAUSE_SECONDS = 0.25  # keys typed ahead end with a pause this long


class Gate(ModalScreen[Answer | None], inherit_bindings=False):
    AUTO_FOCUS = None
    WAY_OUT = " esc cancels "  # what the frame of the gate says of leaving it

    def __init__(self, title: Line, *, live: bool = False) -> None:
        super().__init__()
        self._title = title
        self._live = live
        self._text = TextPane(id="gate-text")
        self._message = TextPane(id="gate-message")
        self._answer = Canvas(id="gate-answer")
        self._box = Vertical(id="gate")
        self.typed = ""
        self._open_from = float("inf")
        self._times: deque[float] = deque(maxlen=_FLOOD)

    @property
    def console(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    def compose(self) -> ComposeResult:
        with self._box:
            yield self._text
            yield self._message
            yield self._answer

    def on_mount(self) -> None:
        self.set_class(self._live, "-live")
        self.entitle(self._title)
        self._box.border_subtitle = Content(self.WAY_OUT)
        self.begin()

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Limit the text so that the frame's counts and the answer stay visible."""
        message = len(self._message.rows) if self._message.size.width else 1
        room = self.app.size.height - _AROUND - max(1, min(message, _LONGEST_MESSAGE))
        self._text.styles.max_height = max(1, room)

    def entitle(self, title: Line) -> None:
        self._box.border_title = Content(f" {plain(title)} ")

    def begin(self) -> None:
        """Show the first page."""
        raise NotImplementedError

    def prompt(self) -> Line:
        """What to type, shown before the cursor."""
        raise NotImplementedError

    def entered(self, text: str) -> None:
        """Handle the typed answer."""
        raise NotImplementedError

    def put(self, lines: Sequence[Line]) -> None:
        """Show these lines and discard keys until the operator could have read them."""
        self._text.put(lines)
        self._close_for_a_moment()

    def _close_for_a_moment(self) -> None:
        self._open_from = float("inf")
        self.typed = ""
        self._paint()
        self.call_after_refresh(self._seen)

    def _seen(self) -> None:
        dead = self.console.setup.dead_seconds
        self._open_from = get_time() + dead
        self._paint()
        if dead:
            self.set_timer(dead + 0.01, self._opened)

    def _opened(self) -> None:
        """Show that keys count now, or wait on while keys typed ahead still arrive."""
        left = self._open_from - get_time()
        self.set_timer(left + 0.01, self._opened) if 0 < left < float("inf") else self._paint()

    @property
    def is_open(self) -> bool:
        return get_time() >= self._open_from

    def say(self, message: Line) -> None:
        """Show why the answer was refused."""
        self._message.put([message])
        self._fit()

    def wrong(self, text: str) -> None:
        self.typed = ""
        self.say(line(untrusted(text, "warning", limit=300)))
        self._paint()

    def key(self, key_id: str) -> str:
        """The key that does this outside of the gate, as it is mapped here."""
        return named(key_id, self.console.setup.keys).shown

    def _paint(self) -> None:
        """Paint the prompt, dimmed until keys count."""
        if self.is_open:
            self._answer.show((*self.prompt(), Cell(" "), untrusted(self.typed, "strong"), trusted("▏", "accent")))
        else:
            self._answer.show((*(cell._replace(tone="dim") for cell in self.prompt()), trusted(" …", "dim")))

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        """Close the gate; an Enter that is still held down must not open an entry below."""
        below = self.app.screen_stack[-2] if len(self.app.screen_stack) > 1 else None
        if result is not None and isinstance(below, FramedScreen):
            below.ignore_keys("open", rest=_REPEAT_SECONDS)
        return super().dismiss(result)

    def take_key(self, event: events.Key) -> None:
        if event.key in ("escape", "ctrl+c", "ctrl+q"):
            self.dismiss(None)
            return
        if event.key in ("pageup", "pagedown", "up", "down"):
            if event.time < self._open_from:
                return
            self.moved(1 if event.key.endswith("down") else -1, page=event.key.startswith("page"))
            return
        flooded = len(self._times) == _FLOOD and event.time - self._times[0] < 1.0
        self._times.append(event.time)
        if event.time < self._open_from:
            self._go_on_waiting(event)
            return
        if event.key == "enter":
            self._enter(flooded=flooded)
        else:
            self.took(event)

    def _go_on_waiting(self, event: events.Key) -> None:
        """Stay closed until the keys pause: the second half of a word typed ahead must not become the answer."""
        self.say(line(trusted("what was typed before this could be read does not count", "dim")))
        pause = min(_PAUSE_SECONDS, self.console.setup.dead_seconds)
        if self._open_from < float("inf"):
            self._open_from = max(self._open_from, event.time + pause)

    def moved(self, step: int, *, page: bool) -> None:
        """Scroll the page; a gate with rows to choose from moves among them."""
        self._text.scroll_lines(5 * step if page else step)

    def took(self, event: events.Key) -> None:
        """Add a key to the answer."""
        if event.key == "backspace":
            self.typed = self.typed[:-1]
        elif event.key == "ctrl+u":
            self.typed = ""
        elif event.character is not None and event.is_printable and len(self.typed) < _LONGEST_ANSWER:
            self.typed += event.character
        self._paint()

    def _enter(self, *, flooded: bool) -> None:
        if flooded:
            self.wrong("keys came too fast to be typed: type the answer again")
        elif not self.typed.strip():
            self.wrong("Enter alone confirms nothing: type the answer first")
        elif self.app.size.width < 80 or self.app.size.height < 24:
            self.wrong("the terminal is too small to act in: 80x24 at least")
        else:
            self.entered(self.typed.strip())

    def take_paste(self, text: str) -> None:  # noqa: ARG002 - every paste is refused
        self.say(line(trusted("a paste is not an answer: type it", "warning")))
