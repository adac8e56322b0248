"""Binance's spot API and its USD-M futures API, as ccxt uses them, for the practice exchange."""

from __future__ import annotations

from venues.practice.binance.routes import Binance

__all__ = ["Binance"]
