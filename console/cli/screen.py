"""The composition root of the screens: store, credentials and first page are put together here, then the app runs."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from backends.target import parse_target
from console import clock
from console.cli.arguments import UsageError
from console.cli.context import Context
from console.config import StoreConfig
from console.keys import remapped

if TYPE_CHECKING:
    from textual.driver import Driver

    from backends.firstpage import FirstPage
    from backends.store import Store
    from console.app import ConsoleApp
    from console.services.desk import CredentialSource
    from console.services.foreign import Tools
    from console.services.workplace import Workplace


FIRST_ROWS = 120  # more than the tallest screen shows


def open_console(context: Context) -> int:
    served = os.environ.get("DLQ_SERVED") == "1"  # set by `dlq serve` for its own children
    if not served and not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError("the console needs a terminal; without one: dlq list, dlq show, dlq replay --dry-run")
    keys = remapped(context.config.keymap)
    store = _store(context)
    first_page = _begin_first_page(context, store)  # reads while the screens are being loaded
    from console.app import ConsoleApp
    from console.recent import Recent
    from console.setup import Setup

    recent = Recent(os.environ)
    setup = Setup(
        config=context.config,
        actor=context.actor,
        clock=clock.now,
        attach=lambda settings: attach(context, settings),
        store=store,
        read_only=context.args.read_only,
        keys=keys,
        first_page=first_page,
        open_id=context.args.open,
        recent=recent.read(),
        remember=recent.add,
    )
    return _run(ConsoleApp(setup, driver_class=_web_driver() if served else None))


def _run(app: ConsoleApp) -> int:
    from console.departure import Departure

    with Departure(stop=app.activity.stop_batch, drain=app.activity.drain, close=app.close_from_outside) as departure:
        app.run()
    app.activity.drain()
    if app.crashed is not None:
        print(f"dlq: {app.crashed}", file=sys.stderr)
    if departure.signal is not None:
        return 128 + departure.signal
    return app.return_code or 0


def _web_driver() -> type[Driver]:
    from textual.drivers.web_driver import WebDriver

    return WebDriver


def _begin_first_page(context: Context, store: StoreConfig | None) -> Future[FirstPage | None] | None:
    if store is None:
        return None
    target = parse_target(store.url)
    coming: Future[FirstPage | None] = Future()

    def read() -> None:
        from backends.firstpage import read_first_page

        coming.set_result(read_first_page(target, limit=FIRST_ROWS, table=context.args.table or store.table))

    threading.Thread(target=read, name="dlq-first-page", daemon=True).start()
    return coming


def _store(context: Context) -> StoreConfig | None:
    if not (context.args.db or os.environ.get("DLQ_DB")):
        return None
    return context.store_config


async def attach(context: Context, settings: StoreConfig) -> Workplace:
    # SQLAlchemy takes a while to load: off the loop, so that keys are answered meanwhile.
    await asyncio.to_thread(_load)
    from console.services.workplace import Setting, Workplace

    setting = Setting(
        config=context.config,
        store=settings,
        actor=context.actor,
        clock=clock.now,
        open=lambda: open_settled(context, settings),
        credentials=lambda: _credentials(context),
        tools=lambda: _tools(context, settings),
    )
    return await Workplace.attach(setting)


def _load() -> None:
    import backends.sql.store  # noqa: F401 - loaded for its own sake


async def open_settled(context: Context, settings: StoreConfig) -> Store:
    from console.cli.opening import open_configured

    return await open_configured(
        settings,
        read_only=context.args.read_only,
        table=context.args.table,
        password=await asyncio.to_thread(_password, context, settings),
        credentials_dir=context.config.credentials_dir,
    )


def _password(context: Context, settings: StoreConfig) -> str | None:
    if settings.name not in context.config.stores or not settings.url.startswith("postgres"):
        return None
    from console.secrets import store_password

    return store_password(settings.name)


def _tools(context: Context, settings: StoreConfig) -> Tools:
    from console.secrets import Vault
    from console.services.foreign import Tools

    wait = settings.extra.get("hub_wait", 60)
    authorization = Vault(context.config.credentials_dir).authorization
    seconds = float(wait) if isinstance(wait, int | float) else 60.0
    return Tools(context.actor, clock.now, context.config.providers, authorization, seconds)


def _credentials(context: Context) -> CredentialSource:
    from console.secrets import Vault

    return Vault(context.config.credentials_dir).credentials
