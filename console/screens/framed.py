"""The frame every screen stands in: store, mode, operator, counts above; a notice and the keys below.

Turns keys into calls of `do_<id>`, by the registry alone: no action is ever named by a text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from backends.store import StoreError
from console import keys
from console.render.line import Line, Tone, line, own, said
from console.render.status import footer, status, title
from console.widgets.canvas import Canvas

if TYPE_CHECKING:
    from console.app import ConsoleApp

SMALLEST = (80, 24)
_TITLE_STYLES: dict[str, str] = {"strong": "bold reverse"}


def name_of(event: events.Key) -> str:
    """As the registry calls it: the character where it is one, else the key."""
    if event.key == "space":
        return "space"
    bare = event.key.removeprefix("shift+")
    if event.character is not None and event.is_printable and not bare.startswith(("ctrl+", "alt+", "super+", "meta+")):
        return event.character
    return event.key


class FramedScreen(Screen[None], inherit_bindings=False):
    place: ClassVar[keys.Place] = "queue"
    FOOTER: ClassVar[tuple[str, ...]] = ()
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self._status = Canvas(id="status")
        self._notice = Canvas(id="notice")
        self._footer = Canvas(id="footer")
        self._frame = Vertical(id="frame")
        self._noticed = False

    @property
    def console(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    def body(self) -> Iterable[Widget]:
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with self._frame:
            yield self._status
            yield from self.body()
            yield self._notice
            yield self._footer

    def on_mount(self) -> None:
        self.stood()

    def on_screen_resume(self) -> None:
        self.stood()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < SMALLEST[0] or event.size.height < SMALLEST[1], "-small")
        self.set_class(event.size.width >= 160, "-wide")
        self.call_after_refresh(self.stood)

    @property
    def is_small(self) -> bool:
        return self.has_class("-small")

    def stood(self) -> None:
        """What the frame says has changed."""
        if not self.is_mounted:
            return
        standing, size = self.console.standing, max(10, self.size.width - 4)
        self.set_class(standing.mode == "live", "-live")
        self.set_class(standing.read_only, "-read-only")
        self._frame.border_title = _content(title(standing, size - 2))
        subtitle = "READ-ONLY" if standing.read_only else standing.mode.upper()
        self._frame.border_subtitle = _content(line(own(f" {subtitle} ", "strong")))
        self._status.show(status(standing, self.console.now(), size))
        self._show_footer()

    def lead(self) -> Line:
        """What stands before the keys."""
        return ()

    def hints(self) -> tuple[str, ...]:
        """Ids of the keys worth naming now, the most useful first."""
        return self.FOOTER

    def _show_footer(self) -> None:
        there = {key.id: key for key in self.console.keys_at(self.place)}
        wanted = [there[name] for name in (*self.hints(), "help") if name in there]
        small = line(own("too small to act: 80x24 at least", "warning")) if self.is_small else ()
        self._footer.show(footer(wanted, max(10, self.size.width - 4), lead=small or self.lead()))

    def tell(self, *parts: Line, tone: Tone | None = None) -> None:
        """The result of something; stays until the next key."""
        cells = tuple(cell for part in parts for cell in part)
        self._notice.show(tuple(own(cell.text, tone) for cell in cells) if tone else cells)
        self._notice.set_class(True, "-shown")
        self._noticed = True

    def complain(self, text: str) -> None:
        self.tell(line(said(text, limit=500)), tone="warning")

    def _hush(self) -> None:
        if self._noticed:
            self._noticed = False
            self._notice.show()
            self._notice.set_class(False, "-shown")

    def take_key(self, event: events.Key) -> None:
        """Called by the app as the key arrives: what it changes holds for the very next key."""
        name = name_of(event)
        key = next((key for key in self.console.keys_at(self.place) if name in key.keys), None)
        if key is not None:
            self.press(key)

    def take_paste(self, text: str) -> None:
        """A paste means nothing, unless somebody is typing."""

    def press(self, key: keys.Key) -> None:
        """What the key means here, however it was asked for."""
        self._hush()
        if key.dangerous and self.is_small:
            self.complain(f"{key.label}: the terminal is too small to act in; 80x24 at least")
        else:
            getattr(self, f"do_{key.action}")()

    def start(self, work: Callable[[], Awaitable[None]], *, group: str, exclusive: bool) -> None:
        """Work beside the keys. Reads are exclusive in their group, acts never are."""
        self.run_worker(self._watched(work), group=group, exclusive=exclusive)

    async def _watched(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreError as problem:
            if self.is_mounted:
                self.complain(str(problem))

    def do_help(self) -> None:
        from console.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self.place))

    def do_theme(self) -> None:
        self.console.next_theme()

    def do_quit(self) -> None:
        self.console.leave()

    def do_back(self) -> None:
        if len(self.app.screen_stack) > 1:
            self.dismiss()


def _content(cells: Line) -> Content:
    return Content.assemble(*((cell.text, _TITLE_STYLES.get(cell.tone, "")) for cell in cells))
