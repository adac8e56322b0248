"""Opens a store as the config has it: a database, or a hub behind its own API."""

from __future__ import annotations

import asyncio

from backends import open_store
from backends.store import BadTarget, Store
from backends.target import PostgresTarget, parse_target
from console.settings.config import Config, StoreConfig


async def open_configured(settings: StoreConfig, config: Config, *, read_only: bool, table: str | None) -> Store:
    # A keyring may ask its owner: never on the caller's loop.
    password = await asyncio.to_thread(password_of, settings, config)
    if settings.hub_url is None:
        return await open_store(
            settings.url,
            read_only=read_only,
            table=table or settings.table,
            password=password,
            options=settings.options,
        )
    from console.services.resend.hub_source import HubStore, open_hub
    from console.settings.secrets import Vault
    from venues import BadCredentials

    try:
        token = await asyncio.to_thread(Vault(config.credentials_dir).hub_token, settings.name)
    except BadCredentials as problem:
        raise BadTarget(str(problem)) from None
    hub = HubStore(settings.hub_url, settings.url, password, deletes=settings.on_dismiss == "delete")
    return await open_hub(hub, token, read_only=read_only)


def password_of(settings: StoreConfig, config: Config) -> str | None:
    """From the keyring, for a Postgres store of the config whose url holds none. Raises BadTarget."""
    if settings.name not in config.stores:
        return None
    target = parse_target(settings.url)
    if not isinstance(target, PostgresTarget) or target.password is not None:
        return None
    from console.settings.secrets import store_password

    return store_password(settings.name, target.user)
