"""The values that options take, by kind; imported only when help or a completion is asked for. Opens no store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from console.cli.usage.option import Option
from console.settings.config import Config


def fixed(option: Option) -> tuple[str, ...]:
    """What can be told without a config."""
    if not isinstance(option.values, str):
        return option.values
    return _KINDS[option.values](Config()) if option.values in _SHOWN else ()


def candidates(option: Option, config: Config) -> tuple[str, ...]:
    """What could be typed for it here."""
    if not isinstance(option.values, str):
        return option.values
    kind = _KINDS.get(option.values)
    return () if kind is None else kind(config)


def _reasons(config: Config) -> tuple[str, ...]:
    return config.reasons


def _guards(_: Config) -> tuple[str, ...]:
    from console.services.replay.guards import OVERRIDABLE

    return OVERRIDABLE


def _venues(config: Config) -> tuple[str, ...]:
    from venues import NAMES

    return tuple(dict.fromkeys((*config.venues, *NAMES, "ccxt:")))


def _stores(config: Config) -> tuple[str, ...]:
    return tuple(config.stores)


def _verbs(_: Config) -> tuple[str, ...]:
    from console.cli.usage.verb import VERBS

    return tuple(VERBS)


def _policy(_: Config) -> tuple[str, ...]:
    from backends.ledger.policy import KEYS

    return tuple(f"{key}=" for key in KEYS)


_KINDS: Mapping[str, Callable[[Config], tuple[str, ...]]] = {
    "reasons": _reasons,
    "guards": _guards,
    "venues": _venues,
    "stores": _stores,
    "verbs": _verbs,
    "policy": _policy,
}
_SHOWN = ("reasons", "guards", "venues", "policy")
