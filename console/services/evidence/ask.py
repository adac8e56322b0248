"""Asks a venue what it has of an entry's order, in any state of the entry. Takes no claim and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple

from backends.records import Actor, Attempt, Entry
from backends.store import Store
from console.clock import Clock
from console.services.evidence import payload
from console.services.evidence.absence import absence_gap, earliest
from console.services.evidence.entry_question import CannotAsk, EntryQuestion, question_of
from console.services.evidence.lookup_verdict import LookupVerdict, judge
from console.services.evidence.reconcile import Reconciliation, VenueWord, send_of
from console.services.replay.outcome import EntryOutcome
from console.services.replay.venue_pool import VenuePool
from venues import Mode, OrderAction, VenueOrder, differences

Answer = Literal["found", "absent", "unknown", "cannot-ask"]


class ComparedField(NamedTuple):
    """One term of the order here and there; None: that side does not say."""

    name: str
    ours: str | None
    theirs: str | None
    differs: bool


@dataclass(frozen=True, slots=True)
class VenueAnswer:
    """What the venue says of one entry's order."""

    entry_id: str
    answer: Answer
    at: datetime
    equal: bool | None = None  # whether the order found has the entry's terms
    differences: tuple[str, ...] = ()
    status: str | None = None
    filled: Decimal | None = None
    venue_order_id: str | None = None
    client_order_id: str | None = None
    account: str | None = None
    detail: str | None = None
    compared: tuple[ComparedField, ...] = ()  # of an order that was found

    @property
    def is_answered(self) -> bool:
        return self.answer in ("found", "absent")


class Inquiry:
    def __init__(
        self, store: Store, pool: VenuePool, actor: Actor, clock: Clock, environment: str | None = None
    ) -> None:
        self._store = store
        self._pool = pool
        self._clock = clock
        self._environment = environment
        self._reconciliation = Reconciliation(store, pool, actor, environment)

    async def run(self, entries: Sequence[Entry], mode: Mode) -> tuple[VenueAnswer, ...]:
        return tuple([await self._one(entry, mode) for entry in entries])

    async def _one(self, entry: Entry, mode: Mode) -> VenueAnswer:
        entry = (await self._store.get(entry.id) or entry) if entry.clipped else entry
        if entry.origin == "intent" and entry.state == "in_doubt":
            return await self._by_intent(entry, mode)
        tried = [
            one for one in await self._store.attempts(entry.id) if one.mode == mode and payload.decode(one.payload)
        ]
        if tried:
            return await self._by_attempt(tried[-1])
        question = await question_of(self._store, self._pool, entry, mode)
        if isinstance(question, CannotAsk):
            return self._told(entry.id, "cannot-ask", account=question.account, detail=question.why)
        return await self._by_entry(question)

    async def _by_intent(self, entry: Entry, mode: Mode) -> VenueAnswer:
        send = send_of(entry, (mode,), self._environment)
        if isinstance(send, EntryOutcome):
            return self._told(entry.id, "cannot-ask", detail=send.detail)
        question = await question_of(self._store, self._pool, entry, mode)
        if isinstance(question, CannotAsk):
            return self._told(entry.id, "cannot-ask", account=question.account, detail=question.why)
        word = await self._reconciliation.ask(send)
        return self._answer(entry.id, question.command.action, question.command.client_order_id, word)

    async def _by_attempt(self, attempt: Attempt) -> VenueAnswer:
        sent = payload.decode(attempt.payload)
        assert sent is not None
        word = await self._reconciliation.ask(attempt)
        return self._answer(attempt.entry_id, sent.action, attempt.client_order_id, word)

    async def _by_entry(self, question: EntryQuestion) -> VenueAnswer:
        command, client = question.command, question.client
        now = min(self._clock(), await self._store.clock())
        found = await client.lookup(question.prepared)
        verdict = question.judged(judge(command.action, found, not_before=earliest(command.captured_at)))
        window = self._pool.window(command.venue)
        gap = question.gap or absence_gap(command.captured_at, now, window=window, reach=client.profile.reach)
        if verdict.kind == "absent" and not client.profile.lookup:
            verdict = LookupVerdict("no-answer", f"{command.venue} cannot be asked by client order id")
        word = VenueWord(verdict, account=question.account, absence_gap=gap, could_ask=client.profile.lookup)
        return self._answer(command.entry_id, command.action, command.client_order_id, word)

    def _answer(self, entry_id: str, action: OrderAction, client_order_id: str, word: VenueWord) -> VenueAnswer:
        verdict, account = word.verdict, word.account
        if verdict.order is not None:
            return self._found(entry_id, action, verdict, account)
        if verdict.kind != "absent":
            kind: Answer = "unknown" if word.could_ask else "cannot-ask"
            return self._told(entry_id, kind, client_order_id, account, verdict.text)
        if word.absence_gap is not None:
            return self._told(entry_id, "unknown", client_order_id, account, f"not found, but {word.absence_gap}")
        return self._told(entry_id, "absent", client_order_id, account, verdict.text)

    def _found(self, entry_id: str, action: OrderAction, verdict: LookupVerdict, account: str | None) -> VenueAnswer:
        order = verdict.order
        assert order is not None
        other = () if action.verb == "cancel" else differences(action, order)
        if verdict.kind == "conflict" and not other:
            other = (verdict.text.removeprefix("conflict: "),)
        return VenueAnswer(
            entry_id=entry_id,
            answer="found",
            at=self._clock(),
            equal=not other,
            differences=other,
            status=order.status,
            filled=order.filled,
            venue_order_id=order.venue_order_id,
            client_order_id=order.client_order_id,
            account=account,
            detail="; ".join((verdict.text, *map(_leg_text, order.legs))),
            compared=tuple(_compared(action, order, other)),
        )

    def _told(
        self,
        entry_id: str,
        answer: Answer,
        client_order_id: str | None = None,
        account: str | None = None,
        detail: str | None = None,
    ) -> VenueAnswer:
        return VenueAnswer(
            entry_id, answer, self._clock(), client_order_id=client_order_id, account=account, detail=detail
        )


def _compared(action: OrderAction, order: VenueOrder, other: Sequence[str]) -> Iterator[ComparedField]:
    """Every term that one side says, ours first."""
    differing = {text.partition(":")[0] for text in other}
    pairs: list[tuple[str, object, object]] = [
        ("market", action.market_id or None, order.market_id),
        ("side", action.side or None, order.side),
        ("quantity", action.quantity or None, order.quantity),
        ("type", action.order_type, order.order_type),
        ("price", action.price, order.price),
        ("time in force", action.time_in_force, order.time_in_force),
    ]
    ours, theirs = action.terms.document(), order.terms.document()
    pairs += [(name, ours.get(name), theirs.get(name)) for name in dict.fromkeys((*ours, *theirs))]
    for name, mine, held in pairs:
        if mine is not None or held is not None:
            yield ComparedField(name, _said(mine), _said(held), name in differing)


def _said(held: object) -> str | None:
    if held is None:
        return None
    return f"{held:f}" if isinstance(held, Decimal) else str(held)


def _leg_text(leg: VenueOrder) -> str:
    """An order that belongs to the one found, as an exit of a bracket."""
    prices = (("limit", leg.price), ("stop", leg.terms.stop_price))
    at = " ".join(f"{word} {price:f}" for word, price in prices if price is not None)
    return f"leg {leg.venue_order_id}: {leg.side or ''} {leg.order_type or ''} {at} {leg.status}".replace("  ", " ")
