"""The composition root of the screens: store, credentials and first page are put together here, then the app runs."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from console import clock
from console.cli.arguments import UsageError
from console.cli.context import USAGE, Context
from console.config import StoreConfig
from console.keys import remapped

if TYPE_CHECKING:
    from backends.store import Store
    from console.services.desk import CredentialSource
    from console.services.workplace import Workplace
    from console.setup import Setup


def open_console(context: Context) -> int:
    served = os.environ.get("DLQ_SERVED") == "1"  # set by `dlq serve` for its own children
    if not served and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the console needs a terminal; without one: dlq list, dlq show, dlq replay --dry-run")
    keys = remapped(context.config.keymap)
    from console.app import ConsoleApp
    from console.setup import Setup

    setup = Setup(
        config=context.config,
        actor=context.actor,
        clock=clock.now,
        attach=lambda store: attach(context, store),
        store=_store(context),
        read_only=context.args.read_only,
        keys=keys,
        open_id=context.args.open,
    )
    return _run(ConsoleApp(setup))


def _run(app: object) -> int:
    from console.app import ConsoleApp

    assert isinstance(app, ConsoleApp)
    app.run()
    if app.crashed is not None:
        print(f"dlq: {app.crashed}", file=sys.stderr)
    return app.return_code or 0


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
    )
    return await Workplace.attach(setting)


def _load() -> None:
    import backends.sql.store  # noqa: F401 - loaded for its own sake


async def open_settled(context: Context, settings: StoreConfig) -> Store:
    from backends import open_store

    return await open_store(
        settings.url,
        read_only=context.args.read_only,
        table=context.args.table or settings.table,
        password=await asyncio.to_thread(_password, context, settings),
    )


def _password(context: Context, settings: StoreConfig) -> str | None:
    if settings.name not in context.config.stores or not settings.url.startswith("postgres"):
        return None
    from console.secrets import store_password

    return store_password(settings.name)


def _credentials(context: Context) -> CredentialSource:
    from console.secrets import Vault

    return Vault(context.config.credentials_dir).credentials
