"""What a replay of the other layouts' entries would do: which go, which stay and why, and where they go. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from backends.records import Actor, Entry, Halt
from backends.store import OnSuccess
from console.clock import Clock
from console.services.layout_fields import origin
from console.services.replay.flow_control import Breaker
from console.services.replay.guards import Guard
from console.services.replay.outcome import EntryOutcome
from console.settings.config import HUB_WAIT, Limits, ProviderConfig
from venues.credentials import Credentials

POISON = "poison"  # the one guard of messages and calls that a person may override


@dataclass(frozen=True, slots=True)
class ResendTools:
    """What sending again may need, from config and keyring."""

    actor: Actor
    clock: Clock
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    authorization: Callable[[str, str | None], Credentials | None] = lambda _provider, _tenant: None
    hub_wait: float = HUB_WAIT
    breakers: dict[str, Breaker] = field(default_factory=dict)  # of providers, for as long as the console runs
    limits: Callable[[], Limits] = Limits  # those in force at the moment


class ResendRoute(NamedTuple):
    """One queue or provider, and how many go there."""

    name: str
    place: str  # the outbox, the provider's host, or the hub that sends
    entries: int
    held: float | None = None  # seconds until its open breaker lets a try through


@dataclass(frozen=True, slots=True)
class ResendPlan:
    going: tuple[Entry, ...]
    held: tuple[EntryOutcome, ...]
    routes: tuple[ResendRoute, ...] = ()
    kind: str = "outbox"  # or "provider", "hub"
    after: OnSuccess | None = None  # what becomes of the owner's row once it is replayed
    problem: str | None = None  # why nothing at all could go
    needs_second: str | None = None
    hash: str = ""
    summary: str = ""
    overridable: frozenset[str] = frozenset()
    overridden: frozenset[str] = frozenset()  # guards that would have held something back

    mode: str | None = None  # there is neither paper nor live
    document: str = "{}"  # no second person approves it

    @property
    def going_ids(self) -> tuple[str, ...]:
        return tuple(entry.id for entry in self.going)

    @property
    def spoken_of(self) -> tuple[str, ...]:
        return self.going_ids

    def is_covered_by(self, document: str) -> bool:
        return document == self.document

    def is_old(self, at: datetime, seconds: float) -> bool:  # noqa: ARG002 - what is sent again is no order with a time
        return False

    @property
    def count(self) -> int:
        return len(self.going)

    @property
    def size(self) -> int:
        return len(self.going) + len(self.held)

    def without_moved(self, moved: Iterable[tuple[str, str]]) -> ResendPlan:
        """With the entries that changed after they were chosen named as skipped."""
        changed = [EntryOutcome(entry_id, "skipped", None, detail=f"changed: {text}") for entry_id, text in moved]
        return replace(self, held=(*changed, *self.held))

    def planned(self) -> tuple[EntryOutcome, ...]:
        """A dry run's outcomes."""
        going = [EntryOutcome(one.id, "planned", None, detail=f"to {origin(one)}") for one in self.going]
        return (*self.held, *going)

    def refused(self, why: str) -> tuple[EntryOutcome, ...]:
        """Every entry's outcome where nobody confirms the plan."""
        return (*self.held, *(EntryOutcome(one.id, "refused", None, detail=why) for one in self.going))


def sorted_out(
    entries: Sequence[Entry], halt: Halt | None, most: int, guarded: Mapping[str, Guard]
) -> tuple[list[Entry], list[EntryOutcome]]:
    """(what would go, what stays and why)."""
    going: list[Entry] = []
    left: list[EntryOutcome] = []
    for entry in entries:
        if halt is not None:
            left.append(EntryOutcome(entry.id, "refused", None, detail=halt.text))
        elif entry.state in ("in_doubt", "in_flight"):
            text = f"{entry.state.replace('_', ' ')}: reconcile or settle it first"
            left.append(EntryOutcome(entry.id, "refused", None, detail=text))
        elif entry.state != "pending":
            left.append(EntryOutcome(entry.id, "skipped", None, detail=f"already {entry.state}"))
        elif (guard := guarded.get(entry.id)) is not None:
            left.append(EntryOutcome(entry.id, "refused", None, detail=f"{guard.code}: {guard.text}"))
        elif len(going) >= most:
            left.append(EntryOutcome(entry.id, "refused", None, detail=f"max-batch: the batch is full, {most} at most"))
        else:
            going.append(entry)
    return going, left
