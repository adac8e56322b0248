"""What the console starts from, put together by the composition root; tests put together their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backends.records import Actor
from console.clock import Clock
from console.config import Config, StoreConfig
from console.keys import KEYS, Key

if TYPE_CHECKING:
    from backends.firstpage import FirstPage
    from console.services.workplace import Workplace

DEAD_SECONDS = 0.4


@dataclass(frozen=True, slots=True)
class Setup:
    config: Config
    actor: Actor
    clock: Clock
    attach: Callable[[StoreConfig], Awaitable[Workplace]]
    store: StoreConfig | None = None  # None: ask which
    read_only: bool = False
    keys: tuple[Key, ...] = KEYS
    first_page: Future[FirstPage | None] | None = None
    open_id: str | None = None
    recent: tuple[str, ...] = ()
    remember: Callable[[str], None] = field(default=lambda _: None)
    dead_seconds: float = DEAD_SECONDS  # a gate's, before which no key counts
    watch: bool = True
