"""Moving the console to another store: what must not survive it, and what keeps running.

Marks, filter, undo and gates belong to the store they were made on. A running batch has connections of its own: it goes
on, and its report says where it ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.app_setup import header_state_of
from console.screens.frame import FramedScreen

if TYPE_CHECKING:
    from console.app import ConsoleApp
    from console.services.session import StoreSession
    from console.settings.config import StoreConfig


def obstacle(app: ConsoleApp) -> str | None:
    """Why the store cannot be left at this moment."""
    acts = any(worker.group == "act" and not worker.is_finished for worker in app.workers)
    return "something is being done on this store: ! stops it, then switch" if acts else None


async def move(app: ConsoleApp, session: StoreSession, store: StoreConfig) -> None:
    """The new store is open: from here on nothing on the screen is of the old one."""
    old = app.session
    if old is not None and (why := obstacle(app)) is not None:
        await session.aclose()
        app.queue.warn(why)
        return
    if old is not None:
        while app.screen is not app.queue:
            app.pop_screen()
        app.queue.forget()
    elif isinstance(app.screen, FramedScreen) and app.screen.key_context == "attach":
        app.pop_screen()
    app.session = session
    running, app.header_state = app.header_state.running, header_state_of(app.setup, store)
    info = session.info
    app.update_header(label=info.label, read_only=info.read_only, layout=info.layout, running=running)
    app.update_header(attaching=False, attached=True)
    app.setup.remember(store.name if store.name in app.setup.config.stores else store.url)
    app.queue.attached(fresh=old is not None)
    app.attend(session, store)
    if old is not None:
        await old.aclose()
