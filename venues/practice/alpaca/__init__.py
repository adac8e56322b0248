"""Alpaca's trading API, v2, and the quotes of its data API, for the practice exchange."""

from __future__ import annotations

from venues.practice.alpaca.account import account_number
from venues.practice.alpaca.routes import Alpaca

__all__ = ["Alpaca", "account_number"]
