"""What the orders of a plan add up to, per market and currency, and when that needs a second person. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from console.services.market.worth import buys
from console.settings.config import Amounts, amount_in
from console.text.amounts import spelled_amount
from venues import OrderAction


class Exposed(NamedTuple):
    """One order of a plan."""

    venue: str
    action: OrderAction
    amount: Decimal | None
    currency: str | None


@dataclass(frozen=True, slots=True)
class Exposure:
    venue: str
    account: str
    market: str
    currency: str  # empty: not known
    orders: int
    gross: Decimal
    net: Decimal
    unpriced: int


def exposure_of(orders: Iterable[Exposed]) -> tuple[Exposure, ...]:
    lines: dict[tuple[str, str, str, str], list[Exposed]] = {}
    for one in orders:
        where = (one.venue, one.action.account_id or "", one.action.market_id, one.currency or "")
        lines.setdefault(where, []).append(one)
    result = []
    for (venue, account, market, currency), group in sorted(lines.items()):
        known = [(one.amount, buys(one.action)) for one in group if one.amount is not None]
        result.append(
            Exposure(
                venue=venue,
                account=account,
                market=market,
                currency=currency,
                orders=len(group),
                gross=sum((amount for amount, _ in known), Decimal(0)),
                net=sum((amount if bought else -amount for amount, bought in known), Decimal(0)),
                unpriced=len(group) - len(known),
            )
        )
    return tuple(result)


def over_limit(gross: Mapping[str, Decimal], limits: Amounts) -> str | None:
    """Why a plan needs a second person: one currency over its limit, or all of them together over one limit."""
    shares = Decimal(0)
    for currency, amount in gross.items():
        limit = amount_in(limits, currency or None)
        if limit is None:
            return f"gross {amounts_text({currency: amount})} has no limit of its own"
        if amount > limit:
            return f"gross {amounts_text({currency: amount})} is over {spelled_amount(limit)}"
        shares += amount / limit if limit else Decimal(0)
    return f"gross {amounts_text(gross)} is over the limits of its currencies taken together" if shares > 1 else None


def by_currency(amounts: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    """Sums; what is worth nothing, as a cancel, has no currency either."""
    total: dict[str, Decimal] = {}
    for currency, amount in amounts:
        if amount or currency:
            total[currency] = total.get(currency, Decimal(0)) + amount
    return total


def amounts_text(amounts: Mapping[str, Decimal]) -> str:
    return ", ".join(f"{spelled_amount(amount)} {currency}".rstrip() for currency, amount in amounts.items()) or "0"
