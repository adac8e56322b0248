"""The frame around every screen: store, mode, operator and counts above; a notice and the keys below.

Turns keys into calls of `do_<id>` by the registry of keys alone, so that no stored text can name an action.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from textual import events
from textual._time import get_time
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from backends.store import StoreError
from console import keymap as keys
from console.render.line import Line, Tone, cell_at, line, trusted, untrusted, width, wrap
from console.render.status import footer, status_lines, title, waits_segment
from console.widgets.canvas import Canvas
from console.widgets.prompt_line import PromptLine
from console.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from console.app import ConsoleApp


SMALLEST = (80, 24)
_REST_SECONDS = 0.25  # keys typed in one go end with a pause this long
_ALWAYS = ("back", "stop")  # these keys always work, so that nobody is locked in
_MOST_FOOTER = 4  # lines
_LEAVING = ("ctrl+c", "ctrl+q")
_TITLE_STYLES: dict[str, str] = {"strong": "bold reverse"}


def name_of(event: events.Key) -> str:
    """The key's name in the registry: its character where it has one, else Textual's name."""
    if event.key == "space":
        return "space"
    bare = event.key.removeprefix("shift+")
    if event.character is not None and event.is_printable and not bare.startswith(("ctrl+", "alt+", "super+", "meta+")):
        return event.character
    return event.key


class _LeftOver(NamedTuple):
    """Keys that are ignored until a moment, or longer while they keep coming."""

    ids: frozenset[str]
    until: float
    rest: float


def _opens_gate(key: keys.Key) -> bool:
    """Whether the key opens a gate; of the dangerous keys only undo acts at once."""
    return key.dangerous and key.id != "undo"


class FramedScreen(Screen[None], inherit_bindings=False):
    key_context: ClassVar[keys.KeyContext] = "queue"
    FOOTER: ClassVar[tuple[str, ...]] = ()
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self._status = Canvas(id="status")
        self._footer = Canvas(id="footer")
        self._footer.on_column = self._click_key
        self._frame = Vertical(id="frame")
        self.noticed: Line = ()
        self._left_over: _LeftOver | None = None
        self._titles: tuple[Line, str] | None = None

    @property
    def console(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    def body(self) -> Iterable[Widget]:
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with self._frame:
            yield self._status
            yield from self.body()
            yield self._footer

    def on_mount(self) -> None:
        self.header_changed()

    def on_screen_resume(self) -> None:
        self.header_changed()

    def on_screen_suspend(self) -> None:
        self._show_footer()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < SMALLEST[0] or event.size.height < SMALLEST[1], "-small")
        self.set_class(event.size.width >= 160, "-wide")
        self.call_after_refresh(self.header_changed)

    @property
    def is_small(self) -> bool:
        return self.has_class("-small")

    def header_changed(self) -> None:
        """Repaint the frame."""
        if not self.is_mounted:
            return
        header_state, size = self.console.header_state, self._inside
        self.set_class(header_state.mode == "live", "-live")
        self.set_class(header_state.read_only, "-read-only")
        self._entitle(
            title(header_state, size - 2), "READ-ONLY" if header_state.read_only else header_state.mode.upper()
        )
        asked = waits_segment(header_state.asked, keys.named("approve", self.console.setup.keys).shown)
        room = size - width(asked) - 3 if asked else size
        *above, told = status_lines(header_state, self.console.now(), room)
        _show_all(self._status, [*above, (*told, trusted("   "), *asked) if asked else told])
        self._show_footer()

    def _entitle(self, above: Line, below: str) -> None:
        """Set the titles only where they differ: setting one repaints the whole frame."""
        if self._titles != (above, below):
            self._titles = (above, below)
            self._frame.border_title = _content(above)
            self._frame.border_subtitle = _content(line(trusted(f" {below} ", "strong")))

    @property
    def is_typing(self) -> bool:
        """Whether keys go into a line of text."""
        return False

    def lead(self) -> Line:
        """What the footer shows before the keys."""
        return ()

    def hints(self) -> tuple[str, ...]:
        """Ids of the keys that the footer names, the most useful first."""
        return self.FOOTER

    def _show_footer(self) -> None:
        """Show the keys, or the last result until the next key; nothing while another screen is on top."""
        if self.app.screen is not self:
            _show_all(self._footer, [()])
            return
        if self.is_typing:
            hints = (one.hint for one in self.query(PromptLine) if one.is_asking)
            self._tell(self.noticed or next(hints, ()))
            return
        there = {key.id: key for key in self.console.keys_at(self.key_context)}
        size = self._inside
        shown = [there[name] for name in (*self.hints(), "help") if name in there]
        wanted = [key for key in shown if not (key.dangerous and self.is_small)]
        small = line(trusted("too small to act: 80x24 at least", "warning")) if self.is_small else ()
        lead = self.noticed or small or self.lead()
        self._tell(footer(wanted, size, lead=lead) if width(lead) <= size else lead)

    @property
    def _inside(self) -> int:
        """The columns inside the frame."""
        return max(10, self.size.width - 4)

    def _tell(self, cells: Line) -> None:
        """Show this in the footer, which grows where one line does not hold it: a cut sentence hides its remedy."""
        _show_all(self._footer, [*wrap(cells, self._inside)][:_MOST_FOOTER])

    def _click_key(self, x: int) -> None:
        """A click on a hint of the footer is its key; a hint is the key's cell and that of its label."""
        cells = self._footer.lines[0]
        at = cell_at(cells, x)
        if at is None or self.is_typing or self.app.screen is not self:
            return
        named = [cell.text for cell in cells[max(0, at - 1) : at + 1] if cell.tone == "key"]
        key = next((key for key in self.console.keys_at(self.key_context) if key.shown in named[-1:]), None)
        if key is not None:
            self.press(key)

    def show_notice(self, *parts: Line, tone: Tone | None = None) -> None:
        """Show a result in the footer until the next key."""
        cells = tuple(cell for part in parts for cell in part)
        self.noticed = tuple(trusted(cell.text, tone) for cell in cells) if tone else cells
        self._show_footer()

    def warn(self, text: str) -> None:
        self.show_notice(line(untrusted(text, limit=500)), tone="warning")

    def _hush(self) -> None:
        if self.noticed:
            self.noticed = ()
            self._show_footer()

    def take_key(self, event: events.Key) -> None:
        """Handle a key at once, so that the next key sees what it changed."""
        name = name_of(event)
        key = next((key for key in self.console.keys_at(self.key_context) if name in key.keys), None)
        if self._is_left_over(event, key):
            return
        if key is None:
            self._refuse_read_only(name)
            return
        self._left_over = None
        self.press(key)

    def _refuse_read_only(self, name: str) -> None:
        """Say why a key that acts elsewhere does nothing in a read-only console."""
        if self.console.header_state.read_only:
            acting = next((key for key in keys.at(self.key_context, self.console.setup.keys) if name in key.keys), None)
            if acting is not None:
                self.warn(keys.why_not(acting))

    def _is_left_over(self, event: events.Key, key: keys.Key | None) -> bool:
        """Whether the key was meant for a gate that did not open, or is an Enter held down since a gate closed."""
        name, held = key.id if key else "", self._left_over
        if held is None or event.time >= held.until or not held.ids & {name, "*"}:
            return False
        if name in _ALWAYS or event.key in _LEAVING or (key and _opens_gate(key)):
            return False
        self.ignore_keys(*held.ids, rest=held.rest)
        return True

    def ignore_keys(self, *key_ids: str, rest: float = _REST_SECONDS) -> None:
        """Ignore these keys (`*`: all) until none has come for `rest` seconds. `back` and `stop` always work."""
        rest = min(rest, self.console.setup.dead_seconds)
        self._left_over = _LeftOver(frozenset(key_ids), get_time() + rest, rest)

    def take_paste(self, text: str) -> None:
        """Ignore a paste; screens with a line of text override this."""

    def press(self, key: keys.Key) -> None:
        """Run the key's method, whether it was pressed, named or chosen from the palette."""
        self._hush()
        if key.dangerous and self.is_small:
            self.warn(f"{key.label}: the terminal is too small to act in; 80x24 at least")
        else:
            getattr(self, f"do_{key.action}")()
        if _opens_gate(key) and self.app.screen is self:
            self.ignore_keys("*")

    def start(self, work: Callable[[], Awaitable[None]], *, group: str, exclusive: bool) -> None:
        """Run work in the background. A new read cancels the older one of its group; acts are never cancelled."""

        async def watched() -> None:  # passed as a function: work that is cancelled at once never begins
            await self._watched(work, is_act=group == "act")

        self.run_worker(watched, group=group, exclusive=exclusive)  # type: ignore[arg-type]  # its union hides the result

    async def _watched(self, work: Callable[[], Awaitable[None]], *, is_act: bool) -> None:
        try:
            await work()
        except StoreError as problem:
            if is_act:
                from console.screens.error_dialog import Dialog

                title = line(trusted("It could not be done", "danger"))
                dead_seconds = self.console.setup.dead_seconds
                self.app.push_screen(Dialog(title, str(problem), dead_seconds=dead_seconds))
            elif self.is_mounted:
                self.warn(str(problem))

    def do_help(self) -> None:
        from console.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self.key_context))

    def do_theme(self) -> None:
        self.console.next_theme()

    def do_quit(self) -> None:
        self.console.leave()

    def do_back(self) -> None:
        if len(self.app.screen_stack) > 1:
            self.dismiss()


def _show_all(canvas: Canvas, lines: Sequence[Line]) -> None:
    """Show the lines in a canvas as high as they are; setting a height lays the screen out anew."""
    if len(lines) != len(canvas.lines):
        canvas.styles.height = len(lines)
    canvas.show(*lines)


def _content(cells: Line) -> Content:
    return Content.assemble(*((cell.text, _TITLE_STYLES.get(cell.tone, "")) for cell in cells))


class ReadingScreen(FramedScreen):
    def __init__(self) -> None:
        super().__init__()
        self.head = Canvas(id="head")
        self.text = TextPane(id="text")

    def body(self) -> Iterable[Widget]:
        yield self.head
        yield self.text

    def do_down(self) -> None:
        self.text.scroll_lines(1)

    def do_up(self) -> None:
        self.text.scroll_lines(-1)

    def do_page_down(self) -> None:
        self.text.scroll_lines(self.text.size.height - 1)

    def do_page_up(self) -> None:
        self.text.scroll_lines(1 - self.text.size.height)

    def do_top(self) -> None:
        self.text.scroll_to_line(0)

    def do_bottom(self) -> None:
        self.text.scroll_to_line(1 << 30)
