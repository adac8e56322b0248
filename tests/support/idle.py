"""Waits for a console under test by its event loop: Textual's own wait reads the clock of the processor."""

from __future__ import annotations

import asyncio

import textual.app
import textual.pilot

_LOOK_EVERY = 0.004
_QUIET_LOOKS = 2


async def wait_for_idle(min_sleep: float = 0.02, max_sleep: float = 1.0) -> None:
    """Returns once the loop has had nothing to run in two looks on end; after `max_sleep` in any case.

    Textual calls the process idle when it used less than a twentieth of 20 ms of processor time. That takes 20 ms at
    least, and on a busy machine it holds for a process that merely waits for its turn. The loop's own queue tells both.
    """
    loop = asyncio.get_running_loop()
    start, quiet = loop.time(), 0
    while quiet < _QUIET_LOOKS or loop.time() - start < min_sleep:
        await asyncio.sleep(_LOOK_EVERY / _QUIET_LOOKS)
        quiet = 0 if loop._ready else quiet + 1  # type: ignore[attr-defined]  # CPython's own queue of callbacks
        if loop.time() - start >= max_sleep:
            return


def wait_by_events() -> None:
    """Replaces Textual's wait in the pilot and in the app's way to press keys."""
    for module in (textual.app, textual.pilot):
        module.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]  # imported there by name
