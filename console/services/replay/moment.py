"""When an order's time is over: by its age, its time in force, the venue's session. Pure; the caller reads the clock.

A plan judges by it, and every send judges by it again just before it goes. A cancel has no time: it takes risk away.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from console.services.replay.command import Command
from console.text.durations import age
from venues import Profile, Readiness

_DAY = timedelta(hours=24)
_JUST_NOW = timedelta(minutes=15)
_FUTURE = timedelta(seconds=60)
_SKEW = timedelta(seconds=2)
_FOR_THE_DAY = ("day", "opg", "cls")


def too_late(
    command: Command,
    at: datetime,
    *,
    stale_after: timedelta,
    profile: Profile | None = None,
    readiness: Readiness | None = None,
    skew: timedelta = timedelta(),
) -> str | None:
    """Why this command no longer makes sense at this moment; None where it still does."""
    if command.action.verb == "cancel":
        return None
    if command.captured_at is None:
        return "its age is not known: captured_at is not a time with a zone"
    old = at - command.captured_at
    if old < -_FUTURE:
        return "captured in the future: the engine's clock and this one disagree"
    if old > stale_after:
        text = f"{age(command.captured_at, at)} old, limit {age(at - stale_after, at)}"
        apart = f" (this machine's clock and the store's are {skew.total_seconds():.0f} s apart)"
        return text + (apart if skew > _SKEW else "")
    return past_its_time(command, at, profile=profile, readiness=readiness)


def past_its_time(
    command: Command, at: datetime, *, profile: Profile | None, readiness: Readiness | None
) -> str | None:
    """Why its time in force is over; None where it is not. Immediate orders end by their age alone."""
    if command.captured_at is None:
        return None
    stated = command.action.terms.expire_at
    if stated is not None and at > stated:
        return f"its time in force ended at {stated.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    if not _is_for_the_day(command, profile):
        return None
    close = _moment(readiness.session_close) if readiness else None
    if close is not None and command.captured_at <= close < at:
        return f"its day is over: the venue's session closed at {close.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    # Sessions close a day apart: with more than that to the next close, one has closed since the capture. Out of
    # hours the next close may be a weekend away; of an entry of the last minutes that says nothing yet.
    just_now = readiness is not None and readiness.market_open is False and at - command.captured_at <= _JUST_NOW
    if close is not None and close - command.captured_at > _DAY and not just_now:
        return "its day is over: the venue's session has closed since it was captured"
    return "its day is over: captured more than 24 h ago" if at - command.captured_at > _DAY else None


def last_moment(
    command: Command, *, stale_after: timedelta, profile: Profile | None, readiness: Readiness | None
) -> datetime | None:
    """The last moment at which it may go; None where nothing bounds it. No wait may carry it past this."""
    if command.action.verb == "cancel" or command.captured_at is None:
        return None
    ends = [command.captured_at + stale_after]
    if (stated := command.action.terms.expire_at) is not None:
        ends.append(stated)
    if _is_for_the_day(command, profile):
        ends.append(command.captured_at + _DAY)
        close = _moment(readiness.session_close) if readiness else None
        if close is not None and close >= command.captured_at:
            ends.append(close)
    return min(ends)


def _is_for_the_day(command: Command, profile: Profile | None) -> bool:
    return (command.action.time_in_force or (profile.default_tif if profile else None)) in _FOR_THE_DAY


def _moment(text: str | None) -> datetime | None:
    """An ISO time with a zone."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.utcoffset() is not None else None
