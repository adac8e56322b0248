"""The Textual app: owns the screens, the attached session, the running work and a safe exit.

Knows no SQL and no venue; what it starts from comes in `AppSetup`.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual import events
from textual.app import App

from backends.first_page import FirstPage
from backends.store import StoreError
from console import keymap as keys
from console.app_setup import AppSetup, header_state_of
from console.render.entry import Alike, Shown
from console.render.line import line, trusted
from console.running_work import RunningWork
from console.screens.error_dialog import Dialog
from console.screens.frame import FramedScreen
from console.screens.gates.gate import Gate
from console.screens.queue.screen import QueueScreen
from console.services.browse.queue_order import ListedEntry, QueueSection
from console.services.browse.queue_window import Window
from console.services.layout_fields import LAYOUTS
from console.settings.config import StoreConfig
from console.terminal import output_guard as guard
from console.terminal.alarm import InDoubtAlarm
from console.theme.palette import chosen, following
from console.theme.textual_themes import colourless, depth_of, themes

if TYPE_CHECKING:
    from console.render.evidence.settlement import SettleDraft
    from console.services.browse.queue_order import View
    from console.services.index.keeper import IndexSupervisor
    from console.services.replay.background_run import RunProgress
    from console.services.session import Mode, StoreSession
    from console.services.triage.trail_filter import TrailQuery
    from console.services.triage.triage import ClassifiedEntry


_UNREACHABLE = 5
_PULSE_SECONDS = 0.1
_FIRST_PAGE_SECONDS = 0.25
_CALM_SECONDS = 0.5  # after attaching: the first page and its counts come first


class ConsoleApp(App[int], inherit_bindings=False):
    CSS_PATH = ["styles/frame.tcss", "styles/queue.tcss"]  # noqa: RUF012 - Textual wants a list
    ENABLE_COMMAND_PALETTE = False
    TITLE = "dlq"

    def __init__(self, setup: AppSetup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        guard.install()
        self.setup = setup
        self.session: StoreSession | None = None
        self.activity = RunningWork()
        self.settle_drafts: dict[tuple[str, str, int], SettleDraft] = {}  # what waits for a second person
        self.crashed: str | None = None
        self.alarm = InDoubtAlarm(self._to_terminal, wanted=setup.config.alarm)
        self.queue = cast("QueueScreen", None)  # set by get_default_screen, before any screen is shown
        self._leaving = False
        self.wants_demo = False
        self._supervisor: IndexSupervisor | None = None
        self.header_state = header_state_of(setup, setup.store)
        self.venue_types = setup.config.venue_types
        self.key_names = {key.id: key.shown for key in setup.keys}
        depth = depth_of(self.console.color_system)
        self.set_class(depth == "16", "-sixteen-colours")
        for theme in themes(depth):
            self.register_theme(theme)
        self.theme = f"dlq-{chosen(setup.config.theme)}"
        if self.no_color:
            self._filters = colourless(self._filters)

    @property
    def mode(self) -> Mode:
        return "live" if self.header_state.mode == "live" else "paper"

    def name_of_key(self, key_id: str) -> str:
        """The key as it is mapped, for hints."""
        return self.key_names[key_id]

    def now(self) -> datetime:
        return self.setup.clock()

    def keys_at(self, session: keys.KeyContext) -> tuple[keys.Key, ...]:
        layout = LAYOUTS[self.header_state.layout]
        origin = None if layout.has_modes else layout.words.origin
        return keys.at(session, self.setup.keys, read_only=self.header_state.read_only, origin=origin)

    async def on_event(self, event: events.Event) -> None:
        """Hand keys straight to the screen: in the message queues of widgets one key could overtake another."""
        screen = self.screen if self.screen_stack else None
        if isinstance(screen, FramedScreen | Gate | Dialog) and not event.is_forwarded:
            if isinstance(event, events.Key):
                screen.take_key(event)
                return
            if isinstance(event, events.Paste):
                screen.take_paste(event.text)
                return
        await super().on_event(event)

    def get_default_screen(self) -> QueueScreen:
        """Start with the queue and the first page, which was read while the app was loading."""
        page = self._first_page()
        if page is not None:
            self.header_state = self.header_state._replace(label=page.label, layout=page.layout)
        self.queue = QueueScreen(None if page is None else _window(page))
        return self.queue

    def _first_page(self) -> FirstPage | None:
        if self.setup.first_page is None:
            return None
        try:
            return self.setup.first_page.result(_FIRST_PAGE_SECONDS)
        except TimeoutError:
            return None  # slow disk: the queue reads its first page after attaching

    def on_mount(self) -> None:
        if self.setup.store is None:
            self.choose_store()

    def attach(self, store: StoreConfig) -> None:
        if self.session is not None and (why := self._why_stay()) is not None:
            self.choose_store(problem=why)
            return
        self.run_worker(self._open_store(store), group="attach", exclusive=True)

    async def _open_store(self, store: StoreConfig) -> None:
        try:
            session = await self.setup.attach(store)
        except StoreError as problem:
            self.update_header(attaching=False)
            told = str(problem)
            self.choose_store(problem=told if told.startswith(store.name) else f"{store.name}: {told}")
            return
        await self._switch_to(session, store)

    def _why_stay(self) -> str | None:
        """Why the attached store cannot be left now; None where it can."""
        acts = any(worker.group == "act" and not worker.is_finished for worker in self.workers)
        return "something is being done on this store: ! stops it, then switch" if acts else None

    async def _switch_to(self, session: StoreSession, store: StoreConfig) -> None:
        """Show the store that was just opened and close the one before."""
        old = self.session
        if old is not None and (why := self._why_stay()) is not None:
            await session.aclose()
            self.queue.warn(why)
            return
        self._clear_screens()
        if old is not None:
            session.carry_on(old)
        self.session = session
        before, self.header_state = self.header_state, header_state_of(self.setup, store)
        info = session.info
        self.update_header(label=info.label, read_only=info.read_only, layout=info.layout)
        self.update_header(is_known=info.ledger_is_readable)
        self.update_header(attaching=False, attached=True, running=before.running, waiting=before.waiting)
        is_named = self.setup.config.stores.get(store.name) == store
        if not is_named and store.name.startswith("postgres "):
            self.update_header(store=info.label)  # which of its hosts answered is known by now
        if not is_named:  # the config's own stores are listed anyway
            self.setup.remember(store.url)
        self.queue.attached(fresh=old is not None)
        if self.setup.watch:
            self.run_worker(self._supervise_index(session, store), group="watch", exclusive=True)
        self.setup.loaded()
        if old is not None:
            await old.aclose()

    def _clear_screens(self) -> None:
        """Leave nothing of the previous store on the screen."""
        if self.session is not None:
            while self.screen is not self.queue:
                self.pop_screen()
            self.queue.forget()
            self.settle_drafts.clear()
        elif isinstance(self.screen, FramedScreen) and self.screen.key_context == "attach":
            self.pop_screen()

    async def _supervise_index(self, session: StoreSession, store: StoreConfig) -> None:
        """Keep the index in a process of its own; a read-only console only uses an index that is there."""
        from console.services.index.keeper import IndexSupervisor

        await asyncio.sleep(_CALM_SECONDS)
        keep = self.setup.keep if store.has_index and not self.header_state.read_only else None
        if self._supervisor is not None:
            await self._supervisor.aclose()
        self._supervisor = IndexSupervisor(
            session, partial(keep, store) if keep else None, lambda: self.header_state.counts
        )
        await self._supervisor.run(self.update_header)

    def update_header(self, **changes: Any) -> None:
        """Change what the frame shows on every open screen."""
        self.header_state = self.header_state._replace(**changes)
        for screen in self.screen_stack:
            if isinstance(screen, FramedScreen):
                screen.header_changed()

    def set_mode(self, mode: Mode) -> None:
        self.update_header(mode=mode)

    async def shown(self, entry_id: str) -> Shown | None:
        """The entry with its history and what was found in its action."""
        if self.session is None:
            return None
        history = await self.session.triage.history(entry_id)
        if history is None:
            return None
        shown = self.shown_row(history.entry)._replace(history=history, alike=await self._alike(history.entry))
        if shown.read_only:
            return shown
        read = self.session.read_action(history.entry.entry)
        return shown._replace(findings=read.findings, notes=read.notes, action=read.action)

    def shown_row(self, row: ClassifiedEntry) -> Shown:
        """The entry as its row has it, before its history is read."""
        return Shown(row, read_only=self.header_state.read_only, keys=self.key_names, types=self.venue_types)

    async def _alike(self, row: ClassifiedEntry) -> Alike | None:
        """How many fail in the same way, where the index knows."""
        if self.session is None or row.entry.state != "pending":
            return None
        found = await (await self.session.index_status()).alike(row.fingerprint)
        return None if found is None else Alike(*found)

    def begin(self, run: RunProgress) -> None:
        """Start a batch. It runs on when its screen is closed."""
        run.store = self.header_state.store
        self.activity.take(run.start())
        self.setup.loaded()
        self._pulse = self.set_interval(_PULSE_SECONDS, self._follow)
        self.show_batch()

    def show_batch(self) -> None:
        from console.screens.batch import BatchScreen

        if self.activity.run is None:
            self.queue.warn("no batch has run since the console was opened")
        elif not isinstance(self.screen, BatchScreen):
            opened = BatchScreen()
            self.push_screen(opened)
            opened.ignore_keys("open")  # an Enter held down since the gate

    def _follow(self) -> None:
        run = self.activity.run
        if run is None:
            return
        is_told = run.over or run.word == self.header_state.running
        if not self.activity.follow() and is_told:
            return
        self.update_header(running=None if run.over else run.word, waiting=self.activity.waiting)
        if run.over:
            self._pulse.stop()
            self.queue.changed()
            if self._leaving:
                self.exit(0)

    def close_from_outside(self, code: int) -> None:
        """End the app from any thread. A blocked event loop does not notice it."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.exit, 0, code)

    def leave(self) -> None:
        """Quit; while something runs, ask first and stop it between entries."""
        from console.screens.gates.prompts import WordGate, exactly

        if not self.activity.is_busy:
            self.exit(0)
            return
        text = "It stops after the entry it is on, its outcomes are recorded, then the console ends."
        title = line(trusted("Quit while something runs"))
        gate = WordGate(title, [line(trusted(text))], ask="type quit", judge=exactly("quit"))

        def answered(answer: str | None) -> None:
            if answer is None:
                return
            self._leaving = True
            self.activity.stop()
            if not self.activity.has_batch:
                self.exit(0)

        self.push_screen(gate, answered)

    def leave_for_demo(self) -> None:
        """End this console; the command line then opens the demo."""
        self.wants_demo = True
        self.exit(0)

    def next_theme(self) -> None:
        self.theme = f"dlq-{following(self.theme.removeprefix('dlq-'))}"

    def use_theme(self, name: str) -> bool:
        known = chosen(name) == name
        if known:
            self.theme = f"dlq-{name}"
        return known

    def choose_store(self, problem: str | None = None) -> None:
        from console.screens.attach import AttachScreen

        if isinstance(self.screen, AttachScreen):
            self.screen.failed(problem)
        else:
            self.push_screen(AttachScreen(problem))

    def list_in_queue(self, text: str) -> None:
        """Leave every other screen and list what this filter finds."""
        while self.screen is not self.queue:
            self.pop_screen()
        self.queue.filter_by(text)

    def open_palette(self) -> None:
        from console.screens.command_palette import open_palette

        open_palette(self)

    def command(self, text: str) -> None:
        from console.screens.command_line import run_command

        run_command(self, text)

    async def export_view(self, view: View) -> None:
        from console.screens.export import export_view

        await export_view(self, view)

    async def export_batch(self) -> None:
        from console.screens.export import export_batch

        await export_batch(self)

    async def export_audit(self, query: TrailQuery | None = None) -> None:
        """The whole trail, or what of it matches."""
        from console.screens.export import export_audit

        await export_audit(self, query)

    def _to_terminal(self, codes: str) -> None:
        if self._driver is not None:
            self._driver.write(codes)

    async def on_unmount(self) -> None:
        self.alarm.end()
        if self._supervisor is not None:
            await self._supervisor.aclose()
        if self.session is not None:
            await self.session.aclose()

    def exit(self, result: int | None = None, return_code: int = 0, message: Any = None) -> None:
        failed = self.session is None and self.setup.store is not None and not self.header_state.attaching
        if failed and not return_code:
            return_code = _UNREACHABLE
        super().exit(result, return_code, message)

    def _handle_exception(self, error: Exception) -> None:
        """Report a bug without its message, source or locals, which may hold secrets, and exit with an error code."""
        from console.terminal.crash_report import CRASHED, describe

        self._return_code = CRASHED
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
            self.crashed = describe(error)
        self._close_messages_no_wait()

    def panic(self, *_: Any) -> None:
        from console.terminal.crash_report import CRASHED

        self.crashed = self.crashed or "this is a bug in reading the terminal; acts are complete or undone"
        self._return_code = CRASHED
        self._close_messages_no_wait()


def _window(page: FirstPage) -> Window:
    window = Window()
    spots = [ListedEntry(0, entry) for entry in page.held] + [ListedEntry(1, entry) for entry in page.entries]
    window.start(QueueSection(tuple(spots), page.more))
    return window
