"""Opens a store as the config has it: a database, or a hub behind its own API."""

from __future__ import annotations

import asyncio
from pathlib import Path

from backends import open_store
from backends.store import BadTarget, Store
from console.config import StoreConfig


async def open_configured(
    settings: StoreConfig, *, read_only: bool, table: str | None, password: str | None, credentials_dir: Path | None
) -> Store:
    url = settings.extra.get("hub_url")
    if url is None:
        return await open_store(
            settings.url,
            read_only=read_only,
            table=table or settings.table,
            password=password,
            options=settings.extra,
        )
    from console.secrets import Vault
    from console.services.hub import HubStore, open_hub
    from venues import BadCredentials

    if not isinstance(url, str):
        raise BadTarget("hub_url is the hub's address")
    on_dismiss = settings.extra.get("on_dismiss")
    if on_dismiss not in (None, "delete"):
        raise BadTarget("on_dismiss is delete, or absent")
    try:
        token = await asyncio.to_thread(Vault(credentials_dir).hub_token, settings.name)
    except BadCredentials as problem:
        raise BadTarget(str(problem)) from None
    hub = HubStore(url, settings.url, password, deletes=on_dismiss == "delete")
    return await open_hub(hub, token, read_only=read_only)
