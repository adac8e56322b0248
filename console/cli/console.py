"""The composition root of the screens: store, credentials and first page are put together here, then the app runs."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING

from dlq_sink.error import BadTarget

from backends.target import parse_target
from console import clock
from console.cli.context import Context, is_terminal, keeper_of, with_password
from console.cli.parser import UsageError
from console.keymap import remapped
from console.settings.config import StoreConfig, default_path

if TYPE_CHECKING:
    from textual.driver import Driver

    from backends.first_page import FirstPage
    from backends.first_page.page import ComingPage
    from console.app import ConsoleApp
    from console.app_setup import AppSetup
    from console.services.index.keeper import IndexProcess
    from console.services.session import StoreSession
    from console.services.store_glance import StoreGlance
    from console.terminal.first_frame import Settings


FIRST_ROWS = 120  # more than the tallest screen shows
_FIRST_FRAME_SECONDS = 0.05  # for the rows of a file
_LOADED_SECONDS = 2.0  # for the driver: the screens would load no faster beside it
# What the screens need anyway, loaded in steps while a server is still answering.
_MEANWHILE = ("rich.console", "rich.text", "textual.css.styles", "textual.widget", "textual.app", "console.app")


def open_console(context: Context) -> int:
    served = _is_served()
    if not served and not all(map(is_terminal, (sys.stdin, sys.stdout, sys.stderr))):
        raise UsageError("the console needs a terminal; without one: dlq list, dlq show, dlq replay --dry-run")
    setup = _setup(context)
    with _first_frame(setup, served=served) as before:
        from console.app import ConsoleApp

        app = ConsoleApp(setup, driver_class=_driver(before, served=served))
    code = _run(app, before)
    if app.wants_demo:
        from console.cli.setup_commands import demo_verb

        return demo_verb(context)
    return code


def _is_served() -> bool:
    """Whether `dlq serve` started this console."""
    return os.environ.get("DLQ_SERVED") == "1"


def _setup(context: Context) -> AppSetup:
    from console.app_setup import AppSetup
    from console.settings.filter_history import FilterHistory
    from console.settings.recent_stores import Recent

    store, recent, typed = _store(context), Recent(os.environ), FilterHistory(os.environ)
    return AppSetup(
        config=context.config,
        actor=context.actor,
        clock=clock.now,
        attach=lambda settings: attach(context, settings),
        store=store,
        read_only=context.args.read_only,
        served=_is_served(),
        live_allowed=not _is_served() or os.environ.get("DLQ_SERVED_LIVE") == "1",
        keys=remapped(context.config.keymap),
        first_page=_begin_first_page(context, store),
        open_id=context.args.open,
        config_path=_config_path(context),
        glance=lambda settings: look_at(context, settings),
        offers_demo=not context.args.read_only and not _is_served(),
        recent=recent.read(),
        remember=recent.add,
        filters=typed.read(),
        remember_filter=typed.add,
        loaded=gc.freeze,  # a collection that looks at all of it would be felt at the keyboard
        keep=lambda settings: _keeper(context, settings),
    )


def _config_path(context: Context) -> tuple[str, bool]:
    path = context.config.path
    return (str(path), True) if path is not None else (str(default_path(os.environ)), False)


def _keeper(context: Context, settings: StoreConfig) -> IndexProcess:
    return keeper_of(context, settings.name if context.config.stores.get(settings.name) == settings else settings.url)


@contextmanager
def _first_frame(setup: AppSetup, *, served: bool) -> Iterator[Settings | None]:
    """The first rows while the screens are being loaded, which takes longer than reading them.

    Yields the terminal's settings from before; None where nothing was painted.
    """
    from console.app_setup import header_state_of
    from console.terminal import first_frame as prelude
    from console.theme.palette import PALETTES, chosen

    page = _page_soon(setup.first_page) if setup.first_page is not None and not served else None
    look = prelude.look_of(os.environ, os.get_terminal_size(sys.stderr.fileno())) if page is not None else None
    if page is None or look is None:
        yield None
        return
    header_state = header_state_of(setup, setup.store)._replace(label=page.label, layout=page.layout)
    palette = PALETTES["true" if look.colours == "none" else look.colours][chosen(setup.config.theme)]
    with prelude.painted(prelude.frame(page, header_state, setup.clock(), look, palette)) as before:
        yield before


def _page_soon(coming: ComingPage) -> FirstPage | None:
    """The page if it comes before the screens are loaded."""
    with suppress(TimeoutError):
        return coming.result(_FIRST_FRAME_SECONDS)
    for name in _MEANWHILE:
        if coming.done():
            break
        import_module(name)
    return coming.result() if coming.done() else None


def _run(app: ConsoleApp, before: Settings | None) -> int:
    from console.terminal.shutdown import ShutdownHandler, ShutdownSteps

    end = ShutdownSteps(stop=app.activity.stop_batch, drain=app.activity.drain, close=app.close_from_outside)
    gc.freeze()  # what is loaded by now is no garbage, and looking for some in it would delay the first rows
    gc.enable()
    with ShutdownHandler(end, before) as departure:
        app.run()
    app.activity.drain()
    if app.crashed is not None:
        print(f"dlq: {app.crashed}", file=sys.stderr)
    if departure.signal is not None:
        return 128 + departure.signal
    return app.return_code or 0


def _driver(before: Settings | None, *, served: bool) -> type[Driver] | None:
    if served:
        from textual.drivers.web_driver import WebDriver

        return WebDriver
    if before is None:
        return None
    from console.terminal.takeover_driver import ContinuingDriver

    ContinuingDriver.before = before
    return ContinuingDriver


def _begin_first_page(context: Context, store: StoreConfig | None) -> ComingPage | None:
    if store is None or store.hub_url is not None:
        return None
    target, table = parse_target(store.url), context.args.table or store.table
    from backends.first_page.page import ComingPage

    coming = ComingPage()
    loaded = threading.Event()

    def read() -> None:
        from backends.first_page import read_first_page

        try:
            known = with_password(target, store, context.config)
            coming.set_result(read_first_page(known, limit=FIRST_ROWS, table=table, loaded=loaded.set))
        except BadTarget:
            coming.set_result(None)  # the store says why it cannot be opened
        finally:
            loaded.set()

    threading.Thread(target=read, name="dlq-first-page", daemon=True).start()
    loaded.wait(_LOADED_SECONDS)
    return coming


def _store(context: Context) -> StoreConfig | None:
    if not (context.args.db or os.environ.get("DLQ_DB")):
        return None
    return context.store_config


async def attach(context: Context, settings: StoreConfig) -> StoreSession:
    import asyncio  # not before the first rows

    # SQLAlchemy takes a while to load: off the loop, so that keys are answered meanwhile.
    await asyncio.to_thread(_load)
    from console.services.session import StoreSession

    return await StoreSession.attach(context.session_settings(settings, own_loops=True))


async def look_at(context: Context, settings: StoreConfig) -> StoreGlance:
    """How a store stands that nobody has attached to; only reads, whatever the console may."""
    import asyncio

    await asyncio.to_thread(_load)
    from console.cli.context import open_configured
    from console.services.store_glance import glance

    table = context.args.table or settings.table
    return await glance(lambda: open_configured(settings, context.config, read_only=True, table=table))


def _load() -> None:
    import backends.sql.store  # noqa: F401 - loaded for its own sake
    import console.services.index.status  # noqa: F401 - likewise
