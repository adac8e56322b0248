"""When an order's own time in force ends, by what the venue tells of its session. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from console.services.replay.command import Command
from venues import Profile, Readiness

_DAY = timedelta(hours=24)
_JUST_NOW = timedelta(minutes=15)
_FOR_THE_DAY = ("day", "opg", "cls")
_STATED = ("expiration_time", "expire_time")
_MILLISECONDS = 10**11  # an epoch beyond this is not meant in seconds


def past_its_time(
    command: Command, at: datetime, *, profile: Profile | None, readiness: Readiness | None
) -> str | None:
    """Why its time is over; None where it is not. Immediate orders end by their age alone."""
    if command.captured_at is None:
        return None
    stated = next((moment for name in _STATED if (moment := _moment(command.action.extra.get(name)))), None)
    if stated is not None and at > stated:
        return f"its time in force ended at {stated.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    tif = command.action.time_in_force or (profile.default_tif if profile else None)
    if tif not in _FOR_THE_DAY:
        return None
    close = _moment(readiness.session_close) if readiness else None
    # Sessions close a day apart: with more than that to the next close, one has closed since the capture. Out of
    # hours the next close may be a weekend away; of an entry of the last minutes that says nothing yet.
    just_now = readiness is not None and readiness.market_open is False and at - command.captured_at <= _JUST_NOW
    if close is not None and close - command.captured_at > _DAY and not just_now:
        return "its day is over: the venue's session has closed since it was captured"
    return "its day is over: captured more than 24 h ago" if at - command.captured_at > _DAY else None


def _moment(value: object) -> datetime | None:
    """An ISO time with a zone, or seconds or milliseconds since the epoch."""
    text = str(value or "").strip()
    try:
        if text.isdecimal():
            number = int(text)
            return datetime.fromtimestamp(number / 1000 if number > _MILLISECONDS else number, UTC)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.utcoffset() is not None else None
