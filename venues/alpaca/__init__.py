"""Alpaca's trading API."""
