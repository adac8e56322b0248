"""Clients for integration hubs and for the providers behind them."""
