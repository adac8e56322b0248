"""The screen that chooses a store: from the config, from those opened lately, or typed in. Opens none itself."""

from __future__ import annotations

from collections.abc import Iterable

from textual import events
from textual.widget import Widget

from backends.store import BadTarget
from backends.target import parse_target
from console.render.line import Cell, Line, fit, line, trusted, untrusted
from console.screens.frame import FramedScreen
from console.settings.typed_store import typed_store
from console.text.password_mask import masked
from console.text.untrusted import safe
from console.widgets.canvas import Canvas
from console.widgets.choice_list import ChoiceList
from console.widgets.prompt_line import PromptLine
from console.widgets.text_pane import TextPane

_TYPED = "\0typed"
_NAME_LENGTH, _KIND_LENGTH = 24, 40


class AttachScreen(FramedScreen):
    key_context = "attach"

    def __init__(self, problem: str | None = None) -> None:
        super().__init__()
        self._problem = problem
        self._head = Canvas(id="head")
        self._said = TextPane(id="attach-problem")
        self._list = ChoiceList(id="choices")
        self._line = PromptLine(id="attach-prompt")

    def body(self) -> Iterable[Widget]:
        yield self._head
        yield self._list
        yield self._said
        yield self._line

    def on_mount(self) -> None:
        super().on_mount()
        self._head.show(line(trusted("Attach to a store", "strong"), trusted("   enter opens it", "dim")))
        typed = [(_TYPED, line(trusted(" another: type a path or a URL", "dim")))]
        self._list.put([*self._choices(), *([] if self.console.setup.served else typed)])
        self.failed(self._problem)

    def hints(self) -> tuple[str, ...]:
        """Offers `back` only where a store is attached."""
        return ("open", "down", "up", *(("back",) if self.console.session is not None else ()), "quit")

    def _choices(self) -> Iterable[tuple[str, Line]]:
        stores = self.console.setup.config.stores
        named = min(_NAME_LENGTH, max(map(len, stores), default=0))
        kinds = {name: safe(_kind(store.url), _KIND_LENGTH) for name, store in stores.items()}
        kind = max(map(len, kinds.values()), default=0)
        for name, store in stores.items():
            environment = f"environment {store.environment}" if store.environment else ""
            yield (
                name,
                line(
                    Cell(f" {fit(safe(name, _NAME_LENGTH), named)}  ", "strong"),
                    Cell(f"{fit(kinds[name], kind)}  ", "dim"),
                    trusted(f"{(store.mode or 'paper').upper():5}  "),
                    untrusted(environment, "dim", limit=40),
                ),
            )
        for target in () if self.console.setup.served else self.console.setup.recent:
            if target not in stores:
                yield target, line(untrusted(f" {masked(target)}", limit=200), trusted("  opened lately", "dim"))

    def failed(self, problem: str | None) -> None:
        """Show why the store could not be attached."""
        self._problem = problem
        self._said.set_class(problem is not None, "-shown")
        self._said.put([line(trusted("✗ ", "danger"), untrusted(problem, "danger", limit=500))] if problem else [])
        if problem is not None:
            self.restand_head()

    def restand_head(self) -> None:
        self._head.show(line(trusted("Attach to a store", "strong"), trusted("   enter opens it", "dim")))

    def take_key(self, event: events.Key) -> None:
        if not self._line.is_asking:
            super().take_key(event)
            return
        came = self._line.press(event)
        if came != "typing":
            self._line.rest()
            self._show_footer()
        if came == "given" and self._line.text.strip():
            self._open(self._line.text.strip())

    @property
    def is_typing(self) -> bool:
        return self._line.is_asking

    def take_paste(self, text: str) -> None:
        if self._line.is_asking:
            self._line.paste(text)

    def do_open(self) -> None:
        chosen = self._list.chosen
        if chosen == _TYPED:
            self._line.ask("target")
            self._show_footer()
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


def _kind(url: str) -> str:
    """The store's address without anything that could be a password."""
    try:
        return parse_target(url).label
    except BadTarget:
        return "its url cannot be read"
