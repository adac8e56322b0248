"""An integration hub: its providers, its stored calls, its own API."""
