"""The client for Alpaca's trading API."""
