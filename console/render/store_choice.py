"""Lines of the screen that chooses a store: what is offered, and how each store stands. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from backends.store import BadTarget
from backends.target import parse_target
from console.render.line import Cell, Line, fit, line, trusted, untrusted, width
from console.render.value import count
from console.text.password_mask import masked
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.services.store_glance import StoreGlance
    from console.settings.config import StoreConfig

_NAME_LENGTH, _KIND_LENGTH = 24, 40
_STANDING_LENGTH = 32  # a longer problem is cut, not the address
_BETWEEN = 14  # the mode, the gaps, and a blank at each end
_GAP = "  "


def store_lines(
    stores: Mapping[str, StoreConfig], glances: Mapping[str, StoreGlance | None], size: int
) -> Iterable[tuple[str, Line]]:
    """The config's stores; `glances`: None where one is being read."""
    named = min(_NAME_LENGTH, max(map(len, stores), default=0))
    kinds = {name: safe(_kind(store.url), _KIND_LENGTH) for name, store in stores.items()}
    most = max((len(count(one.open or 0)) for one in glances.values() if one is not None), default=0)
    standing = {name: _standing(seen, most) for name, seen in glances.items()}
    beside = max(map(width, standing.values()), default=0)
    room = size - named - _BETWEEN - min(beside, _STANDING_LENGTH)
    kind = min(max(map(len, kinds.values()), default=0), max(12, room))
    for name, store in stores.items():
        word = (store.environment or store.mode or "paper").upper()
        yield (
            name,
            (
                Cell(f" {fit(safe(name, _NAME_LENGTH), named)}{_GAP}", "strong"),
                trusted(f"{word:5}{_GAP}", "danger" if word == "LIVE" else "plain"),
                Cell(f"{fit(kinds[name], kind)}{_GAP}", "dim"),
                *standing.get(name, ()),
            ),
        )


def _standing(seen: StoreGlance | None, most: int) -> Line:
    if seen is None:
        return line(trusted("looking …", "dim"))
    if seen.problem:
        return line(trusted("unknown: ", "warning"), untrusted(seen.problem, "warning", limit=200))
    doubt = "unknown" if seen.in_doubt is None else count(seen.in_doubt)
    loud = seen.in_doubt is None or seen.in_doubt > 0
    return line(
        trusted(f"{count(seen.open or 0):>{most}} open", "strong"),
        trusted(f"{_GAP}in doubt ", "dim"),
        trusted(doubt, "danger" if loud else "dim"),
    )


def recent_line(target: str) -> Line:
    return line(untrusted(f" {masked(target)}", limit=200), trusted("  opened lately", "dim"))


def _kind(url: str) -> str:
    """The store's address without anything that could be a password."""
    try:
        return parse_target(url).label
    except BadTarget:
        return "its url cannot be read"


def offer_lines(*, demo: str | None, typed: str) -> Iterable[tuple[str, Line]]:
    if demo is not None:
        told = "a store and an exchange to practise on; gone when you leave"
        yield demo, line(trusted(" the demo", "strong"), trusted(f"{_GAP}{told}", "dim"))
    told = "just type it: /path/orders.db or postgresql://user@host/db"
    yield typed, line(trusted(" another", "strong"), trusted(f"{_GAP}{told}", "dim"))


def config_line(path: str, *, exists: bool) -> Line:
    """Where the config is looked for."""
    told = "config: " if exists else "no config yet; it is looked for in "
    return line(trusted(told, "dim"), untrusted(path, "dim", limit=300))
