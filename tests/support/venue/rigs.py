"""Every client that the venue suite runs. A client is in it once its rig is in this list."""

from __future__ import annotations

from tests.support.venue.rig import Rig
from tests.support.venue.rigs_practice import ALPACA, KALSHI
from tests.support.venue.rigs_sdk import CCXT, HYPERLIQUID, POLYMARKET

RIGS: tuple[Rig, ...] = (ALPACA, KALSHI, CCXT, HYPERLIQUID, POLYMARKET)
