"""Kalshi's trading API."""
