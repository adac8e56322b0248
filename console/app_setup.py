"""What the app needs to start: config, operator, clock and how to attach. Opens nothing itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backends.ledger.actor import Actor
from console.clock import Clock
from console.keymap import KEYS, Key
from console.render.status import HeaderState
from console.settings.config import Config, StoreConfig

if TYPE_CHECKING:
    from backends.first_page.page import ComingPage
    from console.services.index.keeper import IndexProcess
    from console.services.session import StoreSession
    from console.services.store_glance import StoreGlance

DEAD_SECONDS = 0.4


@dataclass(frozen=True, slots=True)
class AppSetup:
    config: Config
    actor: Actor
    clock: Clock
    attach: Callable[[StoreConfig], Awaitable[StoreSession]]
    store: StoreConfig | None = None  # None: the operator chooses one
    read_only: bool = False
    served: bool = False  # in a browser: no store can be typed in
    live_allowed: bool = True  # in a browser LIVE must have been allowed on the command line
    keys: tuple[Key, ...] = KEYS
    first_page: ComingPage | None = None
    open_id: str | None = None
    config_path: tuple[str, bool] = ("", True)  # where the config is looked for, and whether it is there
    glance: Callable[[StoreConfig], Awaitable[StoreGlance]] | None = None  # how a store stands that is not attached
    offers_demo: bool = False  # nobody has to know the command for it
    recent: tuple[str, ...] = ()
    remember: Callable[[str], None] = field(default=lambda _: None)
    filters: tuple[str, ...] = ()  # typed lately, oldest first
    remember_filter: Callable[[str], None] = field(default=lambda _: None)
    dead_seconds: float = DEAD_SECONDS  # a new gate ignores keys for this long
    watch: bool = True
    loaded: Callable[[], None] = field(default=lambda: None)  # called after many long-lived objects were made
    keep: Callable[[StoreConfig], IndexProcess] | None = None  # starts the process that keeps a store's index


def header_state_of(setup: AppSetup, store: StoreConfig | None) -> HeaderState:
    """The frame before anything is known of the store."""
    name = store.name if store else "no store"
    live = store is not None and store.mode == "live" and not setup.read_only and setup.live_allowed
    return HeaderState(
        store=name,
        label=name,
        operator=setup.actor.operator,
        mode="live" if live else "paper",
        read_only=setup.read_only,
        attaching=store is not None,
    )
