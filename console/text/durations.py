"""Parses durations (`90s 15m 8h 2d`) and moments, and formats ages. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_DAYS = 365_000  # a moment that lies this far back still has a date


def parse_duration(text: str) -> timedelta:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", text)
    if match is None:
        raise ValueError(f'"{text}" is not a length of time: write 90s, 15m, 8h or 2d')
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > _MOST_DAYS * _UNITS["d"]:
        raise ValueError(f'"{text}" is too long a time: at most {_MOST_DAYS}d')
    return timedelta(seconds=seconds)


def parse_moment(text: str, now: datetime) -> datetime:
    """`8h` is eight hours ago, `03:00` the last one that has passed; else an ISO time. UTC unless it names a zone."""
    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    if _CLOCK.fullmatch(text.strip()):
        return _last(text.strip(), now)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f'"{text}" is not a time: write 8h, 03:00, 2026-04-18 or 2026-04-18T14:32:15Z') from None
    return moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)


def _last(text: str, now: datetime) -> datetime:
    today = now.astimezone(UTC)
    at = datetime.combine(today.date(), time.fromisoformat(text), UTC)
    return at if at <= today else at - timedelta(days=1)


def age(since: datetime, now: datetime) -> str:
    """`12s 4m 3h 2d`: one unit, at most four characters within a year or two."""
    return span(now - since)


def span(took: timedelta) -> str:
    """A duration in the format of `age`."""
    seconds = max(0, int(took.total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def long_age(since: datetime, now: datetime) -> str:
    """`3h12m`: two units, for places where one is too coarse."""
    minutes = max(0, int((now - since).total_seconds())) // 60
    if minutes < 60:
        return age(since, now)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02}h" if days else f"{hours}h{minutes:02}m"
