"""SDKs that come with an extra: is one installed, and its import off the event loop. Knows no venue."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from typing import Any

from venues.client import MissingExtra


def require(package: str, extra: str) -> None:
    """Raises MissingExtra, with the pip command, unless `package` can be imported. Imports nothing itself."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(f"{extra} needs an extra: pip install 'dlq-console[{extra}]'")


async def load(module: str, extra: str) -> Any:
    """The module, imported in a thread: these take up to 1.4 s. `Any`, as no SDK here is fully typed."""
    try:
        return await asyncio.to_thread(importlib.import_module, module)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{extra} needs {error.name}, not installed: pip install 'dlq-console[{extra}]'") from None
