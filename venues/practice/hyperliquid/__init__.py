"""Hyperliquid's API for the practice exchange."""

from venues.practice.hyperliquid.actions import Hyperliquid
from venues.practice.hyperliquid.info import PERPS

__all__ = ["PERPS", "Hyperliquid"]
