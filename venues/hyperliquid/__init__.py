"""The client for Hyperliquid."""
