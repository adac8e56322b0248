"""`submit_or_dead_letter`: one submit through the engine's venue, sync or async; a failed one becomes an entry."""

from __future__ import annotations

from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Protocol

from dlq_sink.capture.report import AuditLog, Metrics, OnEvent, Reporter
from dlq_sink.witness.submission import Submission

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dlq_sink.contract import DLQSink

NEVER_AWAITED = "submit is async, and nobody awaited it; nothing was sent"
_PROMISED = "RuntimeError: unknown outcome: submit returned the promise of an answer, and nobody awaited it"


class EngineVenue(Protocol):
    def submit(self, action: Any, /) -> Any: ...


def submit_or_dead_letter(
    venue: EngineVenue,
    action: Any,
    sink: DLQSink,
    audit: AuditLog | None = None,
    metrics: Metrics | None = None,
    *,
    account: str | None = None,
    witness: bool = False,
    fire_and_forget: bool = False,
    on_event: OnEvent | None = None,
) -> Any:
    """The venue's order id; None where the submit failed and the order is now in the sink. The loop goes on.

    If `submit` is async, so is this: await it. `fire_and_forget`: a submit that returns nothing has sent the order;
    "" is returned then. Raises only what the sink raises (an order that is neither placed nor kept must not pass in
    silence) and what stops an engine: a cancellation or an interrupt leaves an entry and goes on its way.
    """
    reporter = Reporter(audit, metrics, on_event)
    one = Submission(sink, action, venue=venue, account=account, witness=witness, reporter=reporter)
    return attempt(one, venue.submit, lambda: venue.submit(one.action), answered_by(fire_and_forget))


def attempt(one: Submission, submit: object, send: Callable[[], Any], done: Callable[[Submission, Any], Any]) -> Any:
    """Send once and return what `done` makes of the answer; None for a failure. Awaitable where `submit` is async."""
    if iscoroutinefunction(submit) or iscoroutinefunction(type(submit).__call__):
        return _pending(one, send, done, f"RuntimeError: {NEVER_AWAITED}", begun=False)
    one.begin()
    try:
        answer = send()
        if not isawaitable(answer):
            return done(one, answer)
    except Exception as problem:  # noqa: BLE001 - whatever a venue raises, the order must not be lost
        return _missed(one, problem)
    except BaseException as problem:
        _missed(one, problem)
        raise
    forgotten = f"RuntimeError: {NEVER_AWAITED}" if iscoroutine(answer) else _PROMISED
    return _pending(one, lambda: answer, done, forgotten, begun=True)


def answered_by(fire_and_forget: bool) -> Callable[[Submission, Any], Any]:
    """Reads the order id of an answer; raises where there is none, unless nothing is what a submit returns."""

    def done(one: Submission, answer: Any) -> Any:
        if answer is None and not fire_and_forget:
            raise RuntimeError("unknown outcome: the venue answered without an order id")
        return one.ok(answer) or ""

    return done


def _missed(one: Submission, problem: BaseException) -> None:
    if one.is_open:  # else the venue took it, and only a report of that failed
        one.missed(problem)


def _pending(
    one: Submission,
    promise: Callable[[], Awaitable[Any]],
    done: Callable[[Submission, Any], Any],
    forgotten: str,
    *,
    begun: bool,
) -> Any:
    """The rest of the submit, to be awaited; `forgotten` is the error of the entry if nobody does."""
    from dlq_sink.capture.waiting import BEFORE_THE_SEND, PendingSubmit, begin_in_thread, in_thread

    async def work() -> Any:
        if not begun:
            await begin_in_thread(one)
        try:
            answer = await promise()
        except Exception as problem:  # noqa: BLE001 - whatever a venue raises, the order must not be lost
            missed = problem
        except BaseException as problem:
            _missed(one, problem)  # at once: a cancelled task may not get another turn
            raise
        else:
            try:
                return await in_thread(lambda: done(one, answer))
            except Exception as problem:  # noqa: BLE001 - an answer that tells no order is no placed order
                missed = problem
        return await in_thread(lambda: _missed(one, missed))

    def drop(stop: BaseException | None) -> None:
        """It will never run: nobody awaited it, or what stopped its task came first."""
        is_unsent = not begun
        if begun and iscoroutine(held := promise()):
            held.close()  # it has not begun
            is_unsent = True
        if stop is None:
            one.failed(forgotten)
        else:
            one.missed(stop, f"{type(stop).__name__}: {BEFORE_THE_SEND}" if is_unsent else None)

    return PendingSubmit(work(), drop)
