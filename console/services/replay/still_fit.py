"""Judges an order of a confirmed plan again at the moment it goes: its time, the limits in force, its account. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from console.services.replay.guards import Guard, too_big
from console.services.replay.moment import last_moment, too_late
from console.services.replay.plan import Step
from console.settings.config import ConfigError, Limits


def unfit(
    step: Step, at: datetime, *, limits: Callable[[], Limits], account: str | None, key_digest: str
) -> Guard | None:
    """What stands against sending it now; None where nothing does. What the plan overrides for it does not count."""
    try:
        now = limits()
    except ConfigError as problem:
        return Guard("notional", f"the limits in force cannot be read: {problem}")
    if account != step.account or (account is None and key_digest != step.key_digest):
        return Guard("unknown-account", f"{_account(account)} answers now, {_account(step.account)} was planned")
    late = too_late(step.command, at, stale_after=now.stale_after, profile=step.profile, readiness=step.readiness)
    found = (
        Guard("stale", late) if late else None,
        too_big(step.command, step.worth, now, is_live=step.is_live),
    )
    return next((guard for guard in found if guard is not None and guard.code not in step.overridden), None)


def latest_start(step: Step, limits: Callable[[], Limits]) -> datetime | None:
    """The last moment at which it may go; None where nothing bounds it."""
    if "stale" in step.overridden:
        return None
    try:
        now = limits()
    except ConfigError:
        return None  # `unfit` refuses it just before it would go
    return last_moment(step.command, stale_after=now.stale_after, profile=step.profile, readiness=step.readiness)


def _account(account: str | None) -> str:
    return f"account {account}" if account else "another key"
