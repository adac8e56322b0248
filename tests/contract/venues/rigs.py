"""Every client that the venue suite runs. A client is in it once its rig is in this list."""

from __future__ import annotations

from tests.contract.venues.extra_rig import CCXT, HYPERLIQUID, POLYMARKET
from tests.contract.venues.practice_rig import ALPACA, KALSHI
from tests.contract.venues.rig import Rig

RIGS: tuple[Rig, ...] = (ALPACA, KALSHI, CCXT, HYPERLIQUID, POLYMARKET)
