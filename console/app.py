"""The console: which screen is up, which store is attached, what runs, and how to leave safely."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from textual.app import App

from backends.store import StoreError
from console import guard, keys
from console.config import StoreConfig
from console.crash import CRASHED, describe
from console.render.entry import Shown
from console.render.line import line, own
from console.render.status import Standing
from console.screens.framed import FramedScreen
from console.screens.queue import QueueScreen
from console.services.lineup import Spot, Stretch, View
from console.services.window import Window
from console.services.workplace import Workplace
from console.setup import FirstPage, Setup
from console.theme import THEMES

if TYPE_CHECKING:
    from console.services.run import Run
    from console.services.workplace import Mode

_UNREACHABLE = 5
_PULSE_SECONDS = 0.1


class Act:
    """An act on the store that is under way on this loop."""

    def __init__(self) -> None:
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def is_stopped(self) -> bool:
        return self._stopped


class ConsoleApp(App[int], inherit_bindings=False):
    CSS_PATH = "styles/frame.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "dlq"

    def __init__(self, setup: Setup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        guard.install()
        self.setup = setup
        self.place: Workplace | None = None
        self.run_now: Run | None = None
        self.crashed: str | None = None
        self.queue = cast("QueueScreen", None)  # made on mount, before anything can ask for it
        self._acts: list[Act] = []
        self._leaving = False
        self.mode: Mode = "paper"
        self.standing = self._first_standing(setup.store)
        for theme in THEMES:
            self.register_theme(theme)
        wanted = f"dlq-{setup.config.theme or 'dark'}"
        self.theme = wanted if wanted in {theme.name for theme in THEMES} else THEMES[0].name

    def _first_standing(self, store: StoreConfig | None) -> Standing:
        name = store.name if store else "no store"
        self.mode = "live" if store is not None and store.mode == "live" and not self.setup.read_only else "paper"
        return Standing(
            store=name,
            label=name,
            operator=self.setup.actor.operator,
            mode=self.mode,
            read_only=self.setup.read_only,
            attaching=store is not None,
        )

    def now(self) -> datetime:
        return self.setup.clock()

    def keys_at(self, place: keys.Place) -> tuple[keys.Key, ...]:
        return keys.at(place, self.setup.keys, read_only=self.standing.read_only)

    async def on_mount(self) -> None:
        self.queue = QueueScreen()
        await self.push_screen(self.queue)
        if self.setup.store is None:
            self.choose_store()
            return
        first = self.setup.first_page
        if first is not None:
            page = await asyncio.wrap_future(first)
            if page is not None:
                self._preview(page)
        self.call_after_refresh(self.attach, self.setup.store)

    def _preview(self, page: FirstPage) -> None:
        window = Window()
        spots = [Spot(0, entry) for entry in page.held] + [Spot(1, entry) for entry in page.entries]
        window.start(Stretch(tuple(spots), page.more))
        self.restand(label=page.label)
        self.queue.preview(window)

    def attach(self, store: StoreConfig) -> None:
        self.run_worker(self._open_store(store), group="attach", exclusive=True)

    async def _open_store(self, store: StoreConfig) -> None:
        try:
            place = await self.setup.attach(store)
        except StoreError as problem:
            self.restand(attaching=False)
            self.choose_store(problem=f"{store.name}: {problem}")
            return
        old, self.place = self.place, place
        if old is not None:
            await old.aclose()
        self.standing = self._first_standing(store)
        self.restand(label=place.info.label, read_only=place.info.read_only, attaching=False)
        self.setup.remember(store.name if store.name in self.setup.config.stores else store.url)
        self.queue.attached(fresh=old is not None)

    def restand(self, **changes: Any) -> None:
        """What the frame says changes, on whichever screens are up."""
        self.standing = replace(self.standing, **changes)
        for screen in self.screen_stack:
            if isinstance(screen, FramedScreen):
                screen.stood()

    def set_mode(self, mode: Mode) -> None:
        self.mode = mode
        self.restand(mode=mode)

    async def shown(self, entry_id: str) -> Shown | None:
        """An entry with its whole story."""
        if self.place is None:
            return None
        history = await self.place.triage.history(entry_id)
        if history is None:
            return None
        read_only = self.standing.read_only
        findings: tuple[str, ...] = ()
        notes: tuple[str, ...] = ()
        if not read_only:
            findings, notes = self.place.read_action(history.entry.entry)
        return Shown(history.entry, history, findings, notes, read_only)

    @contextmanager
    def acting(self) -> Iterator[Act]:
        act = Act()
        self._acts.append(act)
        try:
            yield act
        finally:
            self._acts.remove(act)

    def begin(self, run: Run) -> None:
        """Start a batch; it goes on whatever becomes of the screens."""
        self.run_now = run.start()
        self._pulse = self.set_interval(_PULSE_SECONDS, self._follow)
        self.show_batch()

    def show_batch(self) -> None:
        from console.screens.batch import BatchScreen

        if self.run_now is None:
            self.queue.complain("no batch has run since the console was opened")
        elif not isinstance(self.screen, BatchScreen):
            self.push_screen(BatchScreen())

    def _follow(self) -> None:
        from console.screens.batch import BatchScreen

        run = self.run_now
        if run is None:
            return
        fresh = run.drain()
        if run.over:
            self._pulse.stop()
            run.problem = self._ended(run)
            self.queue.changed()
        self.restand(running=None if run.over else run.word)
        for screen in self.screen_stack:
            if isinstance(screen, BatchScreen) and (fresh or run.over):
                screen.landed()
        if run.over and self._leaving:
            self.exit(0)

    def _ended(self, run: Run) -> str | None:
        try:
            run.batch.join()
        except StoreError as problem:
            return str(problem)
        return None

    def stop(self) -> str:
        """At once, without asking. What it came to, in words."""
        for act in self._acts:
            act.stop()
        run = self.run_now
        if run is not None and not run.over:
            run.stop()
            return "stopping: what has begun is brought to its end, nothing new is begun"
        return "stopping" if self._acts else "nothing is running"

    def leave(self) -> None:
        """Quit; while something runs, ask first, then let it come to its end."""
        from console.screens.gate_word import WordGate, exactly

        run = self.run_now
        busy = run is not None and not run.over
        if not busy and not self._acts:
            self.exit(0)
            return
        text = "It is stopped between entries, its outcomes are recorded, then the console ends."
        gate = WordGate(
            line(own("Quit while something runs")), [line(own(text))], ask="type quit", judge=exactly("quit")
        )

        def answered(answer: str | None) -> None:
            if answer is None:
                return
            self._leaving = True
            self.stop()
            if not busy:
                self.exit(0)

        self.push_screen(gate, answered)

    def next_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        self.theme = names[(names.index(self.theme) + 1) % len(names)]

    def use_theme(self, name: str) -> bool:
        known = f"dlq-{name}" in {theme.name for theme in THEMES}
        if known:
            self.theme = f"dlq-{name}"
        return known

    def choose_store(self, problem: str | None = None) -> None:
        from console.screens.attach import AttachScreen

        if isinstance(self.screen, AttachScreen):
            self.screen.failed(problem)
        else:
            self.push_screen(AttachScreen(problem))

    def open_palette(self) -> None:
        from console.screens.palette import open_palette

        open_palette(self)

    def command(self, text: str) -> None:
        from console.screens.command import run_command

        run_command(self, text)

    async def export_view(self, view: View) -> None:
        from console.screens.export import export_view

        await export_view(self, view)

    async def export_batch(self) -> None:
        from console.screens.export import export_batch

        await export_batch(self)

    async def export_audit(self) -> None:
        from console.screens.export import export_audit

        await export_audit(self)

    async def on_unmount(self) -> None:
        if self.place is not None:
            await self.place.aclose()

    def exit(self, result: int | None = None, return_code: int = 0, message: Any = None) -> None:
        if self.place is None and self.setup.store is not None and not return_code:
            return_code = _UNREACHABLE
        super().exit(result, return_code, message)

    def _handle_exception(self, error: Exception) -> None:
        """A bug: no locals, no source, no message of its own reaches a terminal; the exit code says it failed."""
        self._return_code = CRASHED
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
            self.crashed = describe(error)
        self._close_messages_no_wait()

    def panic(self, *_: Any) -> None:
        self.crashed = self.crashed or "this is a bug in reading the terminal; acts are complete or undone"
        self._return_code = CRASHED
        self._close_messages_no_wait()
