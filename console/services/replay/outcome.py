"""How each entry of a batch ended, in the words the outside knows, and what that means for the exit code. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

OutcomeKind = Literal["accepted", "rejected", "unknown", "not_sent", "refused", "skipped", "superseded", "planned"]


@dataclass(frozen=True, slots=True)
class EntryOutcome:
    entry_id: str
    outcome: OutcomeKind
    mode: str | None  # None: the layout knows neither paper nor live
    venue_order_id: str | None = None
    client_order_id: str | None = None
    detail: str | None = None


def exit_code(results: Iterable[EntryOutcome], *, dry_run: bool = False) -> int:
    """3 in doubt, then 1 rejected, then 4 not acted on; a dry run is 0, or 4 where nothing would go."""
    words = {result.outcome for result in results}
    if dry_run:
        return 0 if "planned" in words else 4
    if "unknown" in words:
        return 3
    if "rejected" in words:
        return 1
    return 4 if words & {"refused", "skipped", "not_sent"} else 0


def spoken(outcome: str | None) -> str:
    """As people say it: an unknown outcome is an entry in doubt."""
    if outcome is None:
        return "in flight"
    return "in doubt" if outcome == "unknown" else outcome.replace("_", " ")
