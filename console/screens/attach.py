"""The screen that chooses a store: the config's, those opened lately, one that is typed, or the demo. Opens none."""

from __future__ import annotations

from collections.abc import Iterable

from textual import events
from textual.widget import Widget

from backends.store import BadTarget
from backends.target import parse_target
from console.render.line import Line, line, trusted, untrusted, wrap
from console.render.store_choice import config_line, offer_lines, recent_line, store_lines
from console.screens.frame import FramedScreen, name_of
from console.services.store_glance import StoreGlance
from console.settings.config import StoreConfig
from console.settings.typed_store import typed_store
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList
from console.widgets.prompt_line import PromptLine
from console.widgets.text_pane import TextPane

_MOVING = ("down", "up", "top", "bottom")  # also where the cursor stands on the row for another store
_TYPED, _DEMO = "\0typed", "\0demo"


class AttachScreen(FramedScreen):
    key_context = "attach"

    def __init__(self, problem: str | None = None) -> None:
        super().__init__()
        self._problem = problem
        self._head = Canvas(id="head")
        self._said = TextPane(id="attach-problem")
        self._list = ChoiceList(id="choices")
        self._list.on_move = self._moved
        self._line = PromptLine(id="attach-prompt")
        self._where = Canvas(id="attach-config")
        self._glances: dict[str, StoreGlance | None] = {}

    def body(self) -> Iterable[Widget]:
        yield self._head
        yield self._list
        yield self._said
        yield self._line
        yield self._where

    def on_mount(self) -> None:
        super().on_mount()
        setup = self.console.setup
        self._head.show(self._title())
        if setup.glance is not None:
            self._glances = dict.fromkeys(setup.config.stores)
            for store in setup.config.stores.values():
                self._look_at(store)
        self._put()
        self.failed(self._problem)

    def _look_at(self, store: StoreConfig) -> None:
        """Each store on its own: one that does not answer holds no other up."""

        async def look() -> None:
            assert self.console.setup.glance is not None
            self._glances[store.name] = await self.console.setup.glance(store)
            self._put()

        self.start(look, group="glance", exclusive=False)

    def _put(self) -> None:
        if not self.is_mounted:
            return
        self._list.put([*self._choices()])
        path, exists = self.console.setup.config_path
        if path:
            lines = [*wrap(config_line(path, exists=exists), max(20, self.size.width - 4))]
            self._where.styles.height = len(lines)
            self._where.show(*lines)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._put)

    def hints(self) -> tuple[str, ...]:
        """Offers `back` only where a store is attached."""
        return ("open", "down", "up", *(("back",) if self.console.session is not None else ()), "quit")

    def _title(self) -> Line:
        return line(trusted("Attach to a store", "strong"), trusted("   enter opens it", "dim"))

    def _choices(self) -> Iterable[tuple[str, Line]]:
        setup = self.console.setup
        stores = setup.config.stores
        yield from store_lines(stores, self._glances, max(20, self.size.width - 4))
        if setup.served:
            return
        for target in setup.recent:
            if target not in stores:
                yield target, recent_line(target)
        first_run = self.console.session is None and setup.offers_demo
        yield from offer_lines(demo=_DEMO if first_run else None, typed=_TYPED)

    def failed(self, problem: str | None) -> None:
        """Show why the store could not be attached."""
        self._problem = problem
        self._said.set_class(problem is not None, "-shown")
        self._said.put([line(trusted("✗ ", "danger"), untrusted(problem, "danger", limit=500))] if problem else [])
        if problem is not None:
            self._head.show(self._title())

    def take_key(self, event: events.Key) -> None:
        """A line that is being typed takes every key; a character that is no key of this screen begins one."""
        if not self._line.is_asking and self._begins_line(event):
            self._line.ask("target")
        if not self._line.is_asking:
            super().take_key(event)
            return
        came = self._line.press(event)
        if came != "typing":
            self._line.rest()
        self._show_footer()
        if came == "given" and self._line.text.strip():
            self._open(self._line.text.strip())

    def _begins_line(self, event: events.Key) -> bool:
        if self.console.setup.served or not (event.is_printable and (event.character or "").strip()):
            return False
        there = self.console.keys_at(self.key_context)
        key = next((key for key in there if name_of(event) in key.keys), None)
        return key is None or (self._list.chosen == _TYPED and key.id not in (*_MOVING, "quit"))

    @property
    def is_typing(self) -> bool:
        return self._line.is_asking

    def take_paste(self, text: str) -> None:
        if self.console.setup.served:
            return
        if not self._line.is_asking:
            self._line.ask("target")
            self._show_footer()
        self._line.paste(text)

    def _moved(self) -> None:
        """The row for another store shows where its line is."""
        if self.is_mounted and not self._line.is_asking:
            self._line.rest(line(trusted("path or URL: ", "accent")) if self._list.chosen == _TYPED else ())

    def do_open(self) -> None:
        chosen = self._list.chosen
        if chosen == _TYPED:
            self._line.ask("target")
            self._show_footer()
        elif chosen == _DEMO:
            self.console.leave_for_demo()
        elif chosen is not None:
            self._open(chosen)

    def _open(self, target: str) -> None:
        known = self.console.setup.config.stores.get(target)
        try:
            if known is None:
                parse_target(target)
        except BadTarget as problem:
            self.failed(str(problem))
            return
        self.failed(None)
        self._head.show(line(trusted("attaching …", "accent")))
        self.console.attach(known or typed_store(target))

    def on_choice_list_opened(self) -> None:
        self.do_open()

    def do_back(self) -> None:
        if self.console.session is not None:
            self.dismiss()

    def do_down(self) -> None:
        self._list.move_by(1)

    def do_up(self) -> None:
        self._list.move_by(-1)

    def do_page_down(self) -> None:
        self._list.page(1)

    def do_page_up(self) -> None:
        self._list.page(-1)

    def do_top(self) -> None:
        self._list.move_to(0)

    def do_bottom(self) -> None:
        self._list.move_to(1 << 30)
