"""The client for Kalshi's trading API."""
