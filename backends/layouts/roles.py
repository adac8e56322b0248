"""Which column of a table plays which part: its moment, venue, account and so on, as this table spells them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from backends.layouts import orders
from backends.layouts.columns import LayoutColumns, resolve
from backends.layouts.integration import FAILED_CALLS
from backends.layouts.outbox import DEAD

T = TypeVar("T")


class TableMemory(Generic[T]):
    """What `make` says of a layout and a table's columns, found once: all entries of a table share their names."""

    def __init__(self, make: Callable[[str, tuple[str, ...]], T]) -> None:
        self._make = lru_cache(maxsize=64)(make)
        self._latest: tuple[str, tuple[str, ...], T] | None = None

    def of(self, layout: str, names: tuple[str, ...]) -> T:
        latest = self._latest
        if latest is not None and latest[1] is names and latest[0] == layout:
            return latest[2]
        made = self._make(layout, names)
        self._latest = (layout, names, made)
        return made


def place_of(names: tuple[str, ...], name: str) -> int:
    """Where a column stands; -1 where a table has none of that name."""
    return names.index(name) if name in names else -1


@dataclass(frozen=True, slots=True)
class Roles:
    """Column names as this table spells them; "" where it has none."""

    moment: str
    origins: tuple[str, ...]  # a filter by venue looks at each of these; the last one is shown
    account: str
    market: str
    side: str
    failure: str  # why an outbox gave a message up
    retries: str
    errors: tuple[str, ...]  # the error is the first of these that is filled
    cid: str  # the client order id
    kind: str  # the order type
    layout: str

    @property
    def searched(self) -> tuple[str, ...]:
        """Columns in which a text may be found; an id only if the text is all of it."""
        return tuple(filter(None, (*self.errors, self.market, self.identity, self.cid)))

    @property
    def identity(self) -> str:
        return "dlq_id" if self.layout == orders.NAME else "id"

    @property
    def venue(self) -> str:
        return self.origins[-1] if self.origins else ""


_RETRIES = {DEAD.name: "deliveries_count", FAILED_CALLS.name: "attempts"}
OTHER_LAYOUTS = (DEAD, FAILED_CALLS)  # the layouts that somebody else owns
_BY_NAME = {layout.name: layout for layout in OTHER_LAYOUTS}


def roles(layout: str, names: tuple[str, ...]) -> Roles:
    return _ROLES.of(layout, names)


def _roles(layout: str, names: tuple[str, ...]) -> Roles:
    return _other_roles(_BY_NAME[layout], names) if layout in _BY_NAME else _order_roles(frozenset(names))


_ROLES = TableMemory(_roles)


def _order_roles(there: frozenset[str]) -> Roles:
    def spelled(name: str) -> str:
        return name if name in there else ""

    return Roles(
        moment=spelled("captured_at"),
        origins=tuple(filter(None, [spelled("venue_name")])),
        account=spelled("account_id"),
        market=spelled("market_id"),
        side=spelled("side"),
        failure="",
        retries=spelled("retry_count"),
        errors=tuple(filter(None, [spelled("error")])),
        cid=spelled("client_order_id"),
        kind=spelled("order_type"),
        layout=orders.NAME,
    )


def _other_roles(layout: LayoutColumns, names: tuple[str, ...]) -> Roles:
    spelled = resolve(layout, names)
    return Roles(
        moment=spelled.get(layout.moment, ""),
        origins=tuple(spelled[name] for name in layout.origin if name in spelled),
        account=spelled.get(layout.account or "", ""),
        market="",
        side="",
        failure=spelled.get(layout.reason or "", ""),
        retries=spelled.get(_RETRIES[layout.name], ""),
        errors=tuple(spelled[name] for name in (layout.error, layout.reason or "") if name in spelled),
        cid="",
        kind="",
        layout=layout.name,
    )
