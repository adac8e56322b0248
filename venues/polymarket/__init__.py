"""Polymarket."""
