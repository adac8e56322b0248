"""A loopback exchange that speaks Alpaca's, Kalshi's, Binance's and Hyperliquid's formats, with faults on demand.

For practice, demos and tests: it accepts any credentials, each key is an account of its own, and it listens on
127.0.0.1 only. Must not import a client.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

from venues.practice.book import Order
from venues.practice.exchange import PracticeError, PracticeExchange
from venues.practice.faults import BEHAVIOURS, DEMO_SYMBOLS, Fault, FaultError

__all__ = [
    "BEHAVIOURS",
    "DEMO_SYMBOLS",
    "Fault",
    "FaultError",
    "Order",
    "PracticeError",
    "PracticeExchange",
    "serve",
]


def serve(
    port: int = 0,
    ledger: Path | None = None,
    *,
    script: Path | None = None,
    announce: Callable[[str], None],
    fsync: bool = True,
) -> None:
    """Run until SIGTERM or SIGINT; call `announce` with the URL once it answers. Raises PracticeError."""
    asyncio.run(_serve(PracticeExchange(port, ledger, script=script, fsync=fsync), announce))


async def _serve(exchange: PracticeExchange, announce: Callable[[str], None]) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    async with exchange:
        announce(exchange.url)
        await over.wait()
