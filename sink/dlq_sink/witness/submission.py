"""One submit, from before the send to its order id or its entry; with a witness, on disk before it is sent.

Knows the sink; what sends the order is the engine's.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from dlq_sink.capture.answer import order_id_of
from dlq_sink.capture.report import Reporter
from dlq_sink.capture.request import (
    dead_letter,
    entry_for,
    fields_in,
    said_in,
    stored_error,
    text_of,
    venue_name,
)
from dlq_sink.record import DeadLetteredOrder, new_dlq_id
from dlq_sink.witness.client_id import client_id_in, client_id_of, needs_id, new_client_id, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from dlq_sink.contract import DLQSink
    from dlq_sink.witness.lease import IntentKeeper

_log = logging.getLogger("dlq_sink.capture")
_NO_ANSWER = "RuntimeError: unknown outcome: the submit ended and told no order id"


class Submission:
    """`with` or `async with`: entered before the send; `ok` says that the venue took the order.

    What is raised inside becomes an entry and goes on its way. The intent is resolved on leaving, so that whatever the
    engine notes of the order inside is covered by the witness, too. `client_order_id` is what a look-up at the venue
    will ask for; it stands in the order itself, from entering to leaving.
    """

    def __init__(
        self,
        sink: DLQSink,
        action: Any,
        *,
        venue: object = "",
        account: str | None = None,
        witness: bool = True,
        is_sent: bool = True,
        reporter: Reporter | None = None,
    ) -> None:
        """`is_sent`: the action itself goes to the venue, and an id that is put into it with it."""
        self.dlq_id = new_dlq_id()
        self.action = action
        self._can_carry = is_sent
        self._client_id: str | None = None
        self.venue_order_id: str | None = None
        self.entry: DeadLetteredOrder | None = None  # what it became, if it was not placed
        self._sink = sink
        self._venue = venue
        self._account = account
        self._reporter = reporter or Reporter()
        self._keeper: IntentKeeper | None = _keeper(sink) if witness else None
        self._witnessed: DeadLetteredOrder | None = None
        self._pid = os.getpid()
        self._take_out: Callable[[], object] | None = None
        self._defers = False  # inside `with`: resolved on leaving, after the engine's own notes of the order
        self._is_over = False

    @property
    def client_order_id(self) -> str | None:
        """Of a witnessed order: the one it was sent with."""
        return client_id_of(self.action) if self._witnessed is None else self._client_id

    @property
    def is_open(self) -> bool:
        return not self._is_over

    def begin(self) -> Self:
        """Write the witness; raises where that fails, and then nothing may be sent."""
        if self._keeper is None:
            return self
        fields = fields_in(self.action)
        said = said_in(fields)
        if self._can_carry and needs_id(said):
            self._take_out = put(self.action, new_client_id(venue_name(self._venue)))
            fields = fields_in(self.action)
            said = said_in(fields)
        self._client_id = client_id_in(said)
        made = entry_for(self._venue, fields, said, "", account=self._account, dlq_id=self.dlq_id)
        try:
            self._keeper.open(made)
            self._witnessed = made
            self._reporter.tell("intent", self._facts(made))
        except Exception:
            self._restore()
            raise
        except BaseException as stop:
            self._witnessed = made  # it may be on disk or not
            self.missed(stop, f"{type(stop).__name__}: interrupted before the send; nothing was sent")
            raise
        return self

    def ok(self, answer: object = None) -> str | None:
        """The venue took the order: its id, or the order that the venue answered with."""
        self.venue_order_id = None if answer is None else order_id_of(answer)
        self._is_over = True
        if not self._defers:
            self._resolve()
        return self.venue_order_id

    def failed(self, problem: BaseException | str, *, layer: str = "venue_exception") -> DeadLetteredOrder:
        """Keep the order as an entry; with a witness the intent is resolved in the same transaction."""
        error = problem if isinstance(problem, str) else error_of(problem)
        known = self._witnessed
        entry = (
            replace(known, captured_at=datetime.now(UTC), error=stored_error(error))
            if known is not None
            else self._entry(error)
        )
        self._reporter.count_reject(layer)
        facts = self._facts(entry) | {"error": entry.error}
        try:
            if self._keeper is not None and known is not None:
                self._keeper.fail(entry)
            else:
                self._sink.write(entry)
        except BaseException:
            lost = facts | {"lost": True, "action": entry.action_json}
            self._reporter.reject(lost)
            self._reporter.tell("lost", lost)
            raise
        self._is_over = True
        self.entry = entry
        self._restore()
        self._reporter.reject(facts)
        self._reporter.tell("dead_letter", facts)
        return entry

    def missed(self, problem: BaseException, error: str | None = None) -> None:
        """As `failed`; where the entry cannot be written, an error stays in sight behind the sink's own.

        What stops an engine goes on its way even then: else it would look like an error that the engine goes on after.
        """
        try:
            self.failed(problem if error is None else error)
        except Exception as unkept:
            if isinstance(problem, Exception):
                unkept.__cause__ = problem
                raise
            problem.add_note(f"the order is neither placed nor kept: {type(unkept).__name__}: {unkept}")
            _log.exception("%s: an order that was interrupted could not be kept", self.dlq_id)

    def __enter__(self) -> Self:
        self._defers = True
        return self.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pid != os.getpid():
            return  # a fork inside: the intent is the parent's
        if self._is_over and self.entry is None:
            self._resolve()
        elif not self._is_over:
            self._ended(error)

    async def __aenter__(self) -> Self:
        from dlq_sink.capture.waiting import begin_in_thread

        self._defers = True
        await begin_in_thread(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        from dlq_sink.capture.waiting import in_thread

        if self._pid != os.getpid():
            return
        if self._is_over and self.entry is None:
            await in_thread(self._resolve)
        elif not self._is_over and error is not None and not isinstance(error, Exception):
            self.missed(error)  # at once: a cancelled task may not get another turn
        elif not self._is_over:
            await in_thread(lambda: self._ended(error))

    def _ended(self, error: BaseException | None) -> None:
        if error is None:
            self.failed(_NO_ANSWER)
        else:
            self.missed(error)

    def _resolve(self) -> None:
        if self._keeper is not None and self._witnessed is not None:
            self._keeper.resolve(self.dlq_id, self.venue_order_id)
        self._restore()
        self._reporter.tell("placed", {"dlq_id": self.dlq_id, "venue": venue_name(self._venue)})

    def _entry(self, error: str) -> DeadLetteredOrder:
        return dead_letter(self._venue, self.action, error, account=self._account, dlq_id=self.dlq_id)

    def _facts(self, entry: DeadLetteredOrder) -> dict[str, object]:
        return {"dlq_id": entry.dlq_id, "venue": entry.venue_name, "market_id": entry.market_id}

    def _restore(self) -> None:
        """The engine's order as it was, so that the next order made from it gets an id of its own."""
        take_out, self._take_out = self._take_out, None
        if take_out is not None:
            take_out()


def intent(
    sink: DLQSink,
    action: Any,
    *,
    venue: object = "",
    account: str | None = None,
    reporter: Reporter | None = None,
) -> Submission:
    """A witness: the order is on disk before it is sent. Use it `with` or `async with`, and say `ok` inside."""
    return Submission(sink, action, venue=venue, account=account, reporter=reporter)


def error_of(problem: BaseException) -> str:
    """As it is stored. What stops an engine from outside says nothing about the order."""
    text = f"{type(problem).__name__}: {text_of(problem)}"
    return (
        text if isinstance(problem, Exception) else f"{text.rstrip(': ')}: unknown outcome: the submit was interrupted"
    )


def _keeper(sink: DLQSink) -> IntentKeeper:
    intents = getattr(sink, "intents", None)
    if intents is None:
        raise TypeError(f"{type(sink).__name__} keeps no intents: use a sink of dlq_sink, or do without a witness")
    keeper: IntentKeeper = intents()
    return keeper
