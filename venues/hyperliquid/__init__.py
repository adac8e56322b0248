"""Hyperliquid."""
