"""`dead_letters`: the decorator around a bot's own submit function, and the hooks for engines that learn later."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from dlq_sink.capture.answer import order_id_of
from dlq_sink.capture.call import read_call, signature_of
from dlq_sink.capture.ccxt_call import meaning_of
from dlq_sink.capture.report import AuditLog, Metrics, OnEvent, Reporter
from dlq_sink.capture.request import text_of, venue_name
from dlq_sink.capture.submit import attempt
from dlq_sink.witness.client_id import client_id_of
from dlq_sink.witness.submission import Submission

if TYPE_CHECKING:
    from dlq_sink.contract import DLQSink
    from dlq_sink.record import DeadLetteredOrder


class DeadLetters:
    """One venue and account of an engine. Call it with a submit function to decorate it."""

    def __init__(
        self,
        sink: DLQSink,
        *,
        venue: object,
        account: str | None,
        witness: bool,
        fire_and_forget: bool,
        order: str | None,
        reporter: Reporter,
    ) -> None:
        self._sink = sink
        self._venue = venue
        self._account = account
        self._witness = witness
        self._fire_and_forget = fire_and_forget
        self._order = order
        self._reporter = reporter
        self._lock = threading.Lock()
        self._sent: dict[str, Submission] = {}  # by client order id: sent, and not answered for yet

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        signature, meaning = signature_of(function), meaning_of(function)

        @functools.wraps(function)
        def submit(*args: Any, **kwargs: Any) -> Any:
            call = read_call(signature, args, kwargs, self._order)
            if meaning is not None and call.name is None:
                call.action = meaning(call.action)
            if self._witness:
                call.give_id(venue_name(self._venue))
            one = self._submission(call.action, is_sent=call.is_sent)
            return attempt(one, function, lambda: function(*call.args, **call.kwargs), self._answered)

        submit.rejected = self.rejected  # type: ignore[attr-defined]
        submit.accepted = self.accepted  # type: ignore[attr-defined]
        return _marked_async(submit) if iscoroutinefunction(function) else submit

    def rejected(self, order: Any, reason: object) -> DeadLetteredOrder:
        """The venue refused an order that was sent before: keep it as an entry."""
        client_id = client_id_of(order)
        with self._lock:
            one = self._sent.pop(client_id, None) if client_id else None
        return (one or self._submission(order, witness=False)).failed(_reason(reason), layer="venue_reject")

    def accepted(self, order: Any, venue_order_id: object = None) -> None:
        """The venue took an order that was sent before: resolve its witness."""
        client_id = client_id_of(order)
        with self._lock:
            one = self._sent.pop(client_id, None) if client_id else None
        if one is not None:
            one.ok(venue_order_id)

    def _submission(self, action: Any, *, witness: bool | None = None, is_sent: bool = True) -> Submission:
        return Submission(
            self._sink,
            action,
            venue=self._venue,
            account=self._account,
            witness=self._witness if witness is None else witness,
            is_sent=is_sent,
            reporter=self._reporter,
        )

    def _answered(self, one: Submission, answer: Any) -> Any:
        """The function's own answer; raises where it says nothing of an order."""
        if answer is None and self._fire_and_forget:
            if self._witness and one.client_order_id:
                with self._lock:
                    self._sent[one.client_order_id] = one  # open until `accepted` or `rejected`
            else:
                one.ok()
            return None
        one.ok(order_id_of(answer))
        return answer


def dead_letters(
    sink: DLQSink,
    *,
    venue: object,
    account: str | None = None,
    witness: bool = False,
    fire_and_forget: bool = False,
    order: str | None = None,
    audit: AuditLog | None = None,
    metrics: Metrics | None = None,
    on_event: OnEvent | None = None,
) -> DeadLetters:
    """A decorator: what the submit function cannot place becomes an entry, and the call returns None.

    The function may be sync or async; its order is its only argument, the argument that says an order, or the arguments
    by their names (`order` names it where that is not plain). `witness`: on disk before it is sent. `fire_and_forget`:
    the function returns nothing; the engine says `rejected(order, reason)` or `accepted(order, id)` when it learns.
    """
    return DeadLetters(
        sink,
        venue=venue,
        account=account,
        witness=witness,
        fire_and_forget=fire_and_forget,
        order=order,
        reporter=Reporter(audit, metrics, on_event),
    )


def _reason(reason: object) -> BaseException | str:
    return reason if isinstance(reason, BaseException) else text_of(reason)


def _marked_async(submit: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(submit)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await submit(*args, **kwargs)

    return awaited
