"""Which of a layout's columns says when, where and how often an entry failed, and which of them are searched. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from backends.layouts import orders
from backends.layouts.columns import resolve
from backends.layouts.integration import FAILED_CALLS
from backends.layouts.outbox import DEAD


@dataclass(frozen=True, slots=True)
class Roles:
    """Column names as this table spells them; "" where it has none."""

    moment: str
    venue: str
    origins: tuple[str, ...]  # any of these is meant by a filter by venue
    account: str
    market: str
    retries: str
    searched: tuple[str, ...]
    reason: str = ""


_ORDERS = Roles("captured_at", "venue_name", ("venue_name",), "account_id", "market_id", "retry_count", orders.SEARCHED)
_RETRIES = {DEAD.name: "deliveries_count", FAILED_CALLS.name: "attempts"}
_FOREIGN = {layout.name: layout for layout in (DEAD, FAILED_CALLS)}


@lru_cache(maxsize=64)
def roles(layout: str, names: tuple[str, ...]) -> Roles:
    if layout not in _FOREIGN:
        return _ORDERS
    known = _FOREIGN[layout]
    spelled = resolve(known, names)
    origins = tuple(spelled[name] for name in known.origin if name in spelled)
    return Roles(
        moment=spelled.get(known.moment, ""),
        venue=origins[-1] if origins else "",
        origins=origins,
        account=spelled.get(known.account or "", ""),
        market="",
        retries=spelled.get(_RETRIES[layout], ""),
        searched=tuple(spelled[name] for name in known.searched if name in spelled),
        reason=spelled.get(known.reason or "", ""),
    )
