"""What the venue suite needs of a client to put it through every fault: a server, a connection, an action."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from venues import OrderAction, Outcome, VenueClient, Verb


class Stage(Protocol):
    """A venue's server, running."""

    @property
    def url(self) -> str: ...

    @property
    def posts(self) -> int:
        """Requests so far that could change an order, whatever became of them."""

    @property
    def looks(self) -> int:
        """Look-ups so far."""

    @property
    def strays(self) -> int:
        """Requests that followed a redirect away from here: must stay 0."""

    def booked(self, client_order_id: str) -> str | None:
        """The venue order id booked under this client order id."""

    def fault(self, name: str, *, on: str) -> None:
        """The next request of this kind (`new`, `replace`, `cancel`, `lookup`) goes wrong, once."""


SILENT = frozenset({"delay", "slow_headers"})  # the faults that a client's time limit ends
PATIENT = 60.0  # a time limit for all others, which none of them reaches, however busy the machine


@dataclass(frozen=True, slots=True)
class Rig:
    """One client in the suite. `outcomes` says what each fault must end in, per verb; verbs not there are not run."""

    name: str
    start: Callable[[], AbstractAsyncContextManager[Stage]]
    connect: Callable[[str, float], VenueClient]  # (url, timeout), paper, with the canary secrets
    action: Callable[[Verb, str | None], OrderAction]  # (verb, the venue order id it aims at)
    outcomes: Mapping[Verb, Mapping[str, type[Outcome]]]
    secrets: tuple[str, ...] = field(repr=False)
    timeout: float = 1.5  # a busy machine needs a part of it to connect
    needs_open: bool = False  # cannot prepare without asking the venue first
    clean_locals: bool = True  # its own frames show no secret, even where a traceback prints locals
    own_ids: Mapping[str, str] = field(default_factory=dict)  # client order ids, where the venue has rules

    def client_order_id(self, name: str) -> str:
        return self.own_ids.get(name, f"suite-{name}")


def leaks(secrets: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Which texts show a secret: as it is, encoded, or half of it. Returns the texts' openings."""
    forms = {form for secret in secrets for form in _forms(secret)}
    return [text[:200] for text in texts if any(form in text for form in forms)]


def _forms(secret: str) -> set[str]:
    lines = [line for line in secret.splitlines() if line and not line.startswith("-----")]
    forms = set()
    for line in lines:
        half = len(line) // 2
        forms |= {line, line[:half], line[half:], quote(line, safe=""), json.dumps(line)[1:-1]}
        forms |= {line.encode().hex(), base64.b64encode(line.encode()).decode().rstrip("=")}
    return {form for form in forms if len(form) >= 8}
