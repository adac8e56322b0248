"""Loads an exchange's markets. At an endpoint of ours kind by kind, so that one that is not served there is no fault.

Must not know how a single exchange words its requests.
"""

from __future__ import annotations

from typing import Any

from venues.ccxt.transport import Reading, at


async def load(exchange: Any, errors: Any, *, ours: bool) -> None:
    """Raises LookupError, or what ccxt raises, if there are none."""
    options = exchange.options.get("fetchMarkets")
    types = options.get("types") if isinstance(options, dict) else None
    with at(Reading()):
        if ours and isinstance(types, list) and len(types) > 1:
            await _kind_by_kind(exchange, errors, types)
        else:
            await exchange.load_markets()
    if not exchange.markets:
        raise LookupError


async def _kind_by_kind(exchange: Any, errors: Any, types: list[str]) -> None:
    """The first kind, which is spot wherever the exchange has it, must be there."""
    options, found = exchange.options["fetchMarkets"], []
    ordered = sorted(types, key=lambda kind: kind != "spot")
    try:
        for kind in ordered:
            exchange.options["fetchMarkets"] = {**options, "types": [kind]}
            try:
                found += await exchange.fetch_markets()
            except errors.BaseError:
                if kind == ordered[0]:
                    raise
    finally:
        exchange.options["fetchMarkets"] = options
    exchange.set_markets(found)
