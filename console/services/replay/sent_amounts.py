"""What one identity sent to venues in the last hour, as far as it counts towards the second person's limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from backends.records import Actor
from backends.store import SentOrder, Store, StoreError
from console.services.evidence import payload
from console.services.market.exposure import amounts_text, by_currency, over_limit
from console.services.market.worth import worth_of
from console.services.policy import refresh
from console.settings.config import Amounts, ConfigError
from console.settings.limits import LimitsInForce

if TYPE_CHECKING:
    from console.services.replay.plan import ReplayPlan, Step

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SentAmounts:
    """By currency. An order that nobody can value counts nothing in paper; in live it needs a second person anyway."""

    gross: Mapping[str, Decimal] = field(default_factory=dict)
    unvalued: int = 0

    def over(self, more: Mapping[str, Decimal], limit: Amounts, *, is_live: bool) -> str | None:
        """Why `more` on top of it needs a second person; None where it does not."""
        total = by_currency((*self.gross.items(), *more.items()))
        if (why := over_limit(total, limit)) is not None:
            if not self.gross:
                return why
            return f"{why}, counting {amounts_text(self.gross)} that you sent in the last hour"
        if is_live and self.unvalued:
            return "an order that you sent in the last hour has no known value"
        return None


class SendingRules:
    """What the store says at the moment of a send: its policy, and what this person has sent by then."""

    def __init__(self, store: Store, limits: LimitsInForce, actor: Actor) -> None:
        self._store = store
        self._limits = limits
        self._actor = actor

    async def refresh(self) -> None:
        await refresh(self._limits, self._store)

    @property
    def digest(self) -> str | None:
        """Of the policy that was read last; None where it could not be read: then nothing is sent anyway."""
        try:
            return self._limits.digest
        except ConfigError:
            return None

    async def over(self, plan: ReplayPlan, step: Step, now: datetime, *, is_intended: bool) -> str | None:
        """Why this order may not go without a second person; `is_intended`: the ledger counts it already.

        Counted after the intent too, as two consoles may pass the first count together.
        """
        amount = step.worth.amount
        if plan.rehearsal or plan.needs_second is not None or not amount:
            return None
        more = {} if is_intended else {step.worth.currency or "": amount}
        try:
            sent = await sent_last_hour(self._store, plan.mode, self._actor, now)
            over = sent.over(more, self._limits.current().four_eyes_over, is_live=step.is_live)
        except (StoreError, ConfigError) as problem:
            return f"what you sent in the last hour cannot be read: {problem}"
        return None if over is None else f"{over}: plan it again and ask a second person"


async def sent_last_hour(store: Store, mode: str, actor: Actor, now: datetime) -> SentAmounts:
    return added_up(await store.sent_since(now - HOUR, mode, actor), now)


def added_up(orders: Iterable[SentOrder], now: datetime) -> SentAmounts:
    valued = [_valued(one, now) for one in orders]
    known = [(currency or "", amount) for amount, currency in valued if amount is not None]
    return SentAmounts(by_currency(known), len(valued) - len(known))


def _valued(order: SentOrder, now: datetime) -> tuple[Decimal | None, str | None]:
    """As it was valued when it went; an attempt of an earlier version by its own price."""
    if order.notional is not None or order.payload is None:
        return order.notional, order.currency
    sent = payload.decode(order.payload)
    return (None, None) if sent is None else (worth_of(sent.action, None, at=now, quote_seconds=0).amount, None)
