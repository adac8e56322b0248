"""Finds and imports the SDKs that come with an extra. Must not know a venue."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from typing import Any

from venues.client import MissingExtra


def require(package: str, extra: str) -> None:
    """Raise MissingExtra, with the pip command, unless `package` is installed. Does not import it."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(f"{extra} needs an extra: pip install 'dlq-console[{extra}]'")


async def load(module: str, extra: str) -> Any:
    """Import the module in a thread, as that takes up to 1.4 s. Returns Any: no SDK here is fully typed."""
    try:
        return await asyncio.to_thread(importlib.import_module, module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{extra} needs {error.name}, which is not installed: pip install 'dlq-console[{extra}]'"
        ) from None
