"""Which contract a market id names at Interactive Brokers: at once, or after the gateway was asked. Pure.

Reads ib_async's objects by attribute; must not import the SDK or know a socket.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from venues.orders import Refused

Fields = Mapping[str, object]

_PARTS = ("symbol", "secType", "exchange", "currency")
_WHOLE = re.compile(r"(?P<symbol>[^:\s]+):(?P<secType>[A-Z]{2,6}):(?P<exchange>[A-Z0-9.]+):(?P<currency>[A-Z]{3})")
_NUMBER = re.compile(r"(?P<number>[0-9]{1,12})(?:@(?P<exchange>[A-Z0-9.]+))?")
_OPTION = re.compile(r"(?=[A-Z0-9]+ *[0-9]{6}[CP])[A-Z0-9 ]{6}[0-9]{6}[CP][0-9]{8}")
_FUTURE = re.compile(r"(?P<symbol>[A-Z0-9.]{1,12}) (?P<month>[0-9]{6}|[0-9]{8})")
_STOCK = re.compile(r"[A-Z0-9.]{1,12}(?: [A-Z]{1,3})?")
_MOST_LISTED = 4


def contract_of(market_id: str) -> dict[str, object] | None:
    """Return the contract that the id names by itself: a conId, conId@EXCHANGE or SYMBOL:TYPE:EXCHANGE:CURRENCY."""
    if (number := _NUMBER.fullmatch(market_id)) is not None:
        return {"conId": int(number["number"]), "exchange": number["exchange"] or "SMART"}
    if (parts := _WHOLE.fullmatch(market_id)) is not None:
        return dict(parts.groupdict())
    return None


def question_of(market_id: str) -> dict[str, object] | None:
    """Return what to ask the gateway for, to learn which contract the id names; None if that cannot be asked."""
    if _OPTION.fullmatch(market_id):
        return {"localSymbol": market_id, "secType": "OPT", "exchange": "SMART"}
    if (future := _FUTURE.fullmatch(market_id)) is not None:
        month = future["month"]
        return {"symbol": future["symbol"], "secType": "FUT", "lastTradeDateOrContractMonth": month}
    if _STOCK.fullmatch(market_id):
        return {"symbol": market_id, "secType": "STK", "exchange": "SMART"}
    return None


@dataclass(frozen=True, slots=True)
class Listing:
    """One contract as the gateway describes it."""

    number: int
    symbol: str
    kind: str
    exchange: str
    currency: str
    words: str
    size: Decimal  # what one contract's price stands for

    def is_of(self, contract: Any) -> bool:
        """Whether this is that contract; TWS repeats what a client sent, which may have been sent without a number."""
        if contract.conId:
            return bool(contract.conId == self.number)
        named = (contract.symbol, contract.secType, contract.currency)
        return named == (self.symbol, self.kind, self.currency)

    @property
    def market_id(self) -> str:
        return str(self.number) if self.exchange == "SMART" else f"{self.number}@{self.exchange}"

    @property
    def fields(self) -> dict[str, object]:
        return {"conId": self.number, "exchange": self.exchange}


def listing_of(details: Any) -> Listing | None:
    """Return the listing in a gateway's contract details; None if a part is missing or makes no sense."""
    contract = details.contract
    try:
        multiplier = Decimal(contract.multiplier or "1")
        size = multiplier / Decimal(details.priceMagnifier or 1)
    except ArithmeticError:
        return None
    if not contract.conId or not contract.exchange or not contract.currency or not size > 0:
        return None
    named = (contract.localSymbol.strip() or contract.symbol, contract.secType, contract.exchange, contract.currency)
    number, kind = int(contract.conId), contract.secType
    return Listing(number, contract.symbol, kind, contract.exchange, contract.currency, " ".join(named), size)


def the_one(market_id: str, found: Sequence[Any]) -> Listing | Refused:
    """Return the only listing that the gateway has for an id; several are listed, as none of them may be guessed."""
    if not found:
        return Refused(f"market {market_id}: the gateway knows no such contract")
    listings = [listing_of(details) for details in found]
    known = list(dict.fromkeys(one for one in listings if one is not None))
    if len(known) != 1 or None in listings:
        told = "; ".join(f"{one.market_id} is {one.words}" for one in known[:_MOST_LISTED])
        more = f"; and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
        return Refused(f"market {market_id}: {len(listings)} contracts at the gateway, name one: {told}{more}")
    return known[0]


def unclear(market_id: str) -> Refused:
    if question_of(market_id) is None:
        return Refused(f"market {market_id}: ibkr needs a conId or a full name such as AAPL:STK:SMART:USD")
    return Refused(
        f"market {market_id}: the gateway was not asked which contract it is: give AAPL:STK:SMART:USD or a conId"
    )


def market_of(wanted: Fields | None, contract: Any, market_id: str) -> str:
    """Return the action's own market id if this contract is the wanted one, else what the contract is."""
    if wanted is not None:
        same = ("conId",) if "conId" in wanted else ("symbol", "secType", "currency")
        if all(getattr(contract, name) == wanted[name] for name in same):
            return market_id
    return ":".join(str(getattr(contract, name)) for name in _PARTS)


def shown_market(contract: Fields) -> str:
    """Return the market id that names exactly this contract."""
    if "conId" not in contract:
        return ":".join(str(contract[name]) for name in _PARTS)
    number, exchange = contract["conId"], contract["exchange"]
    return str(number) if exchange == "SMART" else f"{number}@{exchange}"
