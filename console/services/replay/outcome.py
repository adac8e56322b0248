"""The outcome of each entry of a batch, as users and scripts see it, and the exit code that follows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Literal

from backends.layouts.mask import masked_error

OutcomeKind = Literal["accepted", "rejected", "unknown", "not_sent", "refused", "skipped", "superseded", "planned"]
HoldReason = Literal["halt", "stopped", "breaker open"]


@dataclass(frozen=True, slots=True)
class PlannedGuard:
    code: str
    text: str
    overridable: bool
    overridden: bool


@dataclass(frozen=True, slots=True)
class PlannedOrder:
    """What a dry run tells of an order beside its outcome. None: not known, or there is no order."""

    order: Mapping[str, object] | None = None  # by neutral names, exactly as it goes on the wire
    notional: Decimal | None = None
    currency: str | None = None
    quote: Mapping[str, object] | None = None
    drift: Decimal | None = None
    position: Mapping[str, object] | None = None
    guards: tuple[PlannedGuard, ...] = ()


NOTHING_PLANNED = PlannedOrder()


@dataclass(frozen=True, slots=True)
class EntryOutcome:
    entry_id: str
    outcome: OutcomeKind
    mode: str | None  # None: the layout has neither paper nor live
    venue_order_id: str | None = None
    client_order_id: str | None = None
    detail: str | None = None
    account: str | None = None  # the venue's own, where it tells
    notes: tuple[str, ...] = ()
    planned: PlannedOrder | None = None  # of a dry run only

    def __post_init__(self) -> None:
        """A venue's words may hold signatures and keys; they are shown and printed without."""
        object.__setattr__(self, "detail", None if self.detail is None else masked_error(self.detail))
        object.__setattr__(self, "notes", tuple(map(masked_error, self.notes)))


def row_of(ended: EntryOutcome) -> dict[str, object]:
    """The outcome by the names that scripts know; of a dry run also what it tells of the order."""
    row: dict[str, object] = {
        "dlq_id": ended.entry_id,
        "outcome": ended.outcome,
        "venue_order_id": ended.venue_order_id,
        "client_order_id": ended.client_order_id,
        "mode": ended.mode,
        "detail": ended.detail,
        "account": ended.account,
        "notes": list(ended.notes),
    }
    if (planned := ended.planned) is None:
        return row
    return row | {
        "order": planned.order,
        "notional": planned.notional,
        "currency": planned.currency,
        "quote": planned.quote,
        "drift": planned.drift,
        "position": planned.position,
        "guards": [asdict(guard) for guard in planned.guards],
    }


def not_begun(entry_id: str, reason: HoldReason, mode: str | None = None, key: str | None = None) -> EntryOutcome:
    """The outcome of an entry that a batch did not begin."""
    kind: OutcomeKind = "not_sent" if reason == "halt" else "skipped"
    return EntryOutcome(entry_id, kind, mode, None, key, f"{reason}: nothing was sent")


def exit_code(results: Iterable[EntryOutcome], *, dry_run: bool = False) -> int:
    """3 if an entry is in doubt, else 1 if one was rejected, else 4 if one was not acted on, else 0.

    A dry run is 0, or 4 when it would send nothing.
    """
    words = {result.outcome for result in results}
    if dry_run:
        return 0 if "planned" in words else 4
    if "unknown" in words:
        return 3
    if "rejected" in words:
        return 1
    return 4 if words & {"refused", "skipped", "not_sent"} else 0


def spoken(outcome: str | None) -> str:
    """The outcome in words for people. An attempt without one is in flight; an unknown one is in doubt."""
    if outcome is None:
        return "in flight"
    return "in doubt" if outcome == "unknown" else outcome.replace("_", " ")
