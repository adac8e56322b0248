"""The client for Polymarket."""
