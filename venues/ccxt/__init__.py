"""The client for every exchange that ccxt supports."""
