"""Reads the store's policy into the limits in force. Knows the store, no venue and no screen."""

from __future__ import annotations

from datetime import timedelta

from backends.store import ActRefused, Store, StoreError
from console.settings.config import Config, ConfigError, Limits
from console.settings.limits import LimitsInForce


async def refresh(limits: LimitsInForce, store: Store) -> None:
    """Read the policy again. Where it cannot be read the limits say so, and what asks them refuses to send."""
    try:
        limits.take(await store.policy())
    except StoreError as problem:
        limits.lose(str(problem))


async def checked(limits: LimitsInForce, store: Store) -> Limits:
    """The limits in force, read for an act. Raises ActRefused where they cannot be read or are not valid."""
    try:
        limits.take(await store.policy())
        return limits.current()
    except ActRefused as problem:
        limits.lose(str(problem))
        raise
    except ConfigError as problem:
        raise ActRefused(f"the limits in force cannot be read, nothing is done: {problem}") from None


def check_readable(store: Store) -> None:
    """Raises ActRefused where there is a ledger that this role cannot read: nothing found there proves nothing."""
    if (finding := store.info.unreadable) is not None:
        sql = f"; an owner would run:\n{finding.sql}" if finding.sql else ""
        raise ActRefused(f"{finding.text}{sql}")


async def limits_for_looking(config: Config, store: Store) -> Limits:
    """With the policy where it can be read: a mark judged by the config alone is better than none."""
    limits = LimitsInForce(config)
    await refresh(limits, store)
    return MarksInForce(limits, config.limits).limits


class MarksInForce:
    """The limits that marks are judged by, at any moment; those of the config where the policy cannot be read."""

    def __init__(self, limits: LimitsInForce, own: Limits) -> None:
        self._limits = limits
        self._own = own

    @property
    def limits(self) -> Limits:
        try:
            return self._limits.current()
        except ConfigError:
            return self._own

    @property
    def poison_after(self) -> int:
        return self.limits.poison_after

    @property
    def stale_after(self) -> timedelta:
        return self.limits.stale_after
