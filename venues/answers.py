"""Reads what all HTTP venues answer alike: no answer, too many requests, refused keys, the server's clock.

Pure. Must not know the fields of any venue.
"""

from __future__ import annotations

from collections.abc import Callable

from venues.json_fields import Body
from venues.message import Reply, Result
from venues.orders import LookupFailed, NotSent, Outcome, RateLimited, Unknown


def outcome_of(result: Result, read: Callable[[Reply], Outcome]) -> Outcome:
    """Return the outcome; `read` is called for the venue's own answers only."""
    match result:
        case NotSent() | Unknown():
            return result
        case Reply(status=429):
            return RateLimited(result.retry_after())
        case Reply():
            return read(result)


def object_of(result: Result) -> Body | LookupFailed:
    """Return the JSON object of an answer with status 200, else why there is none."""
    if not isinstance(result, Reply):
        return LookupFailed(result.why)
    if result.status != 200:
        return LookupFailed(f"HTTP {result.status}", result.retry_after())
    body = result.json()
    return LookupFailed("HTTP 200 without a readable answer", result.retry_after()) if body is None else body


def usable(account: Result, may_trade: Callable[[Body], bool] = lambda _: True) -> bool | None:
    """Tell whether the account may trade; None if the answer does not show it."""
    match account:
        case Reply(status=200):
            body = account.json()
            return body is not None and may_trade(body)
        case Reply(status=401 | 403):
            return False
        case _:
            return None


def failure(what: str, result: Result, *, refused: str) -> str:
    """Return why asking for `what` failed, empty if it did not; `refused` is the text for refused keys."""
    match result:
        case NotSent(why) | Unknown(why):
            return f"{what}: {why}"
        case Reply(status=200 | 404):
            return ""
        case Reply(status=401 | 403):
            return f"{what}: {refused}"
        case Reply(status=status):
            return f"{what}: HTTP {status}"


def server_time(result: Result) -> str | None:
    """Return the time in the answer's Date header as ISO text."""
    date = result.date() if isinstance(result, Reply) else None
    return None if date is None else date.isoformat()
